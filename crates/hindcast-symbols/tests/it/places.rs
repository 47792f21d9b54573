//! Addresses to places and back.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use hindcast_fixtures::{Built, Fixture};

use crate::support::{bias, function, gdb, hexadecimal, loaded, mark, section};

#[test]
fn a_line_is_found_and_its_address_leads_back() {
    let built = Fixture::c("calls").build();
    let symbols = loaded(&built.path);
    for name in ["square_body", "factorial_recursion", "add_x", "main_first", "loop_body", "print"] {
        let address = mark(&symbols, &built, name);
        let place = symbols.place(address);
        assert_eq!(place.line, Some(built.line(name)), "{name}");
        assert_eq!(place.file.as_deref(), Some(built.source_text().as_str()));
    }
    assert_eq!(symbols.place(mark(&symbols, &built, "square_body")).function.as_deref(), Some("square"));
}

#[test]
fn functions_break_where_gdb_breaks() {
    let flags: [&[&str]; 6] = [
        &[],
        &["-O2"],
        &["-gdwarf-4"],
        &["-static"],
        &["-O1", "-no-pie"],
        &["-fcf-protection", "-fstack-protector-all"],
    ];
    for flags in flags {
        let built = Fixture::c("calls").flags(flags).build();
        let symbols = loaded(&built.path);
        for name in ["main", "square", "factorial"] {
            let said = gdb(&built.path, &[&format!("break {name}")]);
            let address = said.split_whitespace().find(|word| word.starts_with("0x")).expect("an address");
            let address = hexadecimal(address.trim_end_matches([':', '.'])) + bias(&built.path);
            assert_eq!(function(&symbols, name).address, address, "{name} with {flags:?}: {said}");
        }
    }
}

/// Compares every seventh address of a program's code with binutils' addr2line.
fn agrees_with_addr2line(built: &Built) {
    let text = section(&built.path, ".text");
    let addresses: Vec<u64> = text.step_by(7).collect();
    let symbols = loaded(&built.path);
    let bias = bias(&built.path);
    let answers = addr2line(&built.path, &addresses);
    let source_lines = std::fs::read_to_string(&built.source).expect("a source").lines().count();
    let (mut compared, mut skipped) = (0, 0);
    let mut disputed = Vec::new();
    for (&address, expected) in addresses.iter().zip(&answers) {
        let frames = symbols.frames_at(address + bias);
        if expected.iter().any(|(_, place)| place.ends_with(":?") || place.starts_with("??")) {
            continue;
        }
        // Between functions binutils tells what it told last.
        if frames.is_empty() {
            skipped += 1;
            continue;
        }
        let ours: Vec<String> = frames
            .iter()
            .map(|frame| {
                let file = frame.file.as_deref().unwrap_or("??");
                format!("{file}:{}", frame.line.map_or("?".to_owned(), |line| line.to_string()))
            })
            .collect();
        let mut theirs: Vec<String> = expected.iter().map(|(_, place)| cleaned(place)).collect();
        // binutils names the program's file for some functions that headers define; the line is right.
        let (file, line) = theirs[0].rsplit_once(':').expect("a line");
        if file == built.source_text() && line.parse::<usize>().is_ok_and(|line| line > source_lines) {
            let (file, _) = ours[0].rsplit_once(':').expect("a line");
            theirs[0] = format!("{file}:{line}");
        }
        compared += 1;
        if ours == theirs {
            continue;
        }
        // Of several lines at one address each has its own choice; ours is gdb's.
        assert_eq!(ours[1..], theirs[1..], "{address:#x} in {}", built.path.display());
        disputed.push((address, ours[0].clone()));
    }
    for (address, ours) in disputed {
        assert_eq!(ours, gdbs_line(&built.path, address), "{address:#x} in {}", built.path.display());
    }
    assert!(skipped * 20 <= compared, "{skipped} of {} have no place", compared + skipped);
    assert!(compared > 20, "only {compared} places of {} were compared", built.path.display());
}

/// The line that gdb gives an address, as `path:line`.
fn gdbs_line(path: &Path, address: u64) -> String {
    let said = crate::support::gdb(path, &[&format!("info line *{address:#x}")]);
    let line = said.split_once("Line ").and_then(|(_, rest)| rest.split_once(' '));
    let (line, rest) = line.unwrap_or_else(|| panic!("no line in {said}"));
    let file = rest.split('"').nth(1).expect("a file");
    format!("{file}:{line}")
}

/// `path:line` without `(discriminator n)` and `..`.
fn cleaned(place: &str) -> String {
    let place = place.split(" (").next().expect("a place");
    let (path, line) = place.rsplit_once(':').expect("a line");
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("{}:{line}", parts.join("/"))
}

/// For each address the functions and places there, innermost first.
fn addr2line(path: &Path, addresses: &[u64]) -> Vec<Vec<(String, String)>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-f", "-i", "-e"]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("addr2line is installed");
    let mut input = child.stdin.take().expect("a pipe");
    let text: String = addresses.iter().map(|address| format!("{address:#x}\n")).collect();
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("addr2line ends");
    writer.join().expect("the thread ends").expect("addr2line reads");
    let mut answers: Vec<Vec<(String, String)>> = Vec::new();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            answers.push(Vec::new());
        } else if let (Some(answer), Some(place)) = (answers.last_mut(), lines.next()) {
            answer.push((line.to_owned(), place.to_owned()));
        }
    }
    answers
}

#[test]
fn places_of_c_agree_with_addr2line() {
    for flags in [&["-O0"] as &[&str], &["-O2"], &["-O2", "-gdwarf-4"], &["-O1", "-gz"]] {
        agrees_with_addr2line(&Fixture::c("calls").flags(flags).build());
    }
}

#[test]
fn places_of_cpp_agree_with_addr2line() {
    for flags in [&["-O0"] as &[&str], &["-O2"], &["-O2", "-gdwarf-4"]] {
        agrees_with_addr2line(&Fixture::cpp("shapes").flags(flags).build());
    }
}

#[test]
fn places_of_rust_agree_with_addr2line() {
    for flags in [&["-g"] as &[&str], &["-O"]] {
        agrees_with_addr2line(&Fixture::rust("shapes").flags(flags).build());
    }
}
