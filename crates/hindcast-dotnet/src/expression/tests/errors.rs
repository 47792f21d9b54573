//! What is said about texts that are no expressions.

use hindcast_core::debug::Remedy;

use crate::expression::{Expression, ParseError, Template};

/// With the advice before the place.
fn told(error: &ParseError) -> String {
    match error.remedy() {
        Some(Remedy::Advice(advice)) => format!("{} → {advice}, at column {}", error.what, error.column),
        _ => error.to_string(),
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let error = Expression::parse(text).expect_err(text);
    assert_eq!(told(&error), expected, "{text}");
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    for (text, expected) in [
        ("", "expected a value, found the end, at column 1"),
        ("a +", "expected a value, found the end, at column 4"),
        ("a + )", "expected a value, found `)`, at column 5"),
        ("ä b", "expected an operator or the end, found `b`, at column 3"),
        ("(a", "expected `)` or `,`, found the end, at column 3"),
        ("f(a b)", "expected `,` or `)`, found `b`, at column 5"),
        ("a[]", "expected a value, found `]`, at column 3"),
        ("a[1", "expected `,` or `]`, found the end, at column 4"),
        ("a.", "expected a name, found the end, at column 3"),
        ("a.1", "expected an operator or the end, found `.1`, at column 2"),
        ("a ? b", "expected `:`, found the end, at column 6"),
        ("new", "expected a type, found the end, at column 4"),
        ("new T", "expected `(`, found the end, at column 6"),
        ("typeof(1)", "expected a type, found `1`, at column 8"),
        ("typeof(List<int)", "expected `>` or `,`, found `)`, at column 16"),
        ("x as", "expected a type, found the end, at column 5"),
        ("int", "expected `.`, found the end, at column 4"),
        ("(int)", "expected a value, found the end, at column 6"),
        ("nameof(1)", "expected a name, found `1`, at column 8"),
        ("a > > b", "expected a value, found `>`, at column 5"),
        ("a # b", "`#` has no meaning in an expression, at column 3"),
        ("12abc", "`12abc` is not a number, at column 1"),
        ("0x", "`0x` is not a number, at column 1"),
        ("1_", "`1_` is not a number, at column 1"),
        (
            "18446744073709551616",
            "the number `18446744073709551616` is too large for every type that it may have, at column 1",
        ),
        ("1e400", "the number `1e400` is too large for every type that it may have, at column 1"),
        ("1e39f", "the number `1e39f` is too large for every type that it may have, at column 1"),
        ("1e29m", "the number `1e29m` is too large for every type that it may have, at column 1"),
        (r#""a\q""#, r"`\q` is not an escape sequence, at column 3"),
        (r#""\u12""#, r"`\u12` is not an escape sequence, at column 2"),
        ("''", "`''` is not one character, at column 1"),
        ("'ab'", "`'ab'` is not one character, at column 1"),
        ("'😀'", "`'😀'` is not one character, at column 1"),
        ("x + \"a", "the quote is not closed, at column 5"),
        ("'a", "the quote is not closed, at column 1"),
        ("a /* b", "the comment is not closed, at column 3"),
        ("$\"{a\"", "the quote is not closed, at column 5"),
        ("$\"{a", "the brace is not closed → write `{{` for a brace itself, at column 3"),
        ("$\"}\"", "the brace `}` closes nothing → write `}}` for a brace itself, at column 3"),
        ("$\"{a,b}\"", "`b` is not how many characters a part of the string takes, at column 6"),
        (
            "a,zz",
            "`zz` is no format specifier → there are `d`, `x`, `h`, `b`, `o`, `nq` and `raw`, at column 3",
        ),
        ("a,", "expected a format specifier, found the end, at column 3"),
        ("1 = a", "`1` cannot be assigned to, at column 1"),
        ("a + b = c", "`a + b` cannot be assigned to, at column 1"),
        ("a?.b = c", "`a?.b` cannot be assigned to, at column 1"),
        ("f() = c", "`f()` cannot be assigned to, at column 1"),
    ] {
        check(text, expected);
    }
}

#[test]
fn what_is_not_supported_is_named() {
    let pointers =
        "an operation on pointers, which is not supported → write it with members, calls and operators";
    let lambda =
        "part of a lambda or an anonymous method, which is not supported → evaluate the elements one by one";
    let increment = "an increment or decrement, which is not supported → write `x += 1` or `x -= 1`";
    let statement = "a statement, which is not supported → evaluate one expression at a time";
    let declaration = "a declaration, which is not supported → evaluate one expression at a time";
    let pattern = "part of a pattern that is not supported → write `x is T`, `x is not T` or `x is null`, and join them with `&&` and `||`";
    let objects = "→ only `new T(arguments)` makes objects";
    for (text, token, what, column) in [
        ("x => x", "=>", lambda, 3),
        ("() => 1", "=>", lambda, 4),
        ("(x) => 1", "=>", lambda, 5),
        ("(x, y) => 1", "=>", lambda, 8),
        ("a.Where(x => x > 1)", "=>", lambda, 11),
        ("delegate { }", "delegate", lambda, 1),
        ("x++", "++", increment, 2),
        ("--x", "--", increment, 1),
        ("if (a) b", "if", statement, 1),
        ("return a", "return", statement, 1),
        ("a; b", "b", statement, 4),
        ("a ?? throw b", "throw", statement, 6),
        ("{ a }", "{", statement, 1),
        ("var a = 1", "var a", declaration, 1),
        ("int a = 1", "int a", declaration, 1),
        ("Foo.Bar a = 1", "Foo.Bar a", declaration, 1),
        ("x is T t", "t", pattern, 8),
        ("x is > 5", ">", pattern, 6),
        ("x is A or B", "or", pattern, 8),
        ("x is { A: 1 }", "{", pattern, 6),
        ("*p", "*", pointers, 1),
        ("&p", "&", pointers, 1),
        ("p->x", "->", pointers, 2),
        ("new int[3]", "new int", &format!("the creation of an array, which is not supported {objects}"), 1),
        ("new[] { 1 }", "new", &format!("the creation of an array, which is not supported {objects}"), 1),
        (
            "new { A = 1 }",
            "new",
            &format!("an object of an anonymous type, which is not supported {objects}"),
            1,
        ),
        ("new T { A = 1 }", "{", &format!("an initialiser, which is not supported {objects}"), 7),
        ("new T() { A = 1 }", "{", &format!("an initialiser, which is not supported {objects}"), 9),
        ("await x", "await", "an `await`, which is not supported → look at the task's `Result`", 1),
        (
            "x switch { _ => 1 }",
            "switch",
            "a `switch` expression, which is not supported → write `a ? b : c`",
            3,
        ),
        ("a[1..2]", "..", "a range, which is not supported → write it with members, calls and operators", 4),
        (
            "from a in b select a",
            "from",
            "a query, which is not supported → write it with members, calls and operators",
            1,
        ),
        (
            "f(out x)",
            "out",
            "an argument by reference, which is not supported → write it with members, calls and operators",
            3,
        ),
        (
            "checked(a + b)",
            "checked",
            "arithmetic with overflow checks, which is not supported → arithmetic wraps around",
            1,
        ),
        ("\"\"\"a\"\"\"", "\"\"\"", "a raw string, which is not supported → write `@\"…\"`", 1),
        ("my::A.B", "my", "an alias of an assembly, which is not supported → only `global::` is known", 1),
    ] {
        check(text, &format!("`{token}` is {what}, at column {column}"));
    }
}

#[test]
fn an_error_in_a_template_counts_from_its_beginning() {
    let error = |text: &str| {
        let error = Template::parse(text).unwrap_err();
        (error.at, told(&error))
    };
    let open = "the brace is not closed → write `{{` for a brace itself, at column 3";
    assert_eq!(error("ä {x"), (3, open.to_owned()));
    assert_eq!(error("ab {}"), (4, "expected a value, found the end, at column 5".to_owned()));
    assert_eq!(error("ab {x y}"), (6, "expected an operator or the end, found `y`, at column 7".to_owned()));
}

#[test]
fn long_and_deep_expressions_are_refused() {
    let long = format!("{}a", " ".repeat(4096));
    check(&long, "the expression has 4097 bytes where at most 4096 are read, at column 1");
    assert!(Expression::parse(&long[1..]).is_ok());
    let deep = |open: &str, middle: &str, close: &str, times: usize| {
        let text = format!("{}{middle}{}", open.repeat(times), close.repeat(times));
        Expression::parse(&text).map_err(|error| error.to_string())
    };
    for (open, middle, close) in [
        ("(", "a", ")"),
        ("- ", "a", ""),
        ("!", "a", ""),
        ("f(", "a", ")"),
        ("a[", "b", "]"),
        ("a?.", "b", ""),
        ("a ?? ", "b", ""),
        ("a ? b : ", "c", ""),
        ("a = ", "b", ""),
        ("a + ", "b", ""),
        ("a.", "b", ""),
        ("(int)", "b", ""),
        ("$\"{", "b", "}\""),
    ] {
        let error = deep(open, middle, close, 400).expect_err(open);
        assert!(error.contains("nested deeper than 64 levels"), "{open}: {error}");
        assert!(deep(open, middle, close, 20).is_ok(), "{open}");
    }
    let types = format!("typeof({}int{})", "A<".repeat(400), ">".repeat(400));
    assert!(Expression::parse(&types).unwrap_err().to_string().contains("nested deeper than 64 levels"));
    let types = format!("typeof({}int{})", "A<".repeat(50), ">".repeat(50));
    assert!(Expression::parse(&types).is_ok());
}
