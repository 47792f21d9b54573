//! What each debug adapter wants to hear: small declarations, ours and the user's.

mod first_statement;
mod java;
mod places;
mod spelling;
mod template;

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use first_statement::first_statement;
pub(crate) use java::root_of;
pub(crate) use places::{Surroundings, located};
pub(crate) use spelling::{Spelled, spell};
pub(crate) use template::{Words, fill, fill_words};

/// A debug adapter: how to find and start it, and how to spell what is asked of it. In `commands`, `launch` and `attach`,
/// `{program}`, `{args}`, `{cwd}`, `{pid}`, `{port}` and the like stand for what is known; what is not known is left out.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// What is debugged with it, for people
    pub title: String,
    /// What it is called
    pub adapter: String,
    /// The profile that says what this one does not. It names its own programs (`languages`, `extensions`, `interpreters`)
    pub extends: String,
    /// Names that `language` may have for it
    pub languages: Vec<String>,
    /// File name extensions of programs for it
    pub extensions: Vec<String>,
    /// File names of the programs that run such programs, without a version at the end
    pub interpreters: Vec<String>,
    /// How to start it: the first that answers is used
    pub commands: Vec<Vec<String>>,
    /// Ends of the names of source files, where these are not `extensions`
    pub source_extensions: Vec<String>,
    /// What it speaks
    pub transport: Transport,
    /// What it calls itself
    pub adapter_id: String,
    /// How a command line of `interpreters` is taken apart
    pub spelling: Spelling,
    /// Who starts the program, and so where its standard streams are
    pub program_is_started_by: StartedBy,
    /// How we start the program, so that it waits for the adapter at `{attach_port}`
    pub start: Vec<String>,
    /// The request that begins the session of a launched program: `launch`, or `attach` where the command starts it
    pub launch_request: String,
    /// The function to stop in at first; where empty, the adapter stops at the first line itself
    pub entry: String,
    /// A request that makes the adapter stop at the first line, where it is a matter of neither `launch` nor `entry`
    pub entry_request: EntryRequest,
    /// Exception filters for what nobody catches
    pub uncaught: Vec<String>,
    /// Exception filters for all that is raised
    pub raised: Vec<String>,
    /// Exception filters for what the program's own code does not catch, used for tests
    pub escaping: Vec<String>,
    /// What to install
    pub install: String,
    /// Arguments with which a program of `commands` succeeds where the adapter works, for `hindcast doctor`
    pub check: Vec<String>,
    /// Variables that are not shown
    pub hidden: Vec<String>,
    /// Local variables that are not shown, because every program has them
    pub hidden_locals: Vec<String>,
    /// Lines that are not the program's, though they are printed to its standard error
    pub noise: Vec<String>,
    /// Groups of variables that are shown as if they were none
    pub flattened: Vec<String>,
    /// An expression without effect. Where an adapter waits for the system to acknowledge what the program sends, evaluating it
    /// makes the system do so
    pub poke: String,
    /// A condition for exceptions of a type and those derived from it, where filters take one; `{type}` is its name
    pub of_type: String,
    /// Whether what was raised where the program stands is of a type or derived from it, where there is an expression for that;
    /// `{type}` is the last part of its name
    pub raised_is: String,
    /// The type of what was raised and kept, or `undefined` where nothing is kept: it is what nobody catches
    pub raised_type: String,
    /// Whether what was raised has come through a line of a function that was called from here, where an adapter stops in each
    /// function that it comes through; `{file}` is a text, the name of the file, and `{line}` is the line
    pub came_through: String,
    /// An expression of the name of the type that the type of the name `{type}` is derived from
    pub supertype: String,
    /// Whether a call that is evaluated never ends where it is stopped, so that nothing is to stop it
    pub calls_must_not_stop: bool,
    /// Whether a step that a breakpoint ended still ends by itself after the program was told to continue
    pub steps_outlive_stops: bool,
    /// What to do instead of stopping where something is raised
    pub instead_of_raised: String,
    /// What to do to learn what led to an exception, where the adapter cannot tell
    pub instead_of_causes: String,
    /// A condition that always holds and keeps what was raised as `error`, where filters take one
    pub keep_raised: String,
    /// An expression whose value is JSON: what led to what was kept
    pub causes: String,
    /// Whether hits are counted here, because the adapter cannot be told to stop from some hit on
    pub hits_are_counted_here: bool,
    /// Whether functions are found in the sources, because the adapter does not find them by name
    pub functions_by_line: bool,
    /// Whether it moves breakpoints from lines without code without telling, so that they are moved here
    pub moves_silently: bool,
    /// Types of sequences of which it shows only the beginning
    pub sliced: Vec<String>,
    /// The expression of a part of such a sequence: `{value}`, `{from}`, `{to}`
    pub slice: String,
    /// The variable among the parts of a value that tells how many there are
    pub length: String,
    /// Variables among the parts of a value that stand for parts that are not shown
    pub rest: Vec<String>,
    /// Exceptions by which programs end as they want to
    pub harmless: Vec<String>,
    /// The local variable that holds what was raised, where the adapter does not tell why it stops
    pub raised_variable: String,
    /// How values begin that say that there is none
    pub failed_values: Vec<String>,
    /// What it prints when it can be connected to, where connecting earlier confuses it
    pub ready: String,
    /// How often to start it again when it does not answer; at least once
    pub attempts: u32,
    /// How long it may take to answer a question, in milliseconds; ten seconds unless told
    pub answer_within_ms: Option<u64>,
    /// Variables that are set for it and the program
    pub env: BTreeMap<String, String>,
    /// Files to find: the first of each that exists. `{path}` stands for each folder of `PATH`, `{cwd}` for the working
    /// folder and those above it
    pub locate: BTreeMap<String, Vec<String>>,
    /// Arguments of the request `launch`
    pub launch: Value,
    /// Arguments of the request `attach`
    pub attach: Value,
    /// Arguments of the request `attach` where a program waits for debuggers at `{attach_port}` of `{attach_host}`
    pub attach_to_port: Value,
    /// Whether what listens there speaks the protocol itself, so that no adapter is started
    pub port_speaks_protocol: bool,
    /// How a process shows where it waits for debuggers
    pub waiting: Waiting,
    /// An expression that stops the program where it is evaluated, where that works better than the request `pause`
    pub pause_with: String,
    /// Whether it stops a program that it is connected to by itself, which it tells twice
    pub pauses_by_itself: bool,
    /// An expression that takes out the breakpoints of a program that is let go of, where the adapter leaves them
    pub let_go: String,
    /// An expression that takes out the breakpoint at `{line}` of the file `{file}`, a text, where the adapter keeps those that it is
    /// no longer told of
    pub forget_line: String,
    /// Which processes that the program starts are debugged, too
    pub follows: Follows,
    /// An expression that is evaluated at the first stop of a program that was launched. A name of a variable in braces stands for
    /// its value as it was given, or `nil`
    pub prepare: String,
    /// The expression of the exception that ends the program, where the adapter may show another that led to it
    pub ends_with: String,
    /// The cause of an exception, where that can be asked for; `{error}` is the exception
    pub cause: String,
    /// Where an exception was raised, such as `/a/b.rb:3:in 'f'`
    pub raised_at: String,
    /// Whether programs have tasks as Python's `asyncio` has them, which are listed beside the threads
    pub has_tasks: bool,
}

/// A request by which an adapter stops at the first line, and by which it stops doing so.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EntryRequest {
    /// Its name; empty where there is none
    pub command: String,
    /// Its arguments before the program begins
    pub ask: Value,
    /// Its arguments when the program has stopped
    pub take_back: Value,
}

/// How a process shows where it waits for debuggers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// Not at all: the port must be given
    #[default]
    Unknown,
    /// As Python does with debugpy: an adapter of its own listens
    Debugpy,
    /// As Node does: a signal makes it listen
    Inspector,
    /// As Ruby does with `rdbg --open`: it listens at a file or a port
    Rdbg,
}

/// Which processes that a program starts are debugged, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Follows {
    /// None
    #[default]
    Nothing,
    /// Those that are forked off and run the same program
    Forks,
    /// Those that an interpreter of the profile runs
    Interpreters,
}

/// What an adapter speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// Its standard streams
    #[default]
    Stdio,
    /// TCP on this machine, at `{port}`
    Tcp,
}

/// Who starts a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartedBy {
    /// We do, when the adapter asks for a terminal
    Terminal,
    /// We do, with the command `start`, and the adapter attaches to it
    Hindcast,
    /// The adapter, with its own standard streams
    Adapter,
    /// The adapter, which tells what is printed; the program cannot be written to
    #[default]
    Events,
}

/// How a command line is taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Spelling {
    /// `interpreter [options] program [arguments]`
    #[default]
    Script,
    /// The program is an executable itself
    Executable,
    /// As `python` does: `-m module`, `-c code`
    Python,
    /// As `node`, `npm` and `npx` do
    Node,
    /// As `go run` and `go test` do
    Go,
    /// As `java` does: classes, `-jar`, and sources, which are compiled
    Java,
    /// As a browser does: options, and the file or the address of a page
    Page,
}

impl Spelling {
    /// That of the language in which the sources are written.
    pub(crate) fn of_sources(self) -> Self {
        if self == Self::Page { Self::Node } else { self }
    }
}

/// Profiles by name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profiles {
    by_name: BTreeMap<String, Profile>,
}

/// What is wrong with a profile of the configuration.
#[derive(Debug, thiserror::Error)]
#[error("the debug adapter profile `{name}`: {why}")]
pub struct ProfileError {
    /// Which profile.
    pub name: String,
    /// What is wrong.
    pub why: String,
}

/// Whether a profile can be used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    /// The profile's name.
    pub name: String,
    /// What it is for.
    pub title: String,
    /// The adapter's name.
    pub adapter: String,
    /// The programs that would be started, one after the other, where its files are there.
    pub candidates: Vec<PathBuf>,
    /// Arguments with which such a program succeeds where the adapter works.
    pub check: Vec<String>,
    /// What to install.
    pub install: String,
}

const BUILT_IN: [(&str, &str); 8] = [
    ("python", include_str!("builtin/python.toml")),
    ("javascript", include_str!("builtin/javascript.toml")),
    ("chromium", include_str!("builtin/chromium.toml")),
    ("go", include_str!("builtin/go.toml")),
    ("ruby", include_str!("builtin/ruby.toml")),
    ("lldb", include_str!("builtin/lldb.toml")),
    ("java", include_str!("builtin/java.toml")),
    ("netcoredbg", include_str!("builtin/netcoredbg.toml")),
];

impl Profiles {
    /// Our own, changed and added to by the user's: a table has the keys that are to be another.
    ///
    /// # Errors
    ///
    /// When a table has keys that no profile has, or values that they cannot have.
    pub fn with(users: &BTreeMap<String, Value>) -> Result<Self, ProfileError> {
        let mut tables: BTreeMap<String, Value> = BTreeMap::new();
        for (name, text) in BUILT_IN {
            let table = toml::from_str(text)
                .map_err(|error| ProfileError { name: name.to_owned(), why: error.to_string() })?;
            tables.insert(name.to_owned(), table);
        }
        for (name, changes) in users {
            let table = tables.entry(name.clone()).or_insert_with(|| Value::Object(serde_json::Map::new()));
            merge(table, changes);
        }
        inherit(&mut tables)?;
        let read = |(name, table): (String, Value)| {
            let wrong = |why: String| ProfileError { name: name.clone(), why };
            let mut profile: Profile =
                serde_json::from_value(table).map_err(|error| wrong(error.to_string()))?;
            if profile.commands.iter().any(Vec::is_empty) || profile.commands.is_empty() {
                return Err(wrong("`commands` must have at least one command, which is not empty".into()));
            }
            if profile.adapter.is_empty() {
                profile.adapter.clone_from(&name);
            }
            if profile.title.is_empty() {
                profile.title.clone_from(&name);
            }
            Ok((name, profile))
        };
        Ok(Self { by_name: tables.into_iter().map(read).collect::<Result<_, _>>()? })
    }

    /// The profile that a language or the profile's own name stands for.
    pub fn named(&self, name: &str) -> Option<&Profile> {
        let name = name.to_lowercase();
        let by_language = || self.by_name.values().find(|profile| profile.languages.contains(&name));
        self.by_name.get(&name).or_else(by_language)
    }

    /// The profile for a program: by its name's ending, its name, or the interpreter that its first line names.
    pub fn of_program(&self, program: &Path) -> Option<&Profile> {
        self.by_extension(program).or_else(|| self.by_interpreter(program)).or_else(|| {
            let interpreter = crate::find::interpreter_of(program)?;
            self.by_interpreter(Path::new(&interpreter))
        })
    }

    /// The profile for a program that listens for debuggers: one of its interpreters, or what is started for it.
    pub(crate) fn of_listener(&self, program: &Path) -> Option<&Profile> {
        let name = program.file_name().and_then(OsStr::to_str)?;
        let is_started = |profile: &&Profile| {
            profile.attaches_to_ports() && profile.commands.iter().any(|command| command[0] == name)
        };
        self.by_interpreter(program).or_else(|| self.by_name.values().find(is_started))
    }

    fn by_extension(&self, program: &Path) -> Option<&Profile> {
        let extension = program.extension()?.to_str()?.to_lowercase();
        let has = |profile: &&Profile| profile.extensions.contains(&extension);
        if program.is_dir() { None } else { self.by_name.values().find(has) }
    }

    fn by_interpreter(&self, program: &Path) -> Option<&Profile> {
        self.by_name.values().find(|profile| profile.is_interpreter(program))
    }

    /// Their names, which `language` may have.
    pub fn languages(&self) -> Vec<&str> {
        self.by_name.keys().map(String::as_str).collect()
    }

    /// Which of them can be used here, with these variables.
    pub fn availability(&self, env: &BTreeMap<String, String>) -> Vec<Availability> {
        let surroundings = Surroundings { env, cwd: None };
        let of = |(name, profile): (&String, &Profile)| Availability {
            name: name.clone(),
            title: profile.title.clone(),
            adapter: profile.adapter.clone(),
            candidates: profile.candidates(&surroundings),
            check: profile.check.clone(),
            install: profile.install.clone(),
        };
        self.by_name.iter().map(of).collect()
    }
}

impl Profile {
    /// Whether it attaches to this process.
    pub fn can_attach_to(&self, pid: u32) -> bool {
        self.attaches_by_number() || crate::door::is_there(self, pid)
    }

    /// Whether it attaches to any process.
    pub(crate) fn attaches_by_number(&self) -> bool {
        self.attach.as_object().is_some_and(|arguments| !arguments.is_empty())
    }

    /// Whether it attaches to programs that wait for debuggers.
    pub(crate) fn attaches_to_ports(&self) -> bool {
        self.attach_to_port.as_object().is_some_and(|arguments| !arguments.is_empty())
    }

    /// Ends of the names of its source files.
    pub(crate) fn source_extensions(&self) -> &[String] {
        if self.source_extensions.is_empty() { &self.extensions } else { &self.source_extensions }
    }

    /// The interpreter that runs a script; none where the program is one itself, or where none is found.
    pub fn interpreter_of(
        &self,
        script: &Path,
        cwd: &Path,
        env: &BTreeMap<String, String>,
    ) -> Option<PathBuf> {
        if self.is_interpreter(script) {
            return None;
        }
        spelling::spell(self, script, &[], cwd, env).interpreter.map(PathBuf::from)
    }

    /// Whether a file is a program that runs such programs, whatever version its name ends with.
    pub(crate) fn is_interpreter(&self, program: &Path) -> bool {
        let Some(name) = program.file_name().and_then(OsStr::to_str) else { return false };
        let name = name.strip_suffix(".exe").unwrap_or(name);
        let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
        self.interpreters.iter().any(|interpreter| interpreter == name || interpreter == plain)
    }

    /// The programs of its commands that are there; none where one of its files is missing.
    fn candidates(&self, surroundings: &Surroundings<'_>) -> Vec<PathBuf> {
        let mut words = Words::default();
        if self.locate.values().any(|patterns| located(patterns, surroundings).is_none()) {
            return Vec::new();
        }
        let env = surroundings.env;
        let interpreter = self.interpreters.iter().find_map(|name| crate::find::in_path(name, env));
        words.set_if("interpreter", interpreter.map(|interpreter| interpreter.display().to_string()));
        let program = |command: &Vec<String>| fill_words(&command[..1], &words).into_iter().next();
        let programs = self.commands.iter().filter_map(program);
        let mut found: Vec<PathBuf> = programs.filter_map(|name| crate::find::in_path(&name, env)).collect();
        found.dedup();
        found
    }
}

/// Lays changes over a table, deep.
fn merge(table: &mut Value, changes: &Value) {
    match (table, changes) {
        (Value::Object(table), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(table.entry(key.clone()).or_insert(Value::Null), change);
            }
        }
        (table, change) => *table = change.clone(),
    }
}

/// What tells profiles from each other, so that none has it from another.
const OWN: [&str; 5] = ["title", "adapter", "languages", "extensions", "interpreters"];

/// Fills in what tables do not say from those that they extend.
fn inherit(tables: &mut BTreeMap<String, Value>) -> Result<(), ProfileError> {
    let given = tables.clone();
    for (name, table) in tables {
        let Some(base) = table.get("extends").and_then(Value::as_str) else { continue };
        let wrong = |why: String| ProfileError { name: name.clone(), why };
        let from = given.get(base).and_then(Value::as_object);
        let from = from.ok_or_else(|| wrong(format!("there is no profile `{base}` that it could extend")))?;
        if from.contains_key("extends") {
            return Err(wrong(format!("`{base}` extends another profile itself")));
        }
        let Some(table) = table.as_object_mut() else { continue };
        for (key, value) in from.iter().filter(|(key, _)| !OWN.contains(&key.as_str())) {
            // Each file is found by itself.
            if let ("locate", Some(files), Some(base)) =
                (key.as_str(), table.get_mut(key).and_then(Value::as_object_mut), value.as_object())
            {
                for (file, places) in base {
                    files.entry(file.clone()).or_insert_with(|| places.clone());
                }
            }
            table.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ours() -> Profiles {
        Profiles::with(&BTreeMap::new()).unwrap()
    }

    #[test]
    fn programs_are_known_by_their_names() {
        let profiles = ours();
        let title = |name: &str| profiles.of_program(Path::new(name)).map(|profile| profile.adapter.clone());
        for (name, adapter) in [
            ("/a/app.py", Some("debugpy")),
            ("/usr/bin/python3.11", Some("debugpy")),
            ("/a/app.test.mjs", Some("js-debug")),
            ("/a/App.TS", Some("js-debug")),
            ("npm", Some("js-debug")),
            ("/usr/bin/go", Some("delve")),
            ("x.rb", Some("rdbg")),
            ("/a/index.html", Some("js-debug with Chromium")),
            ("/usr/bin/chromium", Some("js-debug with Chromium")),
            ("/bin/true", None),
            ("/bin/gopher", None),
        ] {
            assert_eq!(title(name).as_deref(), adapter, "{name}");
        }
    }

    #[test]
    fn a_script_is_known_by_its_first_line() {
        let folder = tempfile::tempdir().unwrap();
        let adapter = |first: &str| {
            let script = folder.path().join("tool");
            std::fs::write(&script, format!("{first}\n")).unwrap();
            ours().of_program(&script).map(|profile| profile.adapter.clone())
        };
        assert_eq!(adapter("#!/opt/venv/bin/python3.12 -u").as_deref(), Some("debugpy"));
        assert_eq!(adapter("#!/usr/bin/env -S node --no-warnings").as_deref(), Some("js-debug"));
        assert_eq!(adapter("#!/usr/bin/env ruby").as_deref(), Some("rdbg"));
        assert_eq!(adapter("#!/bin/sh"), None);
        assert_eq!(adapter("text"), None);
    }

    #[test]
    fn users_change_profiles_and_add_some() {
        let users = BTreeMap::from([
            ("python".to_owned(), json!({ "launch": { "justMyCode": false } })),
            ("lua".to_owned(), json!({ "extensions": ["lua"], "commands": [["lua-debug"]] })),
        ]);
        let profiles = Profiles::with(&users).unwrap();
        let python = profiles.named("python").unwrap();
        assert_eq!(python.launch["justMyCode"], json!(false));
        assert_eq!(python.launch["type"], "python", "what is not changed stays");
        assert_eq!(profiles.of_program(Path::new("x.lua")).unwrap().adapter, "lua");
        assert_eq!(profiles.named("Lua").unwrap().title, "lua");
        assert!(profiles.named("cobol").is_none());
    }

    #[test]
    fn a_profile_has_from_another_what_it_does_not_say() {
        let users = BTreeMap::from([
            ("javascript".to_owned(), json!({ "commands": [["other-node"]] })),
            (
                "edge".to_owned(),
                json!({ "extends": "javascript", "interpreters": ["edge"], "locate": { "browser": ["/x"] } }),
            ),
        ]);
        let profiles = Profiles::with(&users).unwrap();
        let edge = profiles.named("edge").unwrap();
        assert_eq!(edge.commands, [["other-node"]], "as the user changed it");
        assert_eq!(edge.locate.keys().collect::<Vec<_>>(), ["browser", "server"]);
        assert_eq!((edge.title.as_str(), edge.extensions.len()), ("edge", 0));
        assert_eq!(profiles.of_program(Path::new("x.js")).unwrap().adapter, "js-debug");
        let unknown = BTreeMap::from([("edge".to_owned(), json!({ "extends": "nothing" }))]);
        let why = Profiles::with(&unknown).unwrap_err().to_string();
        assert!(why.contains("`edge`: there is no profile `nothing`"), "{why}");
    }

    #[test]
    fn a_profile_that_is_wrong_is_told_by_name() {
        let wrong = |table: Value| {
            let users = BTreeMap::from([("lua".to_owned(), table)]);
            Profiles::with(&users).unwrap_err().to_string()
        };
        assert!(wrong(json!({ "comands": [] })).contains("`lua`: unknown field `comands`"));
        assert!(wrong(json!({ "commands": [] })).contains("`commands` must have"));
        assert!(wrong(json!({ "commands": [["x"]], "transport": "udp" })).contains("udp"));
    }
}
