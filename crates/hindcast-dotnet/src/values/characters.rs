//! The characters of strings, which may be gigabytes.

use crate::cor::{
    Class2, Com, CorError, CorType2, Hresult, Process, ReferenceValue, StringValue, Value, element,
};

use super::{
    seen::Values,
    types::{KnownTypes, TypeInfo},
};

/// The longest string that the runtime's library may read. It copies the whole of a string when a reference to it is followed,
/// and keeps the copy until the debuggee goes on.
const LONGEST_COPY: u32 = 4096;
/// A string in memory: which type it is of, how long it is, its characters.
const LENGTH_OFFSET: usize = 8;
const CHARACTERS_OFFSET: u64 = 12;
/// The lowest bits of an object's first word are the garbage collector's.
const TYPE_MASK: u64 = !7;

/// The assembly that defines `string`.
const CORE_LIBRARY: &str = "System.Private.CoreLib.dll";

/// The characters of a string of the program.
#[derive(Debug, Clone)]
pub(crate) enum Characters {
    /// The runtime's library has a copy.
    Copied(Com<StringValue>),
    /// They are read where they are, as far as they are wanted.
    InPlace { reference: Com<ReferenceValue>, process: Com<Process>, length: u32 },
}

impl Characters {
    pub(crate) fn length(&self) -> Result<u32, CorError> {
        match self {
            Self::Copied(text) => text.length(),
            Self::InPlace { length, .. } => Ok(*length),
        }
    }

    /// The first `most` code units, and how many there are.
    pub(crate) fn units(&self, most: u32) -> Result<(Vec<u16>, u32), CorError> {
        match self {
            Self::Copied(text) => text.units(most),
            Self::InPlace { length, .. } => Ok((self.slice(0, most)?, *length)),
        }
    }

    /// The code units from one on, `most` of them.
    pub(crate) fn slice(&self, from: u32, most: u32) -> Result<Vec<u16>, CorError> {
        match self {
            Self::Copied(text) => {
                let (units, _) = text.units(from.saturating_add(most))?;
                Ok(units.into_iter().skip(from as usize).collect())
            }
            Self::InPlace { reference, process, length } => {
                let count = most.min(length.saturating_sub(from));
                let start = reference.value()? + CHARACTERS_OFFSET + u64::from(from) * 2;
                let bytes = match count {
                    0 => Vec::new(),
                    _ => process.read_memory(start, count * 2)?,
                };
                let units: Vec<u16> =
                    bytes.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
                match units.len() == count as usize {
                    true => Ok(units),
                    false => Err(CorError { call: "Characters::slice", code: Hresult::BAD_REFERENCE }),
                }
            }
        }
    }

    /// The reference to a string that is not copied, which must not be followed.
    pub(crate) fn in_place(&self) -> Option<&Com<ReferenceValue>> {
        match self {
            Self::Copied(_) => None,
            Self::InPlace { reference, .. } => Some(reference),
        }
    }
}

impl Values<'_> {
    /// The string that a reference is to, where it is too long for a copy.
    pub(super) fn long_string(&self, reference: &Com<ReferenceValue>) -> Option<(TypeInfo, Characters)> {
        let may_be_string = matches!(
            reference.cast::<Value>()?.element_type().ok()?,
            element::STRING | element::CLASS | element::OBJECT
        );
        let address = reference.value().ok().filter(|_| may_be_string)?;
        let head = self.process.read_memory(address, CHARACTERS_OFFSET as u32).ok()?;
        let length = u32::from_le_bytes(*head.get(LENGTH_OFFSET..)?.first_chunk()?);
        // Of other objects, these bytes are something else, which is often small, too.
        if length <= LONGEST_COPY || i32::try_from(length).is_err() {
            return None;
        }
        let table = u64::from_le_bytes(*head.first_chunk()?) & TYPE_MASK;
        let of = self.string_type(table)?;
        let text =
            Characters::InPlace { reference: reference.clone(), process: self.process.clone(), length };
        Some((of, text))
    }

    /// The type `string`, if a method table is the one of it.
    fn string_type(&self, table: u64) -> Option<TypeInfo> {
        let types = &self.modules.types;
        if types.string_table().is_some_and(|known| known != table) {
            return None;
        }
        let core = self.modules.iter().find(|module| module.name == CORE_LIBRARY)?;
        let token = core.assembly()?.type_named("System.String")?.token();
        let class: Com<Class2> = core.module.class_from_token(token.0).ok()?.cast()?;
        let string = class.with_arguments(element::CLASS, &[]).ok()?;
        let known = string.cast::<CorType2>()?.method_table().ok()?;
        types.set_string_table(known);
        (known == table).then(|| TypeInfo::of(string, self.modules))
    }
}

impl KnownTypes {
    /// The method table of `string`, once somebody asked.
    fn string_table(&self) -> Option<u64> {
        self.string_table.get()
    }

    fn set_string_table(&self, table: u64) {
        self.string_table.set(Some(table));
    }
}
