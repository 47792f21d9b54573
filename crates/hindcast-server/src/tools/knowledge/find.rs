//! Searching and asking.

use std::{fmt::Write as _, sync::Arc};

use async_trait::async_trait;
use hindcast_core::{
    identity::Scope, knowledge::DocumentFilter, license::Feature, printable::printable_lines,
};
use hindcast_services::{
    Failure,
    knowledge::{AskRequest, KnowledgeService, SearchMode, SearchRequest, moment},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::found::{HitView, fit};
use crate::{
    excerpt::excerpt,
    registry::{Answer, Call, Declaration, Effects, Tool},
};

pub(super) struct Search {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchInput {
    query: String,
    /// Id or name
    ///
    /// Only in this collection (id or name)
    #[serde(default)]
    collection: Option<String>,
    /// How many passages at most
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 50))]
    limit: usize,
    /// Only passages at least this relevant
    #[serde(default, alias = "minRelevance")]
    #[schemars(range(min = 0.0, max = 1.0))]
    min_relevance: Option<f32>,
    /// By words and meaning, or by one of them
    #[serde(default)]
    mode: Mode,
    /// Part of it
    #[serde(default)]
    path: Option<String>,
    /// Such as application/pdf
    #[serde(default, alias = "mimeType")]
    mime_type: Option<String>,
    /// Tag of the document
    #[serde(default)]
    tag: Option<String>,
    /// Documents from then on (a date, or RFC 3339)
    #[serde(default)]
    since: Option<String>,
    #[serde(default)]
    until: Option<String>,
    /// Passages around each
    #[serde(default)]
    #[schemars(range(min = 0, max = 5))]
    context: usize,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Deserialize, JsonSchema, Default, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Hybrid,
    Lexical,
    Dense,
}

fn five() -> usize {
    5
}

#[derive(Serialize, JsonSchema)]
pub(super) struct SearchView {
    /// Best first
    hits: Vec<HitView>,
    /// What else to know, such as that no embedding model is installed
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[async_trait]
impl Tool for Search {
    type Input = SearchInput;
    type Output = SearchView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/search",
        description: "Find passages by words and meaning, with relevance (0 to 1), URI (for resources/read), lines or page",
        scope: Some(Scope::KnowledgeRead),
        feature: Some(Feature::Knowledge),
        effects: Effects::ReadOnly,
    };

    fn target(input: &SearchInput) -> Option<String> {
        input.collection.as_deref().map(|collection| excerpt(collection, 200))
    }

    async fn call(&self, call: &Call, input: SearchInput) -> Result<Answer<SearchView>, Failure> {
        let (query, is_read_around) = (input.query.clone(), input.context > 0);
        let request = SearchRequest {
            query: input.query,
            collection: input.collection,
            limit: input.limit,
            min_relevance: input.min_relevance,
            mode: match input.mode {
                Mode::Hybrid => SearchMode::Hybrid,
                Mode::Lexical => SearchMode::Lexical,
                Mode::Dense => SearchMode::Dense,
            },
            filter: DocumentFilter {
                path: input.path,
                source_type: input.mime_type,
                tag: input.tag,
                since: input.since.map(|since| moment("since", &since)).transpose()?,
                until: input.until.map(|until| moment("until", &until)).transpose()?,
            },
            context: input.context,
            keeps_duplicates: false,
        };
        request.check()?;
        let found = self.knowledge.search(&call.caller, request).await?;
        let mut hits: Vec<HitView> = found.hits.iter().map(HitView::from).collect();
        let heading = match hits.len() {
            0 => nothing(found.best_below),
            1 => "1 passage".into(),
            count => format!("{count} passages"),
        };
        let places: Vec<_> = (1..).zip(&hits).map(place).collect();
        let notices: String = found.notices.iter().map(|notice| format!("\n\nNotice: {notice}")).collect();
        let passages = if is_read_around {
            hits.iter().map(HitView::passage).collect()
        } else {
            fit(&mut hits, &query, &format!("{heading}{}{notices}{notices}", places.concat()))
        };
        let told = places.iter().zip(passages).map(|(place, passage)| format!("{place}{passage}"));
        let text = format!("{heading}{}{notices}", told.collect::<String>());
        let text = printable_lines(&text).into_owned();
        Ok(Answer { text, content: SearchView { hits, notices: found.notices } })
    }
}

/// What stands before a passage in the text.
fn place((number, hit): (usize, &HitView)) -> String {
    format!("\n\n[{number}] {:.2} {}\n", hit.score, hit.citation())
}

/// That nothing is relevant is an answer, too.
fn nothing(best_below: Option<f32>) -> String {
    match best_below {
        Some(best) => format!(
            "Nothing relevant found: the best passage has a relevance of {best:.2}; `min_relevance` 0 shows it all the same"
        ),
        None => "Nothing relevant found".into(),
    }
}

pub(super) struct Ask {
    pub(super) knowledge: Arc<KnowledgeService>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct AskInput {
    /// The question
    question: String,
    /// Id or name
    ///
    /// Answer only from this collection (id or name)
    #[serde(default)]
    collection: Option<String>,
    /// Which Ollama model answers; the one that is used most where absent
    #[serde(default)]
    model: Option<String>,
    /// Go on with this conversation
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default, rename = "session_id")]
    #[schemars(skip)]
    #[allow(dead_code, reason = "part of the contract of every tool")]
    session: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct AskView {
    /// What the model said, citing passages as [1]
    answer: String,
    /// Which model answered, where one was asked
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Pass it to go on with the conversation
    conversation_id: String,
    /// The passages it was given, in the order of their numbers
    citations: Vec<CitationView>,
    /// Sentences that the passages they cite do not support
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsupported: Vec<String>,
    /// What was searched, where the question only makes sense in the conversation
    #[serde(skip_serializing_if = "Option::is_none")]
    searched: Option<String>,
    /// Tokens in and out, as the server counts them
    tokens: u64,
    /// What else to know
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notices: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct CitationView {
    /// Its number in the answer
    number: usize,
    /// Whether the answer names it
    cited: bool,
    /// The passage
    #[serde(flatten)]
    hit: HitView,
}

#[async_trait]
impl Tool for Ask {
    type Input = AskInput;
    type Output = AskView;

    const DECLARATION: Declaration = Declaration {
        name: "knowledge/ask",
        description: "Let a local model answer a question from the documents, with citations. Without one: `knowledge/search`",
        scope: Some(Scope::KnowledgeRead),
        feature: Some(Feature::Knowledge),
        effects: Effects::Additive { idempotent: false },
    };

    fn target(input: &AskInput) -> Option<String> {
        input.collection.as_deref().map(|collection| excerpt(collection, 200))
    }

    async fn call(&self, call: &Call, input: AskInput) -> Result<Answer<AskView>, Failure> {
        let request = AskRequest {
            question: input.question,
            collection: input.collection,
            model: input.model,
            conversation: input.conversation_id,
        };
        let answer = self.knowledge.ask(&call.caller, request, &*call.progress).await?;
        let citations: Vec<_> = answer
            .citations
            .iter()
            .map(|citation| CitationView {
                number: citation.number,
                cited: citation.is_cited,
                hit: HitView::from(&citation.hit),
            })
            .collect();
        let mut text = answer.text.clone();
        for citation in &citations {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n[{}] {}", citation.number, citation.hit.citation());
        }
        for sentence in &answer.unsupported {
            let _ = write!(text, "\nNot supported by what it cites: {sentence}");
        }
        let model = answer.model.as_ref().map(|model| format!("{model}, ")).unwrap_or_default();
        let _ = write!(text, "\n({model}conversation {})", answer.conversation);
        for notice in &answer.notices {
            let _ = write!(text, "\nNotice: {notice}");
        }
        let content = AskView {
            answer: answer.text,
            model: answer.model,
            conversation_id: answer.conversation,
            citations,
            unsupported: answer.unsupported,
            searched: answer.searched,
            tokens: answer.tokens,
            notices: answer.notices,
        };
        Ok(Answer { text: printable_lines(&text).into_owned(), content })
    }
}
