//! Values as parts of texts: what `ToString` gives of them.

use super::{Evaluated, EvaluationError, Evaluator, Result, short_enough};
use crate::{
    expression::{Constant, Text},
    values::enum_name,
};

impl Evaluator<'_> {
    /// A value as part of an interpolated text.
    pub(super) fn interpolated_value(
        &mut self,
        evaluated: Evaluated,
        format: Option<&str>,
    ) -> Result<String> {
        let Some(format) = format.filter(|_| self.has_value(&evaluated)) else {
            return self.text_of(&evaluated).map(|text| text.to_string());
        };
        let format = Evaluated::computed(Constant::String(format.into()));
        self.spelled_by_code(&evaluated, &[format]).map(|text| text.to_string())
    }

    /// Two values as one text.
    pub(super) fn joined(&mut self, left: &Evaluated, right: &Evaluated) -> Result<Evaluated> {
        let Text(mut units) = self.text_of(left)?;
        units.extend(self.text_of(right)?.0);
        short_enough(units.len())?;
        let is_literal =
            [left, right].iter().all(|side| matches!(side, Evaluated::Constant { is_literal: true, .. }));
        Ok(Evaluated::Constant { value: Constant::String(Text(units)), is_literal, declared: None })
    }

    /// Whether the source says that it is a text; also one that is null.
    pub(super) fn is_text(&self, evaluated: &Evaluated) -> bool {
        self.static_of(evaluated).is_some_and(|of| of.is_named("System.String"))
    }

    fn text_of(&mut self, evaluated: &Evaluated) -> Result<Text> {
        match self.plain_text(evaluated)? {
            Some(text) => Ok(text),
            None => self.spelled_by_code(evaluated, &[]),
        }
    }

    /// What is known without running code; none where only code tells.
    fn plain_text(&self, evaluated: &Evaluated) -> Result<Option<Text>> {
        if !self.has_value(evaluated) {
            return Ok(Some(Text::default()));
        }
        let constant = match self.constant(evaluated) {
            Err(EvaluationError::NoNumber { .. }) => return Ok(None),
            constant => constant?,
        };
        let definition = Self::enum_of(evaluated).and_then(|of| of.definition.as_ref());
        let name = definition.zip(constant.whole()).and_then(|(of, value)| enum_name(of, value));
        Ok(Some(match name {
            // A debugger writes flags as C# would compute them, the program does not.
            Some(name) => Text::from(name.replace(" | ", ", ").as_str()),
            None => constant.to_text(),
        }))
    }

    fn spelled_by_code(&mut self, evaluated: &Evaluated, format: &[Evaluated]) -> Result<Text> {
        if self.calls_until.is_none() {
            return Err(EvaluationError::NeedsCall { name: "ToString".into() });
        }
        let text = self.call_named(Some(evaluated.clone()), "ToString", format, &[], Vec::new())?;
        Ok(self.constant(&text)?.to_text())
    }
}
