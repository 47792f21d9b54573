//! Two recordings of one program, compared: both are asked which way the program took.

mod align;

use std::sync::Arc;

use hindcast_core::{
    debug::{
        BranchDifference, CallValue, Comparison, Location, Moment, NextStep, PassedPost, Question, TwoValues,
        ValueDifference, WayCalls, WayFinding, WayPart, WayPass, WayPlace, WayQuestion, WaySums,
    },
    progress::Unwatched,
};
use tokio::{sync::watch, time::Instant};

use self::align::Ahead;
use super::{
    search::{Found, Searched, masked_value},
    session::{LOOK_AGAIN, Patience, Session},
    worker::Need,
};
use crate::{Failure, FailureKind};

/// A part of a comparison is waited for so long at a time.
const WAIT_MS: u64 = 50_000;
/// So many posts behind a difference are looked at for where both ways join again.
const LOOK_AHEAD: u32 = 2048;
/// So many posts are looked at one by one at a time, and so often.
const PART: u32 = 8192;
const MOST_PARTS: u64 = 64;
/// Sums differ a little later than ways.
const STEP_BACK: u64 = 64;
/// So many variables that differ are told.
const MOST_VALUES: usize = 8;

type Outcome = Option<Result<Comparison, Failure>>;

/// A comparison, and what became of it.
pub(super) struct Comparing {
    number: u64,
    other: Arc<str>,
    after: Option<String>,
    outcome: watch::Receiver<Outcome>,
}

/// What is known of a comparison.
#[derive(Debug)]
pub enum Compared {
    /// It is over.
    Found(Box<Comparison>),
    /// It goes on, under this number.
    Running(u64),
}

impl Session {
    /// Where the recording of another session first differs from this one's, behind `after` of an earlier answer. Where
    /// patience ends first, the comparison goes on.
    pub async fn compare(
        self: &Arc<Self>,
        other: &Arc<Self>,
        after: Option<String>,
        patience: &Patience,
    ) -> Result<Compared, Failure> {
        if self.id == other.id {
            return Err(Failure::new(FailureKind::InvalidInput, "a recording does not differ from itself")
                .hint("give the `session_id` of another session as `other`; a trace file becomes one with `debugger/launch`"));
        }
        let (here, there) = self.sides(other, after.as_deref())?;
        let number = {
            let mut comparing = self.comparing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let is_same = |known: &&Comparing| {
                known.other == other.id && known.after == after && known.outcome.borrow().is_none()
            };
            match comparing.as_ref().filter(is_same) {
                Some(known) => known.number,
                None => {
                    let number = comparing.as_ref().map_or(1, |known| known.number + 1);
                    let (told, outcome) = watch::channel(None);
                    tokio::spawn(async move {
                        let found = compare(&here, &there).await;
                        let _ = told.send(Some(found));
                    });
                    *comparing = Some(Comparing { number, other: other.id.clone(), after, outcome });
                    number
                }
            }
        };
        self.compared(number, patience).await
    }

    /// What a comparison found, if it does so while there is patience.
    pub async fn compared(&self, number: u64, patience: &Patience) -> Result<Compared, Failure> {
        let known = {
            let comparing = self.comparing.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            comparing.as_ref().filter(|known| known.number == number).map(|known| known.outcome.clone())
        };
        let Some(mut outcome) = known else {
            return Err(Failure::new(FailureKind::InvalidInput, format!("there is no comparison {number}"))
                .hint("ask again with `other`"));
        };
        let started = Instant::now();
        loop {
            if let Some(found) = outcome.borrow_and_update().clone() {
                return found.map(|found| Compared::Found(Box::new(found)));
            }
            let waited = started.elapsed();
            if waited >= patience.timeout || patience.progress.cancelled() {
                return Ok(Compared::Running(number));
            }
            if waited.as_secs() > 0 {
                let total = Some(patience.timeout.as_secs());
                patience.progress.report(waited.as_secs(), total, "the recordings are compared");
            }
            let pause = LOOK_AGAIN.min(patience.timeout.saturating_sub(waited));
            if let Ok(Err(_)) = tokio::time::timeout(pause, outcome.changed()).await {
                return Err(Failure::new(FailureKind::Internal, "the comparison ended without a result"));
            }
        }
    }

    fn sides(self: &Arc<Self>, other: &Arc<Self>, after: Option<&str>) -> Result<(Side, Side), Failure> {
        let (here, there) = match after.map(|after| after.split_once('/')) {
            None => (None, None),
            Some(Some((here, there))) => (Some(Moment(here.into())), Some(Moment(there.into()))),
            Some(None) => {
                return Err(Failure::new(FailureKind::InvalidInput, "`after` is none that an answer gave")
                    .hint("leave it out, or give `after` of the last answer as it is"));
            }
        };
        let side = |session: &Arc<Self>, since| Side { session: session.clone(), since };
        Ok((side(self, here), side(other, there)))
    }

    /// The source line of a place.
    async fn source_line(&self, location: &Location) -> Option<String> {
        let location = location.clone();
        self.ask(Need::Session, move |core| core.line_of(&location)).await.ok().flatten()
    }
}

/// One of the two recordings.
struct Side {
    session: Arc<Session>,
    since: Option<Moment>,
}

impl Side {
    async fn ask(&self, part: WayPart) -> Result<WayFinding, Failure> {
        let question = Question::Way(WayQuestion { since: self.since.clone(), part });
        let patience = Patience::new(WAIT_MS, Arc::new(Unwatched));
        let mut searched = self.session.ask_past(question, &patience).await;
        loop {
            match searched {
                Ok(Searched::Found(Found::Way(found))) => return Ok(*found),
                Ok(Searched::Found(_)) => return Err(unexpected()),
                Ok(Searched::Running(number)) => searched = self.session.searched(number, &patience).await,
                Err(failure) => {
                    let details = format!("session {}: {}", self.session.id, failure.details);
                    return Err(Failure { details, ..failure });
                }
            }
        }
    }

    fn masked(&self, name: &str, value: String) -> String {
        masked_value(self.session.mask, name, value)
    }
}

fn unexpected() -> Failure {
    Failure::new(FailureKind::Internal, "another question was answered")
}

/// Asks both sides for something that `$kind` is.
macro_rules! both {
    ($here:expr, $there:expr, $kind:ident, $part_here:expr, $part_there:expr) => {{
        let (one, other) = tokio::join!($here.ask($part_here), $there.ask($part_there));
        match (one?, other?) {
            (WayFinding::$kind(one), WayFinding::$kind(other)) => (one, other),
            _ => return Err(unexpected()),
        }
    }};
    ($here:expr, $there:expr, $kind:ident, $part:expr) => {{
        let part = $part;
        both!($here, $there, $kind, part.clone(), part)
    }};
}

async fn compare(here: &Side, there: &Side) -> Result<Comparison, Failure> {
    let (one, other) = both!(here, there, Sums, WayPart::Sums);
    check_builds(&one, &other)?;
    let mut comparison = Comparison {
        same: one.total,
        branch: None,
        value: None,
        here_ends: one.end.clone(),
        there_ends: other.end.clone(),
        after: None,
        notes: Vec::new(),
    };
    for note in one.notes.iter().chain(&other.notes) {
        if !comparison.notes.contains(note) {
            comparison.notes.push(note.clone());
        }
    }
    comparison.notes.push("not compared: pointers, and the code of libraries".into());
    let place = match one.first_difference(&other) {
        Some(same) => Some(first_pass(here, there, same).await?),
        None => None,
    };
    let end = WayPlace { summed: one.total.max(other.total), post: u64::from(u32::MAX) };
    let (at_here, at_there) = both!(here, there, Pass, WayPart::Pass(place.unwrap_or(end)));
    if let Some(place) = place {
        comparison.same = place.summed + place.post;
        comparison.branch = Some(branch(here, there, place, (&*at_here, &*at_there)).await?);
    }
    compare_calls(here, there, (&at_here.moment, &at_there.moment), &mut comparison).await?;
    if let Some(place) = place {
        comparison.after = joint(here, there, place).await?;
    }
    Ok(comparison)
}

fn check_builds(one: &WaySums, other: &WaySums) -> Result<(), Failure> {
    if one.build == other.build && one.posts == other.posts {
        return Ok(());
    }
    Err(Failure::new(FailureKind::InvalidInput, "the recordings are of different builds of the program")
        .hint("record both runs with the same executable, also where only one of them fails"))
}

/// The first post that differs, where some are known to be the same.
async fn first_pass(here: &Side, there: &Side, same: u64) -> Result<WayPlace, Failure> {
    let summed = same.saturating_sub(STEP_BACK);
    for part in 0..MOST_PARTS {
        let from = WayPlace { summed, post: part * u64::from(PART) };
        let (one, other) =
            both!(here, there, Posts, WayPart::Posts { from, count: PART, with_frames: false });
        if let Some(differs) = align::first_difference(&one, &other) {
            return Ok(WayPlace { post: from.post + differs as u64, ..from });
        }
        if one.len() < PART as usize {
            return Err(Failure::new(FailureKind::Internal, "the ways differ, but no post does"));
        }
    }
    let details = format!(
        "the recordings differ after about {same} branches and calls, and it takes too long to say where"
    );
    Err(Failure::new(FailureKind::HistoryUnavailable, details)
        .hint("compare what was called with `debugger/trace_calls` in both sessions"))
}

async fn branch(
    here: &Side,
    there: &Side,
    place: WayPlace,
    (at_here, at_there): (&WayPass, &WayPass),
) -> Result<BranchDifference, Failure> {
    let ended = [(here, at_here), (there, at_there)].into_iter().find(|(_, pass)| pass.next.is_none());
    // Where one ends, both are looked at where they passed the last post that they share.
    let last = match ended {
        Some(_) => {
            let last = WayPlace { post: place.post.saturating_sub(1), ..place };
            Some(both!(here, there, Pass, WayPart::Pass(last)))
        }
        None => None,
    };
    let (location, when) = match &last {
        Some((one, other)) => (one.next.clone().unwrap_or_default(), (&one.at, &other.at)),
        None => (at_here.location.clone(), (&at_here.moment, &at_there.moment)),
    };
    let text = here.session.source_line(&location).await;
    let mut show = text.as_deref().map(align::names_in).unwrap_or_default();
    if let Some((side, pass)) = ended {
        let line = side.session.source_line(&pass.location).await;
        show.extend(line.as_deref().map(align::names_in).unwrap_or_default());
    }
    let part = |moment: &Moment| WayPart::Values { moment: moment.clone(), show: show.clone() };
    let (one, other) = both!(here, there, Values, part(when.0), part(when.1));
    Ok(BranchDifference {
        location,
        text,
        here: next_step(here, at_here).await,
        there: next_step(there, at_there).await,
        values: differing_values(&one, &other),
    })
}

async fn next_step(side: &Side, pass: &WayPass) -> NextStep {
    let location = pass.next.clone().unwrap_or_else(|| pass.location.clone());
    let text = side.session.source_line(&location).await;
    NextStep { moment: pass.moment.clone(), location, text, ends: pass.next.is_none() }
}

fn differing_values(here: &[CallValue], there: &[CallValue]) -> Vec<TwoValues> {
    let pairs = here.iter().filter_map(|one| Some((one, there.iter().find(|other| other.name == one.name)?)));
    let differing = pairs.filter(|(one, other)| one.value != other.value);
    let told = differing.map(|(one, other)| TwoValues {
        name: one.name.clone(),
        here: one.value.clone(),
        there: other.value.clone(),
    });
    told.take(MOST_VALUES).collect()
}

/// The first argument or result before both moments that differs as a variable at the branch does. Others are only a
/// note: times and numbers of processes differ, too.
async fn compare_calls(
    here: &Side,
    there: &Side,
    (until_here, until_there): (&Moment, &Moment),
    comparison: &mut Comparison,
) -> Result<(), Failure> {
    let part = |until: &Moment, wanted| WayPart::Calls { until: until.clone(), wanted };
    let (one, other): (WayCalls, WayCalls) =
        both!(here, there, Calls, part(until_here, None), part(until_there, None));
    if one.frequent > 0 {
        let note = format!(
            "of {} functions that are called very often, only the first calls were compared by their values",
            one.frequent
        );
        comparison.notes.push(note);
    }
    let found = align::differing(&one, &other);
    let at_branch = comparison.branch.as_ref().map(|branch| branch.values.clone()).unwrap_or_default();
    let first_word = |text: &str| text.split_whitespace().next().unwrap_or_default().to_owned();
    let same_as = |differing: &align::Differing| {
        at_branch
            .iter()
            .find(|at| first_word(&at.here) == differing.here && first_word(&at.there) == differing.there)
    };
    let leading = found.iter().find(|differing| same_as(differing).is_some());
    let chosen = leading.or_else(|| found.iter().find(|differing| !differing.is_always)).or(found.first());
    let Some(chosen) = chosen else { return Ok(()) };
    let name = chosen.parameter.clone().unwrap_or_else(|| chosen.function.clone());
    let (shown_here, shown_there) =
        (here.masked(&name, chosen.here.clone()), there.masked(&name, chosen.there.clone()));
    let what = chosen.parameter.as_deref().map_or("the result".to_owned(), |name| format!("`{name}`"));
    let what = format!("{what} of `{}`: {shown_here} here, {shown_there} there", chosen.function);
    if comparison.branch.is_none() {
        let note = format!(
            "{} arguments or results differ and lead to no other branch, such as {what}",
            found.len()
        );
        comparison.notes.push(note);
        return Ok(());
    }
    let wanted = Some(chosen.call as u64);
    let (one, other): (WayCalls, WayCalls) =
        both!(here, there, Calls, part(until_here, wanted), part(until_there, wanted));
    let (Some((here_moment, location)), Some((there_moment, _))) = (one.wanted, other.wanted) else {
        return Ok(());
    };
    match same_as(chosen).map(|at| at.name.clone()) {
        // A time or the number of a process differs, too.
        None => comparison.notes.push(format!(
            "before, {} arguments or results differ, none with the same two values as at the branch, such as {what} \
             [{here_moment}, {there_moment}]",
            found.len()
        )),
        Some(same_as) => {
            comparison.value = Some(ValueDifference {
                function: chosen.function.clone(),
                parameter: chosen.parameter.clone(),
                here: shown_here,
                there: shown_there,
                here_moment,
                there_moment,
                location,
                same_as,
            });
        }
    }
    Ok(())
}

/// Where both go the same way again behind the pass that differs, in the form of `after`.
async fn joint(here: &Side, there: &Side, place: WayPlace) -> Result<Option<String>, Failure> {
    let ahead = WayPart::Posts { from: place, count: LOOK_AHEAD, with_frames: true };
    let (rows_here, rows_there): (Vec<PassedPost>, Vec<PassedPost>) = both!(here, there, Posts, ahead);
    let joint = align::join(ahead_of(&rows_here), ahead_of(&rows_there));
    let Some((ahead_here, ahead_there)) = joint else { return Ok(None) };
    let part = |ahead: usize| WayPart::Pass(WayPlace { post: place.post + ahead as u64, ..place });
    let (one, other) = both!(here, there, Pass, part(ahead_here), part(ahead_there));
    Ok(Some(format!("{}/{}", one.at, other.at)))
}

fn ahead_of(posts: &[PassedPost]) -> Ahead<'_> {
    Ahead { posts, is_all: posts.len() < LOOK_AHEAD as usize }
}
