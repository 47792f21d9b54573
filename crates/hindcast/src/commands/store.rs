//! `hindcast store`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use hindcast_core::{audit::AuditKey, store::MetadataStore as _};
use hindcast_services::Events;
use hindcast_stores::{Moved, PostgresSettings, PostgresStore, SqliteStore, transfer};
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

fn status(config: &Config, output: Json) -> Result<()> {
    let folder = DataFolder::existing(&config.data_dir)?;
    let gateway = wiring::gateway(config, &folder, &Events::default())?;
    let (keys, head) = small_runtime()?.block_on(async {
        gateway.probe().await?;
        anyhow::Ok((gateway.list_keys().await?.len(), gateway.audit().head().await?))
    })?;
    let rows = head.map_or(0, |head| head.seq);
    let (kind, place) = match gateway.database() {
        Some(database) => ("PostgreSQL", database.to_owned()),
        None => ("SQLite", folder.database().display().to_string()),
    };
    if output.json {
        return print_json(&json!({ "store": kind, "place": place, "keys": keys, "audit_rows": rows }));
    }
    print_text(&format!("store       {kind} at {place}\nkeys        {keys}\naudit rows  {rows}\n"))
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
    let moved = transfer(&from, &to, &AuditKey::new(key), &mut progress()).await?;
    if folder.license().is_file() {
        to.install_license(&std::fs::read_to_string(folder.license())?).await?;
    }
    Ok(moved)
}

async fn to_sqlite(folder: &DataFolder, settings: &PostgresSettings, key: SigningKey) -> Result<Moved> {
    let from = PostgresStore::inspect(settings, key.clone()).await?;
    let to = SqliteStore::open_to_fill(&folder.database(), key.clone())?;
    let moved = transfer(&from, &to, &AuditKey::new(key), &mut progress()).await?;
    if let Some(license) = from.license().await? {
        std::fs::write(folder.license(), license)?;
    }
    to.probe().await?;
    Ok(moved)
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
