//! The way that a program took: what a comparison of two recordings asks each of them.

mod calls;
mod posts;

use hindcast_core::debug::{
    CallValue, DebugError, Location, Moment, NumberFormat, PassedPost, Reason, ValueLimits, WayFinding,
    WayPart, WayPass, WayPlace, WayQuestion, WaySums,
};
use hindcast_symbols::{
    FunctionTarget, Symbols,
    types::{TypeKind, TypeRef, Types as _},
    value::Inspector,
};

use self::posts::ProgramPosts;
use super::{
    Session,
    scribe::Scribe,
    travel::{Halted, function_around},
};
use crate::{
    debuggee::{Sight, Sights, Surveyed, Surveyor, Tracked, Wish},
    look,
    process::{CleanMemory, Ended},
    replay::{Plan, Position, Posts, ReplayError, Replica, Tally},
    sys::signal_name,
};

/// A sum is told of so many passes, at first.
const EVERY: u64 = 1024;
/// With more sums than this, each second one goes.
const MOST_SUMS: usize = 1 << 14;
/// No more variables and expressions are shown.
const MOST_VALUES: usize = 64;
const MOST_FRAMES: u32 = 24;

/// A way that was looked at.
pub(super) struct Way {
    since: Option<Moment>,
    until: Position,
    plan: Plan,
    /// All posts, also those that are not summed up.
    posts: Posts,
    functions: Vec<FunctionTarget>,
    has_branches: bool,
    /// Where stretches begin, and what was passed up to there.
    stretches: Vec<(Position, Tally)>,
    every: u64,
    sums: Vec<u64>,
    /// Once it is known.
    total: Option<Tally>,
    /// Where posts were seen one by one.
    bookmarks: Vec<(WayPlace, Position)>,
    listening: Option<calls::Listening>,
}

impl Session {
    /// Tells a part of the way that the program took. What was found out is kept for the next part.
    pub(super) fn way(&mut self, question: &WayQuestion) -> Result<WayFinding, Halted> {
        self.history()?;
        if let WayPart::Values { moment, show } = &question.part {
            let position = self.moment_named(moment)?;
            return Ok(WayFinding::Values(self.values_at(&position, show)?));
        }
        let until = self.last()?;
        // The other parts are about the way whose sums were told.
        let is_whole = |way: &Way| way.until == until || question.part != WayPart::Sums;
        let known = self.way.take().filter(|way| way.since == question.since && is_whole(way));
        let mut way = match known {
            Some(way) => way,
            None => Box::new(self.begin_way(question.since.as_ref(), until)?),
        };
        let found = match &question.part {
            WayPart::Sums => self.sums(&mut way).map(WayFinding::Sums),
            WayPart::Posts { from, count, with_frames } => {
                self.passed(&mut way, *from, *count, *with_frames).map(WayFinding::Posts)
            }
            WayPart::Pass(place) => self.pass(&mut way, *place).map(|pass| WayFinding::Pass(Box::new(pass))),
            WayPart::Calls { until, wanted } => {
                let Way { stretches, listening, functions, .. } = &mut *way;
                let from = (&stretches[0].0, listening);
                self.compared_calls(functions, from, until, *wanted).map(WayFinding::Calls)
            }
            WayPart::Values { .. } => Err(DebugError::System("this is no part of a way".into()).into()),
        };
        self.way = Some(way);
        found
    }

    fn begin_way(&mut self, since: Option<&Moment>, until: Position) -> Result<Way, Halted> {
        let threads = self.process.recorder().map_or(0, |recorder| recorder.log.turns());
        if threads > 0 {
            let reason = Reason::new("the program has several threads, whose ways are not compared");
            return Err(DebugError::Unsupported(
                reason.advise("compare what each did with `debugger/trace_calls`"),
            )
            .into());
        }
        let from = match since {
            Some(moment) => self.moment_named(moment)?,
            None => self.first()?,
        };
        super::chronicle::check_order(&from, &until)?;
        self.land(&until)?;
        let functions = self.compared_functions();
        let ProgramPosts { all: posts, summed, sites, has_branches } = self.posts(&functions);
        if posts.is_empty() {
            let reason = Reason::new("the program has no function whose source is here");
            let reason = reason.advise("build it with debug information, and keep its source where it was");
            return Err(DebugError::Unsupported(reason).into());
        }
        let symbols = &self.symbols;
        let plan =
            self.process.plan_track(&until, (summed, sites), &|address| function_around(symbols, address))?;
        let stretches = vec![(from, Tally::default())];
        Ok(Way {
            since: since.cloned(),
            until,
            plan,
            posts,
            functions,
            has_branches,
            stretches,
            every: EVERY,
            sums: Vec::new(),
            total: None,
            bookmarks: Vec::new(),
            listening: None,
        })
    }

    fn sums(&mut self, way: &mut Way) -> Result<WaySums, Halted> {
        let total = self.follow_way(way)?;
        let mut notes = Vec::new();
        if !way.has_branches {
            notes
                .push("the program is large: only calls were compared, not branches within functions".into());
        }
        notes.extend(self.history_end.clone());
        let fold = |sum: u64, (_, post): (&u64, &u32)| sum.rotate_left(5) ^ u64::from(*post);
        Ok(WaySums {
            build: self.build(),
            posts: way.posts.iter().fold(0, fold),
            every: way.every,
            sums: way.sums.clone(),
            total: total.passes,
            last: total.sum,
            end: self.end_in_words(),
            notes,
        })
    }

    /// Goes through the rest of a way. What was interrupted goes on where it was.
    fn follow_way(&mut self, way: &mut Way) -> Result<Tally, Halted> {
        if let Some(total) = way.total {
            return Ok(total);
        }
        loop {
            let Some((from, begun)) = way.stretches.last().cloned() else {
                return Err(DebugError::System("a way has no beginning".into()).into());
            };
            let (mut tally, every) = (begun, way.every);
            let mut found = Vec::new();
            let symbols = &self.symbols;
            let tracked = self.process.track(
                (&from, &way.until),
                &way.plan,
                &mut tally,
                &mut |tally: Tally| {
                    if tally.passes > begun.passes && tally.passes.is_multiple_of(every) {
                        found.push(tally.sum);
                    }
                    every - tally.passes % every
                },
                &|address| function_around(symbols, address),
            )?;
            way.sums.extend(found);
            way.sums.truncate(usize::try_from(tally.passes / every).unwrap_or(usize::MAX));
            while way.sums.len() > MOST_SUMS {
                way.sums = way.sums.iter().skip(1).step_by(2).copied().collect();
                way.every *= 2;
            }
            match tracked {
                Tracked::UpTo(position) if position < way.until => way.stretches.push((position, tally)),
                Tracked::UpTo(_) | Tracked::At(_) | Tracked::All => {
                    way.total = Some(tally);
                    return Ok(tally);
                }
            }
            if self.process.is_interrupted() {
                return Err(Halted::Interrupted);
            }
        }
    }

    /// The moment right before a pass; nothing where the way ends before it.
    fn moment_of_pass(&mut self, way: &mut Way, number: u64) -> Result<Option<Position>, Halted> {
        if self.follow_way(way)?.passes <= number {
            return Ok(None);
        }
        let index = way.stretches.partition_point(|(_, tally)| tally.passes <= number).saturating_sub(1);
        let (mut from, mut tally) = way.stretches[index].clone();
        loop {
            let symbols = &self.symbols;
            let tracked = self.process.track(
                (&from, &way.until),
                &way.plan,
                &mut tally,
                &mut |tally: Tally| (number + 1).saturating_sub(tally.passes),
                &|address| function_around(symbols, address),
            )?;
            match tracked {
                Tracked::At(position) => return Ok(Some(position)),
                // Moments that were told meanwhile make stretches shorter.
                Tracked::UpTo(position) if tally.passes <= number => from = position,
                Tracked::UpTo(_) | Tracked::All => {
                    return Err(ReplayError::Diverged("a way was not the same again".into()).into());
                }
            }
        }
    }

    /// Where to begin to look at posts one by one, at this place or before it.
    fn bookmark(&mut self, way: &mut Way, place: WayPlace) -> Result<(WayPlace, Position), Halted> {
        let is_before =
            |known: &&(WayPlace, Position)| known.0.summed == place.summed && known.0.post <= place.post;
        if let Some(known) = way.bookmarks.iter().filter(is_before).max_by_key(|known| known.0.post) {
            return Ok(known.clone());
        }
        let position = match place.summed.checked_sub(1) {
            Some(last) => self.moment_of_pass(way, last)?,
            None => way.stretches.first().map(|(from, _)| from.clone()),
        };
        let known = (WayPlace { post: 0, ..place }, position.unwrap_or_else(|| way.until.clone()));
        way.bookmarks.push(known.clone());
        Ok(known)
    }

    /// The posts one by one.
    fn passed(
        &mut self,
        way: &mut Way,
        from: WayPlace,
        count: u32,
        with_frames: bool,
    ) -> Result<Vec<PassedPost>, Halted> {
        let (begun, at) = self.bookmark(way, from)?;
        let before = from.post - begun.post;
        let most = before + u64::from(count);
        let (mut posts, at) = self.posts_from((way, at), (before, most), with_frames)?;
        if let Some(at) = at {
            way.bookmarks.push((WayPlace { post: begun.post + most, ..begun }, at));
        }
        posts.drain(..posts.len().min(before as usize));
        Ok(posts)
    }

    /// So many posts from a moment on, and where the next one is.
    fn posts_from(
        &mut self,
        (way, mut at): (&Way, Position),
        (before, most): (u64, u64),
        with_frames: bool,
    ) -> Result<(Vec<PassedPost>, Option<Position>), Halted> {
        let mut watched = Watched::default();
        loop {
            let symbols = &self.symbols;
            let mut watcher = Watcher {
                scribe: Scribe::new(symbols, &self.image, self.main),
                posts: &way.posts,
                watched: &mut watched,
                most,
                frames_from: if with_frames { before } else { u64::MAX },
            };
            let functions = |address| function_around(symbols, address);
            match self.process.survey((&at, &way.until), &functions, &mut watcher)? {
                Surveyed::All => return Ok((watched.posts, None)),
                Surveyed::UpTo(position) | Surveyed::Interrupted(position) => at = position,
            }
            if watched.at.is_some() {
                return Ok((watched.posts, watched.at));
            }
            if self.process.is_interrupted() {
                return Err(Halted::Interrupted);
            }
        }
    }

    fn pass(&mut self, way: &mut Way, place: WayPlace) -> Result<WayPass, Halted> {
        let (begun, from) = self.bookmark(way, place)?;
        let (_, at) = self.posts_from((way, from), (0, place.post - begun.post), false)?;
        let Some(at) = at else {
            let until = way.until.clone();
            self.land(&until)?;
            let moment = Moment(until.to_string());
            return Ok(WayPass { at: moment.clone(), moment, location: self.statement_now(), next: None });
        };
        self.land(&at)?;
        // Somebody will go to both: they stay.
        let at = self.process.position()?.unwrap_or(at);
        let next = Some(self.statement_ahead());
        let before = self.before(&at)?.unwrap_or_else(|| at.clone());
        self.land(&before)?;
        let before = self.process.position()?.unwrap_or(before);
        let moment = Moment(before.to_string());
        Ok(WayPass { moment, location: self.statement_now(), next, at: Moment(at.to_string()) })
    }

    /// The innermost statement of the program's own. Instructions of no line are counted to the line before.
    fn statement_now(&self) -> Location {
        let mut location = self.place_now();
        if location.line.is_none()
            && let Ok(registers) = self.process.registers(self.process.acting())
            && let Some(row) = self.visible_line(registers.pc())
        {
            location.line = Some(row.line);
        }
        location
    }

    /// The same behind a branch: instructions of no line are counted to the line that comes next.
    fn statement_ahead(&self) -> Location {
        let mut location = self.place_now();
        if let (None, Some(file)) = (location.line, location.file.as_deref())
            && let Ok(registers) = self.process.registers(self.process.acting())
        {
            location.line = self.symbols.line_ahead(registers.pc(), file);
        }
        location
    }

    /// The variables of the innermost function of the program's own, and expressions, where they are numbers.
    fn values_at(&mut self, position: &Position, show: &[String]) -> Result<Vec<CallValue>, Halted> {
        self.land(position)?;
        let tid = self.process.acting();
        let walk = self.walk(tid, MOST_FRAMES)?;
        let frames = self.with_scene(|scene| walk.frames(scene));
        let is_own = |location: &Location| !location.library && location.file.is_some();
        let index = frames.iter().find(|frame| is_own(&frame.location)).map_or(0, |frame| frame.index);
        let values = self.with_scope(tid, index, |scope| {
            let limits = ValueLimits { depth: 0, ..ValueLimits::default() };
            let inspector = Inspector::new(&scope.types, scope.scene.memory, limits, NumberFormat::Auto);
            let mut names: Vec<String> = show.to_vec();
            let locals = scope.locals().into_iter().filter(|variable| !variable.declared_later);
            names.extend(locals.map(|variable| variable.name));
            let mut values: Vec<CallValue> = Vec::new();
            for name in names {
                if values.len() == MOST_VALUES {
                    break;
                }
                let placed = scope
                    .place_of(&name)
                    .ok()
                    .filter(|placed| is_number(scope.scene.symbols, placed.type_ref));
                if let Some(placed) = placed.filter(|_| values.iter().all(|known| known.name != name)) {
                    values.push(CallValue { value: inspector.line(&placed), name });
                }
            }
            values
        })?;
        Ok(values)
    }

    /// What tells one build of the program from another.
    fn build(&self) -> String {
        let id = self.main.and_then(|main| self.symbols.build_id(main));
        match id {
            Some(id) => id.iter().map(|byte| format!("{byte:02x}")).collect(),
            None => String::new(),
        }
    }

    fn end_in_words(&self) -> String {
        let signal = self.live_stop.as_ref().and_then(|stop| stop.signal.as_ref());
        match (self.process.live_ended(), signal) {
            (Some(Ended::Exited(code)), _) => format!("exited with code {code}"),
            (Some(Ended::Killed(number)), _) => format!("ended by {}", signal_name(number)),
            (None, Some(signal)) => format!("got {}", signal.name),
            (None, None) => "had not ended when the recording does".into(),
        }
    }
}

/// The posts that were passed, and where the next one is.
#[derive(Default)]
struct Watched {
    posts: Vec<PassedPost>,
    at: Option<Position>,
}

/// Takes down the posts that are passed.
struct Watcher<'a> {
    scribe: Scribe<'a>,
    posts: &'a Posts,
    watched: &'a mut Watched,
    most: u64,
    /// The first of which the frame is told.
    frames_from: u64,
}

impl Surveyor for Watcher<'_> {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError> {
        let Sight::At(address) = sight else { return Ok(Wish::Pass) };
        let Some(&post) = self.posts.get(&address) else { return Ok(Wish::Pass) };
        let count = self.watched.posts.len() as u64;
        if count >= self.most {
            return Ok(Wish::NameAndStop);
        }
        let mut frame = 0;
        if count >= self.frames_from {
            let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
            let walk = look::walk(&self.scribe.scene(&memory), &replica.registers()?, 0, 1);
            frame = walk.physical.first().and_then(|frame| frame.cfa).unwrap_or_default();
        }
        self.watched.posts.push(PassedPost { post, frame });
        Ok(Wish::Pass)
    }

    fn named(&mut self, _: &Replica, position: Position) -> Result<(), ReplayError> {
        self.watched.at = Some(position);
        Ok(())
    }

    fn sights(&self) -> Sights {
        Sights::Code(self.posts.keys().copied().collect())
    }
}

/// Whether values of a type are numbers, which mean the same in every recording.
fn is_number(symbols: &Symbols, type_ref: TypeRef) -> bool {
    const LONGEST_CHAIN: usize = 64;
    let mut at = Some(type_ref);
    for _ in 0..LONGEST_CHAIN {
        match at.and_then(|at| symbols.get(at)).map(|known| known.kind.clone()) {
            Some(TypeKind::Alias { target, .. }) => at = target,
            Some(TypeKind::Base(_) | TypeKind::Enum { .. }) => return true,
            _ => return false,
        }
    }
    false
}
