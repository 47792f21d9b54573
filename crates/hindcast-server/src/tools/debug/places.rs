//! Places in the code, as callers write them.

use hindcast_core::debug::{Place, RuntimeAddr};
use hindcast_services::Failure;

use super::invalid;

/// The fields by which a place can be named.
pub(super) struct Named<'a> {
    pub(super) address: Option<&'a str>,
    pub(super) file: Option<&'a str>,
    pub(super) line: Option<u32>,
    pub(super) function: Option<&'a str>,
    pub(super) statement: Option<&'a str>,
}

impl Named<'_> {
    /// The place that is named; an error where none or several are.
    pub(super) fn place(&self) -> Result<Place, Failure> {
        let several = || {
            invalid("more than one place is named")
                .hint("give one of `address`, `function`, `file` with `line`, `file` with `statement`")
        };
        let file = self.file.filter(|file| !file.is_empty());
        let place = match (self.address, file, self.function) {
            (Some(address), None, None) => Place::Address(parse_address(address)?),
            (None, None, Some(_)) if self.line.is_some() || self.statement.is_some() => return Err(several()),
            // `counter.c:12` is a line, whatever field it is written into.
            (None, None, Some(function)) => Place::named(function),
            (None, Some(file), function) => match (self.line, self.statement, function) {
                (Some(0), ..) => return Err(invalid("`line` counts from 1")),
                (Some(line), None, None) => Place::Line { file: file.into(), line },
                (None, Some(text), None) => Place::Statement { file: file.into(), text: text.into() },
                // A file beside a function says nothing more.
                (None, None, Some(function)) => Place::Function(function.into()),
                (None, None, None) => {
                    return Err(invalid("`file` needs `line` or `statement`"));
                }
                _ => return Err(several()),
            },
            (None, None, None) => {
                return Err(invalid("no place is named")
                    .hint("give `function`, `file` with `line`, `file` with `statement`, or `address`"));
            }
            _ => return Err(several()),
        };
        Ok(place)
    }
}

pub(super) fn parse_address(text: &str) -> Result<RuntimeAddr, Failure> {
    text.parse().map_err(|error: hindcast_core::debug::NotAnAddress| {
        invalid(error.to_string()).hint("write it as `0x401000`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Named<'_> =
        Named { address: None, file: None, line: None, function: None, statement: None };

    #[track_caller]
    fn check(named: Named<'_>, place: &str) {
        match named.place() {
            Ok(found) => assert_eq!(found.to_string(), place),
            Err(failure) => assert!(failure.details.contains(place), "{failure}"),
        }
    }

    #[test]
    fn places_are_read_in_all_their_forms() {
        check(Named { address: Some("0x401000"), ..NOTHING }, "0x401000");
        check(Named { function: Some("std::vector::push_back"), ..NOTHING }, "std::vector::push_back");
        check(Named { function: Some("counter.c:12"), ..NOTHING }, "counter.c:12");
        check(Named { file: Some("a.c"), line: Some(3), ..NOTHING }, "a.c:3");
        check(Named { file: Some("a.c"), statement: Some("x = 1"), ..NOTHING }, "a.c: x = 1");
        check(Named { file: Some("a.c"), function: Some("main"), ..NOTHING }, "main");
        check(NOTHING, "no place");
        check(Named { file: Some("a.c"), ..NOTHING }, "needs `line`");
        check(Named { address: Some("1"), function: Some("main"), ..NOTHING }, "more than one");
        check(Named { function: Some("main"), line: Some(3), ..NOTHING }, "more than one");
        check(Named { address: Some("main"), ..NOTHING }, "not an address");
    }
}
