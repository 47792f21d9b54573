//! Collections that are seldom seen: stretches of arrays, bits, and queues and stacks that never change.

use crate::{
    cor::{Com, Value},
    image::Primitive,
};

use super::{
    answer::Answer,
    collections::{MOST_SLOTS, element, length, numbered},
    memory::size_of,
    seen::{Seen, Values},
    show::{Items, Part, Window},
};

impl Values<'_> {
    /// `ArraySegment<T>`.
    pub(super) fn array_segment(&self, seen: &Seen, window: Window) -> Option<Items> {
        let Some(array) = self.array_field(seen, &["_array"]) else { return Some(Items::default()) };
        let from = u64::try_from(self.integer_field(seen, &["_offset"])?).ok()?;
        let count = u64::try_from(self.integer_field(seen, &["_count"])?).ok()?;
        let count = count.min(length(&array).saturating_sub(from));
        Some(numbered(count, window, |at| element(&array, from + at)))
    }

    /// Bits are in whole numbers before .NET 10, and in bytes since.
    pub(super) fn bit_array(&self, seen: &Seen, window: Window) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["_bitLength", "m_length"])?).ok()?;
        let holder = self.any_field(seen, &["_array", "m_array"])?;
        let size = size_of(holder.of.arguments.first()?.primitive()?);
        let array = self.array_field(seen, &["_array", "m_array"])?;
        let end = count.min(window.offset.saturating_add(window.limit));
        let bytes = self.array_bytes(&array, 0, end.div_ceil(8 * u64::from(size)), size)?;
        let bit = |at: u64| {
            let byte = bytes.get(usize::try_from(at / 8).ok()?)?;
            Some(Part::of_bytes(format!("[{at}]"), Primitive::Boolean, vec![byte >> (at % 8) & 1]))
        };
        let read = (window.offset..end).map(bit).collect::<Option<_>>()?;
        Some(Items { count, read, ..Items::default() })
    }

    pub(super) fn immutable_stack(&self, seen: &Seen, window: Window) -> Option<Items> {
        let (items, is_broken) = self.stacked(seen)?;
        let shown = listed(&items, window);
        Some(if is_broken { shown.too_far() } else { shown })
    }

    /// Two stacks: what comes next, and what was added since, the newest first.
    pub(super) fn immutable_queue(&self, seen: &Seen, window: Window) -> Option<Items> {
        let (mut items, forwards) = self.stacked(&self.field_seen(seen, "_forwards")?)?;
        if forwards {
            return Some(listed(&items, window).too_far());
        }
        let (added, backwards) = self.stacked(&self.field_seen(seen, "_backwards")?)?;
        if backwards {
            // The oldest of them come first, and those were not reached.
            return Some(listed(&items, window).too_far());
        }
        items.extend(added.into_iter().rev());
        Some(listed(&items, window))
    }

    /// The items of a stack, the newest first, and whether there are too many to look at.
    fn stacked(&self, stack: &Seen) -> Option<(Vec<Com<Value>>, bool)> {
        let (mut items, mut current) = (Vec::new(), stack.clone());
        loop {
            // The empty one is the end of all.
            let tail = self.field_seen(&current, "_tail")?;
            if tail.is_null() {
                return Some((items, false));
            }
            if items.len() as u64 == MOST_SLOTS || Answer::is_late(items.len() as u64) {
                return Some((items, true));
            }
            items.push(self.field(&current, "_head")?);
            current = tail;
        }
    }
}

fn listed(items: &[Com<Value>], window: Window) -> Items {
    let place = |at: u64| items[usize::try_from(at).unwrap_or(usize::MAX)].clone();
    numbered(items.len() as u64, window, |at| Ok(place(at)))
}
