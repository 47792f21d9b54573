//! Exceptions in words, and where they were thrown when that is not where the program stands.

use std::fmt::Write as _;

use hindcast_core::debug::{InnerException, RaisedException};

use super::secrets::Mask;

/// Takes secrets out of all that an exception says.
pub(super) fn mask(raised: &mut RaisedException, mask: Mask) {
    let texts = raised.message.iter_mut().chain(&mut raised.because);
    let inner = raised.inner.iter_mut().filter_map(|inner| inner.message.as_mut());
    texts.chain(inner).for_each(|text| mask.string(text));
}

/// `Thrown at: A.Get at A.cs:3, through A.Main at A.cs:9`; none where the program still stands there.
pub fn thrown_in_words(raised: &RaisedException) -> Option<String> {
    let (first, rest) = raised.thrown_at.split_first()?;
    let mut text = format!("Thrown at: {}", first.in_words());
    for (at, location) in rest.iter().enumerate() {
        let by = if at == 0 { "through " } else { "" };
        let _ = write!(text, ", {by}{}", location.in_words());
    }
    Some(text)
}

/// `, caused by A: text, caused by B`. Exceptions that led to one side by side are numbered, as in an `AggregateException`.
pub(super) fn causes_in_words(inner: &[InnerException]) -> String {
    causes_under("", inner)
}

/// `number` is what stands before the numbers of those that are side by side.
fn causes_under(number: &str, inner: &[InnerException]) -> String {
    let Some(depth) = inner.first().map(|first| first.depth) else { return String::new() };
    let causes: Vec<_> = inner.chunk_by(|_, next| next.depth > depth).collect();
    let mut text = String::new();
    for (at, cause) in causes.iter().enumerate() {
        let Some((first, behind)) = cause.split_first() else { continue };
        let own = if causes.len() > 1 { format!("{number}{}", at + 1) } else { String::new() };
        text.push_str(if at == 0 { ", caused by " } else { "; " });
        if !own.is_empty() {
            let _ = write!(text, "({own}) ");
        }
        text.push_str(&first.exception_type);
        if let Some(message) = &first.message {
            let _ = write!(text, ": {message}");
        }
        if let Some(place) = &first.thrown_at {
            let _ = write!(text, " (thrown at {})", place.in_words());
        }
        let before = if own.is_empty() { number.to_owned() } else { format!("{own}.") };
        text.push_str(&causes_under(&before, behind));
    }
    text
}

/// How to see what the throw saw.
pub(super) fn how_to_see_the_throw(raised: &RaisedException) -> Option<String> {
    if raised.thrown_at.is_empty() || !raised.unhandled {
        return None;
    }
    Some(format!(
        "the program has left the place of the throw, and its variables are gone: to stop there, \
         `debugger/set_exception_breakpoint` with exception_type `{}` (first chance), then `debugger/restart`",
        raised.exception_type
    ))
}

#[cfg(test)]
mod tests {
    use hindcast_core::debug::Location;

    use super::*;

    fn at(function: &str, line: u32) -> Location {
        Location {
            function: Some(function.into()),
            file: Some("/src/A.cs".into()),
            line: Some(line),
            ..Location::default()
        }
    }

    #[test]
    fn the_way_of_an_exception_is_told_from_the_throw_on() {
        let mut raised = RaisedException { unhandled: true, ..RaisedException::default() };
        assert_eq!((thrown_in_words(&raised), how_to_see_the_throw(&raised)), (None, None));
        raised.thrown_at = vec![at("A.Get", 3), at("A.Run", 7), at("A.Main", 9)];
        let words = thrown_in_words(&raised).unwrap_or_default();
        assert_eq!(words, "Thrown at: A.Get at A.cs:3, through A.Run at A.cs:7, A.Main at A.cs:9");
        assert!(how_to_see_the_throw(&raised).is_some());
    }

    #[test]
    fn exceptions_side_by_side_are_not_told_as_causes_of_each_other() {
        let inner = |depth, name: &str| InnerException {
            depth,
            exception_type: name.to_owned(),
            message: Some(name.to_lowercase()),
            ..InnerException::default()
        };
        let check = |inner: &[InnerException], words: &str| assert_eq!(causes_in_words(inner), words);
        check(&[], "");
        check(&[inner(1, "A"), inner(2, "B")], ", caused by A: a, caused by B: b");
        check(
            &[inner(1, "A"), inner(2, "B"), inner(1, "C")],
            ", caused by (1) A: a, caused by B: b; (2) C: c",
        );
        check(
            &[inner(1, "A"), inner(2, "B"), inner(2, "C"), inner(1, "D")],
            ", caused by (1) A: a, caused by (1.1) B: b; (1.2) C: c; (2) D: d",
        );
    }
}
