//! What names mean: variables of the frame, members of `this`, then what is always there.

use super::{
    Global,
    error::{ExpressionError as Failure, most_alike},
    evaluate::Evaluator,
    syntax::TypeName,
};
use crate::{
    types::{TypeKind, TypeRef, Types},
    value::Placed,
};

impl Evaluator<'_> {
    pub(super) fn variable(&self, name: &str, column: usize) -> Result<Placed, Failure> {
        if let Some(found) = self.meaning(name, column)? {
            return Ok(found.value());
        }
        // The object may be of a class that has more members than the method knows of.
        if let Some(this) = self.scope.local("this")
            && let Some(member) = self.member_of(&this, name, column)?
        {
            return Ok(member);
        }
        let names = self.scope.names();
        let nearest = most_alike(name, names.iter().map(String::as_str));
        Err(Failure::UnknownName { column, name: name.to_owned(), nearest })
    }

    /// What a name means here: what the frame has hides members of `this`, and these hide what is
    /// always there. With `::` before it, only the last is meant.
    pub(super) fn meaning(&self, name: &str, column: usize) -> Result<Option<Global>, Failure> {
        if let Some(inner) = self.inner(name, column)? {
            return Ok(Some(Global::Variable(inner)));
        }
        let found = self.scope.global(name);
        Ok(found.or_else(|| self.static_of_class(name).map(Global::Variable)))
    }

    /// A variable of the frame, or a member of the object that the method was called on: these go
    /// without `this->`.
    fn inner(&self, name: &str, column: usize) -> Result<Option<Placed>, Failure> {
        if name.starts_with("::") {
            return Ok(None);
        }
        if let Some(local) = self.scope.local(name) {
            return Ok(Some(local));
        }
        let object = self.scope.local("this").and_then(|this| self.layout.target(&this));
        object.map_or(Ok(None), |object| self.own_member(&object, name, column))
    }

    /// `Class::name`, also where the class has it from a base class or it is only a constant.
    fn static_of_class(&self, name: &str) -> Option<Placed> {
        let (class, name) = name.rsplit_once("::").filter(|(class, _)| !class.is_empty())?;
        self.static_member(self.types().named(class)?, name)
    }

    /// The size of what may be a type or a variable; in the same module, the variable hides the type.
    pub(super) fn size_of_type(&self, wanted: &TypeName, column: usize) -> Result<u64, Failure> {
        let resolved = self.resolve(wanted, column);
        if wanted.pointers > 0 {
            return self.size(resolved?, column);
        }
        if let Some(inner) = self.inner(&wanted.name, column)? {
            return self.size(self.layout.referred_type(inner.type_ref), column);
        }
        let of_variable = match self.scope.global(&wanted.name) {
            Some(Global::Variable(variable) | Global::Enumerator(variable)) => Some(variable.type_ref),
            _ => None,
        };
        let type_ref = match (resolved, of_variable) {
            // The program is its own first module.
            (Ok(named), Some(variable)) if named.module < variable.module && self.is_real(named) => named,
            (_, Some(variable)) => variable,
            (named, None) => named?,
        };
        self.size(self.layout.referred_type(type_ref), column)
    }

    /// Whether the program itself has the type.
    fn is_real(&self, type_ref: TypeRef) -> bool {
        self.types().get(type_ref).is_some_and(|found| found.kind != TypeKind::Declaration)
    }
}
