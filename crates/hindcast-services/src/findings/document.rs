//! A finding as a document: Markdown that a person reads, with the fingerprint at its end.

use std::fmt::Write as _;

use super::fingerprint::Fingerprint;

/// What findings are tagged with.
pub(super) const TAG: &str = "finding";
/// What stands above the fingerprint.
const HEADING: &str = "## Fingerprint\n\n";
/// A title has at most so many characters.
const LONGEST_TITLE: usize = 120;

/// What was found out about a failure.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) symptom: String,
    pub(super) cause: String,
    pub(super) place: String,
    pub(super) statement: String,
    pub(super) before: String,
    pub(super) after: String,
    pub(super) evidence: Vec<String>,
    pub(super) fix: String,
    pub(super) program: String,
    pub(super) build: String,
    /// The autopsy, as it was told.
    pub(super) crash: String,
    pub(super) fingerprint: Fingerprint,
}

impl Written {
    /// The document.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!("---\ntags: [{TAG}]\n---\n# {}\n", self.title());
        let mut section = |name: &str, content: &str| {
            if !content.trim().is_empty() {
                // Writing to a string cannot fail.
                let _ = write!(text, "\n## {name}\n\n{}\n", content.trim());
            }
        };
        section("Symptom", &self.symptom);
        section("Cause", &self.cause_with_place());
        section("Fix", &self.fix);
        section("Evidence", &self.evidence.iter().map(|line| format!("- {line}\n")).collect::<String>());
        let build = if self.build.is_empty() { String::new() } else { format!(", build {}", self.build) };
        section("Program", &format!("{}{build}", self.program));
        let crash = self.crash.lines().map(|line| format!("    {line}\n")).collect::<String>();
        if !crash.is_empty() {
            let _ = write!(text, "\n## Crash\n\n{crash}");
        }
        if !self.fingerprint.is_empty() {
            let _ = write!(text, "\n{HEADING}{}", self.fingerprint.lines());
        }
        text
    }

    /// The symptom's first sentence.
    pub(super) fn title(&self) -> String {
        let line = self.symptom.trim().lines().next().unwrap_or_default();
        let sentence = line.split_inclusive(". ").next().unwrap_or(line).trim().trim_end_matches('.');
        let title: String = sentence.trim_start_matches(['#', ' ']).chars().take(LONGEST_TITLE).collect();
        if title.is_empty() { "A finding".into() } else { title }
    }

    fn cause_with_place(&self) -> String {
        let mut text = self.cause.trim().to_owned();
        if !self.place.is_empty() {
            let _ = write!(text, "\n\nAt {}", self.place);
        }
        if !self.statement.is_empty() {
            let _ = write!(text, "\n\n    {}", self.statement);
        }
        if !self.before.is_empty() || !self.after.is_empty() {
            let known = |value: &str| if value.is_empty() { "?".to_owned() } else { format!("`{value}`") };
            let _ = write!(text, "\n\nBefore: {}, after: {}", known(&self.before), known(&self.after));
        }
        text
    }
}

/// The fingerprint of a document; none where it is no finding.
pub(super) fn fingerprint_of(text: &str) -> Option<Fingerprint> {
    // What somebody wrote above may look the same.
    let at = text.rfind(HEADING)?;
    let parsed = Fingerprint::parse(&text[at + HEADING.len()..]);
    (!parsed.is_empty()).then_some(parsed)
}

/// What a finding says under a heading.
pub(super) fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let start = text.find(&format!("\n## {name}\n\n"))? + name.len() + 6;
    let rest = text.get(start..)?;
    Some(rest.split("\n## ").next().unwrap_or(rest).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_has_what_was_found_and_its_fingerprint() {
        let fingerprint = Fingerprint { kind: "SIGSEGV".into(), ..Fingerprint::default() };
        let written = Written {
            symptom: "It crashes on an empty list. Always.".into(),
            cause: "nobody checks for NULL".into(),
            place: "orders.c:12".into(),
            statement: "return list->value;".into(),
            before: "0x4".into(),
            evidence: vec!["moment 3".into()],
            program: "shop".into(),
            build: "ab12".into(),
            crash: "SIGSEGV\nStack trace:".into(),
            fingerprint: fingerprint.clone(),
            ..Written::default()
        };
        let text = written.markdown();
        assert_eq!(written.title(), "It crashes on an empty list");
        assert_eq!(section(&text, "Symptom"), Some("It crashes on an empty list. Always."));
        let cause = section(&text, "Cause").unwrap();
        assert!(cause.contains("At orders.c:12") && cause.contains("Before: `0x4`, after: ?"), "{cause}");
        assert_eq!(section(&text, "Program"), Some("shop, build ab12"));
        assert_eq!(fingerprint_of(&text), Some(fingerprint));
        assert_eq!(fingerprint_of("## Fingerprint\n\nnone"), None);
    }
}
