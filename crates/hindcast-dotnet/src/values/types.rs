//! Types of values, with their arguments.

use std::rc::Rc;

use crate::{
    cor::{Class, Com, CorType, element},
    image::{Primitive, Spelling, Token, TypeDef, TypeKind, csharp_name},
    modules::{LoadedModule, Modules},
};

/// A type as the runtime has it.
#[derive(Debug, Clone)]
pub(crate) struct TypeInfo {
    pub(crate) cor: Com<CorType>,
    pub(crate) element: u32,
    /// Where it is defined, for classes and structs.
    pub(crate) definition: Option<Definition>,
    /// What stands for its parameters; the element type of an array, the target of a pointer.
    pub(crate) arguments: Vec<TypeInfo>,
    rank: u32,
}

/// Where a type is defined.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) class: Com<Class>,
    pub(crate) module: Rc<LoadedModule>,
    pub(crate) token: Token,
}

impl Definition {
    pub(crate) fn of(class: Com<Class>, modules: &Modules) -> Option<Self> {
        let module = modules.of(&class.module().ok()?)?.clone();
        let token = Token(class.token().ok()?);
        Some(Self { class, module, token })
    }

    /// What its assembly says about it.
    pub(crate) fn type_def(&self) -> Option<TypeDef<'_>> {
        self.module.assembly()?.type_def(self.token)
    }

    /// As reflection writes it.
    pub(crate) fn full_name(&self) -> Option<String> {
        self.type_def()?.full_name()
    }
}

/// How deep the arguments of types are followed.
const DEEPEST: u32 = 8;

impl TypeInfo {
    pub(crate) fn of(cor: Com<CorType>, modules: &Modules) -> Self {
        Self::within(cor, modules, DEEPEST)
    }

    fn within(cor: Com<CorType>, modules: &Modules, depth: u32) -> Self {
        let element = cor.element_type().unwrap_or(0);
        let has_class = matches!(element, element::CLASS | element::VALUE_TYPE);
        let definition = cor.class().ok().filter(|_| has_class).and_then(|class| Definition::of(class, modules));
        let parameters = match element {
            _ if depth == 0 => Vec::new(),
            element::CLASS | element::VALUE_TYPE => {
                cor.enumerate_type_parameters().and_then(|list| list.all()).unwrap_or_default()
            }
            element::ARRAY | element::SZ_ARRAY | element::POINTER | element::BY_REF => {
                cor.first_type_parameter().into_iter().collect()
            }
            _ => Vec::new(),
        };
        let arguments =
            parameters.into_iter().map(|parameter| Self::within(parameter, modules, depth - 1)).collect();
        let rank = if element == element::ARRAY { cor.rank().unwrap_or(1) } else { 1 };
        Self { cor, element, definition, arguments, rank }
    }

    /// The primitive whose values it has, also where it is a struct of the framework that stands for one.
    pub(crate) fn primitive(&self) -> Option<Primitive> {
        let found = primitive_of(self.element).or_else(|| Primitive::from_full_name(&self.full_name()?));
        found.filter(|primitive| is_value(*primitive))
    }

    /// As reflection writes it, without arguments.
    pub(crate) fn full_name(&self) -> Option<String> {
        match primitive_of(self.element) {
            Some(primitive) => Some(primitive.full_name().to_owned()),
            None => self.definition.as_ref()?.full_name(),
        }
    }

    /// As C# writes it.
    pub(crate) fn display(&self) -> String {
        self.spelled(Spelling::Short)
    }

    /// As C# writes it, with namespaces if asked.
    pub(crate) fn spelled(&self, spelling: Spelling) -> String {
        if let Some(primitive) = primitive_of(self.element) {
            return primitive.csharp().to_owned();
        }
        let argument = || self.arguments.first().map_or_else(|| "?".into(), |first| first.spelled(spelling));
        match self.element {
            element::SZ_ARRAY => format!("{}[]", argument()),
            element::ARRAY => format!("{}[{}]", argument(), ",".repeat(self.rank.saturating_sub(1) as usize)),
            element::POINTER => format!("{}*", argument()),
            element::BY_REF => argument(),
            _ => {
                let Some(name) = self.full_name() else { return "?".into() };
                let arguments: Vec<_> = self.arguments.iter().map(|argument| argument.spelled(spelling)).collect();
                csharp_name(&name, &arguments, spelling)
            }
        }
    }

    pub(crate) fn base(&self, modules: &Modules) -> Option<Self> {
        self.cor.base().ok().flatten().map(|base| Self::of(base, modules))
    }

    /// It and what it derives from, the most derived first.
    pub(crate) fn with_bases(&self, modules: &Modules) -> Vec<Self> {
        /// More than any program has.
        const MOST: usize = 64;
        let mut types = vec![self.clone()];
        while types.len() < MOST {
            match types.last().and_then(|last| last.base(modules)) {
                Some(base) => types.push(base),
                None => break,
            }
        }
        types
    }

    pub(crate) fn is_enum(&self) -> bool {
        self.definition.as_ref().and_then(Definition::type_def).is_some_and(|def| def.kind() == TypeKind::Enum)
    }

    pub(crate) fn is_value_type(&self) -> bool {
        self.element == element::VALUE_TYPE || primitive_of(self.element).is_some_and(is_value)
    }

    /// Whether it is this type of the framework: ``System.Collections.Generic.List`1``.
    pub(crate) fn is_named(&self, full_name: &str) -> bool {
        self.full_name().is_some_and(|name| name == full_name)
    }
}

/// Whether values of it are in place, not behind a reference.
fn is_value(primitive: Primitive) -> bool {
    !matches!(primitive, Primitive::String | Primitive::Object | Primitive::Void | Primitive::TypedReference)
}

/// The primitive of a number that the debugging interface uses.
pub(crate) fn primitive_of(element: u32) -> Option<Primitive> {
    Some(match element {
        element::VOID => Primitive::Void,
        element::BOOLEAN => Primitive::Boolean,
        element::CHAR => Primitive::Char,
        element::I1 => Primitive::SByte,
        element::U1 => Primitive::Byte,
        element::I2 => Primitive::Int16,
        element::U2 => Primitive::UInt16,
        element::I4 => Primitive::Int32,
        element::U4 => Primitive::UInt32,
        element::I8 => Primitive::Int64,
        element::U8 => Primitive::UInt64,
        element::R4 => Primitive::Single,
        element::R8 => Primitive::Double,
        element::STRING => Primitive::String,
        element::I => Primitive::IntPtr,
        element::U => Primitive::UIntPtr,
        element::OBJECT => Primitive::Object,
        _ => return None,
    })
}
