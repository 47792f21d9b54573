//! What the runtime's debugging interface answers when it cannot.

use std::fmt;

/// An answer of a COM call: negative is a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hresult(pub(crate) u32);

impl fmt::Debug for Hresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// Names the codes that the session tells apart, and those that a user may meet.
macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        #[allow(dead_code, reason = "the list is the interface's, not ours")]
        impl Hresult {
            $(pub(crate) const $name: Self = Self($code);)*

            fn text(self) -> Option<&'static str> {
                $(if self == Self::$name { return Some($text); })*
                None
            }
        }
    };
}

codes! {
    NO_INTERFACE = 0x8000_4002, "the object has no such interface";
    ACCESS_DENIED = 0x8007_0005, "access denied";
    INVALID_ARGUMENT = 0x8007_0057, "an argument is wrong";
    PROCESS_TERMINATED = 0x8013_1301, "the process has ended";
    NOT_SYNCHRONIZED = 0x8013_1302, "the process is running";
    CLASS_NOT_LOADED = 0x8013_1303, "the class is not loaded yet";
    VARIABLE_NOT_AVAILABLE = 0x8013_1304, "the variable is not kept here";
    BAD_REFERENCE = 0x8013_1305, "the reference is bad";
    FIELD_NOT_AVAILABLE = 0x8013_1306, "the field is not kept here";
    CODE_NOT_AVAILABLE = 0x8013_1309, "the code is not available";
    NOT_IL = 0x8013_130a, "the function has no IL";
    BAD_START_POINT = 0x8013_1313, "code cannot be run from here";
    STATIC_NOT_AVAILABLE = 0x8013_131a, "the static variable is not there yet";
    BAD_THREAD_STATE = 0x8013_132d, "the thread is in a state that does not allow it";
    ALREADY_ATTACHED = 0x8013_132e, "another debugger is attached";
    SUPERFLUOUS_CONTINUE = 0x8013_132f, "the process runs already";
    DETACHED = 0x8013_1335, "the process was let go of";
    CANNOT_SET_BREAKPOINT = 0x8013_1345, "the breakpoint cannot be set";
    INCOMPATIBLE_PROTOCOL = 0x8013_134b, "the runtime's version does not fit";
    NEUTERED = 0x8013_134f, "the object belongs to an earlier stop";
    TIMED_OUT = 0x8013_1c08, "the program's runtime does not answer";
    UNSAFE_POINT = 0x8013_1c23, "the thread is at a place where code cannot be run";
    IN_PROLOG = 0x8013_1c24, "the thread is in a function's prologue";
    IN_NATIVE_CODE = 0x8013_1c25, "the thread is in native code";
    IN_OPTIMIZED_CODE = 0x8013_1c26, "the thread is in optimized code";
    DEBUGGING_DISABLED = 0x8013_1c31, "debugging is switched off in the program (DOTNET_EnableDiagnostics=0)";
    MISSING_METADATA = 0x8013_1c35, "metadata is missing";
    COMPONENT_MISSING = 0x8013_1c3c, "a file of the runtime's debugging support is missing";
    CORRUPT_OBJECT = 0x8013_1c4b, "the object is corrupt";
    READ_FAILED = 0x8013_1c49, "the memory cannot be read";
}

impl fmt::Display for Hresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text() {
            Some(text) => f.write_str(text),
            None => write!(f, "the runtime answers {self:?}"),
        }
    }
}

/// A call that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{code} ({call})")]
pub(crate) struct CorError {
    /// Which.
    pub(crate) call: &'static str,
    /// Why.
    pub(crate) code: Hresult,
}
