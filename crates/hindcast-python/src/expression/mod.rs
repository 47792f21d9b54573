//! Expressions of Python, as far as their value is known without running code of the program.

mod calls;
mod compute;
mod numbers;

use num_bigint::BigInt;
use tree_sitter::{Node, Parser};

use crate::{Frame, ReadError, Reader, kind::Kind, reader::TypeInfo};

type Computed<T = Value> = Result<T, ExpressionError>;

/// Why an expression has no value here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// It is not written as Python is.
    #[error("`{text}` is no Python expression")]
    Syntax {
        /// The part that is wrong.
        text: String,
    },
    /// It is more than is computed here.
    #[error(
        "`{text}` is not computed here: names, attributes, items, slices, arithmetic, comparisons, `in`, `is`, `and`, `or`, `not`, `len`, `isinstance`, `type`, `id`, `abs`, `min`, `max` and `sum` are"
    )]
    Unknown {
        /// The part that is too much.
        text: String,
    },
    /// Nobody knows this name.
    #[error("there is no `{name}` in this frame")]
    NoName {
        /// Which one.
        name: String,
    },
    /// The name has no value at this point.
    #[error("`{name}` has no value yet, or none any more")]
    NotYet {
        /// Which one.
        name: String,
    },
    /// The object has no such attribute.
    #[error("`{type_name}` has no attribute `{name}`")]
    NoAttribute {
        /// The type of the object.
        type_name: String,
        /// Which one.
        name: String,
    },
    /// Code of the program would have to run.
    #[error("`{name}` of `{type_name}` is not kept, or computed by code, which is not run here")]
    Computed {
        /// The type of the object.
        type_name: String,
        /// What was asked for.
        name: String,
    },
    /// It would be an error in Python as well.
    #[error("{what}")]
    Wrong {
        /// What Python would say.
        what: String,
    },
    /// The object could not be read.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl ExpressionError {
    pub(crate) fn no_attribute(info: &TypeInfo, name: &str) -> Self {
        Self::NoAttribute { type_name: info.name.clone(), name: name.to_owned() }
    }

    pub(crate) fn computed(info: &TypeInfo, name: &str) -> Self {
        Self::Computed { type_name: info.name.clone(), name: name.to_owned() }
    }

    fn wrong(what: impl Into<String>) -> Self {
        Self::Wrong { what: what.into() }
    }
}

/// What a pointer to an object belongs to. It says where the pointer is at other moments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// It never moves: a local variable, or a part of an object of fixed size.
    Fixed(u64),
    /// An attribute of an instance.
    Attribute {
        /// The instance.
        object: u64,
        /// The attribute.
        name: String,
    },
    /// A value in a dictionary, so also a global variable.
    Entry {
        /// The dictionary.
        dict: u64,
        /// The key object.
        key: u64,
    },
    /// An element of a list.
    Item {
        /// The list.
        list: u64,
        /// Which one.
        index: u64,
    },
}

/// Where a pointer to an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Where it is now.
    pub address: u64,
    /// What it belongs to.
    pub target: Target,
}

/// What an expression comes to.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// An object of the program.
    Object {
        /// Where it is.
        object: u64,
        /// Where the pointer to it is that the expression names.
        slot: Option<Slot>,
    },
    /// `None`, computed here.
    None,
    /// A truth value, computed here.
    Bool(bool),
    /// An integer, computed here.
    Int(BigInt),
    /// A floating-point number, computed here.
    Float(f64),
    /// A text, computed here.
    Text(String),
    /// A tuple or list, computed here.
    Sequence {
        /// Its elements.
        items: Vec<Value>,
        /// Whether it is a tuple.
        is_tuple: bool,
    },
}

impl Reader<'_> {
    /// The value of an expression in a frame.
    pub fn evaluate(&self, frame: &Frame, text: &str) -> Result<Value, ExpressionError> {
        const LONGEST: usize = 10_000;
        let syntax = || ExpressionError::Syntax { text: text.chars().take(80).collect() };
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed.len() > LONGEST {
            return Err(syntax());
        }
        let mut parser = Parser::new();
        parser.set_language(&tree_sitter_python::LANGUAGE.into()).map_err(|_| syntax())?;
        // In parentheses only an expression is possible, also over several lines.
        let source = format!("({trimmed})");
        let tree = parser.parse(&source, None).ok_or_else(syntax)?;
        let root = tree.root_node();
        let statement = root.named_child(0).filter(|_| root.named_child_count() == 1 && !root.has_error());
        let expression = statement
            .filter(|statement| statement.kind() == "expression_statement")
            .and_then(|statement| statement.named_child(0))
            .ok_or_else(syntax)?;
        let scope = Scope { reader: self, frame, source: &source };
        // The parentheses that were put around it make no tuple.
        scope.value(expression, 0)
    }

    /// Where a pointer is at the moment that is read; none where its owner has no such pointer then.
    pub fn slot_of(&self, target: &Target) -> Result<Option<u64>, ReadError> {
        let owner = match target {
            Target::Fixed(_) => None,
            Target::Attribute { object, .. } => Some(*object),
            Target::Entry { dict, .. } => Some(*dict),
            Target::Item { list, .. } => Some(*list),
        };
        if owner.is_some_and(|owner| !self.is_alive(owner)) {
            return Ok(None);
        }
        match target {
            Target::Fixed(address) => Ok(Some(*address)),
            Target::Attribute { object, name } => {
                let attributes = self.attributes(*object, usize::MAX)?;
                Ok(attributes.into_iter().find(|attribute| attribute.name == *name).map(|found| found.slot))
            }
            Target::Entry { dict, key } => {
                let mut slot = None;
                self.each_entry(*dict, |entry| {
                    slot = (entry.key == *key).then_some(entry.slot);
                    Ok(slot.is_none())
                })?;
                Ok(slot)
            }
            Target::Item { list, index } => {
                let (items, size) = self.sequence(*list, Kind::List)?;
                Ok((*index < size).then_some(items + index * 8))
            }
        }
    }
}

/// The names and the text of an expression.
struct Scope<'r, 'm> {
    reader: &'r Reader<'m>,
    frame: &'r Frame,
    source: &'r str,
}

impl Scope<'_, '_> {
    fn text(&self, node: Node<'_>) -> &str {
        self.source.get(node.byte_range()).unwrap_or_default()
    }

    fn unknown(&self, node: Node<'_>) -> ExpressionError {
        ExpressionError::Unknown { text: self.text(node).to_owned() }
    }

    fn field<'t>(&self, node: Node<'t>, name: &str) -> Result<Node<'t>, ExpressionError> {
        node.child_by_field_name(name).ok_or_else(|| self.unknown(node))
    }

    fn value(&self, node: Node<'_>, depth: u32) -> Result<Value, ExpressionError> {
        const DEEPEST: u32 = 100;
        if depth > DEEPEST {
            return Err(self.unknown(node));
        }
        let inner = |node| self.value(node, depth + 1);
        match node.kind() {
            "parenthesized_expression" => inner(node.named_child(0).ok_or_else(|| self.unknown(node))?),
            "identifier" => self.name(self.text(node)),
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "none" => Ok(Value::None),
            "integer" => integer(self.text(node)).map(Value::Int).ok_or_else(|| self.unknown(node)),
            "float" => {
                let number = self.text(node).replace('_', "").parse();
                number.map(Value::Float).map_err(|_| self.unknown(node))
            }
            "string" => text_of(self.text(node)).map(Value::Text).ok_or_else(|| self.unknown(node)),
            "tuple" | "list" => {
                let mut cursor = node.walk();
                let items: Result<_, _> = node.named_children(&mut cursor).map(inner).collect();
                Ok(Value::Sequence { items: items?, is_tuple: node.kind() == "tuple" })
            }
            "attribute" => {
                let owner = inner(self.field(node, "object")?)?;
                self.attribute(&owner, self.text(self.field(node, "attribute")?))
            }
            "subscript" => {
                let owner = inner(self.field(node, "value")?)?;
                let key = self.field(node, "subscript")?;
                if key.kind() == "slice" {
                    return self.slice(&owner, key, depth);
                }
                self.item(&owner, &inner(key)?)
            }
            "unary_operator" => {
                let operand = inner(self.field(node, "argument")?)?;
                self.unary(self.text(self.field(node, "operator")?), &operand)
            }
            "not_operator" => {
                let operand = inner(self.field(node, "argument")?)?;
                Ok(Value::Bool(!self.is_true(&operand)?))
            }
            "boolean_operator" => {
                let left = inner(self.field(node, "left")?)?;
                let is_and = self.text(self.field(node, "operator")?) == "and";
                if self.is_true(&left)? == is_and { inner(self.field(node, "right")?) } else { Ok(left) }
            }
            "binary_operator" => {
                let (left, right) = (inner(self.field(node, "left")?)?, inner(self.field(node, "right")?)?);
                self.binary(self.text(self.field(node, "operator")?), &left, &right)
            }
            "comparison_operator" => self.comparison(node, depth),
            "conditional_expression" => {
                let part = |index| node.named_child(index).ok_or_else(|| self.unknown(node));
                let holds = self.is_true(&inner(part(1)?)?)?;
                inner(part(if holds { 0 } else { 2 })?)
            }
            "call" => self.call(node, depth),
            _ => Err(self.unknown(node)),
        }
    }

    fn name(&self, name: &str) -> Result<Value, ExpressionError> {
        let named = self.reader.name_in(self.frame, name)?;
        Ok(Value::Object { object: named.object, slot: named.slot })
    }

    fn attribute(&self, owner: &Value, name: &str) -> Result<Value, ExpressionError> {
        match owner {
            Value::Object { object, .. } => {
                let named = self.reader.attribute(*object, name)?;
                Ok(Value::Object { object: named.object, slot: named.slot })
            }
            _ => Err(ExpressionError::Unknown { text: format!("….{name}") }),
        }
    }

    fn comparison(&self, node: Node<'_>, depth: u32) -> Result<Value, ExpressionError> {
        let mut cursor = node.walk();
        let operands: Vec<_> = node.named_children(&mut cursor).collect();
        let mut cursor = node.walk();
        let operators: Vec<_> = node
            .children_by_field_name("operators", &mut cursor)
            .map(|operator| self.text(operator).split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let operands: Vec<_> = operands.into_iter().filter(|operand| operand.is_named()).collect();
        let mut left = self.value(operands[0], depth + 1)?;
        for (operator, operand) in operators.iter().zip(&operands[1..]) {
            let right = self.value(*operand, depth + 1)?;
            if !self.compare(operator, &left, &right)? {
                return Ok(Value::Bool(false));
            }
            left = right;
        }
        Ok(Value::Bool(true))
    }

    fn slice(&self, owner: &Value, node: Node<'_>, depth: u32) -> Result<Value, ExpressionError> {
        let mut ends = [None, None, None];
        let mut at = 0;
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                ":" => at += 1,
                _ if child.is_named() && at < 3 => {
                    let end = self.value(child, depth + 1)?;
                    ends[at] = match self.plain(&end)? {
                        Value::None => None,
                        Value::Int(number) => Some(number),
                        _ => return Err(ExpressionError::wrong("slice indices must be integers or None")),
                    };
                }
                _ => {}
            }
        }
        self.sliced(owner, ends)
    }
}

/// The number that a literal writes.
fn integer(text: &str) -> Option<BigInt> {
    let digits = text.replace('_', "").to_lowercase();
    let (digits, base) = match digits.get(..2) {
        Some("0x") => (&digits[2..], 16),
        Some("0o") => (&digits[2..], 8),
        Some("0b") => (&digits[2..], 2),
        _ => (&digits[..], 10),
    };
    BigInt::parse_bytes(digits.as_bytes(), base)
}

/// The text that a literal writes: without prefixes, and with the escapes that are common.
fn text_of(literal: &str) -> Option<String> {
    let quote = literal.chars().next().filter(|first| matches!(first, '\'' | '"'))?;
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let width = if literal.len() >= 6 && literal.starts_with(&triple) { 3 } else { 1 };
    let inner = literal.get(width..literal.len().checked_sub(width)?)?;
    let mut text = String::new();
    let mut letters = inner.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match letters.next()? {
            'n' => text.push('\n'),
            't' => text.push('\t'),
            'r' => text.push('\r'),
            '0' if !letters.clone().next().is_some_and(|next| next.is_ascii_digit()) => text.push('\0'),
            same @ ('\\' | '\'' | '"') => text.push(same),
            code @ ('x' | 'u' | 'U') => {
                let width = match code {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits: String = letters.by_ref().take(width).collect();
                text.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
            }
            _ => return None,
        }
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_as_python_reads_them() {
        assert_eq!(integer("0x_ff"), Some(255.into()));
        assert_eq!(integer("1_000"), Some(1000.into()));
        assert_eq!(integer("12j"), None);
        assert_eq!(text_of(r"'a\n\x41'").as_deref(), Some("a\nA"));
        assert_eq!(text_of("\"\"\"it's\"\"\"").as_deref(), Some("it's"));
        assert_eq!(text_of("b'x'"), None);
        assert_eq!(text_of(r"'\N{DASH}'"), None);
    }
}
