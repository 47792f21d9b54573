//! Texts that nobody would write.

use super::fold::fold;
use crate::expression::{
    Constant, Expression, Kind, Operand, Primitive, Template, Text, Unary, binary, decimal::Decimal, unary,
};

/// The numbers of a linear congruence: the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

const PIECES: [&str; 62] = [
    "a",
    "b",
    "int",
    "string",
    "List",
    "<",
    ">",
    ">>",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "?",
    "?.",
    "?[",
    "??",
    ":",
    "::",
    ",",
    ".",
    "..",
    ";",
    "=",
    "=>",
    "==",
    "!",
    "!=",
    "+",
    "-",
    "*",
    "/",
    "%",
    "&",
    "|",
    "^",
    "~",
    "1",
    "0x1f",
    "2147483648",
    "1.5",
    "2.5m",
    "1e5",
    "'c'",
    "\"s\"",
    "@\"v\"",
    "$\"{a}\"",
    "$\"{",
    "}\"",
    "\\",
    "'",
    "\"",
    " is ",
    " as ",
    " not ",
    "new ",
    "typeof(",
    "nameof(",
    "default",
    "$x",
    "ä",
];

/// Every node's span is in the text and in the span of the node above it.
fn check_spans(text: &str, expression: &Expression) {
    let mut open = vec![expression.root()];
    while let Some(node) = open.pop() {
        assert!(text.get(node.span.start..node.span.end).is_some(), "{text}");
        for child in node.children() {
            let is_inside = node.span.start <= child.span.start && child.span.end <= node.span.end;
            assert!(is_inside || matches!(child.kind, Kind::Receiver), "{text}");
            open.push(child);
        }
    }
}

fn feed(text: &str) -> bool {
    let _ = Template::parse(text);
    match Expression::parse(text) {
        Ok(expression) => {
            check_spans(text, &expression);
            let _ = fold(expression.root()).map(|value| value.display());
            true
        }
        Err(error) => {
            assert!(error.at <= text.len() && !error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn random_pieces_give_an_expression_or_an_error() {
    let mut numbers = Numbers(1);
    let mut understood = 0;
    for _ in 0..40_000 {
        let count = 1 + numbers.below(12);
        let text: String = (0..count).map(|_| PIECES[numbers.below(PIECES.len())]).collect();
        understood += usize::from(feed(&text));
    }
    assert!(understood > 500, "{understood}");
}

#[test]
fn damaged_expressions_give_an_expression_or_an_error() {
    let whole = [
        "a.b?.c[1, x: 2].f<int, List<string?[]>>((A.B)y, $\"{z,5:x2} {{}} {g('}')}\") ?? (int)-q",
        "x is not null && (y as string[]) != null ? typeof(int).Name : nameof(a.b) + @\"c:\\\"\"d\" // end",
        "this.total += 0x_ff * 1.5e-3m / 2147483648 % -9223372036854775808 << 3 >> 1 >>> 2, raw",
    ];
    let mut numbers = Numbers(7);
    for _ in 0..15_000 {
        let mut text: Vec<char> = whole[numbers.below(whole.len())].chars().collect();
        for _ in 0..1 + numbers.below(4) {
            let at = numbers.below(text.len());
            match numbers.below(4) {
                0 if text.len() > 1 => drop(text.remove(at)),
                1 => text.truncate(at.max(1)),
                2 => text.insert(at, PIECES[numbers.below(PIECES.len())].chars().next().unwrap()),
                _ => text[at] = char::from(numbers.below(128) as u8),
            }
        }
        feed(&text.into_iter().collect::<String>());
    }
}

#[test]
fn long_texts_are_read_quickly() {
    for piece in
        ["a<", "(", "a<a,", "((a)", "$\"{", "(a,", "a?", "a[", "-", "a.", "{", "\"", "new A<", "a is ", "(a<"]
    {
        let text = piece.repeat(4096 / piece.len());
        assert!(!feed(&text), "{piece}");
    }
}

#[test]
fn every_operator_on_every_pair_of_extremes_has_a_result_or_an_error() {
    let mut values = vec![Constant::Null, Constant::Bool(true), Constant::String(Text(vec![0xd800]))];
    for name in ["char", "sbyte", "byte", "short", "ushort", "int", "uint", "long", "ulong", "nint", "nuint"]
    {
        let primitive = Primitive::of_keyword(name).unwrap();
        let (least, most) = primitive.range().unwrap();
        values.extend([least, most, 0, 1].map(|value| Constant::wrapped(value, primitive)));
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN_POSITIVE, -0.0, 1e28, 1e-28]
    {
        values.extend([Constant::Double(value), Constant::Float(value as f32)]);
    }
    for text in ["79228162514264337593543950335", "0.0000000000000000000000000001", "0.0", "1.5"] {
        let value = Decimal::parse(text).unwrap();
        values.extend([Constant::Decimal(value), Constant::Decimal(value.negated())]);
    }
    let mut results = 0;
    for left in &values {
        for operator in [Unary::Plus, Unary::Negate, Unary::Not, Unary::Complement] {
            results += usize::from(unary(operator, left).is_ok());
        }
        for right in &values {
            if let Some(primitive) = right.primitive() {
                results += usize::from(left.cast(primitive).is_ok());
            }
            for operator in super::arithmetic::BINARY {
                for operand in [Operand::constant, Operand::variable] {
                    let result = binary(operator, operand(left), operand(right));
                    results += usize::from(result.is_ok_and(|value| !value.display().is_empty()));
                }
            }
        }
    }
    assert!(results > 50_000, "{results}");
}
