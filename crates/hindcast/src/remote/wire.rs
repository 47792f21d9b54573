//! What server and worker say to each other.
//!
//! ```text
//! calls:  frame: length (u32) · kind (u8) · that many bytes       a socket, both ways
//!   to the worker    CALL      number (u64) · a Call, JSON        one at a time
//!   from the worker  ANSWER    number (u64) · a Result, JSON      one for each call, the last of its frames
//!                    OUTPUT    stream (u8) · bytes                at any time: what the program printed
//!                    WRITTEN   bytes                              of the recording that is written out
//!                    PROGRESS  a Report, JSON                     of the same
//!                    FAULT     text                               the engine panicked; the last frame
//!   to the worker, before all frames: length (u32) · a Setup, JSON
//! bells:  number (u64)                                            a second socket, to the worker:
//!                                                                 0 interrupts, others give up that call
//! ```
//!
//! Numbers are little-endian. Both ends are the same program, so there is no version.

use std::io::{self, Read, Write};

use hindcast_core::debug::{
    AttachRequest, BreakpointChange, BreakpointId, CompletionKind, Confinement, CoreRequest, ElementSearch,
    Ending, Evaluation, FrameRef, LaunchRequest, Layer, Movement, OutputStream, Place, PointerSearch,
    Question, RegisterSet, RuntimeAddr, Target, ThreadId, TimelineQuery, TraceFileRequest, TraceRequest,
    Trigger, VariableQuery, View, as_base64,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// No honest frame is longer: a program's input is the longest thing that is passed on.
pub(super) const LONGEST_FRAME: usize = 64 << 20;

/// The largest piece of output and of a recording in one frame.
pub(super) const PIECE: usize = 64 << 10;

/// The number of no call: rings for whatever moves.
pub(super) const INTERRUPT: u64 = 0;

const CALL: u8 = b'c';
const ANSWER: u8 = b'a';
const OUTPUT: u8 = b'o';
const WRITTEN: u8 = b'w';
const PROGRESS: u8 = b'p';
const FAULT: u8 = b'f';

macro_rules! define_calls {
    (
        moved { $($moved:tt)* }
        session { $($session:tt)* }
        facets { $($facet:ident: $trait:ident, $what:literal { $($row:tt)* })* }
    ) => {
        define_call! { $($moved)* $($session)* $($($row)*)* }

        /// Which facets the engine has.
        #[derive(Debug, Clone, Copy, Serialize, Deserialize)]
        pub(super) struct Facets {
            $(pub(super) $facet: bool,)*
        }
    };
}

macro_rules! define_call {
    ($($call:ident: fn $method:ident($($(#[$how:meta])* $name:ident: $type:tt),*) -> $answer:ty;)*) => {
        /// A question to the worker. The answer is what the seam's method gives, in [`Moved`] where the program may be
        /// another then.
        #[derive(Debug, Serialize, Deserialize)]
        pub(super) enum Call {
            Capabilities,
            /// What keeps the worker in.
            Layers,
            /// The first of a session, which all others need; answered with [`Begun`].
            Begin(Beginning),
            /// What is written comes before the answer, in frames of its own.
            Export(TraceRequest),
            $($call { $($(#[$how])* $name: sent_type!($type),)* },)*
        }
    };
}

seam!(define_calls);

/// What a worker is told before anything else. Not in its arguments or variables, which a program that it starts can read.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Setup {
    /// The user's profiles of debug adapters: JSON.
    pub(crate) users_profiles: Option<String>,
    /// What keeps it and its programs in.
    pub(crate) confinement: Option<Confinement>,
}

impl Setup {
    pub(super) fn write(&self, sink: &mut impl Write) -> io::Result<()> {
        let json = serde_json::to_vec(self)?;
        let length = u32::try_from(json.len()).map_err(io::Error::other)?;
        sink.write_all(&length.to_le_bytes())?;
        sink.write_all(&json)
    }

    pub(crate) fn read(source: &mut impl Read) -> io::Result<Self> {
        let mut length = [0; 4];
        source.read_exact(&mut length)?;
        let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
        source.read_exact(&mut bytes)?;
        json(&bytes)
    }
}

/// How a session begins. Where the output goes is not said: it comes back in frames.
#[derive(Debug, Serialize, Deserialize)]
#[allow(clippy::large_enum_variant, reason = "there is one in a session")]
pub(super) enum Beginning {
    Launch(LaunchRequest),
    Attach(AttachRequest),
    Core(CoreRequest),
    Trace(TraceFileRequest),
}

/// A session that has begun.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Begun {
    pub(super) target: Target,
    pub(super) facets: Facets,
    pub(super) layers: Vec<Layer>,
}

/// The end of a movement.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Moved<T> {
    pub(super) outcome: T,
    /// What the session is about, where the program became another.
    pub(super) target: Option<Target>,
}

/// How far long work is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) done: u64,
    pub(super) total: Option<u64>,
    pub(super) message: String,
}

/// One message on the socket of calls.
#[derive(Debug)]
pub(super) enum Frame {
    /// The JSON of a [`Call`].
    Call {
        number: u64,
        json: Vec<u8>,
    },
    /// The JSON of a [`Result`].
    Answer {
        number: u64,
        json: Vec<u8>,
    },
    Output(OutputStream, Vec<u8>),
    Written(Vec<u8>),
    Progress(Report),
    Fault(String),
}

impl Frame {
    /// The next one; none where the other side has ended between two of them.
    pub(super) fn read(source: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 5];
        // A first byte that does not come is an end between two frames.
        match source.read_exact(&mut head[..1]) {
            Ok(()) => source.read_exact(&mut head[1..])?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        }
        let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
        if length > LONGEST_FRAME {
            return Err(malformed(format!("a frame of {length} bytes")));
        }
        // Not allocated before it has come: the length may be a lie.
        let mut bytes = Vec::new();
        if source.take(length as u64).read_to_end(&mut bytes)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::of(head[4], bytes).map(Some)
    }

    fn of(kind: u8, mut bytes: Vec<u8>) -> io::Result<Self> {
        match kind {
            CALL => numbered(bytes).map(|(number, json)| Self::Call { number, json }),
            ANSWER => numbered(bytes).map(|(number, json)| Self::Answer { number, json }),
            OUTPUT => {
                let stream = match bytes.first() {
                    Some(0) => OutputStream::Stdout,
                    Some(1) => OutputStream::Stderr,
                    Some(2) => OutputStream::Log,
                    _ => return Err(malformed("output of no stream")),
                };
                bytes.remove(0);
                Ok(Self::Output(stream, bytes))
            }
            WRITTEN => Ok(Self::Written(bytes)),
            PROGRESS => json(&bytes).map(Self::Progress),
            FAULT => Ok(Self::Fault(String::from_utf8_lossy(&bytes).into_owned())),
            _ => Err(malformed(format!("a frame of the unknown kind {kind}"))),
        }
    }

    /// Writes it at once.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Call { number, json } => put(to, CALL, &number.to_le_bytes(), json),
            Self::Answer { number, json } => put(to, ANSWER, &number.to_le_bytes(), json),
            Self::Output(stream, bytes) => put(to, OUTPUT, &[stream_number(*stream)], bytes),
            Self::Written(bytes) => put(to, WRITTEN, &[], bytes),
            Self::Progress(report) => put(to, PROGRESS, &[], &serde_json::to_vec(report)?),
            Self::Fault(text) => put(to, FAULT, &[], text.as_bytes()),
        }
    }
}

fn stream_number(stream: OutputStream) -> u8 {
    match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 1,
        OutputStream::Log => 2,
    }
}

fn put(to: &mut impl Write, kind: u8, first: &[u8], rest: &[u8]) -> io::Result<()> {
    let length = first.len() + rest.len();
    let written = u32::try_from(length).ok().filter(|_| length <= LONGEST_FRAME);
    let Some(written) = written else {
        let what = format!("{length} bytes are more than can be passed on");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    };
    // In one piece: a frame is mostly short, and every write wakes the other side.
    let mut frame = Vec::with_capacity(5 + length);
    frame.extend_from_slice(&written.to_le_bytes());
    frame.push(kind);
    frame.extend_from_slice(first);
    frame.extend_from_slice(rest);
    to.write_all(&frame)
}

fn numbered(mut bytes: Vec<u8>) -> io::Result<(u64, Vec<u8>)> {
    let Some(number) = bytes.first_chunk::<8>().map(|number| u64::from_le_bytes(*number)) else {
        return Err(malformed("a frame without its number"));
    };
    bytes.drain(..8);
    Ok((number, bytes))
}

/// Reads JSON of the other side.
pub(super) fn json<T: DeserializeOwned>(bytes: &[u8]) -> io::Result<T> {
    serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))
}

pub(super) fn malformed(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}
