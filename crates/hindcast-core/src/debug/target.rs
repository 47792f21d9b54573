//! What is debugged, and how that begins.

use std::{borrow::Cow, collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use super::{OutputLog, Place};

/// What a program is written in. Written as one word.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Language {
    /// What the program turns out to be.
    #[default]
    Auto,
    /// C.
    C,
    /// C++.
    Cpp,
    /// Rust.
    Rust,
    /// C#, F# or Visual Basic on .NET.
    Dotnet,
    /// Whatever the processor runs, also where that is an interpreter.
    Native,
    /// Something that is debugged through a debug adapter: a language, or the name of a profile.
    Other(String),
}

impl From<String> for Language {
    fn from(name: String) -> Self {
        match name.as_str() {
            "auto" | "" => Self::Auto,
            "c" => Self::C,
            "cpp" => Self::Cpp,
            "rust" => Self::Rust,
            "dotnet" => Self::Dotnet,
            "native" => Self::Native,
            _ => Self::Other(name),
        }
    }
}

impl From<Language> for String {
    fn from(language: Language) -> Self {
        match language {
            Language::Auto => "auto".into(),
            Language::C => "c".into(),
            Language::Cpp => "cpp".into(),
            Language::Rust => "rust".into(),
            Language::Dotnet => "dotnet".into(),
            Language::Native => "native".into(),
            Language::Other(name) => name,
        }
    }
}

impl JsonSchema for Language {
    fn schema_name() -> Cow<'static, str> {
        "Language".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "auto, native, dotnet, python, javascript, go, ruby, java, lldb, or a configured profile",
            "default": "auto",
        })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// What debugs a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    /// Machine code with debug information
    #[default]
    Native,
    /// The .NET runtime
    Dotnet,
    /// A debug adapter of the program's language
    Adapter,
}

impl Engine {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Dotnet => ".NET",
            Self::Adapter => "debug adapter",
        }
    }
}

/// A program to start.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LaunchRequest {
    /// The executable; a bare name is looked up in `PATH`.
    pub program: PathBuf,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Where it runs; our own folder where absent.
    pub cwd: Option<PathBuf>,
    /// Variables set on top of our own environment.
    pub env: BTreeMap<String, String>,
    /// Where it first stops.
    pub stop_at_entry: StopAtEntry,
    /// What it reads; not used where the streams are inherited.
    pub stdin: Stdin,
    /// What its standard streams are.
    pub streams: Streams,
    /// Whether to record it, so that one can go back.
    pub record: bool,
    /// While it is recorded, this seed decides which thread runs when and for how long, to expose races.
    #[serde(default)]
    pub chaos: Option<u64>,
    /// The session is about the first process of the tree that executes this program: its file name, in which `*` stands
    /// for any letters, or its path.
    #[serde(default)]
    pub follow: Option<String>,
    /// The session moves to the first process that the program forks.
    #[serde(default)]
    pub follow_forks: bool,
    /// It is not recorded before it gets to this place.
    #[serde(default)]
    pub record_from: Option<Place>,
    /// What it is written in, which chooses the engine.
    pub language: Language,
    /// Whether steps pass over code that is not the program's own, where the engine can tell.
    pub just_my_code: bool,
    /// Where its output goes. Not serialized; the receiver must set it.
    #[serde(skip, default = "nowhere")]
    pub output: Arc<OutputLog>,
}

/// Where a launched program first stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum StopAtEntry {
    /// In `main`, after its prologue.
    #[default]
    Main,
    /// At the very first instruction, before any library is loaded.
    Loader,
    /// Nowhere: it runs until something stops it.
    No,
}

/// What the standard streams of a launched program are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Streams {
    /// A pipe each. The C library then prints when its buffer is full or the program exits.
    #[default]
    Pipes,
    /// A terminal for input and output, and one for errors.
    Terminal,
    /// Our own, whatever they are. The program is in our process group, and its output does not go to
    /// [`LaunchRequest::output`].
    Inherited,
}

/// What a launched program reads.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Stdin {
    /// What is written later.
    #[default]
    Written,
    /// This, and then the end.
    Text(String),
    /// This file.
    File(PathBuf),
}

/// A running process to take hold of.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AttachRequest {
    /// Its number.
    pub pid: u32,
    /// The port at which it waits for debuggers; only debug adapters attach so.
    pub port: Option<u16>,
    /// Whether to record it from now on, so that one can go back.
    pub record: bool,
    /// What it is written in, which chooses the engine.
    pub language: Language,
    /// As for a launch.
    pub just_my_code: bool,
    /// Where log messages go; its own output stays where it was. Not serialized, as for a launch.
    #[serde(skip, default = "nowhere")]
    pub output: Arc<OutputLog>,
}

fn nowhere() -> Arc<OutputLog> {
    Arc::new(OutputLog::new(0))
}

/// The remains of a process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CoreRequest {
    /// The core file.
    pub core: PathBuf,
    /// The executable; what the core names where absent.
    pub program: Option<PathBuf>,
}

/// A recording that was written to a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TraceFileRequest {
    /// A binary trace.
    pub trace: PathBuf,
}

/// How a session began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HowBegun {
    /// We started the program.
    Launch,
    /// It was running already.
    Attach,
    /// It had died; this is its core.
    Core,
    /// It was recorded; this is the recording.
    Trace,
}

/// What a session is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// What debugs it.
    // Traces of earlier versions do not say it, and are all native.
    #[serde(default)]
    pub engine: Engine,
    /// The process, where there is one on this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its name.
    pub name: String,
    /// Its executable.
    pub executable: String,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// The folder it was started in.
    pub cwd: String,
    /// How the session began.
    pub how: HowBegun,
    /// When the session began.
    pub since: Timestamp,
    /// What it was made with, such as `C++ (GNU C++17 12.2.0)`, as its debug information says.
    pub runtime: Option<String>,
    /// How it came to be followed, where another program was launched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followed: Option<Followed>,
}

/// Where a program came from that was followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Followed {
    /// The command that was launched.
    pub launched: String,
    /// The process that started it.
    pub parent_pid: u32,
    /// That process's command line.
    pub parent: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_earlier_traces_are_native() {
        let text = r#"{"pid":7,"name":"a","executable":"/a","args":[],"cwd":"/","how":"launch","since":"2026-02-05T10:30:00Z","runtime":null}"#;
        let target: Target = serde_json::from_str(text).unwrap();
        assert_eq!((target.engine, target.pid), (Engine::Native, Some(7)));
    }
}
