//! Stack traces in a text: of gdb and lldb, Rust, Python, Java, JavaScript, Go and .NET.

use super::fingerprint::Fingerprint;

/// A frame that was told: what it is in, and the statement where that is told, too.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Told {
    function: String,
    statement: String,
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    kind: String,
    message: String,
    frames: Vec<Told>,
    /// Whether the innermost frame stands last.
    is_reversed: bool,
}

impl Reading {
    fn frame(&mut self, function: &str) {
        self.frames.push(Told { function: function.trim().to_owned(), statement: String::new() });
    }

    /// The first failure that is named is the one that counts.
    fn failed(&mut self, kind: &str, message: &str) {
        if self.kind.is_empty() {
            (self.kind, self.message) = (kind.trim().to_owned(), message.trim().to_owned());
        }
    }
}

/// The failure that a text tells of; none where it has neither a trace nor the name of a failure.
pub(super) fn fingerprint(text: &str) -> Option<Fingerprint> {
    let mut reading = Reading::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().copied();
        read(&mut reading, line, next);
    }
    if reading.is_reversed {
        reading.frames.reverse();
    }
    let frames = reading.frames.iter().map(|told| (&*told.function, &*told.statement));
    let fingerprint = Fingerprint::of_trace(&reading.kind, &reading.message, frames);
    (!fingerprint.is_empty()).then_some(fingerprint)
}

fn read(reading: &mut Reading, line: &str, next: Option<&str>) {
    let text = line.trim().trim_start_matches("> ").trim();
    let is_read = python(reading, text, next)
        || numbered(reading, text)
        || at(reading, text)
        || rust(reading, text, next)
        || go(reading, line, next);
    if !is_read {
        failure(reading, text);
    }
}

/// `File "shop.py", line 3, in total`, with the statement below it.
fn python(reading: &mut Reading, text: &str, next: Option<&str>) -> bool {
    if text.starts_with("Traceback (most recent call last)") {
        // The last of several is the one that was raised in the end.
        reading.frames.clear();
        reading.kind.clear();
        reading.is_reversed = true;
        return true;
    }
    let Some((_, function)) = text
        .strip_prefix("File \"")
        .and_then(|rest| rest.split_once("\", line "))
        .and_then(|(_, rest)| rest.split_once(", in "))
    else {
        return false;
    };
    reading.is_reversed = true;
    reading.frame(function);
    let statement =
        next.map(str::trim).filter(|next| !next.starts_with("File \"") && !next.contains("Error: "));
    if let (Some(frame), Some(statement)) = (reading.frames.last_mut(), statement) {
        frame.statement = statement.to_owned();
    }
    true
}

/// `#1  0x0000 in total (a=1) at shop.c:3` of gdb and sanitizers, `frame #1: 0x0000 shop``total(a=1) at shop.c:3` of lldb, and
/// `1: core::panicking::panic` of Rust.
fn numbered(reading: &mut Reading, text: &str) -> bool {
    let text = text.trim_start_matches("* ");
    let text = text.strip_prefix("frame ").unwrap_or(text);
    let is_sharp = text.starts_with('#');
    let rest = text.trim_start_matches('#');
    let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    if digits == 0 || digits > 5 {
        return false;
    }
    let after = &rest[digits..];
    if !is_sharp && !after.starts_with(": ") {
        return false;
    }
    let rest = after.trim_start_matches(':').trim();
    let rest = match rest.strip_prefix("0x") {
        Some(address) => {
            let end = address.find(|digit: char| !digit.is_ascii_hexdigit()).unwrap_or(address.len());
            address[end..].trim().trim_start_matches("- ").trim_start_matches("in ").trim()
        }
        None => rest,
    };
    // lldb puts the module before the function.
    let rest = rest.split_once('`').map_or(rest, |(_, function)| function);
    let end = [" at ", " from ", " (", "(", " + ", " /"].iter().filter_map(|end| rest.find(end)).min();
    let function = &rest[..end.unwrap_or(rest.len())];
    let is_name = |letter: char| letter.is_alphanumeric() || "_:.<>{}~$@,&*#=+-[]' ".contains(letter);
    if function.is_empty()
        || !function.chars().all(is_name)
        || !is_sharp && function.contains(' ') && !function.contains(" as ")
    {
        return false;
    }
    // Another thread, or the same told again: the first trace is the one that counts.
    let number: usize = text.trim_start_matches('#')[..digits].parse().unwrap_or(0);
    if number < reading.frames.len() && is_sharp && number == 0 {
        return true;
    }
    reading.frame(function);
    true
}

/// `at shop.Orders.total(Orders.java:3)`, `at total (/shop.js:3:1)`, `at Shop.Orders.Total(Int32 a) in /shop.cs:line 3`.
fn at(reading: &mut Reading, text: &str) -> bool {
    let Some(rest) = text.strip_prefix("at ") else { return false };
    let rest = rest.trim_start_matches("async ").trim_start_matches("new ");
    // Rust's traces have the place below the function, and those of JavaScript begin in the runtime.
    if rest.starts_with("node:") || rest.starts_with(['.', '/']) && !rest.contains('(') {
        return true;
    }
    let end = rest.find([' ', '(']).unwrap_or(rest.len());
    let function = rest[..end].rsplit('/').next().unwrap_or(rest);
    let is_place = function.contains(".js:") || function.contains(".ts:") || function.contains(".mjs:");
    reading.frame(if is_place { "<anonymous>" } else { function });
    true
}

/// `thread 'main' panicked at src/main.rs:3:5:`, with the message behind or below it.
fn rust(reading: &mut Reading, text: &str, next: Option<&str>) -> bool {
    let Some((_, place)) = text.split_once("panicked at ").filter(|_| text.starts_with("thread ")) else {
        return false;
    };
    let quoted = place.strip_prefix('\'').and_then(|rest| rest.rsplit_once("', "));
    let message = quoted.map_or_else(|| next.unwrap_or_default(), |(message, _)| message);
    reading.failed("rust:panic", message);
    true
}

/// `main.total(0x1, 0x2)` above its place, and `panic: …`.
fn go(reading: &mut Reading, line: &str, next: Option<&str>) -> bool {
    if let Some(message) = line.strip_prefix("panic: ").or_else(|| line.strip_prefix("fatal error: ")) {
        reading.failed("go:panic", message.split(" [recovered]").next().unwrap_or(message));
        return true;
    }
    let is_place = next.is_some_and(|next| next.starts_with('\t') && next.contains(".go:"));
    let Some(end) = line.rfind('(').filter(|_| is_place && !line.starts_with([' ', '\t'])) else {
        return false;
    };
    let function = line[..end].trim_start_matches("created by ");
    reading.frame(function.rsplit('/').next().unwrap_or(function));
    true
}

/// Signals, exceptions, and what runtimes say before they give up.
fn failure(reading: &mut Reading, text: &str) {
    for signal in ["SIGSEGV", "SIGABRT", "SIGFPE", "SIGILL", "SIGBUS", "SIGTRAP"] {
        if text.contains(signal) {
            return reading.failed(signal, "");
        }
    }
    let words = [
        ("Segmentation fault", "SIGSEGV"),
        ("segmentation fault", "SIGSEGV"),
        ("segfault", "SIGSEGV"),
        ("Floating point exception", "SIGFPE"),
        ("Bus error", "SIGBUS"),
    ];
    for (words, signal) in words {
        if text.contains(words) {
            return reading.failed(signal, "");
        }
    }
    if let Some(rest) = text.strip_prefix("terminate called after throwing an instance of '") {
        return reading.failed(rest.trim_end_matches('\''), "");
    }
    if let Some(what) = text.strip_prefix("what():") {
        if reading.message.is_empty() {
            reading.message = what.trim().to_owned();
        }
        return;
    }
    let gives_up = [
        "double free",
        "free():",
        "malloc():",
        "munmap_chunk():",
        "corrupted",
        "stack smashing",
        "Assertion `",
    ];
    if gives_up.iter().any(|words| text.contains(words)) && !text.contains(". ") {
        return reading.failed("SIGABRT", text);
    }
    exception(reading, text);
}

/// `ValueError: no such thing`, `Exception in thread "main" java.lang.IllegalStateException: …`, `Unhandled exception. System.…: …`.
fn exception(reading: &mut Reading, text: &str) {
    let text = text.strip_prefix("Unhandled exception. ").unwrap_or(text);
    let text = match text.strip_prefix("Exception in thread \"") {
        Some(rest) => rest.split_once("\" ").map_or(rest, |(_, rest)| rest),
        None => text.strip_prefix("Uncaught ").unwrap_or(text),
    };
    if text.starts_with("Caused by") {
        return;
    }
    let (name, message) = text.split_once(": ").unwrap_or((text, ""));
    let last = name.rsplit(['.', ':']).next().unwrap_or(name);
    let is_type = name.chars().all(|letter| letter.is_alphanumeric() || "._:$".contains(letter))
        && ["Error", "Exception", "Interrupt", "Exit", "Failure"].iter().any(|end| last.ends_with(end))
        && last.starts_with(char::is_uppercase);
    if is_type {
        reading.failed(name, message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, kind: &str, message: &str, functions: &[&str]) {
        let read = fingerprint(text).unwrap_or_else(|| panic!("nothing is read of\n{text}"));
        let frames: Vec<_> = read.frames.iter().map(|frame| &*frame.function).collect();
        assert_eq!((&*read.kind, &*read.message, &*frames), (kind, message, functions), "{text}");
    }

    #[test]
    fn traces_of_gdb_are_read() {
        let text = "Program received signal SIGSEGV, Segmentation fault.\n\
            0x0000555555555171 in last (list=0x0) at orders.c:12\n12\t  return list->value;\n(gdb) bt\n\
            #0  0x0000555555555171 in last (list=0x0) at orders.c:12\n\
            #1  0x00005555555551a2 in total<int> (orders=...) at orders.c:30\n\
            #2  __libc_start_main () from /lib/libc.so.6\n#3  0x0000 in main () at orders.c:40\n";
        check(text, "SIGSEGV", "", &["last", "total", "main"]);
    }

    #[test]
    fn traces_of_lldb_and_sanitizers_are_read() {
        let text = "* thread #1, stop reason = signal SIGSEGV\n  * frame #0: 0x0000000100000f80 a.out`last(list=0x0) at orders.c:12\n    \
            frame #1: 0x0000000100000f90 a.out`main at orders.c:20\n";
        check(text, "SIGSEGV", "", &["last", "main"]);
        let text = "==1==ERROR: AddressSanitizer: heap-use-after-free\n    #0 0x4f in next_of /src/list.c:3:2\n    #1 0x5a in main /src/list.c:9\n";
        check(text, "", "", &["next_of", "main"]);
    }

    #[test]
    fn traces_of_rust_are_read() {
        let text = "thread 'main' panicked at src/main.rs:7:5:\nindex out of bounds: the len is 3 but the index is 3\nstack backtrace:\n   \
            0: rust_begin_unwind\n             at /rustc/1/library/std/src/panicking.rs:652:5\n   1: core::panicking::panic_fmt\n   \
            2: shop::total::h0123456789abcdef\n             at ./src/main.rs:7:5\n   3: shop::main\n             at ./src/main.rs:2:5\n";
        check(
            text,
            "rust:panic",
            "index out of bounds: the len is N1 but the index is N1",
            &["shop::total", "shop::main"],
        );
    }

    #[test]
    fn traces_of_python_are_read_with_their_statements() {
        let text = "Traceback (most recent call last):\n  File \"shop.py\", line 9, in <module>\n    main()\n  File \"shop.py\", line 5, in total\n    \
            return prices[name]\nKeyError: 'apple'\n";
        let read = fingerprint(text).unwrap();
        assert_eq!((&*read.kind, &*read.message), ("KeyError", "\""));
        assert_eq!((&*read.frames[0].function, &*read.frames[0].statement), ("total", "return prices[name]"));
    }

    #[test]
    fn traces_of_java_javascript_go_and_dotnet_are_read() {
        let java = "Exception in thread \"main\" java.lang.IllegalStateException: stock is -4\n\tat shop.Orders.total(Orders.java:12)\n\t\
            at shop.Main.lambda$main$0(Main.java:3)\n\tat java.base/java.lang.Thread.run(Thread.java:8)\n";
        check(
            java,
            "java.lang.IllegalStateException",
            "stock is -N1",
            &["shop.Orders.total", "shop.Main.main"],
        );
        let node = "/shop.js:3\n    throw new Error(x)\n\nTypeError: Cannot read properties of undefined (reading 'price')\n    \
            at total (/shop.js:3:11)\n    at async Shop.run (/shop.js:9:3)\n    at node:internal/main:1:2\n";
        check(node, "TypeError", "Cannot read properties of undefined (reading \")", &["total", "Shop.run"]);
        let go = "panic: runtime error: index out of range [5] with length 3\n\ngoroutine 1 [running]:\nmain.total(0xc0, 0x3)\n\t/shop.go:9 +0x1d\n\
            main.main()\n\t/shop.go:3 +0x1d\nexit status 2\n";
        check(
            go,
            "go:panic",
            "runtime error: index out of range [N1] with length N2",
            &["main.total", "main.main"],
        );
        let dotnet = "Unhandled exception. System.NullReferenceException: Object reference not set\n   \
            at Shop.Orders.Total(Int32 a) in /src/Orders.cs:line 52\n   at Shop.Program.Main() in /src/P.cs:line 3\n";
        check(
            dotnet,
            "System.NullReferenceException",
            "Object reference not set",
            &["Shop.Orders.Total", "Shop.Program.Main"],
        );
    }

    #[test]
    fn a_text_without_a_trace_has_no_fingerprint() {
        for text in [
            "",
            "The total is wrong when the list is empty. See 3: below",
            "1. Open it\n2. Close it\nNote: it hangs",
        ] {
            assert_eq!(fingerprint(text), None, "{text}");
        }
        check("the program ends with a Segmentation fault after a while", "SIGSEGV", "", &[]);
    }
}
