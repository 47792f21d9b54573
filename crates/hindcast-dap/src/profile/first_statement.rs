//! The first line of a JavaScript or TypeScript file that does something when the file is loaded.
//!
//! Adapters stop at the first place where the engine can, which in a file that begins with a function is inside of that.

/// Beginnings of lines that only declare something.
const DECLARING: [&str; 17] = [
    "import ",
    "import{",
    "import\"",
    "import'",
    "export {",
    "export *",
    "export type ",
    "export interface ",
    "interface ",
    "type ",
    "declare ",
    "namespace ",
    "function",
    "async function",
    "class ",
    "abstract class ",
    "@",
];

/// From 1; none where every line declares.
pub(crate) fn first_statement(text: &str) -> Option<u32> {
    let mut scanner = Scanner { depth: 0, inside: Inside::Code };
    for (number, line) in (1..).zip(text.lines()) {
        let trimmed = line.trim_start();
        let begins = scanner.depth == 0 && scanner.inside == Inside::Code;
        if begins && is_statement(trimmed) {
            return Some(number);
        }
        scanner.read(line);
    }
    None
}

fn is_statement(line: &str) -> bool {
    let line =
        line.strip_prefix("export default ").or_else(|| line.strip_prefix("export ")).map_or(line, |rest| {
            // What is exported by name is declared elsewhere.
            if rest.starts_with(['{', '*']) { "" } else { rest.trim_start() }
        });
    let is_comment = line.starts_with("//") || line.starts_with("/*") || line.starts_with("#!");
    let is_directive = ["'use ", "\"use "].iter().any(|start| line.starts_with(start));
    let is_rest = line.starts_with(['}', ')', ']', ';']);
    let declares = DECLARING.iter().any(|start| line.starts_with(start));
    !(line.is_empty() || is_comment || is_directive || is_rest || declares)
}

struct Scanner {
    depth: i32,
    inside: Inside,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Code,
    Comment,
    Template,
}

impl Scanner {
    fn read(&mut self, line: &str) {
        let mut letters = line.chars().peekable();
        let mut quote = None;
        while let Some(letter) = letters.next() {
            match (self.inside, quote) {
                (Inside::Comment, _) => {
                    if letter == '*' && letters.next_if_eq(&'/').is_some() {
                        self.inside = Inside::Code;
                    }
                }
                (Inside::Template, _) => match letter {
                    '\\' => drop(letters.next()),
                    '`' => self.inside = Inside::Code,
                    _ => {}
                },
                (Inside::Code, Some(open)) => match letter {
                    '\\' => drop(letters.next()),
                    _ if letter == open => quote = None,
                    _ => {}
                },
                (Inside::Code, None) => match letter {
                    '\'' | '"' => quote = Some(letter),
                    '`' => self.inside = Inside::Template,
                    '/' if letters.peek() == Some(&'/') => return,
                    '/' if letters.next_if_eq(&'*').is_some() => self.inside = Inside::Comment,
                    '{' | '(' | '[' => self.depth += 1,
                    '}' | ')' | ']' => self.depth -= 1,
                    _ => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_are_passed_over() {
        for (text, line) in [
            ("const a = 1;", Some(1)),
            ("#!/usr/bin/env node\n'use strict';\n// x\nrequire('a');", Some(4)),
            ("class A {\n  b() { return 1; }\n}\nfunction f() {\n}\nf();", Some(6)),
            ("/* a\n b */\nimport x from 'y';\nimport {\n  z,\n} from 'y';\nexport const q = 1;", Some(7)),
            ("interface I { a: string }\nexport function g(): void {\n  x();\n}\n", None),
            ("export default class {\n}\nmain();", Some(3)),
            ("async function main() {\n  const s = `\n}`;\n}\nmain();", Some(5)),
            ("export { a };\nlet t = \"{\";", Some(2)),
        ] {
            assert_eq!(first_statement(text), line, "{text}");
        }
    }
}
