//! Memory as Python's objects: the numbers in them, and their types.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::Rc,
};

use hindcast_core::debug::{Memory, Pages, Unreadable};

use crate::{Code, Python, kind::Kind};

/// Why something could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such memory.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// What is there is not what should be there.
    #[error("the object at {address:#x} is not as Python keeps one: {what}")]
    Damaged {
        /// Where.
        address: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl ReadError {
    pub(crate) fn damaged(address: u64, what: &'static str) -> Self {
        Self::Damaged { address, what }
    }
}

/// In every object.
const TYPE: u64 = 8;
/// In a type.
const NAME: u64 = 24;
const BASIC_SIZE: u64 = 32;
const FLAGS: u64 = 168;
const MEMBERS: u64 = 240;
const BASE: u64 = 256;
const DICT: u64 = 264;
const GET: u64 = 272;
const SET: u64 = 280;
const DICT_OFFSET: u64 = 288;
const MRO: u64 = 344;

pub(crate) const IS_HEAP_TYPE: u64 = 1 << 9;
pub(crate) const HAS_INLINE_VALUES: u64 = 1 << 2;
pub(crate) const HAS_MANAGED_DICT: u64 = 1 << 4;
const IS_TYPE: u64 = 1 << 31;

/// A type, as far as reading its objects needs it.
#[derive(Debug, Clone)]
pub(crate) struct TypeInfo {
    pub(crate) address: u64,
    /// Without its module.
    pub(crate) name: String,
    pub(crate) flags: u64,
    pub(crate) basic_size: u64,
    pub(crate) dict_offset: i64,
    pub(crate) base: u64,
    pub(crate) members: u64,
    pub(crate) dict: u64,
    pub(crate) mro: u64,
    /// Whether its objects decide what reading, or setting, an attribute that they are means.
    pub(crate) has_get: bool,
    pub(crate) has_set: bool,
    pub(crate) kind: Kind,
}

impl TypeInfo {
    pub(crate) fn is_heap_type(&self) -> bool {
        self.flags & IS_HEAP_TYPE != 0
    }
}

/// Reads a program that stands still.
pub struct Reader<'m> {
    pub(crate) python: &'m Python,
    memory: Pages<'m>,
    types: RefCell<HashMap<u64, Rc<TypeInfo>>>,
    codes: RefCell<HashMap<u64, Rc<Code>>>,
    /// How many values are being written, each inside of the one before.
    pub(crate) nesting: Cell<u32>,
}

impl<'m> Reader<'m> {
    /// Reads `memory`, in which `python` runs.
    pub fn new(python: &'m Python, memory: &'m dyn Memory) -> Self {
        Self {
            python,
            memory: Pages::over(memory),
            types: RefCell::default(),
            codes: RefCell::default(),
            nesting: Cell::new(0),
        }
    }

    /// The object that a slot points to: 0 where it has none.
    pub fn pointer(&self, slot: u64) -> Result<u64, ReadError> {
        Ok(self.word(slot)? & !self.python.layout.tag)
    }

    /// Whether somebody refers to an object: otherwise its memory is free.
    pub fn is_alive(&self, object: u64) -> bool {
        self.half(object).is_ok_and(|references| references != 0) && self.type_of(object).is_ok()
    }

    /// Whether an object is a text, which can be added to where it is.
    pub fn is_text_object(&self, object: u64) -> bool {
        self.type_of(object).is_ok_and(|info| info.kind == Kind::Str)
    }

    pub(crate) fn bytes(&self, address: u64, size: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; size];
        self.memory.read(address, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn word(&self, address: u64) -> Result<u64, ReadError> {
        Ok(self.memory.read_uint(address, 8)?)
    }

    pub(crate) fn signed(&self, address: u64) -> Result<i64, ReadError> {
        Ok(self.word(address)? as i64)
    }

    pub(crate) fn half(&self, address: u64) -> Result<u32, ReadError> {
        Ok(self.memory.read_uint(address, 4)? as u32)
    }

    pub(crate) fn byte(&self, address: u64) -> Result<u8, ReadError> {
        Ok(self.memory.read_uint(address, 1)? as u8)
    }

    /// Several words in a row.
    pub(crate) fn words(&self, address: u64, count: usize) -> Result<Vec<u64>, ReadError> {
        let bytes = self.bytes(address, count * 8)?;
        Ok(bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect())
    }

    /// A text of C.
    pub(crate) fn c_text(&self, address: u64) -> Result<String, ReadError> {
        const LONGEST: u64 = 256;
        let mut text = Vec::new();
        for at in address..address.saturating_add(LONGEST) {
            match self.byte(at)? {
                0 => break,
                byte => text.push(byte),
            }
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// The address of an object's type, once it is sure that it is one.
    pub(crate) fn type_of(&self, object: u64) -> Result<Rc<TypeInfo>, ReadError> {
        if object == 0 || !object.is_multiple_of(8) {
            return Err(ReadError::damaged(object, "no object begins there"));
        }
        self.type_info(self.word(object + TYPE)?)
    }

    pub(crate) fn type_info(&self, address: u64) -> Result<Rc<TypeInfo>, ReadError> {
        if let Some(known) = self.types.borrow().get(&address) {
            return Ok(known.clone());
        }
        let info = Rc::new(self.read_type(address, 0)?);
        self.types.borrow_mut().insert(address, info.clone());
        Ok(info)
    }

    fn read_type(&self, address: u64, depth: u32) -> Result<TypeInfo, ReadError> {
        const DEEPEST: u32 = 64;
        let damaged = |what| Err(ReadError::damaged(address, what));
        if address == 0 || !address.is_multiple_of(8) {
            return damaged("its type is no type");
        }
        // A type's own type has a flag that no other has.
        let meta = self.word(address + TYPE)?;
        if meta == 0 || meta % 8 != 0 || self.word(meta + FLAGS)? & IS_TYPE == 0 {
            return damaged("its type is no type");
        }
        if depth > DEEPEST {
            return damaged("its type has too many bases");
        }
        let name = self.c_text(self.word(address + NAME)?)?;
        let (flags, base) = (self.word(address + FLAGS)?, self.word(address + BASE)?);
        let kind = match Kind::of_named(&name, flags) {
            Some(kind) => kind,
            None if base != 0 && base != address => match self.types.borrow().get(&base) {
                Some(known) => known.kind,
                None => self.read_type(base, depth + 1)?.kind,
            },
            None => Kind::Instance,
        };
        let name = name.rsplit_once('.').filter(|_| flags & IS_HEAP_TYPE == 0 || kind != Kind::Instance);
        let name = match name {
            Some((_, name)) => name.to_owned(),
            None => self.c_text(self.word(address + NAME)?)?,
        };
        Ok(TypeInfo {
            address,
            name,
            flags,
            basic_size: self.word(address + BASIC_SIZE)?,
            dict_offset: self.signed(address + DICT_OFFSET)?,
            base,
            members: self.word(address + MEMBERS)?,
            dict: self.word(address + DICT)?,
            mro: self.word(address + MRO)?,
            has_get: self.word(address + GET)? != 0,
            has_set: self.word(address + SET)? != 0,
            kind,
        })
    }

    /// A code object, read once.
    pub(crate) fn code(&self, address: u64) -> Result<Rc<Code>, ReadError> {
        if let Some(known) = self.codes.borrow().get(&address) {
            return Ok(known.clone());
        }
        let code = Rc::new(Code::read(self, address)?);
        self.codes.borrow_mut().insert(address, code.clone());
        Ok(code)
    }
}
