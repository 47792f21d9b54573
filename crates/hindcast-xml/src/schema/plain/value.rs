//! Values of plain types.

use regex::Regex;
use xsd_schema::{
    SchemaSet, TypeKey, XmlTypeCode,
    parser::frames::SimpleTypeVariety,
    types::facets::{FacetSet, PatternFacet},
    validation::validate_simple_type,
};

/// Digits that fit into a number here.
const MOST_DIGITS: usize = 18;

/// A type of values.
pub(super) struct Value {
    kind: TypeKey,
    test: Test,
}

/// What is enough for a text to be a value. Texts that do not pass may be values all the same.
#[derive(Debug)]
enum Test {
    /// Every text is one.
    Any,
    OneOf(Vec<String>),
    /// All of these.
    Patterns(Vec<Regex>),
    Number(Bounds),
    Date,
    Language,
    Boolean,
    /// There is none: the validator is asked.
    Unknown,
}

impl Value {
    /// None if it is not the text alone that makes a value.
    pub(super) fn new(kind: TypeKey, set: &SchemaSet) -> Option<Self> {
        let TypeKey::Simple(mut at) = kind else { return None };
        let mut facets = Vec::new();
        let code = loop {
            if let Some(code) = set.get_type_code(at) {
                break code;
            }
            let data = set.arenas.simple_types.get(at)?;
            let TypeKey::Simple(base) = data.resolved_base_type? else { return None };
            if data.variety != SimpleTypeVariety::Atomic || base == at {
                return None;
            }
            facets.push(&data.facets);
            at = base;
        };
        test(code, &facets).map(|test| Self { kind, test })
    }

    /// Whether the text is certainly a value of this type.
    pub(super) fn takes(&self, text: &str, set: &SchemaSet) -> bool {
        self.test.passes(text) || validate_simple_type(text, self.kind, set).is_ok()
    }
}

/// None for types whose values depend on more than their text.
fn test(code: XmlTypeCode, facets: &[&FacetSet]) -> Option<Test> {
    use XmlTypeCode as Code;
    Some(match code {
        Code::String => string(facets),
        Code::NormalizedString | Code::Token if facets.is_empty() => Test::Any,
        Code::Language if facets.is_empty() => Test::Language,
        Code::Boolean if facets.is_empty() => Test::Boolean,
        Code::Date if facets.is_empty() => Test::Date,
        Code::Decimal => Bounds::new(Bounds::ALL, facets).map_or(Test::Unknown, Test::Number),
        Code::Integer | Code::Long | Code::Int | Code::Short | Code::Byte => integer(code, facets),
        Code::NonNegativeInteger | Code::PositiveInteger => integer(code, facets),
        Code::NonPositiveInteger | Code::NegativeInteger => integer(code, facets),
        Code::UnsignedLong | Code::UnsignedInt | Code::UnsignedShort | Code::UnsignedByte => {
            integer(code, facets)
        }
        Code::NormalizedString | Code::Token | Code::Language | Code::NmToken => Test::Unknown,
        Code::Name | Code::NCName | Code::Boolean | Code::Float | Code::Double => Test::Unknown,
        Code::Date | Code::Time | Code::DateTime | Code::Duration => Test::Unknown,
        Code::AnyUri | Code::HexBinary | Code::Base64Binary => Test::Unknown,
        // Identities, references and names with prefixes among them.
        _ => return None,
    })
}

fn integer(code: XmlTypeCode, facets: &[&FacetSet]) -> Test {
    use XmlTypeCode as Code;
    let all = Bounds { fraction_digits: 0, ..Bounds::ALL };
    let within = |least: i128, most: i128| Bounds { least: Some(least), most: Some(most), ..all };
    let bounds = match code {
        Code::Long => within(i64::MIN.into(), i64::MAX.into()),
        Code::Int => within(i32::MIN.into(), i32::MAX.into()),
        Code::Short => within(i16::MIN.into(), i16::MAX.into()),
        Code::Byte => within(i8::MIN.into(), i8::MAX.into()),
        Code::UnsignedLong => within(0, u64::MAX.into()),
        Code::UnsignedInt => within(0, u32::MAX.into()),
        Code::UnsignedShort => within(0, u16::MAX.into()),
        Code::UnsignedByte => within(0, u8::MAX.into()),
        Code::NonNegativeInteger => Bounds { least: Some(0), ..all },
        Code::PositiveInteger => Bounds { least: Some(1), ..all },
        Code::NonPositiveInteger => Bounds { most: Some(0), ..all },
        Code::NegativeInteger => Bounds { most: Some(-1), ..all },
        _ => all,
    };
    // Bounds are compared in units of the last digit.
    let scaled = |bound: Option<i128>| bound.map(|bound| bound * SCALE);
    let bounds = Bounds { least: scaled(bounds.least), most: scaled(bounds.most), ..bounds };
    Bounds::new(bounds, facets).map_or(Test::Unknown, Test::Number)
}

/// Whether there are facets besides those that are taken away.
fn has_others(facets: &FacetSet, take: impl FnOnce(&mut FacetSet)) -> bool {
    let mut rest = facets.clone();
    take(&mut rest);
    !rest.is_empty()
}

/// A test for restrictions of `xs:string` by one kind of facet.
fn string(facets: &[&FacetSet]) -> Test {
    if facets.iter().all(|facets| facets.is_empty()) {
        return Test::Any;
    }
    let [facets] = facets else { return Test::Unknown };
    let has_others = has_others(facets, |facets| {
        facets.enumeration = None;
        facets.patterns.clear();
    });
    if has_others {
        return Test::Unknown;
    }
    match (&facets.enumeration, facets.patterns.as_slice()) {
        (Some(values), []) => Test::OneOf(values.values.iter().cloned().collect()),
        // Alternatives of one step are left to the validator.
        (None, steps) => {
            let single = steps.iter().map(|step| match step.as_slice() {
                [pattern] => translated(pattern),
                _ => None,
            });
            single.collect::<Option<Vec<_>>>().map_or(Test::Unknown, Test::Patterns)
        }
        _ => Test::Unknown,
    }
}

/// A pattern that means the same in both languages for ASCII texts; most patterns are so simple.
fn translated(pattern: &PatternFacet) -> Option<Regex> {
    let mut characters = pattern.value.chars().peekable();
    let mut is_class = false;
    while let Some(character) = characters.next() {
        let is_known = match character {
            '\\' => matches!(characters.next(), Some('d' | '.' | '-' | '(' | ')' | '+' | '*' | '?' | '\\')),
            '[' => {
                characters.next_if_eq(&'^');
                !std::mem::replace(&mut is_class, true)
            }
            ']' => std::mem::replace(&mut is_class, false),
            '-' => characters.peek().is_none_or(|next| next.is_ascii_alphanumeric() || !is_class),
            '(' | ')' | '|' | '*' | '+' | '?' | '{' | '}' | ',' => !is_class,
            ' ' | '_' | ':' | '/' | '@' | '#' | '%' | '=' | ';' => true,
            other => other.is_ascii_alphanumeric(),
        };
        if !is_known {
            return None;
        }
    }
    Regex::new(&format!("^(?-u:{})$", pattern.value)).ok()
}

impl Test {
    fn passes(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(values) => values.iter().any(|value| value == text),
            Self::Patterns(patterns) => {
                text.is_ascii() && patterns.iter().all(|pattern| pattern.is_match(text))
            }
            Self::Number(bounds) => bounds.hold(text),
            Self::Date => is_date(text),
            Self::Language => text.split('-').enumerate().all(|(number, part)| {
                let is_letter = |byte: u8| byte.is_ascii_alphabetic() || number > 0 && byte.is_ascii_digit();
                (1..=8).contains(&part.len()) && part.bytes().all(is_letter)
            }),
            Self::Boolean => matches!(text, "true" | "false" | "0" | "1"),
            Self::Unknown => false,
        }
    }
}

/// Digits after the point that are kept.
const SCALE_DIGITS: usize = 18;
const SCALE: i128 = 10i128.pow(SCALE_DIGITS as u32);

/// What a number must be within; in units of the last digit that is kept.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    least: Option<i128>,
    most: Option<i128>,
    fraction_digits: usize,
}

impl Bounds {
    const ALL: Self = Self { least: None, most: None, fraction_digits: SCALE_DIGITS };

    /// The bounds of the built-in type, drawn tighter by facets; none if there are others than bounds.
    fn new(all: Self, facets: &[&FacetSet]) -> Option<Self> {
        let mut bounds = all;
        for facets in facets {
            let has_others = has_others(facets, |facets| {
                facets.min_inclusive = None;
                facets.max_inclusive = None;
                facets.fraction_digits = None;
            });
            if has_others {
                return None;
            }
            if let Some(facet) = &facets.min_inclusive {
                let least = number(&facet.value)?.0;
                bounds.least = Some(bounds.least.map_or(least, |known| known.max(least)));
            }
            if let Some(facet) = &facets.max_inclusive {
                let most = number(&facet.value)?.0;
                bounds.most = Some(bounds.most.map_or(most, |known| known.min(most)));
            }
            if let Some(facet) = &facets.fraction_digits {
                bounds.fraction_digits = bounds.fraction_digits.min(facet.value as usize);
            }
        }
        Some(bounds)
    }

    fn hold(&self, text: &str) -> bool {
        // An integer has no point, not even with nothing behind it.
        number(text).is_some_and(|(number, fraction)| {
            fraction.is_none_or(|digits| self.fraction_digits > 0 && digits <= self.fraction_digits)
                && self.least.is_none_or(|least| number >= least)
                && self.most.is_none_or(|most| number <= most)
        })
    }
}

/// A number that is written plainly and not too long, and how many digits stand behind its point.
fn number(text: &str) -> Option<(i128, Option<usize>)> {
    let (is_negative, digits) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || digits.len() > MOST_DIGITS {
        return None;
    }
    let mut value: i128 = 0;
    let mut fraction = None;
    for byte in digits {
        match byte {
            b'0'..=b'9' => {
                value = value * 10 + i128::from(byte - b'0');
                fraction = fraction.map(|digits| digits + 1);
            }
            b'.' if fraction.is_none() && digits[0] != b'.' => fraction = Some(0),
            _ => return None,
        }
    }
    if fraction == Some(0) {
        return None;
    }
    let kept = 10i128.pow((SCALE_DIGITS - fraction.unwrap_or(0)) as u32);
    Some((if is_negative { -value * kept } else { value * kept }, fraction))
}

/// A date of our time, without a time zone.
fn is_date(text: &str) -> bool {
    let &[y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text.as_bytes() else { return false };
    let digits = [y1, y2, y3, y4, m1, m2, d1, d2];
    if !digits.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let number = |digits: &[u8]| digits.iter().fold(0u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    let (year, month, day) = (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2]));
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    year > 0 && (1..=days).contains(&day)
}
