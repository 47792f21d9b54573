//! Members and items.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    binding::{Bound, why_no_field},
};
use crate::{
    expression::{Argument, Binary, Constant, Kind, Operand, Primitive, Text, TypeName, binary},
    image::{self, Spelling},
    session::look::Named,
    values::{Content, ExceptionMessage, Item, Keys, LONGEST_MESSAGE, Returned, Seen, TypeInfo, returned_by},
};

impl Evaluator<'_> {
    /// A name without anything before it.
    pub(super) fn name(&mut self, name: &str, type_arguments: &[TypeName]) -> Result<Evaluated> {
        if type_arguments.is_empty() {
            if let Some(local) = self.local(name)? {
                return Ok(local);
            }
            if let Some(this) = self.local("this")? {
                match self.instance_member(&this, name) {
                    Err(EvaluationError::NoMember { .. } | EvaluationError::OfNull { .. }) => {}
                    found => return found,
                }
            }
            let mut of = self.session.declaring_type(&self.frame);
            while let Some(current) = of {
                if let Some(found) = self.static_member(&current, name)? {
                    return Ok(found);
                }
                of = current.base(&self.session.modules);
            }
        }
        let arguments =
            type_arguments.iter().map(|argument| self.type_named(argument)).collect::<Result<Vec<_>>>()?;
        self.type_or_namespace(name, &arguments)
            .ok_or_else(|| EvaluationError::UnknownName { name: name.to_owned() })
    }

    pub(super) fn member(
        &mut self,
        of: Evaluated,
        name: &str,
        type_arguments: &[TypeName],
    ) -> Result<Evaluated> {
        if let Some(found) = self.nullable_member(&of, name) {
            return found;
        }
        match &of {
            Evaluated::Namespace(namespace) => {
                let arguments = type_arguments
                    .iter()
                    .map(|argument| self.type_named(argument))
                    .collect::<Result<Vec<_>>>()?;
                let full = format!("{namespace}.{}", super::types::arity_name(name, arguments.len()));
                if let Some(found) = self.session.type_by_name(&full, &arguments) {
                    return Ok(Evaluated::Type(found));
                }
                let longer = format!("{namespace}.{name}");
                if self.is_namespace(&longer) {
                    return Ok(Evaluated::Namespace(longer));
                }
                Err(EvaluationError::UnknownType { name: longer })
            }
            Evaluated::Type(outer) => {
                let mut current = Some(outer.clone());
                while let Some(of) = current {
                    if let Some(found) = self.static_member(&of, name)? {
                        return Ok(found);
                    }
                    current = of.base(&self.session.modules);
                }
                let nested = outer.full_name().map(|full| format!("{full}+{name}"));
                let nested = nested.and_then(|nested| self.session.type_by_name(&nested, &outer.arguments));
                nested.map(Evaluated::Type).ok_or_else(|| no_member(&outer.display(), name))
            }
            Evaluated::Constant { value, .. } => constant_member(value, name),
            Evaluated::Enum { of, .. } => Err(no_member(&of.display(), name)),
            Evaluated::Nothing => Err(EvaluationError::NoValue),
            Evaluated::Value(_) => self.instance_member(&of, name),
        }
    }

    fn instance_member(&mut self, of: &Evaluated, name: &str) -> Result<Evaluated> {
        let Evaluated::Value(seen) = of else { return Err(no_member(&self.type_text(of), name)) };
        let values = self.session.values();
        match (&seen.content, name) {
            (Content::Null, _) => return Err(EvaluationError::OfNull { name: name.to_owned() }),
            (Content::String(text), "Length") => return Ok(whole(text.length()?)),
            (Content::Array(array), "Length") => return Ok(whole(array.count()?)),
            (Content::Array(array), "Rank") => return Ok(whole(array.rank()?)),
            _ => {}
        }
        if let Some(item) = self.tuple_item(seen, name) {
            return Ok(Evaluated::Value(item));
        }
        let getter = format!("get_{name}");
        if self.has_explicit_method(seen, &getter) {
            if self.calls_until.is_none() {
                return Err(EvaluationError::NeedsCode { name: name.to_owned() });
            }
            return self.call_named(Some(of.clone()), &getter, &[], &[], Vec::new());
        }
        let bound = self.bind(seen, name);
        match &bound {
            Some(Bound::Field(_) | Bound::Null | Bound::Unreadable(_)) => {
                return read_field(bound, name).unwrap_or_else(|| Err(no_member(&seen.of.display(), name)));
            }
            Some(Bound::Property(of)) => {
                if let Some(found) = self.read_property(seen, of, name)? {
                    return Ok(found);
                }
            }
            None => {}
        }
        if name == "Count"
            && let Some(count) = values.item_count(seen)
        {
            return Ok(Evaluated::computed(Constant::Int(i32::try_from(count).unwrap_or(i32::MAX))));
        }
        if let Some(found) = self.exception_member(seen, name) {
            return Ok(found);
        }
        match bound {
            Some(Bound::Property(of)) => self.property(seen, &of, name),
            // What the interface itself does.
            _ if self.has_interface_method(seen, &getter) => match self.calls_until {
                None => Err(EvaluationError::NeedsCode { name: name.to_owned() }),
                Some(_) => self.call_named(Some(of.clone()), &getter, &[], &[], Vec::new()),
            },
            _ => Err(no_member(&seen.of.display(), name)),
        }
    }

    /// A property whose getter does nothing but return a field or a constant.
    fn read_property(&self, seen: &Seen, of: &TypeInfo, name: &str) -> Result<Option<Evaluated>> {
        let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
        let getter = type_def.and_then(|of| of.property_named(name)?.getter());
        match getter.and_then(returned_by) {
            Some(Returned::Field(field)) => read_field(self.field_of(seen, of, &field), name).transpose(),
            Some(Returned::Constant(value)) => Ok(Some(Evaluated::computed(value))),
            None => Ok(None),
        }
    }

    /// What an exception's properties return that only look into its fields; none where they must be run.
    fn exception_member(&self, seen: &Seen, name: &str) -> Option<Evaluated> {
        let values = self.session.values();
        if !matches!(name, "Message" | "InnerException" | "InnerExceptions") || !values.is_exception(seen) {
            return None;
        }
        let field = match name {
            "InnerException" => values.field_seen(seen, "_innerException")?,
            "InnerExceptions" => values.any_field(seen, &["_innerExceptions", "m_innerExceptions"])?,
            _ => match values.exception_message(seen, LONGEST_MESSAGE) {
                ExceptionMessage::Computed { .. } => return None,
                ExceptionMessage::Said(said) => {
                    let given = values.field_seen(seen, "_message")?;
                    if given.text(LONGEST_MESSAGE) != said {
                        let said = said.map_or(Constant::Null, |said| Constant::String(said.as_str().into()));
                        return Some(Evaluated::computed(said));
                    }
                    given
                }
            },
        };
        Some(Evaluated::Value(field))
    }

    /// An item of a tuple by the name that the source gives it, or beyond the seventh, which is in a tuple of its own.
    pub(super) fn tuple_item(&self, seen: &Seen, name: &str) -> Option<Seen> {
        let named = seen.of.item_names.iter().position(|item| item.as_deref() == Some(name)).map(|at| at + 1);
        let number: usize = named.or_else(|| name.strip_prefix("Item")?.parse().ok())?;
        let name = seen.of.full_name()?;
        if !name.starts_with("System.ValueTuple`") && !name.starts_with("System.Tuple`") {
            return None;
        }
        self.session.values().tuple_value(seen, number)
    }

    /// A static field, a constant or an enum's value of a type.
    fn static_member(&mut self, of: &TypeInfo, name: &str) -> Result<Option<Evaluated>> {
        let Some(type_def) = of.definition.as_ref().and_then(|definition| definition.type_def()) else {
            return Ok(None);
        };
        let is_there = type_def
            .fields()
            .filter(|field| field.is_static())
            .filter_map(|field| field.name())
            .any(|raw| raw == name || crate::values::property_of_backing_field(raw) == Some(name));
        if !is_there {
            return self.static_property(of, name);
        }
        let fields = self.session.static_fields(of, Some(&self.frame));
        if let Some(field) = fields.into_iter().find(|field: &Named| field.name == name) {
            return self.of_named(&field).map(Some);
        }
        self.static_property(of, name)
    }

    pub(super) fn index(&mut self, of: &Evaluated, arguments: &[Argument]) -> Result<Evaluated> {
        let Evaluated::Value(seen) = of else {
            let value = self.constant(of)?;
            return self.constant_item(&value, arguments);
        };
        match &seen.content {
            Content::Null => Err(EvaluationError::IndexOfNull),
            Content::Array(array) => {
                let dimensions = array.dimensions()?;
                if dimensions.len() != arguments.len() {
                    return Err(EvaluationError::NotSupported {
                        what: "another number of indices than the array has",
                    });
                }
                let bases = match array.has_base_indices()? {
                    true => array.base_indices()?,
                    false => Vec::new(),
                };
                let mut position = 0u64;
                for (at, (argument, length)) in arguments.iter().zip(dimensions).enumerate() {
                    let base = bases.get(at).copied().unwrap_or(0).cast_signed();
                    let index = self.position(argument, base.into(), length.into())?;
                    position = position * u64::from(length) + index;
                }
                let item = array.element_at(u32::try_from(position).unwrap_or(u32::MAX))?;
                let item = self.session.values().see(&item)?;
                Ok(Evaluated::Value(Seen { as_type: seen.of.arguments.first().cloned(), ..item }))
            }
            Content::String(text) => {
                let [argument] = arguments else {
                    return Err(EvaluationError::NoIndexer { of: seen.of.display() });
                };
                let at = self.position(argument, 0, text.length()?.into())?;
                let unit = text.slice(u32::try_from(at).unwrap_or(u32::MAX), 1)?;
                Ok(Evaluated::computed(Constant::Char(unit.first().copied().unwrap_or_default())))
            }
            _ => self.item(seen, arguments),
        }
    }

    /// An item of a collection, by number or key.
    fn item(&mut self, seen: &Seen, arguments: &[Argument]) -> Result<Evaluated> {
        let no_indexer = || EvaluationError::NoIndexer { of: seen.of.display() };
        if let Some(found) = self.item_in_place(seen, arguments) {
            return found;
        }
        let [argument] = arguments else {
            let mut keys = Vec::with_capacity(arguments.len());
            for argument in arguments {
                keys.push(self.node(&argument.value)?);
            }
            return self.indexer_call(seen, keys);
        };
        let definer = self.indexer_type(seen).unwrap_or_else(|| seen.of.clone());
        let name = definer.full_name().unwrap_or_default();
        let is_known = name.starts_with("System.") || name.starts_with("Microsoft.FSharp.");
        // Code of the program finds the item, or of a collection that knows its items' keys.
        if !is_known && (!self.indexers_of(&definer, "get_").is_empty() || self.has_interface_indexer(seen))
            || name == "System.Collections.ObjectModel.KeyedCollection`2"
        {
            if self.calls_until.is_none() {
                return Err(EvaluationError::NeedsCode { name: "this[]".into() });
            }
            let held = self.held(Evaluated::Value(seen.clone()))?;
            let key = self.argument(&argument.value)?;
            return match held {
                Evaluated::Value(seen) => self.indexer_call(&seen, vec![key]),
                _ => Err(no_indexer()),
            };
        }
        if name.contains("Dictionary`2")
            || name.ends_with("SortedList`2")
            || name.ends_with(".Hashtable")
            || name.ends_with("FSharpMap`2")
        {
            let key = self.node(&argument.value)?;
            return self.by_key(seen, &key);
        }
        if let Some(count) = self.session.values().item_count(seen) {
            let index = self.position(argument, 0, count)?;
            match self.session.values().item_at(seen, index).transpose()? {
                // The items of a collection are of its last type.
                Some(Item::Found(item)) => {
                    return Ok(Evaluated::Value(Seen { as_type: seen.of.arguments.last().cloned(), ..item }));
                }
                Some(Item::TooFar) if self.calls_until.is_none() => {
                    return Err(EvaluationError::TooFar { index });
                }
                Some(Item::TooFar) | None => {}
            }
        }
        let key = self.node(&argument.value)?;
        self.indexer_call(seen, vec![key])
    }

    /// An item of what the language itself has items of: pointers, fixed buffers and inline arrays; none for everything else.
    fn item_in_place(&mut self, seen: &Seen, arguments: &[Argument]) -> Option<Result<Evaluated>> {
        let pointer = match seen.content {
            Content::Pointer(address) => Some(address),
            _ => None,
        };
        let buffer = self.session.values().buffer_items(seen);
        if pointer.is_none() && buffer.is_none() {
            return None;
        }
        let [argument] = arguments else {
            return Some(Err(EvaluationError::NoIndexer { of: seen.of.display() }));
        };
        Some(match (pointer, buffer) {
            (Some(address), _) => self.pointed_item(seen, address, argument),
            (None, Some(Some((of, items)))) => {
                self.position(argument, 0, items.len() as u64).and_then(|at| {
                    let item = usize::try_from(at).ok().and_then(|at| items.get(at));
                    self.primitive(of, item.map_or(&[], Vec::as_slice))
                })
            }
            _ => {
                Err(EvaluationError::NotSupported { what: "an item of an inline array of no primitive type" })
            }
        })
    }

    fn pointed_item(&mut self, seen: &Seen, address: u64, argument: &Argument) -> Result<Evaluated> {
        let Some(of) = seen.of.arguments.first().and_then(TypeInfo::primitive) else {
            return Err(EvaluationError::NotSupported { what: "an item of a pointer to no primitive type" });
        };
        let index = self.node(&argument.value)?;
        let index = self.constant(&index)?;
        let index = index.whole().and_then(|index| i64::try_from(index).ok());
        let index = index.ok_or_else(|| EvaluationError::NoIndexer { of: seen.of.display() })?;
        let bytes = self.session.values().pointed_item(address, of, index)?;
        self.primitive(of, &bytes)
    }

    /// A number, a truth or a character of these bytes.
    fn primitive(&self, of: image::Primitive, bytes: &[u8]) -> Result<Evaluated> {
        let value = Primitive::of_class(of.full_name()).and_then(|of| Constant::from_bytes(bytes, of));
        value.map(Evaluated::computed).ok_or_else(|| EvaluationError::NoNumber { of: of.full_name().into() })
    }

    /// The type that has the indexer of an object.
    fn indexer_type(&self, seen: &Seen) -> Option<TypeInfo> {
        let types = self.session.values().member_types(seen);
        types.into_iter().find(|of| !self.indexers_of(of, "get_").is_empty())
    }

    fn by_key(&mut self, seen: &Seen, key: &Evaluated) -> Result<Evaluated> {
        // Its own code knows best which keys are the same, and is faster where there are many.
        let keys = match self.calls_until {
            Some(_) => None,
            None => self.session.values().keys(seen),
        };
        let pairs = match keys {
            Some(Keys::All(pairs)) => pairs,
            Some(Keys::TooMany(count)) => return self.by_whole_key(seen, key, count),
            None => {
                let key = self.kept(key.clone())?;
                return self.indexer_call(seen, vec![key]);
            }
        };
        let mut is_known = true;
        for (candidate, value) in pairs {
            match self.is_same_key(&candidate, key, seen.of.arguments.first()) {
                Some(true) => {
                    let value = self.session.values().see(&value)?;
                    return Ok(Evaluated::Value(Seen {
                        as_type: seen.of.arguments.last().cloned(),
                        ..value
                    }));
                }
                Some(false) => {}
                None => is_known = false,
            }
        }
        if !is_known || self.has_own_comparer(seen) {
            return Err(EvaluationError::NeedsCode { name: "this[]".into() });
        }
        Err(self.no_key(key))
    }

    /// Among so many that not each can be looked at: whole numbers are compared in memory.
    fn by_whole_key(&self, seen: &Seen, key: &Evaluated, count: u64) -> Result<Evaluated> {
        let too_many = EvaluationError::TooManyKeys { count };
        let bytes = || {
            let declared = seen.of.arguments.first()?.primitive()?;
            let key = self.constant(key).ok()?;
            let converted = key.cast(Primitive::of_class(declared.full_name())?).ok()?;
            (converted.whole()? == key.whole()?).then(|| converted.to_bytes())?
        };
        let is_usual = Self::enum_of(key).is_none() && !self.has_own_comparer(seen);
        let Some(bytes) = bytes().filter(|_| is_usual) else { return Err(too_many) };
        match self.session.values().by_whole_key(seen, &bytes) {
            Some(Some(value)) => {
                let value = self.session.values().see(&value)?;
                Ok(Evaluated::Value(Seen { as_type: seen.of.arguments.last().cloned(), ..value }))
            }
            Some(None) => Err(self.no_key(key)),
            None => Err(too_many),
        }
    }

    fn no_key(&self, key: &Evaluated) -> EvaluationError {
        let key = match self.constant(key) {
            Ok(constant) => constant.display(),
            Err(_) => self.type_text(key),
        };
        EvaluationError::NoKey { key }
    }

    /// Whether a dictionary takes two keys for the same; none where only the program's code knows.
    fn is_same_key(&self, candidate: &Seen, key: &Evaluated, declared: Option<&TypeInfo>) -> Option<bool> {
        let values = self.session.values();
        if let Evaluated::Value(key) = key {
            let is_object =
                |seen: &Seen| matches!(seen.content, Content::Object(_)) && !seen.of.is_value_type();
            if is_object(candidate)
                && is_object(key)
                && candidate.object_address()? == key.object_address()?
            {
                return Some(true);
            }
            if candidate.of.is_value_tuple() && is_same_tuple(&candidate.of, &key.of) {
                let items = candidate.of.tuple_items();
                let same = items.iter().enumerate().map(|(at, of)| {
                    let item = |seen: &Seen| values.tuple_value(seen, at + 1);
                    self.is_same_key(&item(candidate)?, &Evaluated::Value(item(key)?), Some(of))
                });
                return same.collect::<Option<Vec<_>>>().map(|same| same.into_iter().all(|same| same));
            }
        }
        let (left, right) = (self.constant_of(candidate).ok()?, self.constant(key).ok()?);
        let name = |of: &TypeInfo| of.spelled(Spelling::Qualified);
        let enums = [candidate.of.is_enum().then(|| name(&candidate.of)), Self::enum_of(key).map(name)];
        let is_same_type = left.primitive()? == right.primitive()? && enums[0] == enums[1];
        let is_open = declared.is_none_or(|of| !of.is_value_type() && !of.is_named("System.String"));
        match is_same_type {
            true => {}
            // `1` and `1L` are different objects.
            false if is_open => return Some(false),
            false if enums[0] != enums[1] => return None,
            false => {}
        }
        if is_nan(&left) && is_nan(&right) {
            return Some(true);
        }
        let equal = binary(Binary::Equal, Operand::variable(&left), Operand::variable(&right)).ok()?;
        Some(equal == Constant::Bool(true))
    }

    /// Whether a dictionary compares its keys in another way than `==` does.
    fn has_own_comparer(&self, seen: &Seen) -> bool {
        const USUAL: [&str; 9] = [
            "NonRandomizedStringEqualityComparer",
            "NonRandomizedStringEqualityComparer.OrdinalComparer",
            "NonRandomizedStringEqualityComparer.DefaultComparer",
            "OrdinalCaseSensitiveComparer",
            "GenericEqualityComparer<",
            "ObjectEqualityComparer<",
            "EnumEqualityComparer<",
            "ByteEqualityComparer",
            "GenericComparer<",
        ];
        let values = self.session.values();
        let holders =
            [Some(seen.clone()), values.field_seen(seen, "_tables"), values.field_seen(seen, "_set")];
        let comparers = holders.iter().flatten();
        let mut comparers = comparers
            .filter_map(|holder| values.any_field(holder, &["_comparer", "comparer", "_keycomparer"]));
        comparers.any(|comparer| {
            let name = comparer.of.display();
            let is_usual = |usual: &&str| match usual.ends_with('<') {
                true => name.starts_with(usual),
                false => name == **usual,
            };
            !comparer.is_null() && !USUAL.iter().any(is_usual)
        })
    }

    /// Where an index points, counted from the beginning, of items whose first has the index `base`.
    fn position(&mut self, argument: &Argument, base: i128, length: u64) -> Result<u64> {
        let (node, from_end) = match &argument.value.kind {
            Kind::FromEnd(inner) => (inner.as_ref(), true),
            _ => (&argument.value, false),
        };
        let evaluated = self.node(node)?;
        let index = self.constant(&evaluated)?;
        let index =
            index.whole().ok_or_else(|| EvaluationError::NoIndexer { of: index.type_name().to_owned() })?;
        if from_end && base != 0 {
            return Err(EvaluationError::NotSupported { what: "`^` where the first item is not [0]" });
        }
        let index = if from_end { i128::from(length) - index } else { index };
        match u64::try_from(index - base) {
            Ok(position) if position < length => Ok(position),
            _ if base == 0 => Err(EvaluationError::OutOfRange { index, length }),
            _ => {
                Err(EvaluationError::OutOfBounds { index, first: base, last: base + i128::from(length) - 1 })
            }
        }
    }

    fn constant_item(&mut self, value: &Constant, arguments: &[Argument]) -> Result<Evaluated> {
        let (Constant::String(Text(units)), [argument]) = (value, arguments) else {
            return Err(EvaluationError::NoIndexer { of: value.type_name().to_owned() });
        };
        let at = self.position(argument, 0, units.len() as u64)?;
        let unit = usize::try_from(at).ok().and_then(|at| units.get(at).copied());
        Ok(Evaluated::computed(Constant::Char(unit.unwrap_or_default())))
    }
}

/// Whether it is not a number, which `Equals` takes for the same as itself.
fn is_nan(value: &Constant) -> bool {
    match value {
        Constant::Float(value) => value.is_nan(),
        Constant::Double(value) => value.is_nan(),
        _ => false,
    }
}

fn is_same_tuple(one: &TypeInfo, other: &TypeInfo) -> bool {
    let plain = |of: &TypeInfo| -> Vec<String> {
        of.tuple_items().iter().map(|item| item.spelled(Spelling::Qualified)).collect()
    };
    other.is_value_tuple() && plain(one) == plain(other)
}

fn whole(number: u32) -> Evaluated {
    Evaluated::computed(Constant::Int(i32::try_from(number).unwrap_or(i32::MAX)))
}

fn no_member(of: &str, name: &str) -> EvaluationError {
    EvaluationError::NoMember { of: of.to_owned(), name: name.to_owned() }
}

fn constant_member(value: &Constant, name: &str) -> Result<Evaluated> {
    match (value, name) {
        (Constant::Null, _) => Err(EvaluationError::OfNull { name: name.to_owned() }),
        (Constant::String(text), "Length") => {
            Ok(Evaluated::computed(Constant::Int(i32::try_from(text.0.len()).unwrap_or(i32::MAX))))
        }
        _ => Err(no_member(value.type_name(), name)),
    }
}

/// What a field holds.
fn read_field(bound: Option<Bound>, name: &str) -> Option<Result<Evaluated>> {
    Some(match bound? {
        Bound::Field(seen) => Ok(Evaluated::Value(seen)),
        Bound::Null => Ok(Evaluated::computed(Constant::Null)),
        Bound::Unreadable(error) => {
            Err(EvaluationError::Unreadable { name: name.to_owned(), why: why_no_field(error) })
        }
        Bound::Property(_) => return None,
    })
}
