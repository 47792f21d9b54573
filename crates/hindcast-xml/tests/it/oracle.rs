//! Debian's `xmllint`, which `cargo xtask ci` installs.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

/// What xmllint's shell says to each query, white space collapsed.
pub(crate) fn ask(document: &Path, namespaces: &[(&str, &str)], queries: &[String]) -> Vec<String> {
    let mut script = String::new();
    for (prefix, namespace) in namespaces {
        script += &format!("setns {prefix}={namespace}\n");
    }
    for query in queries {
        script += &format!("xpath {query}\n");
    }
    script += "bye\n";
    let mut child = Command::new("xmllint")
        .args(["--noent", "--dtdattr", "--shell"])
        .arg(document)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("xmllint runs: install libxml2-utils");
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let answers: Vec<String> = text
        .split("/ > ")
        .map(|answer| answer.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|answer| !answer.is_empty())
        .map(|answer| match answer.split_once(" :") {
            Some((_, value)) => unescaped(value.trim_start()),
            None => answer,
        })
        .collect();
    assert_eq!(answers.len(), queries.len(), "xmllint did not answer every query:\n{text}");
    answers
}

/// The shell writes bytes beyond ASCII as `#C3#BC`.
fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('#') {
        bytes.extend(&rest.as_bytes()[..at]);
        let byte = rest.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(byte.unwrap_or(b'#'));
        rest = &rest[at + if byte.is_some() { 3 } else { 1 }..];
    }
    bytes.extend(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether xmllint finds that the document conforms; none when it cannot read the schema.
pub(crate) fn conforms(document: &Path, schema: &Path) -> Option<bool> {
    let status = Command::new("xmllint")
        .args(["--noout", "--nonet", "--schema"])
        .arg(schema)
        .arg(document)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("xmllint runs: install libxml2-utils");
    match status.code() {
        Some(0) => Some(true),
        Some(3 | 4) => Some(false),
        _ => None,
    }
}
