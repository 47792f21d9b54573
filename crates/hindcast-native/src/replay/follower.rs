//! The self-check: a replica that lives through the recording right behind the live program, and must be like it.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use super::{Advance, CopiedArea, Frozen, Pause, ReplayError, Replica, state};
use crate::{
    process::Overlay,
    record::{Log, is_scratch},
    sys::{self, ProcessMemory, Stopped, TraceError},
};

/// A replica that follows a live process.
pub(crate) struct Follower {
    replica: Replica,
    begun: Instant,
    /// How long it has been compared.
    comparing: Duration,
}

/// The live process, and what of its memory is the same in no copy by itself.
pub(crate) struct Live<'a> {
    pub(crate) thread: &'a Stopped,
    pub(crate) overlay: &'a Overlay,
    pub(crate) areas: &'a [CopiedArea],
}

/// How thoroughly it is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// Registers and memory, as long as that does not take most of the time.
    WhenCheap,
    /// Memory. The program makes its last call, so that its registers do not matter any more.
    AtEnd,
}

const PIECE: usize = 256 << 10;
/// So long it is compared at every event, and then for a third of the time.
const GRACE: Duration = Duration::from_secs(2);

impl Follower {
    /// Begins at a checkpoint, when so many events have happened. Takes over from the one `before`.
    pub(crate) fn new(frozen: Frozen, event: u64, before: Option<&Self>) -> Result<Self, TraceError> {
        let (begun, comparing) = before
            .map_or_else(|| (Instant::now(), Duration::ZERO), |before| (before.begun, before.comparing));
        Ok(Self { replica: Replica::new(frozen, event)?, begun, comparing })
    }

    /// Lives through all events that it has not seen yet, and is compared with the live process.
    pub(crate) fn follow(
        &mut self,
        log: &Log,
        live: &Live<'_>,
        comparison: Comparison,
    ) -> Result<(), TraceError> {
        let failed = |what: String| TraceError::SelfCheck(format!("{what}, at event {}", log.len()));
        while self.replica.event() < log.len() {
            match self.replica.advance(log, Advance::Run, log.len()) {
                Ok(Pause::Event | Pause::Stepped | Pause::Alarm) => {}
                Ok(pause) => return Err(failed(format!("the replay stopped early ({pause:?})"))),
                Err(ReplayError::Trace(error)) => return Err(error),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        if comparison == Comparison::AtEnd {
            match self.replica.advance(log, Advance::Run, u64::MAX) {
                Ok(Pause::Boundary) => {}
                Ok(pause) => return Err(failed(format!("the replay does not end ({pause:?})"))),
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        let is_cheap = self.comparing < GRACE + self.begun.elapsed() / 3;
        if comparison != Comparison::AtEnd && !is_cheap {
            return Ok(());
        }
        let begun = Instant::now();
        let difference = self.difference(live, comparison)?;
        self.comparing += begun.elapsed();
        difference.map_or(Ok(()), |difference| Err(failed(difference)))
    }

    fn difference(&self, live: &Live<'_>, comparison: Comparison) -> Result<Option<String>, TraceError> {
        if comparison != Comparison::AtEnd {
            let registers = super::frozen::settled(live.thread.registers()?, None);
            if let Some(difference) = state::differing_register(&registers, &self.replica.registers()?) {
                return Ok(Some(difference));
            }
            if state::vectors(live.thread)? != state::vectors(self.replica.frozen.thread()?)? {
                return Ok(Some("the vector registers differ".into()));
            }
        }
        let process = live.thread.tid();
        let memory = ProcessMemory::open(process).map_err(|_| TraceError::Gone)?;
        for mapping in sys::mappings(process).map_err(|_| TraceError::Gone)? {
            if !mapping.permissions.starts_with('r')
                || mapping.name.starts_with("[v")
                || is_scratch(mapping.start)
            {
                continue;
            }
            let range = mapping.start..mapping.end;
            let is_copied = live.areas.iter().any(|area| area.start < range.end && range.start < area.end);
            let pages = if is_copied { vec![range] } else { self.touched(process, &range)? };
            for pages in pages {
                if let Some((address, was, is)) = self.differing_byte(&memory, live.overlay, pages) {
                    return Ok(Some(format!(
                        "the byte at {address:#x} ({}) is {was:#04x}, and {is:#04x} in the replay",
                        mapping.name
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Pages that one of both has for itself.
    fn touched(&self, process: sys::Tid, range: &Range<u64>) -> Result<Vec<Range<u64>>, TraceError> {
        let of = |process| sys::touched(process, range.clone(), false);
        let (mut ours, theirs) = match (of(process), of(self.replica.frozen.tid())) {
            (Ok(ours), Ok(theirs)) => (ours, theirs),
            (Err(source), _) | (_, Err(source)) => {
                return Err(TraceError::System { what: "cannot list the pages of a process", source });
            }
        };
        ours.extend(theirs);
        Ok(ours)
    }

    fn differing_byte(
        &self,
        live: &ProcessMemory,
        overlay: &Overlay,
        range: Range<u64>,
    ) -> Option<(u64, u8, u8)> {
        // Most ranges are a page or two.
        let most = PIECE.min((range.end - range.start) as usize);
        let (mut ours, mut theirs) = (vec![0; most], vec![0; most]);
        for at in range.clone().step_by(PIECE) {
            let length = PIECE.min((range.end - at) as usize);
            let count = live.read_some(at, &mut ours[..length]);
            overlay.clean(at, &mut ours[..count]);
            // What cannot be read here is told as a zero.
            theirs[..length].fill(0);
            self.replica.memory.read_some(at, &mut theirs[..length]);
            // As a whole first: hardly any piece differs, and this is many times as fast.
            if ours[..count] != theirs[..count]
                && let Some(index) =
                    ours[..count].iter().zip(&theirs[..count]).position(|(one, other)| one != other)
            {
                return Some((at + index as u64, ours[index], theirs[index]));
            }
        }
        None
    }
}
