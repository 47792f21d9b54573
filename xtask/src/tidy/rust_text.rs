//! Rust source with everything blanked that is not code, so that a rule about code does not trip over a comment or a string.

/// Replaces comments, strings and character literals by spaces. Lines keep their numbers, columns keep their places as long
/// as the text is ASCII.
pub(super) fn code_only(source: &str) -> String {
    let characters: Vec<char> = source.chars().collect();
    let mut code = String::with_capacity(source.len());
    let mut position = 0;
    while position < characters.len() {
        let end = literal_or_comment_end(&characters, position);
        match end {
            Some(end) => {
                let blanked = &characters[position..end];
                code.extend(blanked.iter().map(|character| if *character == '\n' { '\n' } else { ' ' }));
                position = end;
            }
            None => {
                code.push(characters[position]);
                position += 1;
            }
        }
    }
    code
}

/// Where the comment or literal that starts at `start` ends, if one starts there.
fn literal_or_comment_end(characters: &[char], start: usize) -> Option<usize> {
    let rest = &characters[start..];
    let length = match rest {
        ['/', '/', ..] => rest.iter().position(|character| *character == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => quoted_length(rest, '"'),
        ['r', '"' | '#', ..] if !continues_a_word(characters, start) => raw_string_length(rest)?,
        ['\'', '\\', ..] => quoted_length(rest, '\''),
        // `'a'` is a character, `'a` without the second quote a lifetime.
        ['\'', _, '\'', ..] => 3,
        _ => return None,
    };
    Some(start + length)
}

/// `br"…"` starts with the prefix `b`, which is no word of its own; `for"` cannot occur.
fn continues_a_word(characters: &[char], start: usize) -> bool {
    let is_word = |character: &char| character.is_alphanumeric() || *character == '_';
    match characters[..start] {
        [.., before, 'b' | 'c'] => is_word(&before),
        ['b' | 'c'] | [] => false,
        [.., before] => is_word(&before),
    }
}

/// Block comments nest.
fn block_comment_length(rest: &[char]) -> usize {
    let mut depth = 0;
    let mut position = 0;
    while position < rest.len() {
        match rest[position..] {
            ['/', '*', ..] => {
                depth += 1;
                position += 2;
            }
            ['*', '/', ..] => {
                depth -= 1;
                position += 2;
                if depth == 0 {
                    return position;
                }
            }
            _ => position += 1,
        }
    }
    rest.len()
}

fn quoted_length(rest: &[char], quote: char) -> usize {
    let mut position = 1;
    while position < rest.len() {
        match rest[position] {
            '\\' => position += 2,
            character if character == quote => return position + 1,
            _ => position += 1,
        }
    }
    rest.len()
}

/// `None` for a raw identifier such as `r#type`.
fn raw_string_length(rest: &[char]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|character| **character == '#').count();
    let opening = 1 + hashes;
    if rest.get(opening) != Some(&'"') {
        return None;
    }
    let mut position = opening + 1;
    while position < rest.len() {
        let closes = rest[position] == '"'
            && rest[position + 1..].iter().take_while(|character| **character == '#').count() >= hashes;
        if closes {
            return Some(position + 1 + hashes);
        }
        position += 1;
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(source: &str, expected: &str) {
        assert_eq!(code_only(source), expected);
    }

    #[test]
    fn comments_are_blanked_and_lines_kept() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c\n */ d */ e", "a          \n         e");
    }

    #[test]
    fn strings_are_blanked_with_their_escapes() {
        check(r#"f("a\"b") + 1"#, "f(      ) + 1");
        check("f(r#\"a\"b\"#, r\"x\\\", br\"y\")", "f(        ,      , b    )");
    }

    #[test]
    fn characters_are_blanked_and_lifetimes_kept() {
        check("'\"' 'a 'x' '\\'' &'a str", "    'a          &'a str");
    }

    #[test]
    fn raw_identifiers_are_code() {
        check("let r#type = for_r;", "let r#type = for_r;");
    }

    #[test]
    fn unfinished_literals_end_with_the_file() {
        check("a \"b", "a   ");
        check("a /* b", "a     ");
        check("a r#\"b", "a     ");
    }
}
