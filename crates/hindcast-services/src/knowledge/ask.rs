//! Answering questions from what was found.

use std::{
    fmt::Write as _,
    sync::Arc,
    time::{Duration, Instant},
};

use hindcast_core::{
    identity::Caller,
    knowledge::{AnswerRecord, ChatError, ChatModel, Message, Reply, Speaker, Turn, bytes_of},
    progress::Progress,
};

use super::{
    Hit, KnowledgeService, SearchRequest,
    answer_text::{self, without_thoughts},
    blocking, invalid,
    model_probe::Listed,
};
use crate::{Failure, FailureKind};

/// How many passages a model gets to read; more would not fit the context of small ones.
const PASSAGES: usize = 6;

/// What a passage takes at most where its collection does not say otherwise, and what stands above it.
const USUAL_PASSAGE: usize = 1000;
const PASSAGE_HEAD: usize = 300;

/// How long somebody who asks waits until the server says which models there are.
const LONGEST_CHOICE: Duration = Duration::from_secs(5);

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
    /// Which model answered; none where nothing was found that one could answer from.
    pub model: Option<String>,
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
        let room = self.room(caller, &request, &turns).await?;
        // What is not in the documents is said without a model, so that one that is away is told of only when it is needed.
        let (mut chosen, mut searched) = (None, None);
        if !turns.is_empty() {
            let model = self.choose_model(caller, chat, request.model.clone()).await;
            searched = Some(match &model {
                Ok(model) => standalone(&**chat, model, &turns, &request.question, room, progress).await,
                Err(_) => in_context(&turns, &request.question),
            });
            chosen = Some(model);
        }
        let search = SearchRequest {
            query: searched.clone().unwrap_or_else(|| request.question.clone()),
            collection: request.collection.clone(),
            limit: PASSAGES,
            min_relevance: Some(LEAST_EVIDENCE),
            ..SearchRequest::default()
        };
        let mut found = self.search(caller, search).await?;
        let conversation = request.conversation.clone().map_or_else(new_conversation, Ok)?;
        let (model, started, reply) = if found.hits.is_empty() {
            (None, Instant::now(), Ok(Reply { text: NO_EVIDENCE.into(), tokens: 0 }))
        } else {
            let model = match chosen {
                Some(model) => model?,
                None => self.choose_model(caller, chat, request.model.clone()).await?,
            };
            let started = Instant::now();
            let messages =
                fitting(&turns, &request.question, &mut found.hits, &mut found.notices, chat.most_bytes());
            let reply = converse(&**chat, &model, &messages, room, progress).await;
            (Some(model), started, reply)
        };
        self.store
            .record_answer(AnswerRecord {
                conversation: conversation.clone(),
                owner: caller.principal.clone(),
                model: model.clone().unwrap_or_default(),
                question: request.question,
                answer: reply.as_ref().ok().map(|reply| reply.text.clone()),
                duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
                tokens: reply.as_ref().map_or(0, |reply| reply.tokens),
                at: self.clock.now(),
            })
            .await?;
        self.used.notify_one();
        let reply = reply.map_err(|error| explained(&error, &**chat))?;
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

    /// What the messages of a question take at most, also those that rewrite it: it is the same before it is searched and after.
    async fn room(&self, caller: &Caller, request: &AskRequest, turns: &[Turn]) -> Result<usize, Failure> {
        let collections = match &request.collection {
            Some(name) => vec![self.collection(caller, name).await?],
            None => self.collections(caller).await?,
        };
        let largest = collections.iter().filter_map(|collection| collection.settings.passage_bytes).max();
        let largest = largest.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0).max(USUAL_PASSAGE);
        let spoken = bytes_of(&messages(recent(turns), &request.question, &[])) + REWRITE.len();
        Ok(spoken + PASSAGES * (largest + PASSAGE_HEAD))
    }

    /// The model that was named, or the operator's, or the one that is used most, or any.
    async fn choose_model(
        &self,
        caller: &Caller,
        chat: &Arc<dyn ChatModel>,
        named: Option<String>,
    ) -> Result<String, Failure> {
        if let Some(model) = named.or_else(|| self.policy.chat_model.clone()) {
            return Ok(model);
        }
        let installed = match self.model_probe.models(chat.clone(), LONGEST_CHOICE).await {
            Listed::Told(models) => models.map_err(|error| explained(&error, &**chat))?,
            Listed::Silent(known) if !known.is_empty() => known,
            Listed::Silent(_) => {
                let (address, seconds) = (chat.address().to_owned(), LONGEST_CHOICE.as_secs());
                return Err(explained(&ChatError::TimedOut { address, seconds }, &**chat));
            }
        };
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
            let hint = match chat.is_ollama() {
                true => "install one, for example with `ollama pull llama3.2`",
                false => "let the server load one, or name it in `knowledge.chat_model`",
            };
            no_model(format!("{} at {} has no model that answers", chat.server(), chat.address())).hint(hint)
        })
    }
}

async fn converse(
    chat: &dyn ChatModel,
    model: &str,
    messages: &[Message],
    room: usize,
    progress: &dyn Progress,
) -> Result<Reply, ChatError> {
    let mut so_far = String::new();
    let mut on_text = |piece: &str| {
        so_far.push_str(piece);
        let said = without_thoughts(&so_far);
        progress.report(so_far.len() as u64, None, if said.is_empty() { "thinking" } else { &said });
        !progress.cancelled()
    };
    let reply = chat.chat(model, messages, room, &mut on_text).await?;
    Ok(Reply { text: without_thoughts(&reply.text), ..reply })
}

/// The question as it would be asked at the beginning of a conversation. Where the model does not help, what was asked before
/// tells what it is about.
async fn standalone(
    chat: &dyn ChatModel,
    model: &str,
    turns: &[Turn],
    question: &str,
    room: usize,
    progress: &dyn Progress,
) -> String {
    let asked = format!("Last question: {question}");
    let mut told = recent(turns);
    let mut messages = conversation(REWRITE, told, &asked);
    while chat.most_bytes().is_some_and(|most| bytes_of(&messages) > most) && !told.is_empty() {
        told = &told[1..];
        messages = conversation(REWRITE, told, &asked);
    }
    let rewritten = chat.chat(model, &messages, room, &mut |_| !progress.cancelled()).await;
    let rewritten = rewritten.map(|reply| without_thoughts(&reply.text)).unwrap_or_default();
    let rewritten = rewritten.trim().trim_matches('"');
    if rewritten.is_empty() || rewritten.len() > LONGEST_REWRITTEN {
        return in_context(turns, question);
    }
    rewritten.to_owned()
}

/// The question with the one before it, which tells what it is about.
fn in_context(turns: &[Turn], question: &str) -> String {
    format!("{} {question}", turns.last().map_or("", |turn| &turn.question))
}

fn recent(turns: &[Turn]) -> &[Turn] {
    &turns[turns.len().saturating_sub(TURNS)..]
}

/// What is told, what was said, and what is asked now.
fn conversation(instructions: &str, turns: &[Turn], asked: &str) -> Vec<Message> {
    let message = |speaker, text: &str| Message { speaker, text: text.to_owned() };
    let mut messages = vec![message(Speaker::System, instructions)];
    for turn in turns {
        messages.push(message(Speaker::User, &turn.question));
        messages.push(message(Speaker::Assistant, &turn.answer));
    }
    messages.push(message(Speaker::User, asked));
    messages
}

/// The messages that ask, which fit what the server reads at once. The least relevant passages are left out first, then what was
/// said first, and that is told.
fn fitting(
    turns: &[Turn],
    question: &str,
    hits: &mut Vec<Hit>,
    notices: &mut Vec<String>,
    most: Option<usize>,
) -> Vec<Message> {
    let (passages, mut told) = (hits.len(), recent(turns));
    let turns = told.len();
    let asked = loop {
        let asked = messages(told, question, hits);
        if most.is_none_or(|most| bytes_of(&asked) <= most) {
            break asked;
        }
        if hits.len() > 1 {
            hits.pop();
        } else if told.is_empty() {
            break asked;
        } else {
            told = &told[1..];
        }
    };
    if hits.len() < passages {
        notices.push(format!(
            "{} of {passages} passages were left out, the least relevant: the model does not read more at once",
            passages - hits.len()
        ));
    }
    if told.len() < turns {
        notices
            .push("the model was not told how the conversation began: it does not read more at once".into());
    }
    asked
}

fn messages(turns: &[Turn], question: &str, hits: &[Hit]) -> Vec<Message> {
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
    conversation(INSTRUCTIONS, turns, &text)
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

fn explained(error: &ChatError, chat: &dyn ChatModel) -> Failure {
    let failure = no_model(error.to_string());
    match error {
        ChatError::Unreachable { .. } if !chat.is_ollama() => failure
            .hint("start the server, or correct `knowledge.ollama_url`; `knowledge/search` works without"),
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
