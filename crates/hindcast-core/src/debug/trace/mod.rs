//! A recording that is written out: what every engine tells about one, and the three forms of that.
//!
//! The binary form is a row of chunks, so that a reader can skip what it does not know:
//!
//! ```text
//! "hindcast" · version (u32) · chunk… · end chunk
//! chunk: kind (4 letters) · length (u64) · that many bytes
//!   HEAD  the TraceHead, JSON                       once, first
//!   HAPP  the Happenings, JSON, one a line          once, second
//!   EVNZ  length (u32) · LZ4 block of so many bytes any number: TraceEvents, JSON, one a line, in the order of time
//!   EVNT  the same, not compressed                  written by older versions
//!   ELOG  length of a name (u8) · name · bytes      an engine's own log, which only it can read
//!   END.  SHA-256 of everything before this chunk   once, last
//! ```
//!
//! Numbers are little-endian. `docs/time-travel.md` says what an engine is to put where.

mod read;
mod text;
mod write;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use read::{EngineLog, Trace, TraceError};
pub use text::happening_in_a_line;
pub use write::TraceWriter;

use super::{Moment, Recording, Target, ThreadId};

/// With this every recording begins.
pub const MAGIC: &[u8; 8] = b"hindcast";
/// Raised when a reader of an older version would misunderstand what is written.
const VERSION: u32 = 1;

const HEAD: [u8; 4] = *b"HEAD";
const HAPPENINGS: [u8; 4] = *b"HAPP";
const EVENTS: [u8; 4] = *b"EVNZ";
const PLAIN_EVENTS: [u8; 4] = *b"EVNT";
const ENGINE_LOG: [u8; 4] = *b"ELOG";
const END: [u8; 4] = *b"END.";

/// What a trace is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceHead {
    /// Which version of which engine, such as `hindcast-native 0.1.0`.
    pub made_by: String,
    /// When it was written.
    pub made_at: Timestamp,
    /// What a replay depends on: the system and the processor.
    pub machine: String,
    /// The program.
    pub target: Target,
    /// The whole recording.
    pub recording: Recording,
    /// The first checkpoint of the part that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_snapshot: Option<u64>,
    /// The last checkpoint of the part that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_snapshot: Option<u64>,
}

/// Something that came into the program from outside, and was logged: a system call's result, a
/// signal, a time stamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceEvent {
    /// When.
    pub moment: Moment,
    /// Whom it happened to.
    pub thread: ThreadId,
    /// In a word, such as `syscall`.
    pub kind: String,
    /// On one line, such as `read(0, 0x7ffd…, 4096) = 12`.
    pub what: String,
}

#[cfg(test)]
mod tests;
