//! Why a program gives up, as far as its libraries left it in memory: C++ exceptions, panics, and what the
//! C library printed before it aborted.

use hindcast_core::debug::{RaisedException, RaisedSignal, RuntimeAddr, Stop};
use hindcast_symbols::Unreadable;

use super::{Scene, Walk, walk};
use crate::{
    session::signals::PROTECTION_FAULT,
    sys::{GeneralRegisters, Mapping},
};

/// What a C++ exception of the GNU runtime is marked with (`GNUCC++`), in the header that unwinders are given.
const EXCEPTION: u64 = 0x474e_5543_432b_2b00;
/// The same, where it is one that was thrown before and only pointed to (`std::rethrow_exception`).
const POINTED_TO: u64 = EXCEPTION | 1;
/// From that header back to the type of what is thrown.
const TYPE_BEFORE_HEADER: u64 = 80;
/// From that header on to what is thrown.
const OBJECT_BEHIND_HEADER: u64 = 32;
/// Registers that a function keeps for its caller, by their DWARF numbers: rbx, rbp, r12 to r15.
const KEPT: [u16; 6] = [3, 6, 12, 13, 14, 15];
/// So many functions of the runtime libraries may be between giving up and the program's own code.
pub(crate) const FRAMES_OF_GIVING_UP: usize = 16;
/// More base classes than any exception has.
const DEEPEST: u32 = 32;

/// Something that was thrown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Thrown {
    pub(crate) object: u64,
    /// Its `std::type_info`.
    pub(crate) type_info: u64,
}

impl Scene<'_> {
    /// Says in `stop` that a signal is why the thread with these registers stands, and what stands behind a program
    /// that aborts itself.
    pub(crate) fn tell_signal(
        &self,
        stop: &mut Stop,
        mut signal: RaisedSignal,
        registers: &GeneralRegisters,
        mappings: &[Mapping],
    ) {
        if signal.number == libc::SIGABRT {
            let stack = walk(self, registers, 0, FRAMES_OF_GIVING_UP);
            stop.exception = self.uncaught(&stack).and_then(|thrown| self.exception(thrown, "", false, true));
            let exception = stop.exception.as_ref().map(|raised| match &raised.message {
                Some(message) => format!("unhandled {}: {message}", raised.exception_type),
                None => format!("unhandled {}", raised.exception_type),
            });
            let message = exception.or_else(|| self.abort_message());
            signal.cause = message.or(signal.cause);
        }
        if matches!(signal.number, libc::SIGSEGV | libc::SIGBUS) {
            let mut access = None;
            if let Some(address) = signal.fault_address {
                access = self.access_to(address.0, registers);
            } else if signal.cause.as_deref() == Some(PROTECTION_FAULT)
                && let Some((refused, address)) = self.refused_access(registers)
            {
                (access, signal.fault_address) = (Some(refused), address.map(RuntimeAddr));
            }
            signal.fault = self.fault(&signal, access, registers, mappings).map(Box::new);
        }
        stop.detail = Some(match &signal.cause {
            Some(cause) => format!("{}: {cause}", signal.name),
            None => signal.name.clone(),
        });
        stop.signal = Some(signal);
    }

    /// The exception that nobody catches, where the runtime is about to end the program for it: the functions
    /// of the runtime on the inner part of its stack have the header at hand.
    pub(crate) fn uncaught(&self, stack: &Walk) -> Option<Thrown> {
        let frames = stack.physical.iter();
        let mut kept =
            frames.flat_map(|frame| KEPT.iter().filter_map(|&register| frame.registers.get(register)));
        kept.find_map(|header| {
            let before = header.checked_sub(TYPE_BEFORE_HEADER)?;
            match self.memory.read_pointer(header).ok()? {
                EXCEPTION => Some(Thrown {
                    object: header.checked_add(OBJECT_BEHIND_HEADER)?,
                    type_info: self.memory.read_pointer(before).ok()?,
                }),
                POINTED_TO => {
                    let object = self.memory.read_pointer(before).ok()?;
                    let type_info = object.checked_sub(TYPE_BEFORE_HEADER + OBJECT_BEHIND_HEADER)?;
                    Some(Thrown { object, type_info: self.memory.read_pointer(type_info).ok()? })
                }
                _ => None,
            }
        })
    }

    /// As it is told, if it is of the type `wanted`, or if that is empty.
    pub(crate) fn exception(
        &self,
        thrown: Thrown,
        wanted: &str,
        include_subtypes: bool,
        unhandled: bool,
    ) -> Option<RaisedException> {
        let name = self.type_name(thrown.type_info)?;
        let matches = wanted.is_empty()
            || same_type(&name, wanted)
            || include_subtypes && self.has_base(thrown.type_info, wanted, DEEPEST);
        matches.then(|| RaisedException {
            message: self.message_of(thrown),
            exception_type: format!("cpp:{name}"),
            unhandled,
            ..RaisedException::default()
        })
    }

    /// The name that a `std::type_info` carries, demangled.
    fn type_name(&self, type_info: u64) -> Option<String> {
        let name = self.memory.read_pointer(type_info.checked_add(8)?).ok()?;
        let mangled = self.text_at(name)?;
        // A star marks a name that is compared by address.
        let mangled = mangled.trim_start_matches('*');
        Some(hindcast_symbols::demangle_type(mangled).unwrap_or_else(|| mangled.to_owned()))
    }

    fn has_base(&self, type_info: u64, wanted: &str, depth: u32) -> bool {
        depth > 0
            && self.bases(type_info).is_some_and(|bases| {
                bases.into_iter().any(|base| {
                    self.type_name(base).is_some_and(|name| same_type(&name, wanted))
                        || self.has_base(base, wanted, depth - 1)
                })
            })
    }

    /// The base classes, by what kind of `type_info` it is: the C++ ABI has one for single and one
    /// for multiple inheritance.
    fn bases(&self, type_info: u64) -> Option<Vec<u64>> {
        let vtable = self.memory.read_pointer(type_info).ok()?;
        let (kind, _) = hindcast_symbols::types::Types::symbol_at(self.symbols, vtable)?;
        if kind.contains("__si_class_type_info") {
            return Some(vec![self.memory.read_pointer(type_info.checked_add(16)?).ok()?]);
        }
        if !kind.contains("__vmi_class_type_info") {
            return None;
        }
        let count = self.memory.read_uint(type_info.checked_add(20)?, 4).ok()?.min(64);
        (0..count)
            .map(|index| self.memory.read_pointer(type_info.checked_add(24 + 16 * index)?).ok())
            .collect()
    }

    /// The text of a standard exception: those with one keep it behind their vtable pointer.
    fn message_of(&self, thrown: Thrown) -> Option<String> {
        if !self.has_base(thrown.type_info, "std::exception", DEEPEST) {
            return None;
        }
        let text = self.memory.read_pointer(thrown.object.checked_add(8)?).ok()?;
        self.text_at(text).filter(|text| !text.is_empty())
    }

    /// What the GNU C library printed before it aborted the program: a failed assertion, or a heap that it found
    /// to be broken.
    fn abort_message(&self) -> Option<String> {
        let places = self.symbols.symbol_addresses(&["__abort_msg"]);
        let message = places.iter().find_map(|&(_, place)| self.memory.read_pointer(place).ok())?;
        // Its size comes first.
        let text = self.text_at(message.checked_add(4).filter(|_| message != 0)?)?;
        Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
    }

    /// A zero-terminated text of up to a kilobyte.
    fn text_at(&self, address: u64) -> Option<String> {
        let mut bytes = [0; 1024];
        if let Err(Unreadable(first)) = self.memory.read(address, &mut bytes) {
            let readable = usize::try_from(first.checked_sub(address)?).ok()?;
            self.memory.read(address, bytes.get_mut(..readable)?).ok()?;
        }
        let end = bytes.iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
    }
}

fn same_type(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_suffix(wanted).is_some_and(|rest| rest.ends_with("::"))
}

/// Whether only Rust's runtime is left to catch a panic of this stack, which ends the thread or the program.
pub(crate) fn is_unhandled_panic(stack: &Walk) -> bool {
    let functions = stack.logical.iter().filter_map(|frame| frame.source.as_ref()?.function.as_deref());
    is_left_to_the_runtime(functions)
}

/// The same of the functions on the stack, innermost first.
fn is_left_to_the_runtime<'a>(functions: impl Iterator<Item = &'a str>) -> bool {
    let mut outside = functions.skip_while(|function| !catches_panics(function));
    outside.all(|function| catches_panics(function) || is_of_the_runtime(function))
}

fn catches_panics(function: &str) -> bool {
    const CATCHING: [&str; 4] =
        ["std::panicking::try", "std::panicking::catch_unwind", "std::panic::catch_unwind", "__rust_try"];
    CATCHING.iter().any(|catching| {
        function
            .strip_prefix(catching)
            .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
    })
}

/// Code that calls `main`, threads and tests, and does nothing with a panic but tell of it.
fn is_of_the_runtime(function: &str) -> bool {
    let function = function.trim_start_matches(['<', '&']);
    let crates = ["std::", "core::", "alloc::", "test::", "__rustc::"];
    let system = ["main", "_start", "start_thread", "clone", "clone3", "__clone", "__clone3"];
    crates.iter().any(|name| function.starts_with(name))
        || system.contains(&function)
        || function.starts_with("__libc_start")
        || function.contains("__rust_begin_short_backtrace")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_that_only_the_runtime_catches_is_unhandled() {
        let unhandled = |functions: &[&str]| is_left_to_the_runtime(functions.iter().copied());
        let start = ["std::panicking::try<i32, closure>", "std::rt::lang_start_internal", "main", "_start"];
        let panic = ["__rustc::rust_panic", "core::panicking::panic", "app::work"];
        let in_main =
            [panic.as_slice(), &["app::main", "core::ops::function::FnOnce::call_once"], &start].concat();
        assert!(unhandled(&in_main));
        let caught =
            [panic.as_slice(), &["std::panic::catch_unwind<app::f, ()>", "app::main"], &start].concat();
        assert!(!unhandled(&caught));
        let thread = [
            panic.as_slice(),
            &[
                "std::panicking::catch_unwind::do_call",
                "__rust_try",
                "std::thread::Builder::spawn_unchecked_",
            ],
            &[
                "<alloc::boxed::Box<F> as core::ops::function::FnOnce<A>>::call_once",
                "start_thread",
                "clone3",
            ],
        ];
        assert!(unhandled(&thread.concat()));
        // A program that aborts at a panic has nobody who catches it.
        assert!(unhandled(&panic));
    }
}
