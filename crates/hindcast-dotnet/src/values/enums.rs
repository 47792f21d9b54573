//! Values of enums under their names.

use crate::image::Constant;

use super::{
    seen::{Content, Seen, Values},
    types::Definition,
};

impl Values<'_> {
    /// The name of an enum's value; several for flags; the number where it has none.
    pub(super) fn enum_text(&self, seen: &Seen) -> Option<String> {
        let value = self.enum_value(seen)?;
        let definition = seen.of.definition.as_ref()?;
        Some(enum_name(definition, value).unwrap_or_else(|| value.to_string()))
    }

    /// The number behind an enum's value.
    pub(crate) fn enum_value(&self, seen: &Seen) -> Option<i128> {
        match &seen.content {
            Content::Primitive(..) => seen.whole(),
            _ => self.field_seen(seen, "value__")?.whole(),
        }
    }
}

/// The name of an enum's value.
pub(crate) fn enum_name(definition: &Definition, value: i128) -> Option<String> {
    let type_def = definition.type_def()?;
    let number = |constant: Constant| match constant {
        Constant::Int(number) => Some(i128::from(number)),
        Constant::UInt(number) => Some(i128::from(number)),
        Constant::Char(unit) => Some(i128::from(unit)),
        Constant::Bool(truth) => Some(i128::from(truth)),
        _ => None,
    };
    let named: Vec<(&str, i128)> = type_def
        .fields()
        .filter(|field| field.is_literal())
        .filter_map(|field| Some((field.name()?, field.constant().and_then(number)?)))
        .collect();
    let assembly = definition.module.assembly()?;
    let has_flags = assembly.has_attribute(definition.token, "System.FlagsAttribute");
    name_of(named, value, has_flags)
}

fn name_of(named: Vec<(&str, i128)>, value: i128, has_flags: bool) -> Option<String> {
    if let Some((name, _)) = named.iter().find(|(_, number)| *number == value) {
        return Some((*name).to_owned());
    }
    if !has_flags {
        return None;
    }
    let (mut left, mut names) = (value, Vec::new());
    // The largest first, so that a name for several flags stands for all of them.
    let mut flags: Vec<_> = named.into_iter().filter(|(_, number)| *number != 0).collect();
    flags.sort_by_key(|(_, number)| std::cmp::Reverse(number.cast_unsigned()));
    for (name, number) in flags {
        if left & number == number {
            left &= !number;
            names.push(name);
        }
    }
    names.reverse();
    (left == 0 && !names.is_empty()).then(|| names.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: i128, has_flags: bool, expected: Option<&str>) {
        let named = vec![
            ("None", 0),
            ("Read", 1),
            ("Write", 2),
            ("All", 7),
            ("Execute", 4),
            ("Top", u64::MAX.into()),
        ];
        assert_eq!(name_of(named, value, has_flags).as_deref(), expected);
    }

    #[test]
    fn values_of_enums_have_the_names_that_make_them_up() {
        check(2, false, Some("Write"));
        check(3, false, None);
        check(3, true, Some("Read | Write"));
        check(7, true, Some("All"));
        check(0, true, Some("None"));
        check(40, true, None);
        check(u64::MAX.into(), false, Some("Top"));
    }
}
