//! Adding documents: files that are chosen or dropped, or a text.

use hindcast_services::{Failure, FailureKind};
use http::Response;
use maud::{Markup, html};
use serde_json::json;

use super::{Body, KNOWLEDGE, Turned, Visit, frame, may_add};
use crate::http::page::form::{Form, Sent};

pub(super) fn form(visit: &Visit<'_>, collection: &str) -> Markup {
    if !may_add(visit) {
        return html! { p.faint { "Adding documents needs the scope " code { "knowledge:write" } "." } };
    }
    html! {
        section.panel.drop {
            h2 { "Add documents" }
            form.stack method="post" action={ (KNOWLEDGE) "/add" } enctype="multipart/form-data" {
                (frame::token(&visit.entry.csrf))
                div {
                    label for="into" { "Collection" }
                    input #into type="text" name="collection" value=(collection) required placeholder="handbook";
                }
                div {
                    label for="files" { "Files: text, Markdown, HTML, data, source code" }
                    input #files type="file" name="files" multiple;
                }
                details data-name="add-text" {
                    summary { "Or a text" }
                    div.stack {
                        div { label for="name" { "Name" } input #name type="text" name="name" placeholder="notes.md"; }
                        div { label for="text" { "Text" } textarea #text name="text" rows="5" {} }
                    }
                }
                button.main type="submit" { "Add" }
            }
            p.faint { "Or drop files here. PDF and office documents are taken in with " code { "hindcast knowledge add" } "." }
        }
    }
}

/// Takes in what was sent.
pub(in super::super) async fn add(visit: &Visit<'_>, form: &Form) -> Result<Response<Body>, Turned> {
    let collection = form.get("collection").unwrap_or_default().trim();
    let result = match (form.get("name"), form.get("text")) {
        _ if !form.files.is_empty() => all(visit, collection, &form.files).await,
        (Some(name), Some(text)) => one(visit, collection, name, text).await,
        _ => Err(Failure::new(FailureKind::InvalidInput, "there is nothing to add")
            .hint("choose files, or give a name and a text")),
    };
    Ok(visit.back_with(KNOWLEDGE, result.err().as_ref()))
}

async fn all(visit: &Visit<'_>, collection: &str, files: &[Sent]) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for file in files {
        let added = match std::str::from_utf8(&file.bytes) {
            Ok(text) => one(visit, collection, &file.name, text).await.map_err(|failure| failure.details),
            Err(_) => Err("it is not a text".to_owned()),
        };
        if let Err(reason) = added {
            failed.push(format!("{}: {reason}", file.name));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let details = format!("{} of {} files were not added: {}", failed.len(), files.len(), failed.join("; "));
    Err(Failure::new(FailureKind::InvalidInput, details).hint(
        "what is not a text is taken in from the server's own files: `hindcast knowledge add NAME PATH`",
    ))
}

async fn one(visit: &Visit<'_>, collection: &str, name: &str, text: &str) -> Result<(), Failure> {
    let asked = json!({ "collection": collection, "name": name, "text": text });
    visit.desk.press("knowledge/add", asked).await.map(|_| ())
}
