//! Collections whose items hang on one another: trees and chains.

use crate::cor::{Com, Value};

use super::{
    answer::Answer,
    collections::{MOST_SLOTS, array_items, element, length},
    seen::{Content, Seen, Values},
    show::{Items, Part, Parts, Window},
};

/// A tree of more nodes than this allows is a broken one.
const DEEPEST: usize = 64;

/// A queue of more rings than this goes round: each ring is larger than the one before, up to a million items.
const MOST_SEGMENTS: u32 = 10_000;

/// What the fields of a tree's nodes are called.
#[derive(Clone, Copy)]
struct Nodes<'a> {
    left: &'a [&'a str],
    right: &'a [&'a str],
    /// Whether a node without a left one is the mark of an end, as in the immutable collections.
    has_sentinel: bool,
    /// Whether each node knows how many there are in its branches.
    has_counts: bool,
}

/// How far a walk came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walked {
    /// As far as was wanted.
    Whole,
    /// To something that makes no sense.
    Broken,
    /// As far as one answer goes.
    TooFar,
}

impl Walked {
    fn mark(self, items: Items) -> Items {
        match self {
            Self::Whole => items,
            Self::Broken => Items { is_broken: true, ..items },
            Self::TooFar => items.too_far(),
        }
    }
}

const SORTED: Nodes<'_> =
    Nodes { left: &["Left"], right: &["Right"], has_sentinel: false, has_counts: false };
/// Their versions before 5.0 are unions, whose fields have numbers only.
const FSHARP_SET: Nodes<'_> =
    Nodes { left: &["left", "l", "item2"], right: &["right", "r", "item3"], ..SORTED };
const FSHARP_MAP: Nodes<'_> =
    Nodes { left: &["left", "l", "item3"], right: &["right", "r", "item4"], ..SORTED };
const IMMUTABLE: Nodes<'_> =
    Nodes { left: &["_left"], right: &["_right"], has_sentinel: true, has_counts: false };
const COUNTED: Nodes<'_> = Nodes { has_counts: true, ..IMMUTABLE };

impl Values<'_> {
    /// Visits the nodes of a tree from left to right, as long as `visit` wants more.
    fn walk(&self, root: Option<Seen>, nodes: Nodes<'_>, visit: impl FnMut(&Seen) -> Option<bool>) -> Walked {
        self.walk_on(Vec::new(), root, nodes, visit)
    }

    /// The same, of the branch `next` and then of the nodes in `path`, the last one first.
    fn walk_on(
        &self,
        mut path: Vec<Seen>,
        mut next: Option<Seen>,
        nodes: Nodes<'_>,
        mut visit: impl FnMut(&Seen) -> Option<bool>,
    ) -> Walked {
        let mut visited = 0;
        loop {
            while let Some(node) = next.take().filter(|node| !node.is_null()) {
                let left = self.any_field(&node, nodes.left);
                if nodes.has_sentinel && left.as_ref().is_none_or(Seen::is_null) {
                    break;
                }
                if path.len() > DEEPEST {
                    return Walked::Broken;
                }
                next = left;
                path.push(node);
            }
            let Some(node) = path.pop() else { return Walked::Whole };
            match visit(&node) {
                Some(true) if visited == MOST_SLOTS || Answer::is_late(visited) => return Walked::TooFar,
                Some(true) => next = self.any_field(&node, nodes.right),
                Some(false) => return Walked::Whole,
                None => return Walked::Broken,
            }
            visited += 1;
        }
    }

    /// The nodes that are left behind so many in a tree whose nodes count, the next one last.
    fn path_behind(&self, root: Seen, nodes: Nodes<'_>, mut skipped: u64) -> Option<Vec<Seen>> {
        let (mut path, mut node) = (Vec::new(), root);
        for _ in 0..=DEEPEST {
            let left = self.any_field(&node, nodes.left)?;
            let before = u64::try_from(self.integer_field(&left, &["_count"])?).ok()?;
            if skipped > before {
                skipped -= before + 1;
                node = self.any_field(&node, nodes.right)?;
                continue;
            }
            path.push(node);
            if skipped == before {
                return Some(path);
            }
            node = left;
        }
        None
    }

    /// The items of a tree, of which each node holds one.
    fn tree(
        &self,
        root: Option<Seen>,
        nodes: Nodes<'_>,
        count: u64,
        window: Window,
        part: impl Fn(&Seen, u64) -> Option<Part>,
    ) -> Items {
        self.tree_of_many(root, nodes, count, window, |_| Some(1), |node, at| Some(vec![part(node, at)?]))
    }

    /// The items of a tree, of which each node holds as many as `held` says.
    fn tree_of_many(
        &self,
        root: Option<Seen>,
        nodes: Nodes<'_>,
        count: u64,
        window: Window,
        held: impl Fn(&Seen) -> Option<u64>,
        parts: impl Fn(&Seen, u64) -> Option<Vec<Part>>,
    ) -> Items {
        let mut items = Items { count, ..Items::default() };
        if window.limit == 0 || window.offset >= count {
            return items;
        }
        let path = match &root {
            Some(root) if nodes.has_counts => self.path_behind(root.clone(), nodes, window.offset),
            _ => None,
        };
        let (path, root, mut found) = match path {
            Some(mut path) => {
                // Its left branch is behind already.
                let Some(node) = path.pop() else { return items };
                let Some(part) = parts(&node, window.offset) else { return Walked::Broken.mark(items) };
                items.read.extend(part);
                (path, self.any_field(&node, nodes.right), window.offset + 1)
            }
            None => (Vec::new(), root, 0),
        };
        let visit = |node: &Seen| {
            if (items.read.len() as u64) >= window.limit {
                return Some(false);
            }
            let held = if found < window.offset { held(node)? } else { 0 };
            if held > 0 && found + held <= window.offset {
                found += held;
                return Some(true);
            }
            for part in parts(node, found)? {
                if found >= window.offset && (items.read.len() as u64) < window.limit {
                    items.read.push(part);
                }
                found += 1;
            }
            Some((items.read.len() as u64) < window.limit)
        };
        let walked = self.walk_on(path, root, nodes, visit);
        let is_short = (items.read.len() as u64) < window.limit && found != count;
        let walked = if is_short && walked == Walked::Whole { Walked::Broken } else { walked };
        walked.mark(items)
    }

    /// A `SortedSet`, on which a `SortedDictionary` stands too.
    pub(super) fn sorted_tree(&self, seen: &Seen, window: Window, has_keys: bool) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["count"])?).ok()?;
        Some(self.tree(self.field_seen(seen, "root"), SORTED, count, window, |node, at| {
            self.item_or_pair(self.field(node, "Item")?, at, has_keys)
        }))
    }

    fn item_or_pair(&self, item: Com<Value>, at: u64, has_keys: bool) -> Option<Part> {
        if !has_keys {
            return Some(Part::new(format!("[{at}]"), Ok(item)));
        }
        let pair = self.see(&item).ok()?;
        self.pair_part(&self.field_seen(&pair, "key")?, self.field(&pair, "value")?)
    }

    /// The collections of `System.Collections.Immutable`.
    pub(super) fn immutable(&self, seen: &Seen, name: &str, window: Window) -> Option<Parts> {
        let root = || self.field_seen(seen, "_root");
        match name {
            "ImmutableArray`1" => match self.field_seen(seen, "array")?.content {
                Content::Array(array) => Some(Parts::Items(array_items(&array, window))),
                _ => None,
            },
            "ImmutableList`1" | "ImmutableSortedSet`1" => {
                let count = u64::try_from(self.integer_field(&root()?, &["_count"])?).ok()?;
                Some(Parts::Items(self.tree(root(), COUNTED, count, window, |node, at| {
                    Some(Part::new(format!("[{at}]"), Ok(self.field(node, "_key")?)))
                })))
            }
            "ImmutableSortedDictionary`2" => {
                let count = u64::try_from(self.integer_field(seen, &["_count"])?).ok()?;
                Some(Parts::Pairs(self.tree(root(), IMMUTABLE, count, window, |node, _| {
                    self.pair_part(&self.field_seen(node, "_key")?, self.field(node, "_value")?)
                })))
            }
            "ImmutableQueue`1" => self.immutable_queue(seen, window).map(Parts::Items),
            "ImmutableStack`1" => self.immutable_stack(seen, window).map(Parts::Items),
            "ImmutableDictionary`2" => self.hash_buckets(seen, window, true).map(Parts::Pairs),
            "ImmutableHashSet`1" => self.hash_buckets(seen, window, false).map(Parts::Items),
            _ => None,
        }
    }

    /// A tree of buckets by hash, of which each has one item and those that share its hash.
    fn hash_buckets(&self, seen: &Seen, window: Window, has_keys: bool) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["_count"])?).ok()?;
        let root = self.field_seen(seen, "_root");
        let held = |node: &Seen| {
            let mut held = 1;
            let more = self.field_seen(&self.field_seen(node, "_value")?, "_additionalElements");
            let walked = self.walk(more, IMMUTABLE, |_| {
                held += 1;
                Some(true)
            });
            (walked == Walked::Whole).then_some(held)
        };
        Some(self.tree_of_many(root, IMMUTABLE, count, window, held, |node, at| {
            let bucket = self.field_seen(node, "_value")?;
            let mut parts = vec![self.item_or_pair(self.field(&bucket, "_firstValue")?, at, has_keys)?];
            let more = self.field_seen(&bucket, "_additionalElements");
            let walked = self.walk(more, IMMUTABLE, |node| {
                let at = at + parts.len() as u64;
                parts.push(self.item_or_pair(self.field(node, "_key")?, at, has_keys)?);
                Some(true)
            });
            (walked == Walked::Whole).then_some(parts)
        }))
    }

    pub(super) fn linked_list(&self, seen: &Seen, window: Window) -> Option<Items> {
        let count = u64::try_from(self.integer_field(seen, &["count"])?).ok()?;
        let head = self.field_seen(seen, "head");
        Some(self.chain(head, count, window, "item", "next"))
    }

    /// The collections of F#'s own library.
    pub(super) fn fsharp_collection(&self, seen: &Seen, name: &str, window: Window) -> Option<Parts> {
        match name {
            "FSharpList`1" => self.fsharp_list(seen, window).map(Parts::Items),
            "FSharpSet`1" => {
                let item = |node: &Seen, at| {
                    Some(Part::new(format!("[{at}]"), Ok(self.any_raw(node, &["k", "item1", "item"])?)))
                };
                self.fsharp_tree(seen, FSHARP_SET, window, item).map(Parts::Items)
            }
            "FSharpMap`2" => {
                let pair = |node: &Seen, _| {
                    let key = self.any_field(node, &["k", "item1"])?;
                    self.pair_part(&key, self.any_raw(node, &["v", "item2"])?)
                };
                self.fsharp_tree(seen, FSHARP_MAP, window, pair).map(Parts::Pairs)
            }
            _ => None,
        }
    }

    /// It does not know how many it has.
    fn fsharp_tree(
        &self,
        seen: &Seen,
        nodes: Nodes<'_>,
        window: Window,
        part: impl Fn(&Seen, u64) -> Option<Part>,
    ) -> Option<Items> {
        let Content::Object(object) = &seen.content else { return None };
        // The compiler puts a line number behind the name.
        let is_tree = |name: &str| name == "tree" || name.starts_with("tree@");
        let field = self.fields(object, &seen.of).into_iter().find(|field| is_tree(&field.raw_name))?;
        let root = self.see(&field.value.ok()?).ok()?;
        let mut count = 0;
        let walked = self.walk(Some(root.clone()), nodes, |node| {
            count += 1;
            // A version whose fields have other names would look like a tree of one node.
            let is_leaf = self.any_field(node, nodes.left).is_none();
            (!is_leaf || self.integer_field(node, &["h"]).is_none_or(|height| height <= 1)).then_some(true)
        });
        Some(walked.mark(self.tree(Some(root), nodes, count, window, part)))
    }

    /// A list of F#: its end is an empty one.
    fn fsharp_list(&self, seen: &Seen, window: Window) -> Option<Items> {
        let (mut count, mut node, mut walked) = (0, Some(seen.clone()), Walked::Whole);
        let rest = |node: &Seen| self.field_seen(node, "tail").filter(|tail| !tail.is_null());
        while let Some(next) = node.as_ref().and_then(&rest) {
            if count == MOST_SLOTS || Answer::is_late(count) {
                walked = Walked::TooFar;
                break;
            }
            (count, node) = (count + 1, Some(next));
        }
        let items = self.chain(Some(seen.clone()), count, window, "head", "tail");
        Some(walked.mark(items))
    }

    /// It does not know how many it has.
    pub(super) fn concurrent_stack(&self, seen: &Seen, window: Window) -> Option<Items> {
        let head = || self.field_seen(seen, "_head");
        let (mut count, mut node, mut walked) = (0, head(), Walked::Whole);
        while let Some(current) = node.filter(|node| !node.is_null()) {
            if count == MOST_SLOTS || Answer::is_late(count) {
                walked = Walked::TooFar;
                break;
            }
            (count, node) = (count + 1, self.field_seen(&current, "_next"));
        }
        Some(walked.mark(self.chain(head(), count, window, "_value", "_next")))
    }

    /// Rings one behind the other. A slot is in use where its number is one more than its place in the order.
    pub(super) fn concurrent_queue(&self, seen: &Seen, window: Window) -> Option<Items> {
        let number = |seen: &Seen, name| i32::try_from(self.integer_field(seen, &[name])?).ok();
        let mut items = Items::default();
        let (mut next, mut segments) = (self.field_seen(seen, "_head"), 0);
        while let Some(segment) = next.filter(|segment| !segment.is_null()) {
            if segments == MOST_SEGMENTS {
                return Some(items.too_far());
            }
            segments += 1;
            let slots = self.array_field(&segment, &["_slots"])?;
            let size = i32::try_from(length(&slots)).ok()?;
            let ends = self.field_seen(&segment, "_headAndTail")?;
            let head = number(&ends, "Head")?;
            let mut used = number(&ends, "Tail")?.wrapping_sub(head);
            if used > size {
                // Nothing more is put into this one, and its end says so.
                used = used.wrapping_sub(size.wrapping_mul(2));
            }
            for place in (0..used).map(|at| head.wrapping_add(at)) {
                if items.count == MOST_SLOTS || Answer::is_late(items.count) {
                    return Some(items.too_far());
                }
                let slot = u64::try_from(place.rem_euclid(size.max(1))).ok()?;
                let slot = self.see(&element(&slots, slot).ok()?).ok()?;
                if number(&slot, "SequenceNumber")? != place.wrapping_add(1) {
                    // A thread is about to put it in or to take it out.
                    items.is_broken = true;
                    continue;
                }
                if items.count >= window.offset && (items.read.len() as u64) < window.limit {
                    items.read.push(Part::new(format!("[{}]", items.count), Ok(self.field(&slot, "Item")?)));
                }
                items.count += 1;
            }
            next = self.field_seen(&segment, "_nextSegment");
        }
        Some(items)
    }

    /// Nodes one behind the other, and what their fields are called.
    fn chain(&self, first: Option<Seen>, count: u64, window: Window, item: &str, next: &str) -> Items {
        let mut items = Items { count, ..Items::default() };
        let mut node = first;
        let end = count.min(window.offset.saturating_add(window.limit));
        // None of them is there, so none has to be reached.
        let end = if window.offset >= end { 0 } else { end };
        for at in 0..end {
            if at == MOST_SLOTS || Answer::is_late(at) {
                return items.too_far();
            }
            let Some(current) = node.filter(|node| !node.is_null()) else {
                return Walked::Broken.mark(items);
            };
            if at >= window.offset {
                let Some(item) = self.field(&current, item) else { return Walked::Broken.mark(items) };
                items.read.push(Part::new(format!("[{at}]"), Ok(item)));
            }
            node = self.field_seen(&current, next);
        }
        items
    }

    /// Buckets of chains; each lock counts what it guards.
    pub(super) fn concurrent_dictionary(&self, seen: &Seen, window: Window) -> Option<Items> {
        let tables = self.field_seen(seen, "_tables")?;
        let buckets = self.array_field(&tables, &["_buckets"])?;
        let counts = self.array_field(&tables, &["_countPerLock"])?;
        let count = |at| u64::try_from(self.see(&element(&counts, at).ok()?).ok()?.integer()?).ok();
        let count: u64 = (0..length(&counts).min(MOST_SLOTS)).map(count).sum::<Option<u64>>()?;
        let mut items = Items { count, ..Items::default() };
        if window.offset >= count {
            return Some(items);
        }
        let (mut found, mut looked_at) = (0, 0);
        for bucket in 0..length(&buckets) {
            let node = self.see(&element(&buckets, bucket).ok()?).ok()?;
            // Newer versions have a struct around each.
            let mut node = if node.is_null() { None } else { self.field_seen(&node, "_node").or(Some(node)) };
            while let Some(current) = node.filter(|node| !node.is_null()) {
                if found >= window.offset && (items.read.len() as u64) < window.limit {
                    let value = self.field(&current, "_value")?;
                    items.read.push(self.pair_part(&self.field_seen(&current, "_key")?, value)?);
                }
                (found, looked_at) = (found + 1, looked_at + 1);
                if looked_at >= MOST_SLOTS || Answer::is_late(looked_at) {
                    return Some(items.too_far());
                }
                node = self.field_seen(&current, "_next");
            }
            looked_at += 1;
            if items.read.len() as u64 >= window.limit || found >= count {
                return Some(items);
            }
            if looked_at >= MOST_SLOTS || Answer::is_late(looked_at) {
                return Some(items.too_far());
            }
        }
        items.is_broken = found != count;
        Some(items)
    }
}
