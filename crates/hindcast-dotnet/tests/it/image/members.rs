//! Methods, properties, events, attributes and bodies.

use hindcast_dotnet::image::{AttributeValue as Value, ClauseKind, MemberSig, Operand, Table, Token};

use super::{Sample, mark};

#[test]
fn overloads_are_told_apart_by_their_parameters() {
    let sample = Sample::open();
    let shape = sample.type_named("Sample.Shapes.Shape");
    let overloads: Vec<_> = shape
        .methods_named("Scale")
        .map(|method| {
            let signature = method.signature().unwrap();
            let names = method.parameter_names(signature.parameters.len());
            let names: Vec<_> = names.into_iter().map(Option::unwrap).collect();
            (signature.display_parameters(&method), names.join(" "), method.is_virtual())
        })
        .collect();
    assert_eq!(
        overloads,
        [
            ("int".into(), "by".into(), true),
            ("double, ref int, ref string, ref long".into(), "by left right inner".into(), false)
        ]
    );
}

#[test]
fn generic_methods_name_their_parameters() {
    let sample = Sample::open();
    let method = sample.assembly.method(sample.method("Sample.Shapes.Shape", "Convert")).unwrap();
    let signature = method.signature().unwrap();
    assert_eq!(signature.generic_parameters, 2);
    assert!(signature.has_this && !method.is_static());
    assert_eq!(signature.display_parameters(&method), "TSource, Func<TSource, TResult>");
    assert_eq!(signature.returns.display(&method), "TResult");
}

#[test]
fn properties_and_events_have_accessors() {
    let sample = Sample::open();
    let shape = sample.type_named("Sample.Shapes.Shape");
    let name = shape.property_named("Name").unwrap();
    assert_eq!(name.getter().unwrap().name(), Some("get_Name"));
    assert!(name.setter().is_none());
    assert_eq!(name.declaring_type().map(|owner| owner.token()), Some(shape.token()));
    let indexer = shape.property_named("Item").unwrap();
    let signature = indexer.signature().unwrap();
    assert_eq!(signature.display_parameters(&shape), "int, string");
    assert_eq!(signature.returns.display(&shape), "int");
    assert_eq!(indexer.setter().unwrap().name(), Some("set_Item"));
    let changed = shape.events().next().unwrap();
    assert_eq!(changed.name(), Some("Changed"));
    assert_eq!(changed.adder().unwrap().name(), Some("add_Changed"));
    let handler = sample.assembly.type_sig(changed.handler_type().unwrap()).unwrap();
    assert_eq!(handler.display(&sample.assembly), "EventHandler<EventArgs>");
    let default =
        sample.assembly.attribute(shape.token(), "System.Reflection.DefaultMemberAttribute").unwrap();
    assert_eq!(default.arguments().unwrap().fixed[0].as_str(), Some("Item"));
}

#[test]
fn attributes_have_the_arguments_that_the_source_gives_them() {
    let sample = Sample::open();
    let shape = sample.type_named("Sample.Shapes.Shape");
    let display =
        sample.assembly.attribute(shape.token(), "System.Diagnostics.DebuggerDisplayAttribute").unwrap();
    let arguments = display.arguments().unwrap();
    assert_eq!(arguments.fixed, [Value::String("{Name,nq} of {Sides}".into())]);
    assert_eq!(arguments.named("Name").and_then(Value::as_str), Some("shape"));

    let notes: Vec<_> = sample
        .assembly
        .attributes(shape.token())
        .filter(|attribute| attribute.type_name().as_deref() == Some("Sample.Shapes.NoteAttribute"))
        .map(|attribute| attribute.arguments().unwrap())
        .collect();
    assert_eq!(notes.len(), 2);
    assert!(notes[1].fixed.is_empty() && notes[1].named.is_empty());
    let note = &notes[0];
    assert_eq!(note.fixed[..3], [Value::String("täxt".into()), Value::Int(-7), Value::Int(2)]);
    let Value::Type(list) = &note.fixed[3] else { panic!("{:?}", note.fixed[3]) };
    assert!(list.starts_with("System.Collections.Generic.List`1[[System.Int32"), "{list}");
    assert_eq!(note.fixed[4], Value::Int(i64::MAX));
    let words = [Value::String("a".into()), Value::Null, Value::String("c".into())];
    assert_eq!(note.fixed[5], Value::Array(words.to_vec()));
    assert_eq!(note.named("Shade"), Some(&Value::Int(255)));
    assert_eq!(note.named("Count"), Some(&Value::Int(1 << 40)));
    assert_eq!(note.named("Day"), Some(&Value::Int(5)));
    let Some(Value::Array(types)) = note.named("Types") else { panic!("{note:?}") };
    assert_eq!(types[1], Value::Type("Sample.Shapes.Shape+Inner`1".into()));
}

#[test]
fn attributes_for_debuggers_are_found() {
    let sample = Sample::open();
    let assembly = &sample.assembly;
    let has = |token: Token, name: &str| assembly.has_attribute(token, name);
    assert!(has(sample.program("NoStep"), "System.Diagnostics.DebuggerHiddenAttribute"));
    assert!(has(sample.program("Through"), "System.Diagnostics.DebuggerStepThroughAttribute"));
    assert!(has(sample.program("NotMine"), "System.Diagnostics.DebuggerNonUserCodeAttribute"));
    assert!(!has(sample.program("Main"), "System.Diagnostics.DebuggerHiddenAttribute"));
    assert!(has(sample.type_named("Sample.Shapes.Colors").token(), "System.FlagsAttribute"));
    let shape = sample.type_named("Sample.Shapes.Shape");
    let name = shape.field_named("name").unwrap();
    let browsable =
        assembly.attribute(name.token(), "System.Diagnostics.DebuggerBrowsableAttribute").unwrap();
    assert_eq!(browsable.arguments().unwrap().fixed, [Value::Int(0)]);
    let pair = shape.field_named("pair").unwrap();
    let names =
        assembly.attribute(pair.token(), "System.Runtime.CompilerServices.TupleElementNamesAttribute");
    let expected = [Value::String("Left".into()), Value::String("Right".into())];
    assert_eq!(names.unwrap().arguments().unwrap().fixed, [Value::Array(expected.to_vec())]);
    let closure = sample.type_named("Sample.Program+<>c__DisplayClass0_0");
    assert!(has(closure.token(), "System.Runtime.CompilerServices.CompilerGeneratedAttribute"));
}

#[test]
fn state_machines_are_named_by_attributes() {
    let sample = Sample::open();
    let check = |method: &str, attribute: &str, machine: &str| {
        let name = format!("System.Runtime.CompilerServices.{attribute}");
        let attribute = sample.assembly.attribute(sample.program(method), &name).unwrap();
        assert_eq!(attribute.arguments().unwrap().fixed, [Value::Type(machine.into())]);
        assert!(sample.assembly.type_named(machine).is_some());
    };
    check("SumAsync", "AsyncStateMachineAttribute", "Sample.Program+<SumAsync>d__3");
    check("Numbers", "IteratorStateMachineAttribute", "Sample.Program+<Numbers>d__2");
}

#[test]
fn bodies_hold_instructions_locals_and_handlers() {
    let sample = Sample::open();
    let assembly = &sample.assembly;
    let method = assembly.method(sample.program("Describe")).unwrap();
    let body = method.body().unwrap().unwrap();
    let kinds: Vec<_> = body.clauses.iter().map(|clause| clause.kind).collect();
    let [ClauseKind::Filter(filter), ClauseKind::Catch(caught), ClauseKind::Finally] = kinds[..] else {
        panic!("{kinds:?}")
    };
    assert_eq!(assembly.type_full_name(caught).as_deref(), Some("System.ArgumentException"));
    assert!(body.clauses[0].handler.start > filter);
    let point = sample.pdb.point_at(method.token(), body.clauses[2].handler.start + 1).unwrap();
    assert_eq!(point.span.unwrap().start_line, mark("finally"));
    assert!(body.init_locals && body.max_stack == 2);
    let locals = assembly.local_types(body.local_signature.unwrap()).unwrap();
    let locals: Vec<_> = locals.iter().map(|sig| sig.display(&method)).collect();
    assert_eq!(locals, ["string", "InvalidOperationException", "bool"]);
    assert_eq!(sample.pdb.local_signature(method.token()), body.local_signature);
    assert_eq!(assembly.method(sample.program("Native")).unwrap().body(), Ok(None));
}

#[test]
fn calls_of_a_statement_are_named() {
    let sample = Sample::open();
    let assembly = &sample.assembly;
    let method = assembly.method(sample.program("Null")).unwrap();
    let body = method.body().unwrap().unwrap();
    let statement = sample.pdb.statement_at(method.token(), 0).unwrap();
    assert_eq!(statement.point.unwrap().span.unwrap().start_line, mark("null"));
    let calls: Vec<_> = body
        .instructions_in(statement.il)
        .filter(|instruction| instruction.name == "callvirt")
        .filter_map(|instruction| match instruction.operand {
            Operand::Token(token) => assembly.member_name(token),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["Shape.get_Name", "string.Trim"]);
}

#[test]
fn switches_and_strings_are_read() {
    let sample = Sample::open();
    let method = sample.assembly.method(sample.program("Choose")).unwrap();
    let body = method.body().unwrap().unwrap();
    let mut targets = 0;
    let mut strings = Vec::new();
    for instruction in body.instructions().map(Result::unwrap) {
        match instruction.operand {
            Operand::Targets(places) => {
                targets = places.iter().filter(|at| *at < body.code.len() as u32).count()
            }
            Operand::Token(token) if instruction.name == "ldstr" => {
                strings.extend(sample.assembly.user_string(token))
            }
            _ => {}
        }
    }
    assert_eq!((targets, strings), (5, vec!["none".to_owned()]));
}

#[test]
fn generic_calls_have_arguments() {
    let sample = Sample::open();
    let assembly = &sample.assembly;
    let names: Vec<_> = (1..=assembly.row_count(Table::MethodSpec))
        .filter_map(|row| assembly.member_name(Token::new(Table::MethodSpec, row)))
        .collect();
    assert!(names.contains(&"Task.FromResult<string>".to_owned()), "{names:?}");
    let member = (1..=assembly.row_count(Table::MemberRef))
        .filter_map(|row| assembly.member(Token::new(Table::MemberRef, row)))
        .find(|member| member.name == "Append")
        .unwrap();
    assert!(matches!(member.signature, MemberSig::Method(signature) if signature.has_this));
    assert_eq!(
        member.declaring_type.and_then(|parent| assembly.type_full_name(parent)).as_deref(),
        Some("System.Text.StringBuilder")
    );
}
