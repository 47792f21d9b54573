//! Which expressions only look at values, whatever the language: names, fields, indexes, literals and operators.
//!
//! Calls, assignments and statements are refused. What a language does behind a field or an operator (properties, overloaded
//! operators) cannot be told from the text, and is not refused.

/// Words that do something in one of the languages.
const DOING: [&str; 22] = [
    "await", "async", "class", "def", "del", "delete", "do", "exec", "exit", "for", "function", "import",
    "lambda", "new", "print", "raise", "require", "return", "throw", "while", "with", "yield",
];

/// What is in it that does more than look.
pub(crate) fn check(expression: &str) -> Result<(), String> {
    let letters: Vec<char> = expression.chars().collect();
    let mut at = 0;
    // Whether a value has just ended, so that a parenthesis calls it.
    let mut is_value = false;
    while let Some(&letter) = letters.get(at) {
        match letter {
            _ if letter.is_whitespace() => {
                at += 1;
                continue;
            }
            '\'' | '"' => {
                at = behind_text(&letters, at).ok_or("a text without an end")?;
                is_value = true;
                continue;
            }
            '`' => return Err("a template".into()),
            '(' if is_value => return Err("a call".into()),
            '{' => return Err("a block".into()),
            ';' | '\\' => return Err(format!("`{letter}`")),
            '=' | '!' | '<' | '>' if letters.get(at + 1) == Some(&'=') => {
                // `==`, `!=`, `===` and the like compare.
                at += 2;
                while letters.get(at) == Some(&'=') {
                    at += 1;
                }
                is_value = false;
                continue;
            }
            '=' => return Err("an assignment".into()),
            '+' | '-' if letters.get(at + 1) == Some(&letter) => return Err("an assignment".into()),
            '+' | '-' | '*' | '/' | '%' | '&' | '|' | '^' | ':' if letters.get(at + 1) == Some(&'=') => {
                return Err("an assignment".into());
            }
            // In Ruby and shells this runs something, or sends to a channel in Go.
            '<' if letters.get(at + 1) == Some(&'-') => return Err("`<-`".into()),
            _ if letter.is_alphanumeric() || matches!(letter, '_' | '$' | '@') => {
                let start = at;
                while letters
                    .get(at)
                    .is_some_and(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '$' | '@'))
                {
                    at += 1;
                }
                let word: String = letters[start..at].iter().collect();
                if DOING.contains(&word.as_str()) {
                    return Err(format!("`{word}`"));
                }
                // A letter before a text may make code of it, as in Python's `f"{x()}"`.
                if letters.get(at).is_some_and(|next| matches!(next, '\'' | '"')) {
                    if !matches!(word.to_lowercase().as_str(), "r" | "b" | "u" | "rb" | "br") {
                        return Err(format!("`{word}` before a text"));
                    }
                    continue;
                }
                is_value =
                    !matches!(word.as_str(), "and" | "or" | "not" | "in" | "is" | "if" | "else" | "typeof");
                // Ruby calls without parentheses: `method!` and `method?` by their names.
                if letters.get(at) == Some(&'!') && letters.get(at + 1) != Some(&'=') {
                    return Err("a call".into());
                }
                continue;
            }
            ')' | ']' => is_value = true,
            _ => is_value = false,
        }
        at += 1;
    }
    Ok(())
}

/// Behind the end of the text that begins here; none where it has no end, or runs code.
fn behind_text(letters: &[char], start: usize) -> Option<usize> {
    let quote = letters[start];
    let mut at = start + 1;
    loop {
        match letters.get(at)? {
            '\\' => at += 2,
            // Ruby fills these in.
            '#' if letters.get(at + 1) == Some(&'{') && quote == '"' => return None,
            letter if *letter == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_is_told_apart_from_doing() {
        for text in [
            "x",
            "self.orders[0].price * 2",
            "a == b and not c",
            "(a + b) * (c - d)",
            "d['key(x)']",
            "x?.y ?? z",
            "xs[1:3]",
            "a if b else c",
            "not (a)",
            "a <= b",
            "a !== b",
            "$x",
            "@order.id",
            "r'\\d'",
            "a[-1]",
            "*p",
            "&p->x",
            "x in (1, 2)",
            "typeof x",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            "f()",
            "a.b (c)",
            "x = 1",
            "x += 1",
            "x++",
            "(y := 2)",
            "f\"{g()}\"",
            "`${f()}`",
            "new Date",
            "await x",
            "lambda: 1",
            "import os",
            "a; b",
            "xs[0]()",
            "f'x'",
            "del x",
            "[f(x) for x in y]",
            "\"#{`ls`}\"",
            "x ->{ y }",
            "(a)(b)",
            "ch <- 1",
            "save!",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
    }
}
