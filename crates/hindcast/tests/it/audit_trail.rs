//! The audit trail shows every later change, and where it begins.

use std::{ops::RangeInclusive, path::Path, sync::Mutex};

use hindcast_core::audit::{AuditRow, ChainHash};
use hindcast_fixtures::oracle_size;
use rusqlite::{Connection as Database, params};
use serde_json::{Value, json};

use crate::server::{Dice, Server, hindcast, try_hindcast};

/// How often something is changed; there are some dozens of ways.
fn tamperings() -> usize {
    oracle_size(200, 500)
}

/// The data folder of a server that served some hundred calls and has ended.
struct Trail {
    folder: tempfile::TempDir,
    rows: usize,
    export: Vec<u8>,
}

fn trail() -> Trail {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start_in(folder.path(), &[]);
    let key = server.unlimited_key();
    let mut connection = server.connect();
    for at in 0..200 {
        let (tool, arguments) = match at % 5 {
            0 => ("debugger/quota_status", json!({})),
            1 => ("debugger/attach", json!({ "pid": 4_194_305 + at })),
            2 => ("debugger/fly", json!({})),
            _ => ("debugger/license_info", json!({})),
        };
        connection.rpc(&key, "tools/call", json!({ "name": tool, "arguments": arguments }));
        if at % 10 == 0 {
            connection.rpc(&key, "resources/read", json!({ "uri": "hindcast://license" }));
            connection.rpc("kdb_live_wrong", "tools/list", json!({}));
        }
    }
    server.stop();
    let export = hindcast(folder.path(), &["audit", "export"]).into_bytes();
    let rows = export.iter().filter(|byte| **byte == b'\n').count() - 2;
    assert!(rows > 200, "{rows}");
    Trail { folder, rows, export }
}

/// What was done to a trail, and which row must be named: the first that is not as it was written.
/// Where the rows themselves are untouched, or were all made anew, nobody can say which one.
struct Tampering {
    what: String,
    first_bad: Option<RangeInclusive<usize>>,
}

impl Tampering {
    fn at(row: usize, what: impl Into<String>) -> Self {
        Self { what: what.into(), first_bad: Some(row..=row) }
    }

    fn somewhere(what: impl Into<String>) -> Self {
        Self { what: what.into(), first_bad: None }
    }

    /// Runs `hindcast audit verify`; says what is wrong with its verdict.
    fn check(&self, data: &Path, arguments: &[&str]) -> Result<(), String> {
        let output = try_hindcast(data, &[&["audit", "verify", "--json"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = |problem: &str| {
            let stderr = String::from_utf8_lossy(&output.stderr);
            Err(format!("{}: {problem}, {} {said}{stderr}", self.what, output.status))
        };
        if output.status.code() != Some(1) {
            return complaint("not found");
        }
        let Ok(verdict) = serde_json::from_str::<Value>(&said) else {
            return complaint("no verdict");
        };
        let Some(row) = verdict["first_bad_row"].as_u64() else {
            return complaint("no row is named");
        };
        match &self.first_bad {
            Some(right) if !right.contains(&(row as usize)) => {
                complaint(&format!("the wrong row is named, not {right:?}"))
            }
            _ => Ok(()),
        }
    }
}

/// Does `count` checks on both cores, each with its own chance; all must be passed.
fn check_many(count: usize, check: impl Fn(Dice) -> Result<(), String> + Sync) {
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for core in 0..2 {
            let (check, failures) = (&check, &failures);
            scope.spawn(move || {
                for seed in (core..count).step_by(2) {
                    if let Err(failure) = check(Dice(seed as u64)) {
                        failures.lock().unwrap().push(format!("seed {seed}: {failure}"));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{} of {count} not right:\n{}", failures.len(), failures.join("\n"));
}

/// The columns of a row and whether they may be NULL.
const TEXT_COLUMNS: [(&str, bool); 8] = [
    ("principal", true),
    ("key_id", true),
    ("ip", true),
    ("method", false),
    ("tool", true),
    ("target", true),
    ("session_id", true),
    ("outcome", false),
];

fn edit_a_column(database: &Database, row: usize, dice: &mut Dice) -> Tampering {
    let edit = match dice.roll(12) {
        0 => "time = time + 1".into(),
        1 => "time = -time".into(),
        2 => "duration_us = duration_us + 1".into(),
        3 => "duration_us = -1 - duration_us".into(),
        4 => "hash = zeroblob(32)".into(),
        5 => "hash = substr(hash, 1, 31)".into(),
        6 => "hash = CAST(hash || x'00' AS BLOB)".into(),
        kind => {
            let (column, nullable) = dice.pick(&TEXT_COLUMNS);
            match kind {
                7 => format!("{column} = coalesce({column}, '') || 'x'"),
                8 => format!("{column} = coalesce({column}, '') || char(0)"),
                9 => format!("{column} = coalesce({column}, '') || CAST(x'ff' AS TEXT)"),
                10 if nullable => format!("{column} = CASE WHEN {column} IS NULL THEN '' END"),
                _ => format!("{column} = 'x' || coalesce({column}, '')"),
            }
        }
    };
    let changed = database.execute(&format!("UPDATE audit SET {edit} WHERE seq = ?1"), [row]).unwrap();
    assert_eq!(changed, 1);
    Tampering::at(row, format!("row {row}: {edit}"))
}

fn edit_the_head(database: &Database, dice: &mut Dice) -> Tampering {
    let edit = dice.pick(&[
        "UPDATE audit_head SET seq = seq + 1",
        "UPDATE audit_head SET seq = seq - 1",
        "UPDATE audit_head SET seq = -seq",
        "UPDATE audit_head SET hash = zeroblob(32)",
        "UPDATE audit_head SET hash = substr(hash, 2)",
        "UPDATE audit_head SET signature = '00' || substr(signature, 3)",
        "UPDATE audit_head SET signature = upper(signature)",
        "UPDATE audit_head SET signature = ''",
        "UPDATE audit_head SET signature = substr(signature, 3)",
        "UPDATE audit_head SET signature = signature || CAST(x'ff' AS TEXT)",
        "DELETE FROM audit_head",
    ]);
    database.execute_batch(edit).unwrap();
    Tampering::somewhere(edit)
}

/// Puts a copy of a row in a place where it was not; the rows from there on make room.
fn insert_a_row(database: &Database, rows: usize, dice: &mut Dice) -> Tampering {
    let inside = 1 + dice.roll(rows) as i64;
    let end = rows as i64 + 1;
    let place = dice.pick(&[-1, 0, inside, inside, end, end + 1000]);
    let copied = inside % rows as i64 + 1;
    database.execute("CREATE TEMP TABLE copied AS SELECT * FROM audit WHERE seq = ?1", [copied]).unwrap();
    database.execute("UPDATE copied SET seq = ?1", [place]).unwrap();
    if place == inside {
        database.execute("UPDATE audit SET seq = -seq WHERE seq >= ?1", [place]).unwrap();
        database.execute("UPDATE audit SET seq = 1 - seq WHERE seq < 0", []).unwrap();
    }
    assert_eq!(database.execute("INSERT INTO audit SELECT * FROM copied", []), Ok(1));
    let what = format!("a copy of row {copied} in place {place}");
    if (1..=end).contains(&place) { Tampering::at(place as usize, what) } else { Tampering::somewhere(what) }
}

/// Changes a row and makes all hashes from there on anew, which needs no key.
fn rewrite(database: &Database, export: &[u8], rows: usize, dice: &mut Dice) -> Tampering {
    let from = 1 + dice.roll(rows);
    let lines = std::str::from_utf8(export).unwrap().lines().skip(1).take(rows);
    let mut previous = ChainHash::GENESIS;
    for line in lines {
        let mut row: AuditRow = serde_json::from_str(line).unwrap();
        if row.seq as usize >= from {
            row.record.outcome = "forged".into();
            row.hash = ChainHash::of(previous, row.seq, &row.record);
            database
                .execute(
                    "UPDATE audit SET outcome = 'forged', hash = ?2 WHERE seq = ?1",
                    params![row.seq, row.hash.0],
                )
                .unwrap();
        }
        previous = row.hash;
    }
    if dice.roll(2) == 0 {
        database.execute("UPDATE audit_head SET hash = ?1", [previous.0]).unwrap();
    }
    Tampering::somewhere(format!("all rows from {from} on made anew"))
}

fn tamper_with_the_store(database: &Database, trail: &Trail, dice: &mut Dice) -> Tampering {
    let rows = trail.rows;
    let row = 1 + dice.roll(rows);
    let run = |statement: &str| database.execute(statement, [row]).unwrap();
    match dice.roll(12) {
        0..=3 => edit_a_column(database, row, dice),
        4 => {
            run("DELETE FROM audit WHERE seq = ?1");
            Tampering::at(row, format!("row {row} deleted"))
        }
        5 => {
            let other = 1 + (row - 1 + 1 + dice.roll(rows - 1)) % rows;
            database.execute("UPDATE audit SET seq = -1 WHERE seq = ?1", [row]).unwrap();
            database.execute("UPDATE audit SET seq = ?1 WHERE seq = ?2", [row, other]).unwrap();
            database.execute("UPDATE audit SET seq = ?1 WHERE seq = -1", [other]).unwrap();
            Tampering::at(row.min(other), format!("rows {row} and {other} swapped"))
        }
        6 => {
            run("DELETE FROM audit WHERE seq >= ?1");
            Tampering::at(row, format!("all from row {row} on deleted"))
        }
        7 => {
            run("DELETE FROM audit WHERE seq <= ?1");
            Tampering::at(1, format!("all up to row {row} deleted"))
        }
        8 => {
            let place = dice.pick(&[0, -1, rows as i64 + 1, rows as i64 * 2]);
            database.execute("UPDATE audit SET seq = ?2 WHERE seq = ?1", params![row, place]).unwrap();
            let what = format!("row {row} moved to place {place}");
            // Before the first row it is in the way, too: either place may be named.
            if place < 1 { Tampering::somewhere(what) } else { Tampering::at(row, what) }
        }
        9 => edit_the_head(database, dice),
        10 => insert_a_row(database, rows, dice),
        _ => rewrite(database, &trail.export, rows, dice),
    }
}

#[test]
fn every_tampering_with_the_store_is_found_and_its_first_bad_row_named() {
    let trail = trail();
    let verified = hindcast(trail.folder.path(), &["audit", "verify"]);
    assert_eq!(verified, format!("verified {} rows\n", trail.rows));
    let copy = || {
        let copy = tempfile::tempdir().unwrap();
        for file in ["hindcast.db", "audit.key"] {
            std::fs::copy(trail.folder.path().join(file), copy.path().join(file)).unwrap();
        }
        copy
    };
    assert_eq!(hindcast(copy().path(), &["audit", "verify"]), verified, "an untouched copy");
    check_many(tamperings(), |mut dice| {
        let copy = copy();
        let database = Database::open(copy.path().join("hindcast.db")).unwrap();
        database.execute_batch("PRAGMA synchronous = OFF").unwrap();
        let tampering = tamper_with_the_store(&database, &trail, &mut dice);
        drop(database);
        tampering.check(copy.path(), &[])
    });
}

/// The lines of an export: the header, the rows, the signed head.
fn lines_of(export: &[u8]) -> Vec<Vec<u8>> {
    export.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// What must be named when line `line` of an export is damaged: its row, 0 for the header. Nobody can
/// say which row a damaged head meant.
fn damaged(line: usize, rows: usize, what: String) -> Tampering {
    match line {
        0 => Tampering::at(0, what),
        _ if line > rows => Tampering::somewhere(what),
        _ => Tampering::at(line, what),
    }
}

fn tamper_with_a_byte(lines: &mut [Vec<u8>], rows: usize, dice: &mut Dice) -> Tampering {
    // The header and the signed head are short, so they get more than their share.
    let row = 1 + dice.roll(rows);
    let line = dice.pick(&[0, rows + 1, row, row, row]);
    let at = dice.roll(lines[line].len());
    let old = lines[line][at];
    let mut other = || (old as usize + 1 + dice.roll(255)) as u8;
    let (kind, byte) = match at % 4 {
        0 => ("changed to", other()),
        1 if old.is_ascii_alphabetic() => ("changed to", old ^ 0x20),
        1 | 2 => ("followed by", dice.pick(b" \t\r\n\0x0\xff")),
        _ => ("removed", old),
    };
    match kind {
        "changed to" => lines[line][at] = byte,
        "followed by" => lines[line].insert(at + 1, byte),
        _ => drop(lines[line].remove(at)),
    }
    let what = format!("byte {at} ({:?}) of line {line} {kind} {:?}", char::from(old), char::from(byte));
    // What comes behind the end of a line, and an end before its end, stand in the next line.
    let behind = old == b'\n' || (byte == b'\n' && lines[line].ends_with(b"\n\n"));
    damaged(if kind == "followed by" && behind { line + 1 } else { line }, rows, what)
}

fn tamper_with_an_export(trail: &Trail, dice: &mut Dice) -> (Vec<u8>, Tampering) {
    let rows = trail.rows;
    let mut lines = lines_of(&trail.export);
    let line = dice.roll(lines.len());
    let tampering = match dice.roll(8) {
        0..=3 => tamper_with_a_byte(&mut lines, rows, dice),
        4 => {
            lines.remove(line);
            damaged(line, rows, format!("line {line} removed"))
        }
        5 => {
            let other = (line + 1 + dice.roll(lines.len() - 1)) % lines.len();
            lines.swap(line, other);
            damaged(line.min(other), rows, format!("lines {line} and {other} swapped"))
        }
        6 => {
            lines.insert(line, lines[line].clone());
            let what = format!("line {line} twice");
            // Of two equal rows the second is one too many, but it bears the number of the first.
            let first_bad = (line <= rows).then(|| line.max(1)..=line + 1);
            Tampering { what, first_bad }
        }
        _ if dice.roll(4) == 0 => {
            lines.drain(..=line);
            Tampering::at(0, format!("all up to line {line} removed"))
        }
        _ => {
            let (somewhere, last) = (dice.roll(trail.export.len()), trail.export.len() - 1);
            let length = dice.pick(&[somewhere, somewhere, last]);
            let kept = &trail.export[..length];
            let whole = kept.iter().filter(|byte| **byte == b'\n').count();
            let mut tampering = damaged(whole, rows, format!("cut off after {length} bytes"));
            if trail.export[length] == b'\n' && tampering.first_bad.is_some() {
                // The line lost its end only: it, or the next, is the first that is not as it was.
                tampering.first_bad = Some(whole..=whole + 1);
            }
            return (kept.to_vec(), tampering);
        }
    };
    (lines.concat(), tampering)
}

#[test]
fn every_tampering_with_an_export_is_found_and_its_first_bad_row_named() {
    let trail = trail();
    let scratch = tempfile::tempdir().unwrap();
    let untouched = scratch.path().join("untouched");
    std::fs::write(&untouched, &trail.export).unwrap();
    let verified = hindcast(trail.folder.path(), &["audit", "verify", untouched.to_str().unwrap()]);
    assert_eq!(verified, format!("verified {} rows\n", trail.rows));
    check_many(tamperings(), |mut dice| {
        let file = scratch.path().join(dice.0.to_string());
        let (bytes, mut tampering) = tamper_with_an_export(&trail, &mut dice);
        assert_ne!(bytes, trail.export, "{}", tampering.what);
        std::fs::write(&file, &bytes).unwrap();
        // A row that now bears a smaller number is named by that number.
        if let Some(right) = &tampering.first_bad
            && let Some(claimed) = claimed_number(&bytes, *right.start())
            && claimed < *right.start()
        {
            tampering.first_bad = Some(claimed..=*right.end());
        }
        let checked = tampering.check(trail.folder.path(), &[file.to_str().unwrap()]);
        std::fs::remove_file(&file).unwrap();
        checked
    });
}

/// The number that a row in an export says it has.
fn claimed_number(export: &[u8], line: usize) -> Option<usize> {
    let line = export.split(|byte| *byte == b'\n').nth(line)?;
    serde_json::from_slice::<Value>(line).ok()?["seq"].as_u64().map(|seq| seq as usize)
}

#[test]
fn an_export_that_another_server_signed_is_not_taken_for_this_ones() {
    let (own, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let export = |data: &Path| {
        hindcast(data, &["keys", "create", "--name", "x"]);
        let file = data.join("export");
        hindcast(data, &["audit", "export", file.to_str().unwrap()]);
        let text = std::fs::read_to_string(&file).unwrap();
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        (file.to_str().unwrap().to_owned(), header["public_key"].as_str().unwrap().to_owned())
    };
    let ((own_file, own_key), (other_file, other_key)) = (export(own.path()), export(other.path()));
    let verify = |data: &Path, arguments: &[&str]| {
        let output = try_hindcast(data, &[&["audit", "verify"], arguments].concat());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let verified = (Some(0), "verified 2 rows\n".to_owned());
    assert_eq!(verify(own.path(), &[&own_file]), verified);
    assert_eq!(verify(other.path(), &[&own_file, "--public-key", &own_key]), verified);
    for (data, arguments) in [
        (own.path(), vec![&*other_file]),
        (own.path(), vec![&own_file, "--public-key", &other_key]),
        (own.path(), vec![&other_file, "--public-key", &own_key]),
    ] {
        let (code, said) = verify(data, &arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("NOT verified: first bad row "), "{said}");
    }
    let (code, _) = verify(own.path(), &[&own_file, "--public-key", "nonsense"]);
    assert_eq!(code, Some(1));
}

#[test]
fn a_trail_that_was_tampered_with_is_not_exported_and_the_tool_says_so() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    for _ in 0..10 {
        server.call(&key, "debugger/license_info", json!({}));
    }
    assert!(hindcast(&server.data, &["audit", "verify"]).starts_with("verified "));
    let database = Database::open(server.data.join("hindcast.db")).unwrap();
    assert_eq!(database.execute("UPDATE audit SET outcome = 'forged' WHERE seq = 5", []), Ok(1));
    let answer = server.call(&key, "debugger/get_comprehensive_audit", json!({}));
    let chain = &answer["result"]["structuredContent"]["chain"];
    assert_eq!((&chain["verified"], &chain["first_bad_row"]), (&json!(false), &json!(5)), "{answer}");
    let export = try_hindcast(&server.data, &["audit", "export"]);
    assert_eq!(export.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&export.stderr).contains("row 5"));
}

#[test]
fn a_data_folder_with_another_audit_key_is_not_served() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for folder in [&one, &other] {
        hindcast(folder.path(), &["keys", "create", "--name", "x"]);
    }
    std::fs::copy(other.path().join("audit.key"), one.path().join("audit.key")).unwrap();
    for arguments in
        [&["serve", "--http", "--listen", "127.0.0.1:0"][..], &["mcp"], &["keys", "create", "--name", "y"]]
    {
        let refused = try_hindcast(one.path(), arguments);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}");
        let error = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(error.contains("audit.key") && error.contains("hint: "), "{arguments:?}: {error}");
    }
    let verdict = try_hindcast(one.path(), &["audit", "verify"]);
    assert_eq!(verdict.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&verdict.stdout).contains("signature"));
}

#[test]
fn what_callers_wrote_neither_commands_the_terminal_nor_forges_a_row() {
    let server = Server::start(&[]);
    let key = server.unlimited_key();
    let named = "x\u{1b}]0;owned\u{7}\n     9  forged row\u{9b}2J\u{202e}";
    server.rpc(&key, "tools/call", json!({ "name": named, "arguments": {} }));
    server.rpc(&key, named, json!({}));
    server.rpc(&key, "resources/read", json!({ "uri": named }));
    let data = server.stop();
    let shown = hindcast(&data.path, &["audit", "show"]);
    let acts = |letter: char| letter != '\n' && (letter.is_control() || letter == '\u{202e}');
    assert!(!shown.contains(acts), "{shown:?}");
    assert!(shown.lines().all(|line| !line.trim_start().starts_with("9  forged")), "{shown}");
    assert!(shown.contains("\\u{1b}]0;owned"), "the rows are there: {shown}");
}
