//! Reading binary traces, which may be cut off, damaged, or not traces at all.

use std::{
    io::{self, Read},
    ops::Range,
};

use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::{
    super::{Happening, Remedy},
    END, ENGINE_LOG, EVENTS, HAPPENINGS, HEAD, MAGIC, PLAIN_EVENTS, TraceEvent, TraceHead, VERSION,
};

/// No head is longer than this; a chunk of events is far shorter.
const LONGEST_CHUNK: u64 = 256 << 20;
/// Events of a chunk take no more before they are compressed.
const MOST_EVENTS: usize = 16 << 20;

/// A binary trace, as far as any engine can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// What it is about.
    pub head: TraceHead,
    /// What happened, in the order of time.
    pub happenings: Vec<Happening>,
    /// What came from outside, in the order of time.
    pub events: Vec<TraceEvent>,
    /// What only an engine can read.
    pub engine_logs: Vec<EngineLog>,
}

/// The log of an engine, which is not read here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineLog {
    /// The engine's name.
    pub engine: String,
    /// How long it is.
    pub bytes: u64,
    /// Where in the trace its pieces are, in their order.
    pub pieces: Vec<Range<u64>>,
}

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Something else altogether.
    #[error("this is not a trace of hindcast")]
    NotATrace,
    /// From the future.
    #[error("this trace has version {0}, and version {VERSION} is the newest that is known here")]
    Newer(u32),
    /// The end is missing.
    #[error("the trace is cut off")]
    CutOff,
    /// The sum is not what it was.
    #[error("the trace is damaged: its checksum is another")]
    Damaged,
    /// The sum may be right, but what is in it is not.
    #[error("the trace is damaged: a chunk {kind} cannot be read: {why}")]
    BadChunk {
        /// The letters of its kind.
        kind: String,
        /// What is wrong with it.
        why: String,
    },
    /// The system failed us.
    #[error("cannot read the trace: {0}")]
    Unreadable(#[from] io::Error),
}

impl TraceError {
    /// What to do next.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::NotATrace => Remedy::ExportTrace,
            Self::Newer(_) => Remedy::advice("use a newer hindcast"),
            Self::CutOff | Self::Damaged => Remedy::advice("export or copy it again"),
            Self::BadChunk { .. } | Self::Unreadable(_) => Remedy::advice("export the recording again"),
        }
    }
}

impl Trace {
    /// Reads all of it. Nothing is returned unless the checksum is right.
    pub fn read(source: impl Read) -> Result<Self, TraceError> {
        Self::read_parts(source, true)
    }

    /// The same without the events, of which there can be millions.
    pub fn read_without_events(source: impl Read) -> Result<Self, TraceError> {
        Self::read_parts(source, false)
    }

    fn read_parts(source: impl Read, with_events: bool) -> Result<Self, TraceError> {
        let mut source = Summed::new(source);
        source.beginning()?;
        let (mut head, mut happenings) = (None, Vec::new());
        let (mut events, mut engine_logs) = (Vec::new(), Vec::<EngineLog>::new());
        loop {
            let before = source.hash.clone();
            let kind: [u8; 4] = source.array()?;
            let length = u64::from_le_bytes(source.array()?);
            match kind {
                HEAD => head = Some(json(kind, &source.chunk(kind, length)?)?),
                HAPPENINGS => happenings = lines(kind, &source.chunk(kind, length)?)?,
                EVENTS if with_events => {
                    events.extend(lines(kind, &unpacked(kind, &source.chunk(kind, length)?)?)?);
                }
                PLAIN_EVENTS if with_events => events.extend(lines(kind, &source.chunk(kind, length)?)?),
                ENGINE_LOG => {
                    let (engine, piece) = source.engine_log(length)?;
                    let bytes = piece.end - piece.start;
                    match engine_logs.iter_mut().find(|log| log.engine == engine) {
                        Some(log) => {
                            log.bytes += bytes;
                            log.pieces.push(piece);
                        }
                        None => engine_logs.push(EngineLog { engine, bytes, pieces: vec![piece] }),
                    }
                }
                END => {
                    let sum: [u8; 32] = source.array()?;
                    if length != 32 || before.finalize().as_slice() != sum.as_slice() {
                        return Err(TraceError::Damaged);
                    }
                    break;
                }
                // A later version of the same format may have more to say.
                _ => source.skip(length)?,
            }
        }
        let head = head.ok_or_else(|| bad(HEAD, "it is missing"))?;
        Ok(Self { head, happenings, events, engine_logs })
    }
}

impl TraceHead {
    /// Reads what a trace is about and nothing else, so that its checksum is not looked at.
    pub fn read(source: impl Read) -> Result<Self, TraceError> {
        let mut source = Summed::new(source);
        source.beginning()?;
        let kind: [u8; 4] = source.array()?;
        let length = u64::from_le_bytes(source.array()?);
        match kind {
            HEAD => json(kind, &source.chunk(kind, length)?),
            _ => Err(bad(HEAD, "it is missing")),
        }
    }
}

fn bad(kind: [u8; 4], why: impl ToString) -> TraceError {
    TraceError::BadChunk { kind: String::from_utf8_lossy(&kind).into_owned(), why: why.to_string() }
}

fn json<T: DeserializeOwned>(kind: [u8; 4], bytes: &[u8]) -> Result<T, TraceError> {
    serde_json::from_slice(bytes).map_err(|error| bad(kind, error))
}

fn lines<T: DeserializeOwned>(kind: [u8; 4], bytes: &[u8]) -> Result<Vec<T>, TraceError> {
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| json(kind, line)).collect()
}

fn unpacked(kind: [u8; 4], bytes: &[u8]) -> Result<Vec<u8>, TraceError> {
    let (length, packed) = bytes.split_first_chunk().ok_or_else(|| bad(kind, "it is too short"))?;
    let length = u32::from_le_bytes(*length) as usize;
    if length > MOST_EVENTS {
        return Err(bad(kind, format!("it says that it has {length} bytes")));
    }
    lz4_flex::block::decompress(packed, length).map_err(|error| bad(kind, error))
}

/// What is read, with the sum of it so far.
struct Summed<R> {
    source: R,
    hash: Sha256,
    /// How much was read.
    position: u64,
}

impl<R: Read> Summed<R> {
    fn new(source: R) -> Self {
        Self { source, hash: Sha256::new(), position: 0 }
    }

    /// What every trace begins with.
    fn beginning(&mut self) -> Result<(), TraceError> {
        let mut magic = [0; MAGIC.len()];
        match self.fill(&mut magic) {
            Ok(()) if magic == *MAGIC => {}
            Ok(()) | Err(TraceError::CutOff) => return Err(TraceError::NotATrace),
            Err(error) => return Err(error),
        }
        match u32::from_le_bytes(self.array()?) {
            VERSION => Ok(()),
            version => Err(TraceError::Newer(version)),
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), TraceError> {
        self.source.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => TraceError::CutOff,
            _ => TraceError::Unreadable(error),
        })?;
        self.hash.update(&*bytes);
        self.position += bytes.len() as u64;
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], TraceError> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    /// Memory is taken as bytes come in: a damaged length must not take all there is.
    fn chunk(&mut self, kind: [u8; 4], length: u64) -> Result<Vec<u8>, TraceError> {
        if length > LONGEST_CHUNK {
            return Err(bad(kind, format!("it says that it has {length} bytes")));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.source).take(length).read_to_end(&mut bytes)?;
        if read as u64 != length {
            return Err(TraceError::CutOff);
        }
        self.hash.update(&bytes);
        self.position += length;
        Ok(bytes)
    }

    /// Whose log it is, and where.
    fn engine_log(&mut self, length: u64) -> Result<(String, Range<u64>), TraceError> {
        let [name_length]: [u8; 1] = self.array()?;
        let name = self.chunk(ENGINE_LOG, u64::from(name_length))?;
        let rest = length.checked_sub(1 + u64::from(name_length));
        let bytes = rest.ok_or_else(|| bad(ENGINE_LOG, "it is shorter than its name"))?;
        let start = self.position;
        self.skip(bytes)?;
        Ok((String::from_utf8_lossy(&name).into_owned(), start..self.position))
    }

    fn skip(&mut self, mut length: u64) -> Result<(), TraceError> {
        let mut buffer = vec![0; 64 << 10];
        while length > 0 {
            let now = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.len());
            self.fill(&mut buffer[..now])?;
            length -= now as u64;
        }
        Ok(())
    }
}
