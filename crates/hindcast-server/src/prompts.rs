//! The prompts this server offers.

use hindcast_core::debug::CompletionKind;
use hindcast_services::Failure;
use serde_json::{Map, Value};

use crate::{
    registry::{Prompt, PromptArgument, Registry},
    toolset::Toolset,
};

pub(crate) fn declare(registry: &mut Registry, toolsets: &[Toolset]) {
    if toolsets.contains(&Toolset::Debugger) {
        declare_for_debugging(registry);
    }
    if toolsets.contains(&Toolset::Account) {
        declare_for_audit(registry);
    }
}

fn declare_for_debugging(registry: &mut Registry) {
    registry.add_prompt(Prompt {
        name: "find-crash",
        title: "Find the cause of a crash",
        description: "Run a program until it crashes or panics, and find the mistake behind it",
        arguments: &[PROGRAM, SYMPTOM],
        render: find_crash,
    });
    registry.add_prompt(Prompt {
        name: "find-wrong-value",
        title: "Find where a value goes wrong",
        description: "Find the statement that gives a variable a wrong value",
        arguments: &[
            PROGRAM,
            PromptArgument {
                name: "variable",
                description: "The variable or expression that is wrong",
                required: true,
                suggestions: &[],
                completes: Some(CompletionKind::Variable),
            },
            PromptArgument {
                name: "function",
                description: "Where it is seen to be wrong",
                required: false,
                suggestions: &[],
                completes: Some(CompletionKind::Function),
            },
            PromptArgument {
                name: "expected",
                description: "What it should be",
                required: false,
                suggestions: &[],
                completes: None,
            },
        ],
        render: find_wrong_value,
    });
    registry.add_prompt(Prompt {
        name: "find-hang",
        title: "Find why a program hangs",
        description: "Find out what a program that does not go on is waiting for or looping in",
        arguments: &[
            PromptArgument {
                name: "target",
                description: "The process id of the hanging program, or the program to start",
                required: true,
                suggestions: &[],
                completes: None,
            },
            SYMPTOM,
        ],
        render: find_hang,
    });
}

fn declare_for_audit(registry: &mut Registry) {
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
                completes: None,
            },
            PromptArgument {
                name: "concern",
                description: "What to look for in particular",
                required: false,
                suggestions: &["refused calls", "unknown addresses", "unusually slow calls", "quota use"],
                completes: None,
            },
        ],
        render: review_audit,
    });
}

const PROGRAM: PromptArgument = PromptArgument {
    name: "program",
    description: "The program with its arguments, or its core file",
    required: true,
    suggestions: &[],
    completes: None,
};

const SYMPTOM: PromptArgument = PromptArgument {
    name: "symptom",
    description: "What is known so far",
    required: false,
    suggestions: &[],
    completes: None,
};

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A sentence around an argument, where it was given.
fn sentence(before: &str, argument: &str, after: &str) -> String {
    if argument.is_empty() { String::new() } else { format!(" {before}{argument}{after}") }
}

fn find_crash(arguments: &Map<String, Value>) -> Result<String, Failure> {
    let program = text(arguments, "program");
    let symptom = sentence("Known so far: ", text(arguments, "symptom"), ".");
    Ok(format!(
        "Find the mistake that makes `{program}` crash.{symptom}\n\n\
         1. `debugger/launch` it (a core file: as `core`), then `debugger/continue`. It stops at faults, and at panics and \
         exceptions that nobody catches.\n\
         2. When it has crashed, call `debugger/autopsy` once. It names the failed access or the message, the stack with \
         arguments, and the locals of your own frames. If it says that findings are kept, `debugger/find_similar_bugs` tells \
         what was the cause of crashes like this one.\n\
         3. Say which value is wrong in the innermost frame of your own code, and which frame it came from. Follow it \
         outwards with `debugger/evaluate` and `frame`.\n\
         4. Ask who made it wrong: `debugger/last_write` with that expression (and its `frame`) names the statement, the \
         values before and after, and the stack; `depth` follows the value to where it came from. `debugger/goto` its \
         `moment` and `debugger/step_backward` with `granularity` `over` show what led there.\n\
         5. Without a history (-32007, or a core file): `debugger/restart` with a breakpoint where the value is made, with \
         a `condition` or a `log_message`, and watch it become wrong.\n\
         6. Report the cause as file, line and value, the evidence for it, and the smallest change that mends it. Keep it with \
         `debugger/save_finding` if it took more than a look. Then `debugger/disconnect`."
    ))
}

fn find_wrong_value(arguments: &Map<String, Value>) -> Result<String, Failure> {
    let (program, variable) = (text(arguments, "program"), text(arguments, "variable"));
    let function = sentence("It is seen to be wrong in `", text(arguments, "function"), "`.");
    let expected = sentence("It should be ", text(arguments, "expected"), ".");
    Ok(format!(
        "Find the statement of `{program}` that gives `{variable}` a wrong value.{function}{expected}\n\n\
         1. `debugger/launch` it and `debugger/continue` to where the value is seen to be wrong. `debugger/last_write` with \
         `{variable}` as the expression names the statement that wrote it, with the values before and after; \
         `debugger/goto` its `moment` and ask again for the write before. Many writes: `debugger/history` tells them by \
         statement, with what each added in all. A condition that should hold: `debugger/when` tells the moment at which it \
         first did not (`at` a function, where it is broken for a moment within others). Where that answers, go on with step 4.\n\
         2. Without a history, or to see every write: set a breakpoint where the value is first right, \
         `debugger/restart`, `debugger/continue` there, then `debugger/set_watchpoint` with `{variable}` as the expression: each stop shows \
         the statement that wrote it. Where it is written very often, use a tracepoint instead (`set_breakpoint` with \
         `log_message` \"{variable} = {{{variable}}}\") and read the log with `debugger/read_output`.\n\
         3. Stop at the first write that is wrong.\n\
         4. Look at what the wrong value was computed from (`debugger/evaluate`). If that is wrong already, go on with it \
         in the same way (`depth` of `debugger/last_write` does several hops at once).\n\
         5. Report the statement, the values before and after, and why it is wrong."
    ))
}

fn find_hang(arguments: &Map<String, Value>) -> Result<String, Failure> {
    let target = text(arguments, "target");
    let symptom = sentence("Known so far: ", text(arguments, "symptom"), ".");
    Ok(format!(
        "Find out why `{target}` does not go on.{symptom}\n\n\
         1. `debugger/attach` to it if it runs (that pauses it); otherwise `debugger/launch` it, `debugger/continue` with a \
         `timeout_ms` of a few seconds, and `debugger/pause` when the answer is `running`.\n\
         2. `debugger/autopsy`, once. It says which thread waits for what and who holds that, and names deadlocks. A thread \
         that is not said to wait is working.\n\
         3. Waiting: where it was not told, find for each lock who holds it (`debugger/evaluate` of the lock in the frame \
         that waits). A circle is a deadlock; a holder that has ended or sleeps is the cause.\n\
         4. Working: `debugger/step_forward` with `granularity` `over` a few times, or pause two or three times, and see \
         which loop it stays in and which condition never becomes true.\n\
         5. Report the threads involved, what each waits for, and why that never comes. `debugger/disconnect` lets an \
         attached program go on."
    ))
}

fn review_audit(arguments: &Map<String, Value>) -> Result<String, Failure> {
    let period = text(arguments, "period");
    let concern = sentence("Look for ", text(arguments, "concern"), " in particular.");
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
