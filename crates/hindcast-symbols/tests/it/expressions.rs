//! Expressions: what is refused and how, assignments, registers, templates.

use std::ops::ControlFlow;

use hindcast_core::debug::ValueLimits;
use hindcast_fixtures::Fixture;
use hindcast_symbols::expression::{Bounded, Budget, Expression, ExpressionError, SortKey, Template};
use proptest::prelude::*;

use crate::{core_image::CoreImage, support, values::Globals};

fn on(fixture: Fixture, check: impl FnOnce(&Globals<'_>)) {
    let built = fixture.build();
    let symbols = support::loaded(&built.path);
    let image = CoreImage::of(&built.path);
    check(&Globals::new(&symbols, &image));
}

fn compare(globals: &Globals<'_>, cases: &[(&str, &str)]) {
    for (expression, expected) in cases {
        assert_eq!(globals.shown(expression), *expected, "{expression}");
    }
}

#[test]
fn numbers_of_c_compare_in_their_common_type() {
    on(Fixture::c("values"), |globals| {
        compare(
            globals,
            &[
                ("(int)-1 < (unsigned int)3", "false"),
                ("(int)-1 > (unsigned long)5", "true"),
                ("(long)-7 < (unsigned int)5", "true"),
                ("(short)-1 < (unsigned char)3", "true"),
                ("(int)-1 == (unsigned int)4294967295", "true"),
                ("(float)16777216 == 16777217", "true"),
                ("(double)16777216 == 16777217", "false"),
                ("-1 < 3", "true"),
            ],
        );
    });
}

#[test]
fn errors_name_the_place_and_what_was_perhaps_meant() {
    on(Fixture::c("values"), |globals| {
        compare(
            globals,
            &[
                ("answr", "error: no variable `answr` here, at column 1 → did you mean `answer`?"),
                ("1 + qqqqqqq", "error: no variable `qqqqqqq` here, at column 5"),
                ("point.z", "error: `struct point` has no field `z`, at column 6"),
                (
                    "named.weigth",
                    "error: `struct named` has no field `weigth`, at column 6 → did you mean `weight`?",
                ),
                ("answer / zero", "error: division by zero at column 8"),
                ("answer % 0", "error: division by zero at column 8"),
                ("*null_pointer + 1", "error: cannot read memory at 0x0, at column 1"),
                ("*dangling + 1", "error: cannot read memory at 0x10, at column 1"),
                ("(1 + 2", "error: expected ) at column 7, found `the end`"),
                ("1 +", "error: expected a value at column 4, found `the end`"),
                ("", "error: expected a value at column 1, found `the end`"),
                ("1 2", "error: expected an operator or the end at column 3, found `2`"),
                ("\"abc", "error: the quote at column 1 is not closed"),
                ("12x", "error: `12x` at column 1 is not a number"),
                ("point + 1", "error: `struct point` at column 1 is not a number"),
                ("(nosuch *)1", "error: no type `nosuch`, at column 1"),
                ("$nosuch", "error: no register `$nosuch`, at column 1"),
                ("add(1, 2)", "error: `add` is called at column 1 → the program's functions are not called"),
                ("numbers[5]", "error: index 5 at column 8 is beyond the 5 elements"),
                ("numbers[-1]", "error: index -1 at column 8 is beyond the 5 elements"),
                ("numbers[2..9]", "error: index 9 at column 8 is beyond the 5 elements"),
                ("answer[0]", "error: `int` at column 7 is not indexable"),
                ("*anything", "error: `void *` at column 1 is not a pointer to something"),
                (
                    "2147483647 + answer",
                    "error: `2147483647 + 42` at column 12 overflows `int` → cast to a wider type",
                ),
                ("1 << 200", "error: `1 << 200` at column 3 overflows `__int128` → cast to a wider type"),
                ("byte = 300", "error: 300 does not fit `unsigned char`, at column 6"),
                ("5 = 6", "error: what is at column 3 has no place in memory or a register"),
                ("&5", "error: what is at column 1 has no place in memory or a register"),
            ],
        );
    });
    on(Fixture::rust("values"), |globals| {
        compare(
            globals,
            &[
                ("unsigned8 + 100", "error: `200 + 100` at column 11 overflows `u8` → cast to a wider type"),
                ("unsigned8 as u32 + 100", "300"),
                (
                    "unsigned128 + 1",
                    "error: `340282366920938463463374607431768211455 + 1` at column 13 overflows `u128` → cast to a \
                     wider type",
                ),
                ("-signed8", "error: `0 - -128` at column 1 overflows `i8` → cast to a wider type"),
                ("hash_map[\"none\"]", "error: no key \"none\" in the map, at column 9"),
                (
                    "vector.sort()",
                    "error: `alloc::vec::Vec<i32, alloc::alloc::Global>` has no method `sort` that the debugger \
                     knows, at column 7 → the program's own functions are not called",
                ),
            ],
        );
    });
}

#[test]
fn operators_bind_as_in_c() {
    on(Fixture::c("values"), |globals| {
        compare(
            globals,
            &[
                ("1 + 2 * 3", "7"),
                ("(1 + 2) * 3", "9"),
                ("10 - 4 - 3", "3"),
                ("1 << 2 + 1", "8"),
                ("1 | 2 & 3 == 3", "1"),
                ("-1 < 1u", "false"),
                ("1 ? 2 : 0 ? 3 : 4", "2"),
                ("0 && *null_pointer", "false"),
                ("1 || *null_pointer", "true"),
                ("!zero == 1", "true"),
                ("-7 / 2", "-3"),
                ("-7 % 3", "-1"),
                ("0b101 + 0o17 + 0xff + 1_000", "1275"),
                ("1.5 + 1", "2.5"),
                ("1.5f32 * 2", "3.0"),
                ("1e3", "1000.0"),
                ("3 as f64 / 2", "1.5"),
                ("300 as u8", "44"),
                ("(unsigned char)300", "44 ','"),
                ("(long)answer * 1000000000000", "42000000000000"),
                ("340282366920938463463374607431768211455", "340282366920938463463374607431768211455"),
                ("numbers[1..3]", "[2, 3]"),
                ("numbers[1..=3]", "[2, 3, 4]"),
                ("numbers[3..]", "[4, 5]"),
                ("to_answer@1", "[42]"),
                ("*words@2", "[\"one\", \"two\"]"),
                ("(&numbers[1])@2", "[2, 3]"),
                ("*numbers@2", "[1, 2]"),
                ("greeting == \"hello\"", "true"),
                ("greeting < \"help\"", "true"),
                ("\"hello\" == fixed", "false"),
                ("null_pointer == NULL", "true"),
                ("to_answer != nullptr && *to_answer == 42", "true"),
                ("sizeof answer + sizeof(long)", "12"),
                ("\"text\"", "\"text\""),
                ("'\\n'", "10"),
                ("*&answer", "42"),
                ("list->next->value", "2"),
                ("list.next.value", "2"),
                ("(*list).value;", "1"),
                ("*(&numbers[0] + 2)", "3"),
                ("::answer", "42"),
                ("greeting.len()", "5"),
                ("$rax + 1", "8"),
                ("$xmm0.f32", "[1.5, -2.0, 0.0, 4.0]"),
                ("$xmm0.f32[1]", "-2.0"),
                ("$xmm0.v4_float[3]", "4.0"),
                ("(int)$rax == 7", "true"),
            ],
        );
        assert!(globals.shown("$pc").contains("<done>") || globals.shown("$pc").starts_with("0x"));
    });
}

#[test]
fn characters_above_127_are_what_the_language_makes_of_them() {
    let shown_again = [
        ("high_char", "-23 '\\xe9'"),
        ("high_char == '\\xe9'", "true"),
        ("'\\xe9'", "-23"),
        ("(char)231 == '\\xe7'", "true"),
        // A `b` makes it a byte, which has no sign.
        ("b'\\xe9'", "233"),
        ("byte == '\\xc8'", "false"),
        ("byte == b'\\xc8'", "true"),
        ("'\\u{7}' == '\\x07' && '\\a' == 7 && '\\u00e9' == 233", "true"),
    ];
    on(Fixture::c("values"), |globals| compare(globals, &shown_again));
    on(Fixture::cpp("values"), |globals| compare(globals, &[("(char)231 == '\\xe7'", "true")]));
    on(Fixture::c("values").flags(["-funsigned-char"]), |globals| {
        let cases = [("high_char", "233 '\\xe9'"), ("high_char == '\\xe9'", "true"), ("'\\xe9'", "233")];
        compare(globals, &cases);
    });
    on(Fixture::rust("values"), |globals| {
        let cases = [
            ("unsigned8 == '\\xc8'", "true"),
            ("unsigned8 == b'\\xc8'", "true"),
            ("'\\xe7'", "231"),
            ("'\\xe7' as i8", "-25"),
        ];
        compare(globals, &cases);
    });
}

#[test]
fn numbers_above_all_signed_ones_are_ranked_above_them() {
    on(Fixture::rust("values"), |globals| {
        let rank = |text: &str| Expression::parse(text).and_then(|parsed| parsed.rank(globals));
        assert!(rank("unsigned128").expect("a number") > rank("1").expect("a number"));
    });
}

#[test]
fn a_minus_before_a_sort_key_asks_for_the_largest_first() {
    let is_descending = |text: &str| SortKey::parse(text).map(|key| key.is_descending);
    assert_eq!(is_descending("price"), Ok(false));
    assert_eq!(is_descending(" -price"), Ok(true));
    assert_eq!(is_descending("-(price - cost)"), Ok(true));
    assert_eq!(is_descending("(-price)"), Ok(false));
    for unclear in ["-price + cost", "-price as i64"] {
        let error = is_descending(unclear).expect_err("it could mean both");
        assert!(error.to_string().contains("`-(…)` for the largest first"), "{error}");
    }
}

#[test]
fn nested_conditions_spend_of_one_budget() {
    on(Fixture::c("values"), |globals| {
        let count = |most: u64, text: &str| {
            let scope = Bounded::by(Budget::of(most), globals);
            Expression::parse(text).and_then(|parsed| parsed.is_true(&scope))
        };
        // 5 numbers, and 5 more for each of them.
        let nested = "count(numbers, count(numbers, it > 0) == 5) == 5";
        assert_eq!(count(30, nested), Ok(true));
        assert!(matches!(count(29, nested), Err(ExpressionError::TooManyElements { count: 29, .. })));
        assert_eq!(count(10, "count(numbers) == count(numbers)"), Ok(true));
        assert!(count(9, "count(numbers) == count(numbers)").is_err());
        assert_eq!(count(4, "count(numbers)"), Err(ExpressionError::TooManyElements { column: 7, count: 4 }));
        // In a search, what is asked of the elements counts as well.
        let found = |most: u64| {
            let scope = Bounded::by(Budget::of(most), globals);
            let condition = Expression::parse("count(numbers) == 5")?;
            Expression::parse("numbers")?
                .each(&scope, &mut |found| condition.is_true(found.scope).map(|_| ControlFlow::Continue(())))
        };
        assert_eq!(found(30), Ok(()));
        assert!(found(29).is_err());
        // Also without a budget from outside.
        let deep = "count(many, count(many, count(many, count(many, it < 0) > 0) > 0) > 0) > 0";
        let error = Expression::parse(deep).and_then(|parsed| parsed.is_true(globals));
        assert!(matches!(error, Err(ExpressionError::TooManyElements { .. })), "{error:?}");
    });
}

#[test]
fn a_literal_takes_the_type_of_the_other_operand_in_rust_only() {
    on(Fixture::rust("values"), |globals| {
        compare(
            globals,
            &[
                ("float32 == 1.1", "true"),
                ("1.1 == float32", "true"),
                ("float32 != 1.1", "false"),
                ("float32 == -1.1", "false"),
                ("-float32 == -1.1", "true"),
                ("float32 + 1.1 == 2.2", "true"),
                ("float32 == 1.1f64", "false"),
                ("atomic_bool == true", "true"),
                ("!atomic_bool", "false"),
            ],
        );
    });
    on(Fixture::c("values"), |globals| {
        compare(
            globals,
            &[("(float)0.1 == 0.1", "false"), ("(float)0.1 == 0.1f", "true"), ("(float)0.5 == 0.5", "true")],
        );
    });
}

#[test]
fn assignments_tell_what_to_write_and_where() {
    on(Fixture::c("values"), |globals| {
        let bits = globals.shown("&bits");
        let address = bits.split(' ').next().expect("an address").trim_start_matches("0x").to_owned();
        let answer = globals.shown("&answer");
        let answer = answer.split(' ').next().expect("an address").trim_start_matches("0x").to_owned();
        compare(
            globals,
            &[
                ("answer = 5", &format!("Memory({answer}) <- [5, 0, 0, 0]: 5")),
                ("answer += 1", &format!("Memory({answer}) <- [2b, 0, 0, 0]: 43")),
                ("*to_answer = -1", &format!("Memory({answer}) <- [ff, ff, ff, ff]: -1")),
                ("$rax = 258", "Register { name: \"rax\", offset: 0 } <- [2, 1, 0, 0, 0, 0, 0, 0]: 258"),
                ("bits.low = 2", &format!("Memory({address}) <- [ea]: 2")),
                ("bits.low = 8", "error: 8 does not fit `unsigned int`, at column 10"),
            ],
        );
        assert!(globals.shown("color = BLUE").ends_with("<- [7, 0, 0, 0]: BLUE"));
        assert!(globals.shown("double_float = 2").ends_with(": 2.0"));
        assert!(globals.shown("point = aliased").ends_with("<- [3, 0, 0, 0, 4, 0, 0, 0]: {x = 3, y = 4}"));
        assert!(globals.shown("null_pointer = &answer").ends_with("-> 42"));
        assert!(globals.shown("yes = 0").ends_with("<- [0]: false"));
        assert!(globals.shown("whole = -1").ends_with(": 4294967295"));
        assert!(Expression::parse("a = 1").expect("it is one").writes());
        assert!(!Expression::parse("a == 1").expect("it is one").writes());
    });
}

#[test]
fn conditions_are_true_or_false_or_an_error() {
    on(Fixture::c("values"), |globals| {
        let truth = |text: &str| Expression::parse(text).and_then(|parsed| parsed.is_true(globals));
        assert_eq!(truth("answer == 42"), Ok(true));
        assert_eq!(truth("list"), Ok(true));
        assert_eq!(truth("null_pointer"), Ok(false));
        assert_eq!(truth("whole_double"), Ok(true));
        assert!(truth("point").is_err());
    });
}

#[test]
fn templates_show_values_and_their_failures_in_place() {
    on(Fixture::c("values"), |globals| {
        let render = |text: &str| {
            Template::parse(text).map(|template| template.render(globals, ValueLimits::default()))
        };
        let ok = |text: &str| render(text).expect("it is understood");
        assert_eq!(ok("x is {answer}, sum {answer + 1:x}!"), "x is 42, sum 0x2b!");
        assert_eq!(ok("{{{answer}}} {greeting}"), "{42} \"hello\"");
        assert_eq!(ok("{zero ? answer : minus} {byte:b}"), "-1 0b11001000");
        assert_eq!(ok("{answer / zero} and {answer}"), "<division by zero at column 8> and 42");
        assert_eq!(ok("{greeting == \"}\"}"), "false");
        assert_eq!(ok(""), "");
        assert!(render("{answer").is_err());
        assert!(render("{1 +}").is_err());
    });
}

#[test]
fn nesting_and_length_have_limits() {
    for text in [
        "(".repeat(10_000),
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("{}1{}", "(".repeat(3000), ")".repeat(3000)),
        "!".repeat(8000) + "1",
        "-".repeat(8000) + "1",
        "1".to_owned() + &"+1".repeat(4000),
        "a".to_owned() + &".b".repeat(4000),
        "a".to_owned() + &"[0]".repeat(2500),
        "a[".repeat(4000),
        "1?".repeat(4000),
        "a=".repeat(4000) + "1",
        "(int)".repeat(1600) + "1",
        "sizeof ".repeat(1000) + "1",
        "f(".repeat(4000),
        "a as ".repeat(1600),
        "x".repeat(100_000),
    ] {
        assert!(Expression::parse(&text).is_err(), "{}", &text[..20]);
    }
    assert!(Expression::parse(&format!("{}1{}", "(".repeat(40), ")".repeat(40))).is_ok());
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "\\PC{0,60}") {
        let _ = Expression::parse(&text);
        let _ = Template::parse(&text);
    }

    #[test]
    fn random_tokens_never_panic(
        tokens in proptest::collection::vec(
            prop::sample::select(vec![
                "a", "b::c", "(", ")", "[", "]", ".", "->", "*", "&", "+", "-", "/", "%", "<<", ">>", "==", "<",
                ">", "!", "~", "&&", "||", "?", ":", "=", "+=", "as", "u8", "int", "struct", "sizeof", "1", "0x",
                "0x1f", "1.5", "1e", "'a'", "'", "\"s\"", "\"", "\\", "$rax", "@", "..", "..=", "{", "}", ",", ";",
                "é", "0", "::", "true", "null", "Some",
            ]),
            0..40,
        ),
        spaced in any::<bool>(),
    ) {
        let text = tokens.join(if spaced { " " } else { "" });
        let _ = Expression::parse(&text);
        let _ = Template::parse(&text);
    }
}

#[test]
fn random_expressions_over_a_real_program_never_panic() {
    on(Fixture::c("values"), |globals| {
        let operands = [
            "answer",
            "minus",
            "widest",
            "widest_unsigned",
            "huge_number",
            "large",
            "point",
            "to_answer",
            "dangling",
            "numbers",
            "matrix",
            "greeting",
            "not_a_number",
            "bits.middle",
            "color",
            "extended",
            "vector_ints",
            "list",
            "operation",
            "0",
            "1",
            "-1",
            "3.5",
            "\"x\"",
            "null",
            "opaque",
            "flexible->items",
            "$rax",
            "340282366920938463463374607431768211455",
            "170141183460469231731687303715884105727",
            "tiny",
            "byte",
        ];
        let operators =
            ["+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^", "==", "<", "&&", "@", "=", "+=", "? 1 :"];
        for left in operands {
            for operator in operators {
                for right in operands {
                    globals.shown(&format!("{left} {operator} {right}"));
                }
            }
            for form in [
                "-{}",
                "!{}",
                "~{}",
                "*{}",
                "&{}",
                "{}[0]",
                "{}[-1]",
                "{}[1..2]",
                "{}.x",
                "{}.len()",
                "(char){}",
                "(double){}",
                "(long double){}",
                "(struct point){}",
                "(struct point *){}",
                "{} as u128",
                "sizeof({})",
                "{} as f32",
            ] {
                globals.shown(&form.replace("{}", left));
            }
        }
    });
}
