//! Answering questions from what was found.

use std::{fmt::Write as _, time::Instant};

use hindcast_core::{
    identity::Caller,
    knowledge::{AnswerRecord, ChatError, ChatModel, Message, Reply, Speaker, Turn},
    progress::Progress,
};

use super::{
    Hit, KnowledgeService, SearchRequest,
    answer_text::{self, without_thoughts},
    blocking, invalid,
};
use crate::{Failure, FailureKind};

/// How many passages a model gets to read; more would not fit the context of small ones.
const PASSAGES: usize = 6;

/// How many turns of the conversation it is reminded of.
const TURNS: usize = 6;

/// What is less relevant is no evidence: a model would make something of it.
const LEAST_EVIDENCE: f32 = 0.2;

/// A question that was rewritten to more than this is something else.
const LONGEST_REWRITTEN: usize = 500;

/// As near as this a sentence and a passage mean the same, whatever their words are.
const SAME_MEANING: f32 = 0.6;

const REWRITE: &str = "Rewrite the last question so that it can be understood without the conversation: put in what its words \
    refer to. Answer with the question only, in its own language.";

const NO_EVIDENCE: &str = "This is not in these documents.";

const INSTRUCTIONS: &str = "You answer questions from the numbered passages below the question. Use only what they say, and \
    cite each fact by the number of its passage, like [1]. If they do not answer the question, say so.";

/// A question.
#[derive(Debug, Clone)]
pub struct AskRequest {
    /// What is asked.
    pub question: String,
    /// From which collection it is answered; all that the caller sees where absent.
    pub collection: Option<String>,
    /// Which model answers.
    pub model: Option<String>,
    /// The conversation it goes on with.
    pub conversation: Option<String>,
}

/// A passage that the answer rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Citation {
    /// Its number in the answer.
    pub number: usize,
    /// The passage.
    pub hit: Hit,
    /// Whether the answer names it.
    pub is_cited: bool,
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub struct AskAnswer {
    /// What the model said.
    pub text: String,
    /// The passages it was given.
    pub citations: Vec<Citation>,
    /// What was searched, where that is not the question itself.
    pub searched: Option<String>,
    /// Sentences that the passages they cite do not support.
    pub unsupported: Vec<String>,
    /// Which model answered.
    pub model: String,
    /// Goes on with this conversation.
    pub conversation: String,
    /// Tokens in and out.
    pub tokens: u64,
    /// What else a person should know.
    pub notices: Vec<String>,
}

impl KnowledgeService {
    /// Answers a question from what is found, and keeps the conversation. The answer so far goes to `progress`.
    pub async fn ask(
        &self,
        caller: &Caller,
        request: AskRequest,
        progress: &dyn Progress,
    ) -> Result<AskAnswer, Failure> {
        let turns = self.turns(caller, request.conversation.as_deref()).await?;
        let Some(chat) = &self.chat else {
            return Err(no_model("answering is switched off: `knowledge.ollama_url` is `off`".into()));
        };
        let model = self.choose_model(caller, &**chat, request.model.clone()).await?;
        let searched = match turns.is_empty() {
            true => None,
            false => Some(standalone(&**chat, &model, &turns, &request.question, progress).await),
        };
        let search = SearchRequest {
            query: searched.clone().unwrap_or_else(|| request.question.clone()),
            collection: request.collection.clone(),
            limit: PASSAGES,
            min_relevance: Some(LEAST_EVIDENCE),
            ..SearchRequest::default()
        };
        let found = self.search(caller, search).await?;
        let conversation = request.conversation.clone().map_or_else(new_conversation, Ok)?;
        let started = Instant::now();
        let reply = if found.hits.is_empty() {
            Ok(Reply { text: NO_EVIDENCE.into(), tokens: 0 })
        } else {
            let messages = messages(&turns, &request.question, &found.hits);
            converse(&**chat, &model, &messages, progress).await
        };
        self.store
            .record_answer(AnswerRecord {
                conversation: conversation.clone(),
                owner: caller.principal.clone(),
                model: model.clone(),
                question: request.question,
                answer: reply.as_ref().ok().map(|reply| reply.text.clone()),
                duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                tokens: reply.as_ref().map_or(0, |reply| reply.tokens),
                at: self.clock.now(),
            })
            .await?;
        self.used.notify_one();
        let reply = reply.map_err(|error| explained(&error))?;
        let citations = citations(&reply.text, found.hits);
        let unsupported = self.unsupported(&reply.text, &citations).await?;
        let Reply { text, tokens } = reply;
        let notices = found.notices;
        Ok(AskAnswer { text, citations, searched, unsupported, model, conversation, tokens, notices })
    }

    /// The sentences of an answer that are not what the passages they cite say, neither by their words nor by their meaning.
    async fn unsupported(&self, answer: &str, citations: &[Citation]) -> Result<Vec<String>, Failure> {
        let mut doubtful = Vec::new();
        for (sentence, cites) in answer_text::sentences(answer) {
            let passages: Vec<String> = citations
                .iter()
                .filter(|citation| cites.contains(&citation.number))
                .map(|citation| format!("{}\n{}", citation.hit.found.headings, citation.hit.found.text))
                .collect();
            let names_none = !cites.is_empty() && passages.is_empty();
            if names_none
                || (!cites.is_empty() && !answer_text::is_supported(&sentence, &passages.join("\n")))
            {
                doubtful.push((sentence, passages));
            }
        }
        if doubtful.is_empty() {
            return Ok(Vec::new());
        }
        let embedder = self.embedder.clone();
        blocking(move || {
            let means_the_same = |sentence: &str, passages: &[String]| {
                // A number that is not there is not made right by what surrounds it.
                let has_numbers = sentence
                    .split(['[', ']'])
                    .step_by(2)
                    .any(|part| part.contains(|char: char| char.is_ascii_digit()));
                let texts: Vec<&str> =
                    std::iter::once(sentence).chain(passages.iter().map(String::as_str)).collect();
                let near = |one: &[f32], other: &[f32]| {
                    one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>()
                };
                !has_numbers
                    && embedder.embed(&texts).is_ok_and(|vectors| {
                        vectors.iter().skip(1).any(|vector| near(&vectors[0], vector) >= SAME_MEANING)
                    })
            };
            doubtful.retain(|(sentence, passages)| !means_the_same(sentence, passages));
            doubtful.into_iter().map(|(sentence, _)| sentence).collect()
        })
        .await
    }

    async fn turns(&self, caller: &Caller, conversation: Option<&str>) -> Result<Vec<Turn>, Failure> {
        let Some(id) = conversation else { return Ok(Vec::new()) };
        let turns = self.store.conversation(id, &caller.principal).await?;
        turns.ok_or_else(|| {
            let shown: String = id.chars().take(80).collect();
            invalid(format!("there is no conversation `{shown}`")).hint("leave it out to begin a new one")
        })
    }

    /// The model that was named, or the operator's, or the one that is used most, or any.
    async fn choose_model(
        &self,
        caller: &Caller,
        chat: &dyn ChatModel,
        named: Option<String>,
    ) -> Result<String, Failure> {
        if let Some(model) = named.or_else(|| self.policy.chat_model.clone()) {
            return Ok(model);
        }
        let installed = chat.models().await.map_err(|error| explained(&error))?;
        let figures = self.store.model_figures(&caller.principal).await?;
        let conversations = |name: &str| {
            figures.iter().find(|figures| figures.model == name).map_or(0, |figures| figures.conversations)
        };
        let chosen = installed
            .iter()
            .rev()
            .filter(|model| !model.embeds)
            .max_by_key(|model| conversations(&model.name));
        chosen.map(|model| model.name.clone()).ok_or_else(|| {
            no_model(format!("Ollama at {} has no model that answers", chat.address()))
                .hint("install one, for example with `ollama pull llama3.2`")
        })
    }
}

async fn converse(
    chat: &dyn ChatModel,
    model: &str,
    messages: &[Message],
    progress: &dyn Progress,
) -> Result<Reply, ChatError> {
    let mut so_far = String::new();
    let mut on_text = |piece: &str| {
        so_far.push_str(piece);
        let said = without_thoughts(&so_far);
        progress.report(so_far.len() as u64, None, if said.is_empty() { "thinking" } else { &said });
        !progress.cancelled()
    };
    let reply = chat.chat(model, messages, &mut on_text).await?;
    Ok(Reply { text: without_thoughts(&reply.text), ..reply })
}

/// The question as it would be asked at the beginning of a conversation. Where the model does not help, what was asked before
/// tells what it is about.
async fn standalone(
    chat: &dyn ChatModel,
    model: &str,
    turns: &[Turn],
    question: &str,
    progress: &dyn Progress,
) -> String {
    let mut messages = vec![Message { speaker: Speaker::System, text: REWRITE.into() }];
    for turn in turns.iter().skip(turns.len().saturating_sub(TURNS)) {
        messages.push(Message { speaker: Speaker::User, text: turn.question.clone() });
        messages.push(Message { speaker: Speaker::Assistant, text: turn.answer.clone() });
    }
    messages.push(Message { speaker: Speaker::User, text: format!("Last question: {question}") });
    let rewritten = chat.chat(model, &messages, &mut |_| !progress.cancelled()).await;
    let rewritten = rewritten.map(|reply| without_thoughts(&reply.text)).unwrap_or_default();
    let rewritten = rewritten.trim().trim_matches('"');
    if rewritten.is_empty() || rewritten.len() > LONGEST_REWRITTEN {
        let before = turns.last().map_or("", |turn| &turn.question);
        return format!("{before} {question}");
    }
    rewritten.to_owned()
}

fn messages(turns: &[Turn], question: &str, hits: &[Hit]) -> Vec<Message> {
    let message = |speaker, text: &str| Message { speaker, text: text.to_owned() };
    let mut messages = vec![message(Speaker::System, INSTRUCTIONS)];
    for turn in turns.iter().skip(turns.len().saturating_sub(TURNS)) {
        messages.push(message(Speaker::User, &turn.question));
        messages.push(message(Speaker::Assistant, &turn.answer));
    }
    let mut text = format!("Question: {question}\n");
    for (number, hit) in (1..).zip(hits) {
        let found = &hit.found;
        // Writing to a string cannot fail.
        let _ = write!(text, "\n[{number}] {}", found.document.name);
        if !found.headings.is_empty() {
            let _ = write!(text, " › {}", found.headings);
        }
        let _ = writeln!(text, "\n{}", found.text);
    }
    if hits.is_empty() {
        text.push_str("\n(No passages were found.)\n");
    }
    messages.push(message(Speaker::User, &text));
    messages
}

fn citations(answer: &str, hits: Vec<Hit>) -> Vec<Citation> {
    let cited = answer_text::cited(answer);
    let cite = |(number, hit): (usize, Hit)| Citation { number, hit, is_cited: cited.contains(&number) };
    (1..).zip(hits).map(cite).collect()
}

fn new_conversation() -> Result<String, Failure> {
    let mut bytes = [0; 12];
    getrandom::fill(&mut bytes)
        .map_err(|error| Failure::new(FailureKind::Internal, format!("no random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn no_model(details: String) -> Failure {
    Failure::new(FailureKind::ModelUnavailable, details)
}

fn explained(error: &ChatError) -> Failure {
    let failure = no_model(error.to_string());
    match error {
        ChatError::Unreachable { .. } => failure.hint(
            "install Ollama from https://ollama.com, start it with `ollama serve` and get a model with \
             `ollama pull llama3.2`, or set `knowledge.ollama_url`; `knowledge/search` works without",
        ),
        ChatError::TimedOut { .. } => failure
            .hint("ask again, or choose a smaller model; the resource resource://system/models lists them"),
        ChatError::Refused(_) => {
            failure.hint("the resource resource://system/models lists the models that are installed")
        }
        ChatError::BrokeOff(_) | ChatError::Cancelled => failure.hint("ask again"),
    }
}
