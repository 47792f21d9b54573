//! Call stacks.

use std::{collections::HashMap, ops::Range, rc::Rc};

use hindcast_core::debug::{DebugError, Frame, FrameRef, Location, Reason, Stack, ThreadId};

use super::{Session, failed, frame::StackFrame};
use crate::{
    cor::{Com, Frame as CorFrame, IlFrame, IlFrame2, NativeFrame2, Thread, Thread3},
    image::{ClauseKind, ExceptionClause, Spelling, Token},
    modules::LoadedModule,
    names::method_name_with,
    values::{Seen, TypeInfo},
};

/// The deepest stack that is walked.
const DEEPEST: usize = 100_000;

/// A managed frame, or an async method that waits for the one before.
#[derive(Debug, Clone)]
pub(super) struct ManagedFrame {
    /// None for a method that waits: it is on no stack.
    pub(super) frame: Option<StackFrame>,
    /// What a method that waits keeps its variables in.
    pub(super) state_machine: Option<Seen>,
    pub(super) module: Rc<LoadedModule>,
    pub(super) method: Token,
    /// The IL offset.
    pub(super) offset: u32,
}

impl ManagedFrame {
    /// A caller is where it calls, not behind that.
    fn stand_at_call(&mut self) {
        if let Some(offset) = self.frame.as_ref().and_then(StackFrame::offset_of_call) {
            self.offset = offset;
        }
    }
}

/// The stacks of this stop, by the number of the system's thread.
#[derive(Debug, Default)]
pub(super) struct StackCache {
    walked: HashMap<u32, Walked>,
}

/// The inner frames of a thread.
#[derive(Debug, Clone)]
struct Walked {
    frames: Rc<Vec<ManagedFrame>>,
    is_whole: bool,
}

/// The frames that are shown, of those that are there.
///
/// With just the user's own code, what is below the innermost frame of it and belongs to the framework, or was made by the
/// compiler, is left out. An async method that was resumed is called by whatever completed what it waited for; who waits for
/// it is shown instead.
struct Shown<'s> {
    session: &'s Session,
    frames: Vec<ManagedFrame>,
    /// An async method that was resumed, unless the next frame is the method that started it.
    resumed: Option<(ManagedFrame, Token)>,
    /// Whether the frames before are of methods that were resumed, for which nobody waits.
    is_below_resumed: bool,
    is_done: bool,
}

/// A handler of exceptions that runs while the frames that it was thrown through are still there.
///
/// It is a frame of its own above them; its method's frame is below.
#[derive(Default)]
struct Handler(Option<Com<NativeFrame2>>);

impl Handler {
    /// Whether a frame is gone as far as the program is concerned, or is shown already as the handler.
    fn hides(&mut self, frame: &Com<CorFrame>, managed: Option<&ManagedFrame>) -> bool {
        let Some(native) = frame.cast::<NativeFrame2>() else { return self.0.is_some() };
        let hidden = self.0.take();
        let begins = native.is_child() == Ok(true) && !managed.is_some_and(is_filter);
        let Some(handler) = hidden else {
            self.0 = begins.then_some(native);
            return false;
        };
        let is_method = handler.belongs_to(&native) == Ok(true);
        self.0 = match is_method {
            true => begins.then_some(native),
            false => Some(handler),
        };
        true
    }
}

/// Whether a frame decides whether its method catches an exception. The frames of the throw are still alive then.
fn is_filter(frame: &ManagedFrame) -> bool {
    let Some(method) = frame.module.assembly().and_then(|assembly| assembly.method(frame.method)) else {
        return false;
    };
    let Ok(Some(body)) = method.body() else { return false };
    body.clauses.iter().any(|clause| match clause.kind {
        ClauseKind::Filter(start) => (start..clause.handler.start).contains(&frame.offset),
        _ => false,
    })
}

impl Shown<'_> {
    fn add(&mut self, frame: ManagedFrame) {
        if !self.session.just_my_code {
            self.frames.push(frame);
            return;
        }
        let is_mine = frame.module.is_mine();
        if !is_mine {
            // What the program waits in is worth seeing.
            if !self.frames.iter().any(|frame| frame.module.is_mine()) {
                self.frames.push(frame);
            }
            return;
        }
        if let Some((_, kickoff)) = &self.resumed
            && *kickoff != frame.method
        {
            self.end();
            self.is_below_resumed = true;
        }
        self.resumed = None;
        // A method that is done goes on with those that waited for it: they do not return to it.
        if self.is_done || self.is_below_resumed && self.is_over(&frame) {
            return;
        }
        self.is_below_resumed = false;
        let pdb = frame.module.pdb();
        let is_written = pdb
            .and_then(|pdb| pdb.sequence_points(frame.method).ok())
            .is_some_and(|points| !points.is_empty());
        if is_written {
            let kickoff = pdb.and_then(|pdb| pdb.kickoff_method(frame.method));
            self.resumed = kickoff.map(|kickoff| (frame.clone(), kickoff));
            self.frames.push(frame);
        }
    }

    /// Whether a frame's method only waits for what it made go on.
    fn is_over(&self, frame: &ManagedFrame) -> bool {
        // Who was given an item may be asking for the next one.
        self.session.is_finished(frame)
            || self.frames.iter().any(|inner| self.session.is_same_iterator(inner, frame))
    }

    /// Behind a method that was resumed come those that wait for it.
    fn end(&mut self) {
        let Some((frame, _)) = self.resumed.take() else { return };
        let chain = self.session.awaiting_chain(&frame);
        self.is_done = !chain.is_empty();
        self.frames.extend(chain.into_iter().map(|awaiting| awaiting.frame()));
    }
}

impl StackCache {
    /// Nothing of it is true when the debuggee has run.
    pub(super) fn forget(&mut self) {
        self.walked.clear();
    }
}

impl Session {
    /// The inner managed frames of a thread, `most` of them, and whether there are no more.
    pub(super) fn frames(
        &mut self,
        thread: &Com<Thread>,
        most: usize,
    ) -> Result<(Rc<Vec<ManagedFrame>>, bool), DebugError> {
        let system = thread.id().map_err(failed)?;
        if let Some(walked) = self.stacks.walked.get(&system)
            && (walked.is_whole || walked.frames.len() >= most)
        {
            return Ok((walked.frames.clone(), walked.is_whole));
        }
        let caller = self.stuck.iter().find(|stuck| stuck.thread == system).and_then(|stuck| stuck.caller);
        let walked = self.walk(thread, most.min(DEEPEST), caller)?;
        self.stacks.walked.insert(system, walked.clone());
        Ok((walked.frames, walked.is_whole))
    }

    /// Frames within `hidden_within` belong to a call that an evaluation made.
    fn walk(
        &self,
        thread: &Com<Thread>,
        most: usize,
        mut hidden_within: Option<u64>,
    ) -> Result<Walked, DebugError> {
        let walk = thread.expect::<Thread3>("Thread::create_stack_walk").map_err(failed)?;
        let walk = walk.create_stack_walk().map_err(failed)?;
        let mut shown = Shown {
            session: self,
            frames: Vec::new(),
            resumed: None,
            is_below_resumed: false,
            is_done: false,
        };
        let mut handler = Handler::default();
        let mut calls = false;
        loop {
            // Frames of native code have no IL.
            let frame = walk.frame().ok().flatten();
            if let Some(frame) = frame {
                let mut managed = self.managed(&frame);
                if let Some(managed) = managed.as_mut().filter(|_| std::mem::replace(&mut calls, true)) {
                    managed.stand_at_call();
                }
                let is_hidden = handler.hides(&frame, managed.as_ref());
                if let Some(managed) = managed.filter(|_| !is_hidden) {
                    hidden_within.take_if(|caller| Self::frame_identity(&managed) == Some(*caller));
                    if hidden_within.is_none() {
                        shown.add(managed);
                    }
                }
            }
            if shown.frames.len() > most {
                shown.frames.truncate(most);
                return Ok(Walked { frames: Rc::new(shown.frames), is_whole: false });
            }
            if shown.is_done || !walk.next().unwrap_or(false) {
                shown.end();
                return Ok(Walked { frames: Rc::new(shown.frames), is_whole: true });
            }
        }
    }

    /// What a frame of the debugging interface is; none for what is not managed code.
    pub(super) fn managed(&self, frame: &Com<CorFrame>) -> Option<ManagedFrame> {
        let frame: Com<IlFrame> = frame.cast()?;
        let module = self.modules.of(&frame.function().ok()?.module().ok()?)?.clone();
        let method = Token(frame.function_token().ok()?);
        let offset = frame.ip().ok()?.offset;
        let frame = StackFrame::new(frame, &module);
        Some(ManagedFrame { frame: Some(frame), state_machine: None, module, method, offset })
    }

    /// One frame of a thread, to look into.
    pub(super) fn frame_at(&mut self, at: FrameRef) -> Result<ManagedFrame, DebugError> {
        if self.overflowed == Some(at.thread) {
            let reason = Reason::new("the variables of a thread whose stack has overflowed cannot be read");
            return Err(DebugError::Unsupported(reason.advise(
                "the stack trace shows which method calls itself; set a breakpoint there and launch again",
            )));
        }
        let thread = self.thread(at.thread)?;
        let (frames, _) = self.frames(&thread, at.index as usize + 1)?;
        let count = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        let found = frames.get(at.index as usize).cloned();
        found.ok_or(DebugError::NoSuchFrame { index: at.index, frames: count })
    }

    pub(super) fn stack_of(&mut self, thread: ThreadId, max_frames: u32) -> Result<Stack, DebugError> {
        let object = self.thread(thread)?;
        let (frames, is_whole) = self.frames(&object, max_frames as usize)?;
        let shown: Vec<Frame> = (0u32..)
            .zip(frames.iter().take(max_frames as usize))
            .map(|(index, frame)| Frame {
                index,
                location: self.location(frame),
                offset: None,
                inlined: false,
                signal: false,
                awaiting: frame.frame.is_none(),
            })
            .collect();
        let more = !is_whole || frames.len() > shown.len();
        Ok(Stack { thread, frames: shown, more, broken: None })
    }

    /// Where a frame is, with all that is known of it.
    pub(super) fn location(&self, frame: &ManagedFrame) -> Location {
        let arguments = self.type_arguments(frame);
        let method = frame.module.assembly().and_then(|assembly| assembly.method(frame.method));
        let function = method.and_then(|method| method_name_with(method, &arguments));
        let mut location = self.place_of(&frame.module, frame.method, frame.offset);
        location.function = function;
        location
    }

    /// A method's IL offset, as the symbols have it.
    pub(super) fn place_of(&self, module: &LoadedModule, method: Token, offset: u32) -> Location {
        let point = module.pdb().and_then(|pdb| {
            let statement = pdb.statement_at(method, offset)?;
            let point =
                statement.point.filter(|point| !is_handled_before(module, method, point.il..offset))?;
            let document = pdb.document(point.document)?;
            Some((document.path()?, point.span?))
        });
        let method = module.assembly().and_then(|assembly| assembly.method(method));
        Location {
            file: point.as_ref().map(|(path, _)| path.clone()),
            line: point.as_ref().map(|(_, span)| span.start_line),
            column: point.as_ref().map(|(_, span)| span.start_column),
            function: method.and_then(|method| method_name_with(method, &[])),
            module: Some(module.name.clone()),
            library: !module.is_mine(),
            address: None,
        }
    }

    /// The types that stand for the parameters of a frame's type and method. Code that is shared by several types does
    /// not always tell.
    pub(super) fn frame_types(&self, frame: &ManagedFrame) -> Vec<TypeInfo> {
        let frame = frame.frame.as_ref().and_then(|frame| frame.cast::<IlFrame2>());
        let list = frame.and_then(|frame| frame.enumerate_type_parameters().ok());
        let types = list.and_then(|list| list.all().ok()).unwrap_or_default();
        types.into_iter().map(|of| TypeInfo::of(of, &self.modules)).collect()
    }

    fn type_arguments(&self, frame: &ManagedFrame) -> Vec<Option<String>> {
        let spelled = |of: TypeInfo| {
            let is_shared = of.is_named("System.__Canon");
            (!is_shared).then(|| of.spelled(Spelling::Short))
        };
        self.frame_types(frame).into_iter().map(spelled).collect()
    }

    /// Where a thread is: its innermost frame in the program's own code, or the innermost of all.
    pub(super) fn thread_location(&mut self, thread: &Com<Thread>) -> Option<Location> {
        /// Framework code between a wait and the code that waits is not deeper than this.
        const NEAR: usize = 32;
        let (frames, _) = self.frames(thread, NEAR).ok()?;
        let mine = frames.iter().take(NEAR).find(|frame| frame.module.is_mine());
        mine.or_else(|| frames.first()).map(|frame| self.location(frame))
    }

    /// Where a frame's memory begins, which tells frames of one method apart.
    pub(super) fn frame_identity(frame: &ManagedFrame) -> Option<u64> {
        frame.frame.as_ref()?.stack_start().ok()
    }
}

/// Whether a `catch` of the compiler's own begins between a statement and what comes later: that belongs to no statement. In
/// async methods there is one around everything.
fn is_handled_before(module: &LoadedModule, method: Token, later: Range<u32>) -> bool {
    let method = module.assembly().and_then(|assembly| assembly.method(method));
    let Some(Ok(Some(body))) = method.filter(|_| !later.is_empty()).map(|method| method.body()) else {
        return false;
    };
    let is_between = |clause: &ExceptionClause| {
        matches!(clause.kind, ClauseKind::Catch(_))
            && later.start < clause.handler.start
            && clause.handler.contains(&later.end)
    };
    body.clauses.iter().any(is_between)
}
