//! Which expression of the source led to an address that cannot be accessed.

use hindcast_core::debug::{
    DebugBackend, Evaluation, FrameRef, NumberFormat, RuntimeAddr, ThreadId, ValueLimits,
};

use super::AutopsyFrame;

/// A pointer to an object is at most this far below the member that was accessed.
const NEAR: u64 = 0x1_0000;
/// So many expressions of a line are tried.
const TRIED: usize = 16;
/// Only the pointer itself matters.
const POINTER: ValueLimits = ValueLimits { depth: 0, children: 1, offset: 0, text: 1 };

/// An expression whose value is the bad pointer.
pub(super) struct Suspect {
    pub(super) expression: String,
    pub(super) frame: u32,
    /// What to find out about it.
    pub(super) question: &'static str,
}

/// Looks through what the lines of the stack say, innermost first, then through its arguments and locals.
pub(super) fn find(
    backend: &mut dyn DebugBackend,
    thread: ThreadId,
    frames: &[AutopsyFrame],
    accessed: RuntimeAddr,
) -> Option<Suspect> {
    for frame in frames {
        let named = frame.text.as_deref().map(paths).unwrap_or_default();
        let expression = named.into_iter().find(|expression| {
            value_of(backend, thread, frame, expression).is_some_and(|value| points_to(&value, accessed))
        });
        let local = || frame.suspects.iter().find(|local| points_to(&local.value, accessed));
        if let Some(expression) = expression.or_else(|| Some(local()?.name.clone())) {
            let question = "who made it point there";
            return Some(Suspect { expression, frame: frame.index, question });
        }
    }
    None
}

/// The one thing on the line of a frame of Python that is `None`. Of several nobody knows which it was.
pub(super) fn find_none(
    backend: &mut dyn DebugBackend,
    thread: ThreadId,
    frame: &AutopsyFrame,
) -> Option<Suspect> {
    let named = frame.text.as_deref().map(python_names)?;
    let mut none = named
        .into_iter()
        .filter(|expression| value_of(backend, thread, frame, expression).as_deref() == Some("None"));
    let expression = none.next()?;
    if none.next().is_some() {
        return None;
    }
    Some(Suspect { expression, frame: frame.index, question: "who set it to None" })
}

/// Names with the attributes behind them in a line of Python, as in `order` and `order.price`: not those in texts and
/// comments, and not what is assigned to.
fn python_names(line: &str) -> Vec<String> {
    const WORDS: [&str; 20] = [
        "None", "True", "False", "and", "or", "not", "in", "is", "if", "else", "for", "while", "return",
        "yield", "await", "lambda", "assert", "raise", "with", "del",
    ];
    let mut code = String::new();
    let mut quote = None;
    for letter in line.chars() {
        match (quote, letter) {
            (None, '#') => break,
            (None, '"' | '\'') => {
                quote = Some(letter);
                code.push(' ');
            }
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => {}
            (None, _) => code.push(letter),
        }
    }
    // A plain `=` outside of calls stands behind a target.
    let mut depth = 0;
    let mut behind = 0;
    let letters: Vec<_> = code.char_indices().collect();
    for (number, &(at, letter)) in letters.iter().enumerate() {
        let neighbour =
            |number: Option<usize>| number.and_then(|number| letters.get(number)).map(|near| near.1);
        let is_part = |near: Option<char>| near.is_some_and(|near| "=<>!:+-*/%&|^@".contains(near));
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '=' if depth == 0
                && !is_part(neighbour(number.checked_sub(1)))
                && neighbour(Some(number + 1)) != Some('=') =>
            {
                behind = at + 1;
            }
            _ => {}
        }
    }
    let mut names: Vec<String> = Vec::new();
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
    for word in code[behind..].split(|letter| !is_name(letter)) {
        let parts: Vec<_> = word.split('.').collect();
        let is_first = |part: &str| part.starts_with(|first: char| first.is_alphabetic() || first == '_');
        for length in 1..=parts.len() {
            let path = parts[..length].join(".");
            if parts[..length].iter().all(|part| is_first(part))
                && !WORDS.contains(&path.as_str())
                && !names.contains(&path)
            {
                names.push(path);
            }
        }
    }
    names.truncate(TRIED);
    names
}

fn value_of(
    backend: &mut dyn DebugBackend,
    thread: ThreadId,
    frame: &AutopsyFrame,
    expression: &str,
) -> Option<String> {
    let evaluation = Evaluation {
        expression: expression.to_owned(),
        frame: FrameRef::of(thread, frame.index),
        limits: POINTER,
        format: NumberFormat::Auto,
        may_write: false,
        allow_calls: None,
    };
    Some(backend.evaluate(&evaluation).ok()?.value)
}

fn points_to(value: &str, accessed: RuntimeAddr) -> bool {
    let pointer = match value.split_whitespace().next() {
        Some("null") => Some(RuntimeAddr(0)),
        Some(word) if word.starts_with("0x") => word.parse().ok(),
        _ => None,
    };
    pointer.is_some_and(|pointer| (0..NEAR).contains(&accessed.0.wrapping_sub(pointer.0)))
}

/// Names with the members and elements behind them, as in `node`, `node->next` and `node->next->value`. Those that
/// the line itself goes through come first.
fn paths(line: &str) -> Vec<String> {
    let mut through = Vec::new();
    let mut others = Vec::new();
    let code = line.split("//").next().unwrap_or_default();
    let starts_name = |text: &str| text.starts_with(|first: char| first.is_alphabetic() || first == '_');
    let name_length =
        |text: &str| text.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(text.len());
    let mut at = 0;
    while let Some(rest) = code.get(at..).filter(|rest| !rest.is_empty()) {
        if let Some(text) = rest.strip_prefix('"') {
            // To its end, or to that of the line.
            at += 1 + text.find('"').map_or(text.len(), |end| end + 1);
            continue;
        }
        if !starts_name(rest) {
            // A number may have letters in it.
            let digits =
                if rest.starts_with(|first: char| first.is_ascii_digit()) { name_length(rest) } else { 0 };
            at += digits.max(rest.chars().next().map_or(1, char::len_utf8));
            continue;
        }
        let is_pointed_to = code[..at].ends_with('*');
        let mut end = at + name_length(rest);
        loop {
            let behind = &code[end..];
            let member =
                ["->", "."].iter().find_map(|link| behind.strip_prefix(link).map(|name| (*link, name)));
            let element = behind.strip_prefix('[').and_then(|index| index.find(']'));
            let goes_on =
                behind.starts_with("->") || element.is_some() || behind.starts_with('(') || is_pointed_to;
            let list = if goes_on { &mut through } else { &mut others };
            let path = &code[at..end];
            if !list.iter().any(|known| known == path) {
                list.push(path.to_owned());
            }
            end += match (member, element) {
                (Some((link, name)), _) if starts_name(name) => link.len() + name_length(name),
                (_, Some(index)) => index + 2,
                _ => break,
            };
        }
        at = end;
    }
    through.append(&mut others);
    through.truncate(TRIED);
    through
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expressions_of_a_line_are_found_and_those_it_goes_through_come_first() {
        for (line, expected) in [
            ("return node->next->value; // node->other", "node node->next return node->next->value"),
            (
                "char first = account->currency[0];",
                "account account->currency char first account->currency[0]",
            ),
            ("*target = sizes[i + 1].x + 0x7f;", "target sizes sizes[i + 1] sizes[i + 1].x"),
            ("puts(\"a->b\"); ops.run(self.list);", "puts ops.run ops self self.list"),
            ("größe->x", "größe größe->x"),
            ("", ""),
        ] {
            assert_eq!(paths(line).join(" "), expected, "{line}");
        }
    }

    #[test]
    fn the_names_of_a_line_of_python_are_those_that_are_read() {
        for (line, expected) in [
            ("return self.price * self.qty  # @mark raise", "self self.price self.qty"),
            ("self.total = self.price * n", "self self.price n"),
            ("total += order.price // self.n", "total order order.price self self.n"),
            ("if a is None or b.c >= 1:", "a b b.c"),
            ("print('order.note', x, key=y.z) # see q", "print x key y y.z"),
            ("x = f\"{a}\" + g(b=c)", "f g b c"),
            ("", ""),
        ] {
            assert_eq!(python_names(line).join(" "), expected, "{line}");
        }
    }

    #[test]
    fn a_pointer_is_suspect_when_the_access_was_at_it_or_a_little_behind() {
        let near = |value: &str, accessed| points_to(value, RuntimeAddr(accessed));
        assert!(near("null", 8) && near("0x39387000", 0x3938_7000) && near("0x39387000 -> ?", 0x3938_7010));
        assert!(!near("0x39387000", 0x3938_6fff) && !near("7", 7) && !near("0x7fff0000 -> {a = null}", 0));
    }
}
