//! `hindcast knowledge settings`.

use std::process::ExitCode;

use anyhow::Result;
use hindcast_core::knowledge::{Collection, Language};
use hindcast_services::knowledge::{KnowledgeService, SettingsChange};
use serde_json::{Value, json};

use super::{knowledge::caller, print_json, print_text, progress_line::ProgressLine};
use crate::options::SettingsKnowledge;

pub(super) async fn run(knowledge: &KnowledgeService, settings: SettingsKnowledge) -> Result<ExitCode> {
    let caller = caller(&settings.whose);
    let change = SettingsChange {
        model: settings.model,
        language: settings.language,
        passage_bytes: settings.passage_bytes,
    };
    let has_model = change.model.is_some();
    let mut notices = Vec::new();
    let mut collection = if change.is_nothing() {
        knowledge.collection(&caller, &settings.name).await?
    } else {
        knowledge.change_settings(&caller, &settings.name, change).await?
    };
    if has_model {
        let progress = ProgressLine::new("chunks");
        notices = knowledge.reindex(&progress).await?;
        progress.finish();
        collection = knowledge.collection(&caller, &settings.name).await?;
    }
    if settings.output.json {
        print_json(&value(&collection, &notices))?;
    } else {
        print_text(&text(&collection, &notices))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn value(collection: &Collection, notices: &[String]) -> Value {
    json!({
        "collection": collection.id,
        "model": collection.settings.model,
        "vectors_by": collection.vectors_by,
        "language": collection.settings.language.map(Language::code),
        "passage_bytes": collection.settings.passage_bytes,
        "notices": notices,
    })
}

fn text(collection: &Collection, notices: &[String]) -> String {
    let settings = &collection.settings;
    let mut text: String = notices.iter().map(|notice| format!("notice: {notice}\n")).collect();
    let language = settings.language.map_or("told from each document", Language::name);
    let size =
        settings.passage_bytes.map_or_else(|| "the usual".to_owned(), |bytes| format!("{bytes} bytes"));
    // Where nothing is said, they are by the model.
    let vectors_by =
        collection.vectors_by.as_ref().map(|by| format!("  vectors by: {by}\n")).unwrap_or_default();
    text.push_str(&format!(
        "{}\n  model: {}\n{vectors_by}  language: {language}\n  size of passages: {size}\n",
        collection.id,
        settings.model.as_deref().unwrap_or("the usual one"),
    ));
    text
}
