//! What Python modules say about themselves: the docstrings of modules, classes and functions, read from the source.

use tree_sitter::Node;

use crate::{ExtractError, Extracted, outline::Outline, syntax};

/// Deeper than people write.
const DEEPEST: usize = 20;

/// Longer signatures are cut.
const LONGEST_SIGNATURE: usize = 200;

pub(crate) fn extract(text: &str) -> Result<Extracted, ExtractError> {
    let tree = syntax::parse(text, &tree_sitter_python::LANGUAGE.into());
    let tree = tree.ok_or(ExtractError::Broken { format: "Python", reason: "it cannot be parsed".into() })?;
    let mut reader = Reader { text, outline: Outline::default(), has_any: false };
    reader.docstring(tree.root_node());
    reader.definitions(tree.root_node(), 1, 0);
    match reader.has_any {
        true => Ok(reader.outline.finish(None)),
        false => Err(ExtractError::NoDocstrings),
    }
}

struct Reader<'a> {
    text: &'a str,
    outline: Outline,
    has_any: bool,
}

impl Reader<'_> {
    /// Takes the definitions in a block; what stands in branches belongs to what the branches are in.
    fn definitions(&mut self, block: Node<'_>, level: u8, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        let mut cursor = block.walk();
        for node in block.named_children(&mut cursor) {
            let definition = match node.kind() {
                "decorated_definition" => node.child_by_field_name("definition"),
                "function_definition" | "class_definition" => Some(node),
                kind if kind.ends_with("_statement") || kind.ends_with("_clause") || kind == "block" => {
                    self.definitions(node, level, depth + 1);
                    None
                }
                _ => None,
            };
            if let Some(definition) = definition {
                self.definition(definition, level, depth);
            }
        }
    }

    fn definition(&mut self, node: Node<'_>, level: u8, depth: usize) {
        let name = node.child_by_field_name("name").and_then(|name| self.text.get(name.byte_range()));
        let is_private = name.is_none_or(|name| name.starts_with('_') && !name.starts_with("__"));
        let Some(body) = node.child_by_field_name("body").filter(|_| !is_private) else { return };
        let is_class = node.kind() == "class_definition";
        if !is_class && docstring(body).is_none() {
            return;
        }
        self.outline.on_line(line_of(node));
        self.outline.heading(level, &signature(&self.text[node.start_byte()..body.start_byte()]));
        self.docstring(body);
        if is_class {
            self.definitions(body, level.saturating_add(1), depth + 1);
        }
    }

    fn docstring(&mut self, block: Node<'_>) {
        let Some(string) = docstring(block) else { return };
        let (Some(opening), Some(closing)) = (string.child(0), string.child(string.child_count() - 1)) else {
            return;
        };
        let Some(raw) = self.text.get(opening.end_byte()..closing.start_byte()) else { return };
        let above = raw.lines().take_while(|line| line.trim().is_empty()).count();
        let said = dedented(raw);
        if !said.is_empty() {
            self.outline.body_from(&said, line_of(string) + above as u64);
            self.has_any = true;
        }
    }
}

/// The string that a block begins with.
fn docstring(block: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = block.walk();
    let first = block.named_children(&mut cursor).find(|node| node.kind() != "comment")?;
    let string = first.named_child(0).filter(|_| first.kind() == "expression_statement")?;
    (string.kind() == "string" && string.child_count() >= 2).then_some(string)
}

fn line_of(node: Node<'_>) -> u64 {
    node.start_position().row as u64 + 1
}

/// A definition in a line, without what all definitions have.
fn signature(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = line.trim_end_matches(':').trim_end();
    let line = line.strip_prefix("def ").unwrap_or(line).replace("( ", "(").replace(", )", ")");
    match line.char_indices().nth(LONGEST_SIGNATURE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Without the indentation that the source has, as `inspect.cleandoc` does it.
fn dedented(raw: &str) -> String {
    let lines: Vec<&str> = raw.lines().collect();
    let indentation = |line: &&str| line.len() - line.trim_start().len();
    let margin = lines.iter().skip(1).filter(|line| !line.trim().is_empty()).map(indentation).min();
    let cut = |(number, line): (usize, &&str)| match (number, margin) {
        (0, _) => line.trim_start().to_owned(),
        (_, Some(margin)) => line.get(margin..).unwrap_or_default().trim_end().to_owned(),
        (_, None) => String::new(),
    };
    let lines: Vec<String> = lines.iter().enumerate().map(cut).collect();
    lines.join("\n").trim_matches('\n').trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Format, chunk};

    const SOURCE: &str = r#"# A comment.
"""Talks to herons.

More about it.
"""
import os

if os.name == "posix":
    def call(name: str,
             *, loud: bool = False) -> None:
        '''Calls a heron.

            # Not a heading
        '''

class Lake(Water):
    """Where herons stand."""

    depth = 3

    @property
    async def level(self):
        r"""How high the \water is."""

    def drain(self):
        return 1

    def _hidden(self):
        """Nobody sees it."""

def undocumented():
    pass
"#;

    #[test]
    fn docstrings_stand_under_their_signatures() {
        let extracted = extract(SOURCE).unwrap();
        let text = extracted.text.clone().unwrap();
        let said: Vec<_> = chunk(Format::Docstrings, &text, &extracted)
            .unwrap()
            .into_iter()
            .map(|chunk| (chunk.headings.join(" › "), text[chunk.range].to_owned(), chunk.lines.0))
            .collect();
        let of = |headings: &str| {
            let found = said.iter().find(|(known, ..)| known == headings);
            found
                .map(|(_, text, line)| (text.as_str(), *line))
                .unwrap_or_else(|| panic!("{headings}: {said:?}"))
        };
        assert_eq!(of(""), ("Talks to herons.\n\nMore about it.", 2));
        let (called, line) = of("call(name: str, *, loud: bool = False) -> None");
        assert!(called.ends_with("Calls a heron.\n\n# Not a heading") && line == 9, "{called} {line}");
        assert!(of("class Lake(Water)").0.ends_with("Where herons stand."));
        assert!(of("class Lake(Water) › async def level(self)").0.ends_with(r"How high the \water is."));
        assert_eq!(said.len(), 4, "{said:?}");
    }

    #[test]
    fn a_module_without_docstrings_says_so() {
        for source in
            ["", "x = 1\n", "def f():\n    return 'no docstring'\n", "class A: pass", "def (:\n \"\"\""]
        {
            assert_eq!(extract(source), Err(ExtractError::NoDocstrings), "{source}");
        }
    }
}
