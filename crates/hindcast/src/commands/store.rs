//! `hindcast store`.

use std::process::ExitCode;

use anyhow::{Context, Result};
use ed25519_dalek::SigningKey;
use hindcast_core::{
    audit::AuditKey,
    knowledge::Catalogue as _,
    store::{MetadataStore as _, StoreError},
};
use hindcast_stores::{
    KnowledgeFile, MovableStore as _, Moved, MovedKnowledge, PostgresKnowledge, PostgresSettings,
    PostgresStore, SqliteKnowledge, SqliteStore, StoreTally, TransferError, transfer, transfer_knowledge,
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
        Some(settings) => ("PostgreSQL", small_runtime()?.block_on(PostgresStore::tally(&settings))?),
        None => ("SQLite", small_runtime()?.block_on(held_in(&folder))?),
    };
    let StoreTally { place, keys, rows, is_sealed, collections, documents, chunks, is_being_moved } = held;
    let is_unfinished = (rows > 0 && !is_sealed) || is_being_moved;
    if output.json {
        return print_json(&json!({
            "store": kind, "place": place, "keys": keys, "audit_rows": rows, "collections": collections,
            "documents": documents, "chunks": chunks, "unfinished_move": is_unfinished,
        }));
    }
    let note = if is_unfinished { "note        a move here was interrupted: run it again\n" } else { "" };
    print_text(&format!(
        "store       {kind} at {place}\nkeys        {keys}\naudit rows  {rows}\ncollections {collections}\n\
         documents   {documents}\nchunks      {chunks}\n{note}"
    ))
}

/// What a data folder keeps.
async fn held_in(folder: &DataFolder) -> Result<StoreTally> {
    let mut held = StoreTally { place: folder.database().display().to_string(), ..StoreTally::default() };
    for collection in SqliteKnowledge::in_file(&folder.knowledge()).collections(None).await? {
        held.collections += 1;
        held.documents += collection.documents;
        held.chunks += collection.chunks;
    }
    if !folder.database().exists() {
        return Ok(held);
    }
    let key = folder.existing_audit_key()?.context(
        "the data folder has no audit.key · hint: restore it; without it the audit trail cannot be read to its end",
    )?;
    let store = SqliteStore::inspect(&folder.database(), key)?;
    store.settle_audit().await?;
    held.keys = store.list_keys().await?.len() as u64;
    held.rows = store.last_row().await?.map_or(0, |last| last.seq);
    held.is_sealed = store.sealed_head().await?.is_some();
    Ok(held)
}

fn migrate(config: &Config, request: &MigrateStore) -> Result<()> {
    let folder = DataFolder::existing(&config.data_dir)?;
    // A server of this folder would write to what is read.
    let _lock = folder.lock()?;
    let settings = wiring::postgres_settings(&config.store)?.context(
        "no database is named · hint: give `--store-url postgres://USER@HOST/DATABASE`, or set `store.url`",
    )?;
    let machine = wiring::machine(config, &folder)?;
    if request.only_knowledge {
        let moved = small_runtime()?.block_on(move_knowledge(request.to, &folder, &settings, machine))?;
        return tell(request, None, &moved);
    }
    let key = folder.existing_audit_key()?.context(
        "the data folder has no audit.key · hint: copy it from the data folder of a server that uses the store",
    )?;
    let (moved, knowledge) = small_runtime()?.block_on(async {
        match request.to {
            StoreKind::Postgres => to_postgres(&folder, &settings, key, machine).await,
            StoreKind::Sqlite => to_sqlite(&folder, &settings, key, machine).await,
        }
    })?;
    tell(request, Some(&moved), &knowledge)
}

async fn to_postgres(
    folder: &DataFolder,
    settings: &PostgresSettings,
    key: SigningKey,
    machine: String,
) -> Result<(Moved, MovedKnowledge)> {
    let from = SqliteStore::inspect(&folder.database(), key.clone())?;
    let to = PostgresStore::open_to_fill(settings, key.clone()).await?;
    let license = match folder.license().is_file() {
        true => Some(std::fs::read_to_string(folder.license())?),
        false => None,
    };
    let mut knowledge = MovedKnowledge::default();
    let rest = async {
        knowledge = move_knowledge(StoreKind::Postgres, folder, settings, machine).await?;
        if let Some(license) = license {
            to.install_license(&license).await?;
        }
        Ok::<(), TransferError>(())
    };
    let moved = transfer(&from, &to, &AuditKey::new(key), rest, &mut progress()).await?;
    Ok((moved, knowledge))
}

async fn to_sqlite(
    folder: &DataFolder,
    settings: &PostgresSettings,
    key: SigningKey,
    machine: String,
) -> Result<(Moved, MovedKnowledge)> {
    let from = PostgresStore::inspect(settings, key.clone()).await?;
    let to = SqliteStore::open_to_fill(&folder.database(), key.clone())?;
    let mut knowledge = MovedKnowledge::default();
    let rest = async {
        knowledge = move_knowledge(StoreKind::Sqlite, folder, settings, machine).await?;
        if let Some(license) = from.license().await? {
            folder.keep_license(&license).map_err(|error| {
                let path = folder.license().display().to_string();
                StoreError::Unavailable(format!("the license cannot be written to `{path}`: {error}"))
            })?;
        }
        Ok::<(), TransferError>(())
    };
    let moved = transfer(&from, &to, &AuditKey::new(key), rest, &mut progress()).await?;
    Ok((moved, knowledge))
}

async fn move_knowledge(
    to: StoreKind,
    folder: &DataFolder,
    settings: &PostgresSettings,
    machine: String,
) -> Result<MovedKnowledge, TransferError> {
    let file = KnowledgeFile::at(&folder.knowledge());
    let database = PostgresKnowledge::open_to_move(settings, machine).await?;
    match to {
        StoreKind::Postgres => transfer_knowledge(&file, &database).await,
        StoreKind::Sqlite => {
            let moved = transfer_knowledge(&database, &file).await?;
            // They may be of what was there before. They are made again.
            folder.remove_kept_indexes().map_err(|error| {
                StoreError::Unavailable(format!(
                    "the indexes of the knowledge base cannot be removed: {error}"
                ))
            })?;
            Ok(moved)
        }
    }
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

fn tell(request: &MigrateStore, moved: Option<&Moved>, knowledge: &MovedKnowledge) -> Result<()> {
    let MovedKnowledge { collections, documents, chunks, rows_moved } = *knowledge;
    if request.output.json {
        let mut told = json!({
            "collections": collections, "documents": documents, "chunks": chunks, "knowledge_rows_moved": rows_moved,
        });
        if let Some(Moved { keys, rows, rows_there }) = moved {
            told["keys"] = json!(keys);
            told["audit_rows"] = json!(rows);
            told["audit_rows_already_there"] = json!(rows_there);
        }
        return print_json(&told);
    }
    let next = match request.to {
        StoreKind::Postgres => "set `store.url` for all servers and give each the same audit.key",
        StoreKind::Sqlite => "take `store.url` out of the configuration",
    };
    let keys = moved
        .map_or_else(String::new, |Moved { keys, rows, .. }| format!("{keys} keys, {rows} audit rows, "));
    print_text(&format!(
        "copied and compared {keys}{collections} collections with {documents} documents; next: {next}\n"
    ))
}
