//! What the runtime calls when something happens in the debuggee.
//!
//! The runtime calls on a thread of its own, and keeps the debuggee stopped until it is told to go on, once for
//! each call. So every call becomes a [`CorEvent`] in a channel, and whoever takes it out calls
//! [`Process::go_on`](super::Process).

use std::{
    ffi::c_void,
    sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    time::Duration,
};

use super::{
    com::{Com, Guid, Interface, Raw},
    interfaces::{Breakpoint, CorDebug, Eval, Module, Process, Stepper, Thread},
};

/// Something that happened. The debuggee stands until it is told to go on.
#[derive(Debug)]
pub(crate) enum CorEvent {
    /// A breakpoint was hit.
    Breakpoint { thread: Com<Thread>, breakpoint: Com<Breakpoint> },
    /// A step is done, and how it got there.
    StepDone { thread: Com<Thread>, stepper: Com<Stepper>, reason: u32 },
    /// `Debugger.Break()`.
    Break { thread: Com<Thread> },
    /// An exception.
    Exception { thread: Com<Thread>, stage: ExceptionStage },
    /// The code that was run for an evaluation has returned, or thrown.
    EvalDone { eval: Com<Eval>, threw: bool },
    /// The process is there.
    ProcessCreated,
    /// The process has ended; it is not told to go on.
    ProcessExited,
    /// A thread began.
    ThreadCreated { thread: Com<Thread> },
    /// A thread ended.
    ThreadExited { thread: Com<Thread> },
    /// An assembly was loaded.
    ModuleLoaded { module: Com<Module> },
    /// An assembly was unloaded.
    ModuleUnloaded { module: Com<Module> },
    /// The debugging interface failed.
    Failed { code: u32 },
    /// `Debug.WriteLine` and the like.
    Logged { text: String },
    /// A breakpoint could not be set after all.
    BreakpointFailed { breakpoint: Com<Breakpoint>, code: u32 },
    /// Nothing that matters here.
    Other,
}

/// How far an exception is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExceptionStage {
    /// It was thrown.
    FirstChance,
    /// It passes the first of the user's frames.
    UserFirstChance,
    /// Somebody catches it, at the frame that comes with it.
    HandlerFound,
    /// Nobody catches it.
    Unhandled,
    /// Something newer.
    Unknown,
}

impl ExceptionStage {
    fn of(number: u32) -> Self {
        match number {
            1 => Self::FirstChance,
            2 => Self::UserFirstChance,
            3 => Self::HandlerFound,
            4 => Self::Unhandled,
            _ => Self::Unknown,
        }
    }
}

/// What waits in the channel.
#[derive(Debug)]
enum Message {
    Event(CorEvent),
    Woken,
}

/// What was taken out of the channel.
#[derive(Debug)]
pub(crate) enum Next {
    /// An event.
    Event(CorEvent),
    /// Somebody called [`Waker::wake`].
    Woken,
    /// Nothing, for so long.
    TimedOut,
}

/// The receiving end of the channel.
#[derive(Debug)]
pub(crate) struct Events {
    receiver: Receiver<Message>,
    sender: Sender<Message>,
}

/// Makes [`Events::next`] return.
#[derive(Debug, Clone)]
pub(crate) struct Waker(Sender<Message>);

impl Waker {
    /// From any thread.
    pub(crate) fn wake(&self) {
        // Whoever would be woken may be gone.
        let _ = self.0.send(Message::Woken);
    }
}

impl Events {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        Self { receiver, sender }
    }

    pub(crate) fn waker(&self) -> Waker {
        Waker(self.sender.clone())
    }

    /// Waits for the next thing that happens.
    pub(crate) fn next(&self, within: Option<Duration>) -> Next {
        let message = match within {
            // We hold a sender, so the channel does not close.
            None => self.receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(within) => self.receiver.recv_timeout(within),
        };
        match message {
            Ok(Message::Event(event)) => Next::Event(event),
            Ok(Message::Woken) => Next::Woken,
            Err(_) => Next::TimedOut,
        }
    }

    /// Has the runtime put its events here. The handler lives as long as the process: the runtime may call late.
    pub(crate) fn listen_to(&self, debugging: &Com<CorDebug>) -> Result<(), super::CorError> {
        let handler = Box::leak(Box::new(Handler {
            faces: [
                Face { table: FIRST.0.as_ptr(), handler: std::ptr::null() },
                Face { table: SECOND.0.as_ptr(), handler: std::ptr::null() },
                Face { table: THIRD.0.as_ptr(), handler: std::ptr::null() },
            ],
            sender: self.sender.clone(),
        }));
        let address: *const Handler = handler;
        for face in &mut handler.faces {
            face.handler = address;
        }
        let first: Raw = std::ptr::from_mut(&mut handler.faces[0]).cast();
        // SAFETY: slot 5 is SetManagedHandler; the handler has the tables of its interfaces and is never freed.
        let code = unsafe { super::com::call_method!(debugging.raw(), 5, Raw = first) };
        super::com::check(code, "CorDebug::set_managed_handler")
    }
}

/// The object that the runtime calls: one face for each interface it implements.
#[repr(C)]
struct Handler {
    faces: [Face; 3],
    sender: Sender<Message>,
}

/// What an interface pointer points to.
#[repr(C)]
struct Face {
    table: *const *const c_void,
    handler: *const Handler,
}

/// The functions of an interface.
struct Table<const SLOTS: usize>([*const c_void; SLOTS]);

// SAFETY: nobody changes it.
unsafe impl<const SLOTS: usize> Sync for Table<SLOTS> {}

const UNKNOWN: Guid = Guid::new("00000000-0000-0000-C000-000000000046");
const INTERFACES: [Guid; 3] = [
    Guid::new("3d6f5f60-7538-11d3-8d5b-00104b35e7ef"),
    Guid::new("250E5EEA-DB5C-4C76-B6F3-8C46F12E3203"),
    Guid::new("264EA0FC-2591-49AA-868E-835E6515323F"),
];

/// # Safety
/// Called by the runtime, with one of our faces, a name and a place for the answer.
unsafe extern "C" fn query_interface(this: *mut Face, name: *const Guid, answer: *mut Raw) -> i32 {
    // SAFETY: by contract; the handler is never freed.
    unsafe {
        let handler = (*this).handler;
        let wanted = *name;
        let at = INTERFACES.iter().position(|known| *known == wanted).or((wanted == UNKNOWN).then_some(0));
        match at {
            Some(at) => {
                *answer = std::ptr::from_ref(&(*handler).faces[at]).cast_mut().cast();
                0
            }
            None => {
                *answer = std::ptr::null_mut();
                super::Hresult::NO_INTERFACE.0.cast_signed()
            }
        }
    }
}

/// The handler is never freed, so references are not counted.
extern "C" fn count_reference(_: *mut Face) -> u32 {
    1
}

/// An argument of a call.
trait Argument {
    type Raw;
    /// # Safety
    /// As the runtime passes it.
    unsafe fn take(raw: Self::Raw) -> Self;
}

impl<T: Interface> Argument for Option<Com<T>> {
    type Raw = Raw;

    unsafe fn take(raw: Raw) -> Self {
        // SAFETY: lent for the time of the call.
        unsafe { Com::lent(raw) }
    }
}

impl Argument for u32 {
    type Raw = Self;

    unsafe fn take(raw: Self) -> Self {
        raw
    }
}

impl Argument for String {
    type Raw = *const u16;

    unsafe fn take(raw: *const u16) -> Self {
        /// The most of a message that is kept.
        const LONGEST: usize = 1 << 16;
        if raw.is_null() {
            return Self::new();
        }
        // SAFETY: a text with a zero at its end.
        let units = unsafe {
            let length = (0..LONGEST).take_while(|at| *raw.add(*at) != 0).count();
            std::slice::from_raw_parts(raw, length)
        };
        Self::from_utf16_lossy(units)
    }
}

/// A pointer that nobody looks at.
struct Unused;

impl Argument for Unused {
    type Raw = Raw;

    unsafe fn take(_: Raw) -> Self {
        Self
    }
}

/// Defines the functions of an interface and its table. Each makes an event, or none where a pointer is missing.
macro_rules! callbacks {
    ($table:ident[$slots:literal]: $($name:ident($($argument:ident: $type:ty),*) => $event:expr;)*) => {
        $(
            /// # Safety
            /// Called by the runtime as the interface's definition says.
            unsafe extern "C" fn $name(this: *mut Face $(, $argument: <$type as Argument>::Raw)*) -> i32 {
                // SAFETY: by contract; the handler is never freed.
                unsafe {
                    $(let $argument = <$type as Argument>::take($argument);)*
                    $(let _ = &$argument;)*
                    let make = || -> Option<CorEvent> { $event };
                    let event = make().unwrap_or(CorEvent::Other);
                    // A session that has ended does not listen any more.
                    let _ = (*(*this).handler).sender.send(Message::Event(event));
                }
                0
            }
        )*

        static $table: Table<$slots> = Table([
            query_interface as *const c_void,
            count_reference as *const c_void,
            count_reference as *const c_void,
            $($name as *const c_void),*
        ]);
    };
}

type MaybeThread = Option<Com<Thread>>;

callbacks!(FIRST[29]:
    breakpoint(domain: Unused, thread: MaybeThread, breakpoint: Option<Com<Breakpoint>>) =>
        Some(CorEvent::Breakpoint { thread: thread?, breakpoint: breakpoint? });
    step_complete(domain: Unused, thread: MaybeThread, stepper: Option<Com<Stepper>>, reason: u32) =>
        Some(CorEvent::StepDone { thread: thread?, stepper: stepper?, reason });
    debugger_break(domain: Unused, thread: MaybeThread) => Some(CorEvent::Break { thread: thread? });
    // The second interface tells of exceptions in more detail.
    old_exception(domain: Unused, thread: MaybeThread, unhandled: u32) => Some(CorEvent::Other);
    eval_complete(domain: Unused, thread: MaybeThread, eval: Option<Com<Eval>>) =>
        Some(CorEvent::EvalDone { eval: eval?, threw: false });
    eval_exception(domain: Unused, thread: MaybeThread, eval: Option<Com<Eval>>) =>
        Some(CorEvent::EvalDone { eval: eval?, threw: true });
    create_process(process: Option<Com<Process>>) => Some(CorEvent::ProcessCreated);
    exit_process(process: Option<Com<Process>>) => Some(CorEvent::ProcessExited);
    create_thread(domain: Unused, thread: MaybeThread) => Some(CorEvent::ThreadCreated { thread: thread? });
    exit_thread(domain: Unused, thread: MaybeThread) => Some(CorEvent::ThreadExited { thread: thread? });
    load_module(domain: Unused, module: Option<Com<Module>>) => Some(CorEvent::ModuleLoaded { module: module? });
    unload_module(domain: Unused, module: Option<Com<Module>>) =>
        Some(CorEvent::ModuleUnloaded { module: module? });
    load_class(domain: Unused, class: Unused) => Some(CorEvent::Other);
    unload_class(domain: Unused, class: Unused) => Some(CorEvent::Other);
    debugger_error(process: Unused, code: u32, number: u32) => Some(CorEvent::Failed { code });
    log_message(domain: Unused, thread: Unused, level: u32, switch: Unused, text: String) =>
        Some(CorEvent::Logged { text: text.clone() });
    log_switch(domain: Unused, thread: Unused, level: u32, reason: u32, switch: Unused, parent: Unused) =>
        Some(CorEvent::Other);
    create_app_domain(process: Unused, domain: Unused) => Some(CorEvent::Other);
    exit_app_domain(process: Unused, domain: Unused) => Some(CorEvent::Other);
    load_assembly(domain: Unused, assembly: Unused) => Some(CorEvent::Other);
    unload_assembly(domain: Unused, assembly: Unused) => Some(CorEvent::Other);
    control_c_trap(process: Unused) => Some(CorEvent::Other);
    name_change(domain: Unused, thread: Unused) => Some(CorEvent::Other);
    update_module_symbols(domain: Unused, module: Unused, stream: Unused) => Some(CorEvent::Other);
    remap(domain: Unused, thread: Unused, function: Unused, accurate: u32) => Some(CorEvent::Other);
    breakpoint_set_error(domain: Unused, thread: Unused, breakpoint: Option<Com<Breakpoint>>, code: u32) =>
        Some(CorEvent::BreakpointFailed { breakpoint: breakpoint?, code });
);

callbacks!(SECOND[11]:
    remap_opportunity(domain: Unused, thread: Unused, old: Unused, new: Unused, offset: u32) =>
        Some(CorEvent::Other);
    create_connection(process: Unused, id: u32, name: Unused) => Some(CorEvent::Other);
    change_connection(process: Unused, id: u32) => Some(CorEvent::Other);
    destroy_connection(process: Unused, id: u32) => Some(CorEvent::Other);
    exception(domain: Unused, thread: MaybeThread, frame: Unused, offset: u32, stage: u32, flags: u32) =>
        Some(CorEvent::Exception { thread: thread?, stage: ExceptionStage::of(stage) });
    exception_unwind(domain: Unused, thread: Unused, stage: u32, flags: u32) => Some(CorEvent::Other);
    remap_complete(domain: Unused, thread: Unused, function: Unused) => Some(CorEvent::Other);
    assistant_notification(controller: Unused, thread: Unused, assistant: Unused) => Some(CorEvent::Other);
);

callbacks!(THIRD[4]:
    custom_notification(thread: Unused, domain: Unused) => Some(CorEvent::Other);
);
