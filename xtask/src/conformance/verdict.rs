//! What a scenario's checks amount to, given the failures we expect.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

/// Added by the suite to whatever it saw on the wire; alone it does not show that the scenario did anything.
const WIRE_CHECK: &str = "wire-schema-valid";

/// A scenario at a protocol revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Case {
    /// The suite's name for it.
    pub(super) scenario: String,
    /// Such as `2025-11-25`.
    pub(super) revision: String,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.scenario, self.revision)
    }
}

/// A check as the suite reports it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Check {
    id: String,
    status: Status,
    error_message: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Success,
    Failure,
    Warning,
    Skipped,
    Info,
}

/// A check that we know to fail, and why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ExpectedFailure {
    case: String,
    check: String,
}

/// Reads lines of the form `scenario@revision check-id reason`; empty lines and lines with `#` are left out.
pub(super) fn parse_expected(text: &str) -> Result<Vec<ExpectedFailure>> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let entries = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let parse = |(number, line): (usize, &str)| {
        let mut words = line.splitn(3, char::is_whitespace);
        let (case, check) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let reason = words.next().unwrap_or_default().trim();
        if !case.contains('@') || check.is_empty() || reason.is_empty() {
            bail!("line {number} is not of the form `scenario@revision check-id reason`");
        }
        Ok(ExpectedFailure { case: case.to_owned(), check: check.to_owned() })
    };
    entries.map(parse).collect()
}

/// Entries for cases that are not run at all.
pub(super) fn stray_expectations<'a>(expected: &'a [ExpectedFailure], cases: &[Case]) -> Vec<&'a str> {
    let is_known = |entry: &&ExpectedFailure| cases.iter().any(|case| case.to_string() == entry.case);
    expected.iter().filter(|entry| !is_known(entry)).map(|entry| entry.case.as_str()).collect()
}

/// One line of the table.
pub(super) struct Verdict {
    /// What was run.
    pub(super) case: Case,
    /// Checks that held.
    pub(super) succeeded: usize,
    /// Checks that failed as expected.
    pub(super) expected_failures: usize,
    /// Recommendations not followed; they do not fail the case.
    pub(super) warnings: Vec<String>,
    /// Why the case fails; empty when it passes.
    pub(super) problems: Vec<String>,
}

impl Verdict {
    /// Judges the checks that the suite wrote as JSON.
    pub(super) fn from_json(case: &Case, checks: &str, expected: &[ExpectedFailure]) -> Result<Self> {
        let checks: Vec<Check> = serde_json::from_str(checks)
            .with_context(|| format!("{case}: the suite wrote unknown checks"))?;
        Ok(Self::new(case, &checks, expected))
    }

    /// A case whose run wrote nothing.
    pub(super) fn not_run(case: &Case, problem: String) -> Self {
        let mut verdict = Self::new(case, &[], &[]);
        verdict.problems = vec![problem];
        verdict
    }

    /// Whether nothing is wrong.
    pub(super) fn passed(&self) -> bool {
        self.problems.is_empty()
    }

    fn new(case: &Case, checks: &[Check], expected: &[ExpectedFailure]) -> Self {
        let name = case.to_string();
        let expected: BTreeSet<&str> =
            expected.iter().filter(|entry| entry.case == name).map(|entry| entry.check.as_str()).collect();
        let failed = |check: &&Check| check.status == Status::Failure;
        let describe = |check: &Check| {
            format!("{}: {}", check.id, check.error_message.as_deref().unwrap_or("no message"))
        };

        let failures: Vec<&Check> = checks.iter().filter(failed).collect();
        let (foreseen, unforeseen): (Vec<&Check>, Vec<&Check>) =
            failures.into_iter().partition(|check| expected.contains(check.id.as_str()));
        let mut problems: Vec<String> = unforeseen.into_iter().map(describe).collect();

        let still_fails: BTreeSet<&str> = foreseen.iter().map(|check| check.id.as_str()).collect();
        problems.extend(expected.difference(&still_fails).map(|check| {
            format!(
                "{check} no longer fails · hint: delete its line from peers/conformance-expected-failures.txt"
            )
        }));

        let decided = |check: &&Check| matches!(check.status, Status::Success | Status::Failure);
        if !checks.iter().filter(decided).any(|check| check.id != WIRE_CHECK) {
            problems.push("no check ran".to_owned());
        }
        Self {
            case: case.clone(),
            succeeded: checks.iter().filter(|check| check.status == Status::Success).count(),
            expected_failures: foreseen.len(),
            warnings: checks.iter().filter(|check| check.status == Status::Warning).map(describe).collect(),
            problems,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case { scenario: "ping".into(), revision: "2025-11-25".into() }
    }

    fn judge(checks: &str, expected: &str) -> Verdict {
        let expected = parse_expected(expected).expect("well-formed");
        Verdict::from_json(&case(), checks, &expected).expect("well-formed")
    }

    #[test]
    fn a_case_passes_when_its_checks_do() {
        let verdict =
            judge(r#"[{"id":"a","status":"SUCCESS"},{"id":"b","status":"WARNING","errorMessage":"m"}]"#, "");
        assert!(verdict.passed());
        assert_eq!((verdict.succeeded, verdict.warnings), (1, vec!["b: m".to_owned()]));
    }

    #[test]
    fn a_failed_check_fails_the_case_with_its_message() {
        let verdict = judge(r#"[{"id":"a","status":"FAILURE","errorMessage":"got 500"}]"#, "");
        assert_eq!(verdict.problems, ["a: got 500"]);
    }

    #[test]
    fn a_case_without_a_decided_check_did_not_run() {
        assert_eq!(judge("[]", "").problems, ["no check ran"]);
        let only_asides =
            r#"[{"id":"a","status":"INFO"},{"id":"b","status":"SKIPPED"},{"id":"c","status":"WARNING"}]"#;
        assert_eq!(judge(only_asides, "").problems, ["no check ran"]);
        assert_eq!(
            judge(r#"[{"id":"wire-schema-valid","status":"SUCCESS"}]"#, "").problems,
            ["no check ran"]
        );
    }

    #[test]
    fn an_expected_failure_is_forgiven_only_to_its_case_and_check() {
        let checks = r#"[{"id":"a","status":"FAILURE","errorMessage":"m"},{"id":"b","status":"SUCCESS"}]"#;
        let verdict = judge(checks, "# why\nping@2025-11-25 a needs a fixture\n");
        assert!(verdict.passed());
        assert_eq!(verdict.expected_failures, 1);
        assert_eq!(judge(checks, "ping@2026-07-28 a needs a fixture").problems, ["a: m"]);
    }

    #[test]
    fn an_expected_failure_that_passes_must_be_deleted() {
        let verdict = judge(r#"[{"id":"a","status":"SUCCESS"}]"#, "ping@2025-11-25 a needs a fixture");
        assert_eq!(
            verdict.problems,
            ["a no longer fails · hint: delete its line from peers/conformance-expected-failures.txt"]
        );
    }

    #[test]
    fn an_expectation_without_a_reason_is_refused() {
        assert!(parse_expected("ping@2025-11-25 a").is_err());
        assert!(parse_expected("ping a because").is_err());
    }

    #[test]
    fn an_expectation_for_an_unknown_case_is_found() {
        let expected = parse_expected("ping@2025-11-25 a b\npong@2025-11-25 a b").expect("well-formed");
        assert_eq!(stray_expectations(&expected, &[case()]), ["pong@2025-11-25"]);
    }
}
