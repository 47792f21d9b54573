//! What is left of a crash's names and words when everything goes that differs from one run, build or machine to the next.

/// Machinery that raises, reports or starts: it is on the stack of every failure of its kind and tells nothing of this one.
const MACHINERY: [&str; 60] = [
    "__GI_",
    "__pthread_kill",
    "pthread_kill",
    "raise",
    "abort",
    "__assert",
    "__libc_message",
    "__libc_start",
    "__fortify_fail",
    "__stack_chk_fail",
    "malloc_printerr",
    "_start",
    "start_thread",
    "clone",
    "__cxa_",
    "__cxxabiv1",
    "__gnu_cxx::__verbose_terminate",
    "std::terminate",
    "std::__throw_",
    "std::__replacement_assert",
    "std::__glibcxx_assert",
    "_Unwind_",
    "__gxx_personality",
    "__scrt_",
    "rust_begin_unwind",
    "rust_panic",
    "__rust",
    "__rustc",
    "core::panicking",
    "core::option::unwrap_failed",
    "core::option::expect_failed",
    "core::result::unwrap_failed",
    "core::ops::function::FnOnce",
    "std::panicking",
    "std::panic::",
    "std::rt::",
    "std::sys::",
    "std::sys_common::",
    "runtime.gopanic",
    "runtime.goPanic",
    "runtime.panic",
    "runtime.sigpanic",
    "runtime.throw",
    "runtime.fatal",
    "runtime.main",
    "runtime.goexit",
    "panic(",
    "java.base/jdk.internal.reflect",
    "jdk.internal.reflect",
    "java.lang.reflect",
    "java.lang.Thread.run",
    "node:internal",
    "Module._compile",
    "Module.load",
    "Module._load",
    "Function.executeUserEntryPoint",
    "System.Runtime.ExceptionServices",
    "System.Environment.FailFast",
    "System.Runtime.CompilerServices",
    "_pytest.",
];

/// Ends of names that the compiler gave to parts and copies of functions.
const COPIES: [&str; 8] =
    [".constprop", ".isra", ".part", ".cold", ".llvm", ".lto_priv", ".localalias", ".warm"];

/// Whether a function only raises, reports or starts.
pub(super) fn is_machinery(function: &str) -> bool {
    let function = function.trim_start_matches('?');
    function.is_empty()
        || MACHINERY.iter().any(|one| match one.strip_suffix('(') {
            Some(exact) => function == exact,
            None if *one == "raise" || *one == "abort" || *one == "clone" => {
                function == *one
                    || function.strip_prefix(one).is_some_and(|rest| rest.starts_with(['3', '@', ' ']))
            }
            None => function.starts_with(one),
        })
}

/// A function's name without its arguments, those of its templates, and what a compiler adds.
pub(super) fn function(name: &str) -> String {
    let name = name.trim();
    let name = name.split("@@").next().unwrap_or(name);
    // Parts and copies: everything behind the first such end is the compiler's.
    let end = COPIES.iter().filter_map(|copy| name.find(copy)).min().unwrap_or(name.len());
    let name = name[..end].trim_end_matches(" [clone").trim_end();
    let mut plain = without_nested(&as_type(name)).replace("{{closure}}", "{closure}");
    if let Some(at) = plain.rfind("::h").filter(|at| is_hash(&plain[at + 3..])) {
        plain.truncate(at);
    }
    for (from, to) in [("{closure", "{closure}"), ("{lambda", "{lambda}"), ("'lambda", "{lambda}")] {
        plain = closed(&plain, from, to);
    }
    // Go's closures and Java's lambdas are numbered.
    let numberless = plain.trim_end_matches(|last: char| last.is_ascii_digit());
    if numberless.len() < plain.len() && (numberless.ends_with(".func") || numberless.ends_with('$')) {
        plain.truncate(numberless.len());
    }
    let plain = plain.replace("lambda$", "").replace("::__1::", "::").replace("::__cxx11::", "::");
    plain.trim_matches([' ', ':', '.', '$', '*', '&']).to_owned()
}

/// `<Type as Trait>::f` is that function of the type, and `<Bar>d__3.MoveNext` of a compiled C# iterator is `Bar`.
fn as_type(name: &str) -> String {
    let name = match name.find(">d__").and_then(|end| Some((name[..end].rfind('<')?, end))) {
        Some((start, end)) => format!("{}{}", &name[..start], &name[start + 1..end]),
        None => name.to_owned(),
    };
    let name = match name.find(">b__").and_then(|end| Some((name[..end].rfind('<')?, end))) {
        Some((start, end)) => format!("{}{}", name[..start].trim_end_matches("<>c."), &name[start + 1..end]),
        None => name,
    };
    let Some(inner) = name.strip_prefix('<') else { return name };
    let Some(end) = closing(inner) else { return name };
    let of = inner[..end].split(" as ").next().unwrap_or_default();
    format!("{}{}", of.trim_start_matches(['&', '*']), &inner[end + 1..])
}

/// Where the bracket ends that was opened before.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 1_u32;
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if !text[..at].ends_with(['-', '=']) => {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Without what stands in brackets, except names such as `operator()`, `{closure#0}` and `(anonymous namespace)`.
fn without_nested(name: &str) -> String {
    let name = name.replace("(anonymous namespace)", "{anonymous}").replace("operator()", "operator{}");
    let name = name.replace("operator->", "operator{to}").replace("operator<<", "operator{out}");
    let name = name.replace("operator>>", "operator{in}").replace("operator<", "operator{less}");
    let mut plain = String::with_capacity(name.len());
    let mut depth = 0_u32;
    for (at, letter) in name.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' if name[..at].ends_with('-') => {}
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    // What stands before a C++ function's name is what it returns.
    let plain = plain.trim_end_matches(" const").trim();
    let plain = plain.rsplit(' ').next().unwrap_or(plain);
    plain.replace("::::", "::").trim_end_matches("::").to_owned()
}

fn closed(name: &str, from: &str, to: &str) -> String {
    let Some(start) = name.find(from) else { return name.to_owned() };
    let rest = &name[start..];
    let end = rest.find('}').or_else(|| rest.rfind('\'')).map_or(rest.len(), |end| end + 1);
    format!("{}{to}{}", &name[..start], &rest[end..])
}

fn is_hash(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// What is looked at of a message, in characters: more than what is kept of it.
const LONGEST_MESSAGE: usize = 1000;

/// A message without numbers, addresses and quoted values. Numbers that are the same stay the same: an index that is the length
/// is another mistake than one far behind it.
pub(super) fn message(text: &str) -> String {
    let mut lines = text.trim().lines();
    let first = lines.next().unwrap_or_default();
    // Rust says where it panicked before it says why.
    let line = if first.starts_with("panicked at ") { lines.next().unwrap_or_default() } else { first };
    let line: String = line.chars().take(LONGEST_MESSAGE).collect();
    let mut plain = String::new();
    let mut numbers: Vec<String> = Vec::new();
    let mut rest = &*line;
    while let Some(first) = rest.chars().next() {
        let before = plain.chars().next_back();
        if matches!(first, '"' | '\u{201c}' | '`' | '\'')
            && !(first == '\'' && before.is_some_and(char::is_alphanumeric))
            && let Some(end) = end_of_quoted(rest, first)
        {
            plain.push('"');
            rest = &rest[end..];
        } else if first.is_ascii_digit() && !before.is_some_and(|last| last.is_alphanumeric() || last == '_')
        {
            let end = rest
                .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '_')
                .unwrap_or(rest.len());
            let number = rest[..end].trim_end_matches('.');
            let known = numbers.iter().position(|known| known == number);
            let index = known.unwrap_or_else(|| {
                numbers.push(number.to_owned());
                numbers.len() - 1
            });
            plain.push('N');
            plain.push_str(&(index + 1).to_string());
            rest = &rest[number.len().max(1)..];
        } else {
            plain.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().take(300).collect()
}

fn end_of_quoted(text: &str, quote: char) -> Option<usize> {
    let ends: &[char] = match quote {
        '\u{201c}' => &['\u{201d}'],
        '`' => &['`', '\''],
        '"' => &['"'],
        _ => &['\''],
    };
    let inner = &text[quote.len_utf8()..];
    let end = inner.find(ends)?;
    (end < 200).then(|| quote.len_utf8() + end + inner[end..].chars().next().map_or(1, char::len_utf8))
}

/// A type of an exception without the arguments of templates, and what engines put before it.
pub(super) fn kind(name: &str) -> String {
    let name = name.trim();
    let name = name.strip_prefix("cpp:").unwrap_or(name);
    without_nested(name)
}

/// A statement or expression as a list of words: names become `v`, or `v(` where they are called; numbers `n`, texts `s`.
/// Keywords and operators stay.
pub(super) fn shape(code: &str) -> Vec<String> {
    let code = code.split("//").next().unwrap_or_default();
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = if first.is_alphabetic() || first == '_' {
            let end = rest.find(|next: char| !next.is_alphanumeric() && next != '_').unwrap_or(rest.len());
            let name = &rest[..end];
            let calls = rest[end..].starts_with('(') || rest[end..].starts_with("!(");
            if is_keyword(name) {
                words.push(name.to_owned());
            } else {
                words.push(if calls { "v(".into() } else { "v".into() });
            }
            end
        } else if first.is_ascii_digit() {
            words.push("n".into());
            rest.find(|next: char| !next.is_ascii_alphanumeric() && next != '.').unwrap_or(rest.len()).max(1)
        } else if first == '"' {
            words.push("s".into());
            1 + rest[1..].find('"').map_or(rest.len() - 1, |end| end + 1)
        } else if first.is_whitespace() || matches!(first, ';' | '(' | ')' | '{' | '}') {
            first.len_utf8()
        } else {
            let two = rest.get(..2).filter(|two| {
                [
                    "->", "::", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=", "&&", "||", "++", "--", "..",
                    "=>",
                ]
                .contains(two)
            });
            // A member is one, however it is reached.
            let word = match two.unwrap_or(&rest[..first.len_utf8()]) {
                "->" => ".".to_owned(),
                word => word.to_owned(),
            };
            let length = two.map_or(first.len_utf8(), str::len);
            words.push(word);
            length
        };
        rest = &rest[length.min(rest.len())..];
    }
    words.truncate(60);
    words
}

fn is_keyword(name: &str) -> bool {
    const KEYWORDS: [&str; 40] = [
        "if", "else", "for", "while", "do", "return", "switch", "case", "break", "continue", "throw", "new",
        "delete", "sizeof", "const", "let", "mut", "match", "fn", "in", "as", "await", "yield", "raise",
        "not", "and", "or", "null", "NULL", "nullptr", "None", "self", "this", "int", "char", "double",
        "auto", "void", "long", "unsigned",
    ];
    KEYWORDS.contains(&name)
}

/// The names in a text, cut at `_` and where small letters become large, in small letters.
pub(super) fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut was_small = false;
    for letter in text.chars() {
        if !letter.is_alphanumeric() || was_small && letter.is_uppercase() {
            push_part(&mut parts, &mut part);
        }
        if letter.is_alphanumeric() {
            part.extend(letter.to_lowercase());
        }
        was_small = letter.is_lowercase();
    }
    push_part(&mut parts, &mut part);
    parts
}

fn push_part(parts: &mut Vec<String>, part: &mut String) {
    if part.chars().count() > 1 && !part.bytes().all(|byte| byte.is_ascii_digit()) {
        parts.push(std::mem::take(part));
    }
    part.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_keep_their_names_and_lose_what_a_build_gave_them() {
        for (given, plain) in [
            ("std::vector<int, std::allocator<int> >::at(unsigned long) const", "std::vector::at"),
            ("app::total::h0123456789abcdef", "app::total"),
            ("parse_line.constprop.0", "parse_line"),
            ("work.part.3.cold", "work"),
            ("run [clone .isra.0]", "run"),
            ("app::main::{closure#2}", "app::main::{closure}"),
            ("app::main::{{closure}}", "app::main::{closure}"),
            ("<alloc::vec::Vec<T> as core::ops::index::Index<I>>::index", "alloc::vec::Vec::index"),
            ("(anonymous namespace)::Bank::pay(int)", "{anonymous}::Bank::pay"),
            ("void sort<int*>(int*, int*)", "sort"),
            ("Account::operator()(int) const", "Account::operator{}"),
            ("main.func1", "main.func"),
            ("Shop.Orders.<Total>d__3.MoveNext", "Shop.Orders.Total"),
            ("lambda$main$0", "main"),
            ("qsort", "qsort"),
        ] {
            assert_eq!(function(given), plain, "{given}");
        }
    }

    #[test]
    fn machinery_is_known_and_what_only_sounds_like_it_is_not() {
        for name in [
            "__GI_raise",
            "abort",
            "raise",
            "core::panicking::panic_fmt",
            "std::__throw_out_of_range",
            "clone3",
            "_start",
        ] {
            assert!(is_machinery(name), "{name}");
        }
        for name in
            ["abort_order", "raise_salary", "clone_list", "std::vector::at", "qsort", "main", "panic_button"]
        {
            assert!(!is_machinery(name), "{name}");
        }
    }

    #[test]
    fn messages_lose_values_and_keep_which_of_them_are_the_same() {
        for (given, plain) in [
            (
                "index out of bounds: the len is 3 but the index is 3",
                "index out of bounds: the len is N1 but the index is N1",
            ),
            (
                "index out of bounds: the len is 3 but the index is 7",
                "index out of bounds: the len is N1 but the index is N2",
            ),
            ("no key `orders.7` in \"a b\" at 0x7ffc12", "no key \" in \" at N1"),
            ("can't open 'x.txt'", "can't open \""),
            ("free(): double free detected in tcache 2", "free(): double free detected in tcache N1"),
            ("int8_t of utf8\nsecond line", "int8_t of utf8"),
            ("panicked at src/main.rs:3:4:\nno more", "no more"),
        ] {
            assert_eq!(message(given), plain, "{given}");
        }
    }

    #[test]
    fn statements_have_the_same_shape_when_only_names_and_values_differ() {
        assert_eq!(shape("return node->next->value; // why"), shape("return  song->after->length;"));
        assert_eq!(shape("total += price(items[i + 1]);"), shape("sum += cost(parts[k + 20]);"));
        assert_ne!(shape("total += items[i];"), shape("total += items[i]->price;"));
        assert_eq!(shape("puts(\"a;b\");").join(" "), "v( s");
    }

    #[test]
    fn names_fall_into_parts() {
        assert_eq!(parts("find_lastOrder2::x"), ["find", "last", "order2"]);
    }
}
