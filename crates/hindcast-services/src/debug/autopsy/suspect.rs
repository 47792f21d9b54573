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
            let evaluation = Evaluation {
                expression: expression.clone(),
                frame: FrameRef { thread, index: frame.index },
                limits: POINTER,
                format: NumberFormat::Auto,
                may_write: false,
                allow_calls: None,
            };
            backend.evaluate(&evaluation).is_ok_and(|variable| points_to(&variable.value, accessed))
        });
        let local = || frame.suspects.iter().find(|local| points_to(&local.value, accessed));
        if let Some(expression) = expression.or_else(|| Some(local()?.name.clone())) {
            return Some(Suspect { expression, frame: frame.index });
        }
    }
    None
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
    fn a_pointer_is_suspect_when_the_access_was_at_it_or_a_little_behind() {
        let near = |value: &str, accessed| points_to(value, RuntimeAddr(accessed));
        assert!(near("null", 8) && near("0x39387000", 0x3938_7000) && near("0x39387000 -> ?", 0x3938_7010));
        assert!(!near("0x39387000", 0x3938_6fff) && !near("7", 7) && !near("0x7fff0000 -> {a = null}", 0));
    }
}
