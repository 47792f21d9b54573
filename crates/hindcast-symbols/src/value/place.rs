//! Where values are.

use std::sync::Arc;

use crate::types::TypeRef;

/// A value that has a type and is somewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct Placed {
    /// What it is.
    pub type_ref: TypeRef,
    /// Where it is read.
    pub storage: Storage,
    /// Where it is written, for what is not simply in memory.
    pub home: Option<Home>,
}

/// Where a value is read.
#[derive(Debug, Clone, PartialEq)]
pub enum Storage {
    /// In the program's memory.
    Memory(u64),
    /// In registers, or computed.
    Bytes(Arc<[u8]>),
    /// In registers or computed, but not all of it.
    Patchy {
        /// As many as the value has.
        bytes: Arc<[u8]>,
        /// Which of them are there.
        known: Arc<[bool]>,
    },
    /// A pointer that the compiler did without, but what it would point to is here.
    Implied(Arc<Storage>),
    /// Nowhere.
    Gone(Absence),
}

/// Why a value is nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// The compiler does not keep it at this place.
    OptimisedOut,
    /// Its declaration is still ahead.
    NotYetInitialised,
    /// This address cannot be read.
    Unreadable(u64),
}

/// Where a value is written that is not simply in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Home {
    /// In a register, from this byte on.
    Register {
        /// Such as `rax`.
        name: Arc<str>,
        /// In bytes from its lowest.
        offset: u64,
    },
    /// Some bits of memory.
    Bits {
        /// Of the byte that has the first bit.
        address: u64,
        /// The first bit, from the lowest of that byte on.
        first: u64,
        /// How many.
        count: u64,
    },
}

impl Placed {
    /// A value in memory.
    pub fn memory(type_ref: TypeRef, address: u64) -> Self {
        Self { type_ref, storage: Storage::Memory(address), home: None }
    }

    /// A value that was computed.
    pub fn computed(type_ref: TypeRef, bytes: impl Into<Arc<[u8]>>) -> Self {
        Self { type_ref, storage: Storage::Bytes(bytes.into()), home: None }
    }

    /// A value in a register, whose bytes are these.
    pub fn register(type_ref: TypeRef, name: &str, bytes: impl Into<Arc<[u8]>>) -> Self {
        let home = Some(Home::Register { name: name.into(), offset: 0 });
        Self { type_ref, storage: Storage::Bytes(bytes.into()), home }
    }

    /// A value that is not there.
    pub fn gone(type_ref: TypeRef, absence: Absence) -> Self {
        Self { type_ref, storage: Storage::Gone(absence), home: None }
    }

    /// Its address, when it is in memory.
    pub fn address(&self) -> Option<u64> {
        match self.storage {
            Storage::Memory(address) => Some(address),
            _ => None,
        }
    }

    /// The same bytes taken for another type.
    pub(crate) fn retyped(&self, type_ref: TypeRef) -> Self {
        Self { type_ref, ..self.clone() }
    }

    /// A part of it, `offset` bytes from its beginning.
    pub(crate) fn part(&self, offset: u64, type_ref: TypeRef, size: Option<u64>) -> Self {
        let storage = self.storage.part(offset, size);
        let home = match &self.home {
            Some(Home::Register { name, offset: outer }) => {
                Some(Home::Register { name: name.clone(), offset: outer.wrapping_add(offset) })
            }
            _ => None,
        };
        Self { type_ref, storage, home }
    }
}

impl Storage {
    /// Its bytes from `offset` on, as many as `size` says.
    pub(crate) fn part(&self, offset: u64, size: Option<u64>) -> Self {
        match self {
            Self::Memory(address) => Self::Memory(address.wrapping_add(offset)),
            Self::Bytes(bytes) => {
                let part = bytes.get(range(offset, size, bytes.len()));
                part.map_or(Self::Gone(Absence::OptimisedOut), |part| Self::Bytes(part.into()))
            }
            Self::Patchy { bytes, known } => {
                let range = range(offset, size, bytes.len());
                match (bytes.get(range.clone()), known.get(range)) {
                    (Some(bytes), Some(known)) if known.iter().any(|known| *known) => {
                        Self::Patchy { bytes: bytes.into(), known: known.into() }
                    }
                    _ => Self::Gone(Absence::OptimisedOut),
                }
            }
            Self::Implied(target) if offset == 0 => Self::Implied(target.clone()),
            Self::Implied(_) => Self::Gone(Absence::OptimisedOut),
            Self::Gone(absence) => Self::Gone(*absence),
        }
    }
}

fn range(offset: u64, size: Option<u64>, whole: usize) -> std::ops::Range<usize> {
    let start = usize::try_from(offset).unwrap_or(usize::MAX);
    let wanted = size.and_then(|size| usize::try_from(size).ok());
    start..wanted.map_or(whole, |size| start.saturating_add(size))
}
