//! Operators, conversions and how values are written.

use super::{
    dotnet_results::{CONSTANTS, VARIABLES},
    fold::{FoldError, fold},
};
use crate::expression::{
    Binary, Constant, Expression, Operand, OperationError, Primitive, binary, convert::Rank,
    implicitly_converts,
};

pub(super) const BINARY: [Binary; 17] = [
    Binary::Multiply,
    Binary::Divide,
    Binary::Remainder,
    Binary::Add,
    Binary::Subtract,
    Binary::ShiftLeft,
    Binary::ShiftRight,
    Binary::UnsignedShiftRight,
    Binary::Less,
    Binary::Greater,
    Binary::LessOrEqual,
    Binary::GreaterOrEqual,
    Binary::Equal,
    Binary::NotEqual,
    Binary::BitAnd,
    Binary::BitXor,
    Binary::BitOr,
];

/// The value of an expression of literals, or why it has none.
fn constant(text: &str) -> Result<Constant, OperationError> {
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    fold(expression.root()).map_err(|error| match error {
        FoldError::Operation(_, error) => error,
        FoldError::NotConstant(_) => panic!("{text}: needs a program"),
    })
}

/// As [`constant`] for `left operator right`, whose sides are variables; `cast` is an operator too.
fn variable(left: &str, operator: &str, right: &str) -> Result<Constant, OperationError> {
    let left = constant(left)?;
    if operator == "cast" {
        return left.cast(Primitive::of_keyword(right).unwrap());
    }
    let right = constant(right)?;
    let operator = *BINARY.iter().find(|known| known.symbol() == operator).unwrap();
    binary(operator, Operand::variable(&left), Operand::variable(&right))
}

/// The name of the type's class and the text; the number of a character.
fn shown(value: &Constant) -> String {
    let class = value.primitive().map_or_else(String::new, Primitive::class);
    let class = class.trim_start_matches("System.");
    match value {
        Constant::Char(unit) => format!("{class}\t{unit}"),
        _ => {
            let units = value.to_text().0;
            let text = units.into_iter().map(|unit| match char::from_u32(unit.into()) {
                Some(character @ ' '..='~') => character.to_string(),
                _ => format!("\\u{unit:04x}"),
            });
            format!("{class}\t{}", text.collect::<String>())
        }
    }
}

/// The compiler's error or the exception that stands for an error here.
fn code(error: &OperationError) -> &'static str {
    match error {
        OperationError::DivisionByZero => "DivideByZeroException",
        OperationError::Overflow { .. } => "OverflowException",
        OperationError::NoBinary { .. } => "CS0019",
        // The compiler calls these meaningless.
        OperationError::Ambiguous { operator: "&" | "|" | "^", .. } => "CS0019",
        OperationError::Ambiguous { .. } => "CS0034",
        OperationError::NoUnary { .. } => "CS0023",
        OperationError::NoConversion { .. } => "CS0173",
    }
}

fn described(result: Result<Constant, OperationError>) -> String {
    result.map_or_else(|error| format!("error\t{}", code(&error)), |value| shown(&value))
}

#[test]
fn constant_expressions_are_computed_as_by_dotnet() {
    for (text, class, expected) in CONSTANTS {
        assert_eq!(described(constant(text)), format!("{class}\t{expected}"), "{text}");
    }
}

#[test]
fn operators_on_variables_are_computed_as_by_dotnet() {
    for (left, operator, right, class, expected) in VARIABLES {
        let result = described(variable(left, operator, right));
        assert_eq!(result, format!("{class}\t{expected}"), "{left} {operator} {right}");
    }
}

#[track_caller]
fn check(text: &str, expected: &str) {
    let result = constant(text).map_or_else(|error| error.to_string(), |value| value.display());
    assert_eq!(result, expected, "{text}");
}

#[test]
fn expressions_come_to_what_c_sharp_says() {
    for (text, expected) in [
        ("2147483647 + 1", "-2147483648"),
        ("4294967295u + 1u", "0"),
        ("4294967295u + 1", "0"),
        ("-2147483648 / 1", "-2147483648"),
        ("-2147483648 / -1", "the result does not fit `int`"),
        ("-9223372036854775808 % -1", "the result does not fit `long`"),
        ("1 << 33", "2"),
        ("1L << 33", "8589934592"),
        ("-8 >> 1", "-4"),
        ("-8 >>> 28", "15"),
        ("-8L >>> 60", "15"),
        ("0xF0000000 >> 28", "15"),
        ("-7 / 2", "-3"),
        ("-7 % 3", "-1"),
        ("5.5 % 2", "1.5"),
        ("1 / 0", "division by zero"),
        ("1m / 0", "division by zero"),
        ("1.0 / 0", "Infinity"),
        ("0.0 / 0 == 0.0 / 0", "false"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("0.1f + 0.2f", "0.3"),
        ("0.1m + 0.2m", "0.3"),
        ("1m / 3m", "0.3333333333333333333333333333"),
        ("2m / 3m", "0.6666666666666666666666666667"),
        ("'a' + 1", "98"),
        ("(char)('a' + 1)", "98 'b'"),
        ("(byte)300", "44"),
        ("(sbyte)200", "-56"),
        ("(int)3.99", "3"),
        ("(int)-3.99", "-3"),
        ("(nint)1 + 1", "2"),
        ("(nuint)1 + 1", "2"),
        ("(nint)(-1) >>> 63", "1"),
        ("(nuint)1 + (nint)1", "the operator `+` is ambiguous for `nuint` and `nint`"),
        ("true & !false", "true"),
        ("true ^ true", "false"),
        ("true && 1 == 2 || 3 > 2", "true"),
        ("false && 1 / 0 == 1", "false"),
        ("1 && true", "the operator `&&` has no meaning for `int`"),
        ("true < false", "the operator `<` has no meaning for `bool` and `bool`"),
        ("\"a\" < \"b\"", "the operator `<` has no meaning for `string` and `string`"),
        ("\"a\" == 1", "the operator `==` has no meaning for `string` and `int`"),
        ("!1", "the operator `!` has no meaning for `int`"),
        ("(bool)1", "`int` does not convert to `bool`"),
        ("(int)null", "`null` does not convert to `int`"),
        ("\"a\" + 'b' + 1 + 2.5 + true + null", "\"ab12.5True\""),
        ("1 + 2 + \"a\" + 1 + 2", "\"3a12\""),
        ("\"a\" + \"b\" == \"ab\"", "true"),
        ("(string)null == null", "true"),
        ("'\\ud83d' + \"\\ude00\"", "\"😀\""),
        ("null ?? 5", "5"),
        ("(int?)null + 1", "null"),
        ("(int?)null < 1", "false"),
        ("(int?)null == null", "true"),
        ("null != 1", "true"),
        ("(bool?)null & false", "false"),
        ("(bool?)null | true", "true"),
        ("(bool?)null & true", "null"),
        ("-(int?)null", "null"),
        ("sizeof(decimal)", "16"),
        ("default(bool)", "false"),
        ("default(string)", "null"),
        ("nameof(a.b)", "\"b\""),
        ("5 is not null", "true"),
        ("$\"{1 + 1} {'x'} {2.50m}\"", "\"2 x 2.50\""),
    ] {
        check(text, expected);
    }
}

#[test]
fn values_are_shown_as_a_debugger_shows_them() {
    for (text, expected) in [
        ("true", "true"),
        ("'a'", "97 'a'"),
        (r"'\''", r"39 '\''"),
        ("'\"'", "34 '\"'"),
        (r"'\n'", r"10 '\n'"),
        (r"'\ud800'", r"55296 '\ud800'"),
        ("1.0", "1"),
        ("1.50m", "1.50"),
        ("-0.0", "-0"),
        ("1e-7f", "1E-07"),
        (r#""q\"b\\n\nu\u0001\u2028'ä""#, r#""q\"b\\n\nu\u0001\u2028'ä""#),
        ("null", "null"),
    ] {
        check(text, expected);
    }
}

#[test]
fn reals_beyond_a_whole_type_become_its_nearest_number() {
    let cast = |value: f64, to: &str| {
        Constant::Double(value).cast(Primitive::of_keyword(to).unwrap()).unwrap().display()
    };
    let is_beyond = |value, to| Constant::Double(value).is_beyond(Primitive::of_keyword(to).unwrap());
    for (value, to) in
        [(1e300, "int"), (-1.0, "uint"), (f64::NAN, "long"), (2f64.powi(63), "long"), (3e9, "byte")]
    {
        assert!(is_beyond(value, to), "{value} as {to}");
    }
    for (value, to) in [
        (-0.9, "uint"),
        (-2147483648.9, "int"),
        (-(2f64.powi(63)), "long"),
        (300.7, "byte"),
        (1e300, "float"),
    ] {
        assert!(!is_beyond(value, to), "{value} as {to}");
    }
    assert_eq!(cast(1e300, "int"), "2147483647");
    assert_eq!(cast(-1.0, "uint"), "0");
    assert_eq!(cast(1e300, "ulong"), "18446744073709551615");
    assert_eq!(cast(f64::NAN, "long"), "0");
    assert_eq!(cast(300.7, "byte"), "44");
}

#[test]
fn values_come_from_memory_and_go_back() {
    for text in ["true", "'x'", "(sbyte)(-3)", "7u", "-5L", "(nint)9", "1.5f", "-2.25", "-12.50m", "1e-28m"] {
        let value = constant(text).unwrap();
        let bytes = value.to_bytes().unwrap();
        let primitive = value.primitive().unwrap();
        assert_eq!(bytes.len(), primitive.size().unwrap(), "{text}");
        let again = Constant::from_bytes(&bytes, primitive).unwrap();
        assert_eq!(again.display(), value.display(), "{text}");
        assert_eq!(Constant::from_bytes(&bytes[1..], primitive), None, "{text}");
    }
    // The fields of `12.5m`: flags with the scale, the high part, the low part.
    let bytes = [0, 0, 1, 0, 0, 0, 0, 0, 125, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(constant("12.5m").unwrap().to_bytes().unwrap(), bytes);
    let bad = [0, 0, 29, 0, 0, 0, 0, 0, 125, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Constant::from_bytes(&bad, Primitive::Decimal), None);
}

#[test]
fn conversions_without_a_cast_are_those_of_c_sharp() {
    let named = |name: &str| Primitive::of_keyword(name).unwrap();
    for (from, to) in [
        ("sbyte", "short int long nint float double decimal"),
        ("byte", "short ushort int uint long ulong nint nuint float double decimal"),
        ("short", "int long nint float double decimal"),
        ("ushort", "int uint long ulong nint nuint float double decimal"),
        ("int", "long nint float double decimal"),
        ("uint", "long ulong nuint float double decimal"),
        ("long", "float double decimal"),
        ("ulong", "float double decimal"),
        ("nint", "long float double decimal"),
        ("nuint", "ulong float double decimal"),
        ("char", "ushort int uint long ulong nint nuint float double decimal"),
        ("float", "double"),
        ("double", ""),
        ("decimal", ""),
        ("bool", ""),
        ("string", ""),
    ] {
        let all =
            "bool char sbyte byte short ushort int uint long ulong nint nuint float double decimal string";
        for target in all.split(' ') {
            let expected = target == from || to.split(' ').any(|name| name == target);
            let found = implicitly_converts(named(from), named(target));
            assert_eq!(found.is_some(), expected, "{from} to {target}");
            assert_eq!(found == Some(Rank::SAME), target == from, "{from} to {target}");
        }
    }
}

#[test]
fn the_better_of_two_conversions_is_the_one_that_c_sharp_takes() {
    let named = |name: &str| Primitive::of_keyword(name).unwrap();
    let rank = |to: &str| implicitly_converts(Primitive::Byte, named(to)).unwrap();
    let order = ["byte", "short", "ushort", "int", "uint", "long", "ulong", "float", "double"];
    assert!(order.map(rank).is_sorted());
    let five = Constant::Int(5);
    assert!(five.converts_as_constant(Primitive::Byte) && five.converts_as_constant(Primitive::ULong));
    assert!(!Constant::Int(-5).converts_as_constant(Primitive::UInt));
    assert!(!Constant::Int(300).converts_as_constant(Primitive::Byte));
    assert!(Constant::Long(5).converts_as_constant(Primitive::ULong));
    assert!(!Constant::Long(5).converts_as_constant(Primitive::Int));
}
