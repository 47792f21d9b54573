//! Finding what is like a failure.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, PoisonError},
};

use hindcast_core::{
    debug::{Destination, Movement},
    identity::{Caller, Scope},
    knowledge::{Document, DocumentFilter, DocumentKey},
};

use super::{
    FindingService,
    document::{self, TAG},
    fingerprint::Fingerprint,
    invalid,
    likeness::{Comparison, Likeness, Rarity},
    needs, normal, traces,
    weighing::Evidence,
};
use crate::{
    Failure, FailureKind,
    debug::{Crash, Mask, Patience, Session, State},
    knowledge::{Alike, ISSUE_TAG, document_uri},
};

/// What is no more likely than this to have the same cause is not told unless it is asked for.
const LIKELY: f32 = 0.3;
/// A longer text says nothing more of a failure.
const LONGEST_TEXT: usize = 50_000;
/// So much of a text is looked for by words and by meaning.
const LOOKED_FOR: usize = 4_000;
/// Fingerprints that are kept in memory.
const MOST_READ: usize = 20_000;
/// Documents that are no findings and are looked into for stack traces.
const OTHERS_READ: usize = 30;
const MOST_TOLD: usize = 50;
/// A passage that is shown.
const LONGEST_PASSAGE: usize = 300;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct SimilarRequest {
    /// The session; the current one where nothing else is given.
    pub session: Option<String>,
    /// A kept recording.
    pub trace: Option<PathBuf>,
    /// A stack trace, or what somebody reported.
    pub text: Option<String>,
    /// Only in this collection.
    pub collection: Option<String>,
    /// How many at most.
    pub limit: usize,
    /// Only what is at least this likely; where absent, what is likely at all.
    pub min_score: Option<f32>,
}

/// What something is that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LikelyKind {
    /// A cause that was found.
    Finding,
    /// An issue that was imported.
    Issue,
    /// A commit's message.
    Commit,
    /// A passage of a document.
    Document,
}

/// Something that may have the same cause.
#[derive(Debug, Clone)]
pub struct Likely {
    /// What it is.
    pub kind: LikelyKind,
    /// How likely that is, 0..1.
    pub score: f32,
    /// Its title.
    pub title: String,
    /// Where it is read.
    pub uri: String,
    /// What was the cause, where it is a finding; else a passage.
    pub says: String,
    /// What mended it.
    pub fix: Option<String>,
    /// What agrees of signal, message and stack.
    pub agrees: Vec<String>,
    /// Rare words that both have.
    pub words: Vec<String>,
    /// How alike the fingerprints are.
    pub stack: Option<f32>,
    /// How much of the words it has.
    pub by_words: f32,
    /// The cosine.
    pub meaning: Option<f32>,
}

/// What was found.
#[derive(Clone)]
pub struct Similar {
    /// Best first.
    pub likely: Vec<Likely>,
    /// How likely the best was, where nothing is likely enough.
    pub best_below: Option<f32>,
    /// How many findings were compared.
    pub findings: usize,
    /// What was looked for, in a line.
    pub about: String,
    /// The session that it is about.
    pub session: Option<Arc<Session>>,
    /// What else to know.
    pub notices: Vec<String>,
}

/// A failure that others are compared with.
struct Question {
    fingerprint: Option<Fingerprint>,
    text: String,
    about: String,
    session: Option<Arc<Session>>,
}

/// A document that may be like it.
#[derive(Default)]
struct Candidate {
    collection: String,
    document: Option<Document>,
    fingerprint: Option<Arc<Fingerprint>>,
    words: f32,
    meaning: Option<f32>,
    passage: String,
    is_finding: bool,
    is_issue: bool,
}

impl FindingService {
    /// What is known that is like a failure.
    pub async fn similar(
        &self,
        caller: &Caller,
        request: SimilarRequest,
        patience: &Patience,
    ) -> Result<Similar, Failure> {
        if !(1..=MOST_TOLD).contains(&request.limit) {
            return Err(invalid(format!("`limit` is {}, not between 1 and {MOST_TOLD}", request.limit)));
        }
        if let Some(score) = request.min_score.filter(|score| !(0.0..=1.0).contains(score)) {
            return Err(invalid(format!("`min_score` is {score}, not between 0 and 1")));
        }
        let question = self.question(caller, &request, patience).await?;
        needs(caller, Scope::KnowledgeRead, "what is known about failures")?;
        let mut notices = Vec::new();
        let candidates = self.candidates(caller, &request, &question, &mut notices).await?;
        let findings = candidates.iter().filter(|candidate| candidate.is_finding).count();
        let known = candidates.iter().filter(|candidate| candidate.is_finding);
        let rarity = Rarity::of(known.filter_map(|candidate| candidate.fingerprint.as_deref()));
        let fingerprint = question.fingerprint.clone();
        // Others wait for this thread.
        let weighing = tokio::task::spawn_blocking(move || {
            let asked = fingerprint.map(Comparison::new);
            let weighed = candidates.into_iter().map(|candidate| weigh(asked.as_ref(), candidate, &rarity));
            weighed.collect::<Vec<Weighed>>()
        });
        let mut weighed = weighing.await.map_err(|_| {
            Failure::new(FailureKind::Internal, "the comparison of failures ended").hint("ask again")
        })?;
        weighed.sort_by(|one, other| other.score.total_cmp(&one.score));
        let best = weighed.first().map(|best| best.score);
        let least = request.min_score.unwrap_or(LIKELY);
        weighed.retain(|one| one.score >= least);
        weighed.truncate(request.limit);
        let mut likely = Vec::new();
        for one in weighed {
            likely.extend(self.told(&question, one).await?);
        }
        let best_below = best.filter(|_| likely.is_empty());
        let Question { about, session, .. } = question;
        Ok(Similar { likely, best_below, findings, about, session, notices })
    }

    async fn question(
        &self,
        caller: &Caller,
        request: &SimilarRequest,
        patience: &Patience,
    ) -> Result<Question, Failure> {
        match (&request.text, &request.trace, &request.session) {
            (Some(text), None, None) => question_of_text(text),
            (None, Some(trace), None) => {
                needs(caller, Scope::DebugWrite, "opening a recording")?;
                let (crash, session) = self.crash_in(caller, trace.clone(), patience).await?;
                Ok(question_of_crash(&crash, session))
            }
            (None, None, named) => {
                let session = self.debug.session(caller, named.as_deref())?;
                let crash = session.crash().await?.ok_or_else(no_crash)?;
                Ok(question_of_crash(&crash, Some(session)))
            }
            _ => Err(invalid("more than one thing is asked about")
                .hint("give `text`, or `trace`, or `session_id`; none of them means the current session")),
        }
    }

    /// The failure at the end of a kept recording, which is opened for that and closed again.
    async fn crash_in(
        &self,
        caller: &Caller,
        trace: PathBuf,
        patience: &Patience,
    ) -> Result<(Arc<Crash>, Option<Arc<Session>>), Failure> {
        let (session, viewport) = self.debug.open_trace(caller, trace, Mask::new(true), patience).await?;
        let look = async {
            if viewport.signal.is_none() && viewport.exception.is_none() {
                let end = Movement::Goto(Destination::Present);
                let there = session.travel(end, patience).await?;
                if there.state == State::Exited {
                    session.go_before_end().await?;
                }
            }
            session.crash().await?.ok_or_else(no_crash)
        };
        let crash = look.await;
        let closed = self.debug.disconnect(caller, Some(session.id()), None).await;
        let crash = crash?;
        closed?;
        Ok((crash, None))
    }

    async fn candidates(
        &self,
        caller: &Caller,
        request: &SimilarRequest,
        question: &Question,
        notices: &mut Vec<String>,
    ) -> Result<Vec<Candidate>, Failure> {
        let collection = request.collection.as_deref();
        let text: String = question.text.chars().take(LOOKED_FOR).collect();
        let mut candidates: HashMap<DocumentKey, Candidate> = HashMap::new();
        for labelled in self.knowledge.labelled(caller, TAG, collection).await? {
            let candidate = Candidate {
                collection: labelled.collection,
                document: Some(labelled.document.clone()),
                is_finding: true,
                ..Candidate::default()
            };
            candidates.insert(labelled.document.key, candidate);
        }
        let issues = self.knowledge.labelled(caller, ISSUE_TAG, collection).await?;
        let issues: HashSet<DocumentKey> = issues.iter().map(|labelled| labelled.document.key).collect();
        if !candidates.is_empty() {
            let only = DocumentFilter { tag: Some(TAG.into()), ..DocumentFilter::default() };
            for alike in self.knowledge.alike(caller, &text, collection, only, notices).await? {
                take(&mut candidates, alike);
            }
        }
        let others =
            self.knowledge.alike(caller, &text, collection, DocumentFilter::default(), notices).await?;
        others.into_iter().for_each(|alike| take(&mut candidates, alike));
        notices.dedup();
        let mut all: Vec<Candidate> = candidates.into_values().collect();
        for candidate in &mut all {
            candidate.is_issue =
                candidate.document.as_ref().is_some_and(|document| issues.contains(&document.key));
        }
        // The best by words and meaning are looked into, and all findings.
        all.sort_by(|one, other| {
            let by = |one: &Candidate| one.words + one.meaning.unwrap_or_default();
            other.is_finding.cmp(&one.is_finding).then(by(other).total_cmp(&by(one)))
        });
        let findings = all.iter().filter(|candidate| candidate.is_finding).count();
        all.truncate(findings + OTHERS_READ);
        // What is not among the nearest is further away than those that are.
        if let Some(furthest) = all.iter().filter_map(|candidate| candidate.meaning).reduce(f32::min) {
            all.iter_mut().for_each(|candidate| candidate.meaning = candidate.meaning.or(Some(furthest)));
        }
        if question.fingerprint.is_some() {
            for candidate in &mut all {
                candidate.fingerprint = self.fingerprint(candidate).await?;
            }
        }
        Ok(all)
    }

    /// What a document tells of a failure: a finding its fingerprint, another text its stack trace.
    async fn fingerprint(&self, candidate: &Candidate) -> Result<Option<Arc<Fingerprint>>, Failure> {
        let Some(document) = &candidate.document else { return Ok(None) };
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(&document.key).cloned();
        if let Some((_, fingerprint)) = known.filter(|(hash, _)| *hash == document.hash) {
            return Ok(fingerprint);
        }
        let text = self.knowledge.text_of(document).await?;
        let fingerprint = match candidate.is_finding {
            true => document::fingerprint_of(&text),
            false => {
                let beginning: String = text.chars().take(LONGEST_TEXT).collect();
                traces::fingerprint(&beginning).filter(|fingerprint| !fingerprint.frames.is_empty())
            }
        };
        let fingerprint = fingerprint.map(Arc::new);
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.len() >= MOST_READ {
            read.clear();
        }
        read.insert(document.key, (document.hash, fingerprint.clone()));
        Ok(fingerprint)
    }

    /// What is said of it.
    async fn told(&self, question: &Question, weighed: Weighed) -> Result<Option<Likely>, Failure> {
        let Weighed { score, candidate, likeness } = weighed;
        let Some(document) = candidate.document else { return Ok(None) };
        let text = match candidate.is_finding {
            true => self.knowledge.text_of(&document).await?,
            false => candidate.passage.clone(),
        };
        let short = |said: &str| said.chars().take(LONGEST_PASSAGE).collect::<String>();
        let said = |name: &str| document::section(&text, name).filter(|_| candidate.is_finding).map(short);
        let path = document.source.as_ref().map_or("", |source| &*source.path);
        let kind = match candidate.is_finding {
            true => LikelyKind::Finding,
            false if candidate.is_issue => LikelyKind::Issue,
            false if path.starts_with("git:") => LikelyKind::Commit,
            false => LikelyKind::Document,
        };
        Ok(Some(Likely {
            kind,
            score,
            uri: document_uri(&candidate.collection, &document.id),
            says: said("Cause").unwrap_or_else(|| short(&candidate.passage)),
            fix: said("Fix"),
            words: common_words(&question.text, &text),
            stack: likeness.as_ref().map(|likeness| likeness.score),
            agrees: likeness.map(|likeness| likeness.agreeing).unwrap_or_default(),
            title: document.name,
            by_words: candidate.words,
            meaning: candidate.meaning,
        }))
    }
}

/// A candidate and what speaks for it.
struct Weighed {
    score: f32,
    candidate: Candidate,
    likeness: Option<Likeness>,
}

fn weigh(asked: Option<&Comparison>, candidate: Candidate, rarity: &Rarity) -> Weighed {
    let likeness = match (asked, &candidate.fingerprint) {
        (Some(asked), Some(other)) => Some(asked.with(other, rarity)),
        _ => None,
    };
    let stack = likeness.as_ref().map(|likeness| likeness.score);
    let evidence = Evidence { stack, words: candidate.words, meaning: candidate.meaning };
    Weighed { score: evidence.score(), candidate, likeness }
}

/// A document is as like as the best of its passages.
fn take(candidates: &mut HashMap<DocumentKey, Candidate>, alike: Alike) {
    let Alike { found, words, meaning } = alike;
    let candidate = candidates.entry(found.document.key).or_default();
    if candidate.passage.is_empty() || words > candidate.words {
        candidate.passage = found.text;
    }
    candidate.words = candidate.words.max(words);
    candidate.meaning = candidate.meaning.into_iter().chain(meaning).reduce(f32::max);
    candidate.collection = found.collection;
    candidate.document = Some(found.document);
}

fn no_crash() -> Failure {
    Failure::new(FailureKind::InvalidInput, "nothing failed here: it stands at no signal, panic or exception")
        .hint("`debugger/continue` to the crash, or give its stack trace or a description as `text`")
}

fn question_of_crash(crash: &Crash, session: Option<Arc<Session>>) -> Question {
    // Addresses, registers and instructions say nothing in words.
    let told = crash.told.split("\nCode:").next().unwrap_or(&crash.told);
    let told = told.split("\nRegisters:").next().unwrap_or(told);
    let is_word = |word: &&str| !word.contains("0x") && !word.starts_with('#');
    let text = told.split_whitespace().filter(is_word).collect::<Vec<_>>().join(" ");
    let fingerprint = Some(Fingerprint::of_crash(crash)).filter(|fingerprint| !fingerprint.is_empty());
    Question { fingerprint, text, about: crash.summary.clone(), session }
}

fn question_of_text(text: &str) -> Result<Question, Failure> {
    let text = text.trim();
    if text.is_empty() || text.len() > LONGEST_TEXT {
        return Err(invalid(format!("`text` is empty or longer than {LONGEST_TEXT} bytes"))
            .hint("give the stack trace, or a few sentences about what happens"));
    }
    let fingerprint = traces::fingerprint(text);
    let about = text.lines().next().unwrap_or_default().chars().take(120).collect();
    Ok(Question { fingerprint, text: text.to_owned(), about, session: None })
}

/// Words that both have, the longest first, which are the rarest as a rule.
fn common_words(one: &str, other: &str) -> Vec<String> {
    const MOST: usize = 5;
    let beginning: String = other.chars().take(LONGEST_TEXT).collect();
    let other: HashSet<String> = normal::parts(&beginning).into_iter().collect();
    let mut seen = HashSet::new();
    let mut common: Vec<String> = normal::parts(one)
        .into_iter()
        .filter(|word| word.chars().count() > 3 && other.contains(word) && seen.insert(word.clone()))
        .collect();
    common.sort_by_key(|word| std::cmp::Reverse(word.chars().count()));
    common.truncate(MOST);
    common
}
