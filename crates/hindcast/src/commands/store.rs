//! `hindcast store`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use hindcast_core::{
    audit::AuditKey,
    store::{MetadataStore as _, StoreError},
};
use hindcast_stores::{
    MovableStore as _, Moved, PostgresSettings, PostgresStore, PostgresTally, SqliteStore, transfer,
};
use serde_json::json;

use super::{print_json, print_text, small_runtime};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{Json, MigrateStore, Store, StoreKind},
    wiring,
};

/// How many rows are moved between two lines of the log.
const TOLD_EVERY: u64 = 100_000;

pub(super) fn run(config: &Config, store: &Store) -> Result<ExitCode> {
    crate::data_folder::keep_from_others();
    match store {
        Store::Status(output) => status(config, *output)?,
        Store::Migrate(request) => migrate(config, request)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Only looks: a trail that this opened would stand in the way of a move to that store.
fn status(config: &Config, output: Json) -> Result<()> {
    let folder = DataFolder::existing(&config.data_dir)?;
    let (kind, held) = match wiring::postgres_settings(&config.store)? {
        Some(settings) => ("PostgreSQL", small_runtime()?.block_on(PostgresStore::tally(&settings))?.into()),
        None => ("SQLite", small_runtime()?.block_on(held_in(&folder))?),
    };
    let Held { place, keys, rows, is_sealed } = held;
    let is_unfinished = rows > 0 && !is_sealed;
    if output.json {
        return print_json(
            &json!({ "store": kind, "place": place, "keys": keys, "audit_rows": rows, "unfinished_move": is_unfinished }),
        );
    }
    let note = if is_unfinished { "note        a move here was interrupted: run it again\n" } else { "" };
    print_text(&format!("store       {kind} at {place}\nkeys        {keys}\naudit rows  {rows}\n{note}"))
}

/// What a store keeps.
struct Held {
    place: String,
    keys: u64,
    rows: u64,
    is_sealed: bool,
}

impl From<PostgresTally> for Held {
    fn from(tally: PostgresTally) -> Self {
        let PostgresTally { place, keys, rows, is_sealed } = tally;
        Self { place, keys, rows, is_sealed }
    }
}

async fn held_in(folder: &DataFolder) -> Result<Held> {
    let place = folder.database().display().to_string();
    if !folder.database().exists() {
        return Ok(Held { place, keys: 0, rows: 0, is_sealed: false });
    }
    let key = folder.existing_audit_key()?.context(
        "the data folder has no audit.key · hint: restore it; without it the audit trail cannot be read to its end",
    )?;
    let store = SqliteStore::inspect(&folder.database(), key)?;
    store.settle_audit().await?;
    let keys = store.list_keys().await?.len() as u64;
    let rows = store.last_row().await?.map_or(0, |last| last.seq);
    Ok(Held { place, keys, rows, is_sealed: store.sealed_head().await?.is_some() })
}

fn migrate(config: &Config, request: &MigrateStore) -> Result<()> {
    let folder = DataFolder::existing(&config.data_dir)?;
    // A server of this folder would write to what is read.
    let _lock = folder.lock()?;
    let key = folder.existing_audit_key()?.context(
        "the data folder has no audit.key · hint: copy it from the data folder of a server that uses the store",
    )?;
    let settings = wiring::postgres_settings(&config.store)?.context(
        "no database is named · hint: give `--store-url postgres://USER@HOST/DATABASE`, or set `store.url`",
    )?;
    let moved = small_runtime()?.block_on(async {
        match request.to {
            StoreKind::Postgres => to_postgres(&folder, &settings, key).await,
            StoreKind::Sqlite => to_sqlite(&folder, &settings, key).await,
        }
    })?;
    tell(request, &moved)
}

async fn to_postgres(folder: &DataFolder, settings: &PostgresSettings, key: SigningKey) -> Result<Moved> {
    let from = SqliteStore::inspect(&folder.database(), key.clone())?;
    let to = PostgresStore::open_to_fill(settings, key.clone()).await?;
    let license = match folder.license().is_file() {
        true => Some(std::fs::read_to_string(folder.license())?),
        false => None,
    };
    let install = async {
        match license {
            Some(license) => to.install_license(&license).await,
            None => Ok(()),
        }
    };
    Ok(transfer(&from, &to, &AuditKey::new(key), install, &mut progress()).await?)
}

async fn to_sqlite(folder: &DataFolder, settings: &PostgresSettings, key: SigningKey) -> Result<Moved> {
    let from = PostgresStore::inspect(settings, key.clone()).await?;
    let to = SqliteStore::open_to_fill(&folder.database(), key.clone())?;
    let install = async {
        let Some(license) = from.license().await? else { return Ok(()) };
        folder.keep_license(&license).map_err(|error| {
            let path = folder.license();
            StoreError::Unavailable(format!("the license cannot be written to `{}`: {error}", path.display()))
        })
    };
    Ok(transfer(&from, &to, &AuditKey::new(key), install, &mut progress()).await?)
}

/// Tells the log now and then how far it is.
fn progress() -> impl FnMut(u64, u64) + Send {
    let mut told = 0;
    move |done, all| {
        if done >= told + TOLD_EVERY {
            told = done;
            tracing::info!("{done} of {all} audit rows are copied");
        }
    }
}

fn tell(request: &MigrateStore, moved: &Moved) -> Result<()> {
    let Moved { keys, rows, rows_there } = *moved;
    if request.output.json {
        return print_json(
            &json!({ "keys": keys, "audit_rows": rows, "audit_rows_already_there": rows_there }),
        );
    }
    let next = match request.to {
        StoreKind::Postgres => "set `store.url` for all servers and give each the same audit.key",
        StoreKind::Sqlite => "take `store.url` out of the configuration",
    };
    print_text(&format!("copied and compared {keys} keys and {rows} audit rows; next: {next}\n"))
}
