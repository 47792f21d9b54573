//! Variables of a frame, and expressions in it.

use std::sync::Arc;

use hindcast_core::debug::{
    DebugError, Evaluation, NumberFormat, Reason, Variable, VariablePage, VariableQuery, VariableScope,
};
use hindcast_symbols::{
    expression::{Evaluated, Expression, ExpressionError, Target},
    value::{Inspector, Placed},
};

use super::{FrameScope, registers};

/// The variables that were asked for.
pub(crate) fn variables(scope: &FrameScope<'_>, query: &VariableQuery) -> VariablePage {
    let all = match query.scope {
        VariableScope::Local => scope.locals(),
        VariableScope::Arguments => {
            scope.locals().into_iter().filter(|variable| variable.is_argument).collect()
        }
        VariableScope::Global => scope.globals(),
        VariableScope::Registers => return register_page(scope, query),
    };
    let wanted: Vec<_> = all.into_iter().filter(|variable| is_wanted(&variable.name, query)).collect();
    let inspector = Inspector::new(&scope.types, scope.scene.memory, query.limits, NumberFormat::Auto);
    let page = wanted.iter().skip(query.offset as usize).take(query.limit as usize);
    VariablePage {
        variables: page.map(|variable| inspector.show(&variable.name, &scope.place(variable))).collect(),
        total: u32::try_from(wanted.len()).unwrap_or(u32::MAX),
    }
}

fn is_wanted(name: &str, query: &VariableQuery) -> bool {
    query.filter.as_deref().is_none_or(|filter| name.contains(filter))
}

fn register_page(scope: &FrameScope<'_>, query: &VariableQuery) -> VariablePage {
    let all: Vec<_> = registers(scope, hindcast_core::debug::RegisterSet::General)
        .into_iter()
        .filter(|register| is_wanted(&register.name, query))
        .collect();
    let tell = |register: &hindcast_core::debug::Register| Variable {
        name: register.name.clone(),
        type_name: "u64".into(),
        value: register.value.clone().unwrap_or_else(|| "<not kept by the callee>".into()),
        ..Variable::default()
    };
    VariablePage {
        variables: all.iter().skip(query.offset as usize).take(query.limit as usize).map(tell).collect(),
        total: u32::try_from(all.len()).unwrap_or(u32::MAX),
    }
}

/// A value, and what is to be written to make it so.
pub(crate) struct Shown {
    pub(crate) shown: Variable,
    pub(crate) write: Option<Write>,
}

/// An assignment to be carried out.
#[derive(Debug)]
pub(crate) enum Write {
    Memory {
        address: u64,
        bytes: Vec<u8>,
    },
    /// Bytes of a register, from the one at `offset` on.
    Register {
        name: Arc<str>,
        offset: u64,
        bytes: Vec<u8>,
    },
}

/// Computes an expression; an assignment is only prepared.
pub(crate) fn evaluate(scope: &FrameScope<'_>, evaluation: &Evaluation) -> Result<Shown, DebugError> {
    let failed = |error: ExpressionError| {
        DebugError::Expression(match error {
            ExpressionError::Call { column, name } | ExpressionError::UnknownMethod { column, name, .. }
                if evaluation.allow_calls.is_some() =>
            {
                let what = format!(
                    "`{name}` is called at column {column}, but native sessions cannot run the program's code"
                );
                Reason::new(what).advise("evaluate what the function reads")
            }
            error => error.into(),
        })
    };
    let expression = Expression::parse(&evaluation.expression).map_err(failed)?;
    if expression.writes() && !evaluation.may_write {
        return Err(DebugError::PermissionDenied(
            "assigning changes the program, which needs the scope `debug:write`".into(),
        ));
    }
    let inspector = Inspector::new(&scope.types, scope.scene.memory, evaluation.limits, evaluation.format);
    let show = |value: &Placed| inspector.show(&evaluation.expression, value);
    match expression.evaluate(scope).map_err(failed)? {
        Evaluated::Value(value) => Ok(Shown { shown: show(&value), write: None }),
        Evaluated::Assignment { target, bytes, value } => {
            Ok(Shown { shown: show(&value), write: Some(destination(target, bytes)) })
        }
    }
}

fn destination(target: Target, bytes: Vec<u8>) -> Write {
    match target {
        Target::Memory(address) => Write::Memory { address, bytes },
        Target::Register { name, offset } => Write::Register { name, offset, bytes },
    }
}
