//! Extension methods: static ones that are called as if they were the first argument's own.

use super::{Evaluated, Evaluator, Result, calls::Callee, conversions::is_same_type};
use crate::{
    image::TypeDef,
    values::{Seen, TypeInfo},
};

const MARK: &str = "System.Runtime.CompilerServices.ExtensionAttribute";
/// `TypeAttributes.Abstract` and `TypeAttributes.Sealed`: a static class.
const STATIC: u32 = 0x180;
/// `TypeAttributes.VisibilityMask`, and what is public.
const VISIBILITY: u32 = 7;
const PUBLIC: u32 = 1;

impl Evaluator<'_> {
    /// Calls an extension method of everything that is loaded; none where there is none of the name for such a value.
    ///
    /// Which namespaces the source uses is not looked at.
    pub(super) fn call_extension(
        &mut self,
        this: &Seen,
        name: &str,
        values: &[Evaluated],
        names: &[Option<&str>],
        method_types: &[TypeInfo],
    ) -> Result<Option<Evaluated>> {
        let mut candidates = self.extensions(name);
        let values: Vec<_> =
            std::iter::once(Evaluated::Value(this.clone())).chain(values.iter().cloned()).collect();
        let names: Vec<_> = std::iter::once(None).chain(names.iter().copied()).collect();
        self.give_types(&mut candidates, &values, &names, method_types);
        candidates.retain(|callee| self.extends(callee, &values[0]));
        if candidates.is_empty() {
            return Ok(None);
        }
        let callee = self.best(candidates, name, &values, &names, true)?;
        self.run(&callee, None, &values).map(Some)
    }

    /// Whether a method extends what a value is; numbers are not widened for that, nor values converted by code.
    fn extends(&self, callee: &Callee, value: &Evaluated) -> bool {
        let wanted = callee.parameters.first().and_then(|of| self.wanted(callee, of));
        let (Some(wanted), Some(own)) = (wanted, self.static_of(value)) else { return false };
        is_same_type(&own, &wanted) || !wanted.is_value_type() && self.type_converts(&own, &wanted)
    }

    fn extensions(&self, name: &str) -> Vec<Callee> {
        let mut found = Vec::new();
        for module in self.session.modules.iter() {
            let Some(assembly) = module.assembly() else { continue };
            let is_seen = |of: &TypeDef<'_>| module.is_mine() || of.flags() & VISIBILITY == PUBLIC;
            let classes = assembly.types().filter(|of| of.flags() & STATIC == STATIC && is_seen(of));
            for class in classes.filter(|of| of.methods_named(name).next().is_some()) {
                let Some(of) = self.session.type_with(module, class.token(), &[]) else { continue };
                let is_marked = |callee: &Callee| assembly.has_attribute(callee.token, MARK);
                found.extend(self.methods_of(&of, name).into_iter().filter(is_marked));
            }
        }
        found.iter_mut().for_each(|callee| callee.counts_alike = true);
        found
    }
}
