//! Operators whose result is known without running code.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};
use num_traits::{Signed as _, ToPrimitive as _, Zero as _};

use super::{
    Computed, ExpressionError, Scope, Slot, Target, Value,
    numbers::{Number, floats, integers, number},
};
use crate::{kind::Kind, reader::ReadError};

/// What a class would have if an operator meant something of its own.
fn own_names(operator: &str) -> &'static [&'static str] {
    match operator {
        "+" => &["__add__", "__radd__"],
        "-" => &["__sub__", "__rsub__"],
        "*" => &["__mul__", "__rmul__"],
        "/" => &["__truediv__", "__rtruediv__"],
        "//" => &["__floordiv__", "__rfloordiv__"],
        "%" => &["__mod__", "__rmod__"],
        "**" => &["__pow__", "__rpow__"],
        "&" => &["__and__", "__rand__"],
        "|" => &["__or__", "__ror__"],
        "^" => &["__xor__", "__rxor__"],
        "<<" => &["__lshift__", "__rlshift__"],
        ">>" => &["__rshift__", "__rrshift__"],
        _ => &[],
    }
}

/// More elements are not gone through.
const MOST_ITEMS: u64 = 100_000;
const MOST_BYTES: u64 = 1 << 20;

impl Scope<'_, '_> {
    /// A number, text or `None` as such; everything else as it is.
    pub(super) fn plain(&self, value: &Value) -> Computed {
        const LONGEST_TEXT: u64 = 1 << 20;
        let Value::Object { object, .. } = value else { return Ok(value.clone()) };
        let reader = self.reader;
        Ok(match reader.type_of(*object)?.kind {
            Kind::None => Value::None,
            Kind::Bool => Value::Bool(!reader.int(*object)?.is_zero()),
            Kind::Int => Value::Int(reader.int(*object)?),
            Kind::Float => Value::Float(reader.float(*object)?),
            Kind::Str => {
                let text = reader.text(*object, LONGEST_TEXT)?;
                if text.is_cut {
                    return Err(ExpressionError::wrong("the text is too long to compute with"));
                }
                Value::Text(text.text)
            }
            _ => value.clone(),
        })
    }

    pub(super) fn type_name(&self, value: &Value) -> Computed<String> {
        Ok(match value {
            Value::Object { object, .. } => self.reader.type_of(*object)?.name.clone(),
            Value::None => "NoneType".into(),
            Value::Bool(_) => "bool".into(),
            Value::Int(_) => "int".into(),
            Value::Float(_) => "float".into(),
            Value::Text(_) => "str".into(),
            Value::Sequence { is_tuple, .. } => if *is_tuple { "tuple" } else { "list" }.into(),
        })
    }

    /// A class that says itself what an operator means.
    pub(super) fn refuse_own(&self, value: &Value, names: &[&str]) -> Computed<()> {
        let Value::Object { object, .. } = value else { return Ok(()) };
        let info = self.reader.type_of(*object)?;
        for name in names {
            if let Some((entry, _)) = self.reader.class_attribute(&info, name)? {
                // A deque is a class that C code made: its own operators are the usual ones.
                let is_usual = info.kind == Kind::Deque
                    && matches!(
                        &*self.reader.type_of(entry.value)?.name,
                        "wrapper_descriptor" | "method_descriptor"
                    );
                if !is_usual {
                    return Err(ExpressionError::computed(&info, name));
                }
            }
        }
        Ok(())
    }

    pub(super) fn is_true(&self, value: &Value) -> Computed<bool> {
        self.refuse_own(value, &["__bool__", "__len__"])?;
        Ok(match self.plain(value)? {
            Value::None => false,
            Value::Bool(value) => value,
            Value::Int(number) => !number.is_zero(),
            Value::Float(number) => number != 0.0,
            Value::Text(text) => !text.is_empty(),
            Value::Sequence { items, .. } => !items.is_empty(),
            Value::Object { object, .. } => match self.size_of(value)? {
                Some(size) => size > 0,
                None => {
                    let info = self.reader.type_of(object)?;
                    let is_always_true = info.kind.is_callable()
                        || matches!(
                            info.kind,
                            Kind::Module | Kind::Exception | Kind::Generator | Kind::Coroutine
                        )
                        || info.kind == Kind::Instance && self.reader.is_made_in_python(&info)?;
                    if !is_always_true {
                        return Err(ExpressionError::computed(&info, "__bool__"));
                    }
                    true
                }
            },
        })
    }

    /// How many elements a container has; none where it is none.
    pub(super) fn size_of(&self, value: &Value) -> Computed<Option<u64>> {
        let object = match value {
            Value::Text(text) => return Ok(Some(text.chars().count() as u64)),
            Value::Sequence { items, .. } => return Ok(Some(items.len() as u64)),
            Value::Object { object, .. } => *object,
            _ => return Ok(None),
        };
        let reader = self.reader;
        Ok(match reader.type_of(object)?.kind {
            Kind::Str
            | Kind::Bytes
            | Kind::ByteArray
            | Kind::List
            | Kind::Tuple
            | Kind::Dict
            | Kind::Deque => Some(reader.size(object)?),
            Kind::Set | Kind::FrozenSet => Some(reader.set(object, 0)?.1),
            Kind::Range => {
                const LENGTH: u64 = 40;
                reader.int(reader.word(object + LENGTH)?)?.to_u64()
            }
            _ => None,
        })
    }

    /// The elements of a container, as objects.
    pub(super) fn items_of(&self, value: &Value) -> Computed<Option<Vec<Value>>> {
        let object = match value {
            Value::Sequence { items, .. } => return Ok(Some(items.clone())),
            Value::Object { object, .. } => *object,
            _ => return Ok(None),
        };
        let reader = self.reader;
        self.refuse_own(value, &["__iter__"])?;
        let kind = reader.type_of(object)?.kind;
        if self.size_of(value)?.is_some_and(|size| size > MOST_ITEMS) {
            return Err(ExpressionError::wrong(format!(
                "more than {MOST_ITEMS} elements are not gone through"
            )));
        }
        let objects = match kind {
            Kind::List | Kind::Tuple => reader.items(object, kind, 0, MOST_ITEMS)?,
            Kind::Set | Kind::FrozenSet => reader.set(object, MOST_ITEMS as usize)?.0,
            Kind::Deque => reader.deque(object, 0, MOST_ITEMS)?.0.into_iter().map(|(_, item)| item).collect(),
            Kind::Dict => {
                let entries = reader.entries(object, MOST_ITEMS as usize)?;
                entries.into_iter().map(|entry| entry.key).collect()
            }
            _ => return Ok(None),
        };
        Ok(Some(objects.into_iter().map(|object| Value::Object { object, slot: None }).collect()))
    }

    pub(super) fn unary(&self, operator: &str, operand: &Value) -> Computed {
        self.refuse_own(operand, &["__neg__", "__pos__", "__invert__"])?;
        match (operator, number(&self.plain(operand)?)) {
            ("-", Some(Number::Int(value))) => Ok(Value::Int(-value)),
            ("-", Some(Number::Float(value))) => Ok(Value::Float(-value)),
            ("+", Some(Number::Int(value))) => Ok(Value::Int(value)),
            ("+", Some(Number::Float(value))) => Ok(Value::Float(value)),
            ("~", Some(Number::Int(value))) => Ok(Value::Int(-value - 1)),
            _ => Err(ExpressionError::wrong(format!(
                "bad operand type for unary {operator}: '{}'",
                self.type_name(operand)?
            ))),
        }
    }

    pub(super) fn binary(&self, operator: &str, left: &Value, right: &Value) -> Computed {
        let unsupported = || -> Computed {
            Err(ExpressionError::wrong(format!(
                "`{operator}` is not computed for '{}' and '{}'",
                self.type_name(left)?,
                self.type_name(right)?
            )))
        };
        for value in [left, right] {
            self.refuse_own(value, own_names(operator))?;
        }
        let (left_plain, right_plain) = (self.plain(left)?, self.plain(right)?);
        if let (Value::Bool(left), Value::Bool(right)) = (&left_plain, &right_plain) {
            match operator {
                "&" => return Ok(Value::Bool(left & right)),
                "|" => return Ok(Value::Bool(left | right)),
                "^" => return Ok(Value::Bool(left ^ right)),
                _ => {}
            }
        }
        if let (Value::Text(first), Value::Text(second), "+") = (&left_plain, &right_plain, operator) {
            return Ok(Value::Text(format!("{first}{second}")));
        }
        match (number(&left_plain), number(&right_plain)) {
            (Some(Number::Int(left)), Some(Number::Int(right))) => match integers(operator, &left, &right)? {
                Some(value) => Ok(value),
                None => unsupported(),
            },
            (Some(left), Some(right)) => match floats(operator, left.float()?, right.float()?)? {
                Some(value) => Ok(Value::Float(value)),
                None => unsupported(),
            },
            _ => unsupported(),
        }
    }

    pub(super) fn compare(&self, operator: &str, left: &Value, right: &Value) -> Computed<bool> {
        match operator {
            "is" => self.is_same(left, right),
            "is not" => Ok(!self.is_same(left, right)?),
            "==" => self.equals(left, right, 0),
            "!=" => Ok(!self.equals(left, right, 0)?),
            "in" => self.contains(right, left),
            "not in" => Ok(!self.contains(right, left)?),
            _ => {
                for value in [left, right] {
                    self.refuse_own(value, &["__lt__", "__le__", "__gt__", "__ge__"])?;
                }
                let order = match (self.plain(left)?, self.plain(right)?) {
                    (Value::Text(left), Value::Text(right)) => Some(left.cmp(&right)),
                    (left_plain, right_plain) => match (number(&left_plain), number(&right_plain)) {
                        (Some(left), Some(right)) => match left.order(&right) {
                            Some(order) => Some(order),
                            // Nothing is less or greater than what is no number.
                            None => return Ok(false),
                        },
                        _ => None,
                    },
                };
                let order = match order {
                    Some(order) => order,
                    None => {
                        return Err(ExpressionError::wrong(format!(
                            "`{operator}` is not computed for '{}' and '{}'",
                            self.type_name(left)?,
                            self.type_name(right)?
                        )));
                    }
                };
                Ok(match operator {
                    "<" => order.is_lt(),
                    "<=" => order.is_le(),
                    ">" => order.is_gt(),
                    ">=" => order.is_ge(),
                    _ => return Err(ExpressionError::Unknown { text: operator.to_owned() }),
                })
            }
        }
    }

    fn is_same(&self, left: &Value, right: &Value) -> Computed<bool> {
        if let (Value::Object { object: left, .. }, Value::Object { object: right, .. }) = (left, right) {
            return Ok(left == right);
        }
        let singleton = |value: &Value| matches!(value, Value::None | Value::Bool(_));
        let (left, right) = (self.plain(left)?, self.plain(right)?);
        if singleton(&left) || singleton(&right) {
            return Ok(left == right);
        }
        Err(ExpressionError::wrong("what is computed here is no object of the program: use `==`"))
    }

    fn equals(&self, left: &Value, right: &Value, depth: u32) -> Computed<bool> {
        const DEEPEST: u32 = 20;
        if depth > DEEPEST {
            return Err(ExpressionError::wrong("the values are nested too deeply to be compared"));
        }
        let is_same = matches!((left, right), (Value::Object { object: one, .. }, Value::Object { object: other, .. }) if one == other);
        // Elements of containers are equal to themselves, whatever they say.
        if is_same && depth > 0 {
            return Ok(true);
        }
        for value in [left, right] {
            self.refuse_own(value, &["__eq__", "__ne__"])?;
        }
        let (one, other) = (self.plain(left)?, self.plain(right)?);
        if let (Some(one), Some(other)) = (number(&one), number(&other)) {
            return Ok(one.order(&other) == Some(Ordering::Equal));
        }
        if let (Value::Text(one), Value::Text(other)) = (&one, &other) {
            return Ok(one == other);
        }
        if let (Value::Object { object: one, .. }, Value::Object { object: other, .. }) = (&one, &other) {
            let kinds = [self.reader.type_of(*one)?.kind, self.reader.type_of(*other)?.kind];
            if kinds == [Kind::Bytes, Kind::Bytes] {
                let size = self.reader.size(*one)?;
                if size != self.reader.size(*other)? {
                    return Ok(false);
                }
                if size > MOST_BYTES {
                    return Err(ExpressionError::wrong("the bytes are too many to compare"));
                }
                let bytes = |object| self.reader.byte_string(object, size);
                return Ok(bytes(*one)? == bytes(*other)?);
            }
            let is_bytes = |kind: &Kind| matches!(kind, Kind::Bytes | Kind::ByteArray);
            if kinds[0] != kinds[1]
                && !kinds.iter().all(is_bytes)
                && kinds.iter().all(|kind| {
                    kind.is_plain() || *kind == Kind::List || *kind == Kind::Tuple || *kind == Kind::Dict
                })
            {
                return Ok(false);
            }
            if kinds == [Kind::Dict, Kind::Dict] {
                return self.dicts_equal(*one, *other, depth);
            }
        }
        let is_sequence = |value: &Value| -> Result<Option<bool>, ReadError> {
            Ok(match value {
                Value::Sequence { is_tuple, .. } => Some(*is_tuple),
                Value::Object { object, .. } => match self.reader.type_of(*object)?.kind {
                    Kind::Tuple => Some(true),
                    Kind::List => Some(false),
                    _ => None,
                },
                _ => None,
            })
        };
        if let (Some(is_tuple), Some(other_is_tuple)) = (is_sequence(&one)?, is_sequence(&other)?) {
            let (Some(one), Some(other)) = (self.items_of(&one)?, self.items_of(&other)?) else {
                return Ok(false);
            };
            if is_tuple != other_is_tuple || one.len() != other.len() {
                return Ok(false);
            }
            for (one, other) in one.iter().zip(&other) {
                if !self.equals(one, other, depth + 1)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        for value in [&one, &other] {
            if let Value::Object { object, .. } = value {
                let info = self.reader.type_of(*object)?;
                let is_known =
                    matches!(info.kind, Kind::Type | Kind::Function | Kind::Module | Kind::None | Kind::Str)
                        || info.kind == Kind::Instance && self.reader.is_made_in_python(&info)?;
                if !is_known {
                    return Err(ExpressionError::computed(&info, "__eq__"));
                }
            }
        }
        // Objects without an equality of their own are equal to nothing but themselves.
        Ok(is_same)
    }

    fn dicts_equal(&self, one: u64, other: u64, depth: u32) -> Computed<bool> {
        /// Each entry of one is looked for among all of the other.
        const MOST: u64 = 2000;
        let reader = self.reader;
        for dict in [one, other] {
            let info = reader.type_of(dict)?;
            if reader.is_derived(&info, "OrderedDict")? {
                return Err(ExpressionError::computed(&info, "__eq__"));
            }
        }
        let size = reader.size(one)?;
        if size != reader.size(other)? {
            return Ok(false);
        }
        if size > MOST {
            return Err(ExpressionError::wrong(format!(
                "dictionaries with more than {MOST} entries are not compared"
            )));
        }
        let (one, other) = (reader.entries(one, MOST as usize)?, reader.entries(other, MOST as usize)?);
        let object = |object| Value::Object { object, slot: None };
        for entry in &one {
            let mut is_found = false;
            for candidate in &other {
                if self.equals(&object(entry.key), &object(candidate.key), depth + 1)? {
                    is_found = self.equals(&object(entry.value), &object(candidate.value), depth + 1)?;
                    break;
                }
            }
            if !is_found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn contains(&self, container: &Value, wanted: &Value) -> Computed<bool> {
        self.refuse_own(container, &["__contains__", "__iter__"])?;
        if let (Value::Text(container), Value::Text(wanted)) = (self.plain(container)?, self.plain(wanted)?) {
            return Ok(container.contains(&wanted));
        }
        if let Value::Object { object, .. } = container
            && self.reader.type_of(*object)?.kind == Kind::Range
            && let Value::Int(wanted) = self.plain(wanted)?
        {
            let ends = self.reader.words(object + 16, 3)?;
            let [start, stop, step] =
                [self.reader.int(ends[0])?, self.reader.int(ends[1])?, self.reader.int(ends[2])?];
            if step.is_zero() {
                return Err(ReadError::damaged(*object, "its step is 0").into());
            }
            let is_between = if step.is_negative() {
                wanted <= start && wanted > stop
            } else {
                wanted >= start && wanted < stop
            };
            return Ok(is_between && ((wanted - start) % step).is_zero());
        }
        let Some(items) = self.items_of(container)? else {
            let name = self.type_name(container)?;
            return Err(ExpressionError::wrong(format!("`in` is not computed for '{name}'")));
        };
        for item in items {
            if self.equals(&item, wanted, 1)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn item(&self, owner: &Value, key: &Value) -> Computed {
        self.refuse_own(owner, &["__getitem__"])?;
        let object = match owner {
            Value::Object { object, .. } => *object,
            Value::Sequence { items, .. } => {
                let index = self.index(key, items.len() as u64)?;
                return Ok(items[index as usize].clone());
            }
            Value::Text(text) => {
                let index = self.index(key, text.chars().count() as u64)?;
                return Ok(Value::Text(text.chars().nth(index as usize).into_iter().collect()));
            }
            _ => {
                let name = self.type_name(owner)?;
                return Err(ExpressionError::wrong(format!("'{name}' object is not subscriptable")));
            }
        };
        let reader = self.reader;
        let info = reader.type_of(object)?;
        match info.kind {
            Kind::List | Kind::Tuple => {
                let (items, size) = reader.sequence(object, info.kind)?;
                let index = self.index(key, size)?;
                let address = items + index * 8;
                let target = match info.kind {
                    Kind::List => Target::Item { list: object, index },
                    _ => Target::Fixed(address),
                };
                Ok(Value::Object { object: reader.word(address)?, slot: Some(Slot { address, target }) })
            }
            Kind::Deque => {
                let index = self.index(key, reader.size(object)?)?;
                let (items, _) = reader.deque(object, index, 1)?;
                let &(address, item) =
                    items.first().ok_or_else(|| ExpressionError::wrong("deque index out of range"))?;
                Ok(Value::Object {
                    object: item,
                    slot: Some(Slot { address, target: Target::Fixed(address) }),
                })
            }
            Kind::Dict => {
                let mut found = None;
                let mut failed = None;
                reader.each_entry(object, |entry| {
                    match self.equals(&Value::Object { object: entry.key, slot: None }, key, 0) {
                        Ok(true) => found = Some(entry),
                        Ok(false) => {}
                        // Another key may be the one, so that this one matters only where none is.
                        Err(error) => failed = failed.take().or(Some(error)),
                    }
                    Ok(found.is_none())
                })?;
                match (found, failed) {
                    (Some(entry), _) => {
                        let target = Target::Entry { dict: object, key: entry.key };
                        let slot = Some(Slot { address: entry.slot, target });
                        Ok(Value::Object { object: entry.value, slot })
                    }
                    (None, Some(error)) => Err(error),
                    (None, None) => {
                        if reader.class_attribute(&info, "__missing__")?.is_some() {
                            return Err(ExpressionError::computed(&info, "__missing__"));
                        }
                        let key = self.reader.show_value(key, Default::default()).value;
                        Err(ExpressionError::wrong(format!("KeyError: {key}")))
                    }
                }
            }
            Kind::Str => self.item(&self.plain(owner)?, key),
            Kind::Bytes => {
                let size = reader.size(object)?;
                if size > MOST_BYTES {
                    return Err(ExpressionError::wrong("the bytes are too many to compute with"));
                }
                let bytes = reader.byte_string(object, size)?;
                let index = self.index(key, bytes.len() as u64)?;
                Ok(Value::Int(bytes[index as usize].into()))
            }
            _ => Err(ExpressionError::computed(&info, "__getitem__")),
        }
    }

    /// A place in a sequence, counted from its end where it is negative.
    fn index(&self, key: &Value, size: u64) -> Computed<u64> {
        let Some(Number::Int(index)) = number(&self.plain(key)?) else {
            let name = self.type_name(key)?;
            return Err(ExpressionError::wrong(format!("indices must be integers or slices, not {name}")));
        };
        let index = if index.sign() == Sign::Minus { index + size } else { index };
        let index = index.to_u64().filter(|index| *index < size);
        index.ok_or_else(|| ExpressionError::wrong(format!("IndexError: there are {size} elements")))
    }

    pub(super) fn sliced(&self, owner: &Value, ends: [Option<BigInt>; 3]) -> Computed {
        self.refuse_own(owner, &["__getitem__"])?;
        let plain = self.plain(owner)?;
        let [start, stop, step] = ends;
        let step = step.map_or(Some(1), |step| step.to_i64()).filter(|step| *step != 0);
        let step = step.ok_or_else(|| ExpressionError::wrong("slice step cannot be zero"))?;
        let chosen = |size: usize| {
            let size = size as i64;
            let (lowest, highest) = if step > 0 { (0, size) } else { (-1, size - 1) };
            let clamp = |end: Option<BigInt>, default: i64| match end {
                None => default,
                Some(end) => {
                    let end = if end.is_negative() { end + size } else { end };
                    end.to_i64()
                        .unwrap_or(if end.is_negative() { lowest } else { highest })
                        .clamp(lowest, highest)
                }
            };
            let (first, last) = if step > 0 { (lowest, highest) } else { (highest, lowest) };
            let (mut at, stop) = (clamp(start.clone(), first), clamp(stop.clone(), last));
            let mut chosen = Vec::new();
            while if step > 0 { at < stop } else { at > stop } {
                chosen.push(at as usize);
                let Some(next) = at.checked_add(step) else { break };
                at = next;
            }
            chosen
        };
        if let Value::Text(text) = &plain {
            let letters: Vec<_> = text.chars().collect();
            return Ok(Value::Text(chosen(letters.len()).into_iter().map(|index| letters[index]).collect()));
        }
        let is_tuple = match &plain {
            Value::Sequence { is_tuple, .. } => *is_tuple,
            Value::Object { object, .. } => match self.reader.type_of(*object)?.kind {
                Kind::Tuple => true,
                Kind::List => false,
                _ => {
                    let info = self.reader.type_of(*object)?;
                    return Err(ExpressionError::computed(&info, "__getitem__"));
                }
            },
            _ => {
                return Err(ExpressionError::wrong(format!(
                    "'{}' object is not subscriptable",
                    self.type_name(owner)?
                )));
            }
        };
        let items = self.items_of(&plain)?.unwrap_or_default();
        Ok(Value::Sequence {
            items: chosen(items.len()).into_iter().map(|index| items[index].clone()).collect(),
            is_tuple,
        })
    }
}
