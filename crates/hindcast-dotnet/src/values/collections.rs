//! Which parts a value has: items of collections, members of everything else.

use crate::{
    cor::{ArrayValue, Com, CorError, Value},
    image::Token,
};

use super::{
    seen::{Content, FieldValue, Seen, Values},
    show::{Items, Part, Parts, View, Window},
};

/// How many slots of a hash table are looked at for one answer.
const MOST_SLOTS: u64 = 200_000;

impl Values<'_> {
    /// How a value with parts is shown; of many parts, those in the window are read.
    pub(super) fn view(&self, seen: &Seen, window: Window) -> View {
        match &seen.content {
            Content::Array(array) => View { text: None, parts: Parts::Items(array_items(array, window)) },
            Content::Object(_) => self.object_view(seen, window),
            _ => View { text: None, parts: Parts::None },
        }
    }

    fn object_view(&self, seen: &Seen, window: Window) -> View {
        let name = seen.of.full_name().unwrap_or_default();
        let only = |parts| View { text: None, parts };
        if let Some(parts) = self.collection(seen, &name, window) {
            return only(parts);
        }
        if let Some(view) = self.framework_view(seen, &name) {
            return view;
        }
        let text = self.debugger_display(seen);
        View { text, parts: Parts::Named(self.members(seen)) }
    }

    /// The fields, without those that the compiler made for itself.
    pub(super) fn members(&self, seen: &Seen) -> Vec<Part> {
        let Content::Object(object) = &seen.content else { return Vec::new() };
        let fields = self.fields(object, &seen.of);
        let mut parts: Vec<Part> = Vec::with_capacity(fields.len());
        for field in fields.into_iter().filter(|field| !self.is_hidden(field)) {
            let name = match parts.iter().any(|part| part.name == field.name()) {
                // A base class has a field of the same name.
                true => format!("{} ({})", field.name(), field.declared_by.display()),
                false => field.name().to_owned(),
            };
            parts.push(Part { name, value: field.value });
        }
        parts
    }

    /// Whether the program asks debuggers not to show it.
    fn is_hidden(&self, field: &FieldValue) -> bool {
        let Some(definition) = &field.declared_by.definition else { return false };
        let Some(assembly) = definition.module.assembly() else { return false };
        let hidden = |token: Token| {
            let attribute = assembly.attribute(token, "System.Diagnostics.DebuggerBrowsableAttribute");
            let arguments = attribute.and_then(|attribute| attribute.arguments().ok());
            arguments.and_then(|arguments| arguments.fixed.first()?.as_i64()) == Some(0)
        };
        // What the compiler marks on backing fields is meant for the field, not for its property.
        if field.name() != field.raw_name {
            let property = definition.type_def().and_then(|type_def| type_def.property_named(field.name()));
            return property.is_some_and(|property| hidden(property.token()));
        }
        hidden(field.token)
    }

    fn collection(&self, seen: &Seen, name: &str, window: Window) -> Option<Parts> {
        let name = name.strip_prefix("System.Collections.")?;
        match name {
            "Generic.List`1" | "ArrayList" => {
                self.in_array(seen, &["_items"], &["_size"], window).map(Parts::Items)
            }
            "Generic.Stack`1" | "Stack" => self.stack(seen, window).map(Parts::Items),
            "Generic.Queue`1" | "Queue" => self.queue(seen, window).map(Parts::Items),
            "Generic.HashSet`1" => self.hash_set(seen, window).map(Parts::Items),
            "Generic.Dictionary`2" => self.dictionary(seen, window).map(Parts::Pairs),
            "Generic.SortedDictionary`2" => {
                let tree = self.field_seen(seen, "_set")?;
                self.tree(&tree, window, true).map(Parts::Pairs)
            }
            "Generic.SortedSet`1" => self.tree(seen, window, false).map(Parts::Items),
            "Generic.SortedList`2" => self.sorted_list(seen, window).map(Parts::Pairs),
            "Generic.LinkedList`1" => self.linked_list(seen, window).map(Parts::Items),
            "Immutable.ImmutableArray`1" => {
                let array = self.field_seen(seen, "array")?;
                let Content::Array(array) = array.content else { return None };
                Some(Parts::Items(array_items(&array, window)))
            }
            "ObjectModel.Collection`1" | "ObjectModel.ReadOnlyCollection`1" | "ObjectModel.ObservableCollection`1" => {
                let inner = self.any_field(seen, &["items", "list"])?;
                Some(self.view(&inner, window).parts)
            }
            _ => None,
        }
    }

    /// How many items a collection has; none for what is no collection.
    pub(crate) fn item_count(&self, seen: &Seen) -> Option<u64> {
        match self.view(seen, Window { offset: 0, limit: 0 }).parts {
            Parts::Items(items) | Parts::Pairs(items) => Some(items.count),
            _ => None,
        }
    }

    /// An item of a collection by number; none for what has no numbered items.
    pub(crate) fn item_at(&self, seen: &Seen, at: u64) -> Option<Result<Seen, CorError>> {
        match self.view(seen, Window { offset: at, limit: 1 }).parts {
            Parts::Items(items) => Some(items.read.into_iter().next()?.value.and_then(|value| self.see(&value))),
            _ => None,
        }
    }

    /// Keys and values of a dictionary.
    pub(crate) fn pairs(&self, seen: &Seen) -> Vec<(Seen, Com<Value>)> {
        let name = seen.of.full_name().unwrap_or_default();
        let all = Window { offset: 0, limit: MOST_SLOTS };
        if name == "System.Collections.Generic.SortedList`2" {
            let keys = self.array_field(seen, &["keys"]);
            let values = self.array_field(seen, &["values"]);
            let count = self.integer_field(seen, &["_size"]).and_then(|count| u64::try_from(count).ok()).unwrap_or(0);
            let (Some(keys), Some(values)) = (keys, values) else { return Vec::new() };
            let pair = |at| Some((self.see(&element(&keys, at).ok()?).ok()?, element(&values, at).ok()?));
            return (0..count.min(length(&keys))).filter_map(pair).collect();
        }
        if name == "System.Collections.Generic.SortedDictionary`2" {
            let tree = self.field_seen(seen, "_set").and_then(|tree| self.tree(&tree, all, false));
            let items = tree.map(|items| items.read).unwrap_or_default();
            let pair = |part: Part| {
                let pair = self.see(&part.value.ok()?).ok()?;
                Some((self.field_seen(&pair, "key")?, self.field(&pair, "value")?))
            };
            return items.into_iter().filter_map(pair).collect();
        }
        let Some(entries) = self.array_field(seen, &["_entries"]) else { return Vec::new() };
        let used = self.integer_field(seen, &["_count"]).unwrap_or(0);
        let used = u64::try_from(used).unwrap_or(0).min(length(&entries)).min(MOST_SLOTS);
        let pair = |slot| {
            let entry = self.see(&element(&entries, slot).ok()?).ok()?;
            if self.integer_field(&entry, &["next"])? < -1 {
                return None;
            }
            Some((self.field_seen(&entry, "key")?, self.field(&entry, "value")?))
        };
        (0..used).filter_map(pair).collect()
    }

    /// An item of a tuple, counted from 1.
    pub(crate) fn tuple_value(&self, seen: &Seen, number: usize) -> Option<Seen> {
        let part = self.tuple(seen).into_iter().nth(number.checked_sub(1)?)?;
        self.see(&part.value.ok()?).ok()
    }

    /// The first `count` items of an array in a field.
    fn in_array(&self, seen: &Seen, array: &[&str], count: &[&str], window: Window) -> Option<Items> {
        let array = self.array_field(seen, array)?;
        let count = u64::try_from(self.integer_field(seen, count)?).ok()?;
        Some(numbered(count.min(length(&array)), window, |at| element(&array, at)))
    }

    /// The newest first, as it is enumerated.
    fn stack(&self, seen: &Seen, window: Window) -> Option<Items> {
        let array = self.array_field(seen, &["_array"])?;
        let count = u64::try_from(self.integer_field(seen, &["_size"])?).ok()?.min(length(&array));
        Some(numbered(count, window, |at| element(&array, count - 1 - at)))
    }

    fn queue(&self, seen: &Seen, window: Window) -> Option<Items> {
        let array = self.array_field(seen, &["_array"])?;
        let length = length(&array);
        let count = u64::try_from(self.integer_field(seen, &["_size"])?).ok()?.min(length);
        let head = u64::try_from(self.integer_field(seen, &["_head"])?).ok()?;
        Some(numbered(count, window, |at| element(&array, (head + at) % length.max(1))))
    }

    fn hash_set(&self, seen: &Seen, window: Window) -> Option<Items> {
        // .NET Core 3.1 has slots, later versions entries as the dictionary has.
        let entries = self.array_field(seen, &["_entries", "_slots"]);
        let used = self.integer_field(seen, &["_lastIndex"]).or_else(|| self.integer_field(seen, &["_count"]))?;
        let free = self.integer_field(seen, &["_freeCount"]).unwrap_or(0);
        let is_old = self.field(seen, "_lastIndex").is_some();
        let count = if is_old { self.integer_field(seen, &["_count"])? } else { used - free };
        let count = u64::try_from(count).ok()?;
        let Some(entries) = entries else { return Some(Items { count: 0, read: Vec::new() }) };
        let read = self.live_entries(&entries, used, window, |entry, at| {
            let is_live = if is_old {
                self.integer_field(entry, &["hashCode"])? >= 0
            } else {
                self.integer_field(entry, &["Next", "next"])? >= -1
            };
            is_live.then(|| Some(Part { name: format!("[{at}]"), value: Ok(self.any_raw(entry, &["Value", "value"])?) }))?
        });
        Some(Items { count, read })
    }

    fn dictionary(&self, seen: &Seen, window: Window) -> Option<Items> {
        let used = self.integer_field(seen, &["_count"])?;
        let free = self.integer_field(seen, &["_freeCount"]).unwrap_or(0);
        let count = u64::try_from(used - free).ok()?;
        let Some(entries) = self.array_field(seen, &["_entries"]) else {
            return Some(Items { count: 0, read: Vec::new() });
        };
        let read = self.live_entries(&entries, used, window, |entry, _| {
            if self.integer_field(entry, &["next"])? < -1 {
                return None;
            }
            let key = self.field_seen(entry, "key")?;
            Some(Part { name: format!("[{}]", self.brief(&key, Default::default())), value: Ok(self.field(entry, "value")?) })
        });
        Some(Items { count, read })
    }

    /// Walks the slots of a hash table; `part` says what is in a slot that is in use.
    fn live_entries(
        &self,
        entries: &Com<ArrayValue>,
        used: i64,
        window: Window,
        part: impl Fn(&Seen, u64) -> Option<Part>,
    ) -> Vec<Part> {
        let used = u64::try_from(used).unwrap_or(0).min(length(entries)).min(MOST_SLOTS);
        let (mut found, mut read) = (0, Vec::new());
        for slot in 0..used {
            if read.len() as u64 >= window.limit {
                break;
            }
            let entry = element(entries, slot).and_then(|entry| self.see(&entry));
            let Some(part) = entry.ok().and_then(|entry| part(&entry, found)) else { continue };
            if found >= window.offset {
                read.push(part);
            }
            found += 1;
        }
        read
    }

    fn sorted_list(&self, seen: &Seen, window: Window) -> Option<Items> {
        let keys = self.array_field(seen, &["keys"])?;
        let values = self.array_field(seen, &["values"])?;
        let count = u64::try_from(self.integer_field(seen, &["_size"])?).ok()?.min(length(&values));
        let mut items = numbered(count, window, |at| element(&values, at));
        for (at, part) in (window.offset..).zip(&mut items.read) {
            if let Ok(key) = element(&keys, at).and_then(|key| self.see(&key)) {
                part.name = format!("[{}]", self.brief(&key, Default::default()));
            }
        }
        Some(items)
    }

    /// A sorted tree, from left to right.
    fn tree(&self, seen: &Seen, window: Window, pairs: bool) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["count"])?).ok()?;
        let (mut path, mut read, mut found) = (Vec::new(), Vec::new(), 0);
        let mut next = self.field_seen(seen, "root");
        while read.len() as u64 != window.limit && found < MOST_SLOTS {
            while let Some(node) = next.take().filter(|node| !node.is_null()) {
                // A tree of more than 2^32 nodes is a broken one.
                if path.len() > 64 {
                    return None;
                }
                next = self.any_field(&node, &["<Left>k__BackingField", "Left"]);
                path.push(node);
            }
            let Some(node) = path.pop() else { break };
            let item = self.any_raw(&node, &["<Item>k__BackingField", "Item"])?;
            if found >= window.offset {
                read.push(self.tree_part(item, found, pairs)?);
            }
            found += 1;
            next = self.any_field(&node, &["<Right>k__BackingField", "Right"]);
        }
        Some(Items { count, read })
    }

    fn tree_part(&self, item: Com<Value>, at: u64, pairs: bool) -> Option<Part> {
        if !pairs {
            return Some(Part { name: format!("[{at}]"), value: Ok(item) });
        }
        let pair = self.see(&item).ok()?;
        let key = self.field_seen(&pair, "key")?;
        Some(Part { name: format!("[{}]", self.brief(&key, Default::default())), value: Ok(self.field(&pair, "value")?) })
    }

    fn linked_list(&self, seen: &Seen, window: Window) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["count"])?).ok()?;
        let (mut read, mut node) = (Vec::new(), self.field_seen(seen, "head"));
        for at in 0..count.min(MOST_SLOTS) {
            let Some(current) = node.filter(|node| !node.is_null()) else { break };
            if read.len() as u64 >= window.limit {
                break;
            }
            if at >= window.offset {
                read.push(Part { name: format!("[{at}]"), value: Ok(self.field(&current, "item")?) });
            }
            node = self.field_seen(&current, "next");
        }
        Some(Items { count, read })
    }

    fn array_field(&self, seen: &Seen, names: &[&str]) -> Option<Com<ArrayValue>> {
        match self.any_field(seen, names)?.content {
            Content::Array(array) => Some(array),
            _ => None,
        }
    }

    fn any_raw(&self, seen: &Seen, names: &[&str]) -> Option<Com<Value>> {
        names.iter().find_map(|name| self.field(seen, name))
    }
}

fn length(array: &Com<ArrayValue>) -> u64 {
    array.count().unwrap_or(0).into()
}

pub(super) fn element(array: &Com<ArrayValue>, at: u64) -> Result<Com<Value>, CorError> {
    array.element_at(u32::try_from(at).unwrap_or(u32::MAX))
}

/// Items that are found by number.
fn numbered(count: u64, window: Window, item: impl Fn(u64) -> Result<Com<Value>, CorError>) -> Items {
    let end = count.min(window.offset.saturating_add(window.limit));
    let read = (window.offset..end).map(|at| Part { name: format!("[{at}]"), value: item(at) }).collect();
    Items { count, read }
}

/// The elements of an array, with one index for each dimension.
fn array_items(array: &Com<ArrayValue>, window: Window) -> Items {
    let mut items = numbered(length(array), window, |at| element(array, at));
    let dimensions = array.dimensions().unwrap_or_default();
    let bases = match array.has_base_indices() {
        Ok(true) => array.base_indices().unwrap_or_default(),
        _ => Vec::new(),
    };
    if dimensions.len() > 1 || bases.iter().any(|base| *base != 0) {
        for (at, part) in (window.offset..).zip(&mut items.read) {
            part.name = indices(at, &dimensions, &bases);
        }
    }
    items
}

/// Where an element is, for people: `[1,0]`.
fn indices(mut at: u64, dimensions: &[u32], bases: &[u32]) -> String {
    let mut parts = vec![String::new(); dimensions.len()];
    for (dimension, length) in dimensions.iter().enumerate().rev() {
        let length = u64::from(*length).max(1);
        let base = bases.get(dimension).copied().unwrap_or(0).cast_signed();
        parts[dimension] = (i64::from(base) + (at % length).cast_signed()).to_string();
        at /= length;
    }
    format!("[{}]", parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_arrays_with_several_dimensions_have_several_indices() {
        assert_eq!(indices(0, &[2, 3], &[]), "[0,0]");
        assert_eq!(indices(5, &[2, 3], &[]), "[1,2]");
        assert_eq!(indices(1, &[2], &[5]), "[6]");
    }
}
