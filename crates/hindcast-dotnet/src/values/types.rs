//! Types of values, with their arguments.

use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
    ops::Deref,
    rc::Rc,
};

use crate::{
    cor::{Class, Com, CorType, element},
    image::{Primitive, Spelling, Token, TypeDef, TypeKind, csharp_name},
    modules::{LoadedModule, Modules},
};

/// A type as the runtime has it. Copies share what was asked of the runtime already.
#[derive(Debug, Clone)]
pub(crate) struct TypeInfo(Rc<TypeData>);

impl Deref for TypeInfo {
    type Target = TypeData;

    fn deref(&self) -> &TypeData {
        &self.0
    }
}

/// What is known of a type.
#[derive(Debug, Clone)]
pub(crate) struct TypeData {
    pub(crate) cor: Com<CorType>,
    pub(crate) element: u32,
    /// Where it is defined, for classes and structs.
    pub(crate) definition: Option<Definition>,
    /// What stands for its parameters; the element type of an array, the target of a pointer.
    pub(crate) arguments: Vec<TypeInfo>,
    /// What the source calls the items of a tuple, where it does.
    pub(crate) item_names: Vec<Option<String>>,
    rank: u32,
    full_name: OnceCell<Option<String>>,
    bases: OnceCell<Vec<TypeInfo>>,
}

/// The types that were asked for since the debuggee stands. Most values are of a few types, and to describe one takes many calls.
#[derive(Debug, Default)]
pub(crate) struct KnownTypes {
    /// By the object that stands for them in the debugging interface, which each of them keeps alive.
    by_identity: RefCell<HashMap<usize, TypeInfo>>,
    /// Where the runtime describes `string`, which it does in one place as long as it is there.
    pub(super) string_table: Cell<Option<u64>>,
}

impl KnownTypes {
    fn get_or_make(&self, identity: usize, make: impl FnOnce() -> TypeInfo) -> TypeInfo {
        if let Some(known) = self.by_identity.borrow().get(&identity) {
            return known.clone();
        }
        let made = make();
        self.by_identity.borrow_mut().insert(identity, made.clone());
        made
    }

    /// What was true of them need not be when the debuggee has run.
    pub(crate) fn forget(&self) {
        self.by_identity.borrow_mut().clear();
    }
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
        modules.types.get_or_make(cor.identity(), || Self::within(cor.clone(), modules, DEEPEST))
    }

    fn within(cor: Com<CorType>, modules: &Modules, depth: u32) -> Self {
        let element = cor.element_type().unwrap_or(0);
        let has_class = matches!(element, element::CLASS | element::VALUE_TYPE);
        let class = has_class.then(|| cor.class().ok()).flatten();
        let definition = class.and_then(|class| Definition::of(class, modules));
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
        Self(Rc::new(TypeData {
            cor,
            element,
            definition,
            arguments,
            item_names: Vec::new(),
            rank,
            full_name: OnceCell::new(),
            bases: OnceCell::new(),
        }))
    }

    /// The same with names for the items of the tuples in it, in the order in which compilers write them down.
    ///
    /// Where there are more or fewer names than items, they are of another type, and it stays without.
    pub(crate) fn with_item_names(&self, names: &[Option<&str>]) -> Self {
        let mut left = names;
        match self.named_from(&mut left) {
            Some(named) if left.is_empty() => named,
            _ => self.clone(),
        }
    }

    fn named_from(&self, names: &mut &[Option<&str>]) -> Option<Self> {
        let mut data = (**self).clone();
        if self.is_value_tuple() {
            let (own, rest) = names.split_at_checked(self.tuple_length())?;
            data.item_names = own.iter().map(|name| name.map(str::to_owned)).collect();
            *names = rest;
        }
        for argument in &mut data.arguments {
            *argument = argument.named_from(names)?;
        }
        Some(Self(Rc::new(data)))
    }

    pub(crate) fn is_value_tuple(&self) -> bool {
        !self.arguments.is_empty()
            && self.full_name_ref().is_some_and(|name| name.starts_with("System.ValueTuple`"))
    }

    /// How many items a tuple has, with those of the tuple in its last place.
    fn tuple_length(&self) -> usize {
        match self.arguments.as_slice() {
            [_, _, _, _, _, _, _, rest] => 7 + rest.tuple_length(),
            arguments => arguments.len(),
        }
    }

    /// The types of a tuple's items.
    pub(crate) fn tuple_items(&self) -> Vec<TypeInfo> {
        match self.arguments.as_slice() {
            [first @ .., rest] if first.len() == 7 => {
                first.iter().cloned().chain(rest.tuple_items()).collect()
            }
            arguments => arguments.to_vec(),
        }
    }

    /// It with the names that a declaration gives to the items of its tuples, where it is of the declared type.
    pub(crate) fn as_declared(&self, declared: &Self) -> Self {
        let mut data = (**self).clone();
        if self.full_name_ref() != declared.full_name_ref()
            || self.arguments.len() != declared.arguments.len()
        {
            return self.clone();
        }
        data.item_names.clone_from(&declared.item_names);
        for (argument, declared) in data.arguments.iter_mut().zip(&declared.arguments) {
            *argument = argument.as_declared(declared);
        }
        Self(Rc::new(data))
    }

    /// The primitive whose values it has, also where it is a struct of the framework that stands for one.
    pub(crate) fn primitive(&self) -> Option<Primitive> {
        let found = primitive_of(self.element).or_else(|| Primitive::from_full_name(self.full_name_ref()?));
        found.filter(|primitive| is_value(*primitive))
    }

    /// As reflection writes it, without arguments.
    pub(crate) fn full_name(&self) -> Option<String> {
        self.full_name_ref().map(str::to_owned)
    }

    pub(crate) fn full_name_ref(&self) -> Option<&str> {
        match primitive_of(self.element) {
            Some(primitive) => Some(primitive.full_name()),
            None => self.full_name.get_or_init(|| self.definition.as_ref()?.full_name()).as_deref(),
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
                let Some(name) = self.full_name_ref() else { return "?".into() };
                if self
                    .arguments
                    .first()
                    .is_some_and(|first| first.is_named("System.Threading.Tasks.VoidTaskResult"))
                {
                    // The framework's own way to have a task without a result.
                    return csharp_name(name.trim_end_matches("`1"), &[], spelling);
                }
                let arguments: Vec<_> =
                    self.arguments.iter().map(|argument| argument.spelled(spelling)).collect();
                if let Some(anonymous) = self.anonymous(name, &arguments) {
                    return anonymous;
                }
                if self.item_names.iter().any(Option::is_some) {
                    return self.tuple_with_names(spelling);
                }
                csharp_name(name, &arguments, spelling)
            }
        }
    }

    fn tuple_with_names(&self, spelling: Spelling) -> String {
        let item = |(at, of): (usize, &TypeInfo)| match self.item_names.get(at).and_then(Option::as_ref) {
            Some(name) => format!("{} {name}", of.spelled(spelling)),
            None => of.spelled(spelling),
        };
        let items: Vec<_> = self.tuple_items().iter().enumerate().map(item).collect();
        format!("({})", items.join(", "))
    }

    /// As the compiler writes a type that has no name in the source.
    fn anonymous(&self, name: &str, arguments: &[String]) -> Option<String> {
        if !name.starts_with("<>f__AnonymousType") {
            return None;
        }
        let type_def = self.definition.as_ref()?.type_def()?;
        let member = |(at, argument): (usize, &String)| {
            let parameter = type_def.generic_parameters().get(at)?.name;
            Some(format!("{argument} {}", parameter.strip_prefix('<')?.strip_suffix(">j__TPar")?))
        };
        let members: Vec<String> = arguments.iter().enumerate().map(member).collect::<Option<_>>()?;
        Some(format!("<anonymous type: {}>", members.join(", ")))
    }

    /// Whether all of it has a name.
    pub(crate) fn is_known(&self) -> bool {
        let is_named = match self.element {
            element::SZ_ARRAY | element::ARRAY | element::POINTER | element::BY_REF => {
                !self.arguments.is_empty()
            }
            _ => self.full_name_ref().is_some(),
        };
        is_named && self.arguments.iter().all(Self::is_known)
    }

    pub(crate) fn base(&self, modules: &Modules) -> Option<Self> {
        self.cor.base().ok().flatten().map(|base| Self::of(base, modules))
    }

    /// It and what it derives from, the most derived first.
    pub(crate) fn with_bases(&self, modules: &Modules) -> Vec<Self> {
        /// More than any program has.
        const MOST: usize = 64;
        let above = self.bases.get_or_init(|| {
            let mut types = Vec::new();
            let mut next = self.base(modules);
            while let Some(base) = next.filter(|_| types.len() < MOST) {
                next = base.base(modules);
                types.push(base);
            }
            types
        });
        std::iter::once(self).chain(above).cloned().collect()
    }

    pub(crate) fn is_enum(&self) -> bool {
        self.definition
            .as_ref()
            .and_then(Definition::type_def)
            .is_some_and(|def| def.kind() == TypeKind::Enum)
    }

    pub(crate) fn is_value_type(&self) -> bool {
        self.element == element::VALUE_TYPE || primitive_of(self.element).is_some_and(is_value)
    }

    /// Whether it is the type, or one of the generic type, that a module defines with a token.
    pub(crate) fn is_defined_by(&self, module: &Rc<LoadedModule>, token: Token) -> bool {
        let is_it =
            |definition: &Definition| definition.token == token && Rc::ptr_eq(&definition.module, module);
        self.definition.as_ref().is_some_and(is_it)
    }

    /// Whether it is this type of the framework: ``System.Collections.Generic.List`1``.
    pub(crate) fn is_named(&self, full_name: &str) -> bool {
        self.full_name_ref() == Some(full_name)
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
