//! Arguments, told from locals by the source: adapters show both alike.

use std::path::Path;

use hindcast_core::debug::{DebugError, Reason};
use regex_lite::Regex;

use super::{Session, places::text_of};
use crate::{
    profile::Spelling,
    protocol::{DapVariable, StackFrame},
};

/// No head of a function is longer.
const LONGEST_HEAD: usize = 4000;

impl Session {
    /// Those of a frame's locals that are arguments, in the order of the function's head.
    pub(super) fn only_arguments(
        &self,
        frame: &StackFrame,
        locals: Vec<DapVariable>,
    ) -> Result<Vec<DapVariable>, DebugError> {
        let path = frame.source.as_ref().and_then(|source| source.path.as_deref());
        let text = path.and_then(|path| text_of(Path::new(path)));
        let names = text
            .and_then(|text| parameters(self.profile.spelling.of_sources(), &text, frame.line, &frame.name));
        let names = names.ok_or_else(|| {
            let what = format!("{} does not tell arguments from locals here", self.profile.adapter);
            DebugError::Unsupported(Reason::new(what).advise("ask for `local`, which has both"))
        })?;
        let named = |name: &String| locals.iter().find(|variable| variable.name == *name).cloned();
        Ok(names.iter().filter_map(named).collect())
    }
}

/// What finds the head of a function in a line; none where functions of the language are not found so.
pub(super) fn head_of(spelling: Spelling, name: &str) -> Option<Regex> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let escaped = name.replace('$', "\\$");
    let pattern = match spelling {
        Spelling::Python => format!(r"^\s*(async\s+)?def\s+{escaped}\s*\("),
        Spelling::Go => format!(r"^func\s+(\([^)]*\)\s*)?{escaped}\s*[\(\[]"),
        Spelling::Node => format!(
            r"(\bfunction\b\s*\*?\s*{escaped}\s*[\(<])|(^\s*((public|private|protected|static|async|override|get|set)\s+)*\*?{escaped}\s*(<[^>]*>)?\([^;]*\{{\s*$)|(\b{escaped}\s*[:=]\s*(async\s*)?(function\b|\([^)]*\)[^=;]*=>|\w+\s*=>))"
        ),
        Spelling::Script => format!(r"^\s*(def|function|sub|fn)\s+(self\.)?{escaped}\b"),
        Spelling::Java => format!(r"^\s*([\w<>\[\],.@?]+\s+)+{escaped}\s*\([^;]*$"),
        Spelling::Executable | Spelling::Page => return None,
    };
    Regex::new(&pattern).ok()
}

/// The last part of a function's name.
pub(super) fn short_name(name: &str) -> &str {
    name.rsplit(['.', ':', '#']).next().unwrap_or(name)
}

/// The names of the parameters of the function that a line is in; none where its head is not found.
fn parameters(spelling: Spelling, text: &str, line: u32, function: &str) -> Option<Vec<String>> {
    if function == "<module>" || function == "<main>" {
        return Some(Vec::new());
    }
    let short = match spelling {
        // `main.(*Shop).Total`
        Spelling::Go => short_name(function),
        _ => short_name(function.split(['(', ' ']).next()?),
    };
    let head = head_of(spelling, short)?;
    let lines: Vec<_> = text.lines().collect();
    let last = usize::try_from(line).ok()?.min(lines.len());
    let at = lines[..last].iter().rposition(|line| line.len() < LONGEST_HEAD && head.is_match(line))?;
    let begin = head.find(lines[at])?.start();
    let rest = format!("{}\n{}", &lines[at][begin..], lines[at + 1..].join("\n"));
    let mut lists = Vec::new();
    // The receiver of a method is a parameter, too.
    if spelling == Spelling::Go
        && let Some(receiver) =
            rest.strip_prefix("func").map(str::trim_start).filter(|it| it.starts_with('('))
    {
        lists.extend(list(receiver)?);
    }
    let behind = rest.find(short).map(|at| &rest[at + short.len()..])?;
    lists.extend(list(behind).or_else(|| without_parentheses(spelling, behind))?);
    Some(lists.iter().flat_map(|part| names(spelling, part)).collect())
}

/// What stands between the first parentheses, taken apart at its commas.
fn list(text: &str) -> Option<Vec<String>> {
    let open = text.find('(').filter(|at| !text[..*at].contains('\n') && !text[..*at].contains("=>"))?;
    let mut parts = vec![String::new()];
    let mut depth = 0;
    let mut quote = None;
    for letter in text[open..].chars().take(LONGEST_HEAD) {
        match (letter, quote) {
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'' | '`', None) => quote = Some(letter),
            ('(' | '[' | '{', None) => depth += 1,
            (')' | ']' | '}', None) => depth -= 1,
            _ => {}
        }
        match letter {
            _ if depth == 0 => return Some(parts),
            '(' if depth == 1 && parts == [""] => {}
            ',' if depth == 1 && quote.is_none() => parts.push(String::new()),
            _ => parts.last_mut()?.push(letter),
        }
    }
    None
}

/// `def total prices, rate` of Ruby, `price => price + 1` of JavaScript.
fn without_parentheses(spelling: Spelling, text: &str) -> Option<Vec<String>> {
    let line = text.lines().next().unwrap_or_default();
    match spelling {
        Spelling::Script => Some(line.split('#').next()?.split(',').map(str::to_owned).collect()),
        Spelling::Node => {
            let name = line.split("=>").next()?.rsplit(['=', ':']).next()?.trim();
            Some(vec![name.trim_start_matches("async").trim().to_owned()])
        }
        _ => None,
    }
}

/// The names that a parameter gives.
fn names(spelling: Spelling, parameter: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '$';
    let plain = parameter.trim().trim_start_matches(['*', '&', '.']).trim_start();
    let word = |text: &str| text.chars().take_while(|letter| is_name(*letter)).collect::<String>();
    let found: Vec<String> = match spelling {
        // `{ price, rate: r = 2 }` gives `price` and `r`.
        Spelling::Node if plain.starts_with(['{', '[']) => {
            let inner = plain.trim_start_matches(['{', '[']).split(['}', ']']).next().unwrap_or_default();
            inner
                .split(',')
                .map(|part| part.split('=').next().unwrap_or_default())
                .map(|part| word(part.rsplit(':').next().unwrap_or_default().trim().trim_start_matches('.')))
                .collect()
        }
        Spelling::Node => {
            let modifiers = ["public ", "private ", "protected ", "readonly "];
            let bare = modifiers.iter().fold(plain, |text, modifier| text.trim_start_matches(modifier));
            vec![word(bare)]
        }
        // The type stands before the name.
        Spelling::Java => vec![plain.rsplit(|letter| !is_name(letter)).next().unwrap_or_default().to_owned()],
        _ => vec![word(plain)],
    };
    found.into_iter().filter(|name| !name.is_empty() && name != "_").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(spelling: Spelling, text: &str, function: &str, expected: Option<&str>) {
        let line = u32::try_from(text.lines().count()).unwrap();
        let found = parameters(spelling, text, line, function).map(|names| names.join(" "));
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn parameters_of_python_are_found() {
        let check = |text, function, expected| check(Spelling::Python, text, function, expected);
        check("def f(a, b: int = 3, *rest, c=(1, 2), **more):\n    x = a", "f", Some("a b rest c more"));
        check(
            "def f(x): pass\n\nclass A:\n    async def f(\n        self,\n        key='a,b',\n    ):\n        y = 1",
            "A.f",
            Some("self key"),
        );
        check("def f(a, /, *, b): pass", "f", Some("a b"));
        check("def g(): pass", "f", None);
        check("x = 1", "<module>", Some(""));
        check("f = lambda x: x", "<lambda>", None);
    }

    #[test]
    fn parameters_of_javascript_are_found() {
        let check = |text, function, expected| check(Spelling::Node, text, function, expected);
        check(
            "function total(prices, { rate, limit: most = 3 }, ...rest) {\n  x();",
            "total",
            Some("prices rate most rest"),
        );
        check("class A {\n  add(item: Item, count = 1) {\n    x();", "A.add", Some("item count"));
        check("const twice = (number) => number * 2;", "twice", Some("number"));
        check("const twice = number => number * 2;", "twice", Some("number"));
        check("list.map((x) => x)", "(anonymous)", None);
    }

    #[test]
    fn parameters_of_java_are_found() {
        let check = |text, function, expected| check(Spelling::Java, text, function, expected);
        check(
            "    static int total(final int[] prices, int tax) {\n  x();",
            "shop.Shop.total",
            Some("prices tax"),
        );
        check("  x = total(a);\n  y();", "Shop.total", None);
    }

    #[test]
    fn parameters_of_go_and_ruby_are_found() {
        check(
            Spelling::Go,
            "func (s *Shop) Total(a, b int, more ...string) (n int) {\n",
            "main.(*Shop).Total",
            Some("s a b more"),
        );
        check(Spelling::Go, "func Total(a int) {\n", "main.main.func1", None);
        check(Spelling::Go, "func main() {\n x()", "main.main", Some(""));
        check(
            Spelling::Script,
            "def total(prices, rate = 2, *rest, key: 1, &block)\n  x",
            "Object#total",
            Some("prices rate rest key block"),
        );
        check(Spelling::Script, "def self.total prices, rate # all\n  x", "Shop.total", Some("prices rate"));
    }
}
