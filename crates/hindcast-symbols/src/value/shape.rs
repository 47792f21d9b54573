//! What a value means, where that is more than its members: texts, containers, owners.

use super::{
    items::Items,
    layout::{Layout, Search},
    place::Placed,
    text::{Length, Text},
};
use crate::types::{Encoding, Language, PointerFlavour, StructFlavour, Type, TypeKind, TypeRef, Types};

/// What a value means.
#[derive(Debug, Clone)]
pub(crate) enum Shape {
    /// What its type says.
    Plain,
    /// A text.
    Text(Text),
    /// A container.
    List(List),
    /// Stands for another value: owners, references, cells. The note is shown behind it.
    Inner { target: Placed, note: Option<String> },
    /// Values side by side without names.
    Tuple(Vec<Placed>),
    /// Said in words.
    Words(String),
    /// A container whose numbers cannot be right, and why.
    Corrupt(String),
}

/// A container.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// How many elements it says it has.
    pub(crate) count: u64,
    pub(crate) items: Items,
    pub(crate) style: Style,
    /// What is wrong with it.
    pub(crate) note: Option<String>,
}

impl List {
    pub(crate) fn new(count: u64, items: Items, style: Style) -> Self {
        Self { count, items, style, note: None }
    }
}

/// How a container is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `[1, 2]`
    Sequence,
    /// `{1, 2}`
    Set,
    /// `{1: "a", 2: "b"}`
    Map,
}

/// Addresses of programs are below this.
pub(crate) const ADDRESS_SPACE: u64 = 1 << 47;

impl Layout<'_> {
    /// What the value means. Where a library type is not laid out as we know it, what its type says.
    pub(crate) fn shape(&self, placed: &Placed) -> Shape {
        let Some((type_ref, found)) = self.real(placed) else { return Shape::Plain };
        let placed = &placed.retyped(type_ref);
        let shape = match &found.kind {
            TypeKind::Struct(_) if found.language == Language::Rust => self.rust_shape(placed, &found),
            TypeKind::Struct(structure) if structure.flavour == StructFlavour::Union => {
                self.lock_shape(placed).or_else(|| self.cpp_shape(placed, &found))
            }
            TypeKind::Struct(_) => self.cpp_shape(placed, &found),
            TypeKind::Array { element, counts, vector } => {
                self.array_shape(placed, *element, counts, *vector, found.language)
            }
            TypeKind::Pointer { target: Some(target), flavour } => {
                self.pointer_shape(placed, &found, *target, *flavour)
            }
            _ => None,
        };
        shape.unwrap_or(Shape::Plain)
    }

    fn array_shape(
        &self,
        placed: &Placed,
        element: TypeRef,
        counts: &[Option<u64>],
        vector: bool,
        language: Language,
    ) -> Option<Shape> {
        let (count, inner) = counts.split_first()?;
        if inner.is_empty()
            && !vector
            && let Some(unit) = self.character_size(element)
            && language != Language::Rust
        {
            let length = count.map_or(Length::Terminated, Length::AtMost);
            return Some(Shape::Text(Text { start: placed.clone(), unit, length, note: None }));
        }
        let element = if inner.is_empty() { element } else { self.types.array_of(element, inner, language) };
        let Some(count) = *count else {
            return Some(Shape::Words("[…] (its length is not in the type)".to_owned()));
        };
        let stride = self.stride(element)?;
        Some(self.run(placed.clone(), element, stride, count))
    }

    /// Elements one after the other; says so where there cannot be that many.
    pub(crate) fn run(&self, first: Placed, element: TypeRef, stride: u64, count: u64) -> Shape {
        if count.checked_mul(stride).is_none_or(|size| size >= ADDRESS_SPACE) {
            return Shape::Corrupt(format!("{count} elements of {stride} bytes"));
        }
        Shape::List(List::new(count, Items::Run { first, element, stride }, Style::Sequence))
    }

    /// Elements of a container on the heap.
    pub(crate) fn heap_run(&self, address: u64, element: TypeRef, count: u64) -> Option<Shape> {
        let stride = self.stride(element)?;
        let mut shape = self.run(Placed::memory(element, address), element, stride, count);
        // A wrong length shows in memory that is not there; its beginning may still be of use.
        if let Shape::List(list) = &mut shape
            && count > 0
            && stride > 0
            && let Err(unreadable) = self.memory.read_uint(address.wrapping_add((count - 1) * stride), 1)
        {
            list.note = Some(format!("corrupt? element {} at {:#x} cannot be read", count - 1, unreadable.0));
        }
        Some(shape)
    }

    fn pointer_shape(
        &self,
        placed: &Placed,
        found: &Type,
        target: TypeRef,
        flavour: PointerFlavour,
    ) -> Option<Shape> {
        let address = self.number(placed)?;
        let rust_owner = found.language == Language::Rust
            && (found.name.starts_with('&') || found.name.starts_with("alloc::boxed::Box<"));
        if flavour != PointerFlavour::Pointer || rust_owner {
            // A reference is never null unless something is wrong; then the number tells it.
            let usable = address != 0;
            return usable.then(|| Shape::Inner { target: Placed::memory(target, address), note: None });
        }
        let unit = self.character_size(target)?;
        if address == 0 || found.language == Language::Rust {
            return None;
        }
        let start = Placed::memory(target, address);
        let text = Text { start, unit, length: Length::Terminated, note: None };
        // What does not begin with a readable byte is shown as an address.
        self.bytes(&text.start, unit).ok()?;
        Some(Shape::Text(text))
    }

    /// The size of the type's values where they are characters of C or C++ texts. Bytes are not.
    pub(crate) fn character_size(&self, type_ref: TypeRef) -> Option<u64> {
        let (_, found) = self.types.real(type_ref)?;
        let is_text = match found.kind {
            TypeKind::Base(Encoding::SignedChar | Encoding::UnsignedChar) => found.name == "char",
            TypeKind::Base(Encoding::Utf) => found.language != Language::Rust,
            TypeKind::Base(_) => self.is_wide_character(type_ref),
            _ => false,
        };
        let size = found.size?;
        (is_text && matches!(size, 1 | 2 | 4)).then_some(size)
    }

    /// Whether it is one of the types that are other names for numbers in C.
    pub(crate) fn is_wide_character(&self, type_ref: TypeRef) -> bool {
        let mut at = type_ref;
        for _ in 0..16 {
            let Some(found) = self.types.get(at) else { return false };
            if matches!(found.name.as_str(), "wchar_t" | "char16_t" | "char32_t") {
                return true;
            }
            match found.kind {
                TypeKind::Alias { target: Some(target), .. } => at = target,
                _ => return false,
            }
        }
        false
    }

    /// What addresses of the type's values are multiples of.
    pub(crate) fn alignment(&self, type_ref: TypeRef) -> u64 {
        self.alignment_within(type_ref, &mut Search::new())
    }

    fn alignment_within(&self, type_ref: TypeRef, search: &mut Search) -> u64 {
        let Some((_, found)) = self.types.real(type_ref) else { return 8 };
        match &found.kind {
            TypeKind::Struct(structure) => {
                let members = structure.members.iter().map(|member| member.type_ref);
                let cases = structure.variants.iter().flat_map(|part| {
                    let payloads = part.variants.iter().flat_map(|variant| &variant.members);
                    payloads.chain(&part.discriminant).map(|member| member.type_ref)
                });
                let bases = structure.bases.iter().map(|base| base.type_ref);
                let parts = members.chain(cases).chain(bases);
                let each = parts.map(|part| {
                    search.deeper(|search| Some(self.alignment_within(part, search))).unwrap_or(8)
                });
                each.max().unwrap_or(1)
            }
            TypeKind::Array { element, .. } => {
                search.deeper(|search| Some(self.alignment_within(*element, search))).unwrap_or(8)
            }
            _ => found.size.unwrap_or(8).clamp(1, 16).next_power_of_two(),
        }
    }
}

/// A type's name without its generic arguments.
pub(crate) fn head(name: &str) -> &str {
    name.split('<').next().unwrap_or(name)
}

/// Where a part behind `offset` bytes begins.
pub(crate) fn aligned(offset: u64, alignment: u64) -> u64 {
    offset.checked_next_multiple_of(alignment.max(1)).unwrap_or(offset)
}
