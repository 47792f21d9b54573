//! Whether an SPDX licence expression can be satisfied by a set of accepted licences.

use anyhow::{Result, bail};

/// Evaluates `expression`: each licence (with its exception, as in `Apache-2.0 WITH LLVM-exception`) is asked of
/// `accepted`; `AND` binds tighter than `OR`. The old form `MIT/Apache-2.0` means `OR`. Fails on a malformed expression.
pub(crate) fn is_satisfied(expression: &str, accepted: &dyn Fn(&str) -> bool) -> Result<bool> {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut parser = Parser { words: spaced.split_whitespace().collect(), next: 0, accepted };
    let satisfied = parser.alternatives()?;
    match parser.peek() {
        None => Ok(satisfied),
        Some(word) => bail!("unexpected `{word}` in the licence expression `{expression}`"),
    }
}

struct Parser<'a> {
    words: Vec<&'a str>,
    next: usize,
    accepted: &'a dyn Fn(&str) -> bool,
}

impl<'a> Parser<'a> {
    fn alternatives(&mut self) -> Result<bool> {
        let mut satisfied = self.conjunction()?;
        while self.take("OR") {
            satisfied |= self.conjunction()?;
        }
        Ok(satisfied)
    }

    fn conjunction(&mut self) -> Result<bool> {
        let mut satisfied = self.licence()?;
        while self.take("AND") {
            satisfied &= self.licence()?;
        }
        Ok(satisfied)
    }

    fn licence(&mut self) -> Result<bool> {
        if self.take("(") {
            let satisfied = self.alternatives()?;
            if !self.take(")") {
                bail!("a closing bracket is missing in the licence expression");
            }
            return Ok(satisfied);
        }
        let name = self.name()?;
        if self.take("WITH") {
            let exception = self.name()?;
            return Ok((self.accepted)(&format!("{name} WITH {exception}")));
        }
        Ok((self.accepted)(name))
    }

    fn name(&mut self) -> Result<&'a str> {
        match self.peek() {
            Some(word) if !["AND", "OR", "WITH", "(", ")"].contains(&word) => {
                self.next += 1;
                Ok(word)
            }
            Some(word) => bail!("expected a licence, found `{word}`"),
            None => bail!("expected a licence, found the end of the expression"),
        }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expected: bool) {
        let accepted = |licence: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
        assert_eq!(is_satisfied(expression, &accepted).expect("well-formed"), expected, "{expression}");
    }

    #[test]
    fn one_alternative_is_enough_and_every_conjunct_is_needed() {
        check("MIT", true);
        check("GPL-3.0", false);
        check("GPL-3.0 OR MIT", true);
        check("MIT AND GPL-3.0", false);
        check("MIT AND ISC", true);
    }

    #[test]
    fn and_binds_tighter_than_or() {
        check("MIT OR GPL-3.0 AND GPL-2.0", true);
        check("GPL-2.0 AND MIT OR ISC", true);
        check("(MIT OR GPL-3.0) AND GPL-2.0", false);
        check("(MIT OR GPL-3.0) AND ISC", true);
    }

    #[test]
    fn an_exception_belongs_to_its_licence() {
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0", false);
        check("MIT WITH LLVM-exception", false);
    }

    #[test]
    fn the_old_slash_means_or() {
        check("MIT/Apache-2.0", true);
        check("GPL-2.0 / ISC", true);
    }

    #[test]
    fn malformed_expressions_are_refused() {
        for expression in ["", "MIT OR", "(MIT", "MIT)", "MIT ISC", "AND MIT", "Apache-2.0 WITH"] {
            assert!(is_satisfied(expression, &|_| true).is_err(), "{expression}");
        }
    }
}
