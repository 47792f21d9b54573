//! Answering questions from what was found.

use std::{fmt::Write as _, time::Instant};

use hindcast_core::{
    identity::Caller,
    knowledge::{AnswerRecord, ChatError, ChatModel, Message, Reply, Speaker, Turn},
    progress::Progress,
};

use super::{Hit, KnowledgeService, SearchRequest, invalid};
use crate::{Failure, FailureKind};

/// How many passages a model gets to read; more would not fit the context of small ones.
const PASSAGES: usize = 6;

/// How many turns of the conversation it is reminded of.
const TURNS: usize = 6;

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
        let search = SearchRequest {
            query: request.question.clone(),
            collection: request.collection.clone(),
            limit: PASSAGES,
            ..SearchRequest::default()
        };
        let found = self.search(caller, search).await?;
        let conversation = request.conversation.clone().map_or_else(new_conversation, Ok)?;
        let messages = messages(&turns, &request.question, &found.hits);
        let started = Instant::now();
        let reply = converse(&**chat, &model, &messages, progress).await;
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
        self.wrote.notify_one();
        let reply = reply.map_err(|error| explained(&error))?;
        let citations = citations(&reply.text, found.hits);
        let Reply { text, tokens } = reply;
        Ok(AskAnswer { text, citations, model, conversation, tokens, notices: found.notices })
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
        progress.report(so_far.len() as u64, None, &so_far);
        !progress.cancelled()
    };
    chat.chat(model, messages, &mut on_text).await
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
    let cite = |(number, hit): (usize, Hit)| Citation {
        number,
        hit,
        is_cited: answer.contains(&format!("[{number}]")),
    };
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
