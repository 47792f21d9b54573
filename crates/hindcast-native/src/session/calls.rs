//! What a thread called, as a tree in which what repeats itself is told once.

use std::collections::{BTreeMap, BTreeSet};

use hindcast_core::debug::{
    CallTrace, CallValue, CallsQuestion, DebugError, Moment, NumberFormat, Reason, TracedCall, ValueLimits,
};
use hindcast_symbols::{
    FunctionPattern, Memory as _, PatternError,
    names::cut,
    types::{Encoding, TypeKind, TypeRef, Types as _},
    value::{DerivedTypes, Inspector, Placed, Storage},
};

use super::{
    Session,
    hidden::all_inlined,
    landing::Teller,
    scribe::Scribe,
    travel::{Halted, function_around},
};
use crate::{
    debuggee::{Sight, Sights, Surveyed, Surveyor, Wish},
    look::{self, FrameScope, ThreadScene},
    process::CleanMemory,
    replay::{Position, ReplayError, Replica},
    sys::Tid,
};

/// More functions than this are not looked at.
const MOST_FUNCTIONS: usize = 20_000;
/// More calls than this are not kept, repetitions taken together.
const MOST_KEPT: usize = 100_000;
/// Moments are told of the first so many.
const MOST_MOMENTS: usize = 40;

/// A question that is being answered.
pub(super) struct Tracing {
    question: CallsQuestion,
    functions: BTreeMap<u64, Traced>,
    /// Who tells where exceptions and jumps land.
    tellers: Vec<Teller>,
    since: Position,
    until: Position,
    at: Position,
    kept: Kept,
    /// Where only the last calls are wanted.
    tail: Option<Tail>,
}

/// The way back to where the last calls begin: ever longer parts of the past are gone through until one has enough of them.
struct Tail {
    /// Where parts begin, the latest last.
    points: Vec<Position>,
    /// How many points before the end this part begins.
    back: usize,
    /// Whether the part is the right one: then it is gone through once more, and moments are told of the last calls.
    is_found: bool,
}

/// A function that is looked at.
#[derive(Debug, Clone)]
struct Traced {
    name: String,
    returns: Option<TypeRef>,
    /// How many calls are inlined where it begins.
    inlined: usize,
}

/// What was found out so far.
#[derive(Debug, Clone, Default)]
struct Kept {
    total: u64,
    /// Calls by other threads.
    elsewhere: u64,
    /// In the order of time.
    calls: Vec<TracedCall>,
    /// The calls that have not returned, outermost first.
    open: Vec<Open>,
    /// Where calls return to, and where exceptions and jumps land.
    ways_out: BTreeSet<u64>,
    moments: usize,
    /// Moments are told of calls from this one on.
    named_from: u64,
    /// How many were forgotten, because only the last are wanted.
    forgotten: u64,
    is_full: bool,
}

/// A call that has not returned.
#[derive(Debug, Clone)]
struct Open {
    /// Which of the calls; none where it is too deep to be told.
    index: Option<usize>,
    /// The value of the stack pointer when it has returned.
    end: u64,
    returns_to: u64,
    returns: Option<TypeRef>,
}

impl Session {
    /// What a thread called within a part of the past. A question that was interrupted goes on where it was.
    pub(super) fn trace_calls(&mut self, question: &CallsQuestion) -> Result<CallTrace, Halted> {
        let mut tracing = match self.tracing.take().filter(|known| known.question == *question) {
            Some(tracing) => tracing,
            None => self.begin_tracing(question)?,
        };
        loop {
            let mut kept = tracing.kept.clone();
            let symbols = &self.symbols;
            let mut tracer = Tracer {
                scribe: Scribe::new(symbols, &self.image, self.main),
                question,
                thread: Tid(i32::try_from(question.thread.0).unwrap_or(-1)),
                functions: &tracing.functions,
                tellers: &tracing.tellers,
                kept: &mut kept,
                named: None,
            };
            let functions = |address| function_around(symbols, address);
            let surveyed = self.process.survey((&tracing.at, &tracing.until), &functions, &mut tracer);
            let position = match surveyed {
                Ok(Surveyed::All) => None,
                Ok(Surveyed::UpTo(position) | Surveyed::Interrupted(position)) => Some(position),
                Err(error) => {
                    let halted = Halted::from(error);
                    self.tracing = matches!(halted, Halted::Interrupted).then_some(tracing);
                    return Err(halted);
                }
            };
            tracing.kept = kept;
            match position.filter(|_| !tracing.kept.is_full) {
                Some(position) => tracing.at = position,
                None if tracing.goes_further_back() => {}
                None => return Ok(tracing.told()),
            }
            if self.process.is_interrupted() {
                self.tracing = Some(tracing);
                return Err(Halted::Interrupted);
            }
        }
    }

    fn begin_tracing(&mut self, question: &CallsQuestion) -> Result<Tracing, Halted> {
        let (since, until) = self.part_of_past(&question.span)?;
        let functions = self.traced_functions(question.functions.as_deref())?;
        if functions.is_empty() {
            let reason = match &question.functions {
                Some(name) => Reason::new(format!("at this moment no function with code is called `{}`", cut(name)))
                    .advise("give a name, or `/…/` with a part of names; one of a library is there once that is loaded"),
                None => Reason::new("the program has no function whose source is here")
                    .advise("name some with `functions`, such as `/^parse/`"),
            };
            return Err(DebugError::Expression(reason).into());
        }
        let tail = question.last.then(|| {
            let mut points = self.checkpoints_between(&since, &until);
            points.pop();
            Tail { points, back: 0, is_found: false }
        });
        let at = since.clone();
        let (question, tellers, kept) = (question.clone(), self.tellers(), Kept::default());
        let mut tracing = Tracing { question, functions, tellers, since, until, at, kept, tail };
        tracing.goes_further_back();
        Ok(tracing)
    }

    fn traced_functions(&self, wanted: Option<&str>) -> Result<BTreeMap<u64, Traced>, DebugError> {
        let pattern = FunctionPattern::read(wanted.unwrap_or("/./")).map_err(|error| {
            let advice = match error {
                PatternError::TooLong { .. } => "give a shorter name, or `/…/` with a part of names",
                PatternError::Regex(_) => "mend the regular expression",
            };
            DebugError::Expression(Reason::new(error.to_string()).advise(advice))
        })?;
        let scribe = self.scribe();
        let found = self.symbols.functions_named(&pattern, MOST_FUNCTIONS).into_iter();
        let own = found.filter(|target| {
            !target.inlined && (wanted.is_some() || scribe.own_beginning(target.address).is_some())
        });
        Ok(own
            .map(|target| {
                let returns = self.result_type(target.address);
                let inlined = all_inlined(&self.symbols, target.address);
                (target.address, Traced { name: target.name, returns, inlined })
            })
            .collect())
    }

    /// What the function at an address returns. Others of the same name may return something else.
    fn result_type(&self, address: u64) -> Option<TypeRef> {
        match self.symbols.get(self.symbols.function_type_at(address)?)?.kind {
            TypeKind::Function { returns, .. } => returns,
            _ => None,
        }
    }
}

impl Tracing {
    /// Where the last calls are wanted: begins again earlier if these are too few, and for the moments if they are enough.
    fn goes_further_back(&mut self) -> bool {
        let Some(tail) = self.tail.as_mut().filter(|tail| !tail.is_found) else { return false };
        let is_first = tail.back == 0;
        let is_enough = self.kept.calls.len() >= self.question.limit as usize;
        let is_all = tail.back >= tail.points.len();
        if !is_first && (is_enough || is_all) {
            tail.is_found = true;
        } else {
            tail.back = (2 * tail.back).clamp(1, tail.points.len());
        }
        let named_from = match tail.is_found {
            true => self.kept.total.saturating_sub(MOST_MOMENTS as u64),
            false => u64::MAX,
        };
        let begin = tail.points.len().checked_sub(tail.back).and_then(|begin| tail.points.get(begin));
        self.at = begin.unwrap_or(&self.since).clone();
        self.kept = Kept { named_from, ..Kept::default() };
        if tail.is_found {
            self.since = self.at.clone();
        }
        true
    }

    fn told(mut self) -> CallTrace {
        let Kept { total, elsewhere, mut calls, open, forgotten, is_full, .. } =
            std::mem::take(&mut self.kept);
        for call in open.iter().filter_map(|open| open.index) {
            calls[call].is_open = true;
        }
        let full = is_full.then(|| {
            format!("more than {MOST_KEPT} calls that do not repeat: told up to moment {}", self.at)
        });
        let beside = (elsewhere > 0).then(|| {
            let thread = self.question.thread;
            format!("these are the calls by thread {thread}; others made {elsewhere} more, `thread_id` asks for theirs")
        });
        let notes: Vec<_> = full.into_iter().chain(beside).collect();
        let limit = self.question.limit as usize;
        let beyond = calls.len().saturating_sub(limit);
        match self.question.last {
            true => drop(calls.drain(..beyond)),
            false => calls.truncate(limit),
        }
        CallTrace {
            total,
            calls,
            left_out: beyond as u64 + forgotten,
            functions: self.functions.len() as u64,
            since: Moment(self.since.to_string()),
            until: Moment(self.until.to_string()),
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }
}

/// Takes down the calls of a stretch.
struct Tracer<'a> {
    scribe: Scribe<'a>,
    question: &'a CallsQuestion,
    thread: Tid,
    functions: &'a BTreeMap<u64, Traced>,
    tellers: &'a [Teller],
    kept: &'a mut Kept,
    /// The call whose moment was wished.
    named: Option<usize>,
}

impl Surveyor for Tracer<'_> {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError> {
        let Sight::At(address) = sight else { return Ok(Wish::Pass) };
        if replica.frozen.cast().acting() != self.thread {
            self.kept.elsewhere += u64::from(self.functions.contains_key(&address));
            return Ok(Wish::Pass);
        }
        let thread = ThreadScene {
            registers: replica.registers()?,
            vectors: replica.frozen.thread()?.vector_registers().ok(),
            hidden: self.functions.get(&address).map_or(0, |function| function.inlined),
        };
        let stack = thread.registers.sp();
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        if let Some(teller) = self.tellers.iter().find(|teller| teller.address == address) {
            let landing = teller.told(self.scribe.symbols, &memory, &thread.registers);
            let is_new = landing.is_some_and(|landing| self.kept.ways_out.insert(landing));
            if is_new {
                return Ok(Wish::LookElsewhere);
            }
        }
        self.leave_to(address, stack);
        self.return_to(address, stack, &thread, &memory);
        let Some(function) = self.functions.get(&address) else { return Ok(Wish::Pass) };
        let scene = self.scribe.scene(&memory);
        let Ok(scope) = FrameScope::enter(&scene, &thread, 0) else { return Ok(Wish::Pass) };
        let end = look::walk(&scene, &thread.registers, 0, 1).physical.first().and_then(|frame| frame.cfa);
        let Some(end) = end else { return Ok(Wish::Pass) };
        // Whatever is not outside of this was left.
        while self.kept.open.last().is_some_and(|open| open.end <= end) {
            self.kept.leave();
        }
        let returns_to = memory.read_pointer(end.wrapping_sub(8)).unwrap_or_default();
        let depth = self.kept.open.len() as u32;
        self.kept.total += 1;
        let is_told = depth < self.question.depth;
        let index = is_told.then_some(self.kept.calls.len());
        if is_told {
            let location =
                self.scribe.own_beginning(address).unwrap_or_else(|| self.scribe.location(address));
            self.kept.calls.push(TracedCall {
                depth,
                function: function.name.clone(),
                arguments: arguments(&scope),
                last_arguments: None,
                result: None,
                times: 1,
                is_open: false,
                left: false,
                moment: None,
                location,
            });
        }
        self.kept.open.push(Open { index, end, returns_to, returns: function.returns });
        if self.kept.calls.len() >= MOST_KEPT {
            if !self.question.last {
                self.kept.is_full = true;
                return Ok(Wish::Stop);
            }
            self.kept.forget_earlier_half();
        }
        let index = self.kept.open.last().and_then(|open| open.index);
        let is_named = self.kept.moments < MOST_MOMENTS && self.kept.total > self.kept.named_from;
        self.named = index.filter(|_| is_named);
        let is_new = self.kept.ways_out.insert(returns_to);
        Ok(match (self.named, is_new) {
            (Some(_), _) => Wish::Name,
            (None, true) => Wish::LookElsewhere,
            (None, false) => Wish::Pass,
        })
    }

    fn named(&mut self, _: &Replica, position: Position) -> Result<(), ReplayError> {
        if let Some(call) = self.named.take().and_then(|index| self.kept.calls.get_mut(index)) {
            call.moment = Some(Moment(position.to_string()));
            self.kept.moments += 1;
        }
        Ok(())
    }

    fn sights(&self) -> Sights {
        let tellers = self.tellers.iter().map(|teller| teller.address);
        Sights::Code(self.functions.keys().chain(&self.kept.ways_out).copied().chain(tellers).collect())
    }
}

impl Tracer<'_> {
    /// Calls whose part of the stack is gone did not return, but were left by an exception or a jump.
    fn leave_to(&mut self, address: u64, stack: u64) {
        let is_left = |open: &Open| open.end < stack || open.end == stack && open.returns_to != address;
        while self.kept.open.last().is_some_and(is_left) {
            self.kept.leave();
        }
    }

    /// The thread stands where a call returns to; perhaps it has just returned.
    fn return_to(&mut self, address: u64, stack: u64, thread: &ThreadScene, memory: &CleanMemory<'_>) {
        while let Some(open) = self.kept.open.last()
            && open.returns_to == address
            && open.end == stack
        {
            let result = open.returns.and_then(|type_ref| self.result(type_ref, thread, memory));
            self.kept.close(result);
        }
    }

    /// What a function has just returned, where that is in a register.
    fn result(&self, type_ref: TypeRef, thread: &ThreadScene, memory: &CleanMemory<'_>) -> Option<String> {
        let types = DerivedTypes::new(self.scribe.symbols);
        let size = types.get(type_ref)?.size.filter(|size| *size <= 8)? as usize;
        let is_float = super::writes::encoding_of(self.scribe.symbols, type_ref) == Some(Encoding::Float);
        let bytes = match is_float {
            true => thread.vectors.as_ref()?.widest(0)?.get(..size)?.to_vec(),
            false => thread.registers.get("rax")?.to_le_bytes()[..size].to_vec(),
        };
        if !is_scalar(self.scribe.symbols, type_ref) {
            return None;
        }
        let inspector = Inspector::new(&types, memory, ValueLimits::default(), NumberFormat::Auto);
        Some(inspector.line(&Placed::computed(type_ref, bytes)))
    }
}

/// Whether a value of this type is returned in one register.
fn is_scalar(symbols: &hindcast_symbols::Symbols, type_ref: TypeRef) -> bool {
    const LONGEST_CHAIN: usize = 64;
    let mut at = Some(type_ref);
    for _ in 0..LONGEST_CHAIN {
        match at.and_then(|at| symbols.get(at)).map(|known| known.kind.clone()) {
            Some(TypeKind::Alias { target, .. }) => at = target,
            Some(TypeKind::Base(_) | TypeKind::Pointer { .. } | TypeKind::Enum { .. }) => return true,
            _ => return false,
        }
    }
    false
}

/// What the function has got in whose beginning a thread stands.
fn arguments(scope: &FrameScope<'_>) -> Vec<CallValue> {
    const MOST: usize = 8;
    let limits = ValueLimits { depth: 0, ..ValueLimits::default() };
    let inspector = Inspector::new(&scope.types, scope.scene.memory, limits, NumberFormat::Auto);
    let variables = scope.locals().into_iter().filter(|variable| variable.is_argument).take(MOST);
    let shown = variables.map(|variable| {
        let placed = scope.place(&variable);
        let value = object_address(scope, &placed).unwrap_or_else(|| inspector.line(&placed));
        CallValue { value, name: variable.name }
    });
    shown.collect()
}

/// The address of an object that is passed by a pointer or reference: which one it is says more than the beginning of what is in it.
fn object_address(scope: &FrameScope<'_>, placed: &Placed) -> Option<String> {
    let kind_of = |type_ref: TypeRef| super::writes::aliased(scope.scene.symbols, type_ref);
    let TypeKind::Pointer { target: Some(target), .. } = kind_of(placed.type_ref)?.kind else { return None };
    matches!(kind_of(target)?.kind, TypeKind::Struct(_)).then_some(())?;
    let address = match &placed.storage {
        Storage::Memory(address) => scope.scene.memory.read_pointer(*address).ok()?,
        Storage::Bytes(bytes) => u64::from_le_bytes(bytes.as_ref().try_into().ok()?),
        _ => return None,
    };
    Some(format!("{address:#x}"))
}

impl Kept {
    fn forget_earlier_half(&mut self) {
        let forgotten = self.calls.len() / 2;
        self.calls.drain(..forgotten);
        self.forgotten += forgotten as u64;
        for open in &mut self.open {
            open.index = open.index.and_then(|index| index.checked_sub(forgotten));
        }
    }

    /// The innermost call has returned.
    fn close(&mut self, result: Option<String>) {
        let Some(index) = self.open.pop().and_then(|open| open.index) else { return };
        self.calls[index].result = result;
        self.fold(index);
    }

    /// The innermost call was left without returning.
    fn leave(&mut self) {
        let Some(index) = self.open.pop().and_then(|open| open.index) else { return };
        self.calls[index].left = true;
        self.fold(index);
    }

    /// Makes a call one with the one before it, where both did the same.
    fn fold(&mut self, index: usize) {
        let Some(before) = self.sibling_before(index) else { return };
        if !is_alike(&self.calls[before..index], &self.calls[index..]) {
            return;
        }
        let repeated = self.calls.drain(index..).next();
        if let (Some(repeated), Some(first)) = (repeated, self.calls.get_mut(before)) {
            first.times += 1;
            first.result = repeated.result;
            if repeated.arguments != first.arguments || first.last_arguments.is_some() {
                first.last_arguments = Some(repeated.arguments);
            }
        }
    }

    /// The call right before another one within the same call.
    fn sibling_before(&self, index: usize) -> Option<usize> {
        let depth = self.calls[index].depth;
        let before = self.calls[..index].iter().rposition(|call| call.depth <= depth)?;
        (self.calls[before].depth == depth).then_some(before)
    }
}

/// Whether two calls called the same, whatever was passed.
fn is_alike(one: &[TracedCall], other: &[TracedCall]) -> bool {
    let is_root = |index: usize| index == 0;
    one.len() == other.len()
        && one.iter().zip(other).enumerate().all(|(index, (one, other))| {
            one.depth == other.depth
                && one.function == other.function
                && one.left == other.left
                // Several functions may have one name.
                && one.location == other.location
                && (is_root(index) || (one.times > 1) == (other.times > 1))
        })
}
