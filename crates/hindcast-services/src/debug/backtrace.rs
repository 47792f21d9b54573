//! The backtrace that a panicking Rust program prints: at a stop that shows the stack it says the same again, in many lines.

/// The text without its backtraces; none where it has none.
pub(super) fn without_backtraces(text: &str) -> Option<String> {
    let mut is_inside = false;
    let mut found = false;
    let mut rest = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let words = line.trim_end();
        if is_inside {
            is_inside = is_frame(words);
            if is_inside || words.starts_with("note: Some details are omitted") {
                continue;
            }
        }
        if words == "stack backtrace:" {
            is_inside = true;
            found = true;
            continue;
        }
        rest.push_str(line);
    }
    found.then_some(rest)
}

/// `   3: main::run`, or the place on the line below it.
fn is_frame(line: &str) -> bool {
    let words = line.trim_start();
    let (number, name) = words.split_once(": ").unwrap_or_default();
    let is_numbered = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    line.starts_with(' ') && (words.starts_with("at ") || is_numbered && !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_backtrace_is_left_out() {
        let printed = "before\n\nthread 'main' (7) panicked at a.rs:3:5:\nno\nstack backtrace:\n   0: __rustc::rust_begin_unwind\n\
                       \x20            at /rustc/library/std/src/panicking.rs:689:5\n  12: a::main\n             at ./a.rs:3:5\n\
                       note: Some details are omitted, run with `RUST_BACKTRACE=full` for a verbose backtrace.\nafter\n 1: kept\n";
        let rest = without_backtraces(printed).unwrap();
        assert_eq!(rest, "before\n\nthread 'main' (7) panicked at a.rs:3:5:\nno\nafter\n 1: kept\n");
        assert_eq!(without_backtraces("a stack backtrace:\n 0: none\n"), None);
        assert_eq!(without_backtraces("stack backtrace:\r\n   0: a\r\nb").unwrap(), "b");
    }
}
