//! The core function library of XPath 1.0.

use std::{borrow::Cow, collections::HashMap};

use super::{
    error::XPathError,
    evaluate::{Context, Evaluator},
    nodes::{NodeRef, Part},
    number,
    syntax::Expression,
    value::Value,
};
use crate::tree::NodeId;

macro_rules! functions {
    ($($variant:ident $name:literal $least:literal $most:literal $count:literal),* $(,)?) => {
        /// A function of the library.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function { $($variant),* }

        impl Function {
            pub(super) fn named(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// Name, fewest and most arguments, and how to say that.
            fn declaration(self) -> (&'static str, usize, usize, &'static str) {
                match self { $(Self::$variant => ($name, $least, $most, $count)),* }
            }
        }
    };
}

functions! {
    Last "last" 0 0 "no",
    Position "position" 0 0 "no",
    Count "count" 1 1 "1",
    Id "id" 1 1 "1",
    LocalName "local-name" 0 1 "0 or 1",
    NamespaceUri "namespace-uri" 0 1 "0 or 1",
    Name "name" 0 1 "0 or 1",
    String "string" 0 1 "0 or 1",
    Concat "concat" 2 10_000 "2 or more",
    StartsWith "starts-with" 2 2 "2",
    Contains "contains" 2 2 "2",
    SubstringBefore "substring-before" 2 2 "2",
    SubstringAfter "substring-after" 2 2 "2",
    Substring "substring" 2 3 "2 or 3",
    StringLength "string-length" 0 1 "0 or 1",
    NormalizeSpace "normalize-space" 0 1 "0 or 1",
    Translate "translate" 3 3 "3",
    Boolean "boolean" 1 1 "1",
    Not "not" 1 1 "1",
    True "true" 0 0 "no",
    False "false" 0 0 "no",
    Lang "lang" 1 1 "1",
    Number "number" 0 1 "0 or 1",
    Sum "sum" 1 1 "1",
    Floor "floor" 1 1 "1",
    Ceiling "ceiling" 1 1 "1",
    Round "round" 1 1 "1",
}

impl Function {
    /// Whether so many arguments will do.
    pub(super) fn check(self, found: usize) -> Result<(), XPathError> {
        let (name, least, most, expected) = self.declaration();
        if (least..=most).contains(&found) {
            Ok(())
        } else {
            Err(XPathError::WrongArguments { name, expected, found })
        }
    }

    pub(super) fn gives_number(self) -> bool {
        matches!(
            self,
            Self::Last
                | Self::Position
                | Self::Count
                | Self::StringLength
                | Self::Number
                | Self::Sum
                | Self::Floor
                | Self::Ceiling
                | Self::Round
        )
    }
}

impl<'d> Evaluator<'d> {
    pub(super) fn call(
        &self,
        function: Function,
        arguments: &[Expression],
        context: Context,
    ) -> Result<Value<'d>, XPathError> {
        let document = self.document;
        let text = |index: usize| self.text_argument(arguments, index, context);
        let number = |index: usize| -> Result<f64, XPathError> {
            match arguments.get(index) {
                Some(argument) => Ok(self.evaluate(argument, context)?.number(document)),
                None => Ok(number::from_text(&context.node.text(document))),
            }
        };
        let nodes = |what| -> Result<Vec<NodeRef>, XPathError> {
            match self.evaluate(&arguments[0], context)? {
                Value::Nodes(nodes) => Ok(nodes),
                _ => Err(XPathError::NotNodes(what)),
            }
        };
        Ok(match function {
            Function::Last => Value::Number(context.size as f64),
            Function::Position => Value::Number(context.position as f64),
            Function::Count => Value::Number(nodes("the argument of `count()`")?.len() as f64),
            Function::Sum => Value::Number(self.sum(&nodes("the argument of `sum()`")?)?),
            Function::Id => Value::Nodes(self.identified(&self.evaluate(&arguments[0], context)?)?),
            Function::LocalName | Function::NamespaceUri | Function::Name => {
                let node = match arguments {
                    [] => Some(context.node),
                    _ => nodes("the argument of a function of names")?.first().copied(),
                };
                Value::Text(node.map_or(Cow::Borrowed(""), |node| self.name_of(function, node)))
            }
            Function::String => Value::Text(text(0)?),
            Function::Concat => Value::Text(self.concat(arguments, context)?),
            Function::StartsWith => Value::Boolean(text(0)?.starts_with(&*text(1)?)),
            Function::Contains => Value::Boolean(text(0)?.contains(&*text(1)?)),
            Function::SubstringBefore => {
                let (whole, part) = (text(0)?, text(1)?);
                Value::Text(
                    whole.split_once(&*part).map_or(String::new(), |(before, _)| before.into()).into(),
                )
            }
            Function::SubstringAfter => {
                let (whole, part) = (text(0)?, text(1)?);
                Value::Text(whole.split_once(&*part).map_or(String::new(), |(_, after)| after.into()).into())
            }
            Function::Substring => {
                let length = if arguments.len() == 3 { Some(number(2)?) } else { None };
                Value::Text(substring(&text(0)?, number(1)?, length).into())
            }
            Function::StringLength => Value::Number(text(0)?.chars().count() as f64),
            Function::NormalizeSpace => Value::Text(normalize_space(&text(0)?).into()),
            Function::Translate => Value::Text(translate(&text(0)?, &text(1)?, &text(2)?).into()),
            Function::Boolean => Value::Boolean(self.evaluate(&arguments[0], context)?.boolean()),
            Function::Not => Value::Boolean(!self.evaluate(&arguments[0], context)?.boolean()),
            Function::True => Value::Boolean(true),
            Function::False => Value::Boolean(false),
            Function::Lang => Value::Boolean(self.is_in_language(context.node, &text(0)?)),
            Function::Number => Value::Number(number(0)?),
            Function::Floor => Value::Number(number(0)?.floor()),
            Function::Ceiling => Value::Number(number(0)?.ceil()),
            Function::Round => Value::Number(number::round(number(0)?)),
        })
    }

    /// An argument as text; the context node's text where it is left out.
    fn text_argument(
        &self,
        arguments: &[Expression],
        index: usize,
        context: Context,
    ) -> Result<Cow<'d, str>, XPathError> {
        let text = match arguments.get(index) {
            Some(argument) => self.evaluate(argument, context)?.into_text(self.document),
            None => context.node.text(self.document),
        };
        self.budget.charge(1 + text.len() / 16)?;
        Ok(text)
    }

    fn concat(&self, arguments: &[Expression], context: Context) -> Result<Cow<'d, str>, XPathError> {
        let mut whole = String::new();
        for index in 0..arguments.len() {
            let part = self.text_argument(arguments, index, context)?;
            self.budget.check_memory(whole.len() + part.len())?;
            whole.push_str(&part);
        }
        Ok(whole.into())
    }

    fn sum(&self, nodes: &[NodeRef]) -> Result<f64, XPathError> {
        let mut sum = 0.0;
        for node in nodes {
            let text = node.text(self.document);
            self.budget.charge(1 + text.len() / 16)?;
            sum += number::from_text(&text);
        }
        Ok(sum)
    }

    fn name_of(&self, function: Function, node: NodeRef) -> Cow<'d, str> {
        let document = self.document;
        let Some(name) = node.qualified_name(document) else {
            let is_namespace = matches!(node.part(), Part::Namespace(..) | Part::XmlNamespace(_));
            let has_name = is_namespace && function != Function::NamespaceUri;
            return if has_name { Cow::Owned(node.name(document)) } else { Cow::Borrowed("") };
        };
        match function {
            Function::LocalName => Cow::Borrowed(document.string(name.local)),
            Function::NamespaceUri => Cow::Borrowed(document.string(name.namespace)),
            _ => Cow::Owned(document.written(name)),
        }
    }

    /// The elements whose identifier is among the words of the text, or of each node.
    fn identified(&self, value: &Value<'d>) -> Result<Vec<NodeRef>, XPathError> {
        let document = self.document;
        let texts: Vec<Cow<'d, str>> = match value {
            Value::Nodes(nodes) => nodes.iter().map(|node| node.text(document)).collect(),
            other => vec![other.clone().into_text(document)],
        };
        let mut found = Vec::new();
        for word in texts.iter().flat_map(|text| text.split_whitespace()) {
            self.budget.charge(1 + document.identifiers.len())?;
            let known = document.identifiers.iter().find(|(value, _)| document.characters(*value) == word);
            found.extend(known.map(|(_, element)| NodeRef::node(NodeId(*element))));
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    fn is_in_language(&self, node: NodeRef, language: &str) -> bool {
        let document = self.document;
        let mut at = Some(node.owner());
        while let Some(element) = at {
            for number in document.attributes_of(element) {
                let attribute = document.attributes[number];
                let name = document.names.parts(attribute.name);
                let is_lang = document.string(name.local) == "lang"
                    && document.string(name.namespace) == crate::read::XML_NAMESPACE;
                if is_lang {
                    let value = document.characters(attribute.value).to_ascii_lowercase();
                    let rest = value.strip_prefix(&language.to_ascii_lowercase());
                    return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'));
                }
            }
            at = document.parent(element);
        }
        false
    }
}

/// XPath 1.0, 4.2: positions are rounded, and compared as numbers are, so that NaN and infinities do what they do.
fn substring(text: &str, start: f64, length: Option<f64>) -> String {
    let start = number::round(start);
    let end = length.map(|length| start + number::round(length));
    let inside = |position: f64| position >= start && end.is_none_or(|end| position < end);
    text.chars()
        .enumerate()
        .filter(|(index, _)| inside(*index as f64 + 1.0))
        .map(|(_, character)| character)
        .collect()
}

fn normalize_space(text: &str) -> String {
    let words = text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let mut to = to.chars();
    let mut replaced: HashMap<char, Option<char>> = HashMap::new();
    for character in from.chars() {
        let replacement = to.next();
        replaced.entry(character).or_insert(replacement);
    }
    text.chars()
        .filter_map(|character| replaced.get(&character).copied().unwrap_or(Some(character)))
        .collect()
}
