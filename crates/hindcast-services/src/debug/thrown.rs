//! Exceptions in words, and where they were thrown when that is not where the program stands.

use std::fmt::Write as _;

use hindcast_core::debug::RaisedException;

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
}
