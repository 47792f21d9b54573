//! The prompts this server offers.

use hindcast_services::Failure;
use serde_json::{Map, Value};

use crate::registry::{Prompt, PromptArgument, Registry};

pub(crate) fn declare(registry: &mut Registry) {
    registry.add_prompt(Prompt {
        name: "review-audit",
        title: "Review the audit trail",
        description: "Find out who did what with this server in a span of time, and whether the trail was tampered with",
        arguments: &[
            PromptArgument {
                name: "period",
                description: "The span of time to look at, in words",
                required: true,
                suggestions: &["the last hour", "today", "yesterday", "the last 7 days", "this month"],
            },
            PromptArgument {
                name: "concern",
                description: "What to look for in particular",
                required: false,
                suggestions: &["refused calls", "unknown addresses", "unusually slow calls", "quota use"],
            },
        ],
        render: review_audit,
    });
}

fn review_audit(arguments: &Map<String, Value>) -> Result<String, Failure> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str);
    let period = text("period").unwrap_or_default();
    let concern =
        text("concern").map(|concern| format!(" Look for {concern} in particular.")).unwrap_or_default();
    Ok(format!(
        "Review what was done with this server during {period}.{concern}\n\n\
         1. Call `debugger/get_comprehensive_audit` with `start_time` and `end_time` for that span (RFC 3339, UTC). \
         Follow `next_cursor` until it is absent.\n\
         2. Say first whether `chain` verifies; if it does not, name the first bad row and trust no row from there on.\n\
         3. Group the rows by principal and tool. Point out outcomes other than `ok`, addresses that appear for the \
         first time, and calls that took much longer than their kind usually does.\n\
         4. End with what, if anything, a person should do about it."
    ))
}
