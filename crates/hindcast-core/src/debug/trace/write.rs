//! Writing traces.

use std::io::{self, Write};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    super::{Happening, TraceFormat},
    END, ENGINE_LOG, EVENTS, HAPPENINGS, HEAD, MAGIC, TraceEvent, TraceHead, VERSION, happening_in_a_line,
};

/// Events are gathered up to this size before they become a chunk.
const CHUNK: usize = 64 << 10;

/// Writes one trace, in the form that was asked for: the head and the happenings first, then the
/// events in the order of time.
///
/// In the text and the JSON form every event and happening stands on a line of its own.
pub struct TraceWriter<'a> {
    format: TraceFormat,
    sink: &'a mut dyn Write,
    events: u64,
    /// Events that are not in a chunk yet.
    gathered: Vec<u8>,
    hash: Sha256,
}

impl<'a> TraceWriter<'a> {
    /// Writes all but the events.
    pub fn begin(
        format: TraceFormat,
        sink: &'a mut dyn Write,
        head: &TraceHead,
        happenings: &[Happening],
    ) -> io::Result<Self> {
        let mut writer = Self { format, sink, events: 0, gathered: Vec::new(), hash: Sha256::new() };
        match format {
            TraceFormat::Json => writer.begin_json(head, happenings)?,
            TraceFormat::Text => writer.begin_text(head, happenings)?,
            TraceFormat::Binary => writer.begin_binary(head, happenings)?,
        }
        Ok(writer)
    }

    fn begin_json(&mut self, head: &TraceHead, happenings: &[Happening]) -> io::Result<()> {
        self.sink.write_all(b"{\"head\":")?;
        serde_json::to_writer(&mut self.sink, head)?;
        self.sink.write_all(b",\n\"happenings\":[")?;
        for (index, happening) in happenings.iter().enumerate() {
            self.sink.write_all(if index == 0 { b"\n" } else { b",\n" })?;
            serde_json::to_writer(&mut self.sink, happening)?;
        }
        self.sink.write_all(b"],\n\"events\":[")
    }

    fn begin_text(&mut self, head: &TraceHead, happenings: &[Happening]) -> io::Result<()> {
        write!(self.sink, "{head}\n\nTimeline:\n")?;
        for happening in happenings {
            writeln!(self.sink, "{}", happening_in_a_line(happening))?;
        }
        self.sink.write_all(b"\nEvents:\n")
    }

    fn begin_binary(&mut self, head: &TraceHead, happenings: &[Happening]) -> io::Result<()> {
        self.put(MAGIC)?;
        self.put(&VERSION.to_le_bytes())?;
        self.chunk(HEAD, &serde_json::to_vec(head)?)?;
        let mut lines = Vec::new();
        for happening in happenings {
            add_line(&mut lines, happening)?;
        }
        self.chunk(HAPPENINGS, &lines)
    }

    /// Writes an event.
    pub fn event(&mut self, event: &TraceEvent) -> io::Result<()> {
        match self.format {
            TraceFormat::Json => {
                self.sink.write_all(if self.events == 0 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut self.sink, event)?;
            }
            TraceFormat::Text => writeln!(self.sink, "{event}")?,
            TraceFormat::Binary => {
                add_line(&mut self.gathered, event)?;
                if self.gathered.len() >= CHUNK {
                    self.put_gathered()?;
                }
            }
        }
        self.events += 1;
        Ok(())
    }

    /// Writes something that only the engine of this name can read; left out of other forms than the
    /// binary one.
    pub fn engine_log(&mut self, engine: &str, bytes: &[u8]) -> io::Result<()> {
        if self.format != TraceFormat::Binary {
            return Ok(());
        }
        self.put_gathered()?;
        let name = &engine.as_bytes()[..engine.len().min(usize::from(u8::MAX))];
        let length = u8::try_from(name.len()).unwrap_or(u8::MAX);
        self.put(&ENGINE_LOG)?;
        self.put(&(1 + name.len() as u64 + bytes.len() as u64).to_le_bytes())?;
        self.put(&[length])?;
        self.put(name)?;
        self.put(bytes)
    }

    /// Ends the trace; returns how many events it has.
    pub fn finish(mut self) -> io::Result<u64> {
        match self.format {
            TraceFormat::Json => self.sink.write_all(b"]}\n")?,
            TraceFormat::Text => {}
            TraceFormat::Binary => {
                self.put_gathered()?;
                let sum = std::mem::take(&mut self.hash).finalize();
                self.chunk(END, sum.as_slice())?;
            }
        }
        self.sink.flush()?;
        Ok(self.events)
    }

    fn put_gathered(&mut self) -> io::Result<()> {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() {
            return Ok(());
        }
        let length = u32::try_from(gathered.len()).map_err(io::Error::other)?;
        let mut packed = length.to_le_bytes().to_vec();
        packed.extend(lz4_flex::block::compress(&gathered));
        self.chunk(EVENTS, &packed)
    }

    pub(super) fn chunk(&mut self, kind: [u8; 4], bytes: &[u8]) -> io::Result<()> {
        self.put(&kind)?;
        self.put(&(bytes.len() as u64).to_le_bytes())?;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.sink.write_all(bytes)
    }
}

fn add_line(lines: &mut Vec<u8>, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *lines, value)?;
    lines.push(b'\n');
    Ok(())
}
