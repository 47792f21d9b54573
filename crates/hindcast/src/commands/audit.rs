//! `hindcast audit`.

use std::{
    fs::File,
    io::{BufRead, BufReader, BufWriter, Write},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, Result};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::VerifyingKey;
use hindcast_core::{
    audit::{AuditFilter, BadRow, FileVerifier, Problem},
    printable::printable,
    progress::Unwatched,
};
use hindcast_services::gateway::ChainVerdict;
use serde_json::json;

use super::{print_json, print_text, small_runtime};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{Audit, ShowAudit, VerifyAudit},
    wiring,
};

pub(super) fn run(config: &Config, audit: Audit) -> Result<ExitCode> {
    match audit {
        Audit::Show(request) => show(config, request),
        Audit::Verify(request) => verify(config, request),
        Audit::Export { file } => export(config, file.as_deref()),
    }
}

fn show(config: &Config, request: ShowAudit) -> Result<ExitCode> {
    let trail = wiring::audit_trail_as_found(config, &DataFolder::existing(&config.data_dir)?)?;
    let filter = AuditFilter {
        principal: None,
        start_time: request.since,
        end_time: request.until,
        session_id: request.session,
        without_method: None,
        before: None,
        limit: request.limit,
    };
    let page = small_runtime()?.block_on(trail.search(filter))?;
    if request.output.json {
        print_json(&json!({ "rows": page.rows, "more": page.more }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = String::new();
    for row in page.rows.iter().rev() {
        let record = &row.record;
        text += &format!(
            "{:>6}  {:.3}  {:<12} {:<15} {:<34} {:<22} {:>8} µs\n",
            row.seq,
            record.time,
            printable(record.principal.as_ref().map_or("-", |principal| &principal.0)),
            record.ip.as_deref().unwrap_or("-"),
            // Callers wrote it, and may have meant it to be read as a row of its own.
            printable(record.tool.as_deref().or(record.target.as_deref()).unwrap_or(&record.method)),
            printable(&record.outcome),
            record.duration_us,
        );
    }
    if page.more {
        text += &format!("older rows are not shown; `--limit {}` shows more\n", request.limit * 10);
    }
    print_text(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn verify(config: &Config, request: VerifyAudit) -> Result<ExitCode> {
    let verified = match &request.file {
        Some(file) => verify_file(config, file, request.public_key.as_deref())?,
        None => {
            let trail = wiring::audit_trail_as_found(config, &DataFolder::existing(&config.data_dir)?)?;
            match small_runtime()?.block_on(trail.verify(&Unwatched))? {
                ChainVerdict::Verified { rows } | ChainVerdict::Unfinished { rows } => Ok(rows),
                ChainVerdict::Broken(bad) => Err(bad),
            }
        }
    };
    if request.output.json {
        print_json(&match &verified {
            Ok(rows) => json!({ "verified": true, "rows": rows }),
            Err(bad) => {
                json!({ "verified": false, "first_bad_row": bad.row, "problem": bad.problem.to_string() })
            }
        })?;
    } else {
        print_text(&match &verified {
            Ok(rows) => format!("verified {rows} rows\n"),
            Err(bad) => format!("NOT verified: first bad row {}: {}\n", bad.row, bad.problem),
        })?;
    }
    Ok(if verified.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn verify_file(config: &Config, file: &Path, public_key: Option<&str>) -> Result<Result<u64, BadRow>> {
    let expected = match public_key {
        Some(text) => Some(public_key_of(text)?),
        None => DataFolder::existing(&config.data_dir)
            .ok()
            .and_then(|folder| folder.existing_audit_key().ok())
            .flatten()
            .map(|key| key.verifying_key()),
    };
    let file = File::open(file).with_context(|| format!("cannot open `{}`", file.display()))?;
    let mut reader = BufReader::new(file);
    let mut verifier: Option<FileVerifier> = None;
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let row = verifier.as_ref().map_or(0, FileVerifier::next_row);
        let text = line.strip_suffix(b"\n").ok_or("it is cut off");
        let text = text.and_then(|text| std::str::from_utf8(text).map_err(|_| "it is not UTF-8"));
        let fed = match (&mut verifier, text) {
            (_, Err(reason)) => Err(BadRow { row, problem: Problem::Unreadable(reason.into()) }),
            (None, Ok(text)) => FileVerifier::start(text, expected).map(|started| verifier = Some(started)),
            (Some(verifier), Ok(text)) => verifier.feed(text),
        };
        if let Err(bad) = fed {
            return Ok(Err(bad));
        }
        line.clear();
    }
    Ok(match verifier {
        Some(verifier) => verifier.finish(),
        None => Err(BadRow { row: 0, problem: Problem::Unreadable("the file is empty".into()) }),
    })
}

fn public_key_of(text: &str) -> Result<VerifyingKey> {
    let bytes = BASE64_STANDARD.decode(text).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    bytes
        .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
        .context("the public key is not 32 bytes in base64 · hint: copy it from the first line of an export")
}

fn export(config: &Config, file: Option<&Path>) -> Result<ExitCode> {
    let trail = wiring::audit_trail_as_found(config, &DataFolder::existing(&config.data_dir)?)?;
    let runtime = small_runtime()?;
    let Some(path) = file else {
        let mut out = BufWriter::new(std::io::stdout());
        runtime.block_on(trail.export(&mut out, &Unwatched))?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut out =
        BufWriter::new(File::create(path).with_context(|| format!("cannot write `{}`", path.display()))?);
    let rows = runtime.block_on(trail.export(&mut out, &Unwatched))?;
    out.flush()?;
    print_text(&format!("exported {rows} rows to {}\n", path.display()))?;
    Ok(ExitCode::SUCCESS)
}
