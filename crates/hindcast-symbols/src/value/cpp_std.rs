//! Types of the GNU C++ library that hold one thing or a few: owners, options, tuples, times.

use super::{
    layout::{Layout, Search},
    place::Placed,
    shape::{ADDRESS_SPACE, Shape, head},
    text::{Length, Text},
};
use crate::types::{Language, Type, TypeKind, TypeRef, Types};

impl Layout<'_> {
    pub(crate) fn cpp_shape(&self, placed: &Placed, found: &Type) -> Option<Shape> {
        let name = standard_name(&found.name)?;
        if let Some(shape) = self.cpp_container(placed, name) {
            return Some(shape);
        }
        match name {
            "basic_string" => {
                let length = self.number_at(placed, &["_M_string_length"])?;
                match self.path(placed, &["_M_dataplus", "_M_p"]) {
                    Some(pointer) => self.text_of(&pointer, length),
                    None => self.text_of_declared(placed, length),
                }
            }
            "basic_string_view" => {
                self.text_of(&self.field(placed, "_M_str")?, self.number_at(placed, &["_M_len"])?)
            }
            "filesystem::path" => self.one(self.field(placed, "_M_pathname")?),
            "array" => self.one(self.field(placed, "_M_elems")?),
            "stack" | "queue" | "priority_queue" => self.one(self.field(placed, "c")?),
            "unique_ptr" => {
                let owned = self.path(placed, &["_M_t", "_M_t"]).or_else(|| self.field(placed, "_M_t"))?;
                self.one(self.tuple_parts(&owned)?.into_iter().next()?)
            }
            "shared_ptr" | "weak_ptr" => self.shared(placed, name == "weak_ptr"),
            "reference_wrapper" => self.one(self.field(placed, "_M_data")?),
            "optional" => {
                let payload = self.field(placed, "_M_payload")?;
                match self.number_at(&payload, &["_M_engaged"])? {
                    0 => Some(Shape::Words("nullopt".to_owned())),
                    _ => self.one(self.path(&payload, &["_M_payload", "_M_value"])?),
                }
            }
            "variant" => self.variant(placed),
            "tuple" => self.tuple_parts(placed).map(Shape::Tuple),
            "pair" => Some(Shape::Tuple(vec![self.field(placed, "first")?, self.field(placed, "second")?])),
            "function" => self.callable(placed),
            "bitset" => self.bit_set(placed, found),
            "atomic" | "__atomic_base" => {
                let known = [&["_M_i"][..], &["_M_base", "_M_i"], &["_M_b", "_M_p"], &["_M_fp"]];
                self.one(known.iter().find_map(|names| self.path(placed, names))?)
            }
            "mutex" | "recursive_mutex" | "timed_mutex" | "recursive_timed_mutex" | "__mutex_base" => {
                self.one(self.field(placed, "_M_mutex")?)
            }
            "shared_mutex" | "shared_timed_mutex" => self.one(self.path(placed, &["_M_impl", "_M_rwlock"])?),
            "condition_variable" => self
                .one(self.path(placed, &["_M_cond", "_M_cond"]).or_else(|| self.field(placed, "_M_cond"))?),
            "complex" => self.one(self.field(placed, "_M_value")?),
            "chrono::duration" => self.duration(placed),
            "chrono::time_point" => self.one(self.field(placed, "__d")?),
            _ => None,
        }
    }

    fn one(&self, target: Placed) -> Option<Shape> {
        Some(Shape::Inner { target, note: None })
    }

    fn text_of(&self, pointer: &Placed, length: u64) -> Option<Shape> {
        let (address, target) = self.pointer(pointer)?;
        self.text_from(address, target?, length)
    }

    /// clang leaves types out that the library has compiled: of what holds the pointer it only says
    /// where it is. The pointer is all that is in it, unless an allocator has a state of its own.
    fn text_of_declared(&self, placed: &Placed, length: u64) -> Option<Shape> {
        let holder = self.field(placed, "_M_dataplus")?;
        let address = u64::from_le_bytes(self.bytes(&holder, 8).ok()?.try_into().ok()?);
        self.text_from(address, self.parameter(placed, 0)?, length)
    }

    fn text_from(&self, address: u64, character: TypeRef, length: u64) -> Option<Shape> {
        let unit = self.types.size(character).filter(|size| matches!(size, 1 | 2 | 4))?;
        if length >= ADDRESS_SPACE {
            return Some(Shape::Corrupt(format!("a text of {length} characters")));
        }
        let start = Placed::memory(character, address);
        Some(Shape::Text(Text { start, unit, length: Length::Known(length), note: None }))
    }

    fn shared(&self, placed: &Placed, weak: bool) -> Option<Shape> {
        let pointer = self.field(placed, "_M_ptr")?;
        let Some(counts) = self.target(&self.path(placed, &["_M_refcount", "_M_pi"])?) else {
            return self.one(pointer);
        };
        if counts.address() == Some(0) {
            return self.one(pointer);
        }
        let uses = self.number_at(&counts, &["_M_use_count"])?;
        // All owners together hold one weak reference.
        let weaks = self.number_at(&counts, &["_M_weak_count"])?.saturating_sub(u64::from(uses > 0));
        let numbers = format!("use {uses}, weak {weaks}");
        if weak && uses == 0 {
            return Some(Shape::Words(format!("expired ({numbers})")));
        }
        Some(Shape::Inner { target: pointer, note: Some(numbers) })
    }

    /// The alternatives are a chain of unions, each with the first and the rest.
    fn variant(&self, placed: &Placed) -> Option<Shape> {
        let index_at = self.field(placed, "_M_index")?;
        let index = self.number(&index_at)?;
        let size = self.types.size(index_at.type_ref)?.min(8);
        if index == u64::MAX >> (64 - 8 * size) {
            return Some(Shape::Words("valueless".to_owned()));
        }
        if index > 255 {
            return Some(Shape::Corrupt(format!("alternative {index}")));
        }
        let mut at = self.field(placed, "_M_u")?;
        for _ in 0..index {
            at = self.field(&at, "_M_rest")?;
        }
        let mut value = self.path(&at, &["_M_first", "_M_storage"])?;
        let buffer =
            self.real(&value).is_some_and(|(_, found)| head(&found.name).ends_with("__aligned_membuf"));
        if buffer {
            value = value.retyped(self.parameter(&value, 0)?);
        }
        Some(Shape::Inner { target: value, note: Some(format!("alternative {index}")) })
    }

    /// The parts of a tuple: each level of its bases has one and the levels behind it.
    fn tuple_parts(&self, placed: &Placed) -> Option<Vec<Placed>> {
        let mut parts = Vec::new();
        let mut at = Some(placed.clone());
        while let Some(level) = at.take() {
            let (_, found) = self.real(&level)?;
            let TypeKind::Struct(structure) = &found.kind else { return None };
            if parts.len() > 64 {
                return None;
            }
            for base in &structure.bases {
                let base = self.base(&level, base)?;
                let (_, found) = self.real(&base)?;
                match standard_name(&found.name)? {
                    "_Tuple_impl" => at = Some(base),
                    "_Head_base" => {
                        // A class without members is the base itself in older versions.
                        parts.push(self.field(&base, "_M_head_impl").or_else(|| self.first_base(&base))?);
                    }
                    _ => {}
                }
            }
        }
        Some(parts)
    }

    fn first_base(&self, placed: &Placed) -> Option<Placed> {
        let (_, found) = self.real(placed)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        self.base(placed, structure.bases.first()?)
    }

    /// What a `std::function` calls, by the symbol of the function that calls it.
    fn callable(&self, placed: &Placed) -> Option<Shape> {
        if self.number_at(placed, &["_M_manager"])? == 0 {
            return Some(Shape::Words("empty".to_owned()));
        }
        let invoker = self.number_at(placed, &["_M_invoker"])?;
        let symbol = self.types.symbol_at(invoker).map(|(name, _)| name);
        let functor = self.field(placed, "_M_functor")?;
        let held = symbol.as_deref().and_then(held_callable).unwrap_or("?");
        if held.contains("(*)") || held.contains("(&)") {
            let address = super::layout::unsigned_of(&self.bytes(&functor, 8).ok()?) as u64;
            let name = self.types.symbol_at(address).map_or("?".to_owned(), |(name, _)| name);
            return Some(Shape::Words(format!("{address:#x} <{name}>")));
        }
        Some(Shape::Words(format!("callable <{held}>")))
    }

    /// The whole object that a base class with virtual functions is part of, and what it is.
    pub(crate) fn most_derived(&self, placed: &Placed) -> Option<(Placed, String)> {
        let (_, found) = self.real(placed)?;
        if found.language == Language::Rust || self.has_vtable(placed.type_ref, &mut Search::new()).is_none()
        {
            return None;
        }
        let address = placed.address()?;
        let vtable = self.memory.read_pointer(address).ok()?;
        let (symbol, _) = self.types.symbol_at(vtable)?;
        let name = symbol.strip_prefix("vtable for ").or_else(|| {
            // As one demangler of several writes it.
            symbol.strip_prefix("{vtable(")?.strip_suffix(")}")
        })?;
        let whole = self.types.named(name)?;
        if self.types.get(whole)?.name == found.name {
            return None;
        }
        // The vtable keeps the way from the part to the whole object.
        let to_top = self.memory.read_uint(vtable.wrapping_sub(16), 8).ok()?;
        Some((Placed::memory(whole, address.wrapping_add(to_top)), name.to_owned()))
    }

    fn has_vtable(&self, type_ref: TypeRef, search: &mut Search) -> Option<()> {
        let (_, found) = self.types.real(type_ref)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        let own = structure.members.iter().any(|member| {
            member.offset == 0 && member.name.as_deref().is_some_and(|name| name.starts_with("_vptr"))
        });
        let virtual_base = structure.bases.iter().any(|base| base.offset.is_none());
        if own || virtual_base {
            return Some(());
        }
        let mut first = structure.bases.iter().filter(|base| base.offset == Some(0));
        first.find_map(|base| search.deeper(|search| self.has_vtable(base.type_ref, search)))
    }

    fn bit_set(&self, placed: &Placed, found: &Type) -> Option<Shape> {
        let TypeKind::Struct(structure) = &found.kind else { return None };
        let count = structure.parameters.first()?.value.and_then(|count| u64::try_from(count).ok())?;
        let shown = count.min(512);
        let bytes = self.bytes(placed, shown.div_ceil(8)).ok()?;
        let bit = |at: u64| if bytes[(at / 8) as usize] >> (at % 8) & 1 == 1 { '1' } else { '0' };
        let bits: String = (0..shown).rev().map(bit).collect();
        let cut = if shown < count { "… " } else { "" };
        Some(Shape::Words(format!("{cut}0b{bits}")))
    }

    fn duration(&self, placed: &Placed) -> Option<Shape> {
        let ticks = self.field(placed, "__r")?;
        let period = self.types.name_of(self.parameter(placed, 1)?);
        let unit = match ratio(&period)? {
            (1, 1_000_000_000) => "ns",
            (1, 1_000_000) => "µs",
            (1, 1000) => "ms",
            (1, 1) => "s",
            (60, 1) => "min",
            (3600, 1) => "h",
            (86_400, 1) => "d",
            _ => return None,
        };
        let (_, found) = self.real(&ticks)?;
        let TypeKind::Base(encoding) = found.kind else { return None };
        let bytes = self.whole(&ticks).ok()?;
        let number = super::number::base(&found, encoding, &bytes, hindcast_core::debug::NumberFormat::Auto);
        Some(Shape::Words(format!("{number}{unit}")))
    }
}

/// The name inside `std`, without the namespaces that versions put there and without arguments.
pub(crate) fn standard_name(name: &str) -> Option<&str> {
    let inside = head(name).strip_prefix("std::")?;
    let versioned = |part: &str| {
        matches!(part, "__cxx11" | "__debug" | "_V2" | "__8")
            || part.starts_with("__cxx")
            || part == "__cxx1998"
    };
    let inside = match inside.split_once("::") {
        Some((part, rest)) if versioned(part) => rest,
        _ => inside,
    };
    // `std::filesystem::__cxx11::path`
    Some(if inside == "filesystem::__cxx11::path" { "filesystem::path" } else { inside })
}

/// The callable's type of `std::_Function_handler<R (A...), F>::_M_invoke(…)`.
fn held_callable(symbol: &str) -> Option<&str> {
    let start = symbol.find("_Function_handler<")? + "_Function_handler<".len();
    let mut depth = 0;
    let mut first_comma = None;
    for (at, byte) in symbol.bytes().enumerate().skip(start) {
        match byte {
            b'<' | b'(' | b'{' | b'[' => depth += 1,
            b'>' if depth == 0 => return Some(symbol[first_comma? + 1..at].trim()),
            b'>' | b')' | b'}' | b']' => depth -= 1,
            b',' if depth == 0 && first_comma.is_none() => first_comma = Some(at),
            _ => {}
        }
    }
    None
}

/// `std::ratio<1, 1000>`, with or without suffixes of its numbers.
fn ratio(name: &str) -> Option<(u64, u64)> {
    let (_, arguments) = name.split_once("ratio<")?;
    let mut numbers = arguments.trim_end_matches(['>', ' ']).split(',').map(|number| {
        let digits: String = number.trim().chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    });
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn library_names_are_found_in_all_their_namespaces() {
        assert_eq!(standard_name("std::vector<int, std::allocator<int> >"), Some("vector"));
        assert_eq!(standard_name("std::__cxx11::basic_string<char>"), Some("basic_string"));
        assert_eq!(standard_name("std::chrono::duration<long>"), Some("chrono::duration"));
        assert_eq!(standard_name("mine::vector<int>"), None);
        assert_eq!(ratio("std::ratio<1l, 1000l>"), Some((1, 1000)));
        assert_eq!(ratio("std::ratio<60, 1>"), Some((60, 1)));
        let invoker = "std::_Function_handler<int (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)";
        assert_eq!(held_callable(invoker), Some("main::{lambda(int)#1}"));
    }
}
