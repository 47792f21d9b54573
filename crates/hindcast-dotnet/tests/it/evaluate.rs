//! Expressions in a stopped program.

use std::time::Duration;

use hindcast_core::debug::{CodeBreakpoint, DebugError, Granularity, Movement, Place, StopReason, Variable};
use hindcast_fixtures::dotnet::Runtime;

use crate::debuggee::{Debuggee, Plan, on_both};

/// Time enough for code that returns at once.
const ALLOWED: Duration = Duration::from_secs(20);

fn stand(runtime: &Runtime, program: &str, mark: &str) -> Debuggee {
    let mut debuggee = Plan::of(program).launch(runtime);
    debuggee.break_at(mark);
    assert_eq!(debuggee.go_on().reason, StopReason::Breakpoint);
    debuggee
}

/// An error with its remedies.
fn told(error: &DebugError) -> String {
    format!("{error} {:?}", error.remedies())
}

/// Evaluates with code of the program.
pub(crate) fn called(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    let mut evaluation = debuggee.evaluation(expression);
    evaluation.allow_calls = Some(ALLOWED);
    debuggee.backend.evaluate(&evaluation).map_err(|error| told(&error))
}

pub(crate) fn assigned(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    let mut evaluation = debuggee.evaluation(expression);
    evaluation.may_write = true;
    debuggee.backend.evaluate(&evaluation).map_err(|error| told(&error))
}

/// Assigns with code of the program.
pub(crate) fn set(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    let mut evaluation = debuggee.evaluation(expression);
    (evaluation.allow_calls, evaluation.may_write) = (Some(ALLOWED), true);
    debuggee.backend.evaluate(&evaluation).map_err(|error| told(&error))
}

/// All of these together, so that one run shows all that is wrong.
#[track_caller]
pub(crate) fn check(
    debuggee: &mut Debuggee,
    expected: &[(&str, &str)],
    with: fn(&mut Debuggee, &str) -> Result<Variable, String>,
) {
    let mut wrong = Vec::new();
    for (expression, value) in expected {
        let found = match with(debuggee, expression) {
            Ok(variable) => variable.value,
            Err(error) => format!("error: {error}"),
        };
        let fits = match value.strip_prefix("error: ") {
            Some(part) => found.starts_with("error: ") && found.contains(part),
            None => found == *value,
        };
        if !fits {
            wrong.push(format!("{expression}: {found}, not {value}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

pub(crate) fn read(debuggee: &mut Debuggee, expression: &str) -> Result<Variable, String> {
    let evaluation = debuggee.evaluation(expression);
    debuggee.backend.evaluate(&evaluation).map_err(|error| told(&error))
}

on_both! {
    fn arithmetic_comparisons_and_texts_are_computed(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("number", "7"),
            ("number + 1", "8"),
            ("number * wide - 6", "50"),
            ("number / 2", "3"),
            ("number / 2.0", "3.5"),
            ("number % 4", "3"),
            ("-number", "-7"),
            ("number << 2", "28"),
            ("ratio * 2", "5"),
            ("number > 6 && yes", "true"),
            ("number == 7 || nothing.Length > 1", "true"),
            ("!yes", "false"),
            ("text == \"seven\"", "true"),
            ("text + number", "\"seven7\""),
            ("text + '!'", "\"seven!\""),
            ("$\"{text} is {number}\"", "\"seven is 7\""),
            ("text.Length", "5"),
            ("text[0]", "'s'"),
            ("text[^1]", "'n'"),
            ("letter == 'x'", "true"),
            ("nothing == null", "true"),
            ("nothing ?? text", "\"seven\""),
            ("nothing?.Length", "null"),
            ("text?.Length", "5"),
            ("yes ? number : 0", "7"),
            ("maybe", "3"),
            ("maybe.HasValue", "true"),
            ("maybe.Value + 1", "4"),
            ("maybe == 3", "true"),
            ("maybe ?? 9", "3"),
            ("(byte)(number + 250)", "1"),
            ("(double)number", "7"),
            ("number / 0", "error: "),
            ("nope", "error: there is no `nope` here"),
            ("calculator.Nope", "error: has no member `Nope`"),
            ("nothing.Length", "error: null has no member `Length`"),
            ("number +", "error: "),
        ], read);
    }

    fn members_and_items_are_found(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("calculator.Start", "40"),
            ("calculator.Self.Start", "error: allow_calls"),
            ("calculator.Calls", "0"),
            ("calculator.memory[\"pi\"]", "3"),
            ("numbers[1]", "2"),
            ("numbers[^1]", "3"),
            ("numbers[number - 6]", "2"),
            ("numbers.Length", "3"),
            ("numbers[3]", "error: 3 is outside of the 3 items"),
            ("numbers[-1]", "error: outside"),
            ("words[0]", "\"a\""),
            ("words.Count", "2"),
            ("words[^1]", "\"b\""),
            ("ages[\"Ann\"]", "30"),
            ("ages[\"Bob\"]", "error: there is no item with the key \"Bob\""),
            ("ages.Count", "1"),
            ("vector.X + vector.Y", "5"),
            ("boxed", "5"),
            ("(int)boxed + 1", "6"),
            ("boxed is int", "true"),
            ("boxed is string", "false"),
            ("boxed as string", "null"),
            ("calculator is Calculator", "true"),
            ("(object)text is string", "true"),
            ("day", "Monday"),
            ("day == DayOfWeek.Monday", "true"),
            ("(int)day", "1"),
            ("(DayOfWeek)3", "Wednesday"),
            ("total", "0"),
            ("Eval.total", "0"),
            ("Fixtures.Eval.total", "0"),
            ("Calculator.StaticCalls", "0"),
            ("Fixtures.Calculator.StaticCalls", "0"),
            ("int.MaxValue", "2147483647"),
            ("string.Empty", "\"\""),
            ("typeof(int)", "int"),
            ("nameof(calculator.Start)", "\"Start\""),
            ("sizeof(long)", "8"),
            ("default(int)", "0"),
            ("$exception", "error: no exception"),
        ], read);
    }

    fn enums_grids_and_tuples_are_understood(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Values", "arrays");
        check(&mut debuggee, &[
            ("grid[1, 2]", "6"),
            ("grid[2, 0]", "error: outside"),
            ("cube[1, 0, 1]", "9"),
            ("jagged[1][1]", "3"),
            ("shifted[4]", "error: 4 is outside of [5] to [7]"),
            ("mixed[1]", "\"two\""),
            ("points[1].Y", "4"),
            ("((Point)mixed[4]).X", "4"),
        ], read);
        debuggee.break_at("enums");
        debuggee.go_on();
        check(&mut debuggee, &[
            ("color == Color.Green", "true"),
            ("Color.Blue", "Blue"),
            ("(int)Color.Blue", "10"),
            ("some == (Access.Read | Access.Execute)", "true"),
            ("some & Access.Read", "Read"),
            ("(some & Access.Write) != 0", "false"),
            ("Access.Read | Access.Write", "Read | Write"),
            ("wide == Wide.Top", "true"),
            ("maybe == Color.Blue", "true"),
            ("color > Color.Red", "true"),
        ], read);
        debuggee.break_at("tuples");
        debuggee.go_on();
        check(&mut debuggee, &[
            ("named.Count + 1", "3"),
            ("named.Item2", "\"two\""),
            ("nested.Nested.Numbers[1]", "2"),
            ("eight.Item9", "9"),
            ("anonymous.Inside.Deep", "'d'"),
            ("person.City", "\"Oslo\""),
            ("older.Age - person.Age", "1"),
        ], read);
        debuggee.break_at("objects");
        debuggee.go_on();
        check(&mut debuggee, &[
            ("derived.name", "\"renamed\""),
            ("((Derived)derived).name", "\"derived\""),
            ("derived.Automatic", "5"),
            ("((Base)derived).ReadOnly", "\"fixed\""),
            ("derived is Base", "true"),
            ("shape is IShape", "true"),
            ("plain is Derived", "false"),
            ("node.Next.Next == node", "true"),
            ("node.Next?.Name", "\"tail\""),
            ("missing?.Automatic", "null"),
            ("Base.Limit + 1", "101"),
            ("Point.Origin.X", "error: not initialised yet"),
        ], read);
    }

    fn generic_types_and_captured_variables_are_found(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Generics", "boxes");
        check(&mut debuggee, &[
            ("Box<int>.Made", "101"),
            ("Box<string>.Made", "101"),
            ("Box<Box<int>>.Made", "101"),
            ("numbers.content + 1", "5"),
            ("pairs.content.content", "4"),
            ("entry.Key", "\"key\""),
            ("entry.Extra", "2.5"),
        ], read);
    }

    fn members_of_this_need_no_name_before_them(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Generics", "made");
        check(&mut debuggee, &[
            ("this.content", "4"),
            ("content * 2", "8"),
            ("Made", "100"),
            ("Known.Count", "1"),
            ("Known[\"last\"] == content", "true"),
            ("Box<int>.Made + 1", "101"),
        ], read);
    }

    fn members_of_this_are_found_from_a_closure(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Lambdas", "this_and_parameter");
        check(&mut debuggee, &[("field + parameter", "107"), ("this.field", "100"), ("base.field", "error: has no member")], read);
    }

    fn variables_of_closures_are_found(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Lambdas", "in_loop");
        check(&mut debuggee, &[("shared + copy", "0"), ("index", "3")], read);
    }

    fn what_needs_code_says_so(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("calculator.Add(1)", "error: allow_calls"),
            ("calculator.Counted", "error: allow_calls"),
            ("calculator[\"pi\"]", "error: allow_calls"),
            ("new Calculator(1)", "error: allow_calls"),
            ("text.ToUpper()", "error: allow_calls"),
            // What its type calls equal is code, too.
            ("calculator == calculator", "error: allow_calls"),
            ("-vector", "error: allow_calls"),
            ("calculator != null", "true"),
            ("number = 5", "error: debug:write"),
        ], read);
        check(&mut debuggee, &[("calculator.Calls", "0"), ("number", "7")], read);
    }

    fn code_of_the_program_runs_where_it_is_allowed(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("calculator.Add(2)", "42"),
            ("calculator.Calls", "1"),
            ("calculator.Add(ratio)", "42.5"),
            ("calculator.Add(text)", "\"40seven\""),
            ("calculator.Add(\"x\")", "\"40x\""),
            ("calculator.Add(yes)", "\"object True\""),
            ("calculator.Add(1, 2)", "3"),
            ("calculator.Counted", "2"),
            ("calculator.Calls", "2"),
            ("calculator.Self.Start", "40"),
            ("calculator.Nothing", "null"),
            ("calculator.Nothing.Start", "error: null has no member"),
            ("calculator[\"pi\"]", "3"),
            ("calculator[1, 2]", "102"),
            ("Calculator.Twice(4)", "8"),
            ("Fixtures.Calculator.Twice(Calculator.Twice(4))", "16"),
            ("Calculator.StaticCalls", "3"),
            ("calculator.Add(calculator.Add(1) + 3)", "84"),
            ("calculator.Echo<int>(5)", "5"),
            ("calculator.Echo<string>(text)", "\"seven\""),
            ("Calculator.Repeat<int>(3, 2)", "[3, 3]"),
            ("new Calculator(9).Start", "9"),
            ("new Calculator(9)", "{Calls = 0, memory = {[\"pi\"] = 3}, Start = 9}"),
            ("text.ToUpper()", "\"SEVEN\""),
            ("text.Substring(1, 2)", "\"ev\""),
            ("text.IndexOf('v')", "2"),
            ("\"abc\".ToUpper()", "\"ABC\""),
            ("vector.Sum()", "5"),
            ("vector.Scaled(2)", "{X = 4, Y = 6}"),
            ("words.Contains(\"b\")", "true"),
            ("string.Concat(text, \"!\")", "\"seven!\""),
            ("Math.Max(number, 9)", "9"),
            ("calculator.ToString()", "\"Calculator(40)\""),
            ("number.ToString()", "\"7\""),
            ("calculator.Reset()", "returned nothing"),
            ("calculator.Calls", "0"),
            ("calculator.Fail(\"oh\")", "error: ArgumentException: oh"),
            ("calculator.Throwing", "error: InvalidOperationException: property failed"),
            ("calculator.Add(number)", "47"),
            ("calculator.Echo(6)", "6"),
            ("square(number)", "49"),
            ("vector.Scaled(calculator.Add(-38)).Y", "6"),
            ("calculator.Add(1, calculator.Add(2))", "43"),
            ("calculator.Echo(DayOfWeek.Friday)", "Friday"),
            ("calculator.Add(DayOfWeek.Friday)", "\"object Friday\""),
            ("vector.GetType().Name", "\"Vector\""),
            ("vector.ToString()", "\"<2, 3>\""),
            ("boxed.ToString()", "\"5\""),
            ("day.ToString()", "\"Monday\""),
            ("calculator.Add(vector)", "\"object <2, 3>\""),
            ("string.Join(\"+\", words)", "\"a+b\""),
            ("calculator.Nope()", "error: has no member `Nope`"),
            ("calculator.Twice(\"x\")", "error: no overload"),
        ], called);
        debuggee.go_on();
    }

    fn operators_of_the_program_and_arguments_that_are_left_out(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("calculator == new Calculator(40)", "true"),
            ("calculator != new Calculator(40)", "false"),
            ("calculator == new Calculator(41)", "false"),
            ("(calculator + 2).Start", "42"),
            ("(calculator + calculator.Add(-38)).Start", "42"),
            ("vector * 3", "{X = 6, Y = 9}"),
            ("vector * calculator.Add(-38)", "{X = 4, Y = 6}"),
            ("-vector", "{X = -2, Y = -3}"),
            ("-number", "-7"),
            ("calculator + vector", "error: no overload"),
            ("\"is \" + vector", "\"is <2, 3>\""),
            ("calculator.Rounded(2.55m)", "\"2.6 1 Monday 0\""),
            ("calculator.Rounded(2.55m, 2)", "\"2.55 2 Monday 0\""),
            ("calculator.Rounded(1, 0, DayOfWeek.Friday)", "\"1 0 Friday 0\""),
            ("calculator.Rounded(1, 0, day, vector)", "\"1 0 Monday 5\""),
            ("decimal.Round(2.55m, 1)", "2.6"),
            ("Math.Max(2.5m, 3)", "3"),
        ], called);
        debuggee.go_on();
    }

    fn keys_are_compared_as_the_dictionary_does(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stood");
        check(&mut debuggee, &[
            ("loose[\"Ann\"]", "1"),
            // Only the dictionary's own code knows that it is the same.
            ("loose[\"ANN\"]", "error: allow_calls"),
            ("ages[\"nobody\"]", "error: no item with the key"),
        ], read);
        check(&mut debuggee, &[
            ("loose[\"ANN\"]", "1"),
            ("ages[\"Ann\"]", "30"),
            ("ages[\"nobody\"]", "error: KeyNotFoundException"),
        ], called);
    }

    fn members_are_those_of_the_declared_type(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Members", "stand");
        let seen = [
            ("known.Hidden", "1"),
            ("((Base)derived).Hidden", "1"),
            ("derived.Hidden", "2"),
            ("(known as Derived).Hidden", "2"),
            ("known.Overridden", "50"),
            ("derived.Overridden", "50"),
            ("known.Kept", "7"),
            ("row[0].Hidden", "1"),
            ("list[0].Hidden", "1"),
            ("names[\"one\"].Hidden", "1"),
            ("((Derived)list[0]).Hidden", "2"),
            ("last.Overridden", "50"),
            ("((Last)last).Overridden", "99"),
            ("known.Plain", "3"),
            // What only the object has is found without a cast.
            ("known.own", "50"),
            ("temperature.Counted", "0"),
        ];
        check(&mut debuggee, &seen, read);
        check(&mut debuggee, &seen, called);
        check(&mut debuggee, &[("one == same", "error: allow_calls"), ("known.OnlyHere", "error: allow_calls")], read);
        check(&mut debuggee, &[
            ("known.Method()", "1"),
            ("Same(derived).Hidden", "1"),
            ("Same(derived).Method()", "1"),
            ("derived.Method()", "2"),
            ("((Base)derived).Method()", "1"),
            ("known.Virtual()", "2"),
            ("last.Virtual()", "3"),
            ("((Base)last).Virtual()", "3"),
            ("known.Generic(1)", "\"derived\""),
            ("known.OnlyHere", "100"),
            ("Over(text)", "\"object\""),
            ("Over((string)text)", "\"string\""),
            ("one == same", "true"),
            ("(object)one == (object)same", "false"),
            ("$\"{ratio:F2}|{known.Hidden,4}|{known.Hidden,-4}|{temperature}|\"", "\"0.30|   1|1   |0.0 C|\""),
        ], called);
        check(&mut debuggee, &[("$\"{ratio:F2}\"", "error: allow_calls"), ("$\"{known.Hidden,4}\"", "\"   1\"")], read);
        let shown = debuggee.local_lines().into_iter().find(|line| line.starts_with("Derived known")).unwrap();
        assert!(shown.contains("Overridden (Base) = 1") && shown.contains("own = 50"), "{shown}");
    }

    fn setters_run_where_they_do_more_than_store(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Members", "stand");
        check(&mut debuggee, &[
            ("temperature.Fahrenheit = 212", "error: allow_calls"),
            ("temperature.Counted = 1", "error: allow_calls"),
            ("known.Overridden = 60", "error: allow_calls"),
            ("known.Plain = 4", "4"),
            ("known.Plain += 1", "5"),
            ("temperature.Size = Small.Two", "Two"),
            ("((Base)derived).Hidden = 8", "8"),
            ("derived.Hidden", "2"),
        ], assigned);
        check(&mut debuggee, &[
            ("temperature.Fahrenheit = 212", "212"),
            ("temperature.ToString()", "\"100.0 C\""),
            ("temperature.Counted = 5", "5"),
            ("temperature.Counted = -1", "error: ArgumentException: negative"),
            ("known.Overridden = 60", "60"),
            ("known.Overridden += 9", "70"),
        ], set);
        debuggee.go_on();
        let last = debuggee.printed().lines().last().unwrap().to_owned();
        assert_eq!(last, "100.0 C 2 Two 71 8 2 5");
    }

    fn a_virtual_method_runs_as_the_object_has_it(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Values", "objects");
        check(&mut debuggee, &[
            ("derived.Describe()", "\"base 7 renamed derived 3\""),
            ("((Base)derived).Describe()", "\"base 7 renamed derived 3\""),
            ("plain.Describe()", "\"base 1 unnamed\""),
            ("derived.Twice", "14"),
            ("shape.Area", "12"),
            ("derived.Throws", "error: InvalidOperationException: getter failed"),
            ("primary.Sum", "19"),
        ], called);
    }

    fn code_that_does_not_return_is_abandoned(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        let mut forever = debuggee.evaluation("calculator.Forever()");
        forever.allow_calls = Some(Duration::from_millis(300));
        let error = debuggee.backend.evaluate(&forever).unwrap_err().to_string();
        assert!(error.contains("did not return in time"), "{error}");
        check(&mut debuggee, &[("number + 1", "8")], read);
        check(&mut debuggee, &[("calculator.Add(2)", "42")], called);
        assert!(debuggee.local_lines().contains(&"int number = 7".to_owned()));
        let stop = debuggee.go_on();
        assert_eq!(stop.exit_code, Some(0), "{stop:?}");
    }

    fn code_that_cannot_be_ended_leaves_a_session_that_can_be_used(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        let mut sleeping = debuggee.evaluation("System.Threading.Thread.Sleep(4000)");
        sleeping.allow_calls = Some(Duration::from_millis(100));
        let error = debuggee.backend.evaluate(&sleeping).unwrap_err().to_string();
        if runtime.version.starts_with("3.") {
            // This one can end code that sleeps.
            assert!(error.contains("it was abandoned"), "{error}");
            return;
        }
        assert!(error.contains("cannot be ended"), "{error}");
        // The user's own frame is still the first.
        check(&mut debuggee, &[("number + 1", "8")], read);
        assert_eq!(debuggee.stack().frames[0].location.function.as_deref(), Some("Fixtures.Eval.Stand"));
        check(&mut debuggee, &[("calculator.Add(2)", "error: cannot be ended")], called);
        let thread = debuggee.stop.as_ref().unwrap().thread;
        let step = Movement::Step { thread, granularity: Granularity::Over, count: 1 };
        let error = debuggee.backend.run(step).unwrap_err().to_string();
        assert!(error.contains("cannot step"), "{error}");
        debuggee.break_at("stood");
        debuggee.go_on();
        check(&mut debuggee, &[("calculator.Add(2)", "42")], called);
        assert_eq!(debuggee.go_on().exit_code, Some(0));
    }

    fn assignments_change_the_program(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Eval", "stand");
        check(&mut debuggee, &[
            ("number = 5", "5"),
            ("number += 2", "7"),
            ("number *= 3", "21"),
            ("wide = 9", "9"),
            ("ratio = 0.25", "0.25"),
            ("yes = false", "false"),
            ("letter = 'y'", "'y'"),
            ("text = \"changed\"", "\"changed\""),
            ("nothing = text", "\"changed\""),
            ("nothing = null", "null"),
            ("maybe = null", "null"),
            ("maybe = 4", "4"),
            ("numbers[0] = 11", "11"),
            ("words[1] = \"w\"", "\"w\""),
            ("vector.X = 20", "20"),
            ("calculator.Start = 50", "50"),
            ("Calculator.StaticCalls = 5", "5"),
            ("total = 3", "3"),
            ("day = DayOfWeek.Friday", "Friday"),
            ("number = \"x\"", "error: a `string` cannot be assigned to a `int`"),
            ("text = 5", "error: a `int` cannot be assigned to a `string`"),
            ("yes = 1", "error: cannot be assigned"),
            ("number = 2.5", "error: cannot be assigned"),
            ("day = 3", "error: cannot be assigned"),
            ("calculator = text", "error: cannot be assigned"),
            ("number += 0.5", "error: cannot be assigned"),
            ("vector = new Vector(1, 2)", "error: allow_calls"),
            ("number + 1 = 5", "error: "),
            ("number", "21"),
        ], assigned);
        let stop = debuggee.go_on();
        assert_eq!(stop.exit_code, Some(0));
        let printed = debuggee.printed();
        for expected in ["y False null 4 3 2 30 5 Friday", "50.25 23"] {
            assert!(printed.contains(expected), "{expected} is not in {printed}");
        }
    }

    fn captured_variables_can_be_assigned(runtime: &Runtime) {
        let mut debuggee = stand(runtime, "Lambdas", "in_loop");
        check(&mut debuggee, &[("shared = 1000", "1000"), ("copy", "0")], assigned);
    }

    fn the_exception_that_stopped_the_program_has_a_name(runtime: &Runtime) {
        let mut debuggee = Plan::of("Exceptions").args(&["unhandled"]).launch(runtime);
        let stop = debuggee.go_on();
        let raised = stop.exception.unwrap();
        let message = format!("{:?}", raised.message.unwrap());
        assert!(message.len() > 2);
        check(&mut debuggee, &[("$exception.Message", &message), ("$exception is Exception", "true")], read);
        let thrown = read(&mut debuggee, "$exception").unwrap();
        assert!(raised.exception_type.ends_with(&thrown.type_name), "{} {}", raised.exception_type, thrown.type_name);
    }

    fn members_of_exceptions_are_read_without_running_code(runtime: &Runtime) {
        let mut debuggee = Plan::of("Values").launch(runtime);
        let line = debuggee.program.line("errors");
        let file = debuggee.program.source.to_str().unwrap().to_owned();
        debuggee.set(CodeBreakpoint::at(Place::Line { file, line }));
        debuggee.go_on();
        check(&mut debuggee, &[
            ("caught.Message", "\"outer\""),
            ("((OddException)caught).Code", "13"),
            ("caught.InnerException.Message", "\"inner\""),
        ], read);
    }
}
