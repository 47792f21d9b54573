//! Names of types without what a reader skips: default arguments of templates, and the paths of library types.

/// Arguments that the C++ library fills in by itself.
const DEFAULTS: [&str; 7] = [
    "std::allocator<",
    "std::char_traits<",
    "std::less<",
    "std::hash<",
    "std::equal_to<",
    "std::default_delete<",
    "alloc::alloc::Global",
];

/// Modules of Rust's library, whose types are known by their last names. Only these: a C++ program may have a `core` of its own.
const LIBRARY: [&str; 21] = [
    "alloc::alloc::",
    "alloc::borrow::",
    "alloc::boxed::",
    "alloc::collections::",
    "alloc::rc::",
    "alloc::string::",
    "alloc::sync::",
    "alloc::vec::",
    "core::cell::",
    "core::num::",
    "core::option::",
    "core::pin::",
    "core::result::",
    "core::sync::atomic::",
    "core::time::",
    "hashbrown::",
    "std::collections::",
    "std::hash::random::",
    "std::path::",
    "std::sync::",
    "std::sys::thread_local::native::",
];

/// `std::map<std::string, std::vector<int>>` instead of what the compiler calls it.
pub fn short_type(name: &str) -> String {
    let is_rust = LIBRARY.iter().any(|module| name.contains(module));
    let is_cpp = name.contains("std::") && !is_rust;
    if !is_rust && !is_cpp {
        return name.to_owned();
    }
    let mut rest = name;
    let mut short = String::new();
    written(&mut rest, &mut short, is_rust, 0);
    // What is not understood is left as it is.
    if rest.is_empty() { short } else { name.to_owned() }
}

/// More arguments within each other are left as they are.
const DEEPEST: usize = 40;

/// Writes a name up to the end of the argument that it is.
fn written(rest: &mut &str, short: &mut String, is_rust: bool, depth: usize) {
    if depth > DEEPEST {
        return;
    }
    loop {
        let end = rest.find(['<', '>', ',']).unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        short.push_str(&word_of(word, is_rust));
        *rest = behind;
        // A tuple, or what a function returns.
        if depth == 0 && rest.starts_with([',', '>']) {
            short.push_str(&rest[..1]);
            *rest = &rest[1..];
            continue;
        }
        if !rest.starts_with('<') {
            return;
        }
        let mut arguments: Vec<String> = Vec::new();
        loop {
            *rest = rest[1..].trim_start();
            let is_default = DEFAULTS.iter().any(|default| rest.starts_with(default));
            let mut argument = String::new();
            written(rest, &mut argument, is_rust, depth + 1);
            if !is_default || arguments.is_empty() {
                arguments.push(argument.trim_end().to_owned());
            }
            if !rest.starts_with(',') {
                break;
            }
        }
        let Some(behind) = rest.strip_prefix('>') else { return };
        *rest = behind;
        if short.ends_with("std::basic_string") && arguments.first().is_some_and(|first| first == "char") {
            short.truncate(short.len() - "basic_string".len());
            short.push_str("string");
        } else {
            short.push('<');
            short.push_str(&arguments.join(", "));
            short.push('>');
        }
    }
}

fn word_of(word: &str, is_rust: bool) -> String {
    if !is_rust {
        return word.replace("std::__cxx11::", "std::").replace("std::__1::", "std::");
    }
    // `&mut alloc::vec::Vec` keeps what stands before the path.
    let start = word.rfind([' ', '&', '(', '[', '*']).map_or(0, |at| at + 1);
    let (before, path) = word.split_at(start);
    let is_library = LIBRARY.iter().any(|library| path.starts_with(library));
    let last = path.rfind("::").filter(|_| is_library).map_or(path, |at| &path[at + 2..]);
    format!("{before}{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_types_are_told_without_what_the_library_fills_in() {
        let text = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
        for (whole, short) in [
            ("int", "int"),
            ("Order *", "Order *"),
            ("Pair<int, long>", "Pair<int, long>"),
            ("std::set<Order*, ByDeadline, std::allocator<Order*> >", "std::set<Order*, ByDeadline>"),
            ("std::vector<int, std::allocator<int> > *", "std::vector<int> *"),
            (
                &format!(
                    "std::map<{text}, std::vector<int, std::allocator<int> >, std::less<{text} >, \
                     std::allocator<std::pair<const {text}, std::vector<int, std::allocator<int> > > > >"
                ),
                "std::map<std::string, std::vector<int>>",
            ),
            ("std::unique_ptr<Item, std::default_delete<Item> >", "std::unique_ptr<Item>"),
            ("std::hash<int>", "std::hash<int>"),
            (
                "std::function<int(long, std::vector<int, std::allocator<int> >)>",
                "std::function<int(long, std::vector<int>)>",
            ),
            (
                "alloc::vec::Vec<core::option::Option<app::Item>, alloc::alloc::Global>",
                "Vec<Option<app::Item>>",
            ),
            (
                "&mut std::collections::hash::map::HashMap<alloc::string::String, u32, std::hash::random::RandomState>",
                "&mut HashMap<String, u32, RandomState>",
            ),
            ("fn(u32) -> alloc::string::String", "fn(u32) -> String"),
            ("&[alloc::string::String]", "&[String]"),
            ("(alloc::string::String, u32)", "(String, u32)"),
            ("app::Thing<app::alloc::Own>", "app::Thing<app::alloc::Own>"),
            ("core::Engine<std::vector<int, std::allocator<int> > >", "core::Engine<std::vector<int>>"),
        ] {
            assert_eq!(short_type(whole), short);
        }
    }
}
