//! What texts are understood as.

use super::show::show;
use crate::expression::{Expression, Format, Kind, Template, TemplatePart};

#[track_caller]
fn check(text: &str, expected: &str) {
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(show(expression.root()), expected, "{text}");
}

#[test]
fn literals_have_the_type_that_they_are_written_with() {
    for (text, expected) in [
        ("0", "0:int"),
        ("2147483647", "2147483647:int"),
        ("2147483648", "2147483648:uint"),
        ("4294967296", "4294967296:long"),
        ("9223372036854775808", "9223372036854775808:ulong"),
        ("-2147483648", "-2147483648:int"),
        ("-(2147483648)", "(-2147483648:uint)"),
        ("-9223372036854775808", "-9223372036854775808:long"),
        ("-0x80000000", "(-2147483648:uint)"),
        ("1u", "1:uint"),
        ("1L", "1:long"),
        ("1uL", "1:ulong"),
        ("1LU", "1:ulong"),
        ("4294967296u", "4294967296:ulong"),
        ("0xFF", "255:int"),
        ("0xFFFF_FFFF", "4294967295:uint"),
        ("0x_1", "1:int"),
        ("0b1010_1010", "170:int"),
        ("1_000_000", "1000000:int"),
        ("1.5", "1.5:double"),
        (".5", "0.5:double"),
        ("1e3", "1000:double"),
        ("1E-3", "0.001:double"),
        ("1d", "1:double"),
        ("1.5f", "1.5:float"),
        ("1f", "1:float"),
        ("1.50m", "1.50:decimal"),
        ("79228162514264337593543950335m", "79228162514264337593543950335:decimal"),
        ("1e-3m", "0.001:decimal"),
        ("'a'", "97 'a':char"),
        (r"'\''", r"39 '\'':char"),
        (r"'\x41'", "65 'A':char"),
        (r"'\u00e4'", "228 'ä':char"),
        (r"'\0'", r"0 '\0':char"),
        (r#""a\tb\"\\""#, r#""a\tb\"\\":string"#),
        (r#""\x41g""#, r#""Ag":string"#),
        (r#""\U0001F600""#, "\"😀\":string"),
        (r#""\ud83d\ude00""#, "\"😀\":string"),
        (r#""\ud83d""#, r#""\ud83d":string"#),
        (r#"@"C:\x""y""#, r#""C:\\x\"y":string"#),
        ("@\"a\nb\"", r#""a\nb":string"#),
        ("true", "true:bool"),
        ("false", "false:bool"),
        ("null", "null:null"),
    ] {
        check(text, expected);
    }
}

#[test]
fn names_members_calls_and_indexes_follow_each_other() {
    for (text, expected) in [
        ("x", "x"),
        ("@class", "class"),
        ("übung_1", "übung_1"),
        ("$exception", "$exception"),
        ("$exception.Message", "$exception.Message"),
        ("this", "this"),
        ("this.x", "this.x"),
        ("base.ToString()", "base.ToString()"),
        ("a.b.c", "a.b.c"),
        ("a . b", "a.b"),
        ("a/* one */.b // two", "a.b"),
        ("f()", "f()"),
        ("f(1, x)(2)", "f(1:int, x)(2:int)"),
        ("f(count: 1)", "f(count: 1:int)"),
        ("f(a ? b : c)", "f((a ? b : c))"),
        ("a[1]", "a[1:int]"),
        ("a[1, 2][3]", "a[1:int, 2:int][3:int]"),
        ("a[^1]", "a[(^1:int)]"),
        ("a.b[c.d](e).f", "a.b[c.d](e).f"),
        ("int.MaxValue", "type:int.MaxValue"),
        ("string.Empty.Length", "type:string.Empty.Length"),
        ("object.Equals(a, b)", "type:object.Equals(a, b)"),
        ("1.ToString()", "1:int.ToString()"),
        ("\"a\".Length", "\"a\":string.Length"),
        ("a!.b!", "a.b"),
        ("global::System.Console.Out", "global::System.Console.Out"),
        ("x;", "x"),
    ] {
        check(text, expected);
    }
}

#[test]
fn a_chain_behind_a_question_mark_is_evaluated_or_skipped_as_a_whole() {
    for (text, expected) in [
        ("a?.b", "(a ?{ it.b })"),
        ("a?.b.c", "(a ?{ it.b.c })"),
        ("(a?.b).c", "(a ?{ it.b }).c"),
        ("a?.b?.c", "(a ?{ (it.b ?{ it.c }) })"),
        ("a?[0].b", "(a ?{ it[0:int].b })"),
        ("a?.b()", "(a ?{ it.b() })"),
        ("a?.b ?? c", "((a ?{ it.b }) ?? c)"),
        ("a.b?.c[1]", "(a.b ?{ it.c[1:int] })"),
        ("a?.5:1", "(a ? 0.5:double : 1:int)"),
        ("a?b:c", "(a ? b : c)"),
    ] {
        check(text, expected);
    }
}

#[test]
fn operators_bind_as_in_c_sharp() {
    for (text, expected) in [
        ("a + b * c", "(a + (b * c))"),
        ("a * b + c", "((a * b) + c)"),
        ("a - b - c", "((a - b) - c)"),
        ("a / b % c", "((a / b) % c)"),
        ("a << b + c", "(a << (b + c))"),
        ("a < b << c", "(a < (b << c))"),
        ("a >> b > c", "((a >> b) > c)"),
        ("a >>> b", "(a >>> b)"),
        ("a == b < c", "(a == (b < c))"),
        ("a & b == c", "(a & (b == c))"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a && b | c", "(a && (b | c))"),
        ("a || b && c", "(a || (b && c))"),
        ("a ?? b || c", "(a ?? (b || c))"),
        ("a ?? b ?? c", "(a ?? (b ?? c))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ? b ? c : d : e", "(a ? (b ? c : d) : e)"),
        ("a ?? b ? c : d", "((a ?? b) ? c : d)"),
        ("a = b = c", "(a = (b = c))"),
        ("a.b += c ? d : e", "(a.b += (c ? d : e))"),
        ("a[0] ??= b", "(a[0:int] ??= b)"),
        ("a >>= 1", "(a >>= 1:int)"),
        ("a >>>= 1", "(a >>>= 1:int)"),
        ("a <<= 1", "(a <<= 1:int)"),
        ("a &= b |= c ^= d", "(a &= (b |= (c ^= d)))"),
        ("a -= b *= c /= d %= e", "(a -= (b *= (c /= (d %= e))))"),
        ("!a && ~b != -c", "((!a) && ((~b) != (-c)))"),
        ("- -a", "(-(-a))"),
        ("-a.b", "(-a.b)"),
        ("!a?.b", "(!(a ?{ it.b }))"),
        ("a >= b", "(a >= b)"),
        ("a<b", "(a < b)"),
    ] {
        check(text, expected);
    }
}

#[test]
fn a_name_in_parentheses_is_a_type_where_c_sharp_takes_it_as_one() {
    for (text, expected) in [
        ("(a)-b", "(a - b)"),
        ("(int)-b", "(cast int (-b))"),
        ("(a)+b", "(a + b)"),
        ("(a)b", "(cast a b)"),
        ("(a)(b)", "(cast a b)"),
        ("(a)~b", "(cast a (~b))"),
        ("(a)!b", "(cast a (!b))"),
        ("(a)\"b\"", "(cast a \"b\":string)"),
        ("(a)1", "(cast a 1:int)"),
        ("(a)this", "(cast a this)"),
        ("(a)$exception", "(cast a $exception)"),
        ("(a) is b", "(a is b)"),
        ("(a) as b", "(a as b)"),
        ("(a)[b]", "a[b]"),
        ("(a).b", "a.b"),
        ("(a) & b", "(a & b)"),
        ("(a) * b", "(a * b)"),
        ("(a.b)c", "(cast a.b c)"),
        ("(a.b)-c", "(a.b - c)"),
        ("(a<b>)c", "(cast a<b> c)"),
        ("(List<int>)-c", "(List<int> - c)"),
        ("(a?)-b", "(cast a? (-b))"),
        ("(a[])b", "(cast a[] b)"),
        ("(int[,])b", "(cast int[,] b)"),
        ("(int?[])b", "(cast int?[] b)"),
        ("(int[][,])b", "(cast int[][,] b)"),
        ("(global::A.B)c", "(cast global::A.B c)"),
        ("((int, string))b", "(cast (int, string) b)"),
        ("((int a, string))b", "(cast (int a, string) b)"),
        ("(object)a.b", "(cast object a.b)"),
        ("(int)a + b", "((cast int a) + b)"),
        ("(byte)(int)a", "(cast byte (cast int a))"),
        ("((A)b).c", "(cast A b).c"),
        ("(nint)a", "(cast nint a)"),
        ("(a ? b : c)", "(a ? b : c)"),
        ("(a < b)", "(a < b)"),
        ("((a))", "a"),
    ] {
        check(text, expected);
    }
}

#[test]
fn what_follows_decides_whether_angle_brackets_hold_types() {
    for (text, expected) in [
        ("a < b > (c)", "a<b>(c)"),
        ("a < b > c", "((a < b) > c)"),
        ("a < b", "(a < b)"),
        ("f<int>(x)", "f<int>(x)"),
        ("f<int, string>(x)", "f<int, string>(x)"),
        ("a.f<List<int>>(x)", "a.f<List<int>>(x)"),
        ("a.f<A<B<int>>>(x)", "a.f<A<B<int>>>(x)"),
        ("f(a < b, c > (d))", "f(a<b, c>(d))"),
        ("f(a < b, c > d)", "f((a < b), (c > d))"),
        ("a < b >> c", "(a < (b >> c))"),
        ("List<int>.Enumerator", "List<int>.Enumerator"),
        ("Cache<string>.Shared.Count", "Cache<string>.Shared.Count"),
        ("f<int?[]>()", "f<int?[]>()"),
        ("a<b> is null", "(a<b> is null)"),
        ("a<int> - b", "(a<int> - b)"),
        ("a<b[]> > c", "(a<b[]> > c)"),
        ("a<b<c[]>>d", "((a < b<c[]>) > d)"),
        ("(a<int>)", "a<int>"),
        ("f<(int, string)>()", "f<(int, string)>()"),
        ("a?.f<int>(1)", "(a ?{ it.f<int>(1:int) })"),
        ("a < 1 && b > 2", "((a < 1:int) && (b > 2:int))"),
        ("i < a.Length && a[i] > (3)", "((i < a.Length) && (a[i] > 3:int))"),
    ] {
        check(text, expected);
    }
}

#[test]
fn is_and_as_take_types_and_constants() {
    for (text, expected) in [
        ("x is T", "(x is T)"),
        ("x is not T", "(x is not T)"),
        ("x is null", "(x is null)"),
        ("x is not null", "(x is not null)"),
        ("x is 5", "(x is 5:int)"),
        ("x is -5", "(x is (-5:int))"),
        ("x is \"a\"", "(x is \"a\":string)"),
        ("x is true && y", "((x is true:bool) && y)"),
        ("x is int.MaxValue", "(x is type:int.MaxValue)"),
        ("x is Color.Red", "(x is Color.Red)"),
        ("x is Limit - 1", "(x is (Limit - 1:int))"),
        ("x is !t", "(x is (!t))"),
        ("x is List<int> && y", "((x is List<int>) && y)"),
        ("x is int?", "(x is int?)"),
        ("x is int ? a : b", "((x is int) ? a : b)"),
        ("x is A.B ? -1 : 2", "((x is A.B) ? (-1:int) : 2:int)"),
        ("x as int? ?? 0", "((x as int?) ?? 0:int)"),
        ("x as T == null", "((x as T) == null:null)"),
        ("x as string[]", "(x as string[])"),
        ("(x as T).y", "(x as T).y"),
        ("a + b is T", "((a + b) is T)"),
        ("a is T == b", "((a is T) == b)"),
    ] {
        check(text, expected);
    }
}

#[test]
fn words_of_c_sharp_have_their_meaning() {
    for (text, expected) in [
        ("new T()", "new T()"),
        (
            "new System.Text.StringBuilder(\"a\", 5).Length",
            "new System.Text.StringBuilder(\"a\":string, 5:int).Length",
        ),
        ("new Dictionary<string, List<int?>>()", "new Dictionary<string, List<int?>>()"),
        ("new Outer.Inner(1)", "new Outer.Inner(1:int)"),
        ("typeof(int)", "typeof(int)"),
        ("typeof(void)", "typeof(void)"),
        ("typeof(List<>).Name", "typeof(List<>).Name"),
        ("typeof(Dictionary<,>)", "typeof(Dictionary<, >)"),
        ("typeof(int*)", "typeof(int*)"),
        ("typeof(string[][])", "typeof(string[][])"),
        ("nameof(a.b.c)", "nameof:c"),
        ("nameof(List<int>)", "nameof:List"),
        ("default(int)", "default(int)"),
        ("default", "default()"),
        ("sizeof(long)", "sizeof(long)"),
        ("unchecked(a + b) * c", "((a + b) * c)"),
        ("(a, b)", "tuple(a, b)"),
        ("(x: 1, y: (2, 3))", "tuple(x: 1:int, y: tuple(2:int, 3:int))"),
        ("from + where", "(from + where)"),
    ] {
        check(text, expected);
    }
}

#[test]
fn interpolated_strings_hold_expressions() {
    for (text, expected) in [
        (r#"$"""#, "$[]"),
        (r#"$"a{b}c""#, r#"$["a" {b} "c"]"#),
        (r#"$"{{{a}}}""#, r#"$["{" {a} "}"]"#),
        (r#"$"{a,5}{b,-3:x2}{c:yyyy}""#, "$[{a,5} {b,-3:x2} {c:yyyy}]"),
        (r#"$"{(a ? b : c)}""#, "$[{(a ? b : c)}]"),
        (r#"$"{f("}", '}')}""#, r#"$[{f("}":string, 125 '}':char)}]"#),
        (r#"$"{$"{a}"}""#, "$[{$[{a}]}]"),
        (r#"$@"\{a}""""#, r#"$["\\" {a} "\""]"#),
        (r#"$"{global::A.B}""#, "$[{global::A.B}]"),
        (r#"$"{a[1, 2]}""#, "$[{a[1:int, 2:int]}]"),
    ] {
        check(text, expected);
    }
}

#[test]
fn format_specifiers_stand_at_the_end() {
    let check = |text: &str, expected: &[Format]| {
        let expression = Expression::parse(text).unwrap();
        assert_eq!(expression.format(), expected, "{text}");
        assert_eq!(show(expression.root()), "a", "{text}");
    };
    check("a", &[]);
    check("a,nq", &[Format::NoQuotes]);
    check("a, x", &[Format::Hexadecimal]);
    check("a,h", &[Format::Hexadecimal]);
    check("a,d,raw", &[Format::Decimal, Format::Raw]);
}

#[test]
fn an_expression_knows_whether_it_writes_or_calls() {
    for (text, writes, calls) in [
        ("a + b[c]", false, false),
        ("a = 1", true, false),
        ("f(a = 1)", true, true),
        ("a ? b : (c += 1)", true, false),
        ("new T()", false, true),
        ("a?.f()", false, true),
        ("nameof(a)", false, false),
        ("$\"{f()}\"", false, true),
        ("a[f()]", false, true),
        ("(T)a", false, false),
    ] {
        let expression = Expression::parse(text).unwrap();
        assert_eq!((expression.writes(), expression.calls()), (writes, calls), "{text}");
    }
}

#[test]
fn spans_cover_the_part_that_they_are_of() {
    let text = "ä + (b.c)[1] * f(x)";
    let expression = Expression::parse(text).unwrap();
    let mut spans = Vec::new();
    let mut open = vec![expression.root()];
    while let Some(node) = open.pop() {
        if !matches!(node.kind, Kind::Constant(_)) {
            spans.push(node.span.of(text));
        }
        open.extend(node.children());
    }
    let expected = [text, "(b.c)[1] * f(x)", "f(x)", "x", "f", "(b.c)[1]", "(b.c)", "b", "ä"];
    assert_eq!(spans, expected);
}

#[test]
fn templates_hold_texts_and_expressions() {
    let check = |text: &str, expected: &[&str]| {
        let template = Template::parse(text).unwrap();
        let shown: Vec<_> = template
            .parts()
            .iter()
            .map(|part| match part {
                TemplatePart::Text(text) => format!("{text:?}"),
                TemplatePart::Value(value) => format!("{}{:?}", show(value.root()), value.format()),
            })
            .collect();
        assert_eq!(shown, expected, "{text}");
    };
    check("", &[]);
    check("ünicode", &["\"ünicode\""]);
    check("x is {x} and {y.Name,nq}", &["\"x is \"", "x[]", "\" and \"", "y.Name[NoQuotes]"]);
    check("{{{a}}}", &["\"{\"", "a[]", "\"}\""]);
    check("{f(\"}\")}", &["f(\"}\":string)[]"]);
    check("{a ? b : c}{d:x}", &["(a ? b : c)[]", "d[Hexadecimal]"]);
}
