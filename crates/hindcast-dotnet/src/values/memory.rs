//! Stretches of memory, texts in pieces, large numbers, types and delegates.

use crate::{
    cor::{ArrayValue, Com, DelegateValue, Process5},
    expression::Text,
    image::{Primitive, Token},
};

use super::{
    collections::{element, length, numbered},
    seen::{Content, Seen, Values},
    show::{Items, Part, Parts, View, Window, cut_text},
    types::TypeInfo,
};

/// The most of a text that is shown.
const TEXT_LIMIT: u64 = 200;
/// How many pieces of a text are put together.
const MOST_PIECES: usize = 10_000;
/// How many digits, in base 2^32, a number may have to be written out.
const LONGEST_NUMBER: u64 = 256;

impl Values<'_> {
    /// The first items of an array of primitives, by one look at its memory.
    pub(super) fn array_bytes(
        &self,
        array: &Com<ArrayValue>,
        from: u64,
        count: u64,
        size: u32,
    ) -> Option<Vec<u8>> {
        if count == 0 {
            return Some(Vec::new());
        }
        if from.checked_add(count)? > length(array) {
            return None;
        }
        let address = element(array, from).ok()?.address().ok()?;
        self.process.read_memory(address, u32::try_from(count).ok()?.checked_mul(size)?).ok()
    }

    /// The pieces, of which the last is the first in the chain.
    pub(super) fn string_builder(&self, seen: &Seen) -> Option<String> {
        let (mut pieces, mut current) = (Vec::new(), Some(seen.clone()));
        let mut total = 0;
        while let Some(piece) = current.filter(|piece| !piece.is_null()) {
            let length = u64::try_from(self.integer_field(&piece, &["m_ChunkLength"])?).ok()?;
            let Content::Array(units) = self.field_seen(&piece, "m_ChunkChars")?.content else { return None };
            total += length;
            current = self.field_seen(&piece, "m_ChunkPrevious");
            pieces.push((units, length));
            if pieces.len() > MOST_PIECES {
                return None;
            }
        }
        let mut text = Vec::new();
        for (units, length) in pieces.into_iter().rev() {
            let room = TEXT_LIMIT.saturating_sub(text.len() as u64);
            text.extend(units_of(&self.array_bytes(&units, 0, length.min(room), 2)?));
        }
        Some(match total > TEXT_LIMIT {
            true => cut_text(text, total),
            false => Text(text).quoted(),
        })
    }

    /// The number itself where it is small, or its digits.
    pub(super) fn big_integer(&self, seen: &Seen) -> Option<String> {
        let sign = self.integer_field(seen, &["_sign"])?;
        let Content::Array(bits) = self.field_seen(seen, "_bits")?.content else {
            return Some(sign.to_string());
        };
        let count = length(&bits);
        if count > LONGEST_NUMBER {
            return None;
        }
        let bytes = self.array_bytes(&bits, 0, count, 4)?;
        let words = bytes.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        Some(big_text(words, sign < 0))
    }

    /// A number of 128 bits.
    pub(super) fn wide_integer(&self, seen: &Seen, is_signed: bool) -> Option<String> {
        let half = |name: &str| u128::try_from(self.field_seen(seen, name)?.whole()?).ok();
        let bits = half("_upper")? << 64 | half("_lower")?;
        Some(if is_signed { bits.cast_signed().to_string() } else { bits.to_string() })
    }

    /// The type that an object of reflection stands for.
    pub(super) fn runtime_type(&self, seen: &Seen) -> Option<String> {
        /// Set where it is no method table: pointers and parameters.
        const OTHER: u64 = 2;
        let handle = self.field_seen(seen, "m_handle")?.whole()?;
        let handle = u64::try_from(handle).ok().filter(|handle| *handle != 0 && handle & OTHER == 0)?;
        let of = self.process.cast::<Process5>()?.type_for_id(handle, 0).ok()?;
        let of = TypeInfo::of(of, self.modules);
        of.is_known().then(|| format!("typeof({})", of.display()))
    }

    /// A stretch of memory: its items where they are primitive, else how many.
    pub(super) fn span(&self, seen: &Seen, window: Window) -> Option<View> {
        let count = u64::try_from(self.integer_field(seen, &["_length"])?).ok()?;
        let of = seen.of.arguments.first()?;
        let Some(primitive) = of.primitive() else {
            return Some(View::text(format!("{{{count} items}}")));
        };
        let size = size_of(primitive);
        if primitive == Primitive::Char {
            let bytes = self.span_bytes(seen, 0, count.min(TEXT_LIMIT), size)?;
            let units = units_of(&bytes);
            let text = if count > TEXT_LIMIT { cut_text(units, count) } else { Text(units).quoted() };
            return Some(View::text(text));
        }
        let end = count.min(window.offset.saturating_add(window.limit));
        let wanted = end.saturating_sub(window.offset);
        let bytes = self.span_bytes(seen, window.offset, wanted, size)?;
        let items = bytes.chunks_exact(size as usize).zip(window.offset..);
        let read = items.map(|(item, at)| Part::of_bytes(format!("[{at}]"), primitive, item.to_vec()));
        Some(View {
            text: None,
            parts: Parts::Items(Items { count, read: read.collect(), ..Items::default() }),
        })
    }

    fn span_bytes(&self, seen: &Seen, from: u64, count: u64, size: u32) -> Option<Vec<u8>> {
        if count == 0 {
            return Some(Vec::new());
        }
        let start = self.span_start(seen)? + from * u64::from(size);
        self.process.read_memory(start, u32::try_from(count).ok()?.checked_mul(size)?).ok()
    }

    /// Where a span begins. The runtime does not always show the field that holds the reference, but it is the first one,
    /// before the length.
    fn span_start(&self, seen: &Seen) -> Option<u64> {
        let bytes = seen.bytes()?;
        let (start, rest) = bytes.split_first_chunk()?;
        let length = i32::from_le_bytes(*rest.first_chunk()?);
        let is_as_thought = Some(i64::from(length)) == self.integer_field(seen, &["_length"]);
        is_as_thought.then_some(u64::from_le_bytes(*start))
    }

    /// A stretch of an array or a string.
    pub(super) fn memory(&self, seen: &Seen, window: Window) -> Option<View> {
        // The highest bit says that it is pinned.
        let from = u64::try_from(self.integer_field(seen, &["_index"])? & 0x7fff_ffff).ok()?;
        let count = u64::try_from(self.integer_field(seen, &["_length"])? & 0x7fff_ffff).ok()?;
        let object = self.field_seen(seen, "_object")?;
        match &object.content {
            Content::Null => Some(View { text: None, parts: Parts::Items(Items::default()) }),
            Content::Array(array) => {
                let count = count.min(length(array).saturating_sub(from));
                let items = numbered(count, window, |at| element(array, from + at));
                Some(View { text: None, parts: Parts::Items(items) })
            }
            Content::String(text) => {
                let most = u32::try_from(count.min(TEXT_LIMIT)).ok()?;
                let units = text.slice(u32::try_from(from).ok()?, most).ok()?;
                Some(View::text(if count > TEXT_LIMIT {
                    cut_text(units, count)
                } else {
                    Text(units).quoted()
                }))
            }
            _ => None,
        }
    }

    /// What it calls, where the runtime tells; of several, each.
    pub(super) fn delegate(&self, seen: &Seen, window: Window) -> Option<View> {
        if let Some(list) = self.field_seen(seen, "_invocationList")
            && let Content::Array(list) = list.content
        {
            let count = u64::try_from(self.field_seen(seen, "_invocationCount")?.whole()?).ok()?;
            let items = numbered(count.min(length(&list)), window, |at| element(&list, at));
            return Some(View { text: None, parts: Parts::Items(items) });
        }
        let target = self.field(seen, "_target").and_then(|target| self.see(&target).ok());
        let text = self.delegate_method(seen);
        let text = text.or_else(|| {
            let target = target.as_ref().filter(|target| !target.is_null())?;
            // A delegate to a static method has itself as its target.
            (target.of.display() != seen.of.display())
                .then(|| format!("a method of {}", source_type(&target.of)))
        });
        let text = text.map_or_else(|| "{delegate}".to_owned(), |name| format!("{{{name}}}"));
        // A delegate to a static method has itself there, which is not what its property says.
        let is_static = |target: &Seen| {
            target.is_null()
                || target.object_address().is_some_and(|address| Some(address) == seen.object_address())
        };
        let parts = target.map(|target| match is_static(&target) {
            true => Part::null("Target"),
            false => Part::new("Target", Ok(target.value)),
        });
        Some(View { text: Some(text), parts: Parts::Named(parts.into_iter().collect()) })
    }

    fn delegate_method(&self, seen: &Seen) -> Option<String> {
        let Content::Object(object) = &seen.content else { return None };
        let function = object.cast::<DelegateValue>()?.function().ok()?;
        let module = self.modules.of(&function.module().ok()?)?;
        let method = module.assembly()?.method(Token(function.token().ok()?))?;
        crate::names::method_name(method)
    }
}

/// The type in the source that a closure belongs to.
fn source_type(of: &TypeInfo) -> String {
    let name = of.display();
    match name.find(".<>c") {
        Some(at) => name[..at].to_owned(),
        None => name,
    }
}

fn units_of(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|unit| u16::from_le_bytes(*unit)).collect()
}

pub(super) fn size_of(primitive: Primitive) -> u32 {
    match primitive {
        Primitive::Boolean | Primitive::SByte | Primitive::Byte => 1,
        Primitive::Char | Primitive::Int16 | Primitive::UInt16 => 2,
        Primitive::Int32 | Primitive::UInt32 | Primitive::Single => 4,
        _ => 8,
    }
}

/// A number in base 2^32, its lowest digit first, in base 10.
fn big_text(mut words: Vec<u32>, is_negative: bool) -> String {
    const STEP: u64 = 1_000_000_000;
    let mut groups = Vec::new();
    while words.iter().any(|word| *word != 0) {
        let mut rest = 0u64;
        for word in words.iter_mut().rev() {
            let value = rest << 32 | u64::from(*word);
            (*word, rest) = ((value / STEP) as u32, value % STEP);
        }
        groups.push(rest);
    }
    let Some(first) = groups.pop() else { return "0".into() };
    let sign = if is_negative { "-" } else { "" };
    let rest: String = groups.iter().rev().map(|group| format!("{group:09}")).collect();
    format!("{sign}{first}{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_written_in_base_ten() {
        assert_eq!(big_text(vec![0, 0, 0, 16], false), "1267650600228229401496703205376");
        assert_eq!(big_text(vec![1_000_000_000], true), "-1000000000");
        assert_eq!(big_text(vec![5], false), "5");
        assert_eq!(big_text(vec![], false), "0");
    }
}
