//! Exceptions: what was raised, what led to it, and the frames it came through.

use std::rc::Rc;

use crate::{Code, Frame, ReadError, Reader, kind::Kind, line::LineLimits};

/// An exception that the interpreter holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Raised {
    /// The object.
    pub object: u64,
    /// Such as `json.decoder.JSONDecodeError`.
    pub type_name: String,
    /// As `str()` would tell it, where its arguments say that; none where it has none, or where code would have to run.
    pub message: Option<String>,
    /// Where it came through, outermost first.
    pub traceback: Vec<TracebackEntry>,
    /// The one that it was raised from, or while that was handled.
    pub context: Option<Context>,
}

/// An exception before another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// That one.
    pub raised: Box<Raised>,
    /// Whether `raise … from` named it.
    pub is_cause: bool,
}

/// A call that an exception came through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracebackEntry {
    /// The entry itself.
    pub object: u64,
    /// Where the entry keeps its frame: written when the exception came to it.
    pub frame_slot: u64,
    /// What was run.
    pub code: Rc<Code>,
    /// Where in it.
    pub line: Option<u32>,
    /// The frame with its variables, as they are now.
    pub frame: Frame,
}

impl Reader<'_> {
    /// The exception that ended the program, or that a test runner told of: what `sys.last_value` is. None where there is none.
    pub fn last_exception(&self) -> Result<Option<Raised>, ReadError> {
        let Some(sys) = self.sys_dict()? else { return Ok(None) };
        for name in ["last_exc", "last_value"] {
            if let Some(entry) = self.entry_named(sys, name)?
                && self.type_of(entry.value)?.kind == Kind::Exception
            {
                return self.raised(entry.value, 0).map(Some);
            }
        }
        Ok(None)
    }

    /// An exception, and those before it.
    pub(crate) fn raised(&self, object: u64, depth: u32) -> Result<Raised, ReadError> {
        const TRACEBACK: u64 = 40;
        const CONTEXT: u64 = 48;
        const CAUSE: u64 = 56;
        const IS_SUPPRESSED: u64 = 64;
        const MOST_CONTEXTS: u32 = 16;
        let info = self.type_of(object)?;
        if info.kind != Kind::Exception {
            return Err(ReadError::damaged(object, "it is no exception"));
        }
        let (cause, context) = (self.word(object + CAUSE)?, self.word(object + CONTEXT)?);
        let before = match (cause, context) {
            (cause, _) if cause != 0 && cause != self.python.none => Some((cause, true)),
            (_, context) if context != 0 && self.byte(object + IS_SUPPRESSED)? == 0 => Some((context, false)),
            _ => None,
        };
        let context = match before {
            Some((before, is_cause)) if depth < MOST_CONTEXTS => {
                Some(Context { raised: Box::new(self.raised(before, depth + 1)?), is_cause })
            }
            _ => None,
        };
        Ok(Raised {
            object,
            type_name: self.full_name(&info),
            message: self.message(object)?,
            traceback: self.traceback(self.word(object + TRACEBACK)?)?,
            context,
        })
    }

    fn message(&self, object: u64) -> Result<Option<String>, ReadError> {
        const ARGUMENTS: u64 = 24;
        const LONGEST: u64 = 1000;
        const LIMITS: LineLimits = LineLimits { depth: 2, parts: 8, text: LONGEST };
        // A class with a `__str__` of its own would run code.
        let info = self.type_of(object)?;
        if self.class_attribute(&info, "__str__")?.is_some() {
            let arguments = self.line(self.word(object + ARGUMENTS)?, LIMITS);
            return Ok(Some(format!("(made from {arguments})")));
        }
        // Others say in C what their arguments mean.
        for own in ["UnicodeError", "SyntaxError", "BaseExceptionGroup", "ImportError"] {
            if self.is_derived(&info, own)? {
                return self.message_of_own(object, own, LIMITS);
            }
        }
        let arguments = self.word(object + ARGUMENTS)?;
        let items = self.items(arguments, Kind::Tuple, 0, 8)?;
        let is_os_error = self.is_derived(&info, "OSError")?;
        Ok(match items[..] {
            [] => None,
            // A missing key is told as it is written.
            [only] if self.type_of(only)?.kind == Kind::Str && !self.is_derived(&info, "KeyError")? => {
                let text = self.text(only, LONGEST)?;
                Some(if text.is_cut { text.text + "…" } else { text.text })
            }
            [only] => Some(self.line(only, LIMITS)),
            [number, text] if is_os_error => {
                const FILE_NAME: u64 = 88;
                let told = format!("[Errno {}] {}", self.line(number, LIMITS), self.name(text)?);
                const SECOND_FILE_NAME: u64 = 96;
                match (self.word(object + FILE_NAME)?, self.word(object + SECOND_FILE_NAME)?) {
                    (0, _) => Some(told),
                    (file, 0) => Some(format!("{told}: {}", self.line(file, LIMITS))),
                    (file, second) => {
                        Some(format!("{told}: {} -> {}", self.line(file, LIMITS), self.line(second, LIMITS)))
                    }
                }
            }
            _ => Some(self.line(arguments, LIMITS)),
        })
    }

    /// The message of an exception that has it in a place of its own.
    fn message_of_own(
        &self,
        object: u64,
        class: &str,
        limits: LineLimits,
    ) -> Result<Option<String>, ReadError> {
        const MESSAGE: u64 = 72;
        if class == "UnicodeError" {
            return Ok(None);
        }
        Ok(match self.word(object + MESSAGE)? {
            0 => None,
            message if self.type_of(message)?.kind == Kind::Str => Some(self.text(message, 1000)?.text),
            message => Some(self.line(message, limits)),
        })
    }

    /// Whether a type is a built-in one or derived from it.
    pub(crate) fn is_derived(&self, info: &crate::reader::TypeInfo, name: &str) -> Result<bool, ReadError> {
        if info.mro == 0 {
            return Ok(false);
        }
        for class in self.items(info.mro, Kind::Tuple, 0, 256)? {
            let class = self.type_info(class)?;
            if !class.is_heap_type() && class.name == name {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn traceback(&self, mut entry: u64) -> Result<Vec<TracebackEntry>, ReadError> {
        const NEXT: u64 = 16;
        const FRAME: u64 = 24;
        const LAST: u64 = 32;
        /// In the object that stands for a frame.
        const INNER: u64 = 24;
        /// More calls than anybody has set as the limit of recursion.
        const MOST: usize = 1 << 20;
        let mut found = Vec::new();
        while entry != 0 && entry != self.python.none && found.len() < MOST {
            if self.type_of(entry)?.name != "traceback" {
                return Err(ReadError::damaged(entry, "it is no traceback"));
            }
            let inner = self.word(self.word(entry + FRAME)? + INNER)?;
            let frame =
                self.frame(inner)?.ok_or_else(|| ReadError::damaged(inner, "a traceback has no frame"))?;
            let unit = i64::from(self.half(entry + LAST)? as i32) / 2;
            let position = frame.code.position_of(unit);
            let frame = Frame { unit, position, ..frame };
            let line = position.map(|position| position.line);
            let code = frame.code.clone();
            found.push(TracebackEntry { object: entry, frame_slot: entry + FRAME, code, line, frame });
            entry = self.word(entry + NEXT)?;
        }
        Ok(found)
    }
}
