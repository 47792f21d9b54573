//! Where to stop: `set_breakpoint`, `set_watchpoint`, `set_exception_breakpoint`, `update_breakpoint`,
//! `remove_breakpoint`.

use std::fmt::Write as _;

use async_trait::async_trait;
use hindcast_core::{
    debug::{
        Access, Binding, Breakpoint, BreakpointChange, BreakpointId, CodeBreakpoint, ExceptionBreakpoint,
        Location, Remedy, Trigger, Watched, Watchpoint,
    },
    identity::Scope,
};
use hindcast_services::Failure;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Desk, declaration, invalid, moves,
    places::{Named, parse_address},
    text, yes,
};
use crate::{
    debug_views::{BreakpointView, watched},
    registry::{Answer, Call, Declaration, Effects, Tool},
};

/// A breakpoint as `debugger://breakpoints` has it, with where it really is.
#[derive(Serialize, JsonSchema)]
pub(super) struct Placed {
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    breakpoint: Option<BreakpointView>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    exception: Option<ExceptionPlaced>,
    /// What was asked for
    requested: String,
    /// Where it is in the program
    bound: Vec<Location>,
    /// What to know about that
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct ExceptionPlaced {
    id: String,
    enabled: bool,
    hit_count: u64,
}

impl Placed {
    fn of(breakpoint: &Breakpoint) -> Self {
        let (bound, note) = match &breakpoint.binding {
            Binding::Bound { locations, note } => (locations.clone(), note.clone()),
            Binding::Pending { reason } => (Vec::new(), Some(reason.clone())),
        };
        let exception = match &breakpoint.trigger {
            Trigger::Exception(exception) => Some(ExceptionPlaced {
                id: format!("ex-{}", breakpoint.id),
                enabled: exception.enabled,
                hit_count: breakpoint.hit_count,
            }),
            Trigger::Code(_) | Trigger::Watch(_) => None,
        };
        let requested = requested(breakpoint);
        Self { breakpoint: BreakpointView::of(breakpoint), exception, requested, bound, note }
    }
}

fn requested(breakpoint: &Breakpoint) -> String {
    match &breakpoint.trigger {
        Trigger::Code(code) => code.place.to_string(),
        Trigger::Watch(watch) => watched(&watch.watched),
        Trigger::Exception(exception) => exception.exception_type.clone(),
    }
}

/// What a breakpoint that was just made says; the contract's sentence first.
fn placed(breakpoint: &Breakpoint) -> Answer<Placed> {
    let content = Placed::of(breakpoint);
    let id = breakpoint.id;
    let mut text = match (&breakpoint.trigger, &breakpoint.binding) {
        (_, Binding::Pending { reason }) => {
            format!("Breakpoint {id} is pending: {reason}")
        }
        (Trigger::Exception(exception), _) => {
            format!("Exception breakpoint {id} set for {}", exception.exception_type)
        }
        (Trigger::Watch(watch), _) => match content.bound.first() {
            Some(location) => format!("Watchpoint {id} set at {}", location.short()),
            None => format!("Watchpoint {id} set on {}", watched(&watch.watched)),
        },
        (Trigger::Code(_), _) => match content.bound.first() {
            Some(location) => format!("Breakpoint {id} set at {}", location.short()),
            None => format!("Breakpoint {id} set"),
        },
    };
    for location in content.bound.iter().take(5).filter(|location| location.function.is_some()) {
        let _ = write!(text, "\nin {}", text::place(location));
    }
    if content.bound.len() > 5 {
        let _ = write!(text, "\nand {} more places", content.bound.len() - 5);
    }
    if let (Some(note), Binding::Bound { .. }) = (&content.note, &breakpoint.binding) {
        let _ = write!(text, "\nnote: {note}");
    }
    Answer { text, content }
}

/// For lists.
pub(super) fn in_a_line(breakpoint: &Breakpoint) -> String {
    let (kind, enabled) = match &breakpoint.trigger {
        Trigger::Code(code) if code.log_message.is_some() => ("tracepoint", code.enabled),
        Trigger::Code(code) => ("breakpoint", code.enabled),
        Trigger::Watch(watch) => ("watchpoint", watch.enabled),
        Trigger::Exception(exception) => ("exception breakpoint", exception.enabled),
    };
    let mut line = format!("{kind} {}: {}", breakpoint.id, requested(breakpoint));
    match &breakpoint.binding {
        Binding::Bound { locations, .. } => {
            if let Some(location) = locations.first() {
                let _ = write!(line, " at {}", location.short());
            }
        }
        Binding::Pending { .. } => line.push_str(" (pending)"),
    }
    if !enabled {
        line.push_str(" (disabled)");
    }
    let _ = write!(line, ", {} hits", breakpoint.hit_count);
    line
}

pub(super) struct SetBreakpoint(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetBreakpointInput {
    #[serde(default)]
    address: Option<String>,
    /// Path or its end
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    line: Option<u32>,
    #[serde(default)]
    function: Option<String>,
    /// Text of a line of `file`
    #[serde(default)]
    statement: Option<String>,
    /// As in `i == 3`
    ///
    /// Stop only when this is true, as in `i == 3`
    #[serde(default)]
    condition: Option<String>,
    /// From this hit on
    #[serde(default)]
    hit_count: u64,
    /// Log this instead of stopping; {expression} is filled in
    #[serde(default)]
    log_message: Option<String>,
    /// Stop only at every so many hits
    #[serde(default)]
    hit_count_multiple: u64,
    /// Log at most so often
    #[serde(default)]
    max_notifications: u64,
    /// Gone after its first stop
    #[serde(default)]
    temporary: bool,
    /// Never stop
    ///
    /// Never stop, only count the hits; stops and `debugger://breakpoints` tell how many
    #[serde(default)]
    count_only: bool,
    /// Count hits by this value
    ///
    /// Count the hits by the value of this expression, without stopping
    #[serde(default)]
    count_by: Option<String>,
    #[serde(default = "yes")]
    enabled: bool,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for SetBreakpoint {
    type Input = SetBreakpointInput;
    type Output = Placed;

    const DECLARATION: Declaration = moves(
        "debugger/set_breakpoint",
        "Stop at a function, line, statement's text or address; or log there. Works while running",
    );

    fn target(input: &SetBreakpointInput) -> Option<String> {
        place_of(input).place().ok().map(|place| crate::excerpt::excerpt(&place.to_string(), 200))
    }

    async fn call(&self, call: &Call, input: SetBreakpointInput) -> Result<Answer<Placed>, Failure> {
        let place = place_of(&input).place()?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
        let trigger = Trigger::Code(CodeBreakpoint {
            place,
            condition: given(input.condition),
            hit_count: input.hit_count,
            log_message: given(input.log_message),
            hit_count_multiple: input.hit_count_multiple,
            max_notifications: input.max_notifications,
            temporary: input.temporary,
            count_only: input.count_only || input.count_by.is_some(),
            count_by: input.count_by,
            enabled: input.enabled,
        });
        Ok(placed(&session.add_breakpoint(trigger).await?))
    }
}

fn place_of(input: &SetBreakpointInput) -> Named<'_> {
    Named {
        address: input.address.as_deref(),
        file: input.file.as_deref(),
        line: input.line,
        function: input.function.as_deref(),
        statement: input.statement.as_deref(),
    }
}

pub(super) struct SetWatchpoint(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetWatchpointInput {
    #[serde(default)]
    expression: Option<String>,
    #[serde(default)]
    address: Option<String>,
    /// Bytes at `address` (8)
    #[serde(default)]
    size: Option<u64>,
    #[serde(default)]
    access: Access,
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    frame: Option<u32>,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for SetWatchpoint {
    type Input = SetWatchpointInput;
    type Output = Placed;

    const DECLARATION: Declaration =
        moves("debugger/set_watchpoint", "Stop when a value is written (or read)");

    async fn call(&self, call: &Call, input: SetWatchpointInput) -> Result<Answer<Placed>, Failure> {
        let session = self.0.session(call, input.session_id.as_deref())?;
        let watched = match (input.expression, input.address) {
            (Some(text), None) => Watched::Expression { text, frame: session.frame(None, input.frame)? },
            (None, Some(address)) => {
                Watched::Memory { address: parse_address(&address)?, size: input.size.unwrap_or(8) }
            }
            _ => return Err(invalid("give either `expression` or `address`")),
        };
        let condition = input.condition.filter(|text| !text.trim().is_empty());
        let trigger = Trigger::Watch(Watchpoint { watched, access: input.access, condition, enabled: true });
        Ok(placed(&session.add_breakpoint(trigger).await?))
    }
}

pub(super) struct SetExceptionBreakpoint(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SetExceptionInput {
    /// rust:panic, cpp:std::runtime_error, cpp:*, signal:SIGSEGV, System.Exception
    exception_type: String,
    /// When raised
    #[serde(default = "yes")]
    break_on_first_chance: bool,
    /// When not caught
    #[serde(default = "yes")]
    break_on_second_chance: bool,
    #[serde(default = "yes")]
    include_subtypes: bool,
    #[serde(default)]
    session_id: Option<String>,
}

#[async_trait]
impl Tool for SetExceptionBreakpoint {
    type Input = SetExceptionInput;
    type Output = Placed;

    const DECLARATION: Declaration =
        moves("debugger/set_exception_breakpoint", "Stop at panics, exceptions or signals of a type");

    async fn call(&self, call: &Call, input: SetExceptionInput) -> Result<Answer<Placed>, Failure> {
        if input.exception_type.trim().is_empty() {
            return Err(invalid("`exception_type` is empty").hint("such as `rust:panic` or `signal:SIGSEGV`"));
        }
        let session = self.0.session(call, input.session_id.as_deref())?;
        let trigger = Trigger::Exception(ExceptionBreakpoint {
            exception_type: input.exception_type,
            first_chance: input.break_on_first_chance,
            second_chance: input.break_on_second_chance,
            include_subtypes: input.include_subtypes,
            enabled: true,
        });
        Ok(placed(&session.add_breakpoint(trigger).await?))
    }
}

pub(super) struct UpdateBreakpoint(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UpdateInput {
    id: String,
    #[serde(default)]
    enabled: Option<bool>,
    /// "" removes it
    #[serde(default)]
    condition: Option<String>,
    #[serde(default)]
    hit_count: Option<u64>,
    /// "" makes it stop again
    #[serde(default)]
    log_message: Option<String>,
    #[serde(default)]
    hit_count_multiple: Option<u64>,
    #[serde(default)]
    max_notifications: Option<u64>,
    #[serde(default)]
    session_id: Option<String>,
}

fn parse_id(id: &str) -> Result<BreakpointId, Failure> {
    id.trim().parse().map_err(|error: hindcast_core::debug::NotABreakpointId| {
        invalid(error.to_string()).remedied(vec![Remedy::ListBreakpoints])
    })
}

#[async_trait]
impl Tool for UpdateBreakpoint {
    type Input = UpdateInput;
    type Output = Placed;

    const DECLARATION: Declaration = declaration(
        "debugger/update_breakpoint",
        "Enable, disable or change a breakpoint",
        Scope::DebugWrite,
        Effects::Additive { idempotent: true },
    );

    async fn call(&self, call: &Call, input: UpdateInput) -> Result<Answer<Placed>, Failure> {
        let id = parse_id(&input.id)?;
        let session = self.0.session(call, input.session_id.as_deref())?;
        let change = BreakpointChange {
            enabled: input.enabled,
            condition: input.condition,
            hit_count: input.hit_count,
            log_message: input.log_message,
            hit_count_multiple: input.hit_count_multiple,
            max_notifications: input.max_notifications,
        };
        if change == BreakpointChange::default() {
            return Err(
                invalid("nothing is to be changed").hint("give `enabled`, `condition`, `log_message`, …")
            );
        }
        let changed = session.change_breakpoint(id, change).await?;
        let text = format!("Breakpoint {id} changed\n{}", in_a_line(&changed));
        Ok(Answer { text, content: Placed::of(&changed) })
    }
}

pub(super) struct RemoveBreakpoint(pub(super) Desk);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoveInput {
    /// Or "all"
    id: String,
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Removed {
    /// The ids that are gone
    removed: Vec<BreakpointId>,
}

#[async_trait]
impl Tool for RemoveBreakpoint {
    type Input = RemoveInput;
    type Output = Removed;

    const DECLARATION: Declaration = declaration(
        "debugger/remove_breakpoint",
        "Remove a breakpoint of any kind, or all",
        Scope::DebugWrite,
        Effects::Destructive { idempotent: true },
    );

    async fn call(&self, call: &Call, input: RemoveInput) -> Result<Answer<Removed>, Failure> {
        let id = if input.id.eq_ignore_ascii_case("all") { None } else { Some(parse_id(&input.id)?) };
        let session = self.0.session(call, input.session_id.as_deref())?;
        let removed = session.remove_breakpoints(id).await?;
        let text = match removed[..] {
            [one] => format!("Breakpoint {one} removed"),
            _ => format!("{} breakpoints removed", removed.len()),
        };
        Ok(Answer { text, content: Removed { removed } })
    }
}
