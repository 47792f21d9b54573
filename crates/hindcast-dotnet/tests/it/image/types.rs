//! Types, their names and what they are made of.

use hindcast_dotnet::image::{Constant, ResolutionScope, Spelling, Table, Token, TypeKind, TypeSig};

use super::Sample;

#[test]
fn types_have_the_names_that_reflection_gives_them() {
    let Sample { assembly, .. } = Sample::open();
    for name in [
        "Sample.Shapes.Shape",
        "Sample.Shapes.Shape+Inner`1",
        "Sample.Shapes.Shape+Inner`1+Deep`1",
        "Sample.Program+<SumAsync>d__3",
        "<Module>",
    ] {
        let found = assembly.type_named(name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(found.full_name().as_deref(), Some(name));
    }
    for name in ["Sample.Shapes.Inner`1", "Sample.Shapes.Shape.Inner`1", "Shape", "", "Sample.Shapes.Shape+"]
    {
        assert!(assembly.type_named(name).is_none(), "{name}");
    }
    assert_eq!(assembly.types().filter(|found| found.full_name().is_none()).count(), 0);
}

#[test]
fn types_are_told_apart_by_kind() {
    let sample = Sample::open();
    for (name, kind) in [
        ("Colors", TypeKind::Enum),
        ("Shape", TypeKind::Class),
        ("Point", TypeKind::Struct),
        ("Reduce", TypeKind::Delegate),
        ("IShapes`1", TypeKind::Interface),
        ("Shape+Inner`1+Deep`1", TypeKind::Struct),
    ] {
        assert_eq!(sample.type_named(&format!("Sample.Shapes.{name}")).kind(), kind, "{name}");
    }
    let shape = sample.type_named("Sample.Shapes.Shape");
    assert!(shape.is_abstract() && !shape.is_sealed());
}

#[test]
fn types_know_their_bases_interfaces_and_surroundings() {
    let sample = Sample::open();
    let assembly = &sample.assembly;
    let shape = sample.type_named("Sample.Shapes.Shape");
    let square = sample.type_named("Sample.Shapes.Square");
    assert_eq!(square.base(), Some(shape.token()));
    let interfaces: Vec<_> = shape
        .interfaces()
        .into_iter()
        .map(|token| assembly.type_sig(token).unwrap().display(assembly))
        .collect();
    assert_eq!(interfaces, ["IComparable<Shape>", "IDisposable"]);
    let deep = sample.type_named("Sample.Shapes.Shape+Inner`1+Deep`1");
    let inner = deep.enclosing().unwrap();
    assert_eq!(inner.enclosing().map(|outer| outer.token()), Some(shape.token()));
    assert_eq!(inner.nested().map(|nested| nested.token()).collect::<Vec<_>>(), [deep.token()]);
    let names: Vec<_> = deep.generic_parameters().iter().map(|parameter| parameter.name).collect();
    assert_eq!(names, ["T", "U"]);
    assert_eq!(deep.display_name(Spelling::Short).as_deref(), Some("Shape.Inner<T>.Deep<U>"));
    assert_eq!(inner.display_name(Spelling::Qualified).as_deref(), Some("Sample.Shapes.Shape.Inner<T>"));
}

#[test]
fn references_say_where_a_type_is_defined() {
    let Sample { assembly, .. } = Sample::open();
    let find = |name: &str| {
        let rows = 1..=assembly.row_count(Table::TypeRef);
        rows.map(|row| Token::new(Table::TypeRef, row))
            .find(|token| assembly.type_full_name(*token).as_deref() == Some(name))
            .unwrap_or_else(|| panic!("no reference to {name}"))
    };
    let list = find("System.Collections.Generic.List`1");
    assert_eq!(assembly.resolution_scope(list), Some(ResolutionScope::Assembly("System.Collections")));
    let nested = find("System.Diagnostics.DebuggableAttribute+DebuggingModes");
    assert!(matches!(assembly.resolution_scope(nested), Some(ResolutionScope::Within(_))));
    assert_eq!(assembly.type_ref_assembly(nested), Some("System.Runtime"));
}

#[test]
fn fields_have_the_types_that_the_source_gives_them() {
    let sample = Sample::open();
    let check = |type_name: &str, field: &str, expected: &str| {
        let definition = sample.type_named(type_name);
        let field = definition.field_named(field).unwrap_or_else(|| panic!("no {field}"));
        assert_eq!(field.signature().unwrap().display(&definition), expected, "{field:?}");
        assert_eq!(field.declaring_type().map(|owner| owner.token()), Some(definition.token()));
    };
    let shape = "Sample.Shapes.Shape";
    check(shape, "name", "string");
    check(shape, "index", "Dictionary<string, List<int[]>>");
    check(shape, "maybe", "int?");
    check(shape, "pair", "(int, string)");
    check(shape, "cube", "int[,,]");
    check(shape, "jagged", "int[][,]");
    check(shape, "pointer", "int*");
    check(shape, "fenced", "int");
    check(shape, "nine", "(int, int, int, int, int, int, int, int, int)");
    check("Sample.Shapes.Shape+Inner`1", "deeper", "Shape.Inner<Shape.Inner<T>>");
    check("Sample.Shapes.Shape+Inner`1+Deep`1", "both", "KeyValuePair<T, U>");
    check("Sample.Shapes.Colors", "Red", "Colors");
}

#[test]
fn types_can_be_spelled_with_their_namespaces() {
    let sample = Sample::open();
    let shape = sample.type_named("Sample.Shapes.Shape");
    let index = shape.field_named("index").unwrap().signature().unwrap();
    assert_eq!(
        index.spell(&shape, Spelling::Qualified),
        "System.Collections.Generic.Dictionary<string, System.Collections.Generic.List<int[]>>"
    );
}

#[test]
fn type_parameters_give_way_to_arguments() {
    let sample = Sample::open();
    let deep = sample.type_named("Sample.Shapes.Shape+Inner`1+Deep`1");
    let both = deep.field_named("both").unwrap().signature().unwrap();
    let shape = TypeSig::Class(sample.type_named("Sample.Shapes.Shape").token());
    let array = TypeSig::SzArray(Box::new(shape.clone()));
    assert_eq!(both.substitute(&[shape, array], &[]).display(&deep), "KeyValuePair<Shape, Shape[]>");
}

#[test]
fn literals_have_the_values_that_the_source_gives_them() {
    let sample = Sample::open();
    let shape = sample.type_named("Sample.Shapes.Shape");
    let check = |name: &str, expected: Constant| {
        let field = shape.field_named(name).unwrap();
        assert!(field.is_literal() && field.is_static(), "{name}");
        assert_eq!(field.constant(), Some(expected), "{name}");
    };
    check("Answer", Constant::Int(42));
    check("Greeting", Constant::String("hé\n".to_owned()));
    check("Half", Constant::Double(0.5));
    check("Letter", Constant::Char(u16::from(b'x')));
    check("Most", Constant::UInt(u64::MAX));
    check("Least", Constant::Int(-128));
    check("Yes", Constant::Bool(true));
    check("Nothing", Constant::Null);
    check("Favourite", Constant::UInt(1));
    let count = shape.field_named("Count").unwrap();
    assert!(count.is_static() && !count.is_literal() && count.constant().is_none());
}

#[test]
fn enums_have_members_and_an_underlying_type() {
    let sample = Sample::open();
    let members = |name: &str| -> Vec<(String, i64)> {
        let literals = sample.type_named(name).fields().filter(|field| field.is_literal());
        literals
            .map(|field| (field.name().unwrap().to_owned(), field.constant().unwrap().as_i64().unwrap()))
            .collect()
    };
    let named = |name: &str, value| (name.to_owned(), value);
    assert_eq!(
        members("Sample.Shapes.Colors"),
        [named("None", 0), named("Red", 1), named("Green", 2), named("All", 255)]
    );
    assert_eq!(members("Sample.Shapes.Big"), [named("Low", i64::MIN), named("High", i64::MAX)]);
    let underlying = |name: &str| sample.type_named(name).enum_type().unwrap().display(&sample.assembly);
    assert_eq!(
        (underlying("Sample.Shapes.Colors"), underlying("Sample.Shapes.Big")),
        ("byte".into(), "long".into())
    );
}
