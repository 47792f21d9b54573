//! The memory of failures: `save_finding`, `find_similar_bugs`.

use std::{fmt::Write as _, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{identity::Scope, license::Feature, printable::printable_lines};
use hindcast_services::{
    Failure,
    findings::{FindingService, Likely, LikelyKind, NewFinding, SavedFinding, Similar, SimilarRequest},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{noted, patience, usual_wait};
use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Effects, Tool},
};

pub(super) struct SaveFinding(pub(super) Arc<FindingService>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SaveInput {
    symptom: String,
    cause: String,
    /// Where the mistake is, such as `orders.c:12`
    #[serde(default)]
    place: Option<String>,
    #[serde(default)]
    statement: Option<String>,
    /// The value that the statement found
    #[serde(default)]
    before: Option<String>,
    #[serde(default)]
    after: Option<String>,
    /// Moments, hops
    #[serde(default)]
    evidence: Vec<String>,
    #[serde(default)]
    fix: Option<String>,
    /// Bad value
    ///
    /// The expression that holds the bad value: who wrote it is looked up in the recording and becomes place, statement, values and
    /// evidence, as far as these are not given
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    collection: Option<String>,
    #[serde(default)]
    shared: bool,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SavedView {
    /// The collection's id
    collection: String,
    /// Whether everybody sees it
    shared: bool,
    /// The document's id
    document: String,
    /// Reads it
    uri: String,
    /// What it is found again by, one line each
    fingerprint: Vec<String>,
    /// What else to know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[async_trait]
impl Tool for SaveFinding {
    type Input = SaveInput;
    type Output = SavedView;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/save_finding",
        description: "Keep a found cause with the crash's facts",
        scope: Some(Scope::KnowledgeWrite),
        feature: Some(Feature::Knowledge),
        effects: Effects::Additive { idempotent: false },
    };

    fn target(input: &SaveInput) -> Option<String> {
        input.collection.as_deref().map(|collection| excerpt(collection, 200))
    }

    async fn call(&self, call: &Call, input: SaveInput) -> Result<Answer<SavedView>, Failure> {
        let SaveInput { symptom, cause, place, statement, before, after, evidence, fix, .. } = input;
        let new = NewFinding {
            symptom,
            cause,
            place,
            statement,
            before,
            after,
            evidence,
            fix,
            expression: input.expression,
            collection: input.collection,
            shared: input.shared,
            session: input.session_id,
        };
        let patience = patience(call, input.timeout_ms);
        let saved = self.0.save(&call.caller, new, &patience, &*call.progress).await?;
        let SavedFinding { collection, shared, document, uri, title, fingerprint, session, notices } = saved;
        if let Some(session) = session {
            noted(call, &session);
        }
        let seen = if shared { "everybody sees it" } else { "only you see it" };
        let mut text = format!("Kept \"{}\" in {collection} ({seen}): {uri}", excerpt(&title, 120));
        for notice in &notices {
            // Writing to a string cannot fail.
            let _ = write!(text, "\nNotice: {notice}");
        }
        let fingerprint = fingerprint.lines().lines().map(|line| line.trim().to_owned()).collect();
        let content = SavedView { collection, shared, document, uri, fingerprint, notices };
        Ok(Answer { text: printable_lines(&text).into_owned(), content })
    }
}

pub(super) struct FindSimilarBugs(pub(super) Arc<FindingService>);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SimilarInput {
    /// Trace or report
    ///
    /// A pasted stack trace or a bug report, instead of the session's stop
    #[serde(default)]
    text: Option<String>,
    /// Recording
    ///
    /// A kept recording (binary, by export_trace or `hindcast record`), instead of the session's stop
    #[serde(default)]
    trace: Option<PathBuf>,
    #[serde(default)]
    collection: Option<String>,
    #[serde(default = "five")]
    limit: usize,
    /// Only what is at least this likely to have the same cause, from 0 to 1; 0.3 where absent
    #[serde(default)]
    min_score: Option<f32>,
    #[serde(default = "usual_wait")]
    #[schemars(skip)]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

fn five() -> usize {
    5
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SimilarView {
    /// What was looked for
    about: String,
    /// Best first
    similar: Vec<LikelyView>,
    /// How many findings it was compared with
    findings: usize,
    /// How likely the best was, where none was likely enough
    #[serde(skip_serializing_if = "Option::is_none")]
    best_below: Option<f64>,
    /// What else to know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct LikelyView {
    /// finding, issue, commit or document
    kind: &'static str,
    /// How likely it is that the cause is the same, 0 to 1
    score: f64,
    title: String,
    /// Reads the whole document
    uri: String,
    /// The cause of a finding, a passage of anything else
    says: String,
    /// What mended it
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
    why: WhyView,
}

#[derive(Serialize, JsonSchema)]
struct WhyView {
    /// What agrees of signal, message, failing expression and stack
    #[serde(skip_serializing_if = "Vec::is_empty")]
    agrees: Vec<String>,
    /// How alike the failures are by that, 0 to 1
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<f64>,
    /// Words that both have
    #[serde(skip_serializing_if = "Vec::is_empty")]
    words: Vec<String>,
    /// The share of the words, 0 to 1
    by_words: f64,
    /// How similar in meaning, where a model is installed and it is among the nearest
    #[serde(skip_serializing_if = "Option::is_none")]
    meaning: Option<f64>,
}

fn rounded(number: f32) -> f64 {
    // As `f32` it would be sent with all the digits of the nearest `f64`.
    (f64::from(number) * 1000.0).round() / 1000.0
}

impl From<Likely> for LikelyView {
    fn from(likely: Likely) -> Self {
        let kind = match likely.kind {
            LikelyKind::Finding => "finding",
            LikelyKind::Issue => "issue",
            LikelyKind::Commit => "commit",
            LikelyKind::Document => "document",
        };
        let why = WhyView {
            agrees: likely.agrees.iter().map(|agreeing| excerpt(agreeing, 120)).collect(),
            stack: likely.stack.map(rounded),
            words: likely.words,
            by_words: rounded(likely.by_words),
            meaning: likely.meaning.map(rounded),
        };
        let Likely { score, title, uri, says, fix, .. } = likely;
        Self { kind, score: rounded(score), title: excerpt(&title, 120), uri, says, fix, why }
    }
}

impl LikelyView {
    fn tell(&self, text: &mut String, number: usize) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n[{number}] {:.2} {}: {} · {}", self.score, self.kind, self.title, self.uri);
        let _ = write!(text, "\n  why: {}", self.why.in_words());
        let says = self.says.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = write!(text, "\n  {says}");
        if let Some(fix) = &self.fix {
            let _ = write!(text, "\n  fix: {}", fix.replace('\n', " "));
        }
    }
}

impl WhyView {
    fn in_words(&self) -> String {
        let mut reasons = self.agrees.clone();
        if !self.words.is_empty() {
            reasons.push(format!("words {}", self.words.join(", ")));
        }
        reasons.extend(self.meaning.map(|meaning| format!("meaning {meaning:.2}")));
        if reasons.is_empty() { "little".into() } else { reasons.join("; ") }
    }
}

#[async_trait]
impl Tool for FindSimilarBugs {
    type Input = SimilarInput;
    type Output = SimilarView;

    const DECLARATION: Declaration = Declaration {
        name: "debugger/find_similar_bugs",
        description: "What is known that is like this crash, and why",
        scope: Some(Scope::DebugRead),
        feature: Some(Feature::Knowledge),
        effects: Effects::ReadOnly,
    };

    async fn call(&self, call: &Call, input: SimilarInput) -> Result<Answer<SimilarView>, Failure> {
        let patience = patience(call, input.timeout_ms);
        let request = SimilarRequest {
            session: input.session_id,
            trace: input.trace,
            text: input.text,
            collection: input.collection,
            limit: input.limit,
            min_score: input.min_score,
        };
        let found = self.0.similar(&call.caller, request, &patience).await?;
        let Similar { likely, best_below, findings, about, session, notices } = found;
        if let Some(session) = session {
            noted(call, &session);
        }
        let similar: Vec<LikelyView> = likely.into_iter().map(LikelyView::from).collect();
        let mut text = match (similar.len(), best_below) {
            (0, Some(best)) => {
                format!("Nothing similar is known ({findings} findings; the most likely has {best:.2})")
            }
            (0, None) => "Nothing similar is known: there are no findings or documents yet".to_owned(),
            (count, _) => format!("{count} similar"),
        };
        similar.iter().enumerate().for_each(|(index, likely)| likely.tell(&mut text, index + 1));
        for notice in &notices {
            let _ = write!(text, "\nNotice: {notice}");
        }
        let best_below = best_below.map(rounded);
        let about = excerpt(&about, 200);
        let content = SimilarView { about, similar, findings, best_below, notices };
        Ok(Answer { text: printable_lines(&text).into_owned(), content })
    }
}
