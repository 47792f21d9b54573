//! What compilers tell debuggers besides lines and locals.

use std::ops::Range;

use super::Pdb;
use crate::image::bytes::Guid;
use crate::image::cursor::Cursor;
use crate::image::error::ImageError;
use crate::image::token::{Table, Token};

const ASYNC_STEPPING: Guid = Guid::new(0x54fd_2ac5, 0xe925, 0x401a, 0x9c2a, 0xf94f_1710_72f8);
const HOISTED_SCOPES: Guid = Guid::new(0x6da9_a61e, 0xf8c7, 0x4874, 0xbe62, 0x68bc_5630_df71);
const DYNAMIC_LOCALS: Guid = Guid::new(0x83c5_63c4, 0xb4f3, 0x47d5, 0xb824, 0xba54_4147_7ea8);
const TUPLE_NAMES: Guid = Guid::new(0xed9f_df71, 0x8879, 0x4747, 0x8ed3, 0xfe5e_de3c_e710);
const DEFAULT_NAMESPACE: Guid = Guid::new(0x58b2_eab6, 0x209f, 0x4e4e, 0xa22c, 0xb2d0_f910_c782);
const SOURCE_LINK: Guid = Guid::new(0xcc11_0556, 0xa091, 0x4d38, 0x9fec, 0x25ab_9a35_1a6a);
const COMPILATION_OPTIONS: Guid = Guid::new(0xb5fe_ec05, 0x8cd0, 0x4a83, 0x96da, 0x4662_84bb_4bd8);

/// How an async method is stepped through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AsyncStepping {
    /// The offset of the handler that the compiler put around everything, which gives an exception to the task.
    pub catch_handler: Option<u32>,
    /// Its `await`s.
    pub awaits: Vec<Await>,
}

/// An `await` in an async method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Await {
    /// The offset from which the method returns when it must wait.
    pub yields_at: u32,
    /// The offset where it goes on.
    pub resumes_at: u32,
    /// The method that goes on.
    pub resumes_in: Token,
}

/// Where a variable that lives in a state machine has its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoistedScope {
    /// The offsets in the method that moves the state machine; empty where the variable has no name any more.
    pub il: Range<u32>,
}

/// An option that the compiler was given, such as `language-version` or `optimization`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompilationOption {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

const MALFORMED: ImageError = ImageError::Malformed { what: "custom debug information" };

impl Pdb {
    /// Information of a kind about something.
    pub(super) fn custom(&self, owner: Token, kind: Guid) -> Option<&[u8]> {
        let table = Table::CustomDebugInformation;
        let rows = self.metadata.tables.rows_of(table, owner);
        let row = rows.into_iter().find(|row| self.metadata.guid(table, *row, 1) == Some(kind))?;
        self.metadata.blob(table, row, 2)
    }

    /// How an async method is stepped through: `method` is the one that moves its state machine.
    pub fn async_stepping(&self, method: Token) -> Result<Option<AsyncStepping>, ImageError> {
        let Some(blob) = self.custom(method, ASYNC_STEPPING) else { return Ok(None) };
        let mut cursor = Cursor::new(blob);
        let mut stepping = AsyncStepping { catch_handler: cursor.u32()?.checked_sub(1), awaits: Vec::new() };
        while !cursor.is_at_end() {
            stepping.awaits.push(Await {
                yields_at: cursor.u32()?,
                resumes_at: cursor.u32()?,
                resumes_in: Token::method(cursor.compressed()?),
            });
        }
        Ok(Some(stepping))
    }

    /// Where variables have their names that live in a state machine, by the number in their field's name: `<name>5__1` is the first.
    pub fn hoisted_scopes(&self, method: Token) -> Result<Vec<HoistedScope>, ImageError> {
        let blob = self.custom(method, HOISTED_SCOPES).unwrap_or_default();
        let mut cursor = Cursor::new(blob);
        let mut scopes = Vec::new();
        while !cursor.is_at_end() {
            let (start, length) = (cursor.u32()?, cursor.u32()?);
            let end = start.checked_add(length).ok_or(MALFORMED)?;
            scopes.push(HoistedScope { il: start..end });
        }
        Ok(scopes)
    }

    /// The names of a tuple's elements, and of those in it, in the order of the type; none for an element without a name.
    pub fn tuple_element_names(&self, local: Token) -> Option<Vec<Option<&str>>> {
        let blob = self.custom(local, TUPLE_NAMES)?;
        let names = blob.strip_suffix(&[0]).unwrap_or(blob).split(|byte| *byte == 0);
        let name = |bytes| std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty());
        Some(names.map(name).collect())
    }

    /// Which parts of a local's type are `dynamic`, in the order of the type.
    pub fn dynamic_flags(&self, local: Token) -> Option<Vec<bool>> {
        let blob = self.custom(local, DYNAMIC_LOCALS)?;
        Some(blob.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1)).collect())
    }

    /// The namespace of code that names none, which only Visual Basic has.
    pub fn default_namespace(&self) -> Option<&str> {
        std::str::from_utf8(self.custom(MODULE, DEFAULT_NAMESPACE)?).ok()
    }

    /// Where sources can be had: a JSON document that maps paths to addresses.
    pub fn source_link(&self) -> Option<&str> {
        std::str::from_utf8(self.custom(MODULE, SOURCE_LINK)?).ok()
    }

    /// What the compiler was called with.
    pub fn compilation_options(&self) -> Vec<CompilationOption> {
        let blob = self.custom(MODULE, COMPILATION_OPTIONS).unwrap_or_default();
        let words: Vec<&[u8]> = blob.split(|byte| *byte == 0).collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pairs = words.chunks_exact(2);
        pairs.map(|pair| CompilationOption { name: text(pair[0]), value: text(pair[1]) }).collect()
    }
}

const MODULE: Token = Token(1);
