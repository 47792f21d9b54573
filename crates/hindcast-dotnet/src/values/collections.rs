//! Which parts a value has: items of collections, members of everything else.

use crate::{
    cor::{ArrayValue, Com, CorError, ReferenceValue, Value, element as cor_element},
    image::{Assembly, AttributeValue, Primitive, Token},
};

use super::{
    answer::Answer,
    seen::{Content, FieldValue, Seen, Values},
    show::{Items, Nested, Part, PartValue, Parts, View, Window},
    slots::Mark,
    types::TypeInfo,
};

/// How many slots of a hash table or nodes of a tree are looked at for one answer.
pub(super) const MOST_SLOTS: u64 = 200_000;
/// A key is looked for among so many; in more, only by code of the program.
const MOST_KEYS: u64 = 20_000;
/// From so far on, the slots before are counted in memory.
const FAR: u64 = 256;
/// How many parts are shown in place of what holds them.
const IN_PLACE: u64 = 100;
/// `DebuggerBrowsableState.Never`.
const NEVER: i64 = 0;
/// `DebuggerBrowsableState.RootHidden`: its parts are shown instead of it.
const ROOT_HIDDEN: i64 = 3;

/// An item of a collection that is looked for by number.
#[derive(Debug)]
pub(crate) enum Item {
    Found(Seen),
    /// There are too many before it.
    TooFar,
}

/// What a dictionary has.
pub(crate) enum Keys {
    /// All of its keys and values.
    All(Vec<(Seen, Com<Value>)>),
    /// Too many to look at.
    TooMany(u64),
}

impl Values<'_> {
    /// How a value with parts is shown; of many parts, those in the window are read.
    pub(super) fn view(&self, seen: &Seen, window: Window) -> View {
        match &seen.content {
            Content::Array(array) => View { text: None, parts: Parts::Items(array_items(array, window)) },
            Content::Object(_) => self.object_view(seen, window),
            Content::Pointer(address) => {
                let target = pointed_at(&seen.value).map(|target| Part::new("*", Ok(target)));
                View {
                    text: Some(format!("{address:#x}")),
                    parts: Parts::Named(target.into_iter().collect()),
                }
            }
            _ => View { text: None, parts: Parts::None },
        }
    }

    fn object_view(&self, seen: &Seen, window: Window) -> View {
        let name = seen.of.full_name_ref().unwrap_or_default();
        if let Some(parts) = self.collection(seen, name, window) {
            return View { text: None, parts };
        }
        if let Some(view) = self.buffer_view(seen, name, window) {
            return view;
        }
        if let Some(view) = self.framework_view(seen, name, window) {
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
        for field in fields {
            let browsable = self.browsable(&field);
            if browsable == Some(NEVER) {
                continue;
            }
            if browsable == Some(ROOT_HIDDEN)
                && let Some(inner) = self.parts_in_place(&field)
            {
                parts.extend(inner);
                continue;
            }
            let name = match parts.iter().any(|part| part.name == field.name())
                || self.is_overridden(seen, &field)
            {
                // A base class has a field of the same name, or a property that is another here.
                true => format!("{} ({})", field.name(), field.declared_by.display()),
                false => field.name().to_owned(),
            };
            let declared = self.declared_names(&field);
            let part = match self.null_of_unused(seen, &field.declared_by, field.token, &field.value) {
                Some(of) => Part { value: PartValue::Null(of), ..Part::null(name) },
                None => Part::new(name, field.value),
            };
            parts.push(Part { declared, ..part });
        }
        parts
    }

    /// Whether a field is that of an automatic property which a more derived type has in another way.
    fn is_overridden(&self, seen: &Seen, field: &FieldValue) -> bool {
        if field.name() == field.raw_name {
            return false;
        }
        let declaring = field.declared_by.full_name_ref();
        let derived =
            seen.of.with_bases(self.modules).into_iter().take_while(|of| of.full_name_ref() != declaring);
        derived.filter_map(|of| of.definition.clone()).any(|definition| {
            definition.type_def().is_some_and(|of| of.property_named(field.name()).is_some())
        })
    }

    /// The parts of a field that are to be shown instead of it.
    fn parts_in_place(&self, field: &FieldValue) -> Option<Vec<Part>> {
        // They may lead back to the same object.
        let _nested = Nested::enter()?;
        let seen = self.see(field.value.as_ref().ok()?).ok()?;
        match self.view(&seen, Window { offset: 0, limit: IN_PLACE }).parts {
            Parts::Items(items) | Parts::Pairs(items) if items.count <= IN_PLACE => Some(items.read),
            Parts::Named(parts) | Parts::Tuple(parts) => Some(parts),
            _ => None,
        }
    }

    /// The names that the source gives to the items of tuples in a field.
    fn declared_names(&self, field: &FieldValue) -> Option<TypeInfo> {
        let module = &field.declared_by.definition.as_ref()?.module;
        let names = tuple_names(module.assembly()?, field.token)?;
        let of = self.type_of(field.value.as_ref().ok()?).ok()?;
        let names: Vec<_> = names.iter().map(Option::as_deref).collect();
        Some(of.with_item_names(&names))
    }

    /// What the program asks of debuggers.
    fn browsable(&self, field: &FieldValue) -> Option<i64> {
        let definition = field.declared_by.definition.as_ref()?;
        let assembly = definition.module.assembly()?;
        let state = |token: Token| {
            let attribute = assembly.attribute(token, "System.Diagnostics.DebuggerBrowsableAttribute")?;
            attribute.arguments().ok()?.fixed.first()?.as_i64()
        };
        // What the compiler marks on backing fields is meant for the field, not for its property.
        if field.name() != field.raw_name {
            let property = definition.type_def()?.property_named(field.name())?;
            return state(property.token());
        }
        state(field.token)
    }

    fn collection(&self, seen: &Seen, name: &str, window: Window) -> Option<Parts> {
        if let Some(fsharp) = name.strip_prefix("Microsoft.FSharp.Collections.") {
            return self.fsharp_collection(seen, fsharp, window);
        }
        let name = name.strip_prefix("System.Collections.")?;
        if let Some(immutable) = name.strip_prefix("Immutable.") {
            return self.immutable(seen, immutable, window);
        }
        let items = match name {
            "Generic.List`1" | "ArrayList" => self.in_array(seen, "_items", window),
            "Generic.PriorityQueue`2" => self.in_array(seen, "_nodes", window),
            "BitArray" => self.bit_array(seen, window),
            "Generic.Stack`1" | "Stack" => self.stack(seen, window),
            "Generic.Queue`1" | "Queue" => self.queue(seen, window),
            "Generic.HashSet`1" => self.hash_set(seen, window),
            "Generic.SortedSet`1" => self.sorted_tree(seen, window, false),
            "Generic.LinkedList`1" => self.linked_list(seen, window),
            "Concurrent.ConcurrentStack`1" => self.concurrent_stack(seen, window),
            "Concurrent.ConcurrentQueue`1" => self.concurrent_queue(seen, window),
            "Concurrent.BlockingCollection`1" => return self.inner_parts(seen, &["_collection"], window),
            "ObjectModel.Collection`1"
            | "ObjectModel.ReadOnlyCollection`1"
            | "ObjectModel.ObservableCollection`1" => {
                return self.inner_parts(seen, &["items", "list"], window);
            }
            "ObjectModel.ReadOnlyDictionary`2" => {
                return self.inner_parts(seen, &["m_dictionary", "_dictionary"], window);
            }
            _ => return self.keyed(seen, name, window).map(Parts::Pairs),
        };
        items.map(Parts::Items)
    }

    /// A collection that finds its items by key.
    fn keyed(&self, seen: &Seen, name: &str, window: Window) -> Option<Items> {
        match name {
            "Generic.Dictionary`2" => self.dictionary(seen, window),
            "Generic.SortedDictionary`2" => self.sorted_tree(&self.field_seen(seen, "_set")?, window, true),
            "Generic.SortedList`2" => self.sorted_list(seen, window),
            "Hashtable" => self.hashtable(seen, window),
            "Concurrent.ConcurrentDictionary`2" => self.concurrent_dictionary(seen, window),
            _ => None,
        }
    }

    /// The parts of a collection that this one only stands before.
    fn inner_parts(&self, seen: &Seen, names: &[&str], window: Window) -> Option<Parts> {
        let _nested = Nested::enter()?;
        let inner = self.any_field(seen, names)?;
        match self.view(&inner, window).parts {
            parts @ (Parts::Items(_) | Parts::Pairs(_)) => Some(parts),
            _ => None,
        }
    }

    /// How many items a collection has; none for what is no collection, and where counting takes too long.
    pub(crate) fn item_count(&self, seen: &Seen) -> Option<u64> {
        let _answer = Answer::enter();
        // Not the whole view: what a type wants to be shown as may ask for the count.
        match self.items_in(seen, Window { offset: 0, limit: 0 })? {
            Parts::Items(items) | Parts::Pairs(items) => (!items.is_broken).then_some(items.count),
            _ => None,
        }
    }

    /// The items of an array or a collection; none for everything else.
    fn items_in(&self, seen: &Seen, window: Window) -> Option<Parts> {
        match &seen.content {
            Content::Array(array) => Some(Parts::Items(array_items(array, window))),
            Content::Object(_) => self.collection(seen, seen.of.full_name_ref()?, window),
            _ => None,
        }
    }

    /// An item of a collection by number; none for what has no numbered items.
    pub(crate) fn item_at(&self, seen: &Seen, at: u64) -> Option<Result<Item, CorError>> {
        let _answer = Answer::enter();
        match self.items_in(seen, Window { offset: at, limit: 1 })? {
            Parts::Items(items) if items.is_too_far && items.read.is_empty() => Some(Ok(Item::TooFar)),
            Parts::Items(items) => Some(self.see(&items.read.into_iter().next()?.place()?).map(Item::Found)),
            _ => None,
        }
    }

    /// Keys and values of a dictionary; none for what has no keys.
    pub(crate) fn keys(&self, seen: &Seen) -> Option<Keys> {
        let count = self.item_count(seen)?;
        if count > MOST_KEYS {
            return Some(Keys::TooMany(count));
        }
        let _answer = Answer::enter();
        match self.items_in(seen, Window { offset: 0, limit: MOST_KEYS })? {
            Parts::Pairs(items) if items.is_too_far => Some(Keys::TooMany(count)),
            // What was not looked at may be what is looked for.
            Parts::Pairs(items) if !items.is_broken => {
                let pairs = items.read.into_iter();
                Some(Keys::All(
                    pairs.filter_map(|mut part| Some((part.key.take()?, part.place()?))).collect(),
                ))
            }
            _ => None,
        }
    }

    /// The value under a whole number in a `Dictionary`, however many it has; `None` within where it has no such key.
    /// None at all where its keys are no whole numbers of this size.
    pub(crate) fn by_whole_key(&self, seen: &Seen, key: &[u8]) -> Option<Option<Com<Value>>> {
        let of = seen.of.arguments.first()?;
        let is_whole = of.primitive().is_some_and(|of| !matches!(of, Primitive::Single | Primitive::Double));
        if !seen.of.is_named("System.Collections.Generic.Dictionary`2") || !is_whole {
            return None;
        }
        let _answer = Answer::enter();
        let entries = self.array_field(seen, &["_entries"])?;
        let used = u64::try_from(self.integer_field(seen, &["_count"])?).ok()?.min(length(&entries));
        let Some(slot) = self.slot_with_key(&entries, used, key)? else { return Some(None) };
        let entry = self.see(&element(&entries, slot).ok()?).ok()?;
        (self.field_seen(&entry, "key")?.bytes()? == key).then_some(Some(self.field(&entry, "value")?))
    }

    /// An item of a tuple, counted from 1.
    pub(crate) fn tuple_value(&self, seen: &Seen, number: usize) -> Option<Seen> {
        let part = self.tuple(seen).into_iter().nth(number.checked_sub(1)?)?;
        let declared = part.declared.clone();
        Some(self.see(&part.place()?).ok()?.declared(declared.as_ref()))
    }

    /// The first `count` items of an array in a field.
    fn in_array(&self, seen: &Seen, array: &str, window: Window) -> Option<Items> {
        let array = self.array_field(seen, &[array])?;
        let count = u64::try_from(self.integer_field(seen, &["_size"])?).ok()?;
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
        let used =
            self.integer_field(seen, &["_lastIndex"]).or_else(|| self.integer_field(seen, &["_count"]))?;
        let free = self.integer_field(seen, &["_freeCount"]).unwrap_or(0);
        let is_old = self.field(seen, "_lastIndex").is_some();
        let count = if is_old { self.integer_field(seen, &["_count"])? } else { used - free };
        let count = u64::try_from(count).ok()?;
        let Some(entries) = entries else { return Some(Items::default()) };
        let live = |entry: &Seen, at: u64| {
            let is_live = match is_old {
                true => self.integer_field(entry, &["hashCode"])? >= 0,
                false => self.integer_field(entry, &["Next", "next"])? >= -1,
            };
            is_live
                .then(|| Some(Part::new(format!("[{at}]"), Ok(self.any_raw(entry, &["Value", "value"])?))))?
        };
        let mark: Mark<'_> = match is_old {
            true => (&["hashCode"], |hash| hash >= 0),
            false => (&["Next", "next"], |next| next >= -1),
        };
        Some(self.live_entries(&entries, used, (count, Some(mark)), window, live))
    }

    fn dictionary(&self, seen: &Seen, window: Window) -> Option<Items> {
        let used = self.integer_field(seen, &["_count"])?;
        let free = self.integer_field(seen, &["_freeCount"]).unwrap_or(0);
        let count = u64::try_from(used - free).ok()?;
        let Some(entries) = self.array_field(seen, &["_entries"]) else { return Some(Items::default()) };
        let live = |entry: &Seen, _| match self.integer_field(entry, &["next"])? {
            ..-1 => None,
            _ => self.pair_part(&self.field_seen(entry, "key")?, self.field(entry, "value")?),
        };
        let mark: Mark<'_> = (&["next"], |next| next >= -1);
        Some(self.live_entries(&entries, used, (count, Some(mark)), window, live))
    }

    /// The collection without types.
    fn hashtable(&self, seen: &Seen, window: Window) -> Option<Items> {
        let buckets = self.array_field(seen, &["_buckets"])?;
        let count = u64::try_from(self.integer_field(seen, &["_count"])?).ok()?;
        let slots = i64::try_from(length(&buckets)).ok()?;
        let live = |entry: &Seen, _| {
            let key = self.field_seen(entry, "key")?;
            // What was removed has the table itself as its key.
            let is_live = !key.is_null()
                && !key.of.display().ends_with("Bucket[]")
                && !key.of.display().ends_with("bucket[]");
            is_live.then(|| self.pair_part(&key, self.field(entry, "val")?))?
        };
        Some(self.live_entries(&buckets, slots, (count, None), window, live))
    }

    /// Walks the slots of a hash table; `part` says what is in a slot that is in use, and so does a number in it.
    fn live_entries(
        &self,
        entries: &Com<ArrayValue>,
        used: i64,
        (count, mark): (u64, Option<Mark<'_>>),
        window: Window,
        part: impl Fn(&Seen, u64) -> Option<Part>,
    ) -> Items {
        let used = u64::try_from(used).unwrap_or(0).min(length(entries));
        let mut items = Items { count, ..Items::default() };
        if window.offset >= count {
            return items;
        }
        let start = match mark {
            // No slot is free.
            Some(_) if used == count => Some(window.offset),
            Some(mark) if window.offset >= FAR => self.slot_after(entries, used, window.offset, mark),
            _ => None,
        };
        let (first, mut found) = start.map_or((0, 0), |slot| (slot, window.offset));
        for (looked_at, slot) in (first..used).enumerate() {
            let looked_at = looked_at as u64;
            if items.read.len() as u64 >= window.limit {
                return items;
            }
            if looked_at == MOST_SLOTS || Answer::is_late(looked_at) {
                return items.too_far();
            }
            let entry = element(entries, slot).and_then(|entry| self.see(&entry));
            let Some(part) = entry.ok().and_then(|entry| part(&entry, found)) else { continue };
            if found >= window.offset {
                items.read.push(part);
            }
            found += 1;
        }
        items.is_broken = (items.read.len() as u64) < window.limit && found != count;
        items
    }

    /// A value under its key.
    pub(super) fn pair_part(&self, key: &Seen, value: Com<Value>) -> Option<Part> {
        let part = Part::new(format!("[{}]", self.brief(key, Default::default())), Ok(value));
        Some(Part { key: Some(key.clone()), ..part })
    }

    fn sorted_list(&self, seen: &Seen, window: Window) -> Option<Items> {
        let keys = self.array_field(seen, &["keys"])?;
        let values = self.array_field(seen, &["values"])?;
        let count = u64::try_from(self.integer_field(seen, &["_size"])?).ok()?.min(length(&values));
        let mut items = numbered(count, window, |at| element(&values, at));
        // Another thread was adding to it.
        items.is_broken = length(&keys) != length(&values);
        for (at, part) in (window.offset..).zip(&mut items.read) {
            if let Ok(key) = element(&keys, at).and_then(|key| self.see(&key)) {
                part.name = format!("[{}]", self.brief(&key, Default::default()));
                part.key = Some(key);
            }
        }
        Some(items)
    }

    pub(super) fn array_field(&self, seen: &Seen, names: &[&str]) -> Option<Com<ArrayValue>> {
        match self.any_field(seen, names)?.content {
            Content::Array(array) => Some(array),
            _ => None,
        }
    }

    pub(super) fn any_raw(&self, seen: &Seen, names: &[&str]) -> Option<Com<Value>> {
        names.iter().find_map(|name| self.field(seen, name))
    }
}

/// What a pointer points at, where the runtime knows its type.
fn pointed_at(value: &Com<Value>) -> Option<Com<Value>> {
    let mut current = value.clone();
    for _ in 0..3 {
        let is_pointer = current.element_type().ok()? == cor_element::POINTER;
        current = current.cast::<ReferenceValue>()?.dereference().ok()?;
        if is_pointer {
            return Some(current);
        }
    }
    None
}

/// The names of tuples' items that a member's attribute has.
pub(crate) fn tuple_names(assembly: &Assembly, member: Token) -> Option<Vec<Option<String>>> {
    let attribute =
        assembly.attribute(member, "System.Runtime.CompilerServices.TupleElementNamesAttribute")?;
    let arguments = attribute.arguments().ok()?;
    let AttributeValue::Array(names) = arguments.fixed.first()? else { return None };
    Some(names.iter().map(|name| name.as_str().map(str::to_owned)).collect())
}

pub(super) fn length(array: &Com<ArrayValue>) -> u64 {
    array.count().unwrap_or(0).into()
}

pub(super) fn element(array: &Com<ArrayValue>, at: u64) -> Result<Com<Value>, CorError> {
    array.element_at(u32::try_from(at).unwrap_or(u32::MAX))
}

/// Items that are found by number.
pub(super) fn numbered(
    count: u64,
    window: Window,
    item: impl Fn(u64) -> Result<Com<Value>, CorError>,
) -> Items {
    let end = count.min(window.offset.saturating_add(window.limit));
    let read = (window.offset..end).map(|at| Part::new(format!("[{at}]"), item(at))).collect();
    Items { count, read, ..Items::default() }
}

/// The elements of an array, with one index for each dimension.
pub(super) fn array_items(array: &Com<ArrayValue>, window: Window) -> Items {
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
    if dimensions.len() > 1 {
        items.rows = rows(&dimensions);
    }
    items
}

/// How many elements make up a row of each dimension but the first, the longest first.
fn rows(dimensions: &[u32]) -> Vec<u64> {
    let inner = (1..dimensions.len())
        .map(|from| dimensions[from..].iter().map(|length| u64::from(*length)).product());
    inner.collect()
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
        assert_eq!(rows(&[2, 3, 4]), [12, 4]);
    }
}
