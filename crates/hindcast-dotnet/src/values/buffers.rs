//! Structs whose items the metadata declares as one field: fixed buffers, inline arrays and vectors.

use hindcast_core::debug::NumberFormat;

use crate::{
    cor::{Com, CorError, Value},
    image::Primitive,
};

use super::{
    display::primitive_text,
    memory::size_of,
    seen::{Content, Seen, Values},
    show::{Items, Part, Parts, View, Window},
};

/// How many items of a vector its line has; that is all of them but for bytes of the longest ones.
const VECTOR_ITEMS: usize = 32;

/// A fixed buffer or an inline array.
struct Buffer {
    /// How many items an inline array declares.
    declared: Option<i64>,
    first: Result<Com<Value>, CorError>,
    /// All items, where they are primitives.
    simple: Option<(Primitive, Vec<u8>)>,
}

impl Values<'_> {
    /// How such a struct is shown; none for everything else.
    pub(super) fn buffer_view(&self, seen: &Seen, name: &str, window: Window) -> Option<View> {
        if !seen.of.is_value_type() {
            return None;
        }
        if is_vector(name) {
            return self.vector(seen, window);
        }
        let Buffer { declared, first, simple } = self.buffer(seen)?;
        match simple {
            Some((primitive, bytes)) => {
                let parts = Parts::Items(items(primitive, &bytes, usize::MAX, window));
                Some(View { text: None, parts })
            }
            None => {
                let count = declared.map_or_else(String::new, |count| format!("{count} items, "));
                let text = format!("{{{count}of which only the first can be read}}");
                Some(View { text: Some(text), parts: Parts::Named(vec![Part::new("[0]", first)]) })
            }
        }
    }

    /// A fixed buffer or an inline array; none for everything else.
    fn buffer(&self, seen: &Seen) -> Option<Buffer> {
        let is_fixed = seen.of.full_name_ref()?.ends_with("e__FixedBuffer");
        let declared = if is_fixed { None } else { Some(inline_length(seen)?) };
        let Content::Object(object) = &seen.content else { return None };
        let mut fields = self.fields(object, &seen.of);
        let first = fields.pop().filter(|_| fields.is_empty())?.value;
        let primitive = first.as_ref().ok().and_then(|first| self.type_of(first).ok()?.primitive());
        let simple = primitive.zip(seen.bytes()).map(|(primitive, mut bytes)| {
            // A runtime that knows no inline arrays has one item only.
            let most = declared.map_or(usize::MAX, |count| usize::try_from(count).unwrap_or(0));
            bytes.truncate(most.saturating_mul(size_of(primitive) as usize));
            (primitive, bytes)
        });
        Some(Buffer { declared, first, simple })
    }

    /// The type and the bytes of each item of a fixed buffer or an inline array, `Some(None)` where its items are no primitives.
    pub(crate) fn buffer_items(&self, seen: &Seen) -> Option<Option<(Primitive, Vec<Vec<u8>>)>> {
        if !seen.of.is_value_type() {
            return None;
        }
        let simple = self.buffer(seen)?.simple;
        Some(simple.map(|(primitive, bytes)| {
            let items = bytes.chunks_exact(size_of(primitive) as usize).map(<[u8]>::to_vec);
            (primitive, items.collect())
        }))
    }

    /// The bytes of a primitive that a pointer has so many items behind its first.
    pub(crate) fn pointed_item(&self, address: u64, of: Primitive, at: i64) -> Result<Vec<u8>, CorError> {
        let size = size_of(of);
        let place = address.wrapping_add_signed(at.wrapping_mul(i64::from(size)));
        self.process.read_memory(place, size)
    }

    /// `<1, 2, 3, 4>`, as it prints itself.
    fn vector(&self, seen: &Seen, window: Window) -> Option<View> {
        let primitive = seen.of.arguments.first()?.primitive()?;
        let Some(bytes) = seen.bytes() else { return Some(View::text("{items that cannot be read}")) };
        let size = size_of(primitive) as usize;
        let shown: Vec<_> = bytes
            .chunks_exact(size)
            .take(VECTOR_ITEMS)
            .map(|item| primitive_text(primitive, item, NumberFormat::Auto))
            .collect();
        let rest = if bytes.len() / size > VECTOR_ITEMS { ", …" } else { "" };
        let text = format!("<{}{rest}>", shown.join(", "));
        Some(View { text: Some(text), parts: Parts::Items(items(primitive, &bytes, usize::MAX, window)) })
    }
}

fn is_vector(name: &str) -> bool {
    matches!(
        name,
        "System.Numerics.Vector`1"
            | "System.Runtime.Intrinsics.Vector64`1"
            | "System.Runtime.Intrinsics.Vector128`1"
            | "System.Runtime.Intrinsics.Vector256`1"
            | "System.Runtime.Intrinsics.Vector512`1"
    )
}

/// How many items an inline array declares.
fn inline_length(seen: &Seen) -> Option<i64> {
    let definition = seen.of.definition.as_ref()?;
    let attribute = definition
        .module
        .assembly()?
        .attribute(definition.token, "System.Runtime.CompilerServices.InlineArrayAttribute")?;
    attribute.arguments().ok()?.fixed.first()?.as_i64()
}

fn items(primitive: Primitive, bytes: &[u8], most: usize, window: Window) -> Items {
    let size = size_of(primitive) as usize;
    let count = (bytes.len() / size).min(most) as u64;
    let wanted = bytes
        .chunks_exact(size)
        .zip(0..count)
        .filter(|(_, at)| (window.offset..window.offset.saturating_add(window.limit)).contains(at));
    let read = wanted.map(|(item, at)| Part::of_bytes(format!("[{at}]"), primitive, item.to_vec()));
    Items { count, read: read.collect(), ..Items::default() }
}
