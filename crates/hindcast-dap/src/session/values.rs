//! Variables, and what is shown of a value.

use std::sync::Arc;

use hindcast_core::debug::{
    DebugError, Evaluation, NumberFormat, Reason, Remedy, ValueLimits, Variable, VariablePage, VariableQuery,
    VariableScope,
};
use regex_lite::Regex;
use serde_json::{Value, json};

use super::{Session, ask::Refusal, assignment::assignment, types::Stops};
use crate::{
    protocol::{DapVariable, Scope},
    purity,
    transport::ConnectionId,
};

/// So many parts of a value are asked for at once.
const MOST_PARTS: u64 = 1000;

impl Session {
    pub(super) fn variables_of(&mut self, query: &VariableQuery) -> Result<VariablePage, DebugError> {
        if query.scope == VariableScope::Registers {
            let reason = Reason::new("a debug adapter's session has no registers");
            return Err(DebugError::Unsupported(reason.advise("ask for `local`, `arguments` or `global`")));
        }
        let (connection, frame) = self.frame(query.frame)?;
        let in_task = self.in_task(query.frame, &frame);
        let scopes = match in_task {
            Some(at) => vec![Scope {
                name: "Locals".into(),
                variables_reference: self.locals_in_task(connection, at)?.variables_reference,
                ..Scope::default()
            }],
            None => self.scopes(connection, frame.id)?,
        };
        let mut all: Vec<DapVariable> = Vec::new();
        let tells_arguments = scopes.iter().any(|scope| belongs(scope, VariableScope::Arguments));
        let by_source = query.scope == VariableScope::Arguments && !tells_arguments;
        let wanted = if by_source { VariableScope::Local } else { query.scope };
        for scope in scopes.iter().filter(|scope| belongs(scope, wanted)) {
            let found = self.parts(connection, scope.variables_reference, None)?;
            for variable in found.iter() {
                if self.profile.flattened.contains(&variable.name) || variable.name == "function variables" {
                    let group = self.parts(connection, variable.variables_reference, None)?;
                    all.extend(group.iter().cloned());
                } else if !self.is_hidden(variable) && !self.is_everywhere(variable) {
                    all.push(variable.clone());
                }
            }
        }
        if in_task.is_some() {
            // They are the items of a dictionary.
            all.iter_mut().for_each(|variable| variable.name = variable.name.trim_matches('\'').to_owned());
        }
        if by_source {
            all = self.only_arguments(&frame, all)?;
        }
        if let Some(filter) = query.filter.as_deref().filter(|filter| !filter.is_empty()) {
            let filter = filter.to_lowercase();
            all.retain(|variable| variable.name.to_lowercase().contains(&filter));
        }
        let total = u32::try_from(all.len()).unwrap_or(u32::MAX);
        let offset = usize::try_from(query.offset).unwrap_or(usize::MAX);
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let wanted: Vec<_> = all.into_iter().skip(offset).take(limit).collect();
        // A value says what is in it on one line; asking for its parts costs as much as everything else.
        let limits = ValueLimits { depth: query.limits.depth.saturating_sub(1), ..query.limits };
        let variables = wanted.iter().map(|variable| self.shown(connection, variable, limits)).collect();
        Ok(VariablePage { variables, total })
    }

    /// Whether every function has it, so that it says nothing.
    fn is_everywhere(&self, variable: &DapVariable) -> bool {
        let is_global_this =
            variable.name == "this" && matches!(variable.value.as_str(), "global" | "undefined");
        is_global_this || self.profile.hidden_locals.contains(&variable.name)
    }

    fn is_hidden(&self, variable: &DapVariable) -> bool {
        self.profile.hidden.contains(&variable.name)
    }

    fn scopes(&mut self, connection: ConnectionId, frame: i64) -> Result<Vec<Scope>, DebugError> {
        if let Some(known) = self.seen.scopes.get(&(connection, frame)) {
            return Ok(known.clone());
        }
        let body: Value = self.ask(connection, "scopes", json!({ "frameId": frame }))?;
        let scopes: Vec<Scope> = serde_json::from_value(body["scopes"].clone()).unwrap_or_default();
        self.seen.scopes.insert((connection, frame), scopes.clone());
        Ok(scopes)
    }

    /// The parts of a value; of a long one only a page, where the adapter can do that.
    fn parts(
        &mut self,
        connection: ConnectionId,
        reference: i64,
        page: Option<(u64, u64)>,
    ) -> Result<Arc<Vec<DapVariable>>, DebugError> {
        if reference <= 0 {
            return Ok(Arc::default());
        }
        if let Some(known) = self.seen.variables.get(&(connection, reference)).filter(|_| page.is_none()) {
            return Ok(known.clone());
        }
        let mut arguments = json!({ "variablesReference": reference });
        if let Some((start, count)) = page {
            arguments["filter"] = "indexed".into();
            arguments["start"] = start.into();
            arguments["count"] = count.into();
        }
        let body: Value = self.ask(connection, "variables", arguments)?;
        let parts: Vec<DapVariable> = serde_json::from_value(body["variables"].clone()).unwrap_or_default();
        let parts = Arc::new(parts);
        if page.is_none() {
            self.seen.variables.insert((connection, reference), parts.clone());
        }
        Ok(parts)
    }

    /// A value within limits.
    fn shown(&mut self, connection: ConnectionId, variable: &DapVariable, limits: ValueLimits) -> Variable {
        let is_lazy = variable.presentation_hint.as_ref().is_some_and(|hint| hint.lazy);
        let is_opaque = is_opaque(&variable.value);
        let mut shown = Variable {
            name: variable.name.clone(),
            type_name: variable.type_name.clone(),
            value: variable.value.clone(),
            ..Variable::default()
        };
        let indexed = variable.indexed_variables.unwrap_or(0);
        let counted = variable.named_variables.map(|named| named + indexed).or(variable.indexed_variables);
        shown.child_count = counted.filter(|count| *count > 0);
        if variable.variables_reference > 0 && !is_lazy && (limits.depth > 0 || is_opaque) {
            let page = (indexed > MOST_PARTS || limits.offset > 0 && indexed > 0)
                .then(|| (limits.offset, u64::from(limits.children).clamp(1, MOST_PARTS)))
                // Some tell of parts behind the end, too.
                .map(|(from, count)| (from, count.min(indexed.saturating_sub(from))));
            let parts = match page {
                Some((_, 0)) => Arc::default(),
                page => self.parts(connection, variable.variables_reference, page).unwrap_or_default(),
            };
            let is_rest = |part: &DapVariable| self.profile.rest.contains(&part.name);
            let length = parts.iter().find(|part| !part.name.is_empty() && part.name == self.profile.length);
            let length = length.and_then(|length| length.value.parse().ok());
            let counted = length.or(counted);
            shown.truncated |= parts.iter().any(is_rest);
            let is_shown = |part: &&DapVariable| !self.is_hidden(part) && !is_rest(part);
            let mut parts: Vec<_> = parts.iter().filter(is_shown).cloned().collect();
            let total = counted.unwrap_or(parts.len() as u64).max(parts.len() as u64);
            shown.child_count = Some(total).filter(|total| *total > 0);
            if page.is_none() {
                let skipped = usize::try_from(limits.offset).unwrap_or(usize::MAX);
                parts.drain(..skipped.min(parts.len()));
            }
            let most = usize::try_from(limits.children).unwrap_or(usize::MAX);
            shown.truncated |= parts.len() > most || total > parts.len() as u64;
            parts.truncate(most);
            if is_opaque && !parts.is_empty() {
                shown.value = composed(variable, &parts, shown.truncated);
            }
            if limits.depth > 0 {
                let inner = ValueLimits { depth: limits.depth - 1, offset: 0, ..limits };
                shown.children = parts.iter().map(|part| self.shown(connection, part, inner)).collect();
            }
        }
        cut(&mut shown, limits.text);
        shown
    }

    pub(super) fn evaluated(&mut self, evaluation: &Evaluation) -> Result<Variable, DebugError> {
        let expression = evaluation.expression.trim();
        if expression.is_empty() {
            let reason = Reason::new("the expression is empty").remedy(Remedy::ListVariables);
            return Err(DebugError::Expression(reason));
        }
        let (connection, frame) = self.frame(evaluation.frame)?;
        let in_task = self.in_task(evaluation.frame, &frame);
        if let Some((name, value)) = assignment(expression) {
            if in_task.is_some() {
                let reason = Reason::new("variables of a task that waits cannot be assigned to");
                return Err(DebugError::Expression(
                    reason.advise("stop in the task with a breakpoint first"),
                ));
            }
            if !evaluation.may_write {
                let reason =
                    Reason::new(format!("`{expression}` is an assignment, which is not allowed here"));
                return Err(DebugError::Expression(reason.advise("evaluate the value alone; `==` compares")));
            }
            if evaluation.allow_calls.is_none() {
                check_purity(value)?;
                check_purity(name)?;
            }
            self.assign(connection, frame.id, name, value)?;
            self.seen.forget_values();
            let now = self.value_of(connection, frame.id, name, None)?;
            return Ok(self.answer(connection, expression, &now, evaluation));
        }
        if evaluation.allow_calls.is_none() {
            check_purity(expression)?;
        }
        let result = match in_task {
            Some(at) => self
                .value_in_task(connection, at, expression)
                .map_err(|refusal| failed(expression, refusal))?,
            None => self.value_of(connection, frame.id, expression, evaluation.allow_calls)?,
        };
        if let Some(page) = self.page_of(connection, frame.id, expression, &result, evaluation) {
            return Ok(page);
        }
        if evaluation.allow_calls.is_some() {
            // What ran may have changed anything.
            self.seen.forget_values();
        }
        Ok(self.answer(connection, expression, &result, evaluation))
    }

    /// A later part of a sequence of which the adapter shows only the beginning.
    fn page_of(
        &mut self,
        connection: ConnectionId,
        frame: i64,
        expression: &str,
        whole: &DapVariable,
        evaluation: &Evaluation,
    ) -> Option<Variable> {
        let limits = evaluation.limits;
        let is_sliced =
            limits.offset > 0 && limits.depth > 0 && self.profile.sliced.contains(&whole.type_name);
        // Its own value would be computed twice.
        if !is_sliced || frame < 0 || purity::check(expression).is_err() {
            return None;
        }
        let to = limits.offset.saturating_add(u64::from(limits.children));
        let slice = self.profile.slice.replace("{value}", expression);
        let slice = slice.replace("{from}", &limits.offset.to_string()).replace("{to}", &to.to_string());
        let part = self.value_of(connection, frame, &slice, None).ok()?;
        let part = self.shown(connection, &part, ValueLimits { offset: 0, ..limits });
        let head = ValueLimits { offset: 0, depth: 1, children: 0, ..limits };
        let named = DapVariable { name: expression.to_owned(), ..whole.clone() };
        let mut shown = self.shown(connection, &named, head);
        shown.truncated = true;
        shown.children = part.children;
        for (number, child) in (limits.offset..).zip(&mut shown.children) {
            child.name = number.to_string();
        }
        Some(shown)
    }

    fn answer(
        &mut self,
        connection: ConnectionId,
        expression: &str,
        result: &DapVariable,
        evaluation: &Evaluation,
    ) -> Variable {
        let named = DapVariable { name: expression.to_owned(), ..result.clone() };
        let mut shown = self.shown(connection, &named, evaluation.limits);
        formatted(&mut shown, evaluation.format);
        shown
    }

    fn value_of(
        &mut self,
        connection: ConnectionId,
        frame: i64,
        expression: &str,
        calls: Option<std::time::Duration>,
    ) -> Result<DapVariable, DebugError> {
        let arguments = json!({ "expression": expression, "frameId": frame, "context": "watch" });
        let within = calls.unwrap_or_else(|| self.answer_within());
        let value: Result<DapVariable, _> = match purity::check(expression) {
            Ok(()) => self.ask_within(connection, "evaluate", arguments, within),
            Err(_) => self.undisturbed(connection, Stops::All, |session| {
                session.ask_within(connection, "evaluate", arguments, within)
            }),
        };
        let value = value.map_err(|refusal| failed(expression, refusal))?;
        if self.profile.failed_values.iter().any(|start| value.value.starts_with(start)) {
            return Err(failed(expression, Refusal::Refused(value.value)));
        }
        Ok(value)
    }
}

fn check_purity(expression: &str) -> Result<(), DebugError> {
    purity::check(expression).map_err(|what| {
        DebugError::Expression(
            Reason::new(format!("{what} runs code of the program, which is not allowed here"))
                .advise("allow it with `allow_calls: true`, or evaluate the parts"),
        )
    })
}

pub(super) fn failed(expression: &str, refusal: Refusal) -> DebugError {
    match refusal {
        Refusal::Refused(why) => {
            // Some send a whole traceback, of which the last line tells it.
            let last = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or(&why).trim().to_owned();
            let first = why.lines().next().unwrap_or_default();
            let told = if first.starts_with("Traceback") { last } else { first.trim().to_owned() };
            let reason = Reason::new(format!("`{expression}` has no value: {told}"));
            let is_unknown = [
                "not defined",
                "not found",
                "Cannot resolve",
                "undeclared",
                "could not find symbol",
                "undefined",
            ]
            .iter()
            .any(|word| told.contains(word));
            DebugError::Expression(if is_unknown { reason.remedy(Remedy::ListVariables) } else { reason })
        }
        other => other.into(),
    }
}

/// Whether the variables of a scope are among those that are asked for.
fn belongs(scope: &Scope, asked: VariableScope) -> bool {
    let name = scope.name.to_lowercase();
    let hint = scope.presentation_hint.as_deref().unwrap_or_default();
    let is_register = hint == "registers" || name.starts_with("register") || name.starts_with("cpu");
    let is_global = name.contains("global") || name.contains("static") || hint == "globals";
    let is_closure = name.starts_with("closure") || name.starts_with("script");
    // js-debug says so of closures.
    let is_argument = !is_closure && (hint == "arguments" || name.starts_with("argument"));
    match asked {
        VariableScope::Registers => is_register,
        VariableScope::Global => is_global || is_closure,
        VariableScope::Arguments => is_argument,
        VariableScope::Local => !(is_register || is_global || is_closure || scope.expensive),
    }
}

/// Whether a text says no more than what kind of thing it is and where.
fn is_opaque(value: &str) -> bool {
    let is_python = value.starts_with('<') && value.ends_with('>') && value.contains(" object at 0x");
    // Ruby and others; then objects and arrays of Java.
    let others = r" @ 0x[0-9a-f]+$|^[A-Za-z_][\w.$]*@[0-9]+$|^[A-Za-z_][\w.$]*(\[\])+\[[0-9]+\]$";
    is_python || Regex::new(others).is_ok_and(|place| place.is_match(value))
}

/// `Order(id=3, name='x')`.
fn composed(variable: &DapVariable, parts: &[DapVariable], cut: bool) -> String {
    // What an object is says more than what a variable may hold.
    let said = variable.value.split_once('@').map(|(name, _)| name).filter(|name| !name.contains(' '));
    let name = said.unwrap_or(&variable.type_name);
    let name = name.rsplit(['.', '$']).next().unwrap_or(name);
    if name.ends_with("[]") {
        let more = if cut { ", …" } else { "" };
        let items: Vec<_> = parts.iter().map(|part| part.value.as_str()).collect();
        return format!("[{}{more}]", items.join(", "));
    }
    let mut fields: Vec<_> = parts.iter().map(|part| format!("{}={}", part.name, part.value)).collect();
    if cut {
        fields.push("…".into());
    }
    format!("{name}({})", fields.join(", "))
}

/// Cuts the text to so many bytes.
fn cut(variable: &mut Variable, most: u32) {
    let most = usize::try_from(most).unwrap_or(usize::MAX).max(8);
    if variable.value.contains('\n') {
        variable.value = variable.value.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    }
    if variable.value.len() <= most {
        return;
    }
    let end = (0..=most).rev().find(|end| variable.value.is_char_boundary(*end)).unwrap_or(0);
    variable.value.truncate(end);
    variable.value.push('…');
    variable.truncated = true;
}

/// Writes a whole number in another base.
fn formatted(variable: &mut Variable, format: NumberFormat) {
    let Ok(number) = variable.value.parse::<i128>() else { return };
    let (sign, size) = (if number < 0 { "-" } else { "" }, number.unsigned_abs());
    variable.value = match format {
        NumberFormat::Auto | NumberFormat::Decimal => return,
        NumberFormat::Hex => format!("{sign}0x{size:x}"),
        NumberFormat::Octal => format!("{sign}0o{size:o}"),
        NumberFormat::Binary => format!("{sign}0b{size:b}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_all_adapters_are_told_apart() {
        let scope = |name: &str, hint: Option<&str>, expensive: bool| Scope {
            name: name.into(),
            presentation_hint: hint.map(str::to_owned),
            variables_reference: 1,
            expensive,
        };
        let local = |name: &str| belongs(&scope(name, None, false), VariableScope::Local);
        for name in ["Locals", "Local: total", "Block", "Module", "Local variables", "Arguments"] {
            assert!(local(name), "{name}");
        }
        for name in ["Globals", "Global", "Registers", "Closure (f)", "Global variables", "Static"] {
            assert!(!local(name), "{name}");
        }
        assert!(!belongs(&scope("Global", None, true), VariableScope::Local));
        assert!(belongs(&scope("x", Some("arguments"), false), VariableScope::Arguments));
    }

    #[test]
    fn values_are_cut_between_letters_and_stay_on_a_line() {
        let mut variable = Variable { value: "ä\nbcdefghij".into(), ..Variable::default() };
        cut(&mut variable, 8);
        assert_eq!((variable.value.as_str(), variable.truncated), ("ä bcdef…", true));
        let mut number = Variable { value: "-255".into(), ..Variable::default() };
        formatted(&mut number, NumberFormat::Hex);
        assert_eq!(number.value, "-0xff");
    }

    #[test]
    fn what_says_nothing_is_told_by_its_parts() {
        let order = DapVariable { type_name: "shop.Order".into(), ..DapVariable::default() };
        for value in
            ["<shop.Order object at 0x7f>", "shop.Shop$Order@515", "int[][4]", "java.lang.String[][][2]"]
        {
            assert!(is_opaque(value), "{value}");
        }
        for value in ["'a@b'", "me@5 x", "[1]", "12"] {
            assert!(!is_opaque(value), "{value}");
        }
        let part = |name: &str, value: &str| DapVariable {
            name: name.into(),
            value: value.into(),
            ..DapVariable::default()
        };
        assert_eq!(composed(&order, &[part("id", "3"), part("n", "'x'")], true), "Order(id=3, n='x', …)");
        assert!(is_opaque("<shop.Order object at 0x7f12>"));
        assert!(is_opaque("Order @ 0x7fffe0"));
        assert!(!is_opaque("<Order 3>") && !is_opaque("'a @ 0x1 b'"));
    }
}
