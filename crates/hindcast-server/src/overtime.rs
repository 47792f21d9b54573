//! Work that takes longer than a request may. It goes on, and its result is kept for the next request
//! that asks the same.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hindcast_core::{
    Timestamp,
    identity::{Caller, PrincipalId, ScopeSet},
    progress::Progress,
    time::Clock,
};
use hindcast_services::{Failure, FailureKind};
use serde_json::{Map, Value};
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};

/// How many questions of one principal are worked on or kept at once.
const MOST_OF_ONE: usize = 16;
/// How many of all principals.
const MOST: usize = 256;
/// How many bytes of results are kept for one principal.
const MOST_BYTES_OF_ONE: usize = 8 << 20;
/// How many for all.
const MOST_BYTES: usize = 64 << 20;

/// When a request must be answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TimeLimit {
    pub(crate) until: Instant,
    /// The client follows progress: once it has heard some, there is no limit.
    pub(crate) unless_heard: bool,
}

/// What was asked, and by whom. What one may see depends on its scopes, so a key with other scopes asks
/// another question.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Question {
    principal: PrincipalId,
    scopes: ScopeSet,
    /// A tool's name or a resource's URI.
    subject: String,
    arguments: Map<String, Value>,
}

impl Question {
    pub(crate) fn new(caller: &Caller, subject: &str, arguments: &Map<String, Value>) -> Self {
        let (principal, arguments) = (caller.principal.clone(), arguments.clone());
        Self { principal, scopes: caller.scopes, subject: subject.into(), arguments }
    }

    fn bytes(&self) -> usize {
        self.subject.len()
            + self.arguments.iter().map(|(name, value)| name.len() + weight(value)).sum::<usize>()
    }
}

/// About how much memory a value takes.
pub(crate) fn weight(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => fields.iter().map(|(name, value)| name.len() + weight(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}

/// A result that can be kept.
pub(crate) trait Keepable: Clone + Send + Sync + 'static {
    /// About how much memory it takes.
    fn bytes(&self) -> usize;
    /// Says that it is the answer to an earlier request.
    #[must_use]
    fn marked(self, began: Timestamp) -> Self;
}

/// A result that came late, or why there is none.
type Outcome<T> = Option<Arc<Result<T, Failure>>>;

struct Entry<T> {
    id: u64,
    question: Question,
    began: Timestamp,
    outcome: watch::Receiver<Outcome<T>>,
    /// When it was done and how large it is; none while the work goes on.
    done: Option<(Timestamp, usize)>,
}

/// The questions that took too long, oldest first.
pub(crate) struct Overtime<T> {
    clock: Arc<dyn Clock>,
    kept_for: Duration,
    entries: Mutex<Vec<Entry<T>>>,
    last_id: AtomicU64,
    /// Whether there may be any: most of the time there are none, and nobody has to look.
    any: AtomicBool,
}

impl<T: Keepable> Overtime<T> {
    pub(crate) fn new(clock: Arc<dyn Clock>, kept_for: Duration) -> Arc<Self> {
        let (entries, last_id, any) = Default::default();
        Arc::new(Self { clock, kept_for, entries, last_id, any })
    }

    /// The result of earlier work on this question, which is waited for until the limit; none when there
    /// was no such work, and it has to be done.
    pub(crate) async fn resume(
        &self,
        question: &Question,
        limit: Option<TimeLimit>,
    ) -> Option<Result<T, Failure>> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let (id, began, mut outcome) = {
            let mut entries = self.entries();
            self.drop_old(&mut entries);
            let entry = entries.iter().find(|entry| entry.question == *question)?;
            (entry.id, entry.began, entry.outcome.clone())
        };
        let coming = outcome.wait_for(Option::is_some);
        let came = match limit {
            Some(limit) => timeout_at(limit.until, coming).await,
            None => Ok(coming.await),
        };
        let result = match came {
            Err(_) => return Some(Err(self.too_late(began, true))),
            Ok(Ok(result)) => result.clone(),
            Ok(Err(_)) => None,
        };
        self.entries().retain(|entry| entry.id != id);
        Some(match result.as_deref() {
            Some(Ok(result)) => Ok(result.clone().marked(began)),
            Some(Err(failure)) => Err(failure.clone()),
            None => Err(Failure::new(FailureKind::Internal, "the work on it was given up")
                .hint("send the request again: it begins anew")),
        })
    }

    /// Lets `work` go on by itself and keeps what comes of it, where there is room. Gives the answer for
    /// now.
    pub(crate) fn let_go_on(
        self: &Arc<Self>,
        question: Question,
        began: Timestamp,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Failure {
        let Some((id, sender)) = self.open(question, began) else {
            tokio::spawn(work);
            return self.too_late(began, false);
        };
        let this = self.clone();
        tokio::spawn(async move {
            let outcome = this.small_enough(work.await);
            this.close(id, &outcome);
            // Nobody waits for it where nobody has asked again, and the entry has it.
            let _ = sender.send(Some(Arc::new(outcome)));
        });
        self.too_late(began, true)
    }

    fn open(&self, question: Question, began: Timestamp) -> Option<(u64, watch::Sender<Outcome<T>>)> {
        let mut entries = self.entries();
        self.drop_old(&mut entries);
        let of_one = |entry: &Entry<T>| entry.question.principal == question.principal;
        while entries.iter().filter(|entry| of_one(entry)).count() >= MOST_OF_ONE {
            remove_first(&mut entries, |entry| entry.done.is_some() && of_one(entry))?;
        }
        while entries.len() >= MOST {
            remove_first(&mut entries, |entry| entry.done.is_some())?;
        }
        let (sender, outcome) = watch::channel(None);
        let id = self.last_id.fetch_add(1, Relaxed);
        entries.push(Entry { id, question, began, outcome, done: None });
        self.any.store(true, Relaxed);
        Some((id, sender))
    }

    /// Notes that the work is done, and makes room for what came of it.
    fn close(&self, id: u64, outcome: &Result<T, Failure>) {
        let mut entries = self.entries();
        let Some(entry) = entries.iter_mut().find(|entry| entry.id == id) else { return };
        let size = entry.question.bytes() + outcome.as_ref().map_or(0, Keepable::bytes);
        entry.done = Some((self.clock.now(), size));
        let principal = entry.question.principal.clone();
        let of_one = |entry: &Entry<T>| entry.question.principal == principal;
        let other = |entry: &Entry<T>| entry.done.is_some() && entry.id != id;
        while bytes(&entries, of_one) > MOST_BYTES_OF_ONE {
            if remove_first(&mut entries, |entry| other(entry) && of_one(entry)).is_none() {
                break;
            }
        }
        while bytes(&entries, |_| true) > MOST_BYTES {
            if remove_first(&mut entries, other).is_none() {
                break;
            }
        }
    }

    fn small_enough(&self, outcome: Result<T, Failure>) -> Result<T, Failure> {
        match outcome {
            Ok(result) if result.bytes() > MOST_BYTES_OF_ONE => {
                let details = format!("the result has {} bytes, too many to be kept", result.bytes());
                Err(Failure::new(FailureKind::Internal, details)
                    .hint("ask for less, or use a client that follows progress: it is not limited in time"))
            }
            outcome => outcome,
        }
    }

    fn too_late(&self, began: Timestamp, kept: bool) -> Failure {
        let waited = self.clock.now().duration_since(began).as_secs().max(0);
        let details = format!("there is no result yet after {waited} s; the work goes on");
        let failure = Failure::new(FailureKind::Internal, details);
        if !kept {
            return failure.hint(format!(
                "its result is not kept, because {MOST_OF_ONE} others are; fetch those first, by sending their requests again"
            ));
        }
        let seconds = self.kept_for.as_secs();
        failure
            .hint(format!(
                "send the same request again to get the result: it is kept for {seconds} s once it is there"
            ))
            .fact("retry", "same_request")
            .fact("kept_for_seconds", seconds)
    }

    fn drop_old(&self, entries: &mut Vec<Entry<T>>) {
        let now = self.clock.now();
        let age = |at: Timestamp| now.duration_since(at).unsigned_abs();
        entries.retain(|entry| entry.done.is_none_or(|(at, _)| age(at) < self.kept_for));
        self.any.store(!entries.is_empty(), Relaxed);
    }

    fn entries(&self) -> MutexGuard<'_, Vec<Entry<T>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove_first<T>(entries: &mut Vec<Entry<T>>, fits: impl Fn(&Entry<T>) -> bool) -> Option<()> {
    let at = entries.iter().position(fits)?;
    entries.remove(at);
    Some(())
}

fn bytes<T>(entries: &[Entry<T>], fits: impl Fn(&Entry<T>) -> bool) -> usize {
    entries.iter().filter(|entry| fits(entry)).filter_map(|entry| entry.done).map(|(_, bytes)| bytes).sum()
}

/// Passes progress on, and cancelling back, until the request is answered: work that goes on by itself
/// has nobody to tell, and nobody who went away.
pub(crate) struct Leash {
    watched: Mutex<Option<Arc<dyn Progress>>>,
    heard: AtomicBool,
}

impl Leash {
    pub(crate) fn new(watched: Arc<dyn Progress>) -> Arc<Self> {
        Arc::new(Self { watched: Mutex::new(Some(watched)), heard: AtomicBool::new(false) })
    }

    pub(crate) fn let_go(&self) {
        self.watched().take();
    }

    /// Whether some progress was made known.
    pub(crate) fn was_heard(&self) -> bool {
        self.heard.load(Relaxed)
    }

    fn watched(&self) -> MutexGuard<'_, Option<Arc<dyn Progress>>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Leash {
    fn report(&self, done: u64, total: Option<u64>, message: &str) {
        if let Some(watched) = &*self.watched() {
            self.heard.store(true, Relaxed);
            watched.report(done, total, message);
        }
    }

    fn cancelled(&self) -> bool {
        self.watched().as_ref().is_some_and(|watched| watched.cancelled())
    }
}

#[cfg(test)]
mod tests {
    use hindcast_core::time::ManualClock;
    use tokio::sync::oneshot;

    use super::*;

    #[derive(Debug, Clone, PartialEq)]
    struct Text(String);

    impl Keepable for Text {
        fn bytes(&self) -> usize {
            self.0.len()
        }

        fn marked(self, _began: Timestamp) -> Self {
            self
        }
    }

    struct Stage {
        clock: Arc<ManualClock>,
        overtime: Arc<Overtime<Text>>,
    }

    impl Stage {
        fn new() -> Self {
            let clock = Arc::new(ManualClock::at("2026-02-05T10:30:05Z".parse().unwrap()));
            let overtime = Overtime::new(clock.clone(), Duration::from_secs(600));
            Self { clock, overtime }
        }

        /// Work that ends when it is told to.
        fn work(&self, question: Question) -> oneshot::Sender<&'static str> {
            let (go, told) = oneshot::channel::<&str>();
            let began = self.clock.now();
            self.overtime.let_go_on(question, began, async { Ok(Text(told.await.unwrap().into())) });
            go
        }

        /// What is there within a moment.
        async fn ask(&self, question: &Question) -> Option<Result<Text, Failure>> {
            let until = Instant::now() + Duration::from_millis(50);
            self.overtime.resume(question, Some(TimeLimit { until, unless_heard: false })).await
        }

        /// What is there once the work is done.
        async fn fetch(&self, question: &Question) -> Option<Result<Text, Failure>> {
            self.overtime.resume(question, None).await
        }
    }

    fn caller(name: &str) -> Caller {
        Caller { principal: PrincipalId(name.into()), ..Caller::local() }
    }

    fn question(name: &str, text: &str) -> Question {
        let Value::Object(arguments) = serde_json::json!({ "text": text }) else { unreachable!() };
        Question::new(&caller(name), "knowledge/ask", &arguments)
    }

    #[tokio::test]
    async fn the_next_who_asks_the_same_gets_the_result_once() {
        let stage = Stage::new();
        let go = stage.work(question("ada", "why"));
        let late = stage.ask(&question("ada", "why")).await.unwrap().unwrap_err();
        assert_eq!(late.facts["retry"], "same_request");
        assert_eq!(stage.ask(&question("ada", "how")).await, None, "another question");
        assert_eq!(stage.ask(&question("bob", "why")).await, None, "another principal");
        let narrow = Caller { scopes: ScopeSet::default(), ..caller("ada") };
        let narrow = Question::new(&narrow, "knowledge/ask", &question("ada", "why").arguments);
        assert_eq!(stage.ask(&narrow).await, None, "other rights");
        go.send("because").unwrap();
        assert_eq!(stage.fetch(&question("ada", "why")).await, Some(Ok(Text("because".into()))));
        assert_eq!(stage.ask(&question("ada", "why")).await, None, "it was fetched");
    }

    #[tokio::test]
    async fn what_nobody_fetches_is_dropped_after_a_while() {
        let stage = Stage::new();
        stage.work(question("ada", "why")).send("because").unwrap();
        let question = question("ada", "why");
        while stage.overtime.entries().iter().any(|entry| entry.done.is_none()) {
            tokio::task::yield_now().await;
        }
        stage.clock.advance(Duration::from_secs(601));
        assert_eq!(stage.ask(&question).await, None);
    }

    #[tokio::test]
    async fn one_principal_keeps_so_many_and_not_more() {
        let stage = Stage::new();
        let running: Vec<_> =
            (0..MOST_OF_ONE).map(|at| stage.work(question("ada", &at.to_string()))).collect();
        let refused = stage
            .overtime
            .let_go_on(question("ada", "more"), stage.clock.now(), async { Ok(Text("lost".into())) });
        assert!(refused.to_string().contains("not kept"));
        assert_eq!(stage.ask(&question("ada", "more")).await, None);
        let go = stage.work(question("bob", "why"));
        go.send("because").unwrap();
        assert!(stage.fetch(&question("bob", "why")).await.unwrap().is_ok(), "others have their own room");
        for go in running {
            go.send("done").unwrap();
        }
        assert!(stage.fetch(&question("ada", "0")).await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn large_results_make_room_for_each_other_and_too_large_ones_say_so() {
        let stage = Stage::new();
        let keep = async |name: &str, size: usize| {
            let result = Text("x".repeat(size));
            stage.overtime.let_go_on(question("ada", name), stage.clock.now(), async { Ok(result) });
            while stage.overtime.entries().iter().any(|entry| entry.done.is_none()) {
                tokio::task::yield_now().await;
            }
        };
        for name in ["first", "second", "third"] {
            keep(name, MOST_BYTES_OF_ONE * 4 / 10).await;
        }
        assert_eq!(stage.ask(&question("ada", "first")).await, None);
        assert!(stage.ask(&question("ada", "third")).await.unwrap().is_ok());
        keep("huge", MOST_BYTES_OF_ONE + 1).await;
        let failure = stage.ask(&question("ada", "huge")).await.unwrap().unwrap_err();
        assert!(failure.details.contains("too many to be kept"), "{failure}");
        assert!(stage.ask(&question("ada", "second")).await.unwrap().is_ok());
    }
}
