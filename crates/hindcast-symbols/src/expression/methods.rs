//! Methods that the layout of a value answers, without running anything.

use super::{
    compare::whole_text,
    error::ExpressionError as Failure,
    evaluate::{Evaluator, Operand, absent},
    scalar::{Scalar, Whole},
    syntax::Node,
};
use crate::{
    types::{Language, TypeKind},
    value::{Placed, shape::Shape, text::Length},
};

impl Evaluator<'_> {
    pub(super) fn method(&self, of: &Node, name: &str, column: usize) -> Result<Operand, Failure> {
        let value = self.placed(of)?;
        let unknown = || Failure::UnknownMethod {
            column,
            name: name.to_owned(),
            type_name: self.types().name_of(value.type_ref),
        };
        let truth = |truth: bool| Ok(Operand::Scalar(Scalar::Truth(truth)));
        match name {
            "len" | "size" | "length" | "count" => {
                let count = self.length(&value, column)?.ok_or_else(unknown)?;
                let rust = self.layout.is_rust(value.type_ref);
                let whole = Whole { bits: 64, signed: false, rust };
                Ok(Operand::Scalar(whole.wrap(i128::from(count))))
            }
            "is_empty" | "empty" => truth(self.length(&value, column)?.ok_or_else(unknown)? == 0),
            "is_some" | "is_none" | "is_ok" | "is_err" => {
                let (case, _) = self.case(&value).ok_or_else(unknown)?;
                let positive = if name.ends_with("some") || name.ends_with("none") { "Some" } else { "Ok" };
                truth((case == positive) == matches!(name, "is_some" | "is_ok"))
            }
            "has_value" => {
                let engaged = self.layout.number_at(&value, &["_M_payload", "_M_engaged"]);
                truth(engaged.ok_or_else(unknown)? != 0)
            }
            "is_null" => truth(!self.load(&value, column)?.is_true()),
            "unwrap" => match self.case(&value) {
                Some((case, payload)) if case == "Some" || case == "Ok" => {
                    self.layout.field(&payload, "0").map(Operand::Placed).ok_or_else(unknown)
                }
                _ => Err(unknown()),
            },
            // What these give is what the value is shown as.
            "get" | "value" | "borrow" | "as_ref" | "load" | "c_str" | "data" | "as_str" => {
                match self.layout.shape(&value) {
                    Shape::Inner { target, .. } => Ok(Operand::Placed(target)),
                    Shape::Text(_) => Ok(Operand::Placed(value)),
                    _ => Err(unknown()),
                }
            }
            _ => Err(unknown()),
        }
    }

    /// How many elements or bytes; `None` where the value has no length.
    fn length(&self, value: &Placed, column: usize) -> Result<Option<u64>, Failure> {
        let mut at = value.clone();
        for _ in 0..16 {
            match self.layout.shape(&at) {
                Shape::List(list) => return Ok(Some(list.count)),
                Shape::Text(text) => {
                    return match text.length {
                        Length::Known(count) => Ok(Some(count)),
                        // Of a text that ends at a NUL there is no other way.
                        _ => whole_text(&self.layout, &text, 1 << 20)
                            .map(|text| Some(text.len() as u64))
                            .map_err(|absence| absent(absence, column)),
                    };
                }
                Shape::Inner { target, .. } => at = target,
                Shape::Corrupt(_) => return Ok(None),
                Shape::Plain => {
                    let Some((_, found)) = self.layout.real(&at) else { return Ok(None) };
                    // A pointer to a container, written as if it were one.
                    match (&found.kind, found.language) {
                        (TypeKind::Pointer { .. }, Language::Rust | Language::Cpp) => {
                            match self.layout.target(&at) {
                                Some(target) => at = target,
                                None => return Ok(None),
                            }
                        }
                        _ => return Ok(None),
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The case a Rust enum is in, also behind references.
    fn case(&self, value: &Placed) -> Option<(String, Placed)> {
        let mut at = value.clone();
        for _ in 0..16 {
            let (_, found) = self.layout.real(&at)?;
            if let TypeKind::Struct(structure) = &found.kind
                && structure.variants.is_some()
            {
                return self.layout.active_case(&at, structure);
            }
            let Shape::Inner { target, .. } = self.layout.shape(&at) else { return None };
            at = target;
        }
        None
    }
}
