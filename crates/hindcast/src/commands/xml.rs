//! `hindcast xml`: the document tools for a person, who may read whatever the system lets them.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};
use hindcast_core::identity::PrincipalId;
use hindcast_services::documents::{
    CacheContents, DocumentService, Preloaded, QueryAnswer, QueryRequest, QueryValue, Validation,
};
use serde_json::{Value, json};

use super::{print_content, print_json, print_text, small_runtime};
use crate::{
    config::Config,
    options::{Json, Xml, XmlQuery, XmlValidate},
    wiring,
};

pub(super) fn run(config: &Config, xml: Xml) -> Result<ExitCode> {
    let here = std::env::current_dir().context("the working folder is gone")?;
    // The root stands for every file; relative paths are the shell's.
    let documents = wiring::documents(&config.documents, vec![PathBuf::from("/")])?;
    let absolute = |file: &str| {
        if file.contains("://") { file.to_owned() } else { here.join(file).display().to_string() }
    };
    let done = match xml {
        Xml::Query(request) => query(&documents, request, absolute)?,
        Xml::Validate(request) => validate(&documents, request, absolute)?,
        Xml::Preload { documents: files, output } => preload(&documents, files, output, absolute)?,
        Xml::Stats { documents: files, output } => stats(&documents, files, output, absolute)?,
    };
    Ok(done)
}

fn query(
    documents: &DocumentService,
    request: XmlQuery,
    absolute: impl Fn(&str) -> String,
) -> Result<ExitCode> {
    let namespaces = request
        .namespaces
        .iter()
        .map(|binding| {
            let (prefix, namespace) = binding.split_once('=').with_context(|| {
                format!("`{binding}` binds nothing · hint: write `--namespace PREFIX=URI`")
            })?;
            Ok((prefix.to_owned(), namespace.to_owned()))
        })
        .collect::<Result<_>>()?;
    let answer = small_runtime()?.block_on(documents.query(
        &PrincipalId::local(),
        QueryRequest {
            document: absolute(&request.document),
            query: request.query,
            namespaces,
            limit: request.limit,
            offset: request.offset,
        },
    ))?;
    if request.output.json {
        print_json(&query_json(&answer))?;
    } else {
        print_content(&query_text(&answer))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn query_json(answer: &QueryAnswer) -> Value {
    let mut value = match &answer.value {
        QueryValue::Nodes { total, nodes, next } => {
            let nodes = nodes.iter().map(|node| {
                json!({
                    "kind": node.kind, "path": node.path, "line": node.line, "column": node.column,
                    "xml": node.xml, "truncated": node.truncated,
                })
            });
            json!({ "type": "nodes", "total": total, "nodes": nodes.collect::<Vec<_>>(), "next_offset": next })
        }
        QueryValue::Boolean(boolean) => json!({ "type": "boolean", "value": boolean }),
        QueryValue::Number(_, written) => json!({ "type": "number", "value": written }),
        QueryValue::Text(text, cut) => json!({ "type": "string", "value": text, "truncated": cut }),
    };
    if let Some(hint) = &answer.hint {
        value["hint"] = json!(hint);
    }
    value
}

fn query_text(answer: &QueryAnswer) -> String {
    let mut text = match &answer.value {
        QueryValue::Nodes { total, nodes, next } => {
            let plural = if *total == 1 { "node" } else { "nodes" };
            let mut text =
                format!("Query returned {total} {plural}{}\n", if nodes.is_empty() { "" } else { ":" });
            for node in nodes {
                let cut = if node.truncated { " …" } else { "" };
                text += &format!("{}:{} {}\n  {}{cut}\n", node.line, node.column, node.path, node.xml);
            }
            if let Some(next) = next {
                text += &format!("… {} more: `--offset {next}` shows them\n", total - next);
            }
            text
        }
        QueryValue::Boolean(boolean) => format!("{boolean}\n"),
        QueryValue::Number(_, written) => format!("{written}\n"),
        QueryValue::Text(text, _) => format!("{text}\n"),
    };
    if let Some(hint) = &answer.hint {
        text += &format!("hint: {hint}\n");
    }
    text
}

fn validate(
    documents: &DocumentService,
    request: XmlValidate,
    absolute: impl Fn(&str) -> String,
) -> Result<ExitCode> {
    let (document, schema) = (absolute(&request.document), absolute(&request.schema));
    let reader = PrincipalId::local();
    let judged = documents.validate(&reader, &document, &schema, request.limit);
    let Validation { verdict, schema_version, .. } = small_runtime()?.block_on(judged)?;
    let valid = verdict.total == 0;
    if request.output.json {
        print_json(&json!({
            "valid": valid,
            "schema_version": schema_version,
            "total": verdict.total,
            "violations": verdict.violations,
        }))?;
    } else if valid {
        print_text("Validation result: VALID\nDocument conforms to schema.\n")?;
    } else {
        let mut text = format!("Validation result: INVALID\n{} violations:\n", verdict.total);
        for violation in &verdict.violations {
            text +=
                &format!("{}:{} {}: {}", violation.line, violation.column, violation.path, violation.message);
            if !violation.expected.is_empty() {
                text += &format!(" (expected {})", violation.expected.join(" or "));
            }
            text.push('\n');
        }
        if verdict.total > verdict.violations.len() {
            text += &format!("… `--limit {}` shows all\n", verdict.total);
        }
        print_text(&text)?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn preload(
    documents: &DocumentService,
    files: Vec<String>,
    output: Json,
    absolute: impl Fn(&str) -> String,
) -> Result<ExitCode> {
    let preloaded = load(documents, &files, absolute)?;
    let failed = preloaded.iter().any(|document| document.outcome.is_err());
    let rows = preloaded.iter().map(|document| match &document.outcome {
        Ok(loaded) => json!({ "document": document.document, "bytes": loaded.bytes, "nodes": loaded.nodes }),
        Err(failure) => json!({ "document": document.document, "problem": failure.to_string() }),
    });
    if output.json {
        print_json(&Value::Array(rows.collect()))?;
    } else {
        let lines = preloaded.iter().map(|document| match &document.outcome {
            Ok(loaded) => format!("{}: {} nodes, {} bytes\n", document.document, loaded.nodes, loaded.bytes),
            Err(failure) => format!("{}: {failure}\n", document.document),
        });
        print_text(&lines.collect::<String>())?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn load(
    documents: &DocumentService,
    files: &[String],
    absolute: impl Fn(&str) -> String,
) -> Result<Vec<Preloaded>> {
    let paths = files.iter().map(|file| absolute(file)).collect();
    let mut preloaded = small_runtime()?.block_on(documents.preload(&PrincipalId::local(), paths))?;
    for (document, file) in preloaded.iter_mut().zip(files) {
        document.document.clone_from(file);
    }
    Ok(preloaded)
}

fn stats(
    documents: &DocumentService,
    files: Vec<String>,
    output: Json,
    absolute: impl Fn(&str) -> String,
) -> Result<ExitCode> {
    for document in load(documents, &files, absolute)? {
        document.outcome.with_context(|| format!("`{}` cannot be read", document.document))?;
    }
    let CacheContents { counts, max_bytes, documents, .. } = documents.contents(None);
    if output.json {
        let rows = documents.iter().map(
            |document| json!({ "path": document.path, "bytes": document.bytes, "nodes": document.nodes }),
        );
        print_json(&json!({
            "documents": rows.collect::<Vec<_>>(), "bytes": counts.bytes, "max_bytes": max_bytes,
            "evictions": counts.evictions,
        }))?;
    } else {
        let mut text = format!("{} documents take {} of {max_bytes} bytes\n", documents.len(), counts.bytes);
        for document in &documents {
            text +=
                &format!("{}: {} bytes, {} nodes\n", document.path.display(), document.bytes, document.nodes);
        }
        print_text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}
