//! Types that no compiler makes: random graphs of them, over random memory.

use std::{sync::Arc, time::Instant};

use hindcast_core::debug::{NumberFormat, ValueLimits};
use hindcast_symbols::{
    Memory, Unreadable,
    types::*,
    value::{DerivedTypes, Inspector, Placed},
};

struct Graph(Vec<Arc<Type>>);

impl Types for Graph {
    fn get(&self, type_ref: TypeRef) -> Option<Arc<Type>> {
        self.0.get(type_ref.entry as usize).cloned()
    }

    fn named(&self, name: &str) -> Option<TypeRef> {
        let entry = self.0.iter().position(|known| known.name == name)?;
        Some(TypeRef { module: ModuleId(0), entry: entry as u64 })
    }

    fn symbol_at(&self, address: u64) -> Option<(String, u64)> {
        let name = match address % 4 {
            0 => "<a::T as a::Trait>::{vtable}",
            1 => "vtable for T",
            2 => "std::_Function_handler<int (int), T>::_M_invoke",
            _ => return None,
        };
        Some((name.to_owned(), address % 3))
    }

    fn producer(&self, type_ref: TypeRef) -> Option<String> {
        type_ref.entry.is_multiple_of(2).then(|| format!("rustc version 1.{}.0", type_ref.entry))
    }
}

/// Small numbers, so that pointers and lengths make sense now and then.
struct Small(u64);

impl Memory for Small {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            let word = (at / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ self.0;
            let word = if word & 1 == 0 { word >> 50 } else { word >> (word % 64) };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % end
    }

    fn pick<'t>(&mut self, from: &[&'t str]) -> &'t str {
        from[self.below(from.len() as u64) as usize]
    }

    fn type_ref(&mut self) -> TypeRef {
        TypeRef { module: ModuleId(0), entry: self.below(COUNT + 1) }
    }

    fn maybe_type(&mut self) -> Option<TypeRef> {
        (self.below(8) > 0).then(|| self.type_ref())
    }

    fn extreme(&mut self) -> u64 {
        match self.below(12) {
            0 => u64::MAX,
            1 => 1 << 47,
            2 => u64::MAX - 7,
            _ => self.below(40),
        }
    }

    fn member(&mut self) -> Member {
        Member {
            name: (self.below(5) > 0).then(|| self.pick(&FIELDS).to_owned()),
            type_ref: self.type_ref(),
            offset: self.extreme(),
            bits: (self.below(6) == 0).then(|| (self.extreme(), self.extreme())),
            artificial: self.below(8) == 0,
        }
    }

    fn members(&mut self) -> Vec<Member> {
        (0..self.below(6)).map(|_| self.member()).collect()
    }

    fn structure(&mut self) -> StructType {
        let bases = (0..self.below(3)).map(|_| Base {
            type_ref: self.type_ref(),
            offset: (self.below(4) > 0).then(|| self.below(16)),
            vtable_offset: (self.below(2) > 0).then_some(-24),
        });
        let bases = bases.collect();
        let variants = (self.below(4) == 0).then(|| VariantPart {
            discriminant: (self.below(4) > 0).then(|| self.member()),
            variants: (0..self.below(4))
                .map(|case| Variant {
                    values: if self.below(3) > 0 {
                        vec![i128::from(case)..=i128::from(case)]
                    } else {
                        Vec::new()
                    },
                    members: self.members(),
                })
                .collect(),
        });
        StructType {
            flavour: StructFlavour::Struct,
            bases,
            members: self.members(),
            statics: Vec::new(),
            parameters: (0..3)
                .map(|_| TemplateParameter {
                    name: None,
                    type_ref: self.maybe_type(),
                    value: Some(i128::from(self.extreme())),
                })
                .collect(),
            variants,
        }
    }

    fn kind(&mut self) -> TypeKind {
        match self.below(12) {
            0 => TypeKind::Base(Encoding::Signed),
            1 => TypeKind::Base(
                [
                    Encoding::Boolean,
                    Encoding::Float,
                    Encoding::SignedChar,
                    Encoding::Utf,
                    Encoding::ComplexFloat,
                ][self.below(5) as usize],
            ),
            2 | 3 => TypeKind::Pointer {
                target: self.maybe_type(),
                flavour: if self.below(3) == 0 { PointerFlavour::Reference } else { PointerFlavour::Pointer },
            },
            4 => TypeKind::Alias { target: self.maybe_type(), flavour: AliasFlavour::Typedef },
            5 => TypeKind::Array {
                element: self.type_ref(),
                counts: (0..self.below(3)).map(|_| (self.below(5) > 0).then(|| self.extreme())).collect(),
                vector: false,
            },
            6 => TypeKind::Enum {
                underlying: self.maybe_type(),
                enumerators: vec![("A".to_owned(), -1), ("B".to_owned(), 4)],
            },
            7 => TypeKind::MemberPointer { target: self.maybe_type() },
            8 => TypeKind::Function { returns: self.maybe_type(), parameters: vec![self.type_ref()] },
            _ => TypeKind::Struct(Box::new(self.structure())),
        }
    }
}

const COUNT: u64 = 10;

const NAMES: [&str; 40] = [
    "",
    "T",
    "a::T",
    "&T",
    "&str",
    "(u8, u8)",
    "alloc::vec::Vec<T>",
    "alloc::string::String",
    "alloc::rc::Rc<T>",
    "alloc::rc::Weak<T>",
    "alloc::boxed::Box<T>",
    "alloc::collections::btree::map::BTreeMap<K, V>",
    "std::collections::hash::map::HashMap<K, V>",
    "std::collections::hash::set::HashSet<K>",
    "alloc::collections::vec_deque::VecDeque<T>",
    "alloc::collections::linked_list::LinkedList<T>",
    "core::cell::RefCell<T>",
    "core::cell::Cell<T>",
    "core::time::Duration",
    "std::sync::poison::mutex::Mutex<T>",
    "core::sync::atomic::AtomicU8",
    "core::num::nonzero::NonZero<T>",
    "std::vector<T>",
    "std::deque<T>",
    "std::__cxx11::list<T>",
    "std::forward_list<T>",
    "std::map<K, V>",
    "std::set<K>",
    "std::unordered_map<K, V>",
    "std::__cxx11::basic_string<char>",
    "std::optional<T>",
    "std::variant<T>",
    "std::tuple<T>",
    "std::_Tuple_impl<0>",
    "std::_Head_base<0>",
    "std::unique_ptr<T>",
    "std::shared_ptr<T>",
    "std::bitset<9>",
    "std::span<T>",
    "char",
];

const FIELDS: [&str; 52] = [
    "x",
    "__0",
    "__1",
    "buf",
    "inner",
    "ptr",
    "pointer",
    "cap",
    "len",
    "vec",
    "head",
    "length",
    "data_ptr",
    "vtable",
    "base",
    "map",
    "table",
    "ctrl",
    "bucket_mask",
    "items",
    "root",
    "node",
    "height",
    "keys",
    "vals",
    "parent",
    "edges",
    "strong",
    "weak",
    "value",
    "borrow",
    "data",
    "_vptr.T",
    "_M_impl",
    "_M_start",
    "_M_finish",
    "_M_end_of_storage",
    "_M_p",
    "_M_offset",
    "_M_node",
    "_M_next",
    "_M_size",
    "_M_t",
    "_M_header",
    "_M_left",
    "_M_node_count",
    "_M_h",
    "_M_cur",
    "_M_first",
    "_M_index",
    "_M_u",
    "_M_payload",
];

#[test]
fn random_types_neither_panic_nor_hang() {
    let started = Instant::now();
    for seed in 0..3000 {
        let mut random = Random(seed);
        let types = (0..COUNT).map(|_| {
            let language = [Language::C, Language::Cpp, Language::Rust][random.below(3) as usize];
            let kind = random.kind();
            let size = (random.below(6) > 0).then(|| random.extreme());
            Arc::new(Type { name: random.pick(&NAMES).to_owned(), size, language, kind })
        });
        let graph = Graph(types.collect());
        let derived = DerivedTypes::new(&graph);
        let memory = Small(seed);
        let limits = ValueLimits { depth: 2, children: 5, offset: 0, text: 80 };
        let inspector = Inspector::new(&derived, &memory, limits, NumberFormat::Auto);
        for entry in 0..COUNT {
            let type_ref = TypeRef { module: ModuleId(0), entry };
            let shown = inspector.show("it", &Placed::memory(type_ref, 0x1000));
            // Names of types may be long; lines are not.
            assert!(shown.value.len() < 4000, "{}", shown.value);
            inspector.show("it", &Placed::computed(type_ref, [7; 24]));
        }
    }
    assert!(started.elapsed().as_secs() < 120, "{:?}", started.elapsed());
}
