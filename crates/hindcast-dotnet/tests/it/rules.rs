//! Expressions mean what they mean in C#: `Rules.cs` prints what the compiler makes of them.

use hindcast_core::debug::{StopReason, ValueLimits, Variable, VariableScope};
use hindcast_fixtures::dotnet::Runtime;

use crate::{
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{assigned, called, check, read, set},
    values::scope,
};

fn stand(runtime: &Runtime, mark: &str) -> Debuggee {
    let mut debuggee = Plan::of("Rules").launch(runtime);
    debuggee.break_at(mark);
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

/// The type instead of the value.
fn type_of(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    read(debuggee, expression).map(|found| Variable { value: found.type_name.clone(), ..found })
}

on_both! {
    fn the_overload_runs_that_csharp_takes(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        check(&mut debuggee, &[
            ("Derived(tile)", "\"square\""),
            ("Derived(shape)", "\"shape\""),
            ("Derived(null)", "\"square\""),
            ("Derived((Square)shape)", "\"square\""),
            ("Nullable(5)", "\"int? 5\""),
            ("Nullable(seven)", "\"int? 7\""),
            ("Nullable(none)", "\"int? \""),
            ("Nullable(small)", "\"int? 3\""),
            ("Nullable(\"x\")", "\"object\""),
            ("Items(list)", "\"list\""),
            ("Items(array)", "\"list\""),
            ("Items((IEnumerable<int>)list)", "\"enumerable\""),
            ("Items(\"x\")", "\"object\""),
            ("Boxed(boxed)", "\"object\""),
            ("Boxed((object)5)", "\"object\""),
            ("Boxed(small)", "\"int\""),
            ("Wide(number)", "\"long? 5\""),
            ("Wide(none)", "\"long? \""),
            ("Narrow(5)", "\"short\""),
            ("Any(5)", "error: `params`"),
            ("Any(boxed)", "\"object\""),
            ("Generic(number)", "\"Int32\""),
            ("Generic(boxed)", "\"object\""),
            ("Generic(seven)", "\"Nullable`1\""),
            ("Inside(list)", "\"Int32\""),
            ("Comparable(number)", "\"comparable 5\""),
            ("Comparable(\"x\")", "\"comparable x\""),
            ("Both(1, 2L)", "\"int long\""),
            ("Both(1, 2)", "error: could mean each of Both(int, long), Both(long, int)"),
            ("shape.Hidden(1)", "\"public long\""),
            ("shape.Own(1)", "\"own private int\""),
            ("square.Same(1)", "\"square double\""),
            ("shape.Same(1)", "\"shape int\""),
            ("tile.Pick(\"x\")", "\"square string\""),
            ("shape.Pick(\"x\")", "\"square object\""),
            ("tile.Pick(5)", "\"square object\""),
        ], called);
    }

    fn what_only_code_tells_is_asked_for_and_told(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        let told = [
            ("greeter.Hello()", "\"hello\""),
            ("((Greeter)greeter).Hello()", "\"own hello\""),
            ("typeof(Rules).Name", "\"Rules\""),
            ("typeof(int).Name", "\"Int32\""),
            ("default(DateTime).Year", "1"),
            ("builder[1]", "'b'"),
            ("array.GetLength(0)", "1"),
            ("(int)money", "2"),
            ("register[1]", "\"a\""),
            ("register[3]", "\"bcd\""),
            ("hundreds[1]", "500"),
            ("new Size().Width", "0"),
            ("none.ToString()", "\"\""),
            ("none.GetValueOrDefault(3)", "3"),
            ("seven.GetValueOrDefault()", "7"),
            ("Enum.GetName(typeof(Hue), 6)", "\"Blue\""),
            ("Native(5)", "\"nint 5\""),
            ("Sized(size)", "\"size? size 3\""),
            ("Sized(null)", "\"size? \""),
            ("(money + 1).Cents", "350"),
            ("Paid(3, \"card\")", "\"300 by card\""),
        ];
        check(&mut debuggee, &told, called);
        check(&mut debuggee, &[("(string)text + hue", "\"textBlue\""), ("text == (object)\"text\"", "error: ")], called);
        let asked = told.map(|(expression, _)| (expression, "error: allow_calls"));
        check(&mut debuggee, &asked, read);
        check(&mut debuggee, &[("default(Hue)", "Red"), ("default(int?)", "null"), ("typeof(int)", "int")], read);
    }

    fn arguments_with_names_go_to_their_parameters(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        check(&mut debuggee, &[
            ("Named(second: 3, first: 1)", "\"1 3 x\""),
            ("Named(1, third: \"y\")", "\"1 7 y\""),
            ("Named(1)", "\"1 7 x\""),
            ("Named(second: 3)", "error: no overload"),
            ("Named(1, nope: 3)", "error: no overload"),
        ], called);
    }

    fn a_method_without_a_result_returns_nothing(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        let found = called(&mut debuggee, "Nothing()").unwrap();
        assert_eq!((found.type_name.as_str(), found.value.as_str()), ("void", "returned nothing"));
        check(&mut debuggee, &[("Boxed(Nothing())", "error: "), ("Nothing() + 1", "error: no value")], called);
    }

    fn operators_give_what_csharp_gives(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "operators");
        let seen = [
            ("seven is int", "true"),
            ("none is int", "false"),
            ("(three | five) is object", "true"),
            ("boxed is 17", "true"),
            ("boxed is 17L", "false"),
            ("2.5 is object", "true"),
            ("missing + 5", "\"5\""),
            ("missing + missing", "\"\""),
            ("\"a\" + hue", "\"aBlue\""),
            ("\"a\" + right", "\"aRead, Write\""),
            ("right + \"a\"", "\"Read, Writea\""),
            ("$\"{right} {hue}\"", "\"Read, Write Blue\""),
            ("\"x\" + none", "\"x\""),
            ("(yes ? 1 : 2.0) / 2", "0.5"),
            ("(yes ? small : 1L) / 3", "66"),
            ("(seven ?? 2.5) / 2", "3.5"),
            ("(none ?? small) / 3", "66"),
            ("~tiny", "5"),
            ("small - tiny", "206"),
            ("right & ~Right.Write", "Read"),
            ("hue - Hue.Red", "6"),
            ("~hue", "-7"),
            ("1 + hue", "7"),
            ("(object)1 == (object)1", "false"),
            ("boxed == (object)17", "false"),
            ("(long)boxed", "error: a `int` in an `object`"),
            ("(long)(int)boxed", "17"),
            ("(int)none", "error: "),
            ("none + nothing", "null"),
            ("none < nothing", "false"),
            ("none == nothing", "true"),
            ("seven + none", "null"),
            ("(int?)five + 1", "6"),
            ("half * 2", "1"),
        ];
        check(&mut debuggee, &seen, read);
        check(&mut debuggee, &seen, called);
        check(&mut debuggee, &[("\"x\" + size", "error: allow_calls"), ("$\"{size}\"", "error: allow_calls")], read);
        check(&mut debuggee, &[("\"x\" + size", "\"xsize 3\""), ("$\"{size}\"", "\"size 3\"")], called);
        check(&mut debuggee, &[
            ("~tiny", "Tiny"),
            ("small - tiny", "Tiny"),
            ("tiny - Tiny.Low", "byte"),
            ("right & ~Right.Write", "Right"),
            ("none + nothing", "long?"),
            ("seven + 1", "int?"),
            ("yes ? 1 : 2.0", "double"),
            ("seven ?? five", "int"),
        ], type_of);
    }

    fn extension_methods_are_called_on_what_they_extend(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        check(&mut debuggee, &[
            ("number.Twice()", "10"),
            ("small.Twice()", "error: has no member `Twice`"),
            ("list.Joined()", "\"1\""),
            ("array.Joined(by: \"+\")", "\"1\""),
            ("\"ab\".Joined()", "\"a-b\""),
            ("tile.Named(\"a\")", "\"a Tile\""),
            ("list.First() + array.Sum()", "2"),
            ("list.Count()", "1"),
            ("list.Any()", "true"),
            ("list.Contains(1)", "true"),
            ("array.Contains(2)", "false"),
            ("list.Concat(array).ToList()", "[1, 1]"),
            ("list.Cast<object>().Count()", "1"),
            ("hundreds.Max()", "5"),
            ("list.Last()", "\"own last\""),
            ("seven.Kind()", "\"int?\""),
            ("((object)number).Kind()", "\"object\""),
            ("((IComparable)number).Kind()", "\"comparable\""),
            ("number.Kind()", "\"comparable\""),
            ("text.Only()", "\"class\""),
            ("number.Only()", "error: has no member `Only`"),
            // C# takes its own, or the one by reference.
            ("shape.In(number)", "error: `In` has no overload"),
            ("size.By()", "error: `ref`, `in` or `out`"),
            ("list.Nowhere()", "error: has no member `Nowhere`"),
            ("list.First(1)", "error: `First` has no overload"),
            ("number.Joined()", "error: has no member `Joined`"),
            ("Twice()", "error: has no member `Twice`"),
        ], called);
        check(&mut debuggee, &[("list.First()", "error: allow_calls")], read);
    }

    fn a_property_of_an_interface_is_the_one_that_the_object_has_for_it(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "calls");
        check(&mut debuggee, &[("greeter.Volume", "error: allow_calls"), ("((Greeter)greeter).Volume", "1")], read);
        check(&mut debuggee, &[("greeter.Volume", "2.5"), ("((Greeter)greeter).Volume", "1")], called);
    }

    fn a_branch_that_is_not_taken_gives_its_type(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "branches");
        let unknown = "error: cast a branch";
        let seen = [
            ("(yes ? 1 : Half()) / 2", "0.5"),
            ("(yes ? 1 : Whole()) / 2", "0"),
            ("(yes ? one : Tenth) / 2", "0.5"),
            ("(yes ? 1 : scale.Computed()) / 2", "0.5"),
            ("(none != null ? none.Factor : 1) / 2", "0.5"),
            ("(none != null ? none.Count : 1) / 2", "0"),
            ("(none?.Factor ?? 1) / 2", "0.5"),
            ("(none?.Count ?? 1) / 2", "0"),
            ("(none?.Computed() ?? 1) / 2", "0.5"),
            ("(none?.Next.Factor ?? 1) / 2", "0.5"),
            ("(yes ? 1 : (double)Whole()) / 2", "0.5"),
            ("(yes ? 1 : positive) - 2", "4294967295"),
            ("yes ? 0 : hue", "Red"),
            ("yes ? hue : Same(hue)", "Blue"),
            // Which type it returns depends on its arguments.
            ("(yes ? 1 : Same(2.5)) / 2", unknown),
            ("yes ? 1 : Whole() * 2.5", unknown),
            ("yes ? \"x\" : Same(2.5)", "\"x\""),
        ];
        check(&mut debuggee, &seen, read);
        check(&mut debuggee, &seen, called);
        check(&mut debuggee, &[("(yes ? 1 : money).Cents", "error: allow_calls")], read);
        check(&mut debuggee, &[("(yes ? 1 : money).Cents", "100")], called);
        check(&mut debuggee, &[
            ("none?.Count", "int?"),
            ("none?.Next", "Scale"),
            ("yes ? 1 : Half()", "double"),
        ], type_of);
    }

    fn a_key_is_called_missing_only_where_all_were_looked_at(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "branches");
        check(&mut debuggee, &[("many[29999]", "29999"), ("many[-1]", "error: no item with the key -1")], read);
        check(&mut debuggee, &[("many[29999]", "29999"), ("many[-1]", "error: KeyNotFoundException")], called);
    }

    fn a_real_that_is_too_large_is_cast_only_where_the_result_is_certain(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "branches");
        let (largest, least) = match runtime.version.starts_with('3') {
            true => ("error: 3000000000 is no `int`", "error: -2.5 is no `uint`"),
            false => ("2147483647", "0"),
        };
        check(&mut debuggee, &[
            ("(int)large", largest),
            ("(int?)large", largest),
            ("(uint)below", least),
            ("(long)large", "3000000000"),
            ("(uint)large", "3000000000"),
            ("(int)below", "-2"),
            ("(byte)below", "254"),
        ], read);
    }

    fn a_struct_that_is_a_copy_is_not_changed(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "branches");
        check(&mut debuggee, &[
            ("scales[0].Number = 70", "error: is a copy"),
            ("scale.Mark.Number = 70", "error: is a copy"),
            ("(yes ? mark : marks[0]).Number = 70", "error: is a copy"),
            ("((Mark)boxed).Number = 70", "error: is a copy"),
            ("mark.Number = 6", "6"),
            ("pair.first.Number = 7", "7"),
            ("marks[0].Number = 80", "80"),
            ("scale.Held.Number = 90", "90"),
        ], assigned);
        // The older runtime has nothing there before the type is used.
        let (common, kept) = match runtime.version.starts_with('3') {
            true => ("error: not initialised yet", "error: not initialised yet"),
            false => ("error: is a copy", "5"),
        };
        let statics = [("Scale.Common.Number = 70", common), ("Scale.Kept.Number = 5", kept)];
        check(&mut debuggee, &statics, assigned);
        debuggee.go_on();
        let last = debuggee.printed().lines().find(|line| line.starts_with("-2 ")).unwrap().to_owned();
        let kept = if runtime.version.starts_with('3') { 0 } else { 5 };
        assert_eq!(last, format!("-2 0 1 80 90 3000000000 0 {kept} 6 7 0 1"));
    }

    fn items_are_assigned_by_the_setter(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "assigned");
        check(&mut debuggee, &[
            ("shelves[1] = 50", "error: allow_calls"),
            ("ages[\"new\"] = 1", "error: allow_calls"),
            ("fixedAges[\"a\"] = 1", "error: no indexer that sets"),
            ("builder = null", "null"),
        ], assigned);
        check(&mut debuggee, &[
            ("ages[\"a\"] = 7", "7"),
            ("ages[\"a\"]", "7"),
            ("ages[\"a\"] += 2", "9"),
            ("ages[\"b\"] = 8", "8"),
            ("sorted[\"a\"] = 7", "7"),
            ("sorted[\"b\"] = 6", "6"),
            ("shelves[1] = 50", "50"),
            ("shelves[\"a\"] = 9", "9"),
            ("shelves[\"b\"] = 9", "9"),
            ("shelves[5] = 9", "error: IndexOutOfRangeException"),
            ("shelves.Sum = 9", "error: cannot be assigned to"),
            ("sizes[\"k\"].Width = 80", "error: is a copy"),
            ("fixedAges[\"a\"] = 1", "error: "),
            ("sizes[\"k\"]", "{Width = 1}"),
        ], set);
        debuggee.go_on();
        let last = debuggee.printed().lines().last().unwrap().to_owned();
        assert_eq!(last, "[a, 9] [b, 8] [a, 7] [b, 6] 100 9 104 size 1 1 Square 5 Tile ");
    }

    fn what_may_be_assigned_is_told_by_the_declared_type(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "assigned");
        check(&mut debuggee, &[
            ("shape = other", "{}"),
            ("anything = 6", "error: allow_calls"),
            ("anything = \"x\"", "\"x\""),
            ("shape = anything", "error: cannot be assigned to a `Shape`"),
        ], assigned);
        check(&mut debuggee, &[("anything = 6", "6"), ("anything = 2.5", "2.5"), ("other = null", "null")], set);
        check(&mut debuggee, &[("other = shape", "{}"), ("anything is double", "true"), ("shape is Tile", "true")], set);
        debuggee.go_on();
        let last = debuggee.printed().lines().last().unwrap().to_owned();
        assert_eq!(last, "[a, 1] [a, 1] 2 1 6 size 1 1 Tile 2.5 Tile abc");
    }

    fn fields_of_types_that_nothing_has_used_are_null(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "assigned");
        check(&mut debuggee, &[
            ("unused.Document", "null"),
            ("unused.Document == null", "true"),
            ("unused.Node", "null"),
            ("unused.Nodes", "null"),
            ("unused.Document?.Name", "null"),
            ("unused.Document.Name", "error: null has no member `Name`"),
        ], read);
        let shown = scope(&mut debuggee, VariableScope::Local, ValueLimits::default());
        let shown = shown.iter().find(|variable| variable.name == "unused").unwrap();
        let parts: Vec<_> = shown.children.iter().map(|it| format!("{} {} = {}", it.type_name, it.name, it.value)).collect();
        assert_eq!(parts, [
            "int Number = 5",
            "XmlDocument Document = null",
            "XmlNode Node = null",
            "Dictionary<string, XmlNode> Nodes = null",
            "BigInteger? Large = null",
        ]);
    }

    fn a_nullable_whose_type_nothing_has_used_is_null_where_it_is_zero(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "assigned");
        if runtime.version.starts_with("3.") {
            check(&mut debuggee, &[("listener._allowNatTraversal", "error: has no member")], read);
            return;
        }
        check(&mut debuggee, &[("listener._allowNatTraversal", "null"), ("listener._allowNatTraversal == null", "true")], read);
    }

    fn a_map_of_fsharp_is_asked_by_key(runtime: &Runtime) {
        let mut debuggee = Plan::of("Shapes").launch(runtime);
        debuggee.break_at("values");
        debuggee.go_on();
        let seen = [("map[\"two\"]", "2"), ("map[\"one\"] + 1", "2")];
        check(&mut debuggee, &seen, read);
        check(&mut debuggee, &seen, called);
        check(&mut debuggee, &[("map[\"three\"]", "error: ")], read);
    }
}
