//! Where and why a program is to stop.

use std::{borrow::Cow, fmt, str::FromStr};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{DebugError, FrameRef, Location, Reason, RuntimeAddr};

/// A breakpoint, watchpoint or exception breakpoint of one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BreakpointId(pub u32);

impl fmt::Display for BreakpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Not the name of a breakpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a breakpoint's id")]
pub struct NotABreakpointId(String);

impl FromStr for BreakpointId {
    type Err = NotABreakpointId;

    /// Reads `1`, and also `bp-1` and `ex-1` as the resource spells them.
    fn from_str(text: &str) -> Result<Self, NotABreakpointId> {
        let digits = text.strip_prefix("bp-").or_else(|| text.strip_prefix("ex-")).unwrap_or(text);
        digits.parse().map(Self).map_err(|_| NotABreakpointId(text.chars().take(40).collect()))
    }
}

impl Serialize for BreakpointId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for BreakpointId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Number(number) => Ok(Self(number)),
            Written::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

impl JsonSchema for BreakpointId {
    fn schema_name() -> Cow<'static, str> {
        "BreakpointId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["1"] })
    }

    fn inline_schema() -> bool {
        true
    }
}

/// A place in the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// This instruction.
    Address(RuntimeAddr),
    /// The statements of a line; `file` may be the end of a path.
    Line {
        /// A path or the end of one.
        file: String,
        /// From 1.
        line: u32,
    },
    /// Every function of this name, after its prologue: qualified or not, with or without template
    /// arguments; `/…/` is a regular expression.
    Function(String),
    /// The lines of `file` that contain this text.
    Statement {
        /// A path or the end of one.
        file: String,
        /// Compared without regard to white space.
        text: String,
    },
}

impl Place {
    /// A function, or a line written as `counter.c:12`.
    pub fn named(text: &str) -> Self {
        match text.rsplit_once(':') {
            Some((file, line)) if !file.ends_with(':') && file.contains('.') => match line.parse() {
                Ok(line) => Self::Line { file: file.into(), line },
                Err(_) => Self::Function(text.into()),
            },
            _ => Self::Function(text.into()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => write!(f, "{address}"),
            Self::Line { file, line } => write!(f, "{file}:{line}"),
            Self::Function(name) => f.write_str(name),
            Self::Statement { file, text } => write!(f, "{file}: {text}"),
        }
    }
}

/// What stops the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Trigger {
    /// Getting to a place in the code.
    Code(CodeBreakpoint),
    /// A value being accessed.
    Watch(Watchpoint),
    /// A signal, panic or exception.
    Exception(ExceptionBreakpoint),
}

/// Stops at a place, or only tells that it was passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeBreakpoint {
    /// Where.
    pub place: Place,
    /// Only when this expression is true.
    pub condition: Option<String>,
    /// Only from this hit on.
    pub hit_count: u64,
    /// Does not stop but writes this, with `{expression}` filled in, to the log.
    pub log_message: Option<String>,
    /// Only every so many hits; 0 for all.
    pub hit_count_multiple: u64,
    /// So many log messages at most; 0 for any number.
    pub max_notifications: u64,
    /// Gone after its first stop.
    pub temporary: bool,
    /// Does not stop, but counts its hits.
    #[serde(default)]
    pub count_only: bool,
    /// Counts them apart by the value of this expression.
    #[serde(default)]
    pub count_by: Option<String>,
    /// Whether it is looked at.
    pub enabled: bool,
}

impl CodeBreakpoint {
    /// One that always stops.
    pub fn at(place: Place) -> Self {
        Self {
            place,
            condition: None,
            hit_count: 0,
            log_message: None,
            hit_count_multiple: 0,
            max_notifications: 0,
            temporary: false,
            count_only: false,
            count_by: None,
            enabled: true,
        }
    }
}

/// Stops when a value is accessed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watchpoint {
    /// Which value.
    pub watched: Watched,
    /// What counts.
    pub access: Access,
    /// Only when this expression is true.
    pub condition: Option<String>,
    /// Whether it is looked at.
    pub enabled: bool,
}

/// A value to watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Watched {
    /// Where this expression's value is now.
    Expression {
        /// As `evaluate` takes it.
        text: String,
        /// In whose scope.
        frame: FrameRef,
    },
    /// These bytes.
    Memory {
        /// The first.
        address: RuntimeAddr,
        /// How many.
        size: u64,
    },
}

/// How a value is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Written
    #[default]
    Write,
    /// Read
    Read,
    /// Written or read
    ReadWrite,
}

/// Stops at a signal, panic or exception.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExceptionBreakpoint {
    /// `signal:SIGSEGV`, `rust:panic`, `cpp:std::runtime_error`, `cpp:*`.
    pub exception_type: String,
    /// When it is raised.
    pub first_chance: bool,
    /// When nobody catches it.
    pub second_chance: bool,
    /// Also for types derived from it.
    pub include_subtypes: bool,
    /// Whether it is looked at.
    pub enabled: bool,
}

/// A breakpoint as it stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakpoint {
    /// Its name.
    pub id: BreakpointId,
    /// What was asked for.
    pub trigger: Trigger,
    /// What became of that.
    pub binding: Binding,
    /// How often it was hit with its condition true.
    pub hit_count: u64,
    /// How many log messages it wrote.
    pub notifications_sent: u64,
    /// Of one that only counts: its hits by value, the most frequent first. Without values, there are none.
    #[serde(default)]
    pub counts: Vec<Count>,
}

/// How often a value was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// On one line.
    pub value: String,
    /// With so many hits.
    pub hits: u64,
}

/// Whether a breakpoint is in the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Binding {
    /// At these locations; none for an exception breakpoint.
    Bound {
        /// Where it really is.
        locations: Vec<Location>,
        /// What the user should know, such as that it moved to the next line.
        note: Option<String>,
    },
    /// Nowhere yet; it binds when a library with such a place is loaded.
    Pending {
        /// Why, and what would do.
        reason: String,
    },
}

/// What to change of a breakpoint; what is `None` stays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakpointChange {
    /// Whether it is looked at.
    pub enabled: Option<bool>,
    /// An empty text removes it.
    pub condition: Option<String>,
    /// From which hit on.
    pub hit_count: Option<u64>,
    /// An empty text makes it stop again.
    pub log_message: Option<String>,
    /// Every so many hits.
    pub hit_count_multiple: Option<u64>,
    /// So many log messages at most.
    pub max_notifications: Option<u64>,
}

impl Trigger {
    /// The expression that must be true for it to stop.
    pub fn condition(&self) -> Option<&str> {
        match self {
            Self::Code(code) => code.condition.as_deref(),
            Self::Watch(watch) => watch.condition.as_deref(),
            Self::Exception(_) => None,
        }
    }

    /// The trigger with a change made.
    ///
    /// # Errors
    ///
    /// When a trigger of this kind has nothing of what is to be changed.
    pub fn changed(&self, change: BreakpointChange) -> Result<Self, DebugError> {
        let BreakpointChange {
            enabled,
            condition,
            hit_count,
            log_message,
            hit_count_multiple,
            max_notifications,
        } = change;
        let unless_empty = |text: String| (!text.trim().is_empty()).then_some(text);
        let counts = hit_count.is_some() || hit_count_multiple.is_some() || max_notifications.is_some();
        let refused = |what: &'static str| {
            Err(DebugError::BreakpointFailed(Reason::new(what).advise("remove it and set another")))
        };
        let mut changed = self.clone();
        match &mut changed {
            Self::Code(code) => {
                code.enabled = enabled.unwrap_or(code.enabled);
                code.hit_count = hit_count.unwrap_or(code.hit_count);
                code.hit_count_multiple = hit_count_multiple.unwrap_or(code.hit_count_multiple);
                code.max_notifications = max_notifications.unwrap_or(code.max_notifications);
                if let Some(condition) = condition {
                    code.condition = unless_empty(condition);
                }
                if let Some(message) = log_message {
                    code.log_message = unless_empty(message);
                }
            }
            Self::Watch(_) if counts || log_message.is_some() => {
                return refused(
                    "only the condition of a watchpoint can be changed, and whether it is enabled",
                );
            }
            Self::Watch(watch) => {
                watch.enabled = enabled.unwrap_or(watch.enabled);
                if let Some(condition) = condition {
                    watch.condition = unless_empty(condition);
                }
            }
            Self::Exception(_) if counts || log_message.is_some() || condition.is_some() => {
                return refused("an exception breakpoint can only be enabled and disabled");
            }
            Self::Exception(exception) => exception.enabled = enabled.unwrap_or(exception.enabled),
        }
        Ok(changed)
    }
}
