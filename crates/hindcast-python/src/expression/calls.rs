//! The few functions whose result is known without running code.

use num_bigint::BigInt;
use num_traits::Signed as _;
use tree_sitter::Node;

use super::{
    Computed, ExpressionError, Scope, Value,
    numbers::{Number, number},
};
use crate::kind::Kind;

impl Scope<'_, '_> {
    pub(super) fn call(&self, node: Node<'_>, depth: u32) -> Computed {
        let function = self.field(node, "function")?;
        let name = self.text(function);
        let arguments = self.field(node, "arguments")?;
        let mut cursor = arguments.walk();
        let arguments: Vec<_> = arguments.named_children(&mut cursor).collect();
        const KNOWN: [&str; 8] = ["len", "isinstance", "type", "id", "abs", "min", "max", "sum"];
        let is_own = function.kind() != "identifier"
            || !KNOWN.contains(&name)
            || arguments.iter().any(|argument| {
                matches!(argument.kind(), "keyword_argument" | "list_splat" | "dictionary_splat")
            });
        if is_own {
            return Err(self.unknown(node));
        }
        // The program may use the name for something else.
        if let Value::Object { object, .. } = self.name(name)? {
            let info = self.reader.type_of(object)?;
            let is_builtin = match info.kind {
                Kind::BuiltinFunction => true,
                Kind::Type => !self.reader.type_info(object)?.is_heap_type(),
                _ => false,
            };
            if !is_builtin {
                return Err(self.unknown(node));
            }
        }
        let values: Computed<Vec<_>> =
            arguments.into_iter().map(|argument| self.value(argument, depth + 1)).collect();
        let values = values?;
        match (name, &values[..]) {
            ("len", [only]) => {
                self.refuse_own(only, &["__len__"])?;
                match self.size_of(only)? {
                    Some(size) => Ok(Value::Int(size.into())),
                    None => Err(ExpressionError::wrong(format!(
                        "object of type '{}' has no len()",
                        self.type_name(only)?
                    ))),
                }
            }
            ("type", [Value::Object { object, .. }]) => {
                Ok(Value::Object { object: self.reader.type_of(*object)?.address, slot: None })
            }
            ("id", [Value::Object { object, .. }]) => Ok(Value::Int((*object).into())),
            ("isinstance", [Value::Object { object, .. }, class]) => {
                self.is_instance(*object, class, 0).map(Value::Bool)
            }
            ("abs", [only]) => match number(&self.plain(only)?) {
                Some(Number::Int(value)) => Ok(Value::Int(value.abs())),
                Some(Number::Float(value)) => Ok(Value::Float(value.abs())),
                None => Err(self.unknown(node)),
            },
            ("min" | "max" | "sum", _) => {
                let items = match &values[..] {
                    [only] => self.items_of(only)?.ok_or_else(|| self.unknown(node))?,
                    values if name != "sum" => values.to_vec(),
                    _ => return Err(self.unknown(node)),
                };
                self.fold(name, &items)
            }
            _ => Err(self.unknown(node)),
        }
    }

    fn fold(&self, name: &str, items: &[Value]) -> Computed {
        let mut items = items.iter();
        let mut result = match name {
            "sum" => Value::Int(BigInt::ZERO),
            _ => {
                items.next().cloned().ok_or_else(|| ExpressionError::wrong(format!("{name}() of nothing")))?
            }
        };
        for item in items {
            let is_float = |value: &Value| matches!(self.plain(value), Ok(Value::Float(_)));
            if name == "sum" && self.reader.python.layout.minor >= 12 && is_float(item) {
                // Later versions add more exactly than one by one.
                return Err(ExpressionError::wrong("the sum of floating-point numbers is not computed here"));
            }
            match name {
                "sum" => result = self.binary("+", &result, item)?,
                "min" if self.compare("<", item, &result)? => result = item.clone(),
                "max" if self.compare(">", item, &result)? => result = item.clone(),
                _ => {}
            }
        }
        Ok(result)
    }

    fn is_instance(&self, object: u64, class: &Value, depth: u32) -> Computed<bool> {
        const DEEPEST: u32 = 16;
        if depth > DEEPEST {
            return Err(ExpressionError::wrong("the tuple of types is nested too deeply"));
        }
        if let Value::Sequence { items, .. } = class {
            for class in items {
                if self.is_instance(object, class, depth + 1)? {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let Value::Object { object: class, .. } = class else {
            return Err(ExpressionError::wrong("isinstance() arg 2 must be a type or a tuple of types"));
        };
        let reader = self.reader;
        match reader.type_of(*class)?.kind {
            Kind::Tuple => {
                let items = reader.items(*class, Kind::Tuple, 0, 256)?;
                let items = items.into_iter().map(|object| Value::Object { object, slot: None }).collect();
                self.is_instance(object, &Value::Sequence { items, is_tuple: true }, depth + 1)
            }
            Kind::Type => {
                let info = reader.type_of(object)?;
                if info.mro != 0 && reader.items(info.mro, Kind::Tuple, 0, 256)?.contains(class) {
                    return Ok(true);
                }
                let meta = reader.type_of(*class)?;
                match reader.class_attribute(&meta, "__instancecheck__")? {
                    Some(_) => Err(ExpressionError::computed(&meta, "__instancecheck__")),
                    None => Ok(false),
                }
            }
            _ => Err(ExpressionError::wrong("isinstance() arg 2 must be a type or a tuple of types")),
        }
    }
}
