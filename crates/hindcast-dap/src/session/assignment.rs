//! Assignments.

use hindcast_core::debug::{DebugError, Reason};
use serde_json::{Value, json};

use super::{Session, ask::Refusal, values::failed};
use crate::transport::ConnectionId;

impl Session {
    /// Sets a variable or a part of a value.
    pub(super) fn assign(
        &mut self,
        connection: ConnectionId,
        frame: i64,
        name: &str,
        value: &str,
    ) -> Result<(), DebugError> {
        let capabilities = self.client.connections[connection.0].capabilities.clone();
        let whole = format!("{name} = {value}");
        if capabilities.supports_set_expression {
            let arguments = json!({ "expression": name, "value": value, "frameId": frame });
            return self
                .ask::<Value>(connection, "setExpression", arguments)
                .map(drop)
                .map_err(|why| failed(&whole, why));
        }
        if capabilities.supports_set_variable {
            match self.set_variable(connection, frame, name, value) {
                Some(Ok(())) => return Ok(()),
                Some(Err(refusal)) => return Err(failed(&whole, refusal)),
                None => {}
            }
        }
        let arguments = json!({ "expression": whole, "frameId": frame, "context": "repl" });
        self.ask::<Value>(connection, "evaluate", arguments).map(drop).map_err(|refusal| match refusal {
            Refusal::Refused(why) => DebugError::Expression(
                Reason::new(format!("`{whole}` cannot be carried out: {why}"))
                    .advise("assign to a variable of the frame"),
            ),
            other => other.into(),
        })
    }

    /// Sets a variable of a frame by its scope; `None` where no scope has it.
    fn set_variable(
        &mut self,
        connection: ConnectionId,
        frame: i64,
        name: &str,
        value: &str,
    ) -> Option<Result<(), Refusal>> {
        let body: Value = self.ask(connection, "scopes", json!({ "frameId": frame })).ok()?;
        for scope in body["scopes"].as_array()? {
            let reference = &scope["variablesReference"];
            let body: Value =
                self.ask(connection, "variables", json!({ "variablesReference": reference })).ok()?;
            let has =
                body["variables"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name));
            if has {
                let arguments = json!({ "variablesReference": reference, "name": name, "value": value });
                return Some(self.ask::<Value>(connection, "setVariable", arguments).map(drop));
            }
        }
        None
    }
}

/// What is set to what, where an expression is an assignment.
pub(super) fn assignment(expression: &str) -> Option<(&str, &str)> {
    let bytes = expression.as_bytes();
    let mut depth = 0_i32;
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match (quote, byte) {
            (Some(_), b'\\') => at += 1,
            (Some(open), byte) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'(' | b'[' | b'{') => depth += 1,
            (None, b')' | b']' | b'}') => depth -= 1,
            (None, b'=') if depth == 0 => {
                let before = at.checked_sub(1).map(|before| bytes[before]);
                let after = bytes.get(at + 1);
                let compares = matches!(before, Some(b'=' | b'!' | b'<' | b'>' | b':'))
                    || matches!(after, Some(b'=' | b'>' | b'~'));
                if compares {
                    return None;
                }
                // `x += 1` is `x = x + 1`, which nobody here can spell for all languages.
                let is_combined = matches!(
                    before,
                    Some(b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'@' | b'?')
                );
                let name = expression[..at].trim();
                let value = expression[at + 1..].trim();
                return (!is_combined && !name.is_empty() && !value.is_empty()).then_some((name, value));
            }
            _ => {}
        }
        at += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_told_apart_from_comparisons() {
        for (text, expected) in [
            ("x = 3", Some(("x", "3"))),
            ("a.b[0]=f(x)", Some(("a.b[0]", "f(x)"))),
            ("d['='] = \"a=b\"", Some(("d['=']", "\"a=b\""))),
            ("x == 3", None),
            ("x != 3", None),
            ("x <= 3", None),
            ("x >= 3", None),
            ("f(a=3)", None),
            ("x => x", None),
            ("(y := 3)", None),
            ("x += 1", None),
            ("'a = b'", None),
            ("x", None),
            ("x =", None),
        ] {
            assert_eq!(assignment(text), expected, "{text}");
        }
    }
}
