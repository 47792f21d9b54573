//! Operators, casts and tests of types.

use super::{Evaluated, EvaluationError, Evaluator, Result};
use crate::{
    expression::{
        Binary, Constant, Node, Operand, Pattern, Primitive, TypeKind, TypeName, Unary, binary, unary,
    },
    image::{Spelling, TypeSig},
    values::{Content, Seen, TypeInfo},
};

impl Evaluator<'_> {
    pub(super) fn unary_of(&self, operator: Unary, operand: &Evaluated) -> Result<Evaluated> {
        let is_literal = matches!(operand, Evaluated::Constant { is_literal: true, .. });
        let value = unary(operator, &self.constant(operand)?)?;
        Ok(Evaluated::Constant { value, is_literal })
    }

    pub(super) fn binary_of(
        &self,
        operator: Binary,
        left: &Evaluated,
        right: &Evaluated,
    ) -> Result<Evaluated> {
        if let Some(same) = self.same_reference(left, right)
            && matches!(operator, Binary::Equal | Binary::NotEqual)
        {
            return Ok(Evaluated::computed(Constant::Bool(same == (operator == Binary::Equal))));
        }
        let (left_value, right_value) = match operator {
            // Text takes everything in.
            Binary::Add => (self.constant_or_text(left, right)?, self.constant_or_text(right, left)?),
            _ => (self.constant(left)?, self.constant(right)?),
        };
        let operand = |evaluated: &Evaluated, value| match evaluated {
            Evaluated::Constant { is_literal: true, .. } => Operand::constant(value),
            _ => Operand::variable(value),
        };
        let value = binary(operator, operand(left, &left_value), operand(right, &right_value))?;
        if Self::enum_of(left).is_some() || Self::enum_of(right).is_some() {
            return self.of_enums(operator, left, right, value);
        }
        let is_literal =
            [left, right].iter().all(|side| matches!(side, Evaluated::Constant { is_literal: true, .. }));
        Ok(Evaluated::Constant { value, is_literal })
    }

    /// What joins a text: itself where it can be computed with, what a debugger shows otherwise.
    fn constant_or_text(&self, evaluated: &Evaluated, other: &Evaluated) -> Result<Constant> {
        match (self.constant(evaluated), evaluated) {
            (Ok(value), _) => Ok(value),
            (Err(_), Evaluated::Value(seen)) if self.is_text(other) => {
                let text = self.session.values().brief(seen, Default::default());
                Ok(Constant::String(text.as_str().into()))
            }
            (Err(error), _) => Err(error),
        }
    }

    pub(super) fn is_text(&self, evaluated: &Evaluated) -> bool {
        matches!(self.constant(evaluated), Ok(Constant::String(_)))
    }

    /// Whether two references are to the same object; none where values are compared.
    fn same_reference(&self, left: &Evaluated, right: &Evaluated) -> Option<bool> {
        let address = |evaluated: &Evaluated| match evaluated {
            Evaluated::Constant { value: Constant::Null, .. } => Some(0),
            Evaluated::Value(seen) => match &seen.content {
                Content::Null => Some(0),
                Content::Pointer(address) => Some(*address),
                Content::Object(_) | Content::Array(_) if !seen.of.is_value_type() => seen.object_address(),
                _ => None,
            },
            _ => None,
        };
        let is_text = |evaluated: &Evaluated| self.is_text(evaluated);
        match (address(left), address(right)) {
            (Some(left), Some(right)) => Some(left == right),
            // A text or a struct is there, so it is not null.
            (Some(0), None) if is_text(right) => Some(false),
            (None, Some(0)) if is_text(left) => Some(false),
            _ => None,
        }
    }

    pub(super) fn cast(&mut self, to: &TypeName, operand: &Node) -> Result<Evaluated> {
        let evaluated = self.node(operand)?;
        if let Some(primitive) = primitive_named(to) {
            let is_literal = matches!(evaluated, Evaluated::Constant { is_literal: true, .. });
            let value = self.constant(&evaluated)?.cast(primitive)?;
            return Ok(Evaluated::Constant { value, is_literal });
        }
        let wanted = self.type_named(to)?;
        if let Evaluated::Value(seen) = &evaluated
            && (seen.is_null() || matches!(to.kind, TypeKind::Object) || self.is_a(seen, &wanted))
        {
            return Ok(Evaluated::Value(Seen { as_type: Some(wanted), ..seen.clone() }));
        }
        if evaluated.is_null() || matches!(to.kind, TypeKind::Object) {
            return Ok(evaluated);
        }
        if wanted.is_enum() {
            return self.enum_value(&wanted, &evaluated);
        }
        let from = self.type_text(&evaluated);
        Err(EvaluationError::BadCast { from, to: wanted.display() })
    }

    /// A number as a value of an enum.
    fn enum_value(&self, wanted: &TypeInfo, evaluated: &Evaluated) -> Result<Evaluated> {
        let constant = self.constant(evaluated)?;
        let bad = || EvaluationError::BadCast { from: constant.type_name().to_owned(), to: wanted.display() };
        constant.whole().ok_or_else(bad)?;
        let inside = wanted.definition.as_ref().and_then(|definition| definition.type_def()?.enum_type());
        let primitive = match inside {
            Some(TypeSig::Primitive(primitive)) => Primitive::of_class(primitive.full_name()),
            _ => None,
        };
        let value = constant.cast(primitive.ok_or_else(bad)?)?;
        Ok(Evaluated::Enum { of: wanted.clone(), value })
    }

    /// The enum that a value belongs to.
    pub(super) fn enum_of(evaluated: &Evaluated) -> Option<&TypeInfo> {
        match evaluated {
            Evaluated::Enum { of, .. } => Some(of),
            Evaluated::Value(seen) if seen.of.is_enum() => Some(&seen.of),
            _ => None,
        }
    }

    /// What an operator makes of enums: two of different enums have none, flags stay of their enum.
    fn of_enums(
        &self,
        operator: Binary,
        left: &Evaluated,
        right: &Evaluated,
        value: Constant,
    ) -> Result<Evaluated> {
        let of = match (Self::enum_of(left), Self::enum_of(right)) {
            (Some(one), Some(other)) if one.display() == other.display() => match operator {
                Binary::BitAnd | Binary::BitOr | Binary::BitXor => Some(one),
                _ => None,
            },
            (Some(one), None) if matches!(operator, Binary::Add | Binary::Subtract) => Some(one),
            _ => None,
        };
        match of {
            Some(of) if value.whole().is_some() => self.enum_value(&of.clone(), &Evaluated::computed(value)),
            _ => Ok(Evaluated::computed(value)),
        }
    }

    pub(super) fn as_type(&mut self, operand: &Node, to: &TypeName) -> Result<Evaluated> {
        let evaluated = self.node(operand)?;
        let wanted = self.type_named(to)?;
        let fits = match &evaluated {
            Evaluated::Value(seen) => self.is_a(seen, &wanted),
            other => self.type_text(other) == wanted.display(),
        };
        Ok(match evaluated {
            Evaluated::Value(seen) if fits => Evaluated::Value(Seen { as_type: Some(wanted), ..seen }),
            evaluated if fits => evaluated,
            _ => Evaluated::computed(Constant::Null),
        })
    }

    pub(super) fn matches(&mut self, value: &Node, pattern: &Pattern) -> Result<bool> {
        let evaluated = self.node(value)?;
        match pattern {
            Pattern::Null => Ok(!self.has_value(&evaluated)),
            Pattern::Constant(constant) => {
                let constant = self.node(constant)?;
                let equal = self.binary_of(Binary::Equal, &evaluated, &constant)?;
                Ok(self.constant(&equal)? == Constant::Bool(true))
            }
            Pattern::Type(of) => {
                let wanted = self.type_named(of)?;
                Ok(match &evaluated {
                    _ if !self.has_value(&evaluated) => false,
                    Evaluated::Value(seen) => self.is_a(seen, &wanted),
                    other => self.type_text(other) == wanted.display(),
                })
            }
        }
    }

    /// Whether a value is of a type: its own, one that it derives from, or an interface.
    pub(super) fn is_a(&self, seen: &Seen, wanted: &TypeInfo) -> bool {
        self.is_one(&seen.of, wanted)
    }

    /// Whether all values of a type are of another.
    pub(super) fn is_one(&self, of: &TypeInfo, wanted: &TypeInfo) -> bool {
        let name = wanted.spelled(Spelling::Qualified);
        if wanted.is_named("System.Object") {
            return true;
        }
        let bases = of.with_bases(&self.session.modules);
        if bases.iter().any(|base| base.spelled(Spelling::Qualified) == name) {
            return true;
        }
        bases.iter().any(|base| {
            let Some(definition) = &base.definition else { return false };
            let Some(type_def) = definition.type_def() else { return false };
            let Some(assembly) = definition.module.assembly() else { return false };
            type_def.interfaces().into_iter().filter_map(|token| assembly.type_sig(token)).any(|interface| {
                let full_name = interface.definition().and_then(|token| assembly.type_full_name(token));
                // The arguments cost more to find than the name.
                if full_name.as_deref() != wanted.full_name_ref() {
                    return false;
                }
                let of = self.session.type_of_signature(&definition.module, &interface, &base.arguments, &[]);
                of.is_some_and(|of| of.spelled(Spelling::Qualified) == name)
            })
        })
    }

    pub(super) fn type_text(&self, evaluated: &Evaluated) -> String {
        match evaluated {
            Evaluated::Constant { value, .. } => value.type_name().to_owned(),
            Evaluated::Enum { of, .. } => of.display(),
            Evaluated::Value(seen) => seen.of.display(),
            Evaluated::Type(of) => of.display(),
            Evaluated::Namespace(name) => name.clone(),
        }
    }

    pub(super) fn size_of(&mut self, of: &TypeName) -> Result<Evaluated> {
        let size = primitive_named(of).and_then(Primitive::size);
        let size = size.and_then(|size| i32::try_from(size).ok());
        size.map(|size| Evaluated::computed(Constant::Int(size)))
            .ok_or(EvaluationError::NotSupported { what: "`sizeof` of anything but a built-in type" })
    }

    pub(super) fn default_of(&mut self, of: Option<&TypeName>) -> Result<Evaluated> {
        let Some(of) = of else {
            return Err(EvaluationError::NotSupported { what: "`default` without a type" });
        };
        if let Some(primitive) = primitive_named(of) {
            return Ok(Evaluated::computed(primitive.default_value()));
        }
        match self.type_named(of)? {
            of if of.is_value_type() => Err(EvaluationError::NotSupported { what: "`default` of a struct" }),
            _ => Ok(Evaluated::computed(Constant::Null)),
        }
    }
}

/// The built-in type that a name means.
pub(super) fn primitive_named(of: &TypeName) -> Option<Primitive> {
    match &of.kind {
        TypeKind::Primitive(primitive) => Some(*primitive),
        TypeKind::Named { path, .. } => {
            let names: Vec<&str> = path.iter().map(|part| part.name.text.as_str()).collect();
            match names.as_slice() {
                ["System", name] => Primitive::of_class(&format!("System.{name}")),
                _ => None,
            }
        }
        _ => None,
    }
}
