//! What can be seen while a program stands still.

use std::{path::PathBuf, sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{RuntimeAddr, ThreadId, Wait};

/// A place in a program, with all that is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub struct Location {
    /// As the debug information spells it, made absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// From 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// Demangled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// File name of the executable or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whether this is not the program's own code, but the system's, the language's or a package's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub library: bool,
    /// The instruction, where the engine sees machine code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
}

impl Location {
    /// Where that is, in a word: the address, or the line of the file, or the function, whichever is known first.
    pub fn short(&self) -> String {
        let file = self.file.as_deref().map(|file| file.rsplit(['/', '\\']).next().unwrap_or(file));
        match (self.address, file, self.line) {
            (Some(address), _, _) => address.to_string(),
            (None, Some(file), Some(line)) => format!("{file}:{line}"),
            _ => self.function.clone().unwrap_or_else(|| "an unknown place".into()),
        }
    }

    /// `A.Get at A.cs:3`, as far as it is known.
    pub fn in_words(&self) -> String {
        let function = self.function.as_deref().unwrap_or("??");
        match (&self.file, self.line) {
            (Some(file), Some(line)) => {
                let name = file.rsplit(['/', '\\']).next().unwrap_or(file);
                format!("{function} at {name}:{line}")
            }
            _ => function.to_owned(),
        }
    }
}

/// One level of a call stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// 0 is the innermost.
    pub index: u32,
    /// Where it is, or where it goes on when the call returns.
    #[serde(flatten)]
    pub location: Location,
    /// How far `address` is from the beginning of the function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// Whether the compiler put this call's code into its caller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
    /// Whether this is the frame that the system made to call a signal handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signal: bool,
    /// Whether this method is on no stack: it awaits the one before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaiting: bool,
}

/// A call stack, or the inner part of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Whose.
    pub thread: ThreadId,
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// Whether there are frames beyond these.
    pub more: bool,
    /// Why it could not be followed to its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// A frame of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FrameRef {
    /// Whose.
    pub thread: ThreadId,
    /// 0 is the innermost.
    pub index: u32,
    /// Which of its stacks.
    #[serde(default)]
    pub view: View,
}

impl FrameRef {
    /// A frame of the stack that is shown.
    pub fn of(thread: ThreadId, index: u32) -> Self {
        Self { thread, index, view: View::Auto }
    }

    /// The frame of that number of another stack.
    pub fn seen_as(self, view: View) -> Self {
        Self { view, ..self }
    }
}

/// Whose frames are meant where an interpreter, which has frames of its own, runs a program in another language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum View {
    /// Those of the program; those of the machine where it stopped for something that only the machine knows
    #[default]
    Auto,
    /// Those of the machine, so also of the interpreter
    Native,
    /// Those of the program in Python
    Python,
}

/// A thread as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Thread {
    /// Its number.
    pub id: ThreadId,
    /// As the program named it.
    pub name: String,
    /// What it does.
    pub state: ThreadState,
    /// Where it is; the innermost frame with source where the innermost has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<Location>,
    /// What it waits for, and who has that, where the engine can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<String>,
    /// The same as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ThreadState {
    /// It runs.
    Running,
    /// We hold it.
    Suspended,
    /// It has ended.
    Exited,
}

/// An executable or library in the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Module {
    /// Its file name.
    pub name: String,
    /// Its path.
    pub path: String,
    /// Where it begins, where the engine sees addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<RuntimeAddr>,
    /// How far it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// What is known of its symbols: `dwarf`, `symtab`, `pdb` or `none`, and from which file.
    pub symbols: String,
    /// Hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

/// How much of a value to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueLimits {
    /// How many levels of children.
    pub depth: u32,
    /// How many children of each.
    pub children: u32,
    /// From which child of the outermost value on.
    pub offset: u64,
    /// How many bytes of a text.
    pub text: u32,
}

impl Default for ValueLimits {
    fn default() -> Self {
        Self { depth: 2, children: 20, offset: 0, text: 200 }
    }
}

/// Which variables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VariableScope {
    /// Arguments and locals of the frame
    #[default]
    Local,
    /// Arguments of the frame
    Arguments,
    /// Globals and statics of the frame's source file
    Global,
    /// Registers of the frame
    Registers,
}

/// Variables to look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariableQuery {
    /// In which frame.
    pub frame: FrameRef,
    /// Which ones.
    pub scope: VariableScope,
    /// Only names that contain this.
    pub filter: Option<String>,
    /// From which one on.
    pub offset: u32,
    /// How many.
    pub limit: u32,
    /// How much of each.
    pub limits: ValueLimits,
    /// As in [`Evaluation::allow_calls`], for what is computed to show a value, such as a property.
    pub allow_calls: Option<Duration>,
}

/// Some of the variables that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariablePage {
    /// Inner scopes first.
    pub variables: Vec<Variable>,
    /// How many there are in all.
    pub total: u32,
}

/// A value with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Variable {
    /// Its name, or its place in what it is part of.
    pub name: String,
    /// As its language writes it.
    #[serde(rename = "type")]
    pub type_name: String,
    /// On one line, cut to the limits.
    pub value: String,
    /// Whether it is really there.
    #[serde(default, skip_serializing_if = "ValueState::is_available")]
    pub state: ValueState,
    /// Where it is, when it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
    /// Its parts, as deep as was asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Variable>,
    /// How many parts it has in all, when it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub child_count: Option<u64>,
    /// Whether something was left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

/// Whether a value is really there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ValueState {
    /// It was read.
    #[default]
    Available,
    /// The compiler does not keep it at this place.
    OptimisedOut,
    /// Its declaration is still ahead: what is there is not yet its value.
    NotYetInitialised,
    /// Its memory cannot be read.
    Unreadable,
}

impl ValueState {
    fn is_available(&self) -> bool {
        *self == Self::Available
    }
}

/// An expression to evaluate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The expression.
    pub expression: String,
    /// In whose scope.
    pub frame: FrameRef,
    /// How much of the value.
    pub limits: ValueLimits,
    /// How numbers are written.
    pub format: NumberFormat,
    /// Whether assignments are carried out; otherwise they are refused.
    pub may_write: bool,
    /// How long code of the program may run to compute it; none of it may where absent.
    pub allow_calls: Option<Duration>,
}

/// A search among the elements of containers, lists and trees.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElementSearch {
    /// What to go through: a container, `builds[*].job[*]`, `list(head, next)`, `tree(root, left, right)`.
    pub elements: String,
    /// What holds for those that are wanted. The names of an element's members come first, `it` is the element.
    pub condition: Option<String>,
    /// What to tell of each; the element itself where this is empty.
    pub show: Vec<String>,
    /// By what the found ones are ordered, the smallest first; otherwise they stay in the order of the program.
    pub order: Option<String>,
    /// Only those that have the same of this as another one that was found.
    pub duplicates_of: Option<String>,
    /// In whose scope.
    pub frame: FrameRef,
    /// How many of the found ones to leave out first.
    pub offset: u64,
    /// How many of them to tell.
    pub limit: u32,
    /// How much of each value.
    pub limits: ValueLimits,
}

/// Some of the elements that were found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElementPage {
    /// Those that were asked for.
    pub elements: Vec<FoundElement>,
    /// How many were found in all.
    pub found: u64,
    /// How many were looked at.
    pub searched: u64,
    /// How many could not be judged, because what the condition or the order reads is not there.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: u64,
    /// Why not all elements were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// An element that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundElement {
    /// An expression for it, for later questions; none for what is computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// Where it is, when it is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<RuntimeAddr>,
    /// The key of a map's entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Variable>,
    /// What was asked for of it.
    pub values: Vec<Variable>,
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NumberFormat {
    /// As the type suggests
    #[default]
    Auto,
    /// Hexadecimal
    Hex,
    /// Decimal
    Decimal,
    /// Octal
    Octal,
    /// Binary
    Binary,
}

/// Bytes that were read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBlock {
    /// Where they begin.
    pub address: RuntimeAddr,
    /// Fewer than asked where the mapping ends.
    #[serde(with = "super::as_base64")]
    pub bytes: Vec<u8>,
}

/// A mapping of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Its first byte.
    pub start: RuntimeAddr,
    /// Behind its last byte.
    pub end: RuntimeAddr,
    /// As `/proc` writes it, such as `rw-p`.
    pub permissions: String,
    /// A file, `[heap]`, `[stack]`, or nothing.
    pub name: String,
}

/// A group of registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RegisterSet {
    /// General registers, instruction pointer and flags
    #[default]
    General,
    /// Floating point and vector registers
    Vector,
    /// All of them
    All,
    /// Those that the current instruction uses, and where it and its stack are
    Used,
}

/// A register of a frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Register {
    /// Such as `rax`.
    pub name: String,
    /// Hexadecimal; absent where the frame's caller did not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// What it means: flags by name, an address by symbol.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<String>,
}

/// A machine instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Instruction {
    /// Where it is.
    pub address: RuntimeAddr,
    /// Its bytes, hexadecimal; without our breakpoints.
    pub bytes: String,
    /// In Intel syntax, with symbols for addresses.
    pub text: String,
    /// The function it is in, and how far from its beginning: `main+0x20`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// The line it was made from, where that is another than the instruction's before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Whether the thread goes on here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub current: bool,
}

/// Where the text of a source file comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceFile {
    /// The file on disk.
    pub path: Option<PathBuf>,
    /// The text that the program carries with it, where there is no file on disk.
    pub text: Option<Arc<str>>,
    /// Whether the file differs from the one that the program was built from.
    pub changed: bool,
}

impl SourceFile {
    /// A file on disk, as far as is known the one that the program was built from.
    pub fn on_disk(path: PathBuf) -> Self {
        Self { path: Some(path), text: None, changed: false }
    }
}

/// What a beginning is completed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CompletionKind {
    /// A source file.
    File,
    /// A function.
    Function,
    /// A variable in scope of the current frame.
    Variable,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_named_by_what_is_known_of_it() {
        let function = Location { function: Some("Main".into()), ..Location::default() };
        let line = Location { file: Some("/src/Program.cs".into()), line: Some(4), ..function.clone() };
        let code = Location { address: Some(RuntimeAddr(0x1000)), ..line.clone() };
        let short = [&code, &line, &function, &Location::default()].map(Location::short);
        assert_eq!(short, ["0x1000", "Program.cs:4", "Main", "an unknown place"]);
        assert!(!serde_json::to_string(&line).unwrap().contains("address"));
    }
}
