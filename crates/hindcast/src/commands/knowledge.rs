//! `hindcast knowledge`.

use std::{fmt::Write as _, fs::File, io::Read as _, process::ExitCode, sync::Arc};

use anyhow::{Context as _, Result};
use hindcast_core::{
    identity::{Caller, PrincipalId},
    knowledge::{Collection, DocumentFilter, Ownership, Patterns},
    printable::printable,
};
use hindcast_services::{
    Events,
    knowledge::{
        AddReport, AddRequest, FileCounts, FileOutcome, Hit, IssueRequest, KnowledgeService, Material,
        SearchRequest, document_uri, moment,
    },
};
use serde_json::{Value, json};

use super::{
    collection_settings, eval, print_content, print_json, print_text, progress_line::ProgressLine,
    small_runtime, transfer,
};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{
        AddKnowledge, ImportIssues, Json, Knowledge, OneCollection, RemoveKnowledge, RenameKnowledge,
        SearchKnowledge, SearchMode, ShowKnowledge, UnwatchKnowledge, Whose,
    },
    wiring,
};

pub(super) fn run(config: &Config, command: Knowledge) -> Result<ExitCode> {
    crate::data_folder::keep_from_others();
    let folder = match command {
        Knowledge::Add(_) | Knowledge::Import(_) | Knowledge::ImportIssues(_) => {
            DataFolder::open(&config.data_dir)?
        }
        _ => DataFolder::existing(&config.data_dir)?,
    };
    let (knowledge, indexes) = wiring::knowledge(config, &folder, None, &Events::default())?;
    let code = small_runtime()?.block_on(async {
        let code = match command {
            Knowledge::Add(add) => self::add(&knowledge, add).await?,
            Knowledge::List(list) => self::list(&knowledge, &list.whose, list.output).await?,
            Knowledge::Show(show) => self::show(&knowledge, show).await?,
            Knowledge::Remove(remove) => self::remove(&knowledge, remove).await?,
            Knowledge::Unwatch(unwatch) => self::unwatch(&knowledge, unwatch).await?,
            Knowledge::Watches(list) => watches(&knowledge, &list.whose, list.output).await?,
            Knowledge::Export(export) => {
                let caller = caller(&export.whose);
                transfer::export(&knowledge, &wiring::knowledge_store(config, &folder)?, &caller, export)
                    .await?
            }
            Knowledge::Import(import) => {
                let caller = caller(&import.whose);
                transfer::import(&knowledge, &wiring::knowledge_store(config, &folder)?, &caller, import)
                    .await?
            }
            Knowledge::ImportIssues(import) => self::import_issues(&knowledge, import).await?,
            Knowledge::Rename(rename) => self::rename(&knowledge, rename).await?,
            Knowledge::Settings(settings) => collection_settings::run(&knowledge, settings).await?,
            Knowledge::Reindex(output) => reindex(&knowledge, output).await?,
            Knowledge::Stats(one) => stats(&knowledge, one).await?,
            Knowledge::Search(search) => self::search(&knowledge, search).await?,
            Knowledge::Eval(options) => eval::run(config, &options).await?,
        };
        knowledge.finish().await?;
        anyhow::Ok(code)
    })?;
    drop(knowledge);
    drop(indexes);
    Ok(code)
}

/// The person at the command line, or whom they act for.
pub(super) fn caller(whose: &Whose) -> Caller {
    let local = Caller::local();
    match &whose.owner {
        Some(owner) => Caller { principal: PrincipalId(owner.as_str().into()), ..local },
        None => local,
    }
}

async fn add(knowledge: &KnowledgeService, add: AddKnowledge) -> Result<ExitCode> {
    let ownership = ownership(&add.whose);
    let patterns = Patterns { include: add.include, exclude: add.exclude };
    let material = Material::Paths { paths: add.paths, patterns, watch: add.watch };
    let request = AddRequest { collection: add.name, id: add.id, ownership, material, tags: add.tags };
    let progress = ProgressLine::new("files");
    let report = knowledge.add(&caller(&add.whose), request, &progress).await?;
    progress.finish();
    let FileCounts { failed, .. } = report.counts;
    let has_only_failed = failed > 0 && failed == report.counts.total();
    if add.output.json {
        print_json(&report_value(&report))?;
    } else {
        print_text(&report_text(&report))?;
    }
    Ok(if has_only_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// More than any tracker exports at once.
const LARGEST_ISSUES: u64 = 512 << 20;

async fn import_issues(knowledge: &KnowledgeService, import: ImportIssues) -> Result<ExitCode> {
    let ownership = ownership(&import.whose);
    let mut files = Vec::new();
    for path in &import.files {
        let name = path.display().to_string();
        let mut text = String::new();
        let read = match name.as_str() {
            "-" => std::io::stdin().take(LARGEST_ISSUES).read_to_string(&mut text),
            _ => File::open(path).and_then(|file| file.take(LARGEST_ISSUES).read_to_string(&mut text)),
        };
        read.with_context(|| format!("`{name}` cannot be read · hint: give files of JSON or Markdown"))?;
        files.push((name, text));
    }
    let request = IssueRequest { collection: import.collection, ownership, files };
    let progress = ProgressLine::new("issues");
    let report = knowledge.import_issues(&caller(&import.whose), request, &progress).await?;
    progress.finish();
    let failed = report.counts.failed > 0;
    if import.output.json {
        print_json(&report_value(&report))?;
    } else {
        print_text(&report_text(&report))?;
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// What the command line makes is everybody's, unless it is for an owner.
fn ownership(whose: &Whose) -> Ownership {
    match &whose.owner {
        Some(owner) => Ownership::Private(PrincipalId(owner.as_str().into())),
        None => Ownership::Shared,
    }
}

fn outcome(outcome: &FileOutcome) -> (&'static str, Option<&str>, Option<&str>) {
    match outcome {
        FileOutcome::Added { document, .. } => ("added", Some(document), None),
        FileOutcome::Updated { document, .. } => ("updated", Some(document), None),
        FileOutcome::Unchanged { document } => ("unchanged", Some(document), None),
        FileOutcome::Removed { document } => ("removed", Some(document), None),
        FileOutcome::Failed { reason } => ("failed", None, Some(reason)),
    }
}

fn report_value(report: &AddReport) -> Value {
    let files: Vec<_> = report
        .files
        .iter()
        .map(|file| {
            let (outcome, document, reason) = outcome(&file.outcome);
            json!({ "path": file.path, "outcome": outcome, "document": document, "reason": reason })
        })
        .collect();
    let skipped = report.skipped.iter();
    let skipped: Vec<_> = skipped
        .map(|skipped| json!({ "kind": skipped.kind, "files": skipped.files, "reason": skipped.reason }))
        .collect();
    let collection = collection_value(&report.collection);
    let FileCounts { added, updated, unchanged, removed, failed } = report.counts;
    let counts = json!({
        "added": added, "updated": updated, "unchanged": unchanged, "removed": removed, "failed": failed,
    });
    let mut value = json!({
        "collection": collection, "counts": counts, "files": files, "skipped": skipped, "notices": report.notices,
    });
    let unlisted = report.counts.total() - report.files.len();
    if unlisted > 0 {
        value["unlisted_files"] = unlisted.into();
    }
    value
}

fn report_text(report: &AddReport) -> String {
    let mut text = String::new();
    let FileCounts { added, updated, unchanged, removed, failed } = report.counts;
    let counts = [
        ("added", added),
        ("updated", updated),
        ("unchanged", unchanged),
        ("removed", removed),
        ("failed", failed),
    ];
    let mut told = 0;
    for file in &report.files {
        if let FileOutcome::Failed { reason } = &file.outcome {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "failed: {}: {reason}", file.path.escape_debug());
            told += 1;
        }
    }
    if failed > told {
        let _ = writeln!(text, "… and {} more that failed", failed - told);
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    let counts: Vec<_> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    let Collection { id, documents, chunks, .. } = &report.collection;
    let counts = if counts.is_empty() { "no files".to_owned() } else { counts.join(", ") };
    let _ = writeln!(text, "{id}: {counts}; {documents} documents, {chunks} chunks now");
    for notice in &report.notices {
        let _ = writeln!(text, "notice: {notice}");
    }
    if report.is_watched {
        text.push_str("a running `hindcast serve` or `hindcast mcp` keeps it up to date with these files\n");
    }
    text
}

fn collection_value(collection: &Collection) -> Value {
    let owner = match &collection.ownership {
        Ownership::Shared => Value::Null,
        Ownership::Private(owner) => owner.to_string().into(),
    };
    json!({
        "id": collection.id,
        "name": collection.name,
        "owner": owner,
        "shared": collection.ownership == Ownership::Shared,
        "documents": collection.documents,
        "chunks": collection.chunks,
        "created_at": collection.created_at,
        "updated_at": collection.updated_at,
        "accessed_at": collection.accessed_at,
    })
}

async fn list(knowledge: &KnowledgeService, whose: &Whose, output: Json) -> Result<ExitCode> {
    let collections = knowledge.collections(&caller(whose)).await?;
    if output.json {
        print_json(&collections.iter().map(collection_value).collect())?;
        return Ok(ExitCode::SUCCESS);
    }
    if collections.is_empty() {
        print_text("no collections yet; make one with `hindcast knowledge add NAME PATH…`\n")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{:<32} {:>9} {:>9} {:<12} updated\n", "id", "documents", "chunks", "owner");
    for collection in collections {
        let owner = match &collection.ownership {
            Ownership::Shared => "(shared)".into(),
            Ownership::Private(owner) => owner.to_string(),
        };
        let Collection { id, documents, chunks, updated_at, .. } = collection;
        let _ = writeln!(text, "{id:<32} {documents:>9} {chunks:>9} {owner:<12} {updated_at:.0}");
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn show(knowledge: &KnowledgeService, show: ShowKnowledge) -> Result<ExitCode> {
    let caller = caller(&show.whose);
    let collection = knowledge.collection(&caller, &show.name).await?;
    if let Some(id) = &show.document {
        let uri = document_uri(&collection.id, id);
        let read = knowledge.read_document(&caller, &collection.id, id, &uri).await?;
        if show.output.json {
            let document = &read.document;
            print_json(
                &json!({ "id": document.id, "name": document.name, "mime_type": document.mime_type, "text": read.text }),
            )?;
        } else {
            print_content(&read.text)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let documents = knowledge.documents(&collection).await?;
    if show.output.json {
        let rows: Vec<_> = documents
            .iter()
            .map(|document| {
                json!({
                    "id": document.id,
                    "name": document.name,
                    "mime_type": document.mime_type,
                    "size": document.size,
                    "chunks": document.chunks,
                    "path": document.source.as_ref().map(|source| &source.path),
                    "uri": document_uri(&collection.id, &document.id),
                })
            })
            .collect();
        let mut value = collection_value(&collection);
        value["document_list"] = rows.into();
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{:<32} {:>10} {:>7} {:<18} name\n", "id", "bytes", "chunks", "type");
    for document in documents {
        let (id, size, chunks) = (document.id, document.size, document.chunks);
        let path =
            document.source.map(|source| format!(" · {}", printable(&source.path))).unwrap_or_default();
        let _ = writeln!(
            text,
            "{id:<32} {size:>10} {chunks:>7} {:<18} {}{path}",
            document.mime_type, document.name
        );
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn remove(knowledge: &KnowledgeService, remove: RemoveKnowledge) -> Result<ExitCode> {
    let caller = caller(&remove.whose);
    let text = match &remove.document {
        Some(document) => {
            let collection = knowledge.remove_document(&caller, &remove.name, document).await?;
            format!("removed {document} from {}\n", collection.id)
        }
        None => {
            let collection = knowledge.remove_collection(&caller, &remove.name).await?;
            format!("removed {} with its {} documents\n", collection.id, collection.documents)
        }
    };
    if remove.output.json {
        print_json(&json!({ "collection": remove.name, "document": remove.document }))?;
    } else {
        print_text(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn unwatch(knowledge: &KnowledgeService, unwatch: UnwatchKnowledge) -> Result<ExitCode> {
    let caller = caller(&unwatch.whose);
    let (collection, paths) = knowledge.unwatch(&caller, &unwatch.name, unwatch.path.as_deref()).await?;
    if unwatch.output.json {
        print_json(&json!({ "collection": collection.id, "unwatched": paths }))?;
    } else {
        print_text(&format!("not watched any more: {}; the documents stay\n", paths.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn watches(knowledge: &KnowledgeService, whose: &Whose, output: Json) -> Result<ExitCode> {
    let (mut rows, mut text) = (Vec::new(), String::new());
    for (collection, watch) in knowledge.watches(&caller(whose)).await? {
        let machine = watch.elsewhere.as_ref();
        let notice = if machine.is_some() { None } else { knowledge.watch_notice(&watch).await? };
        let place = machine.map(|machine| format!(" (on {machine})")).unwrap_or_default();
        let said = notice.as_ref().map(|notice| format!(" {notice}")).unwrap_or_default();
        let _ = writeln!(text, "{collection:<32} {}{place}{said}", watch.path);
        rows.push(
            json!({ "collection": collection, "path": watch.path, "machine": machine, "notice": notice }),
        );
    }
    if output.json {
        print_json(&rows.into())?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(if text.is_empty() { "no folder is watched\n" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

async fn rename(knowledge: &KnowledgeService, rename: RenameKnowledge) -> Result<ExitCode> {
    let RenameKnowledge { name, new_name, id, .. } = &rename;
    let renamed = knowledge.rename_collection(&caller(&rename.whose), name, new_name, id.as_deref()).await?;
    if rename.output.json {
        print_json(&collection_value(&renamed))?;
    } else {
        print_text(&format!("{} is {} now\n", rename.name, renamed.id))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn reindex(knowledge: &Arc<KnowledgeService>, output: Json) -> Result<ExitCode> {
    let progress = ProgressLine::new("chunks");
    let notices = knowledge.reindex(&progress).await?;
    progress.finish();
    if output.json {
        print_json(&json!({ "notices": notices }))?;
    } else {
        let notices: String = notices.iter().map(|notice| format!("notice: {notice}\n")).collect();
        // What was damaged has been made again by now.
        print_text(&format!(
            "{notices}the files of the word index are sound; the indexes agree with the store\n"
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn stats(knowledge: &KnowledgeService, one: OneCollection) -> Result<ExitCode> {
    let collection = knowledge.collection(&caller(&one.whose), &one.name).await?;
    let stats = knowledge.stats(collection).await?;
    let value = json!({
        "collection": collection_value(&stats.collection),
        "monthly_queries": stats.monthly_queries,
        "total_queries": stats.total_queries,
        "average_relevance": stats.average_relevance,
        "topics": stats.topics,
        "document_bytes": stats.document_bytes,
        "chunk_bytes": stats.chunk_bytes,
        "vector_bytes": stats.vector_bytes,
        "missing_vectors": stats.missing_vectors,
        "orphaned_vectors": stats.orphaned_vectors,
    });
    if one.output.json {
        print_json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{:<18} {}\n", "collection", stats.collection.id);
    for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| *name != "collection") {
        let _ = writeln!(text, "{name:<18} {value}");
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

async fn search(knowledge: &KnowledgeService, search: SearchKnowledge) -> Result<ExitCode> {
    let request = SearchRequest {
        query: search.query.join(" "),
        collection: search.collection,
        limit: search.limit,
        min_relevance: search.min_relevance,
        mode: match search.mode {
            SearchMode::Lexical => hindcast_services::knowledge::SearchMode::Lexical,
            SearchMode::Dense => hindcast_services::knowledge::SearchMode::Dense,
            SearchMode::Hybrid => hindcast_services::knowledge::SearchMode::Hybrid,
        },
        filter: DocumentFilter {
            path: search.path,
            source_type: search.mime_type,
            tag: search.tag,
            since: search.since.map(|since| moment("--since", &since)).transpose()?,
            until: search.until.map(|until| moment("--until", &until)).transpose()?,
        },
        context: search.context,
        ..SearchRequest::default()
    };
    request.check()?;
    let found = knowledge.search(&caller(&search.whose), request).await?;
    if search.output.json {
        let hits: Vec<_> = found.hits.iter().map(hit_value).collect();
        print_json(&json!({ "hits": hits, "notices": found.notices }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for (number, hit) in (1..).zip(&found.hits) {
        let _ = writeln!(text, "[{number}] {:.2} {}\n{}\n", hit.score, place(hit), passage(hit));
    }
    if found.hits.is_empty() {
        text.push_str(&match found.best_below {
            Some(best) => format!("nothing relevant found; the best passage has a relevance of {best:.2}\n"),
            None => "nothing found\n".into(),
        });
    }
    for notice in &found.notices {
        let _ = writeln!(text, "notice: {notice}");
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The passage with what stands around it.
fn passage(hit: &Hit) -> String {
    let (before, after) = &hit.context;
    let parts = before.iter().chain([&hit.found.text]).chain(after);
    let mut passage = parts.map(String::as_str).collect::<Vec<_>>().join("\n\n");
    if !hit.duplicates.is_empty() {
        let _ = write!(passage, "\n({} more passages say nearly the same)", hit.duplicates.len());
    }
    passage
}

fn place(hit: &Hit) -> String {
    let found = &hit.found;
    let mut text = format!("{}/{}", found.collection, found.document.id);
    if !found.headings.is_empty() {
        text += &format!(" › {}", found.headings);
    }
    match found.place.page {
        Some(page) => text += &format!(", page {page}"),
        None => text += &format!(", lines {}–{}", found.place.lines.0, found.place.lines.1),
    }
    if let Some(why) = hit.file.why_stale() {
        text += &format!(" (stale: {why})");
    }
    if let Some(source) = &found.document.source {
        text += &format!(" · {}", source.path);
    }
    // A name with line breaks could look like another hit.
    printable(&text).into_owned()
}

fn hit_value(hit: &Hit) -> Value {
    let found = &hit.found;
    json!({
        "score": hit.score,
        "text": found.text,
        "collection": found.collection,
        "document": found.document.id,
        "name": found.document.name,
        "uri": document_uri(&found.collection, &found.document.id),
        "mime_type": found.document.source_type,
        "headings": found.headings,
        "first_line": found.place.lines.0,
        "last_line": found.place.lines.1,
        "page": found.place.page,
        "dated": found.document.dated.map(|dated| dated.to_string()),
        "path": found.document.source.as_ref().map(|source| &source.path),
        "stale": hit.file.why_stale().is_some(),
        "why_stale": hit.file.why_stale(),
        "before": hit.context.0,
        "after": hit.context.1,
        "also": hit.duplicates.iter().map(|found| document_uri(&found.collection, &found.document.id)).collect::<Vec<_>>(),
    })
}
