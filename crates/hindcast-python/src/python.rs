//! The interpreter in a process: which version it is, and whether its memory is as expected.

use hindcast_core::debug::Memory;
use num_bigint::BigInt;

use crate::{ReadError, Reader, Version, kind::Kind, layout::Layout};

/// Why nothing of Python is shown although there is an interpreter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// Nobody has tried this version.
    #[error("Python {version} is not known here, only {known}", known = Layout::known())]
    Version {
        /// Which one it is.
        version: Version,
    },
    /// The version is known, but its objects are not where they should be.
    #[error(
        "this Python {version} keeps its objects in another way than other Pythons of that version: {what}"
    )]
    Layout {
        /// Which one it is.
        version: Version,
        /// What was not as expected.
        what: String,
    },
}

/// The interpreter that a process runs. Its addresses hold as long as the program is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    pub(crate) version: Version,
    pub(crate) layout: Layout,
    pub(crate) runtime: u64,
    /// The type of code objects.
    pub(crate) code_type: u64,
    pub(crate) none: u64,
}

impl Python {
    /// The interpreter of a process whose libraries have these symbols; none where there is none, or where it is too old.
    pub fn find(memory: &dyn Memory, symbol: &dyn Fn(&str) -> Option<u64>) -> Result<Option<Self>, Unknown> {
        let Some(found) = ["_PyRuntime", "Py_Version", "PyCode_Type", "_Py_NoneStruct"]
            .map(symbol)
            .into_iter()
            .collect::<Option<Vec<_>>>()
        else {
            return Ok(None);
        };
        let Ok(hex) = memory.read_uint(found[1], 4) else { return Ok(None) };
        let version = Version::of_hex(hex as u32);
        let layout = *Layout::of(version).ok_or(Unknown::Version { version })?;
        let mut python = Self { version, layout, runtime: found[0], code_type: found[2], none: found[3] };
        python.read_debug_offsets(memory)?;
        Ok(Some(python))
    }

    /// Which version it is.
    pub fn version(&self) -> Version {
        self.version
    }

    /// From 3.13 on the interpreter tells some of its offsets itself, and whether it is built in another way.
    fn read_debug_offsets(&mut self, memory: &dyn Memory) -> Result<(), Unknown> {
        const COOKIE: &[u8; 8] = b"xdebugpy";
        const FREE_THREADED: u64 = 16;
        const INTERPRETERS: u64 = 40;
        const NEXT: u64 = 64;
        const THREADS: u64 = 72;
        const LARGEST: u64 = 1 << 20;
        let Some(sys_dict) = self.layout.sys_dict_told else { return Ok(()) };
        let version = self.version;
        let wrong = |what: &str| Unknown::Layout { version, what: what.to_owned() };
        let mut cookie = [0; 8];
        let is_there = memory.read(self.runtime, &mut cookie).is_ok() && cookie == *COOKIE;
        if !is_there {
            return Err(wrong("its table of offsets is not where it should be"));
        }
        let told = |at| memory.read_uint(self.runtime + at, 8).ok();
        if told(FREE_THREADED) != Some(0) {
            return Err(wrong("it is built without the global lock"));
        }
        let offset = |at| {
            let offset = told(at).filter(|offset| *offset < LARGEST);
            offset.ok_or_else(|| wrong("its table of offsets is not as expected"))
        };
        self.layout.interpreters = offset(INTERPRETERS)?;
        self.layout.next_interpreter = offset(NEXT)?;
        self.layout.threads = offset(THREADS)?;
        self.layout.sys_dict = offset(sys_dict)?;
        Ok(())
    }

    /// Whether the interpreter has started, at the moment that `memory` shows; an error where its objects are not where they
    /// should be. What is checked is known beforehand: `sys.hexversion` and `sys.maxsize`, found by their names.
    pub fn check(&self, memory: &dyn Memory) -> Result<bool, Unknown> {
        let reader = Reader::new(self, memory);
        let wrong = |what: String| Unknown::Layout { version: self.version, what };
        let Some(sys) = reader.sys_dict().map_err(|error| wrong(error.to_string()))? else {
            return Ok(false);
        };
        let [major, minor, micro] = [self.version.major, self.version.minor, self.version.micro];
        let begins = u32::from_be_bytes([major, minor, micro, 0]);
        let number = |name| -> Result<Option<BigInt>, ReadError> {
            let Some(entry) = reader.entry_named(sys, name)? else { return Ok(None) };
            if reader.type_of(entry.value)?.kind != Kind::Int {
                return Err(ReadError::damaged(entry.value, "it is no integer"));
            }
            reader.int(entry.value).map(Some)
        };
        let numbers = || -> Result<_, ReadError> { Ok((number("hexversion")?, number("maxsize")?)) };
        match numbers().map_err(|error| wrong(error.to_string()))? {
            (Some(hex), Some(largest)) => {
                let is_right = hex >> 8 == BigInt::from(begins >> 8) && largest == BigInt::from(i64::MAX);
                if is_right { Ok(true) } else { Err(wrong("`sys.maxsize` is another number".into())) }
            }
            _ => Ok(false),
        }
    }
}

impl Reader<'_> {
    /// The dictionary of the module `sys`; none before the interpreter has made it.
    pub(crate) fn sys_dict(&self) -> Result<Option<u64>, ReadError> {
        let interpreter = self.word(self.python.runtime + self.python.layout.interpreters)?;
        if interpreter == 0 {
            return Ok(None);
        }
        let dict = self.word(interpreter + self.python.layout.sys_dict)?;
        if dict == 0 {
            return Ok(None);
        }
        match self.type_of(dict)?.kind {
            Kind::Dict => Ok(Some(dict)),
            _ => Err(ReadError::damaged(dict, "`sys` has no dictionary")),
        }
    }
}
