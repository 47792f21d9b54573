//! Panics and exceptions: where they pass by, and what can be read of them there.

use hindcast_core::debug::{DebugError, ExceptionBreakpoint, OutputStream, RaisedException};
use hindcast_symbols::Memory;

use super::{Session, signals};
use crate::sys::Tid;

/// What an exception breakpoint stops at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ExceptionKind {
    Signal(i32),
    RustPanic,
    /// A C++ exception of this type; empty for any.
    Cpp(String),
}

/// Called by the standard library for every panic, after its message was printed.
const PANIC: &[&str] = &["rust_panic"];
const THROW: &str = "__cxa_throw";
const TERMINATE: &str = "_ZSt9terminatev";
/// More base classes than any exception has.
const DEEPEST: u32 = 32;

impl ExceptionKind {
    pub(super) fn read(text: &str) -> Result<Self, DebugError> {
        let unknown = || {
            DebugError::BreakpointFailed(format!(
                "`{text}` is not something a native program raises · hint: `signal:SIGSEGV`, `rust:panic`, `cpp:std::runtime_error` or `cpp:*`"
            ))
        };
        let (family, name) = text.split_once(':').ok_or_else(unknown)?;
        match family.trim() {
            "signal" => signals::by_name(name.trim()).map(Self::Signal).ok_or_else(unknown),
            "rust" if name.trim() == "panic" => Ok(Self::RustPanic),
            "cpp" | "c++" => {
                let name = name.trim().trim_start_matches(':');
                Ok(Self::Cpp(if name == "*" { String::new() } else { name.to_owned() }))
            }
            _ => Err(unknown()),
        }
    }

    /// The functions where it can be seen.
    pub(super) fn functions(&self, wanted: &ExceptionBreakpoint) -> &'static [&'static str] {
        match self {
            Self::Signal(_) => &[],
            Self::RustPanic => PANIC,
            Self::Cpp(_) => match (wanted.first_chance, wanted.second_chance) {
                (true, true) => &[THROW, TERMINATE],
                (true, false) => &[THROW],
                (false, _) => &[TERMINATE],
            },
        }
    }
}

impl Session {
    /// What `tid` is raising, where it stands at one of the functions; `None` where it is another
    /// exception than the one that is waited for.
    pub(super) fn raised(
        &self,
        tid: Tid,
        kind: &ExceptionKind,
        wanted: &ExceptionBreakpoint,
        function: &str,
    ) -> Option<RaisedException> {
        match kind {
            ExceptionKind::Signal(_) => None,
            ExceptionKind::RustPanic => Some(RaisedException {
                exception_type: "rust:panic".into(),
                message: self.panic_message(),
                unhandled: false,
            }),
            ExceptionKind::Cpp(name) if function.contains("terminate") => {
                // Whatever it was, it is not known any more which.
                name.is_empty().then(|| RaisedException {
                    exception_type: "cpp:*".into(),
                    message: Some("nobody catches it: std::terminate was called".into()),
                    unhandled: true,
                })
            }
            ExceptionKind::Cpp(name) => self.thrown(tid, name, wanted.include_subtypes),
        }
    }

    fn thrown(&self, tid: Tid, wanted: &str, include_subtypes: bool) -> Option<RaisedException> {
        let registers = self.process.registers(tid).ok()?;
        let (object, type_info) = (registers.get("rdi")?, registers.get("rsi")?);
        let thrown = self.type_name(type_info)?;
        let matches = wanted.is_empty()
            || same_type(&thrown, wanted)
            || include_subtypes && self.has_base(type_info, wanted, DEEPEST);
        let is_standard = || ["std::exception"].iter().any(|base| self.has_base(type_info, base, DEEPEST));
        matches.then(|| RaisedException {
            message: if is_standard() { self.what(object) } else { None },
            exception_type: format!("cpp:{thrown}"),
            unhandled: false,
        })
    }

    /// The name that a `std::type_info` carries, demangled.
    fn type_name(&self, type_info: u64) -> Option<String> {
        let memory = self.process.memory();
        let name = memory.read_pointer(type_info.checked_add(8)?).ok()?;
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
        let memory = self.process.memory();
        let vtable = memory.read_pointer(type_info).ok()?;
        let (kind, _) = hindcast_symbols::types::Types::symbol_at(&self.symbols, vtable)?;
        if kind.contains("__si_class_type_info") {
            return Some(vec![memory.read_pointer(type_info.checked_add(16)?).ok()?]);
        }
        if !kind.contains("__vmi_class_type_info") {
            return None;
        }
        let count = memory.read_uint(type_info.checked_add(20)?, 4).ok()?.min(64);
        (0..count).map(|index| memory.read_pointer(type_info.checked_add(24 + 16 * index)?).ok()).collect()
    }

    /// The text of a standard exception: those with one keep it behind their vtable pointer.
    fn what(&self, object: u64) -> Option<String> {
        let text = self.process.memory().read_pointer(object.checked_add(8)?).ok()?;
        self.text_at(text).filter(|text| !text.is_empty())
    }

    /// A zero-terminated text of up to a kilobyte.
    fn text_at(&self, address: u64) -> Option<String> {
        let mut bytes = [0; 1024];
        let count = self.process.memory().read_some(address, &mut bytes);
        let end = bytes[..count].iter().position(|&byte| byte == 0)?;
        std::str::from_utf8(&bytes[..end]).ok().map(str::to_owned)
    }

    /// The standard library prints the message before it lets the panic go on.
    fn panic_message(&self) -> Option<String> {
        let pump = self.pump.as_ref()?;
        pump.drain();
        let log = &self.log;
        let since = log.end().saturating_sub(16 << 10);
        let chunk = log.read(since, 16 << 10, Some(OutputStream::Stderr));
        let text: Vec<u8> = chunk.pieces.into_iter().flat_map(|(_, bytes)| bytes).collect();
        let text = String::from_utf8_lossy(&text).into_owned();
        let start = text.rfind("panicked at ")?;
        let message = text[start..].split("\nnote: run with").next()?;
        Some(message.trim_end().to_owned())
    }
}

fn same_type(name: &str, wanted: &str) -> bool {
    name == wanted || name.strip_suffix(wanted).is_some_and(|rest| rest.ends_with("::"))
}
