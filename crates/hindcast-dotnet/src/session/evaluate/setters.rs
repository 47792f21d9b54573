//! Running the setters of properties and indexers. The value of an assignment is what they were given, as in C#: their
//! getters do not run.

use super::{Evaluated, EvaluationError, Evaluator, Result, calls::Callee};
use crate::{
    image::Token,
    values::{Seen, TypeInfo},
};

impl Evaluator<'_> {
    /// Runs the setter of a property, and says what it was given.
    pub(super) fn set_property(
        &mut self,
        receiver: Option<&Seen>,
        of: &TypeInfo,
        setter: Token,
        name: &str,
        value: &Evaluated,
    ) -> Result<Evaluated> {
        let module = of.definition.as_ref().map(|definition| definition.module.clone());
        let Some(module) = module.filter(|_| self.calls_until.is_some()) else {
            return Err(EvaluationError::NeedsSetter { name: name.to_owned() });
        };
        let callee = self.callee(module, setter, of, Vec::new())?;
        let callee = self.best(vec![callee], name, std::slice::from_ref(value), &[], false)?;
        // Converting the value may run code, which moves the object.
        let receiver = match receiver.map(|seen| self.held(Evaluated::Value(seen.clone()))).transpose()? {
            Some(Evaluated::Value(seen)) => Some(seen),
            _ => None,
        };
        let value = self.as_parameter(&callee, callee.parameters.len() - 1, value)?;
        self.run(&callee, receiver.as_ref(), std::slice::from_ref(&value))?;
        self.fresh(&value)
    }

    /// Runs the setter of an indexer, and says what it was given.
    pub(super) fn set_item(
        &mut self,
        seen: &Seen,
        keys: &[Evaluated],
        value: &Evaluated,
    ) -> Result<Evaluated> {
        let types = self.session.values().member_types(seen);
        let candidates: Vec<_> = types.iter().flat_map(|of| self.indexers_of(of, "set_")).collect();
        let value = self.argument_of(value.clone())?;
        let mut values: Vec<_> = keys.iter().cloned().chain([value]).collect();
        let mut callee = self.best(candidates, "this[]", &values, &[], false)?;
        self.follow_override(seen, &mut callee);
        values[keys.len()] = self.as_parameter(&callee, keys.len(), &values[keys.len()])?;
        self.run(&callee, Some(seen), &values)?;
        self.fresh(&values[keys.len()])
    }

    /// A value as the type of the parameter that takes it.
    fn as_parameter(&mut self, callee: &Callee, at: usize, value: &Evaluated) -> Result<Evaluated> {
        let wanted = callee.parameters.get(at).and_then(|parameter| self.wanted(callee, parameter));
        let Some(wanted) = wanted else { return Ok(value.clone()) };
        if self.value_converts(value, &wanted) {
            return self.converted(value.clone(), &wanted);
        }
        let value = self.fresh(value)?;
        match self.defined_cast(&value, &wanted)? {
            Some(converted) => self.argument_of(converted),
            None => Ok(value),
        }
    }
}
