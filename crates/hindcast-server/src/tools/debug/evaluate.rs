//! Computing expressions: `evaluate`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::{
    debug::{Evaluation, NumberFormat, ValueLimits, Variable, View},
    identity::Scope,
};
use hindcast_services::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Desk, invalid,
    looking::{DEEPEST, VariableInShort, allowed_calls, depth_note, needs_write, usual_run},
    looks, text, thread,
};
use crate::registry::{Answer, Call, Declaration, Tool};

pub(super) struct Evaluate(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EvaluateInput {
    /// `a.b[2]`, `*p`, `x = 5`; native: `sum(a[*].n)`
    ///
    /// As in the program's language: `a.b[2]`, `*p`, `x = 5`; native: `sum(a[*].n)`
    #[serde(default)]
    expression: Option<String>,
    /// Several at once
    #[serde(default)]
    expressions: Vec<String>,
    #[serde(default)]
    frame: Option<u32>,
    #[serde(default)]
    #[schemars(schema_with = "super::view")]
    language: View,
    #[serde(default)]
    thread_id: Option<u32>,
    /// Levels of members; default: what fits
    ///
    /// How many levels of members to show. Without it, those that the value's line does not tell, as far as they fit into 2 kB.
    #[serde(default)]
    depth: Option<u32>,
    #[serde(default)]
    format: NumberFormat,
    /// First member to show
    #[serde(default)]
    offset: u64,
    /// May run the program's code; needs `debug:write`
    ///
    /// May run the program's code, where the session can (.NET); needs `debug:write`
    #[serde(default)]
    allow_calls: bool,
    #[serde(default = "usual_run")]
    timeout_ms: u64,
    #[serde(default)]
    session_id: Option<String>,
}

/// A value with its parts, or several.
#[derive(Serialize)]
pub(super) struct Evaluated {
    #[serde(flatten)]
    value: Option<Variable>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<OneOfSeveral>,
}

/// What became of one of several expressions.
#[derive(Serialize)]
#[serde(untagged)]
enum OneOfSeveral {
    Value(Box<Variable>),
    Failed { name: String, error: String },
}

impl JsonSchema for Evaluated {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Evaluated".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let mut schema = VariableInShort::json_schema(generator);
        let values = serde_json::json!({ "type": "array", "description": "Of `expressions`: each value, or its `error`" });
        if let Some(fields) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
            fields.insert("values".into(), values);
        }
        schema
    }
}

/// More expressions at once than this are refused.
const MOST_EXPRESSIONS: usize = 50;

#[async_trait]
impl Tool for Evaluate {
    type Input = EvaluateInput;
    type Output = Evaluated;

    const DECLARATION: Declaration = looks(
        "debugger/evaluate",
        "Compute an expression in a frame. Runs no code of the program unless `allow_calls`",
    );

    async fn call(&self, call: &Call, input: EvaluateInput) -> Result<Answer<Evaluated>, Failure> {
        let may_write = call.caller.may(Some(Scope::DebugWrite));
        let mut asked = input.expression.iter().chain(&input.expressions);
        if !may_write && asked.any(|expression| assigns(expression)) {
            return Err(needs_write("an assignment in `debugger/evaluate`"));
        }
        let allow_calls = allowed_calls(call, "debugger/evaluate", input.allow_calls, input.timeout_ms)?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let limits = ValueLimits {
            depth: input.depth.unwrap_or(1).min(DEEPEST),
            offset: input.offset,
            ..ValueLimits::default()
        };
        let is_brief = input.depth.is_none();
        let frame = session.frame(thread(input.thread_id), input.frame)?.seen_as(input.language);
        let format = input.format;
        let evaluation = |expression: &str| Evaluation {
            expression: expression.to_owned(),
            frame,
            limits,
            format,
            may_write,
            allow_calls,
        };
        let mut said = String::new();
        let content = match (&input.expression, input.expressions.as_slice()) {
            (Some(expression), []) => {
                let mut value = session.evaluate(evaluation(expression)).await?;
                if is_brief {
                    text::in_short(&mut said, std::slice::from_mut(&mut value), 0);
                } else {
                    text::variable(&mut said, &value, 0);
                }
                Evaluated { value: Some(value), values: Vec::new() }
            }
            (None, several @ [_, ..]) if several.len() <= MOST_EXPRESSIONS => {
                let mut values = Vec::with_capacity(several.len());
                for expression in several {
                    values.push(match session.evaluate(evaluation(expression)).await {
                        Ok(mut value) => {
                            if is_brief {
                                value.children.clear();
                            }
                            text::variable(&mut said, &value, 0);
                            OneOfSeveral::Value(Box::new(value))
                        }
                        Err(failure) if failure.kind == FailureKind::InvalidInput => {
                            let error = failure.to_string();
                            let _ = write!(said, "\n{expression}: {error}");
                            OneOfSeveral::Failed { name: expression.clone(), error }
                        }
                        Err(failure) => return Err(failure),
                    });
                }
                Evaluated { value: None, values }
            }
            (None, [_, ..]) => {
                return Err(invalid(format!("more than {MOST_EXPRESSIONS} expressions at once")));
            }
            _ => return Err(invalid("give either `expression` or `expressions`")),
        };
        text::notes(&mut said, &depth_note(input.depth));
        Ok(Answer { text: said.trim_start().to_owned(), content })
    }
}

/// Whether an expression would change the program: an `=` that is no comparison, `++` or `--`.
/// What is missed here the engine refuses.
fn assigns(expression: &str) -> bool {
    let mut quote = None;
    let mut before = ' ';
    let mut letters = expression.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        match (quote, letter) {
            (Some(open), _) if letter == open && before != '\\' => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '=') if next == '=' => {
                letters.next();
            }
            (None, '=') => {
                // `<=`, `>=`, `!=` compare; `<<=` and `>>=` assign.
                let shifts = expression.contains("<<=") || expression.contains(">>=");
                if !matches!(before, '<' | '>' | '!') || shifts {
                    return true;
                }
            }
            (None, '+' | '-') if next == letter => return true,
            (None, _) => {}
        }
        before = letter;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_told_from_comparisons() {
        for changes in ["x = 5", "x=5", "a.b[2] = 1", "x += 1", "i++", "--i", "x <<= 2", "p->n = q == r"] {
            assert!(assigns(changes), "{changes}");
        }
        for looks in ["x == 5", "x <= y", "x != 1 && y >= 2", "\"a=b\"", "s == 'x'", "x + -1", "a[i]", "'='"]
        {
            assert!(!assigns(looks), "{looks}");
        }
    }
}
