//! `hindcast knowledge export` and `import`.

use std::{path::Path, process::ExitCode};

use anyhow::{Result, anyhow, bail};
use hindcast_core::{
    identity::{Caller, PrincipalId},
    knowledge::{Catalogue, Ownership, id_of_name},
    printable::printable,
    store::StoreError,
    time::Clock,
};
use hindcast_services::knowledge::KnowledgeService;
use hindcast_stores::{MovedCollection, SqliteKnowledge};
use serde_json::json;

use super::{print_json, print_text};
use crate::{
    options::{ExportKnowledge, ImportKnowledge},
    wiring::SystemClock,
};

fn say(moved: &MovedCollection, id: &str, done: &str, is_json: bool) -> Result<ExitCode> {
    if is_json {
        print_json(
            &json!({ "collection": id, "documents": moved.documents, "watched": moved.watched, "vectors_of": moved.models }),
        )?;
    } else {
        print_text(&format!("{id}: {} documents {done}\n", moved.documents))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn export(
    knowledge: &KnowledgeService,
    store: &SqliteKnowledge,
    caller: &Caller,
    export: ExportKnowledge,
) -> Result<ExitCode> {
    let collection = knowledge.collection(caller, &export.name).await?;
    let moved = store.export_collection(collection.key, &export.file).await?;
    say(&moved, &collection.id, "exported", export.output.json)
}

pub(super) async fn import(
    knowledge: &KnowledgeService,
    store: &SqliteKnowledge,
    caller: &Caller,
    import: ImportKnowledge,
) -> Result<ExitCode> {
    if !import.file.is_file() {
        bail!("there is no file `{}`", import.file.display());
    }
    let models = [knowledge.usual_vectors()];
    let found = store.exported(&import.file, &models).await.map_err(|error| in_file(error, &import.file))?;
    // The id was made where it came from; a new name makes a new one.
    let (id, name) = match import.name {
        Some(name) => match id_of_name(&name) {
            Ok(id) => (id, name.trim().to_owned()),
            Err(problem) => bail!("{problem} · hint: give another name with `--name`"),
        },
        None => (found.id.clone(), found.name.clone()),
    };
    let is_known =
        knowledge.collections(caller).await?.iter().any(|known| known.id == id || known.name == name);
    if is_known || id.contains('@') {
        bail!(
            "a collection cannot be called `{}` here, or is already · hint: give another name with `--name`",
            printable(&name)
        );
    }
    let ownership = match &import.whose.owner {
        Some(owner) => Ownership::Private(PrincipalId(owner.as_str().into())),
        None => Ownership::Shared,
    };
    let now = SystemClock.now();
    let made = store.open_collection(ownership, caller.principal.clone(), id.clone(), name, now).await?;
    let mut models = Vec::new();
    let mut done = "imported; its folders are not watched here".to_owned();
    for model in &found.models {
        match knowledge.vector_length(model).await? {
            Some(length) => models.push((model.clone(), length)),
            None => {
                done += &format!(
                    "; without the vectors of `{}`, a model that cannot be used here · hint: with the model, \
                     `hindcast knowledge reindex` makes them again",
                    printable(model)
                );
            }
        }
    }
    match store.import_collection(&import.file, made.key, now, &models).await {
        Ok(moved) => say(&moved, &id, &done, import.output.json),
        Err(error) => {
            store.remove_unused_collection(made.key).await?;
            Err(in_file(error, &import.file))
        }
    }
}

/// What is wrong with a file that is imported. SQLite does not tell it from the store.
fn in_file(error: StoreError, file: &Path) -> anyhow::Error {
    let is_damaged = match &error {
        // It says what is wrong with the file.
        StoreError::Corrupt(reason) if reason.contains("is not an export of hindcast") => {
            return anyhow!("{reason}");
        }
        StoreError::Corrupt(_) => true,
        StoreError::Unavailable(reason) => ["malformed", "not a database", "no such table", "no such column"]
            .iter()
            .any(|sign| reason.contains(sign)),
        _ => false,
    };
    if is_damaged {
        return anyhow!("`{}` is not an export of hindcast, or is damaged ({error})", file.display());
    }
    error.into()
}
