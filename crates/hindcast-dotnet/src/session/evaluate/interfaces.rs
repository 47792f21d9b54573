//! Methods of objects, also those that only an interface knows, and objects that stand for types.

use super::{
    Evaluated, EvaluationError, Evaluator, Result,
    calls::{Callee, indexer_name},
    conversions::{is_same_type, nullable_of, primitive_of},
};
use crate::{
    expression::{Constant, Kind, Node, TypeName},
    image::TypeKind,
    values::{Seen, TypeInfo},
};

impl Evaluator<'_> {
    /// The methods of a name that an object has for the type that it is declared with.
    pub(super) fn methods_of_object(&self, seen: &Seen, name: &str) -> Vec<Callee> {
        let types = self.session.values().member_types(seen);
        let own: Vec<_> = types.iter().flat_map(|of| self.methods_of(of, name)).collect();
        let declared = self.static_type(seen);
        if !is_interface(&declared) {
            return own;
        }
        let interfaces = self.with_interfaces(&declared);
        let explicit = self.explicit_of(&types, &interfaces, name);
        if !explicit.is_empty() {
            return explicit;
        }
        if !own.is_empty() {
            return own;
        }
        // What the interface itself does.
        interfaces.iter().flat_map(|of| self.methods_of(of, name)).collect()
    }

    /// Whether an object has a method for the interface that it is declared with, beside one of the same name of its own.
    pub(super) fn has_explicit_method(&self, seen: &Seen, name: &str) -> bool {
        let declared = self.static_type(seen);
        if !is_interface(&declared) {
            return false;
        }
        let types = self.session.values().member_types(seen);
        !self.explicit_of(&types, &self.with_interfaces(&declared), name).is_empty()
    }

    /// Whether an object has a method for the interface that it is declared with, be it the interface's own.
    pub(super) fn has_interface_method(&self, seen: &Seen, name: &str) -> bool {
        is_interface(&self.static_type(seen)) && !self.methods_of_object(seen, name).is_empty()
    }

    /// The same for its indexers.
    pub(super) fn has_interface_indexer(&self, seen: &Seen) -> bool {
        is_interface(&self.static_type(seen)) && !self.indexers_of_object(seen).is_empty()
    }

    /// The getters of the indexers that an object has for the type that it is declared with.
    pub(super) fn indexers_of_object(&self, seen: &Seen) -> Vec<Callee> {
        let declared = self.static_type(seen);
        if is_interface(&declared) {
            return self.methods_of_object(seen, &format!("get_{}", indexer_name(&declared)));
        }
        let types = self.session.values().member_types(seen);
        types.iter().flat_map(|of| self.indexers_of(of, "get_")).collect()
    }

    fn explicit_of(&self, types: &[TypeInfo], interfaces: &[TypeInfo], name: &str) -> Vec<Callee> {
        let of = |interface| types.iter().flat_map(move |of| self.explicit_methods(of, interface, name));
        interfaces.iter().flat_map(of).collect()
    }

    pub(super) fn with_interfaces(&self, of: &TypeInfo) -> Vec<TypeInfo> {
        let inherited = of.definition.as_ref().and_then(|definition| {
            let assembly = definition.module.assembly()?;
            let interfaces = definition.type_def()?.interfaces().into_iter();
            let interfaces = interfaces.filter_map(|token| assembly.type_sig(token));
            let known = |interface| {
                self.session.type_of_signature(&definition.module, &interface, &of.arguments, &[])
            };
            Some(interfaces.filter_map(known).collect::<Vec<_>>())
        });
        std::iter::once(of.clone()).chain(inherited.unwrap_or_default()).collect()
    }

    /// The methods of a type that are an interface's only: `IGreeter.Hello`.
    fn explicit_methods(&self, of: &TypeInfo, interface: &TypeInfo, name: &str) -> Vec<Callee> {
        let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
        let (Some(type_def), Some(full)) = (type_def, interface.full_name()) else { return Vec::new() };
        let full = full.replace('+', ".");
        let is_it = |raw: &str| {
            let Some((prefix, last)) = raw.rsplit_once('.') else { return false };
            let plain = prefix.split('<').next().unwrap_or(prefix);
            last == name && plain == full.split('`').next().unwrap_or(&full)
        };
        let names = type_def.methods().filter_map(|method| method.name()).filter(|raw| is_it(raw));
        let mut names: Vec<_> = names.map(str::to_owned).collect();
        names.dedup();
        names.iter().flat_map(|raw| self.methods_of(of, raw)).collect()
    }

    /// What stands before a dot: of `typeof(T)`, the object that stands for the type.
    pub(super) fn receiver(&mut self, node: &Node) -> Result<Evaluated> {
        match &node.kind {
            Kind::TypeOf(of) => self.type_object(of),
            _ => self.node(node),
        }
    }

    fn type_object(&mut self, of: &TypeName) -> Result<Evaluated> {
        let found = self.type_named(of)?;
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name: format!("typeof({of})") });
        }
        let Some(name) = self.assembly_qualified(&found) else {
            return Err(EvaluationError::NotSupported { what: "`typeof` of such a type" });
        };
        let of_types = self.session.type_by_name("System.Type", &[]).map(Evaluated::Type);
        let name = Evaluated::computed(Constant::String(name.as_str().into()));
        self.call_named(of_types, "GetType", &[name], &[], Vec::new())
    }

    /// The name of a type that finds it from anywhere; none for arrays and pointers.
    fn assembly_qualified(&self, of: &TypeInfo) -> Option<String> {
        let name = of.full_name()?;
        let definition = self.with_definition(of)?.definition.clone()?;
        let assembly = definition.module.assembly()?.name()?.to_owned();
        if of.arguments.is_empty() {
            return Some(format!("{name}, {assembly}"));
        }
        let arguments: Option<Vec<_>> =
            of.arguments.iter().map(|of| Some(format!("[{}]", self.assembly_qualified(of)?))).collect();
        Some(format!("{name}[{}], {assembly}", arguments?.join(",")))
    }

    /// `(T)value` by a conversion that one of the types defines; none where they define none.
    pub(super) fn defined_cast(&mut self, value: &Evaluated, to: &TypeInfo) -> Result<Option<Evaluated>> {
        let Some(from) = self.static_of(value) else { return Ok(None) };
        let mut found: Vec<Callee> = Vec::new();
        for (of, other) in [(&from, to), (to, &from)] {
            // What `T?` defines are the conversions that C# has for each.
            if is_same_type(of, other) || primitive_of(of).is_some() || nullable_of(of).is_some() {
                continue;
            }
            for name in ["op_Implicit", "op_Explicit"] {
                found.extend(self.methods(of, name).into_iter().filter(|callee| {
                    let parameter = callee.parameters.first().and_then(|of| self.wanted(callee, of));
                    parameter.is_some_and(|of| is_same_type(&of, &from))
                        && self.returned(callee).is_some_and(|of| is_same_type(&of, to))
                }));
            }
        }
        let Some(callee) = found.pop() else { return Ok(None) };
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsOperator { operator: "conversion", of: callee.of.display() });
        }
        let value = self.argument_of(value.clone())?;
        self.run(&callee, None, &[value]).map(Some)
    }
}

pub(super) fn is_interface(of: &TypeInfo) -> bool {
    let type_def = of.definition.as_ref().and_then(|definition| definition.type_def());
    type_def.is_some_and(|type_def| type_def.kind() == TypeKind::Interface)
}
