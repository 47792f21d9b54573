//! Number registers, and the conditions that depend on them.

use std::collections::HashMap;

use super::escapes::name;

/// Deeper parentheses are made to hurt.
const DEEPEST: usize = 20;

/// The registers that a page sets; none for a value that is not known.
#[derive(Default)]
pub(super) struct Registers(HashMap<String, Option<i64>>);

impl Registers {
    /// What `.nr` says: a name and a value, which a sign adds to what is there.
    pub(super) fn set(&mut self, definition: &str) {
        let mut words = definition.split_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else { return };
        let given = self.value(value.trim_start_matches(['+', '-']));
        let value = match value.chars().next() {
            Some('+') => self.get(name).zip(given).and_then(|(before, more)| before.checked_add(more)),
            Some('-') => self.get(name).zip(given).and_then(|(before, less)| before.checked_sub(less)),
            _ => given,
        };
        self.0.insert(name.to_owned(), value);
    }

    /// What `.rr` says.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name.trim());
    }

    /// One that is not set is 0. Those of `groff` itself begin with a full stop; that it is `groff` is all that is known of them.
    fn get(&self, name: &str) -> Option<i64> {
        match self.0.get(name) {
            Some(value) => *value,
            None if name == ".g" => Some(1),
            None => (!name.starts_with('.')).then_some(0),
        }
    }

    /// How many arguments the macro that is being used has; gives how many the one around it has.
    pub(super) fn count_arguments(&mut self, count: Option<usize>) -> Option<usize> {
        let count = count.and_then(|count| i64::try_from(count).ok());
        let before = self.0.insert(".$".into(), count).flatten();
        before.and_then(|before| before.try_into().ok())
    }

    /// Whether a condition holds, and what it is for. We are `nroff`, and what is not known is taken to hold.
    pub(super) fn condition<'a>(&self, rest: &'a str) -> (bool, &'a str) {
        let rest = rest.trim_start();
        let asked = rest.trim_start_matches('!');
        let is_negated = (rest.len() - asked.len()) % 2 == 1;
        let (holds, then) = compared(asked).unwrap_or_else(|| self.asked(asked));
        (holds.is_none_or(|holds| holds != is_negated), then.trim_start())
    }

    fn asked<'a>(&self, rest: &'a str) -> (Option<bool>, &'a str) {
        let (condition, then) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        // The text may follow at once.
        let (condition, then) = match condition.split_once("\\{") {
            Some((condition, _)) => (condition, &rest[condition.len()..]),
            None => (condition, then),
        };
        match condition {
            "n" | "o" => (Some(true), then),
            "t" | "v" => (Some(false), then),
            // What they ask about may stand apart.
            "c" | "d" | "F" | "m" | "r" | "S" => {
                (None, then.trim_start().split_once([' ', '\t']).map_or("", |(_, then)| then))
            }
            _ => match condition.strip_prefix('r') {
                Some(register) => (Some(self.0.contains_key(register)), then),
                None => (self.value(condition).map(|value| value > 0), then),
            },
        }
    }

    /// The value of an expression; none where a part of it is not known.
    fn value(&self, expression: &str) -> Option<i64> {
        let (value, rest) = self.chain(expression, 0)?;
        rest.is_empty().then_some(value)
    }

    /// Operators are worked off from left to right, none goes before another.
    fn chain<'a>(&self, expression: &'a str, depth: usize) -> Option<(i64, &'a str)> {
        const OPERATORS: [&str; 13] = ["<=", ">=", "==", "<", ">", "=", "&", ":", "+", "-", "*", "/", "%"];
        let (mut value, mut rest) = self.operand(expression, depth)?;
        while let Some((operator, after)) =
            OPERATORS.iter().find_map(|operator| Some((*operator, rest.strip_prefix(operator)?)))
        {
            let (right, after) = self.operand(after, depth)?;
            value = match operator {
                "<=" => i64::from(value <= right),
                ">=" => i64::from(value >= right),
                "==" | "=" => i64::from(value == right),
                "<" => i64::from(value < right),
                ">" => i64::from(value > right),
                "&" => i64::from(value > 0 && right > 0),
                ":" => i64::from(value > 0 || right > 0),
                "+" => value.checked_add(right)?,
                "-" => value.checked_sub(right)?,
                "*" => value.checked_mul(right)?,
                "/" => value.checked_div(right)?,
                _ => value.checked_rem(right)?,
            };
            rest = after;
        }
        Some((value, rest))
    }

    fn operand<'a>(&self, text: &'a str, depth: usize) -> Option<(i64, &'a str)> {
        if depth > DEEPEST {
            return None;
        }
        if let Some(inner) = text.strip_prefix('(') {
            let (value, rest) = self.chain(inner, depth + 1)?;
            return Some((value, rest.strip_prefix(')')?));
        }
        if let Some(register) = text.strip_prefix("\\n") {
            let (name, rest) = name(register);
            return Some((self.get(name)?, rest));
        }
        if let Some(positive) = text.strip_prefix('-') {
            let (value, rest) = self.operand(positive, depth + 1)?;
            return Some((value.checked_neg()?, rest));
        }
        let after = text.trim_start_matches(|char: char| char.is_ascii_digit());
        let value = text[..text.len() - after.len()].parse().ok()?;
        Some((value, after.strip_prefix('u').unwrap_or(after)))
    }
}

/// Whether two texts are the same, as in `'one'other'`; what strings and registers are in them is not known.
fn compared(rest: &str) -> Option<(Option<bool>, &str)> {
    let sign = rest.chars().next().filter(|sign| "'\"".contains(*sign))?;
    let (one, rest) = rest[1..].split_once(sign)?;
    let (other, then) = rest.split_once(sign)?;
    let is_known = ![one, other].iter().any(|text| text.contains("\\*") || text.contains("\\n"));
    Some((is_known.then(|| one == other), then))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_judged_by_what_the_page_sets() {
        let mut registers = Registers::default();
        for definition in ["a 2", "b 1", "b +3", "c \\nb-\\na", "w \\w'long'", "gone 1"] {
            registers.set(definition);
        }
        registers.remove("gone");
        for (condition, holds) in [
            ("n", true),
            ("!n", false),
            ("t", false),
            ("!t", true),
            ("\\n(zZ=1", false),
            ("!\\n(zZ", true),
            ("\\n(.g", true),
            ("!\\n[.g]", false),
            ("\\na==2", true),
            ("!\\na==2", false),
            ("\\nb>=4&\\nc<3", true),
            ("(\\n(rF:(\\n(.g==0))", false),
            ("-1", false),
            ("rgone", false),
            ("ra", true),
            ("\\nw", true),
            ("\\n(.H=4u", true),
            ("'\\*(.T'ps'", true),
            ("!'\\*(.T'ps'", true),
            ("'a b'a b'", true),
            ("!\"word\"\"", true),
            ("!\"\"\"", false),
            ("\\n(.$>1", true),
            ("1/0", true),
        ] {
            let line = format!("{condition} then");
            assert_eq!(registers.condition(&line), (holds, "then"), "{condition}");
        }
        assert_eq!((registers.count_arguments(Some(1)), registers.condition("\\n(.$>1 x").0), (None, false));
        assert_eq!(registers.count_arguments(None), Some(1));
        assert_eq!(registers.condition("d XX then"), (true, "then"));
        assert_eq!(registers.condition("\\nF\\{then"), (false, "\\{then"));
        assert!(registers.condition(&"(".repeat(100_000)).0);
    }
}
