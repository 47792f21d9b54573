//! Types of Rust's standard library.

use super::{
    items::{BTree, Items},
    layout::Layout,
    place::Placed,
    shape::{ADDRESS_SPACE, List, Shape, Style, aligned, head},
    text::{Length, Text},
};
use crate::types::{Encoding, Language, Type, TypeKind, TypeRef, Types};

impl Layout<'_> {
    pub(crate) fn rust_shape(&self, placed: &Placed, found: &Type) -> Option<Shape> {
        if let Some(shape) = self.fat_pointer(placed, found) {
            return Some(shape);
        }
        match head(&found.name) {
            "alloc::string::String" => self.vector_text(&self.field(placed, "vec")?),
            "alloc::vec::Vec" => self.vector(placed),
            "std::path::PathBuf" | "std::ffi::os_str::OsString" => {
                let inner = self.field(placed, "inner")?;
                let vector =
                    self.path(&inner, &["inner", "inner"]).or_else(|| self.field(&inner, "inner"))?;
                self.vector_text(&vector)
            }
            "alloc::ffi::c_str::CString" => {
                let bytes = self.field(placed, "inner")?;
                let (address, length) = (self.pointer(&bytes)?.0, self.number_at(&bytes, &["length"])?);
                self.text_at(address, length.checked_sub(1)?)
            }
            "alloc::collections::vec_deque::VecDeque" => self.ring(placed),
            "alloc::collections::binary_heap::BinaryHeap" => self.inner(self.field(placed, "data")?),
            "alloc::collections::linked_list::LinkedList" => self.linked_list(placed),
            "std::collections::hash::map::HashMap" | "hashbrown::map::HashMap" => {
                self.hash_table(placed, Style::Map)
            }
            "std::collections::hash::set::HashSet" | "hashbrown::set::HashSet" => {
                self.hash_table(placed, Style::Set)
            }
            "alloc::collections::btree::map::BTreeMap" => self.b_tree(placed, Style::Map),
            "alloc::collections::btree::set::BTreeSet" => {
                self.b_tree(&self.field(placed, "map")?, Style::Set)
            }
            "alloc::rc::Rc" | "alloc::sync::Arc" => self.counted(placed, found, false),
            "alloc::rc::Weak" | "alloc::sync::Weak" => self.counted(placed, found, true),
            "core::cell::Cell"
            | "core::cell::UnsafeCell"
            | "core::cell::SyncUnsafeCell"
            | "core::mem::manually_drop::ManuallyDrop" => {
                let value = self.field(placed, "value")?;
                self.inner(
                    self.field(&value, "0").filter(|_| is_dangling_wrapper(self, &value)).unwrap_or(value),
                )
            }
            "core::mem::maybe_uninit::MaybeUninit" => self.inner(self.field(placed, "value")?),
            "core::cell::once::OnceCell" => self.inner(self.path(placed, &["inner", "value"])?),
            "std::sync::once_lock::OnceLock" => self.once(placed, &["value", "value"], "unset"),
            "std::sync::lazy_lock::LazyLock" => {
                self.once(placed, &["data", "value", "value"], "not made yet")
            }
            "std::sys::thread_local::native::lazy::Storage" => self.of_thread(placed, "value"),
            "std::sys::thread_local::native::eager::Storage" => self.of_thread(placed, "val"),
            "core::pin::Pin" => {
                self.inner(self.field(placed, "pointer").or_else(|| self.field(placed, "__pointer"))?)
            }
            "core::num::wrapping::Wrapping" | "core::num::saturating::Saturating" => {
                self.inner(self.field(placed, "0")?)
            }
            "core::num::nonzero::NonZero" => self.inner(self.peel(placed)),
            "core::cell::RefCell" => {
                let borrows = self.number_at(placed, &["borrow"])? as i64;
                let note = match borrows {
                    0 => None,
                    ..0 => Some("borrowed mutably".to_owned()),
                    1 => Some("borrowed".to_owned()),
                    _ => Some(format!("borrowed {borrows} times")),
                };
                Some(Shape::Inner { target: self.path(placed, &["value", "value"])?, note })
            }
            "core::time::Duration" => {
                let seconds = self.number_at(placed, &["secs"])?;
                let nanos = self.number_at(placed, &["nanos"]).filter(|nanos| *nanos < 1_000_000_000)?;
                Some(Shape::Words(format!("{:?}", std::time::Duration::new(seconds, nanos as u32))))
            }
            "std::sync::poison::mutex::Mutex" | "std::sync::mutex::Mutex" => {
                let state = self.number_at(placed, &["inner", "futex"])?;
                self.lock(placed, (state != 0).then_some("locked"))
            }
            "std::sync::poison::rwlock::RwLock" | "std::sync::rwlock::RwLock" => {
                // All bits but the two that tell of waiting threads count readers; all set: a writer.
                let state = self.number_at(placed, &["inner", "state"])? & 0x3fff_ffff;
                let held = match state {
                    0 => None,
                    0x3fff_ffff => Some("locked for writing"),
                    _ => Some("locked for reading"),
                };
                self.lock(placed, held)
            }
            "std::sync::poison::mutex::MutexGuard"
            | "std::sync::mutex::MutexGuard"
            | "std::sync::poison::rwlock::RwLockWriteGuard"
            | "std::sync::rwlock::RwLockWriteGuard" => {
                let lock = self.target(&self.field(placed, "lock")?)?;
                self.inner(self.path(&lock, &["data", "value"])?)
            }
            "std::sync::poison::rwlock::RwLockReadGuard" | "std::sync::rwlock::RwLockReadGuard" => {
                self.inner(self.target(&self.field(placed, "data")?)?)
            }
            "core::cell::Ref" | "core::cell::RefMut" => {
                self.inner(self.target(&self.field(placed, "value")?)?)
            }
            "core::sync::atomic::AtomicBool" => {
                let value = self.peel(placed);
                match self.number(&value)? {
                    0 => Some(Shape::Words("false".to_owned())),
                    1 => Some(Shape::Words("true".to_owned())),
                    _ => self.inner(value),
                }
            }
            name if name.starts_with("core::sync::atomic::Atomic") => self.inner(self.peel(placed)),
            _ => None,
        }
    }

    fn inner(&self, target: Placed) -> Option<Shape> {
        Some(Shape::Inner { target, note: None })
    }

    /// `&str`, `Box<[T]>`, `&dyn Trait` and their like.
    fn fat_pointer(&self, placed: &Placed, found: &Type) -> Option<Shape> {
        let name = found.name.as_str();
        let direct = name.starts_with(['&', '*']) || head(name) == "alloc::boxed::Box";
        if !direct {
            return None;
        }
        if let (Some(pointer), Some(vtable)) = (self.field(placed, "pointer"), self.field(placed, "vtable")) {
            let data = self.pointer(&pointer)?.0;
            return Some(self.trait_object(data, self.pointer(&vtable)?.0));
        }
        let data = self.field(placed, "data_ptr")?;
        let length = self.number_at(placed, &["length"])?;
        let (address, target) = self.pointer(&data)?;
        let is_text = |name: &str| {
            matches!(name, "std::path::Path" | "std::ffi::os_str::OsStr" | "core::ffi::c_str::CStr")
        };
        let pointee = self.types.get(target?).map(|target| target.name.clone()).unwrap_or_default();
        if is_str(name) {
            return self.text_at(address, length);
        }
        if is_text(&pointee) {
            // The length of a CStr counts the NUL.
            return self.text_at(address, length - u64::from(pointee.ends_with("CStr") && length > 0));
        }
        self.heap_run(address, self.element_of(target?), length)
    }

    /// The type of an element where the type may be that of the slice.
    fn element_of(&self, target: TypeRef) -> TypeRef {
        match self.types.real(target).map(|(_, found)| found.kind.clone()) {
            Some(TypeKind::Array { element, counts, .. }) if counts == [None] => element,
            _ => target,
        }
    }

    /// A value behind a vtable, whose symbol tells what it is.
    fn trait_object(&self, data: u64, vtable: u64) -> Shape {
        let concrete = self.behind_vtable(vtable);
        let target = concrete.as_deref().and_then(|name| self.types.named(name));
        match (target, concrete.as_deref()) {
            (Some(type_ref), Some(name)) => Shape::Inner {
                target: Placed::memory(type_ref, data),
                note: Some(format!("is {}", short_type(name))),
            },
            (None, Some(name)) => Shape::Words(format!("{data:#x} (is {})", short_type(name))),
            _ => Shape::Words(format!("{data:#x} (vtable {vtable:#x})")),
        }
    }

    /// The type that a vtable is of, by its own name or by those of the functions in it.
    fn behind_vtable(&self, vtable: u64) -> Option<String> {
        let named = |address: u64| self.types.symbol_at(address).filter(|(_, offset)| *offset == 0);
        if let Some((symbol, _)) = named(vtable)
            && let Some(name) = implementor(&symbol)
        {
            return Some(name.to_owned());
        }
        // Dropping comes first, behind it size and alignment, then the methods.
        [0, 24, 32, 40].into_iter().find_map(|at| {
            let function = self.memory.read_pointer(vtable.wrapping_add(at)).ok().filter(|&at| at != 0)?;
            let (symbol, _) = named(function)?;
            implementor(&symbol).map(str::to_owned).or_else(|| environment(&symbol))
        })
    }

    fn text_at(&self, address: u64, length: u64) -> Option<Shape> {
        self.noted_text(address, length, None)
    }

    fn noted_text(&self, address: u64, length: u64, note: Option<String>) -> Option<Shape> {
        if length >= ADDRESS_SPACE {
            return Some(Shape::Corrupt(format!("a text of {length} bytes")));
        }
        let byte = self.types.base("u8", Encoding::Unsigned, 1, Language::Rust);
        let start = Placed::memory(byte, address);
        Some(Shape::Text(Text { start, unit: 1, length: Length::Known(length), note }))
    }

    /// Address, length and capacity of a `Vec`.
    fn vector_parts(&self, vector: &Placed) -> Option<(u64, u64, u64)> {
        let buffer = self.field(vector, "buf")?;
        let buffer = self.field(&buffer, "inner").unwrap_or(buffer);
        let address = self.pointer(&self.field(&buffer, "ptr")?)?.0;
        let capacity = self.number_at(&buffer, &["cap"])?;
        Some((address, self.number_at(vector, &["len"])?, capacity))
    }

    fn vector_text(&self, vector: &Placed) -> Option<Shape> {
        let (address, length, capacity) = self.vector_parts(vector)?;
        if length > capacity {
            return Some(Shape::Corrupt(format!("length {length}, capacity {capacity}")));
        }
        self.text_at(address, length)
    }

    fn vector(&self, vector: &Placed) -> Option<Shape> {
        let (address, length, capacity) = self.vector_parts(vector)?;
        let element = self.parameter(vector, 0)?;
        // Without a size, elements take no room, so that there is none.
        if length > capacity && self.stride(element) != Some(0) {
            return Some(Shape::Corrupt(format!("length {length}, capacity {capacity}")));
        }
        self.heap_run(address, element, length)
    }

    fn ring(&self, placed: &Placed) -> Option<Shape> {
        let buffer = self.field(placed, "buf")?;
        let buffer = self.field(&buffer, "inner").unwrap_or(buffer);
        let address = self.pointer(&self.field(&buffer, "ptr")?)?.0;
        let capacity = self.number_at(&buffer, &["cap"])?;
        let (head, count) = (self.number_at(placed, &["head"])?, self.number_at(placed, &["len"])?);
        let element = self.parameter(placed, 0)?;
        let stride = self.stride(element)?;
        if stride != 0 && (count > capacity || head > capacity || capacity >= ADDRESS_SPACE) {
            return Some(Shape::Corrupt(format!("length {count}, capacity {capacity}, head {head}")));
        }
        let items = Items::Ring { buffer: address, capacity, head, element, stride };
        Some(Shape::List(List::new(count, items, Style::Sequence)))
    }

    fn linked_list(&self, placed: &Placed) -> Option<Shape> {
        let count = self.number_at(placed, &["len"])?;
        let element = self.parameter(placed, 0)?;
        let head = self.field(placed, "head")?;
        let Some(node) = self.field(&head, "0").and_then(|node| self.target(&node)) else {
            let items = Items::Given(Vec::new());
            return Some(Shape::List(List::new(0, items, Style::Sequence)));
        };
        let offset_of = |name| Some(self.field(&node, name)?.address()?.wrapping_sub(node.address()?));
        let (next, value) = (offset_of("next")?, offset_of("element")?);
        let items = Items::Chain { first: node.address()?, end: 0, next, value, element };
        Some(Shape::List(List::new(count, items, Style::Sequence)))
    }

    fn hash_table(&self, placed: &Placed, style: Style) -> Option<Shape> {
        let base = self.field(placed, "base").unwrap_or_else(|| placed.clone());
        let map = self.field(&base, "map").unwrap_or(base);
        let table = self.field(&map, "table")?;
        let raw = self.field(&table, "table").unwrap_or_else(|| table.clone());
        let element = self.parameter(&table, 0)?;
        let mask = self.number_at(&raw, &["bucket_mask"])?;
        let count = self.number_at(&raw, &["items"])?;
        let control = self.pointer(&self.field(&raw, "ctrl")?)?.0;
        if !mask.wrapping_add(1).is_power_of_two() || count > mask.saturating_add(1) || mask >= ADDRESS_SPACE
        {
            return Some(Shape::Corrupt(format!("{count} items, bucket mask {mask:#x}")));
        }
        let stride = self.stride(element)?;
        // The table of a set has pairs of the element and nothing, as large as the element.
        let element = if style == Style::Set { self.parameter(placed, 0)? } else { element };
        let items = Items::Swiss { control, buckets: mask + 1, element, stride };
        Some(Shape::List(List::new(count, items, style)))
    }

    fn b_tree(&self, map: &Placed, style: Style) -> Option<Shape> {
        let count = self.number_at(map, &["length"])?;
        if count == 0 {
            let items = Items::Given(Vec::new());
            return Some(Shape::List(List::new(count, items, style)));
        }
        let root = self.field(&self.field(map, "root")?, "0")?;
        let leaf = self.target(&self.field(&root, "node")?)?;
        let internal_type = {
            let parent = self.field(&leaf, "parent")?;
            self.parent_type(&parent)?
        };
        let internal = Placed::memory(internal_type, leaf.address()?);
        let offset_of =
            |outer: &Placed, name| Some(self.field(outer, name)?.address()?.wrapping_sub(outer.address()?));
        let (key, value) = (self.parameter(map, 0)?, self.parameter(map, 1)?);
        let tree = BTree {
            root: leaf.address()?,
            height: self.number_at(&root, &["height"])?,
            length_at: offset_of(&leaf, "len")?,
            keys_at: offset_of(&leaf, "keys")?,
            values_at: offset_of(&leaf, "vals")?,
            edges_at: offset_of(&internal, "edges")?,
            key,
            value,
            key_stride: self.stride(key)?,
            value_stride: self.stride(value)?,
        };
        Some(Shape::List(List::new(count, Items::BTree(Box::new(tree)), style)))
    }

    /// What `Option<NonNull<InternalNode>>` points to, whether it is `Some` or not.
    fn parent_type(&self, parent: &Placed) -> Option<TypeRef> {
        let (_, found) = self.real(parent)?;
        let TypeKind::Struct(structure) = &found.kind else { return None };
        let cases = structure.variants.iter().flat_map(|part| &part.variants);
        let payloads = cases.flat_map(|case| &case.members).map(|member| self.member(parent, member));
        payloads.filter_map(|payload| self.field(&payload, "0")).find_map(|some| {
            let (_, pointer) = self.real(&self.peel(&some))?;
            match pointer.kind {
                TypeKind::Pointer { target, .. } => target,
                _ => None,
            }
        })
    }

    fn counted(&self, placed: &Placed, found: &Type, weak: bool) -> Option<Shape> {
        let fat = self.peel(&self.field(placed, "ptr")?);
        let (address, target) = self.pointer(&fat)?;
        if weak && address == u64::MAX {
            return Some(Shape::Words("Weak (of nothing)".to_owned()));
        }
        let shared = Placed::memory(target?, address);
        let strong = self.number_at(&shared, &["strong"])?;
        // All strong ones together hold one weak one.
        let weaks = self.number_at(&shared, &["weak"])?.saturating_sub(u64::from(strong > 0));
        let counts = format!("strong {strong}, weak {weaks}");
        if strong == 0 {
            return Some(Shape::Words(format!("dropped ({counts})")));
        }
        let value = self.field(&shared, "value").or_else(|| self.field(&shared, "data"));
        let note = Some(counts.clone());
        if let Some(vtable) = self.field(&fat, "vtable") {
            return self.counted_trait_object(address, self.pointer(&vtable)?.0, counts);
        }
        let value = value?;
        let Some(length) = self.number_at(&fat, &["length"]) else {
            return Some(Shape::Inner { target: value, note });
        };
        if is_str(&found.name) {
            return self.noted_text(value.address()?, length, note);
        }
        let element = self.element_of(value.type_ref);
        let array = self.types.array_of(element, &[Some(length)], Language::Rust);
        Some(Shape::Inner { target: value.retyped(array), note })
    }

    /// Behind the two counts, as its alignment demands.
    fn counted_trait_object(&self, address: u64, vtable: u64, counts: String) -> Option<Shape> {
        let alignment = self.memory.read_uint(vtable.wrapping_add(16), 8).ok()?;
        if !alignment.is_power_of_two() || alignment > 4096 {
            return None;
        }
        Some(match self.trait_object(address.wrapping_add(aligned(16, alignment)), vtable) {
            Shape::Inner { target, note } => {
                let note = note.map_or(counts.clone(), |note| format!("{note}, {counts}"));
                Shape::Inner { target, note: Some(note) }
            }
            other => other,
        })
    }

    /// What is made when it is first needed: until then its bytes mean nothing.
    fn once(&self, placed: &Placed, value: &[&str], unset: &str) -> Option<Shape> {
        let state = self.number_at(placed, &["once", "inner", "state_and_queued"]);
        let reached = match state {
            Some(state) => OnceState::with_queue(state, &self.types.producer(placed.type_ref)?),
            None => OnceState::of(self.number_at(placed, &["once", "inner", "state"])?),
        };
        let words = match reached {
            Some(OnceState::Complete) => return self.inner(self.path(placed, value)?),
            Some(OnceState::Incomplete) => unset.to_owned(),
            Some(OnceState::Poisoned) => format!("{unset} (what was to make it panicked)"),
            Some(OnceState::Running) => format!("{unset} (being made)"),
            None => "set or unset (its state is none that is known of this version of Rust)".to_owned(),
        };
        Some(Shape::Words(words))
    }

    /// A variable of `thread_local!` that is made when a thread first needs it, or has to be dropped with the thread.
    fn of_thread(&self, placed: &Placed, value: &str) -> Option<Shape> {
        let state = self.peel(&self.field(placed, "state")?);
        let (_, found) = self.real(&state)?;
        let named = match &found.kind {
            TypeKind::Struct(structure) => self.active_case(&state, structure)?.0,
            TypeKind::Enum { enumerators, .. } => {
                let number = i128::from(self.number(&state)?);
                enumerators.iter().find(|(_, known)| *known == number)?.0.clone()
            }
            _ => return None,
        };
        match (&*named, value) {
            ("Alive", _) | ("Initial", "val") => self.inner(self.path(placed, &[value, "value"])?),
            ("Initial" | "Uninitialized", _) => Some(Shape::Words("not made yet in this thread".to_owned())),
            (state, _) => Some(Shape::Words(format!("not there in this thread any more ({state})"))),
        }
    }

    fn lock(&self, placed: &Placed, held: Option<&str>) -> Option<Shape> {
        let poisoned = self.number_at(placed, &["poison", "failed"]).unwrap_or_default() != 0;
        let note = match (held, poisoned) {
            (None, false) => None,
            (Some(held), false) => Some(held.to_owned()),
            (None, true) => Some("poisoned".to_owned()),
            (Some(held), true) => Some(format!("{held}, poisoned")),
        };
        Some(Shape::Inner { target: self.path(placed, &["data", "value"])?, note })
    }
}

/// How far `std::sync::Once` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OnceState {
    Incomplete,
    Poisoned,
    Running,
    Complete,
}

impl OnceState {
    /// The state alone, as older versions have it.
    fn of(state: u64) -> Option<Self> {
        match state {
            0 => Some(Self::Incomplete),
            1 => Some(Self::Poisoned),
            // Somebody waits for the second.
            2 | 3 => Some(Self::Running),
            4 => Some(Self::Complete),
            _ => None,
        }
    }

    /// The state with a bit that says that somebody waits. What the numbers mean was turned round once.
    fn with_queue(state: u64, producer: &str) -> Option<Self> {
        const QUEUED: u64 = 4;
        const LAST_TO_BEGIN_WITH_ZERO: u32 = 89;
        let version = producer.split_once("rustc version 1.")?.1.split('.').next()?.parse::<u32>().ok()?;
        let ascending = [Self::Incomplete, Self::Poisoned, Self::Running, Self::Complete];
        let place = usize::try_from(state & !QUEUED).ok().filter(|place| *place < ascending.len())?;
        Some(if version <= LAST_TO_BEGIN_WITH_ZERO { ascending[place] } else { ascending[3 - place] })
    }
}

fn is_dangling_wrapper(layout: &Layout<'_>, value: &Placed) -> bool {
    layout.real(value).is_some_and(|(_, found)| head(&found.name).ends_with("::MaybeDangling"))
}

/// Whether a pointer is to `str`, by its name.
fn is_str(name: &str) -> bool {
    let pointer = name.trim_start_matches(['&', '*']);
    let pointer = pointer.trim_start_matches("mut ").trim_start_matches("const ");
    pointer == "str"
        || name
            .split_once('<')
            .is_some_and(|(_, arguments)| arguments.starts_with("str,") || arguments.starts_with("str>"))
}

/// `T` of `<T as Trait>::{vtable}` or of another name inside it, and of `drop_in_place<T>`.
fn implementor(symbol: &str) -> Option<&str> {
    if let Some((_, dropped)) = symbol.split_once("ptr::drop_in_place") {
        return dropped.trim_start_matches("::").strip_prefix('<')?.strip_suffix('>');
    }
    let inside = symbol.strip_prefix('<')?;
    let mut depth = 0;
    for (at, byte) in inside.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            // The arrow of a function type is no bracket.
            b'>' if at > 0 && inside.as_bytes()[at - 1] == b'-' => {}
            b'>' | b')' | b']' | b'}' => depth -= 1,
            b' ' if depth == 0 && inside[at..].starts_with(" as ") => return Some(&inside[..at]),
            _ => {}
        }
    }
    None
}

/// The type of a closure's captures, by the symbol of its code. The old mangling does not say which
/// closure of a function it is.
fn environment(symbol: &str) -> Option<String> {
    let (function, number) = symbol.rsplit_once("::{closure#")?;
    number.strip_suffix('}').map(|number| format!("{function}::{{closure_env#{number}}}"))
}

/// The last part of a path, with its arguments.
pub(crate) fn short_type(name: &str) -> &str {
    let plain = head(name);
    match plain.rfind("::") {
        Some(at) if !name.starts_with(['<', '(', '[', '&', '*']) => &name[at + 2..],
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vtable_tells_what_it_is_of() {
        assert_eq!(implementor("<i32 as core::fmt::Debug>::{vtable}"), Some("i32"));
        assert_eq!(implementor("<a::S<<T as X>::Y> as a::Shape>::{vtable}"), Some("a::S<<T as X>::Y>"));
        assert_eq!(implementor("<fn(i32) -> i32 as a::T>::{vtable}"), Some("fn(i32) -> i32"));
        assert_eq!(implementor("<a::Circle as a::Shape>::area"), Some("a::Circle"));
        assert_eq!(
            implementor("core::ptr::drop_in_place::<alloc::vec::Vec<u8>>"),
            Some("alloc::vec::Vec<u8>")
        );
        assert_eq!(implementor("main"), None);
        assert_eq!(environment("a::f::{closure#2}").as_deref(), Some("a::f::{closure_env#2}"));
        assert_eq!(short_type("a::b::C<d::E>"), "C<d::E>");
    }

    #[test]
    fn pointers_to_str_go_by_their_name() {
        for name in ["&str", "&mut str", "*const str", "alloc::boxed::Box<str, alloc::alloc::Global>"] {
            assert!(is_str(name), "{name}");
        }
        for name in ["&[u8]", "&std::path::Path", "alloc::vec::Vec<u8>"] {
            assert!(!is_str(name), "{name}");
        }
    }
}
