//! What a debuggee printed: kept up to a limit, read by cursor.

use std::{
    collections::VecDeque,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where something was printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutputStream {
    /// The program's standard output
    Stdout,
    /// The program's standard error
    Stderr,
    /// Messages of tracepoints
    Log,
}

/// Collects what a debuggee prints. The oldest is forgotten beyond a limit, and that is told.
pub struct OutputLog {
    kept: Mutex<Kept>,
    limit: usize,
    listener: Option<Listener>,
}

/// Hears what is printed, as it is printed.
type Listener = Box<dyn Fn(OutputStream, &[u8]) + Send + Sync>;

#[derive(Debug, Default)]
struct Kept {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// How many bytes were ever written: the cursor behind the last piece.
    end: u64,
}

#[derive(Debug)]
struct Piece {
    stream: OutputStream,
    start: u64,
    bytes: Vec<u8>,
}

/// Pieces longer than this are not grown further, so that forgetting goes by small steps.
const PIECE: usize = 16 << 10;

/// What was printed since a cursor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutputChunk {
    /// In the order of arrival; neighbours of one stream are joined.
    pub pieces: Vec<(OutputStream, Vec<u8>)>,
    /// How many bytes after the cursor were forgotten before they were read.
    pub dropped: u64,
    /// Where to go on reading.
    pub next: u64,
    /// Whether there is more behind `next` already.
    pub more: bool,
}

impl fmt::Debug for OutputLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutputLog")
            .field("end", &self.end())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl OutputLog {
    /// An empty log that keeps about `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { kept: Mutex::default(), limit, listener: None }
    }

    /// One that keeps next to nothing, and passes everything on to `listener`. Whoever prints waits for that.
    pub fn passed_on(listener: impl Fn(OutputStream, &[u8]) + Send + Sync + 'static) -> Self {
        Self { kept: Mutex::default(), limit: 0, listener: Some(Box::new(listener)) }
    }

    /// Adds what was printed.
    pub fn push(&self, stream: OutputStream, bytes: &[u8]) {
        if let Some(listener) = &self.listener {
            listener(stream, bytes);
        }
        let mut kept = self.kept();
        for part in bytes.chunks(PIECE) {
            let start = kept.end;
            match kept.pieces.back_mut() {
                Some(last) if last.stream == stream && last.bytes.len() + part.len() <= PIECE => {
                    last.bytes.extend_from_slice(part);
                }
                _ => kept.pieces.push_back(Piece { stream, start, bytes: part.to_vec() }),
            }
            kept.end += part.len() as u64;
            kept.bytes += part.len();
            while kept.bytes > self.limit && kept.pieces.len() > 1 {
                let oldest = kept.pieces.pop_front().map_or(0, |piece| piece.bytes.len());
                kept.bytes -= oldest;
            }
        }
    }

    /// The cursor behind everything so far.
    pub fn end(&self) -> u64 {
        self.kept().end
    }

    /// What came after `since`, at most `limit` bytes of it, of one stream or of all.
    pub fn read(&self, since: u64, limit: usize, only: Option<OutputStream>) -> OutputChunk {
        let kept = self.kept();
        let first = kept.pieces.front().map_or(kept.end, |piece| piece.start);
        let since = since.min(kept.end);
        let mut chunk = OutputChunk {
            dropped: first.saturating_sub(since),
            next: since.max(first),
            ..OutputChunk::default()
        };
        let mut room = limit;
        for piece in &kept.pieces {
            let end = piece.start + piece.bytes.len() as u64;
            if end <= chunk.next {
                continue;
            }
            // First, so that what did not fit is not skipped along with other streams' pieces.
            if room == 0 {
                break;
            }
            if only.is_some_and(|only| only != piece.stream) {
                chunk.next = end;
                continue;
            }
            let from = usize::try_from(chunk.next - piece.start).unwrap_or(usize::MAX);
            let bytes = &piece.bytes[from..];
            let bytes = &bytes[..bytes.len().min(room)];
            room -= bytes.len();
            chunk.next += bytes.len() as u64;
            match chunk.pieces.last_mut() {
                Some((stream, text)) if *stream == piece.stream => text.extend_from_slice(bytes),
                _ => chunk.pieces.push((piece.stream, bytes.to_vec())),
            }
        }
        chunk.more = chunk.next < kept.end;
        chunk
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_everything_once_and_hears_what_was_forgotten() {
        let log = OutputLog::new(2 * PIECE);
        log.push(OutputStream::Stdout, b"one ");
        log.push(OutputStream::Stdout, b"two");
        log.push(OutputStream::Stderr, b"!");
        let chunk = log.read(0, 100, None);
        assert_eq!(
            chunk.pieces,
            [(OutputStream::Stdout, b"one two".to_vec()), (OutputStream::Stderr, b"!".to_vec())]
        );
        assert_eq!((chunk.next, chunk.dropped, chunk.more), (8, 0, false));
        assert_eq!(log.read(chunk.next, 100, None).pieces, []);

        let rest = log.read(2, 3, Some(OutputStream::Stdout));
        assert_eq!(rest.pieces, [(OutputStream::Stdout, b"e t".to_vec())]);
        assert!(rest.more);

        log.push(OutputStream::Stdout, &vec![b'x'; 5 * PIECE]);
        let chunk = log.read(8, usize::MAX, None);
        let read: usize = chunk.pieces.iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(read <= 2 * PIECE, "{read}");
        assert_eq!(chunk.dropped + read as u64, 5 * PIECE as u64);
        assert_eq!(chunk.next, log.end());
    }
}
