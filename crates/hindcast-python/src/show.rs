//! Values with their parts, as far as was asked.

use hindcast_core::debug::{RuntimeAddr, ValueLimits, ValueState, Variable};

use crate::{
    Local, ReadError, Reader, Value,
    kind::Kind,
    line::LineLimits,
    text::{float, quoted},
};

/// A part of a value.
struct Part {
    name: String,
    object: u64,
}

impl Reader<'_> {
    /// A local or global variable.
    pub fn show_local(&self, local: &Local, limits: ValueLimits) -> Variable {
        match local.object {
            Some(object) => self.show(&local.name, object, limits),
            None => Variable {
                name: local.name.clone(),
                value: "<no value yet>".into(),
                state: ValueState::NotYetInitialised,
                ..Variable::default()
            },
        }
    }

    /// An object under a name.
    pub fn show(&self, name: &str, object: u64, limits: ValueLimits) -> Variable {
        let lines = LineLimits { depth: 2, parts: limits.children.into(), text: limits.text.into() };
        self.try_to_show(name, object, limits, lines).unwrap_or_else(|error| Variable {
            name: name.to_owned(),
            value: format!("<{error}>"),
            state: ValueState::Unreadable,
            ..Variable::default()
        })
    }

    /// What an expression came to.
    pub fn show_value(&self, value: &Value, limits: ValueLimits) -> Variable {
        let plain = |type_name: &str, value: String| Variable {
            type_name: type_name.into(),
            value,
            ..Variable::default()
        };
        match value {
            Value::Object { object, .. } => self.show("", *object, limits),
            Value::None => plain("NoneType", "None".into()),
            Value::Bool(value) => plain("bool", if *value { "True" } else { "False" }.into()),
            Value::Int(value) => plain("int", value.to_string()),
            Value::Float(value) => plain("float", float(*value)),
            Value::Text(text) => plain("str", quoted(text)),
            Value::Sequence { items, is_tuple } => {
                let lines = LineLimits { depth: 2, parts: limits.children.into(), text: limits.text.into() };
                let told: Vec<_> = items
                    .iter()
                    .take(limits.children as usize)
                    .map(|item| match item {
                        Value::Object { object, .. } => self.line(*object, lines),
                        item => self.show_value(item, limits).value,
                    })
                    .collect();
                let rest = if told.len() < items.len() {
                    format!(", … {} in all", items.len())
                } else {
                    String::new()
                };
                let (name, open, close) = if *is_tuple { ("tuple", "(", ")") } else { ("list", "[", "]") };
                plain(name, format!("{open}{}{rest}{close}", told.join(", ")))
            }
        }
    }

    fn try_to_show(
        &self,
        name: &str,
        object: u64,
        limits: ValueLimits,
        lines: LineLimits,
    ) -> Result<Variable, ReadError> {
        let info = self.type_of(object)?;
        let mut shown = Variable {
            name: name.to_owned(),
            type_name: self.full_name(&info),
            value: self.line(object, lines),
            address: Some(RuntimeAddr(object)),
            ..Variable::default()
        };
        if info.kind == Kind::Str {
            shown.truncated = self.size(object)? > limits.text.into();
        }
        if info.kind.is_plain() {
            return Ok(shown);
        }
        let (parts, total) = self.parts(object, info.kind, limits.offset, limits.children.into())?;
        shown.child_count = Some(total).filter(|total| *total > 0);
        shown.truncated = total > limits.offset + parts.len() as u64 || limits.depth == 0 && total > 0;
        if limits.depth > 0 {
            let inner = ValueLimits { depth: limits.depth - 1, offset: 0, ..limits };
            shown.children = parts.iter().map(|part| self.show(&part.name, part.object, inner)).collect();
        }
        Ok(shown)
    }

    /// Some of an object's parts with their names, and how many there are.
    fn parts(&self, object: u64, kind: Kind, offset: u64, limit: u64) -> Result<(Vec<Part>, u64), ReadError> {
        const NAME: LineLimits = LineLimits { depth: 1, parts: 4, text: 60 };
        let numbered = |items: Vec<u64>| {
            let parts = items.into_iter().zip(offset..);
            parts.map(|(object, index)| Part { name: format!("[{index}]"), object }).collect()
        };
        let page = |count: u64| (count.saturating_sub(offset).min(limit)) as usize;
        Ok(match kind {
            Kind::List | Kind::Tuple => {
                (numbered(self.items(object, kind, offset, limit)?), self.size(object)?)
            }
            Kind::Deque => {
                let (items, total) = self.deque(object, offset, limit)?;
                (numbered(items.into_iter().map(|(_, item)| item).collect()), total)
            }
            Kind::Set | Kind::FrozenSet => {
                let (items, total) = self.set(object, offset.saturating_add(limit) as usize)?;
                let items = items.into_iter().skip(offset as usize).collect();
                (numbered(items), total)
            }
            Kind::Dict => {
                let total = self.size(object)?;
                let entries = self.entries(object, offset as usize + page(total))?;
                let parts = entries.into_iter().skip(offset as usize);
                let named = |entry: crate::objects::Entry| Part {
                    name: format!("[{}]", self.line(entry.key, NAME)),
                    object: entry.value,
                };
                (parts.map(named).collect(), total)
            }
            Kind::Cell | Kind::MappingProxy => match self.word(object + 16)? {
                0 => (Vec::new(), 0),
                inner => (vec![Part { name: "contents".into(), object: inner }], 1),
            },
            _ => {
                const MOST: usize = 10_000;
                let attributes = self.attributes(object, MOST)?;
                let total = attributes.len() as u64;
                let parts = attributes.into_iter().skip(offset as usize).take(limit as usize);
                (parts.map(|part| Part { name: part.name, object: part.value }).collect(), total)
            }
        })
    }
}
