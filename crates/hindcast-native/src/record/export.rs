//! A recording written out, for programs, for people, and for `hindcast replay`.

use std::io::{self, Write};

use hindcast_core::{
    debug::{Happening, TraceFormat, TraceRequest},
    progress::Progress,
};
use serde_json::json;

use super::{Call, Event, Recorder, Replay};

/// What a binary trace begins with.
const MAGIC: &[u8; 8] = b"HINDTRC\x01";
/// Progress is told so often.
const TELL_EVERY: u64 = 4096;

/// Writes the events between two checkpoints; returns how many there were.
pub(crate) fn export(
    recorder: &Recorder,
    happenings: &[Happening],
    request: &TraceRequest,
    sink: &mut dyn Write,
    progress: &dyn Progress,
) -> io::Result<u64> {
    let at = |number: Option<u64>| {
        let number = number?;
        recorder.timeline.iter().find(|(_, anchor)| anchor.number >= number).map(|(_, anchor)| anchor.event)
    };
    let start = at(request.start_snapshot).unwrap_or(0);
    let end = at(request.end_snapshot).unwrap_or(recorder.log.len());
    let total = end.saturating_sub(start);
    let mut checksum = Checksum { sink, sum: 0xcbf2_9ce4_8422_2325 };
    match request.format {
        TraceFormat::Json => write!(checksum, "{{\"version\":1,\"events\":[")?,
        TraceFormat::Binary => {
            checksum.write_all(MAGIC)?;
            let stops = serde_json::to_vec(happenings)?;
            checksum.write_all(&(stops.len() as u64).to_le_bytes())?;
            checksum.write_all(&stops)?;
        }
        TraceFormat::Text => {}
    }
    let mut written = 0;
    for (index, event) in recorder.log.range(start, end) {
        if progress.cancelled() {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "nobody waits for it any more"));
        }
        if written % TELL_EVERY == 0 {
            progress.report(written, Some(total), "events written");
        }
        match request.format {
            TraceFormat::Json => {
                if written > 0 {
                    checksum.write_all(b",")?;
                }
                serde_json::to_writer(&mut checksum, &description(index, event))?;
            }
            TraceFormat::Binary => {
                let line = serde_json::to_vec(&description(index, event))?;
                checksum.write_all(&(line.len() as u64).to_le_bytes())?;
                checksum.write_all(&line)?;
            }
            TraceFormat::Text => writeln!(checksum, "{index:>8}  {}", sentence(event))?,
        }
        written += 1;
    }
    match request.format {
        TraceFormat::Json => write!(checksum, "],\"stops\":{}}}", serde_json::to_string(happenings)?)?,
        TraceFormat::Binary => {
            checksum.write_all(&0u64.to_le_bytes())?;
            let sum = checksum.sum;
            checksum.sink.write_all(&sum.to_le_bytes())?;
        }
        TraceFormat::Text => {
            for happening in happenings {
                writeln!(checksum, "{}  {}", happening.moment, happening.what)?;
            }
        }
    }
    progress.report(written, Some(total), "events written");
    Ok(written)
}

/// Sums up what goes through it (FNV-1a).
struct Checksum<'a> {
    sink: &'a mut dyn Write,
    sum: u64,
}

impl Write for Checksum<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.sink.write(bytes)?;
        for &byte in &bytes[..count] {
            self.sum = (self.sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}

fn description(index: u64, event: &Event) -> serde_json::Value {
    match event {
        Event::Call(Call { number, arguments, result, replay, pc }) => {
            let bytes: usize = match replay {
                Replay::Emulate(writes) => writes.iter().map(|write| write.bytes.len()).sum(),
                Replay::Real | Replay::Map(_) => 0,
            };
            json!({ "event": index, "kind": "system_call", "number": number, "arguments": arguments.map(hex),
                    "result": result, "address": hex(*pc), "bytes_written": bytes })
        }
        Event::Barrier { number, arguments, result, pc } => {
            json!({ "event": index, "kind": "barrier", "number": number, "arguments": arguments.map(hex),
                    "result": result, "address": hex(*pc) })
        }
        Event::Signal { number } => json!({ "event": index, "kind": "signal", "number": number }),
        Event::Edit => json!({ "event": index, "kind": "edit" }),
        Event::Counter { pc, value, .. } => {
            json!({ "event": index, "kind": "time_stamp_counter", "value": value, "address": hex(*pc) })
        }
        Event::Features { pc, answer } => {
            json!({ "event": index, "kind": "cpuid", "answer": answer, "address": hex(*pc) })
        }
    }
}

fn sentence(event: &Event) -> String {
    match event {
        Event::Call(call) => format!("system call {} = {}", call.number, call.result),
        Event::Barrier { number, result, .. } => format!("system call {number} = {result} (not replayable)"),
        Event::Signal { number } => format!("signal {number}"),
        Event::Edit => "changed by the user".into(),
        Event::Counter { value, .. } => format!("rdtsc = {value}"),
        Event::Features { answer, .. } => format!("cpuid = {answer:x?}"),
    }
}

fn hex(value: u64) -> String {
    format!("{value:#x}")
}
