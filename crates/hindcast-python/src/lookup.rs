//! Names and attributes, as far as they can be found without running code.

use std::rc::Rc;

use crate::{
    Frame, ReadError, Reader, Slot, Target, expression::ExpressionError, frames::CELL_SLOT, kind::Kind,
    objects::Entry, reader::TypeInfo,
};

/// What a name or an attribute stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) object: u64,
    /// Where the pointer to it is.
    pub(crate) slot: Option<Slot>,
}

/// A generator or coroutine.
pub(crate) struct Suspended {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    /// None where it has ended.
    pub(crate) frame: Option<Frame>,
}

impl Reader<'_> {
    /// What a name means in a frame.
    pub(crate) fn name_in(&self, frame: &Frame, name: &str) -> Result<Named, ExpressionError> {
        if let Some(local) = self.locals(frame)?.into_iter().find(|local| local.name == name) {
            return match local.object {
                Some(object) => Ok(Named { object, slot: Some(local.slot) }),
                None => Err(ExpressionError::NotYet { name: name.to_owned() }),
            };
        }
        for dict in [frame.globals, frame.builtins] {
            if dict != 0
                && self.type_of(dict)?.kind == Kind::Dict
                && let Some(entry) = self.entry_named(dict, name)?
            {
                return Ok(Named::of(entry, dict));
            }
        }
        Err(ExpressionError::NoName { name: name.to_owned() })
    }

    /// What an attribute means, where no code has to run to find out.
    pub(crate) fn attribute(&self, object: u64, name: &str) -> Result<Named, ExpressionError> {
        let info = self.type_of(object)?;
        match (info.kind, name) {
            (Kind::Type, _) => return self.attribute_of_class(object, name),
            (Kind::Module, _) => {
                let dict = self.word(object + CELL_SLOT)?;
                let entry = self.entry_named(dict, name)?;
                return entry
                    .map(|entry| Named::of(entry, dict))
                    .ok_or_else(|| ExpressionError::no_attribute(&info, name));
            }
            (_, "__class__") => return Ok(Named { object: info.address, slot: None }),
            _ => {}
        }
        if let Some(special) = self.member_of_builtin(object, &info, name)? {
            return Ok(special);
        }
        if self.class_attribute(&info, "__getattribute__")?.is_some() {
            return Err(ExpressionError::computed(&info, name));
        }
        let of_class = self.class_attribute(&info, name)?;
        if let Some((entry, _)) = of_class {
            let meaning = self.type_of(entry.value)?;
            // A slot is told below; what else decides itself runs code.
            if meaning.has_set && meaning.kind != Kind::MemberDescriptor {
                return Err(ExpressionError::computed(&info, name));
            }
        }
        for attribute in self.attributes(object, usize::MAX)? {
            if attribute.name == name {
                let target = Target::Attribute { object, name: attribute.name };
                let slot = Some(Slot { address: attribute.slot, target });
                return Ok(Named { object: attribute.value, slot });
            }
        }
        match of_class {
            Some((entry, dict)) => {
                let meaning = self.type_of(entry.value)?;
                match meaning.kind {
                    Kind::MemberDescriptor => Err(ExpressionError::no_attribute(&info, name)),
                    // A method: bound to the object, which only calling it would tell.
                    Kind::Function => Ok(Named { object: entry.value, slot: None }),
                    // The field of a named tuple.
                    _ if meaning.name == "_tuplegetter" && info.kind == Kind::Tuple => {
                        let (items, size) = self.sequence(object, Kind::Tuple)?;
                        let index = self.word(entry.value + 16)?;
                        if index >= size {
                            return Err(ExpressionError::no_attribute(&info, name));
                        }
                        let address = items + index * 8;
                        let slot = Some(Slot { address, target: Target::Fixed(address) });
                        Ok(Named { object: self.word(address)?, slot })
                    }
                    _ if meaning.has_get => Err(ExpressionError::computed(&info, name)),
                    _ => Ok(Named::of(entry, dict)),
                }
            }
            None if self.class_attribute(&info, "__getattr__")?.is_some() => {
                Err(ExpressionError::computed(&info, name))
            }
            // The attributes of built-in types are code, too.
            None if !self.is_made_in_python(&info)? => Err(ExpressionError::computed(&info, name)),
            None => Err(ExpressionError::no_attribute(&info, name)),
        }
    }

    fn attribute_of_class(&self, class: u64, name: &str) -> Result<Named, ExpressionError> {
        let info = self.type_info(class)?;
        match self.class_attribute(&info, name)? {
            Some((entry, dict)) => {
                let meaning = self.type_of(entry.value)?;
                match meaning.kind {
                    Kind::Function | Kind::Property | Kind::MemberDescriptor => {
                        Ok(Named { object: entry.value, slot: None })
                    }
                    _ if meaning.has_get => Err(ExpressionError::computed(&info, name)),
                    _ => Ok(Named::of(entry, dict)),
                }
            }
            None => Err(ExpressionError::computed(&*self.type_of(class)?, name)),
        }
    }

    /// What the built-in types themselves have that is asked for often.
    fn member_of_builtin(
        &self,
        object: u64,
        info: &TypeInfo,
        name: &str,
    ) -> Result<Option<Named>, ReadError> {
        let offset = match (info.kind, name) {
            (Kind::Exception, "args") => 24,
            (Kind::Exception, "__traceback__") => 40,
            (Kind::Exception, "__context__") => 48,
            (Kind::Exception, "__cause__") => 56,
            (Kind::Method, "__func__") => 16,
            (Kind::Method, "__self__") => 24,
            (Kind::Range | Kind::Slice, "start") => 16,
            (Kind::Range | Kind::Slice, "stop") => 24,
            (Kind::Range | Kind::Slice, "step") => 32,
            (Kind::Function, "__globals__") => 16,
            (Kind::Function, "__code__") => 48,
            _ => return Ok(None),
        };
        let address = object + offset;
        let object = match self.word(address)? {
            0 => self.python.none,
            object => object,
        };
        let slot = Some(Slot { address, target: Target::Fixed(address) });
        Ok(Some(Named { object, slot }))
    }

    /// What a class, or the first of its bases that has it, says of a name, and in which dictionary. The built-in types keep
    /// theirs elsewhere.
    pub(crate) fn class_attribute(
        &self,
        info: &TypeInfo,
        name: &str,
    ) -> Result<Option<(Entry, u64)>, ReadError> {
        const MOST_BASES: u64 = 256;
        if info.mro == 0 {
            return Ok(None);
        }
        for class in self.items(info.mro, Kind::Tuple, 0, MOST_BASES)? {
            let class: Rc<TypeInfo> = self.type_info(class)?;
            if class.is_heap_type()
                && class.dict != 0
                && let Some(entry) = self.entry_named(class.dict, name)?
            {
                return Ok(Some((entry, class.dict)));
            }
        }
        Ok(None)
    }

    /// Whether all that a type does is either written in Python or what every object does.
    pub(crate) fn is_made_in_python(&self, info: &TypeInfo) -> Result<bool, ReadError> {
        const MOST_BASES: u64 = 256;
        for class in self.items(info.mro, Kind::Tuple, 0, MOST_BASES)? {
            let class = self.type_info(class)?;
            if !class.is_heap_type() && class.name != "object" {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Where a generator or coroutine stands.
    pub(crate) fn suspended(&self, generator: u64) -> Result<Suspended, ReadError> {
        let layout = self.python.layout;
        let name = self.name(self.word(generator + layout.generator_name + 8)?)?;
        let state = self.byte(generator + layout.generator_state)? as i8;
        let first = if layout.minor >= 13 { -3 } else { -2 };
        let told = match state {
            state if state == first => "not begun",
            state if state < 0 => "suspended",
            0 => "running",
            _ => "ended",
        };
        let frame = if state <= 0 { self.frame(generator + layout.generator_frame)? } else { None };
        Ok(Suspended { name, state: told, frame })
    }
}

impl Named {
    fn of(entry: Entry, dict: u64) -> Self {
        Self { object: entry.value, slot: Some(entry.slot_in(dict)) }
    }
}
