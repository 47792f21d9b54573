//! What the tools tell, as far as the page shows it.

use serde::Deserialize;

/// A place in a program.
#[derive(Deserialize, Clone, Default)]
pub(in super::super) struct Place {
    pub(super) file: Option<String>,
    pub(super) line: Option<u32>,
    pub(super) function: Option<String>,
    pub(super) address: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) library: bool,
}

impl Place {
    /// `settle (overrun.c:14)`.
    pub(super) fn short(&self) -> String {
        let file = self.file.as_deref().map(super::words::file_name);
        let place = match (file, self.line) {
            (Some(file), Some(line)) => format!("{file}:{line}"),
            (Some(file), None) => file.to_owned(),
            _ => self.address.as_ref().and_then(|address| address.as_str()).unwrap_or_default().to_owned(),
        };
        match (&self.function, place.is_empty()) {
            (Some(function), true) => function.clone(),
            (Some(function), false) => format!("{function} ({place})"),
            (None, _) => place,
        }
    }
}

/// `debugger/wait`.
#[derive(Deserialize)]
pub(in super::super) struct Standing {
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<String>,
    pub(super) exception: Option<Exception>,
    pub(super) moment: Option<String>,
    pub(super) thread_id: Option<u32>,
    pub(super) location: Option<Place>,
    #[serde(default)]
    pub(super) locals: Vec<Local>,
    #[serde(default)]
    pub(super) notes: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Local {
    pub(super) name: String,
    #[serde(default)]
    pub(super) changed: bool,
}

/// A panic or an exception, whatever the engine tells of it.
#[derive(Deserialize)]
pub(super) struct Exception(serde_json::Map<String, serde_json::Value>);

impl Exception {
    fn text(&self, names: &[&str]) -> &str {
        names.iter().find_map(|name| self.0.get(*name)?.as_str()).unwrap_or_default()
    }

    pub(super) fn kind(&self) -> &str {
        self.text(&["type", "type_name", "exception_type", "name"])
    }

    pub(super) fn message(&self) -> &str {
        self.text(&["message", "text"])
    }
}

impl Standing {
    /// Why it does not run, in a sentence.
    pub(super) fn why(&self) -> String {
        let place = self.location.as_ref().map(Place::short).filter(|place| !place.is_empty());
        let at = place.map(|place| format!(" in {place}")).unwrap_or_default();
        let signal = self.signal.as_deref().unwrap_or_default();
        match self.reason.as_deref() {
            None if self.state == "running" => "The program runs.".to_owned(),
            Some("exit") => match (self.exit_code, signal) {
                (_, signal) if !signal.is_empty() => format!("Ended by {signal}."),
                (Some(code), _) => format!("Ended with code {code}."),
                _ => "Ended.".to_owned(),
            },
            Some("signal") => format!("Stopped by {signal}{at}{}", self.further()),
            Some(reason) => format!("{}{at}{}", said(reason), self.further()),
            None => self.detail.clone().unwrap_or_else(|| self.state.clone()),
        }
    }

    fn further(&self) -> String {
        self.detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default()
    }

    pub(super) fn has_changed(&self, name: &str) -> bool {
        self.locals.iter().any(|local| local.name == name && local.changed)
    }
}

fn said(reason: &str) -> &str {
    match reason {
        "entry" => "At the entry",
        "breakpoint" => "Stopped at a breakpoint",
        "watchpoint" => "Stopped at a watchpoint",
        "step" => "After a step",
        "pause" => "Paused",
        "exception" => "Stopped by an exception",
        "goto" => "Looking at the past",
        "history_start" => "At the start of the recording",
        "thread_start" => "At the start of a thread",
        "present" => "In the present",
        other => other,
    }
}

/// `debugger/get_stack_trace`.
#[derive(Deserialize)]
pub(in super::super) struct Stack {
    #[serde(default)]
    pub(super) frames: Vec<StackFrame>,
    #[serde(default)]
    pub(super) more: bool,
    pub(super) broken: Option<String>,
}

#[derive(Deserialize, Clone)]
pub(in super::super) struct StackFrame {
    pub(super) index: u32,
    #[serde(flatten)]
    pub(super) place: Place,
    #[serde(default)]
    pub(super) inlined: bool,
}

impl Stack {
    /// The frame that is looked at: the one that was asked for, else the innermost of the program's own code.
    pub(super) fn chosen(&self, asked: Option<u32>) -> Option<StackFrame> {
        let asked = asked.and_then(|asked| self.frames.iter().find(|frame| frame.index == asked));
        let own = self.frames.iter().find(|frame| frame.place.line.is_some() && !frame.place.library);
        asked.or(own).or(self.frames.first()).cloned()
    }
}

/// `debugger/get_variables`.
#[derive(Deserialize)]
pub(in super::super) struct Variables {
    pub(super) variables: Vec<Variable>,
    pub(super) total: u32,
}

#[derive(Deserialize)]
pub(super) struct Variable {
    pub(super) name: String,
    #[serde(rename = "type", default)]
    pub(super) type_name: String,
    pub(super) value: String,
    #[serde(default)]
    pub(super) children: Vec<Variable>,
    #[serde(default)]
    pub(super) child_count: Option<u64>,
}

/// `debugger/get_threads`.
#[derive(Deserialize)]
pub(in super::super) struct Threads {
    pub(super) threads: Vec<Thread>,
    pub(super) current: Option<u32>,
    pub(super) total: usize,
}

#[derive(Deserialize)]
pub(super) struct Thread {
    pub(super) id: u32,
    #[serde(default)]
    pub(super) name: String,
    pub(super) location: Option<Place>,
    pub(super) called_from: Option<Place>,
    pub(super) waits_for: Option<String>,
}

/// `debugger/read_output`.
#[derive(Deserialize)]
pub(in super::super) struct Output {
    #[serde(default)]
    pub(super) stdout: String,
    #[serde(default)]
    pub(super) stderr: String,
    #[serde(default)]
    pub(super) log: String,
}
