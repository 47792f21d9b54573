//! Parts of values: paging, depth, cycles, and memory that is not as it should be.

use std::{cell::Cell, sync::OnceLock};

use hindcast_core::debug::{ValueLimits, ValueState, Variable};
use hindcast_fixtures::{Built, Fixture};
use hindcast_symbols::{
    Memory, Unreadable,
    expression::{Evaluated, Scope},
    value::{Placed, Storage},
};

use crate::{core_image::CoreImage, support, values::Globals};

/// Memory with some bytes replaced, that counts what is read.
struct Patched<'a> {
    image: &'a CoreImage,
    patches: Vec<(u64, Vec<u8>)>,
    read: Cell<usize>,
}

impl Memory for Patched<'_> {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        self.read.set(self.read.get() + buffer.len());
        self.image.read(address, buffer)?;
        for (start, bytes) in &self.patches {
            for (index, byte) in bytes.iter().enumerate() {
                let at = (start + index as u64).wrapping_sub(address);
                if let Some(slot) = usize::try_from(at).ok().and_then(|at| buffer.get_mut(at)) {
                    *slot = *byte;
                }
            }
        }
        Ok(())
    }
}

/// Random bytes everywhere, and holes.
struct Noise(u64);

impl Memory for Noise {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        for (index, byte) in buffer.iter_mut().enumerate() {
            let at = address.wrapping_add(index as u64);
            let mut hash = ((at / 8) ^ self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 29;
            hash = hash.wrapping_mul(0xbf58_476d_1ce4_e5b9);
            hash ^= hash >> 32;
            if hash.is_multiple_of(61) {
                return Err(Unreadable(at));
            }
            // Small numbers and plausible pointers are more trouble than large ones.
            let word = match hash >> 8 & 3 {
                0 => hash >> 58,
                1 => hash & 0x007f_ffff_fff8,
                2 => 0,
                _ => hash,
            };
            *byte = word.to_le_bytes()[(at % 8) as usize];
        }
        Ok(())
    }
}

struct Program {
    built: Built,
    image: CoreImage,
}

fn program(cell: &'static OnceLock<Program>, fixture: impl Fn() -> Fixture) -> &'static Program {
    cell.get_or_init(|| {
        let built = fixture().build();
        let image = CoreImage::of(&built.path);
        Program { built, image }
    })
}

fn c() -> &'static Program {
    static CELL: OnceLock<Program> = OnceLock::new();
    program(&CELL, || Fixture::c("values"))
}

fn cpp() -> &'static Program {
    static CELL: OnceLock<Program> = OnceLock::new();
    program(&CELL, || Fixture::cpp("values"))
}

fn rust() -> &'static Program {
    static CELL: OnceLock<Program> = OnceLock::new();
    program(&CELL, || Fixture::rust("values"))
}

impl Program {
    fn with<T>(
        &self,
        patches: Vec<(u64, Vec<u8>)>,
        check: impl FnOnce(&Globals<'_>, &Patched<'_>) -> T,
    ) -> T {
        let symbols = support::loaded(&self.built.path);
        let memory = Patched { image: &self.image, patches, read: Cell::new(0) };
        let globals = Globals::new(&symbols, &memory);
        check(&globals, &memory)
    }

    fn address(&self, expression: &str) -> u64 {
        self.with(Vec::new(), |globals, _| match globals.evaluated(expression) {
            Ok(Evaluated::Value(Placed { storage: Storage::Memory(address), .. })) => address,
            other => panic!("{expression}: {other:?}"),
        })
    }
}

fn names(variable: &Variable) -> Vec<&str> {
    variable.children.iter().map(|child| child.name.as_str()).collect()
}

fn limits(depth: u32, children: u32, offset: u64) -> ValueLimits {
    ValueLimits { depth, children, offset, text: 200 }
}

#[test]
fn parts_have_names_types_and_addresses() {
    c().with(Vec::new(), |globals, _| {
        let named = globals.parts("named", limits(2, 20, 0));
        assert_eq!(named.type_name, "struct named");
        assert_eq!(names(&named), ["name", "at", "weight"]);
        assert_eq!(named.child_count, Some(3));
        let types: Vec<&str> = named.children.iter().map(|child| child.type_name.as_str()).collect();
        assert_eq!(types, ["const char *", "struct point", "double"]);
        assert_eq!(names(&named.children[1]), ["x", "y"]);
        let own = named.address.expect("it is in memory").0;
        assert_eq!(named.children[1].address.expect("it is in memory").0, own + 8);
        assert_eq!(globals.parts("nested", limits(1, 20, 0)).children.len(), 3);
        assert_eq!(globals.parts("operation", limits(1, 20, 0)).type_name, "binary");
        assert_eq!(globals.parts("operations", limits(1, 20, 0)).type_name, "int (*[2])(int, int)");
        assert_eq!(globals.parts("to_row", limits(1, 20, 0)).type_name, "int (*)[3]");
        assert_eq!(globals.parts("matrix", limits(1, 20, 0)).children[1].type_name, "int [3]");
    });
}

#[test]
fn children_are_paged_and_their_number_is_always_told() {
    c().with(Vec::new(), |globals, _| {
        let page = globals.parts("many", limits(1, 3, 50));
        assert_eq!(names(&page), ["[50]", "[51]", "[52]"]);
        assert_eq!(page.children[0].value, "50");
        assert_eq!((page.child_count, page.truncated), (Some(100), true));
        let none = globals.parts("many", limits(0, 3, 0));
        assert_eq!((none.children.len(), none.child_count), (0, Some(100)));
        let last = globals.parts("many", limits(1, 3, 98));
        assert_eq!(names(&last), ["[98]", "[99]"]);
        assert!(globals.parts("many", limits(1, 3, u64::MAX)).children.is_empty());
    });
    cpp().with(Vec::new(), |globals, _| {
        let page = globals.parts("big_map", limits(1, 2, 997));
        assert_eq!(names(&page), ["[997]", "[998]"]);
        assert_eq!(page.children[1].value, "996004");
        let page = globals.parts("long_deque", limits(1, 2, 150));
        assert_eq!(page.children[0].value, "250");
        assert_eq!(globals.parts("by_name", limits(1, 2, 0)).children[0].name, "[\"a\"]");
    });
    rust().with(Vec::new(), |globals, _| {
        let page = globals.parts("large_tree", limits(1, 2, 300));
        assert_eq!(names(&page), ["[300]", "[301]"]);
        assert_eq!((page.children[0].value.as_str(), page.child_count), ("90000", Some(500)));
    });
}

#[test]
fn a_cycle_of_pointers_ends_with_a_note() {
    c().with(Vec::new(), |globals, _| {
        let one = globals.parts("circle_one", limits(10, 20, 0));
        let two = &one.children[1];
        assert_eq!(names(two), ["value", "next"]);
        let back = &two.children[1];
        assert!(back.value.ends_with(" (cycle)"), "{}", back.value);
        assert!(back.children.is_empty());
        let list = globals.parts("list", limits(10, 20, 0));
        assert_eq!(list.children[1].children[1].children[0].value, "3");
        assert_eq!(list.children[1].children[1].children[1].value, "null");
    });
}

#[test]
fn what_cannot_be_read_says_so_and_the_rest_is_shown() {
    let length = c().address("named.name");
    let patch = vec![(length, 0x1234_5678_9000u64.to_le_bytes().to_vec())];
    c().with(patch, |globals, _| {
        let named = globals.parts("named", limits(1, 20, 0));
        assert_eq!(named.value, "{name = 0x123456789000, at = {x = 7, y = 8}, weight = 2.5}");
        assert_eq!(named.children[0].value, "0x123456789000 (unreadable)");
        let gone = globals.parts("*(struct point *)16", limits(1, 20, 0));
        assert_eq!(gone.value, "{x = <cannot read 0x10>, y = <cannot read 0x14>}");
        assert_eq!(gone.children[0].state, ValueState::Unreadable);
    });
}

#[test]
fn corrupt_lengths_say_so_and_cost_nothing() {
    let length = rust().address("vector.len");
    rust().with(vec![(length, (1u64 << 40).to_le_bytes().to_vec())], |globals, memory| {
        assert_eq!(globals.shown("vector"), "<corrupt: length 1099511627776, capacity 3>");
        assert!(memory.read.get() < 1 << 16, "{} bytes were read", memory.read.get());
    });
    let capacity = length - 16;
    let patches =
        vec![(length, (1u64 << 40).to_le_bytes().to_vec()), (capacity, (1u64 << 41).to_le_bytes().to_vec())];
    rust().with(patches, |globals, _| {
        let shown = globals.shown("vector");
        assert!(shown.starts_with("[1, 2, 3, "), "{shown}");
        assert!(shown.contains("corrupt? element 1099511627775 at 0x"), "{shown}");
    });
    let end = cpp().address("vector._M_impl._M_finish");
    cpp().with(vec![(end, vec![0; 8])], |globals, _| {
        assert!(globals.shown("vector").starts_with("<corrupt: from 0x"), "{}", globals.shown("vector"));
    });
    let count = cpp().address("list._M_impl._M_node._M_size");
    cpp().with(vec![(count, vec![9])], |globals, _| {
        assert_eq!(globals.shown("list"), "[1, 2, 3 <fewer elements than it says>]");
    });
}

#[test]
fn a_large_container_costs_what_is_shown_of_it() {
    rust().with(Vec::new(), |globals, memory| {
        globals.parts("large_tree", limits(1, 5, 0));
        let before = memory.read.get();
        globals.parts("long_vector", limits(1, 5, 900));
        // That it repeats itself is found out by reading it once.
        assert!(memory.read.get() - before < 4000, "{} bytes", memory.read.get() - before);
    });
}

#[test]
fn texts_are_cut_at_the_limit() {
    c().with(Vec::new(), |globals, _| {
        let cut = globals.parts("long_text", ValueLimits { text: 5, ..ValueLimits::default() });
        assert_eq!((cut.value.as_str(), cut.truncated), ("\"xxxxx\"…", true));
        let whole = globals.parts("greeting", ValueLimits { text: 5, ..ValueLimits::default() });
        assert_eq!((whole.value.as_str(), whole.truncated), ("\"hello\"", false));
    });
}

#[test]
fn values_in_registers_are_taken_apart_like_those_in_memory() {
    c().with(Vec::new(), |globals, _| {
        let Ok(Evaluated::Value(point)) = globals.evaluated("point") else { panic!("there is a point") };
        let bytes: Vec<u8> = [5i32.to_le_bytes(), (-6i32).to_le_bytes()].concat();
        let shown = globals.look(&Placed::register(point.type_ref, "rax", bytes.clone()), limits(1, 20, 0));
        assert_eq!(shown.value, "{x = 5, y = -6}");
        assert_eq!((shown.children[1].value.as_str(), shown.address), ("-6", None));
        let half = globals.look(&Placed::computed(point.type_ref, &bytes[..4]), limits(1, 20, 0));
        assert_eq!(half.value, "{x = 5, y = <optimised out>}");
    });
}

#[test]
fn noise_in_place_of_values_neither_panics_nor_hangs() {
    for program in [c(), cpp(), rust()] {
        let symbols = support::loaded(&program.built.path);
        let globals = Globals::new(&symbols, &program.image);
        let lines = program.image.printed.lines();
        let expressions: Vec<&str> = lines.filter_map(|line| Some(line.split_once(" = ")?.0)).collect();
        let placed: Vec<Placed> = expressions
            .iter()
            .filter_map(|expression| match globals.evaluated(expression) {
                Ok(Evaluated::Value(value)) => Some(value),
                _ => None,
            })
            .collect();
        for seed in 0..6 {
            let noise = Noise(seed);
            let noisy = Globals::with_types(&symbols, &noise, &globals);
            for value in &placed {
                let moved = Placed { storage: Storage::Memory(0x1000 * (seed + 1)), ..value.clone() };
                let type_ref =
                    noisy.types().pointer_to(Some(moved.type_ref), hindcast_symbols::types::Language::C);
                noisy.look(&Placed::memory(type_ref, 0x7000), limits(3, 20, 0));
                // Derived types are known to those only who made them.
                if value.type_ref.module.0 != u32::MAX {
                    noisy.look(&moved, limits(3, 20, 1));
                }
            }
        }
    }
}
