//! Items, operators and members that the language finds without a method of the object's own class.

use hindcast_core::debug::StopReason;
use hindcast_fixtures::dotnet::Runtime;

use crate::{
    debuggee::{Debuggee, Plan, on_both},
    evaluate::{assigned, called, check, read},
};

fn stand(runtime: &Runtime, program: &str, mark: &str) -> Debuggee {
    let mut debuggee = Plan::of(program).launch(runtime);
    debuggee.break_at(mark);
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

on_both! {
    fn an_operator_is_the_one_whose_types_are_nearest_to_the_literal(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Values", "primitives");
        check(&mut debuggee, &[
            ("big > 5", "true"),
            ("big == 7", "false"),
            ("5 < big", "true"),
            ("big != 7L", "true"),
            ("7ul >= big", "false"),
        ], called);
    }

    fn items_of_buffers_and_pointers_are_read_in_place(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Values", "buffers");
        check(&mut debuggee, &[
            ("fixedBuffer.Numbers[2]", "77"),
            ("fixedBuffer.Numbers[2] + 1", "78"),
            ("fixedBuffer.Numbers[0]", "0"),
            ("fixedBuffer.Numbers[99]", "error: 99 is outside of the"),
            ("fixedBuffer[0]", "error: `FixedBuffer` has no items by number or key"),
            ("bits[2]", "error: allow_calls"),
        ], read);
        check(&mut debuggee, &[
            ("bits[2]", "true"),
            ("bits[1]", "false"),
            ("fixedBuffer[0]", "error: `FixedBuffer` has no items by number or key"),
        ], called);
        let mut debuggee = stand(runtime, "Values", "spans");
        check(&mut debuggee, &[
            ("pointer[0]", "17"),
            ("pointer[0] + 1", "18"),
            ("untyped[0]", "error: an item of a pointer to no primitive type is not supported"),
        ], read);
    }

    fn what_an_interface_does_itself_is_read_like_what_the_class_does(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Inheritance", "speak");
        let told = [
            ("((IGreeter)animal).Prefix", "\"wo\""),
            ("((IGreeter)animal)[3]", "\"wo3\""),
            ("((ILabelled)animal).Label", "\"label 1\""),
        ];
        check(&mut debuggee, &told, called);
        check(&mut debuggee, &told.map(|(expression, _)| (expression, "error: allow_calls")), read);
        check(&mut debuggee, &[("((IGreeter)animal).Suffix", "error: no member")], called);
    }

    fn a_field_whose_type_the_runtime_does_not_know_is_not_said_to_be_unused(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Rules", "assigned");
        if runtime.version.starts_with("3.") {
            assert_eq!(debuggee.evaluate("parsed"), "null", "it has no such class");
            return;
        }
        let why = "error: `_jsonElement` cannot be read: the runtime has not loaded its type, and does not tell the value";
        check(&mut debuggee, &[("parsed._jsonElement", why), ("parsed._jsonElement.HasValue", why)], read);
        check(&mut debuggee, &[("parsed._jsonElement = null", why)], assigned);
    }
}
