//! Where CPython keeps things: one table for each minor version.
//!
//! A number here is an offset in bytes unless it says otherwise. The tables were read from the debug information and the
//! headers of each version; [`Python::check`](crate::Python::check) tries some of them on known objects before anything is shown.
//! What has the same place in all of these versions is a constant beside the code that reads it.

use std::fmt;

/// A version of Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// 3
    pub major: u8,
    /// Such as 11
    pub minor: u8,
    /// Such as 2
    pub micro: u8,
}

impl Version {
    /// From `PY_VERSION_HEX`.
    pub(crate) fn of_hex(hex: u32) -> Self {
        let [major, minor, micro, _] = hex.to_be_bytes();
        Self { major, minor, micro }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)
    }
}

/// How a thread's state leads to its innermost frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToFrame {
    /// Through the C frame at the first offset, which has the frame at the second.
    ThroughC(u64, u64),
    /// It is right there.
    Direct(u64),
}

/// How an integer tells its sign and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntForm {
    /// A signed number of digits.
    SignedSize,
    /// A number of digits above three bits, of which the lower two tell the sign.
    Tag,
}

/// Where the attributes of an instance are that have no dictionary of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attributes {
    /// A pointer to the values four words before the object, and one to the dictionary three words before it.
    BeforeObject,
    /// One word three words before the object: values where its lowest bit is set, else the dictionary.
    Tagged,
    /// The values behind the object, with a head of so many bytes, and the dictionary three words before it.
    Inline { head: u64, valid: u64 },
}

/// A table of offsets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) minor: u8,
    /// In `_PyRuntime`: the first interpreter.
    pub(crate) interpreters: u64,
    /// In an interpreter.
    pub(crate) next_interpreter: u64,
    pub(crate) threads: u64,
    pub(crate) sys_dict: u64,
    /// Where the interpreter's own table of offsets tells the one of `sys_dict`, if it has such a table: it differs between
    /// releases of the same minor version.
    pub(crate) sys_dict_told: Option<u64>,
    /// In the state of a thread; `next` is the same in all.
    pub(crate) to_frame: ToFrame,
    pub(crate) thread_ident: u64,
    /// In a frame.
    pub(crate) frame_code: u64,
    pub(crate) frame_previous: u64,
    pub(crate) frame_globals: u64,
    pub(crate) frame_builtins: u64,
    pub(crate) frame_locals: u64,
    pub(crate) frame_ip: u64,
    pub(crate) frame_owner: u64,
    /// Where its variables begin.
    pub(crate) frame_values: u64,
    /// The bits of a pointer in a frame that say how it is counted. A variable without a value is one that has only these.
    pub(crate) tag: u64,
    /// In a code object; what else is read of it is the same in all.
    pub(crate) code_argcount: u64,
    pub(crate) code_first_line: u64,
    pub(crate) code_names_count: u64,
    pub(crate) code_units: u64,
    /// In a tuple: where its elements begin.
    pub(crate) tuple_items: u64,
    /// Sizes of the heads of strings: of ASCII ones, and of others.
    pub(crate) ascii_head: u64,
    pub(crate) compact_head: u64,
    pub(crate) int_form: IntForm,
    pub(crate) attributes: Attributes,
    /// In a class.
    pub(crate) cached_keys: u64,
    /// In a generator.
    pub(crate) generator_name: u64,
    pub(crate) generator_state: u64,
    pub(crate) generator_frame: u64,
}

/// The owner of a frame that belongs to the C code between two runs of the interpreter's loop: it is no Python frame.
pub(crate) const OWNED_BY_C: u8 = 3;

const V3_11: Layout = Layout {
    minor: 11,
    interpreters: 40,
    next_interpreter: 0,
    threads: 16,
    sys_dict: 904,
    sys_dict_told: None,
    to_frame: ToFrame::ThroughC(56, 8),
    thread_ident: 152,
    frame_code: 32,
    frame_previous: 48,
    frame_globals: 8,
    frame_builtins: 16,
    frame_locals: 24,
    frame_ip: 56,
    frame_owner: 69,
    frame_values: 72,
    tag: 0,
    code_argcount: 56,
    code_first_line: 72,
    code_names_count: 76,
    code_units: 184,
    tuple_items: 24,
    ascii_head: 48,
    compact_head: 72,
    int_form: IntForm::SignedSize,
    attributes: Attributes::BeforeObject,
    cached_keys: 872,
    generator_name: 32,
    generator_state: 75,
    generator_frame: 80,
};

const V3_12: Layout = Layout {
    minor: 12,
    threads: 72,
    sys_dict: 352,
    to_frame: ToFrame::ThroughC(56, 0),
    thread_ident: 136,
    frame_code: 0,
    frame_previous: 8,
    frame_globals: 24,
    frame_builtins: 32,
    frame_locals: 40,
    frame_owner: 70,
    code_argcount: 52,
    code_first_line: 68,
    code_names_count: 72,
    code_units: 192,
    ascii_head: 40,
    compact_head: 56,
    int_form: IntForm::Tag,
    attributes: Attributes::Tagged,
    cached_keys: 880,
    generator_name: 24,
    generator_state: 67,
    generator_frame: 72,
    ..V3_11
};

const V3_13: Layout = Layout {
    minor: 13,
    interpreters: 632,
    next_interpreter: 7264,
    threads: 7344,
    sys_dict: 7640,
    sys_dict_told: Some(96),
    to_frame: ToFrame::Direct(72),
    thread_ident: 152,
    code_units: 200,
    attributes: Attributes::Inline { head: 8, valid: 3 },
    ..V3_12
};

const V3_14: Layout = Layout {
    minor: 14,
    interpreters: 808,
    next_interpreter: 7272,
    sys_dict: 7648,
    sys_dict_told: Some(104),
    frame_owner: 74,
    frame_values: 80,
    tag: 3,
    code_units: 208,
    tuple_items: 32,
    ..V3_13
};

const KNOWN: [&Layout; 4] = [&V3_11, &V3_12, &V3_13, &V3_14];

impl Layout {
    /// The table for a version.
    pub(crate) fn of(version: Version) -> Option<&'static Self> {
        KNOWN.into_iter().find(|layout| version.major == 3 && layout.minor == version.minor)
    }

    /// The versions that have a table, in words.
    pub(crate) fn known() -> String {
        let names: Vec<_> = KNOWN.iter().map(|layout| format!("3.{}", layout.minor)).collect();
        names.join(", ")
    }
}
