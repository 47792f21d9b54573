//! Finding types by name.

use std::rc::Rc;

use super::{Evaluated, EvaluationError, Evaluator, Result};
use crate::{
    cor::{AppDomain2, Class2, element},
    expression::{Primitive, TypeKind, TypeName, TypePart},
    image::{Token, TypeSig},
    modules::LoadedModule,
    session::Session,
    values::TypeInfo,
};

impl Session {
    /// A type of a module with these arguments.
    pub(in crate::session) fn type_with(
        &self,
        module: &Rc<LoadedModule>,
        token: Token,
        arguments: &[TypeInfo],
    ) -> Option<TypeInfo> {
        let class = module.module.class_from_token(token.0).ok()?;
        let is_value = module.assembly()?.type_def(token)?.is_value_type();
        let kind = if is_value { element::VALUE_TYPE } else { element::CLASS };
        let arguments: Vec<_> = arguments.iter().map(|argument| argument.cor.clone()).collect();
        let of = class.cast::<Class2>()?.with_arguments(kind, &arguments).ok()?;
        Some(TypeInfo::of(of, &self.modules))
    }

    /// A type by its full name, as reflection writes it, in any module.
    pub(in crate::session) fn type_by_name(
        &self,
        full_name: &str,
        arguments: &[TypeInfo],
    ) -> Option<TypeInfo> {
        // The program's own first: the framework has many types, and names are looked up lazily.
        let mine = self.modules.iter().filter(|module| module.is_mine());
        let others = self.modules.iter().filter(|module| !module.is_mine());
        for module in mine.chain(others) {
            let Some(assembly) = module.assembly() else { continue };
            if let Some(of) = assembly.type_named(full_name) {
                return self.type_with(module, of.token(), arguments);
            }
        }
        None
    }

    /// What a signature of a module means.
    pub(in crate::session) fn type_of_signature(
        &self,
        module: &Rc<LoadedModule>,
        signature: &TypeSig,
        of_type: &[TypeInfo],
        of_method: &[TypeInfo],
    ) -> Option<TypeInfo> {
        let assembly = module.assembly()?;
        let by_token = |token: Token, arguments: &[TypeInfo]| match assembly.type_def(token) {
            Some(_) => self.type_with(module, token, arguments),
            None => self.type_by_name(&assembly.type_full_name(token)?, arguments),
        };
        match signature {
            TypeSig::Primitive(primitive) => self.type_by_name(primitive.full_name(), &[]),
            TypeSig::Class(token) | TypeSig::ValueType(token) => by_token(*token, &[]),
            TypeSig::GenericInst { definition, arguments, .. } => {
                let arguments: Option<Vec<_>> = arguments
                    .iter()
                    .map(|argument| self.type_of_signature(module, argument, of_type, of_method))
                    .collect();
                by_token(*definition, &arguments?)
            }
            TypeSig::SzArray(item) => {
                let item = self.type_of_signature(module, item, of_type, of_method)?;
                self.array_of(&item, 1)
            }
            TypeSig::Array { element, rank } => {
                let item = self.type_of_signature(module, element, of_type, of_method)?;
                self.array_of(&item, *rank)
            }
            TypeSig::ByRef(inner) | TypeSig::Pinned(inner) => {
                self.type_of_signature(module, inner, of_type, of_method)
            }
            TypeSig::TypeParameter(number) => of_type.get(*number as usize).cloned(),
            TypeSig::MethodParameter(number) => of_method.get(*number as usize).cloned(),
            TypeSig::Pointer(_) | TypeSig::FunctionPointer(_) => None,
        }
    }

    fn array_of(&self, item: &TypeInfo, rank: u32) -> Option<TypeInfo> {
        let domains = self.process().enumerate_app_domains().ok()?.all().ok()?;
        let domain = domains.first()?.cast::<AppDomain2>()?;
        Some(TypeInfo::of(domain.array_type(rank, &item.cor).ok()?, &self.modules))
    }
}

impl Evaluator<'_> {
    /// The type that is meant by a name.
    pub(super) fn type_named(&mut self, name: &TypeName) -> Result<TypeInfo> {
        let unknown = || EvaluationError::UnknownType { name: name.to_string() };
        match &name.kind {
            TypeKind::Primitive(primitive) => self.builtin(*primitive).ok_or_else(unknown),
            TypeKind::Object => self.session.type_by_name("System.Object", &[]).ok_or_else(unknown),
            TypeKind::Void => self.session.type_by_name("System.Void", &[]).ok_or_else(unknown),
            TypeKind::Named { path, .. } => self.type_by_path(path)?.ok_or_else(unknown),
            TypeKind::Nullable(inner) => {
                let inner = self.type_named(inner)?;
                if !inner.is_value_type() {
                    return Ok(inner);
                }
                self.session.type_by_name("System.Nullable`1", &[inner]).ok_or_else(unknown)
            }
            TypeKind::Array(item, rank) => {
                let item = self.type_named(item)?;
                self.session.array_of(&item, *rank).ok_or_else(unknown)
            }
            TypeKind::Tuple(items) => {
                let items =
                    items.iter().map(|(item, _)| self.type_named(item)).collect::<Result<Vec<_>>>()?;
                let name = format!("System.ValueTuple`{}", items.len());
                self.session.type_by_name(&name, &items).ok_or_else(unknown)
            }
            TypeKind::Pointer(_) => Err(EvaluationError::NotSupported { what: "a pointer type" }),
        }
    }

    fn builtin(&self, primitive: Primitive) -> Option<TypeInfo> {
        self.session.type_by_name(&primitive.class(), &[])
    }

    /// What stands for a parameter of the frame's method or of its type.
    fn type_parameter(&mut self, name: &str) -> Result<Option<TypeInfo>> {
        let module = self.frame.module.clone();
        let method = module.assembly().and_then(|assembly| assembly.method(self.frame.method));
        let Some(method) = method else { return Ok(None) };
        let of_type = method.declaring_type().map(|of| of.generic_parameters()).unwrap_or_default();
        let of_method = method.generic_parameters();
        let own = of_method.iter().position(|parameter| parameter.name == name);
        let outer = of_type.iter().position(|parameter| parameter.name == name);
        let Some(place) = own.map(|at| of_type.len() + at).or(outer) else { return Ok(None) };
        let found = self.session.frame_types(&self.frame).into_iter().nth(place);
        if let Some(found) = found.filter(|of| !of.is_named("System.__Canon")) {
            return Ok(Some(found));
        }
        // Code that several types share does not tell, but the object does.
        let this = match self.local("this")? {
            Some(Evaluated::Value(this)) if own.is_none() => this.as_type,
            _ => None,
        };
        let found = this.and_then(|of| of.arguments.get(place).cloned());
        let unknown =
            EvaluationError::NotSupported { what: "a type parameter of code that several types share" };
        found.filter(|of| !of.is_named("System.__Canon")).map(Some).ok_or(unknown)
    }

    fn type_by_path(&mut self, path: &[TypePart]) -> Result<Option<TypeInfo>> {
        if let [TypePart { name, arguments }] = path
            && arguments.is_empty()
            && let Some(found) = self.type_parameter(&name.text)?
        {
            return Ok(Some(found));
        }
        let mut arguments = Vec::new();
        let mut names = Vec::new();
        for part in path {
            let own: Vec<_> = part.arguments.iter().flatten().cloned().collect();
            for argument in &own {
                arguments.push(self.type_named(argument)?);
            }
            names.push(arity_name(&part.name.text, own.len()));
        }
        Ok(self.type_by_parts(&names, &arguments))
    }

    /// The type that a dotted name means here: nested in the frame's type, in its namespace, or in one that is in use.
    pub(super) fn type_by_parts(&self, names: &[String], arguments: &[TypeInfo]) -> Option<TypeInfo> {
        let spellings = spellings(names);
        for prefix in self.prefixes() {
            for spelling in &spellings {
                let full = match prefix.is_empty() {
                    true => spelling.clone(),
                    false => format!("{prefix}{spelling}"),
                };
                if let Some(of) = self.session.type_by_name(&full, arguments) {
                    return Some(of);
                }
            }
        }
        None
    }

    /// What may stand before a type's name: the frame's types and namespaces from the inside out, and what is in use.
    fn prefixes(&self) -> Vec<String> {
        let mut prefixes = Vec::new();
        let mut of = self.session.declaring_type(&self.frame).and_then(|of| of.full_name());
        while let Some(name) = of {
            prefixes.push(format!("{name}+"));
            of = name.rsplit_once('+').map(|(outer, _)| outer.to_owned());
            if of.is_none() {
                let mut namespace = name.as_str();
                while let Some((outer, _)) = namespace.rsplit_once('.') {
                    prefixes.push(format!("{outer}."));
                    namespace = outer;
                }
            }
        }
        prefixes.push(String::new());
        if let Some(pdb) = self.frame.module.pdb() {
            let used = pdb.imported_namespaces(self.frame.method);
            prefixes.extend(used.into_iter().map(|namespace| format!("{namespace}.")));
        }
        // What everybody takes for granted.
        prefixes.extend(["System.".to_owned(), "System.Collections.Generic.".to_owned()]);
        prefixes
    }

    /// A name that is no variable: a type, or the beginning of one's name.
    pub(super) fn type_or_namespace(&self, name: &str, arguments: &[TypeInfo]) -> Option<Evaluated> {
        let spelled = arity_name(name, arguments.len());
        if let Some(of) = self.type_by_parts(&[spelled], arguments) {
            return Some(Evaluated::Type(of));
        }
        self.is_namespace(name).then(|| Evaluated::Namespace(name.to_owned()))
    }

    pub(super) fn is_namespace(&self, name: &str) -> bool {
        let prefix = format!("{name}.");
        let mut assemblies = self.session.modules.iter().filter_map(|module| module.assembly());
        assemblies.any(|assembly| {
            assembly.types().any(|of| {
                of.namespace().is_some_and(|namespace| namespace == name || namespace.starts_with(&prefix))
            })
        })
    }
}

pub(super) fn arity_name(name: &str, count: usize) -> String {
    if count == 0 { name.to_owned() } else { format!("{name}`{count}") }
}

/// `A.B.C`, `A.B+C`, `A+B+C`: where the namespace ends is not written.
fn spellings(names: &[String]) -> Vec<String> {
    (0..names.len())
        .map(|nested| {
            let (outer, inner) = names.split_at(names.len() - nested);
            let mut spelled = outer.join(".");
            for name in inner {
                spelled.push('+');
                spelled.push_str(name);
            }
            spelled
        })
        .filter(|spelled| !spelled.starts_with('+'))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_name_may_mean_nested_types() {
        let names = ["A", "B", "C"].map(str::to_owned);
        assert_eq!(spellings(&names), ["A.B.C", "A.B+C", "A+B+C"]);
    }
}
