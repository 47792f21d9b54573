//! Null and what may be null mean what they mean in C#: `Nullables.cs` prints what the compiler makes of them.

use hindcast_core::debug::{StopReason, Variable};
use hindcast_fixtures::dotnet::Runtime;

use crate::{
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{assigned, called, check, read, set},
};

fn stand(runtime: &Runtime, mark: &str) -> Debuggee {
    let mut debuggee = Plan::of("Nullables").launch(runtime);
    debuggee.break_at(mark);
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

/// The value with its type before it.
fn typed(found: Variable) -> Variable {
    Variable { value: format!("{} {}", found.type_name, found.value), ..found }
}

fn typed_read(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    read(debuggee, expression).map(typed)
}

fn typed_call(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    called(debuggee, expression).map(typed)
}

fn typed_set(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    set(debuggee, expression).map(typed)
}

/// Both without code of the program and with it.
#[track_caller]
fn check_both(debuggee: &mut Debuggee, expected: &[(&str, &str)]) {
    check(debuggee, expected, typed_read);
    check(debuggee, expected, typed_call);
}

on_both! {
    fn a_null_that_is_a_text_is_joined(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check_both(&mut debuggee, &[
            ("(string)null + 1", "string \"1\""),
            ("1 + (string)null", "string \"1\""),
            ("default(string) + order.State", "string \"Paid\""),
            ("(yes ? null : text) + 1", "string \"1\""),
            ("(no ? text : null) + small", "string \"3\""),
            ("(nobody?.Name) + 1", "string \"1\""),
            ("(string)null + null", "string \"\""),
            ("missing + 1", "string \"1\""),
            ("none + 1", "int? null"),
            ("null + seven", "int? null"),
            ("(string)null == missing", "bool true"),
            ("(yes ? null : seven) + 1", "int? null"),
            ("(nobody?.Extended()) + 1", "string \"1\""),
        ]);
    }

    fn a_nullable_struct_has_the_members_of_its_value_behind_a_question_mark(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check_both(&mut debuggee, &[
            ("some?.Amount", "int? 2"),
            ("nothing?.Amount", "int? null"),
            ("nothing?.Currency", "string null"),
            ("some?.Currency", "string \"USD\""),
            ("nothing?.ToString()", "string null"),
            ("some == null", "bool false"),
            ("some != null", "bool true"),
            ("nothing == null", "bool true"),
            ("null != nothing", "bool false"),
            ("some is null", "bool false"),
            ("unknown == null", "bool true"),
            ("paid != null", "bool true"),
            ("(some ?? money).Amount", "int 2"),
            ("(nothing ?? money).Amount", "int 2"),
            ("((Money)some).Amount", "int 2"),
            ("((Money?)money)?.Amount", "int? 2"),
            ("((Money?)money).HasValue", "bool true"),
            ("((int?)small).Value", "int 3"),
            ("((int?)small).HasValue", "bool true"),
            ("some.HasValue", "bool true"),
            ("nothing.HasValue", "bool false"),
            ("some.Value.Amount", "int 2"),
            ("paid.Value", "Status Paid"),
            ("(Money)nothing", "error: nothing in it that could be a `Money`"),
            ("nothing.Value", "error: null has no member `Value`"),
            ("some?.Amuont", "error: `Money` has no member `Amuont`"),
            ("nothing?.Amuont", "error: `Money` has no member `Amuont`"),
            ("(object)nothing == null", "bool true"),
            ("(object)some == null", "bool false"),
        ]);
        check(&mut debuggee, &[
            ("some?.ToString()", "string \"2 USD\""),
            ("nothing.GetValueOrDefault().Amount", "int 0"),
            ("some.GetValueOrDefault().Amount", "int 2"),
            ("nothing.GetValueOrDefault(money).Amount", "int 2"),
            ("unknown.GetValueOrDefault()", "Status New"),
            ("none.GetValueOrDefault()", "int 0"),
            ("nothing.ToString()", "string \"\""),
            ("some.ToString()", "string \"2 USD\""),
            ("(nothing ?? 6).Amount", "int 6"),
            ("(some ?? 6).Amount", "int 2"),
            ("((Money?)6)?.Amount", "int? 6"),
            ("((Money)6).Amount", "int 6"),
            ("nothing.GetType()", "error: null has no member `GetType`"),
        ], typed_call);
    }

    fn the_type_of_a_value_or_another_is_as_in_csharp(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check_both(&mut debuggee, &[
            ("seven ?? 0", "int 7"),
            ("none ?? 0", "int 0"),
            ("none ?? seven", "int? 7"),
            ("seven ?? none", "int? 7"),
            ("seven ?? 2.5", "double 7"),
            ("none ?? small", "int 3"),
            ("tiny ?? 5", "byte 4"),
            ("tiny ?? seven", "int? 4"),
            ("unknown ?? state", "Status Shipped"),
            ("unknown ?? 0", "Status New"),
            ("missing ?? text", "string \"text\""),
            ("null ?? order.Tag", "error: `null` has no type"),
            ("null ?? text", "error: `null` has no type"),
            ("yes ? 0 : unknown", "Status? New"),
            ("yes ? state : unknown", "Status? Shipped"),
            ("no ? 0 : paid", "Status? Paid"),
            ("yes ? 1 : small", "int 1"),
            ("yes ? default(int) : unknown", "Status? New"),
            ("yes ? none : boxed", "object null"),
            ("lost ?? boxed", "int 5"),
            ("(Customer)(object)lost", "Customer null"),
            ("none / (small - small)", "int? null"),
            ("none % (small - small)", "int? null"),
            ("(Status)boxed", "Status Paid"),
            ("(int)boxedState", "int 5"),
            ("(Status?)boxed", "error: is no `Status?`"),
            ("(Status?)boxedState", "Status? Paid"),
            ("(int?)boxedState", "error: is no `int?`"),
        ]);
        let structs = [("(Money)some", "Money"), ("(Money?)money", "Money?"), ("some ?? money", "Money"), ("nothing ?? some", "Money?"), ("some ?? nothing", "Money?"), ("order?.Price", "Money?"), ("lost?.Price", "Money?"), ("some", "Money?")];
        check(&mut debuggee, &structs, |debuggee, expression| {
            read(debuggee, expression).map(|found| Variable { value: found.type_name.clone(), ..found })
        });
    }

    fn a_chain_that_is_null_has_its_type_and_no_member_that_there_is_not(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check_both(&mut debuggee, &[
            ("lost?.Customer?.Id", "int? null"),
            ("order?.Customer?.Id", "int? 9"),
            ("order?.Id", "int? 4"),
            ("(order?.Id).Value", "int 4"),
            ("lost?.State", "Status? null"),
            ("order?.State", "Status? Paid"),
            ("order?.Price.Amount", "int? 7"),
            ("lost?.Customer.Name.Length", "int? null"),
            ("order?.Discount?.Amount", "int? null"),
            ("lost?.Discount?.Amount", "int? null"),
            ("lost?.Count()", "int? null"),
            ("lost?.Customer?.ToString()", "string null"),
            ("list?.Count", "int? null"),
            ("list?[0]", "int? null"),
            ("list?.ToString()", "string null"),
            ("nobody?.Extended()", "string null"),
            ("missing?.Length", "int? null"),
            ("nobody?.Nmae", "error: `Customer` has no member `Nmae`"),
            ("order.Customer?.Nmae", "error: `Customer` has no member `Nmae`"),
            ("lost?.Customer?.Nothing", "error: `Customer` has no member `Nothing`"),
            ("lost?.Custmoer?.Id", "error: `Order` has no member `Custmoer`"),
            ("lost?.Customer.Nmae.Length", "error: `Customer` has no member `Nmae`"),
            ("missing?.Foo()", "error: `string` has no member `Foo`"),
            ("list?.Foo()", "error: has no member `Foo`"),
        ]);
    }

    fn values_are_put_into_objects_for_parameters_that_take_objects(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check(&mut debuggee, &[
            ("option.HasFlag(Option.Gift)", "bool true"),
            ("Option.Fast.HasFlag(Option.Gift)", "bool false"),
            ("option.HasFlag(option)", "bool true"),
            ("state.HasFlag(Status.Shipped)", "bool true"),
            ("state.Equals(Status.Shipped)", "bool true"),
            ("state.CompareTo(Status.New)", "int 1"),
            ("money.Equals(money)", "bool true"),
        ], typed_call);
    }

    fn a_type_is_compared_with_that_of_an_object(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        let seen = [
            ("order.GetType() == typeof(Order)", "bool true"),
            ("order.GetType() == typeof(Customer)", "bool false"),
            ("typeof(Order) != order.GetType()", "bool false"),
            ("typeof(List<int>).Name", "string \"List`1\""),
        ];
        check(&mut debuggee, &seen, typed_call);
        check(&mut debuggee, &[("typeof(Order) == null", "error: allow_calls")], read);
    }

    fn a_parameter_of_the_frame_is_the_type_that_stands_for_it(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "generic");
        check_both(&mut debuggee, &[
            ("typeof(T)", "System.Type int"),
            ("typeof(TOther)", "System.Type long"),
            ("default(T)", "int 0"),
            ("default(TOther)", "long 0"),
            ("(T)boxed", "int 9"),
            ("boxed is T", "bool true"),
            ("boxed is TOther", "bool false"),
            ("(TOther)item", "long 7"),
            ("(T?)item", "int? 7"),
            ("default(TOhter)", "error: no type `TOhter`"),
        ]);
        check(&mut debuggee, &[("typeof(T).Name", "\"Int32\"")], called);
    }

    fn a_setter_runs_without_the_getter(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "setters");
        check(&mut debuggee, &[("cell.Doubled = 5", "error: the property has no setter [Advice(\"change the part")], assigned);
        check(&mut debuggee, &[
            ("cell.Doubled = 5", "error: the property has no setter [Advice(\"change the part"),
            ("cell.Held = 5", "int 5"),
            ("cell.Wide = 6", "long 6"),
            ("cell.Plain = cell.Held = 7", "int 7"),
            ("wide = cell.Held = 8", "long 8"),
            ("cell[1] = 9", "int 9"),
            ("(cell.Price = 4).Amount", "int 4"),
            ("cell.Reads", "int 0"),
            ("cell.Writes", "int 6"),
            ("cell.Held += 1", "int 110"),
            ("cell[1] += 1", "int 112"),
            ("cell.Reads", "int 2"),
            ("cell.Writes", "int 8"),
            ("cell.Plain", "int 7"),
            ("wide", "long 8"),
            ("any = cell.Held = 3", "int 3"),
            ("Cell.Shared = 5", "int 5"),
            ("Cell.Told", "int 5"),
            ("Cell.Asked", "int 0"),
            ("Cell.Shared += 1", "int 106"),
            ("Cell.Asked", "int 1"),
        ], typed_set);
    }

    fn a_property_without_a_setter_is_told_as_such(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "nulls");
        check(&mut debuggee, &[("day.Day = 5", "error: the property has no setter [Advice(\"change the part")], assigned);
        check(&mut debuggee, &[("day.Day = 5", "error: the property has no setter [Advice(\"change the part")], set);
    }
}
