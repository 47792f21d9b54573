//! Names of locals, constants, imports and state machines.

use hindcast_dotnet::image::pdb::Import;
use hindcast_dotnet::image::{Constant, Token};

use super::{Sample, mark};

impl Sample {
    /// The first instruction of a marked line in a method.
    fn il(&self, method: Token, name: &str) -> u32 {
        let points = self.pdb.sequence_points(method).expect("points");
        let on_line =
            |line| points.iter().find(|point| point.span.is_some_and(|span| span.start_line == line));
        on_line(mark(name)).unwrap_or_else(|| panic!("{name} has no code")).il
    }

    /// The names of all locals in scope.
    fn names_at(&self, method: Token, il: u32) -> Vec<&str> {
        let scopes = self.pdb.scopes_at(method, il);
        let names =
            scopes.into_iter().flat_map(|scope| scope.variables).filter(|variable| !variable.is_hidden);
        names.map(|variable| variable.name).collect()
    }
}

#[test]
fn locals_have_names_in_their_blocks_only() {
    let sample = Sample::open();
    let main = sample.program("Main");
    // What the lambda uses lives in an object of the compiler's.
    let within = sample.names_at(main, sample.il(main, "square"));
    assert_eq!(within, ["CS$<>8__locals0", "text", "twice", "pair", "anything", "a", "b", "i", "square"]);
    let after = sample.names_at(main, sample.il(main, "return"));
    assert!(after.contains(&"text") && !after.contains(&"square") && !after.contains(&"i"), "{after:?}");
}

#[test]
fn slots_lead_to_types() {
    let sample = Sample::open();
    let main = sample.program("Main");
    let types = sample.assembly.local_types(sample.pdb.local_signature(main).unwrap()).unwrap();
    let scopes = sample.pdb.scopes(main);
    let method = sample.assembly.method(main).unwrap();
    let type_of = |name: &str| {
        let mut variables = scopes.iter().flat_map(|scope| &scope.variables);
        let slot = variables.find(|variable| variable.name == name).unwrap().slot;
        types[usize::from(slot)].display(&method)
    };
    assert_eq!(type_of("square"), "int");
    assert_eq!(type_of("twice"), "Func<int, int>");
    assert_eq!(type_of("pair"), "(int, (string, int))");
    assert_eq!(type_of("anything"), "object");
}

#[test]
fn constants_have_types_and_values() {
    let sample = Sample::open();
    let main = sample.program("Main");
    let il = sample.il(main, "limit");
    let constants: Vec<_> = sample
        .pdb
        .scopes_at(main, il)
        .into_iter()
        .flat_map(|scope| scope.constants)
        .map(|constant| {
            let value = constant.value.unwrap();
            (constant.name, constant.constant_type.display(&sample.assembly), value.to_string(), value)
        })
        .collect();
    let written: Vec<_> =
        constants.iter().map(|(name, of, value, _)| format!("{of} {name} = {value}")).collect();
    assert_eq!(
        written,
        [
            "int limit = 100",
            "string label = \"limit\"",
            "Colors color = 2",
            "decimal price = 12.50",
            "object nothing = null",
            "bool flag = true",
            "float ratio = 1.5",
        ]
    );
    assert_eq!(constants[2].3, Constant::UInt(2));
    assert_eq!(constants[3].3, Constant::Decimal { negative: false, scale: 2, digits: 1250 });
    assert!(
        sample.pdb.scopes_at(main, sample.il(main, "return")).iter().all(|scope| scope.constants.is_empty())
    );
}

#[test]
fn tuples_and_dynamic_locals_tell_more_than_their_types() {
    let sample = Sample::open();
    let main = sample.program("Main");
    let scopes = sample.pdb.scopes(main);
    let token = |name: &str| {
        scopes.iter().flat_map(|scope| &scope.variables).find(|variable| variable.name == name).unwrap().token
    };
    let names = sample.pdb.tuple_element_names(token("pair"));
    assert_eq!(names, Some(vec![Some("Left"), Some("Right"), Some("Inner"), None]));
    assert!(sample.pdb.dynamic_flags(token("anything")).unwrap()[0]);
    assert_eq!(sample.pdb.tuple_element_names(token("text")), None);
    assert_eq!(sample.pdb.dynamic_flags(token("text")), None);
}

#[test]
fn a_method_has_the_names_in_use_that_stand_above_it() {
    let sample = Sample::open();
    let main = sample.program("Main");
    assert_eq!(
        sample.pdb.imported_namespaces(main),
        [
            "Sample.Shapes",
            "System",
            "System.Collections.Generic",
            "System.Diagnostics",
            "System.Threading.Tasks"
        ]
    );
    let imports = sample.pdb.imports(main);
    let alias = Import::Namespace { name: "System.Text".into(), assembly: None, alias: Some("Text".into()) };
    assert!(imports.contains(&alias), "{imports:?}");
    let is_math = |import: &Import| match import {
        Import::Type { token, alias: None } => {
            sample.assembly.type_full_name(*token).as_deref() == Some("System.Math")
        }
        _ => false,
    };
    assert!(imports.iter().any(is_math), "{imports:?}");
    // Code of a lambda or an async method runs elsewhere, with the same names in use.
    let lambda = sample.method("Sample.Program+<>c__DisplayClass0_0", "<Main>b__0");
    let move_next = sample.method("Sample.Program+<SumAsync>d__3", "MoveNext");
    for elsewhere in [lambda, move_next] {
        assert_eq!(sample.pdb.imports(elsewhere), imports, "{elsewhere}");
    }
}

#[test]
fn state_machines_lead_to_their_methods_and_back() {
    let sample = Sample::open();
    for (kickoff, machine) in
        [("SumAsync", "<SumAsync>d__3"), ("Numbers", "<Numbers>d__2"), ("Fire", "<Fire>d__4")]
    {
        let kickoff = sample.program(kickoff);
        let move_next = sample.method(&format!("Sample.Program+{machine}"), "MoveNext");
        assert_eq!(sample.pdb.kickoff_method(move_next), Some(kickoff));
        assert_eq!(sample.pdb.move_next_method(kickoff), Some(move_next));
    }
    assert_eq!(sample.pdb.move_next_method(sample.program("Main")), None);
    assert_eq!(sample.pdb.kickoff_method(sample.program("Main")), None);
}

#[test]
fn an_async_method_tells_where_it_waits_and_goes_on() {
    let sample = Sample::open();
    let move_next = sample.method("Sample.Program+<SumAsync>d__3", "MoveNext");
    let stepping = sample.pdb.async_stepping(move_next).unwrap().unwrap();
    // Whoever awaits the task sees the exception, so that no handler is told.
    assert_eq!((stepping.catch_handler, stepping.awaits.len()), (None, 2));
    for (step, line) in stepping.awaits.iter().zip(["await_delay", "await_result"]) {
        let line = mark(line);
        let at = |il| sample.pdb.point_at(move_next, il).unwrap().span.unwrap().start_line;
        assert_eq!((at(step.yields_at), at(step.resumes_at), step.resumes_in), (line, line, move_next));
        assert!(step.yields_at < step.resumes_at);
    }
    // Nobody awaits a method that returns nothing.
    let fire = sample.method("Sample.Program+<Fire>d__4", "MoveNext");
    let stepping = sample.pdb.async_stepping(fire).unwrap().unwrap();
    let body = sample.assembly.method(fire).unwrap().body().unwrap().unwrap();
    assert_eq!(stepping.catch_handler, body.clauses.last().map(|clause| clause.handler.start));
    assert_eq!(sample.pdb.async_stepping(sample.program("Main")), Ok(None));
}

#[test]
fn locals_of_a_state_machine_have_scopes_by_their_numbers() {
    let sample = Sample::open();
    let machine = sample.type_named("Sample.Program+<Numbers>d__2");
    let move_next = sample.method("Sample.Program+<Numbers>d__2", "MoveNext");
    let scopes = sample.pdb.hoisted_scopes(move_next).unwrap();
    let scope_of = |name: &str| {
        let prefix = format!("<{name}>5__");
        let number =
            machine.fields().find_map(|field| field.name()?.strip_prefix(&prefix)?.parse::<usize>().ok());
        scopes[number.unwrap() - 1].il.clone()
    };
    let (outer, inner) = (scope_of("i"), scope_of("doubled"));
    assert!(outer.start < inner.start && inner.end < outer.end, "{outer:?} {inner:?}");
    assert!(inner.contains(&sample.il(move_next, "yield")));
}
