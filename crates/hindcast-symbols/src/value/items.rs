//! The elements of containers, found one by one: nothing is read but what is asked for.

use super::shape::{List, Style};
use super::{layout::Layout, place::Placed};
use crate::types::{Encoding, Language, TypeRef};

/// How many nodes are followed to get to the ones that were asked for.
const LONGEST_WALK: u64 = 200_000;
/// How many elements are gone through, where all of them are asked for.
pub(crate) const MOST_ELEMENTS: u64 = 1 << 22;

/// How much memory is looked at to see whether elements repeat, in bytes.
const LONGEST_REPETITION: u64 = 1 << 20;

/// How deep a tree may be: balanced ones of 2^64 elements are not deeper.
const DEEPEST_TREE: u32 = 128;

/// An element, or a key with its value.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) key: Option<Placed>,
    pub(crate) value: Placed,
}

impl Item {
    fn whole(element: TypeRef, address: u64) -> Self {
        Self { key: None, value: Placed::memory(element, address) }
    }
}

/// Some elements, and why there are not all that were asked for.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) items: Vec<Item>,
    pub(crate) broken: Option<String>,
}

/// Where the elements of a container are.
#[derive(Debug, Clone)]
pub(crate) enum Items {
    /// One after the other.
    Run { first: Placed, element: TypeRef, stride: u64 },
    /// One after the other in a buffer that continues at its beginning.
    Ring { buffer: u64, capacity: u64, head: u64, element: TypeRef, stride: u64 },
    /// In blocks of equal size, whose addresses stand one after the other.
    Blocks { directory: u64, skipped: u64, per_block: u64, element: TypeRef, stride: u64 },
    /// Single bits.
    Bits { first: Placed, skipped: u64 },
    /// Nodes that begin with the address of the next.
    Chain { first: u64, end: u64, next: u64, value: u64, element: TypeRef },
    /// Nodes of the C++ library's red-black tree, from the leftmost on.
    RedBlack { leftmost: u64, header: u64, value: u64, element: TypeRef },
    /// A hash table with a control byte for every slot, the slots before the control bytes.
    Swiss { control: u64, buckets: u64, element: TypeRef, stride: u64 },
    /// A B-tree as Rust's library has it.
    BTree(Box<BTree>),
    /// Known one by one.
    Given(Vec<Placed>),
}

impl Items {
    /// The first element, the type and the size of each, where they stand one after the other.
    pub(crate) fn run(&self) -> Option<(Placed, TypeRef, u64)> {
        match self {
            Self::Run { first, element, stride } => Some((first.clone(), *element, *stride)),
            _ => None,
        }
    }
}

/// Where things are in the nodes of a B-tree.
#[derive(Debug, Clone)]
pub(crate) struct BTree {
    pub(crate) root: u64,
    pub(crate) height: u64,
    pub(crate) length_at: u64,
    pub(crate) keys_at: u64,
    pub(crate) values_at: u64,
    pub(crate) edges_at: u64,
    pub(crate) key: TypeRef,
    pub(crate) value: TypeRef,
    pub(crate) key_stride: u64,
    pub(crate) value_stride: u64,
}

/// Elements as they are passed on the way.
struct Walk<'t> {
    skip: u64,
    wanted: u64,
    steps: u64,
    most_steps: u64,
    /// Takes an element; whether it wants more.
    take: &'t mut dyn FnMut(Item) -> bool,
    broken: Option<String>,
}

impl Walk<'_> {
    /// Takes an element; whether to go on.
    fn pass(&mut self, item: impl FnOnce() -> Item) -> bool {
        self.steps += 1;
        if self.steps > self.most_steps {
            return self.stop("too many elements to follow");
        }
        if self.skip > 0 {
            self.skip -= 1;
        } else {
            self.wanted = if (self.take)(item()) { self.wanted - 1 } else { 0 };
        }
        self.wanted > 0
    }

    fn stop(&mut self, why: impl Into<String>) -> bool {
        self.broken = Some(why.into());
        false
    }
}

impl Layout<'_> {
    /// How many elements from this one on have the same bytes, where they stand one after the other.
    pub(crate) fn alike(&self, list: &List, index: u64) -> u64 {
        let Items::Run { first, stride, .. } = &list.items else { return 1 };
        let Some(start) = first.address().filter(|_| *stride > 0 && index < list.count) else { return 1 };
        let size = *stride as usize;
        let most = (list.count - index).min(LONGEST_REPETITION / stride);
        let mut alike = 0;
        let mut wanted = Vec::new();
        // Most elements differ from the next one: little is read at first.
        let mut piece = 8;
        while alike < most {
            let count = piece.min(most - alike);
            let mut bytes = vec![0; count as usize * size];
            let at = start.wrapping_add((index + alike).wrapping_mul(*stride));
            if self.memory.read(at, &mut bytes).is_err() {
                break;
            }
            if wanted.is_empty() {
                wanted = bytes[..size].to_vec();
            }
            let same = bytes.chunks_exact(size).take_while(|element| *element == wanted).count() as u64;
            alike += same;
            if same < count {
                break;
            }
            piece = (piece * 8).min(8192);
        }
        alike.max(1)
    }

    /// The elements from `offset` on, at most `limit`, and not more than the container says it has.
    pub(crate) fn fetch(&self, list: &List, offset: u64, limit: u64) -> Fetched {
        let mut items = Vec::new();
        let mut take = |item| {
            items.push(self.as_shown(list.style, item));
            true
        };
        let broken = self.walk(list, (offset, limit), LONGEST_WALK, &mut take);
        Fetched { items, broken }
    }

    /// Goes through all elements until `take` wants no more. Says why there are fewer than the container says it has.
    pub(crate) fn each(&self, list: &List, take: &mut dyn FnMut(Item) -> bool) -> Option<String> {
        let mut take = |item| take(self.as_shown(list.style, item));
        self.walk(list, (0, list.count), MOST_ELEMENTS, &mut take)
    }

    /// Splits the entry of a map into key and value, and makes the key of a set its element.
    fn as_shown(&self, style: Style, item: Item) -> Item {
        match (style, item.key) {
            (Style::Map, None) => {
                let named =
                    |first, second| Some((self.field(&item.value, first)?, self.field(&item.value, second)?));
                match named("first", "second").or_else(|| named("0", "1")) {
                    Some((key, value)) => Item { key: Some(key), value },
                    None => Item { key: None, value: item.value },
                }
            }
            (Style::Set, Some(key)) => Item { key: None, value: key },
            (_, key) => Item { key, value: item.value },
        }
    }

    fn walk(
        &self,
        list: &List,
        (offset, limit): (u64, u64),
        most_steps: u64,
        take: &mut dyn FnMut(Item) -> bool,
    ) -> Option<String> {
        let wanted = list.count.saturating_sub(offset).min(limit);
        if wanted == 0 {
            return None;
        }
        let mut walk = Walk { skip: offset, wanted, steps: 0, most_steps, take, broken: None };
        match &list.items {
            Items::Chain { first, end, next, value, element } => {
                self.walk_chain(*first, *end, *next, *value, *element, &mut walk);
            }
            Items::RedBlack { leftmost, header, value, element } => {
                self.walk_red_black(*leftmost, *header, *value, *element, &mut walk);
            }
            Items::Swiss { control, buckets, element, stride } => {
                self.walk_swiss(*control, *buckets, *element, *stride, &mut walk);
            }
            Items::BTree(tree) => {
                self.walk_b_tree(tree, tree.root, tree.height, &mut walk);
            }
            items => {
                walk.skip = 0;
                for index in offset..offset + wanted {
                    let goes_on = match self.item_at(items, index) {
                        Some(value) => walk.pass(|| Item { key: None, value }),
                        None => walk.stop("the rest cannot be read"),
                    };
                    if !goes_on {
                        break;
                    }
                }
            }
        }
        if walk.wanted > 0 && walk.broken.is_none() {
            walk.stop("fewer elements than it says");
        }
        walk.broken
    }

    /// An element of a container that has them in a known place.
    fn item_at(&self, items: &Items, index: u64) -> Option<Placed> {
        match items {
            Items::Run { first, element, stride } => {
                Some(first.part(index.checked_mul(*stride)?, *element, Some(*stride)))
            }
            Items::Ring { buffer, capacity, head, element, stride } => {
                let at = head.checked_add(index)?;
                let at = if at >= *capacity && *capacity > 0 { at - capacity } else { at };
                Some(Placed::memory(*element, buffer.wrapping_add(at.checked_mul(*stride)?)))
            }
            Items::Blocks { directory, skipped, per_block, element, stride } => {
                let at = index.checked_add(*skipped)?;
                let entry = directory.wrapping_add((at / per_block).checked_mul(8)?);
                let block = self.memory.read_pointer(entry).ok()?;
                Some(Placed::memory(*element, block.wrapping_add((at % per_block).wrapping_mul(*stride))))
            }
            Items::Bits { first, skipped } => {
                let at = index.checked_add(*skipped)?;
                let byte = self.bytes(&first.part(at / 8, first.type_ref, None), 1).ok()?;
                let truth = self.types.base("bool", Encoding::Boolean, 1, Language::Cpp);
                Some(Placed::computed(truth, [byte[0] >> (at % 8) & 1]))
            }
            Items::Given(placed) => placed.get(usize::try_from(index).ok()?).cloned(),
            _ => None,
        }
    }

    fn walk_chain(&self, first: u64, end: u64, next: u64, value: u64, element: TypeRef, walk: &mut Walk<'_>) {
        let mut node = first;
        while node != 0 && node != end {
            let following = match self.memory.read_pointer(node.wrapping_add(next)) {
                Ok(following) => following,
                Err(unreadable) => {
                    walk.stop(unreadable.to_string());
                    return;
                }
            };
            let at = node.wrapping_add(value);
            if !walk.pass(|| Item::whole(element, at)) {
                return;
            }
            node = following;
        }
    }

    fn walk_red_black(&self, leftmost: u64, header: u64, value: u64, element: TypeRef, walk: &mut Walk<'_>) {
        let mut node = leftmost;
        while node != 0 && node != header {
            let at = node.wrapping_add(value);
            if !walk.pass(|| Item::whole(element, at)) {
                return;
            }
            node = match self.next_in_order(node, header) {
                Some(next) => next,
                None => {
                    walk.stop("the tree is broken");
                    return;
                }
            };
        }
    }

    /// The node behind `node`: color, parent, left, right are eight bytes each.
    fn next_in_order(&self, node: u64, header: u64) -> Option<u64> {
        let read = |node: u64, at: u64| self.memory.read_pointer(node.wrapping_add(at)).ok();
        let mut at = read(node, 24)?;
        if at != 0 {
            for _ in 0..DEEPEST_TREE {
                match read(at, 16)? {
                    0 => return Some(at),
                    left => at = left,
                }
            }
            return None;
        }
        let mut below = node;
        at = read(node, 8)?;
        for _ in 0..DEEPEST_TREE {
            if at == header || read(at, 24)? != below {
                return Some(at);
            }
            below = at;
            at = read(at, 8)?;
        }
        None
    }

    fn walk_swiss(&self, control: u64, buckets: u64, element: TypeRef, stride: u64, walk: &mut Walk<'_>) {
        const STEP: u64 = 1024;
        let mut index = 0;
        while index < buckets {
            let count = (buckets - index).min(STEP);
            let mut group = vec![0; count as usize];
            if let Err(unreadable) = self.memory.read(control.wrapping_add(index), &mut group) {
                walk.stop(unreadable.to_string());
                return;
            }
            for (at, byte) in group.iter().enumerate() {
                // The highest bit is set for slots that are empty or deleted.
                if byte & 0x80 != 0 {
                    continue;
                }
                let slot = control.wrapping_sub((index + at as u64 + 1).wrapping_mul(stride));
                if !walk.pass(|| Item::whole(element, slot)) {
                    return;
                }
            }
            index += count;
            // A table this empty and large is not one that a program made.
            walk.steps += count / 64;
            if walk.steps > walk.most_steps {
                walk.stop("too many empty slots to follow");
                return;
            }
        }
    }

    fn walk_b_tree(&self, tree: &BTree, node: u64, height: u64, walk: &mut Walk<'_>) -> bool {
        if height > 20 {
            return walk.stop("the tree is too deep to be one");
        }
        let length = match self.memory.read_uint(node.wrapping_add(tree.length_at), 2) {
            Ok(length @ ..=11) => length,
            Ok(length) => return walk.stop(format!("a node of the tree says it has {length} keys")),
            Err(unreadable) => return walk.stop(unreadable.to_string()),
        };
        let child = |index: u64, walk: &mut Walk<'_>| {
            if height == 0 {
                return true;
            }
            match self.memory.read_pointer(node.wrapping_add(tree.edges_at).wrapping_add(8 * index)) {
                Ok(below) => self.walk_b_tree(tree, below, height - 1, walk),
                Err(unreadable) => walk.stop(unreadable.to_string()),
            }
        };
        for index in 0..length {
            if !child(index, walk) {
                return false;
            }
            let key = node.wrapping_add(tree.keys_at).wrapping_add(index.wrapping_mul(tree.key_stride));
            let value = node.wrapping_add(tree.values_at).wrapping_add(index.wrapping_mul(tree.value_stride));
            let item = || Item {
                key: Some(Placed::memory(tree.key, key)),
                value: Placed::memory(tree.value, value),
            };
            if !walk.pass(item) {
                return false;
            }
        }
        child(length, walk)
    }
}
