//! Types and variables.

use std::sync::Arc;

use hindcast_fixtures::{Built, Fixture};
use hindcast_symbols::{
    FrameContext, Memory, Placement, Symbols, Unreadable, VariableInfo,
    types::{AliasFlavour, Encoding, ModuleId, PointerFlavour, StructType, Type, TypeKind, TypeRef, Types},
};

use crate::support::{loaded, mark};

fn variables_at(symbols: &Symbols, address: u64) -> Vec<VariableInfo> {
    symbols.variables(&symbols.frames_at(address)[0])
}

fn variable(symbols: &Symbols, address: u64, name: &str) -> VariableInfo {
    let found = variables_at(symbols, address).into_iter().find(|variable| variable.name == name);
    found.unwrap_or_else(|| panic!("there is no variable {name}"))
}

fn type_of(symbols: &Symbols, variable: &VariableInfo) -> Arc<Type> {
    symbols.get(variable.type_ref).expect("a type")
}

fn structure(of: &Type) -> &StructType {
    match &of.kind {
        TypeKind::Struct(of) => of,
        other => panic!("{other:?} is not a struct"),
    }
}

fn at(symbols: &Symbols, type_ref: TypeRef) -> Arc<Type> {
    symbols.get(type_ref).expect("a type")
}

fn cpp(flags: &[&str]) -> (Built, Symbols, u64) {
    let built = Fixture::cpp("shapes").flags(flags).build();
    let symbols = loaded(&built.path);
    let address = mark(&symbols, &built, "main_sum");
    (built, symbols, address)
}

const WAYS: [&[&str]; 7] = [
    &["-gdwarf-5"],
    &["-gdwarf-4"],
    &["-gsplit-dwarf"],
    &["-fdebug-types-section"],
    &["-fdebug-types-section", "-gdwarf-4"],
    &["-fdebug-types-section", "-gsplit-dwarf"],
    &["-fdebug-types-section", "-gsplit-dwarf", "-gdwarf-4"],
];

#[test]
fn bit_fields_and_anonymous_members_are_where_the_compiler_put_them() {
    for flags in WAYS {
        let (_, symbols, address) = cpp(flags);
        let flags_type = type_of(&symbols, &variable(&symbols, address, "flags"));
        let members = &structure(&flags_type).members;
        let bits: Vec<_> =
            members[..3].iter().map(|member| (member.name.as_deref(), member.offset, member.bits)).collect();
        let expected = [
            (Some("low"), 0, Some((0, 3))),
            (Some("middle"), 0, Some((3, 5))),
            (Some("high"), 0, Some((8, 40))),
        ];
        assert_eq!(bits, expected, "{flags:?}");
        assert_eq!((members[3].name.as_deref(), members[3].offset), (None, 8), "{flags:?}");
        let anonymous = at(&symbols, members[3].type_ref);
        assert_eq!(structure(&anonymous).members[1].name.as_deref(), Some("as_float"));
        assert_eq!(flags_type.size, Some(16));
    }
}

#[test]
fn classes_have_bases_statics_and_qualified_names() {
    for flags in WAYS {
        let (_, symbols, address) = cpp(flags);
        let square = type_of(&symbols, &variable(&symbols, address, "square"));
        assert_eq!(square.name, "geometry::Square", "{flags:?}");
        let named = at(&symbols, structure(&square).bases[0].type_ref);
        assert_eq!((named.name.as_str(), structure(&square).bases[0].offset), ("geometry::Named", Some(0)));
        let base = &structure(&named).bases[0];
        assert_eq!(base.offset, None);
        assert!(base.vtable_offset.is_some_and(|offset| offset < 0), "{base:?}");
        let shape = at(&symbols, base.type_ref);
        assert_eq!(shape.name, "geometry::Shape");
        let statics: Vec<_> =
            structure(&shape).statics.iter().map(|of| (of.name.as_str(), of.constant)).collect();
        assert_eq!(statics, [("made", None), ("limit", Some(12))], "{flags:?}");
        assert!(structure(&shape).members[0].artificial);
    }
}

#[test]
fn templates_enums_and_pointers_tell_what_they_are_made_of() {
    for flags in WAYS {
        let (_, symbols, address) = cpp(flags);
        let of = |name: &str| type_of(&symbols, &variable(&symbols, address, name));
        let holder = of("holder");
        let kinds: Vec<_> =
            structure(&holder).members.iter().map(|member| at(&symbols, member.type_ref)).collect();
        let TypeKind::Pointer { target: Some(later), flavour: PointerFlavour::Pointer } = kinds[0].kind
        else {
            panic!("{:?}", kinds[0])
        };
        assert_eq!((at(&symbols, later).name.as_str(), at(&symbols, later).size), ("Later", Some(4)));
        let TypeKind::Pointer { target: Some(function), .. } = kinds[1].kind else {
            panic!("{:?}", kinds[1])
        };
        assert!(
            matches!(&at(&symbols, function).kind, TypeKind::Function { parameters, .. } if parameters.len() == 2)
        );
        assert!(matches!(kinds[2].kind, TypeKind::MemberPointer { target: Some(_) }), "{:?}", kinds[2]);
        assert!(matches!(kinds[3].kind, TypeKind::Pointer { flavour: PointerFlavour::Reference, .. }));
        assert!(matches!(&kinds[4].kind, TypeKind::Array { counts, .. } if counts == &[Some(2), Some(3)]));
        assert_eq!(kinds[4].size, Some(24));

        let boxed = of("box");
        assert_eq!(boxed.name, "geometry::Box<int, 4>");
        let parameters = &structure(&boxed).parameters;
        assert_eq!((parameters[0].name.as_deref(), parameters[1].value), (Some("T"), Some(4)));
        assert!(matches!(&of("colour").kind, TypeKind::Enum { enumerators, .. }
            if enumerators[2] == ("blue".to_owned(), 250)));
        assert!(
            matches!(&of("plain").kind, TypeKind::Enum { enumerators, .. }
            if enumerators[0] == ("first".to_owned(), -2)),
            "{:?}",
            of("plain")
        );
    }
}

#[test]
fn types_are_found_by_name() {
    let (_, symbols, _) = cpp(&[]);
    for (asked, name, size) in [
        ("int", "int", 4),
        ("unsigned long", "long unsigned int", 8),
        ("geometry::Square", "geometry::Square", 64),
        ("Square", "geometry::Square", 64),
        ("struct Later", "Later", 4),
        ("geometry::Box<int,4>", "geometry::Box<int, 4>", 16),
    ] {
        let found = symbols.get(symbols.named(asked).unwrap_or_else(|| panic!("{asked}"))).expect("a type");
        assert_eq!((found.name.as_str(), found.size), (name, Some(size)), "{asked}");
    }
    assert_eq!(symbols.named("no_such_type"), None);
    let text = symbols.get(symbols.named("std::string").expect("a type")).expect("a type");
    assert!(matches!(text.kind, TypeKind::Alias { flavour: AliasFlavour::Typedef, .. }));
    assert_eq!(text.size, Some(32));
}

#[test]
fn rust_types_have_variants_and_paths() {
    let built = Fixture::rust("shapes").build();
    let symbols = loaded(&built.path);
    let address = mark(&symbols, &built, "main_total");
    let of = |name: &str| type_of(&symbols, &variable(&symbols, address, name));
    assert_eq!(of("whole").name, "shapes::geometry::Point<i32>");
    assert_eq!(of("text").name, "alloc::string::String");
    assert_eq!(of("slice").name, "&[shapes::Shape]");
    assert!(matches!(&of("colour").kind, TypeKind::Enum { enumerators, .. }
        if enumerators.contains(&("Green".to_owned(), 7))));
    assert!(matches!(&of("signed").kind, TypeKind::Enum { enumerators, .. }
        if enumerators.contains(&("Minus".to_owned(), -5))));
    assert!(matches!(
        &at(&symbols, symbols.named("char").expect("char")).kind,
        TypeKind::Base(Encoding::Utf)
    ));

    let shape = at(&symbols, symbols.named("shapes::Shape").expect("a type"));
    let variants = structure(&shape).variants.as_ref().expect("an enum");
    assert_eq!(variants.variants.len(), 3);
    assert!(variants.discriminant.is_some());
    let names: Vec<_> = variants.variants.iter().map(|variant| variant.members[0].name.as_deref()).collect();
    assert_eq!(names, [Some("Empty"), Some("Circle"), Some("Named")]);
    // The text's capacity tells the other cases: it is a niche, so one case is any other value.
    assert!(variants.variants.iter().any(|variant| variant.values.is_empty()));

    let maybe = of("maybe");
    let variants = structure(&maybe).variants.as_ref().expect("an enum");
    assert!(variants.variants.iter().any(|variant| variant.values == [0..=0]), "{variants:?}");
}

#[test]
fn globals_are_found_by_their_qualified_and_short_names() {
    for flags in WAYS {
        let (built, symbols, address) = cpp(flags);
        let names = [
            "geometry::shared_total",
            "shared_total",
            "hidden_count",
            "geometry::Shape::made",
            "made",
            "per_thread",
        ];
        for name in names {
            let found = symbols.find_global(name, address);
            assert!(found.is_some(), "{name} with {flags:?}");
        }
        let counter = mark(&symbols, &built, "counter_body");
        assert_eq!(symbols.find_global("calls", counter).map(|found| found.name).as_deref(), Some("calls"));
        assert_eq!(symbols.find_global("no_such_variable", address), None);
        let globals: Vec<String> = symbols.globals(address).into_iter().map(|global| global.name).collect();
        assert!(globals.contains(&"geometry::shared_total".to_owned()), "{globals:?}");
        assert!(globals.contains(&"geometry::(anonymous namespace)::hidden_count".to_owned()), "{globals:?}");
    }
    let built = Fixture::rust("shapes").build();
    let symbols = loaded(&built.path);
    let address = mark(&symbols, &built, "main_total");
    for name in ["GREETING", "shapes::COUNTER"] {
        assert!(symbols.find_global(name, address).is_some(), "{name}");
    }
}

/// A frame with a made-up base, to compare offsets.
struct Fake;

impl Memory for Fake {
    fn read(&self, address: u64, _: &mut [u8]) -> Result<(), Unreadable> {
        Err(Unreadable(address))
    }
}

impl FrameContext for Fake {
    fn register(&self, dwarf: u16) -> Option<Vec<u8>> {
        (dwarf == 6).then(|| 0x7fff_0000_0000u64.to_le_bytes().to_vec())
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn tls_address(&self, _: ModuleId, offset: u64) -> Option<u64> {
        Some(0x1000 + offset)
    }

    fn cfa(&self) -> Option<u64> {
        Some(0x7fff_0000_0010)
    }

    fn pc(&self) -> u64 {
        0
    }
}

#[test]
fn variables_of_unoptimised_frames_are_counted_from_the_frame() {
    let built = Fixture::c("calls").build();
    let symbols = loaded(&built.path);
    let address = mark(&symbols, &built, "square_body");
    let result = variable(&symbols, address, "result");
    // `-0x4(%rbp)`, as the compiled code has it.
    assert_eq!(symbols.locate(&result, &Fake), Ok(Placement::Memory(0x7ffe_ffff_fffc)));
    let total = symbols.find_global("total", address).expect("a global");
    let said = crate::support::gdb(&built.path, &["info address total"]);
    let word = said.split_whitespace().find(|word| word.starts_with("0x")).expect("an address");
    let expected =
        crate::support::hexadecimal(word.trim_end_matches('.')) + crate::support::bias(&built.path);
    assert_eq!(symbols.locate(&total, &Fake), Ok(Placement::Memory(expected)));
}

#[test]
fn thread_locals_are_counted_from_the_threads_block() {
    let (_, symbols, address) = cpp(&[]);
    let found = symbols.find_global("per_thread", address).expect("a global");
    assert_eq!(symbols.locate(&found, &Fake), Ok(Placement::Memory(0x1000)));
}

#[test]
fn variables_in_scope_are_those_gdb_lists() {
    for (built, function, line) in [
        (Fixture::c("calls").build(), "main", "loop_body"),
        (Fixture::c("calls").flags(["-O2"]).build(), "main", "print"),
        (Fixture::cpp("shapes").build(), "main", "main_sum"),
        (Fixture::cpp("shapes").build(), "geometry::Box<int, 4>::sum", "box_sum"),
        (Fixture::cpp("shapes").flags(["-gsplit-dwarf"]).build(), "main", "main_sum"),
        (Fixture::rust("shapes").build(), "shapes::square", "square_body"),
        (Fixture::rust("shapes").build(), "shapes::main", "main_total"),
    ] {
        let symbols = loaded(&built.path);
        let address = mark(&symbols, &built, line);
        let frame = symbols.frames_at(address).into_iter().next_back().expect("a frame");
        assert_eq!(frame.function.as_deref(), Some(function));
        let mut ours: Vec<String> =
            symbols.variables(&frame).into_iter().map(|variable| variable.name).collect();
        let place = format!("info scope *{:#x}", address - crate::support::bias(&built.path));
        let said = crate::support::gdb(&built.path, &[&place]);
        let mut theirs: Vec<String> = said
            .lines()
            .filter_map(|line| line.strip_prefix("Symbol ").or_else(|| line.split(": Symbol ").nth(1)))
            .filter_map(|line| line.split_once(" is ").map(|(name, _)| name.to_owned()))
            .collect();
        ours.sort();
        theirs.sort();
        theirs.dedup();
        ours.dedup();
        assert!(!theirs.is_empty(), "{said}");
        assert_eq!(ours, theirs, "{function} in {}", built.path.display());
    }
}
