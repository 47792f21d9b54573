//! Checkpoints, as they are written: registers, and the pages that are not as in the checkpoint before.

use std::{io, ops::Range, os::unix::fs::FileExt as _};

use super::{cast, files::FileList, memory::Area, stream::Sink};
use crate::{
    record::Recorder,
    replay::{Anchor, Label, Position},
    sys::{self, MemoryPlan, PAGE, ProcessMemory, Tid},
};

/// The part of a recording that is written, by the numbers of checkpoints.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
    /// What is looked at last.
    pub(crate) present: Option<Position>,
    /// Checkpoints that could be made again by a replay may take so much, before it is compressed; they make it faster.
    pub(crate) optional: u64,
}

impl Default for Part {
    fn default() -> Self {
        Self { start: None, end: None, present: None, optional: 64 << 20 }
    }
}

/// Pages are read so many at a time.
const PAGES_AT_ONCE: u64 = 64;

/// What stands before a checkpoint, and after the last one.
pub(super) const ANOTHER: u64 = 1;
pub(super) const NO_MORE: u64 = 0;
/// Among the flags of a checkpoint: its threads are in it.
pub(super) const HAS_CAST: u64 = 4;

impl Part {
    /// The first event and the one behind the last.
    pub(crate) fn events(&self, recorder: &Recorder) -> (u64, u64) {
        let event = |label: Option<Label>| Some(recorder.timeline.get(&label?)?.event);
        let first = event(self.first(recorder)).unwrap_or(0);
        (first, event(self.last(recorder)).unwrap_or(recorder.log.len()))
    }

    fn first(&self, recorder: &Recorder) -> Option<Label> {
        match self.start {
            Some(number) => recorder.timeline.numbered(number).cloned(),
            None => recorder.timeline.first().cloned(),
        }
    }

    /// Where it ends; nothing where it ends with the recording.
    pub(crate) fn last(&self, recorder: &Recorder) -> Option<Label> {
        recorder.timeline.numbered(self.end?).cloned()
    }

    /// Checkpoints that may be written, in the order of time.
    pub(super) fn choose(&self, recorder: &Recorder) -> Vec<Label> {
        let (first, last) = (self.first(recorder), self.last(recorder));
        let is_in = |label: &Label| {
            first.as_ref().is_none_or(|first| label >= first)
                && last.as_ref().is_none_or(|last| label <= last)
        };
        recorder.timeline.iter().map(|(label, _)| label).filter(|label| is_in(label)).cloned().collect()
    }

    /// Whether a checkpoint is the only way to a moment.
    fn needs(&self, recorder: &Recorder, label: &Label) -> bool {
        let is_known = |anchor: &Anchor| !anchor.aligned && (anchor.pinned || anchor.walked > 0);
        self.present.as_ref().is_some_and(|present| present.anchor == *label)
            || recorder.timeline.follows_barrier(label, &recorder.log)
            || recorder.timeline.precedes_interruption(label, &recorder.log)
            || recorder.timeline.get(label).is_some_and(is_known)
    }
}

/// A checkpoint that was written.
struct Written {
    process: Tid,
    program: usize,
    areas: Vec<Area>,
}

/// Writes checkpoints; `tell` hears how many are done, of how many.
pub(super) fn write(
    recorder: &mut Recorder,
    part: &Part,
    chosen: Vec<Label>,
    files: &mut FileList,
    sink: &mut Sink<'_, '_>,
    tell: &mut dyn FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let total = chosen.len() as u64;
    let optional = chosen.iter().filter(|label| !part.needs(recorder, label)).count() as u64;
    let share = part.optional / optional.max(1);
    let mut allowance = 0;
    let mut before: Option<Written> = None;
    for (label, done) in chosen.iter().zip(0..) {
        tell(done, total)?;
        let needed = done == 0 || part.needs(recorder, label);
        let Some(anchor) = recorder.timeline.get_mut(label) else { continue };
        let process = anchor.frozen.tid();
        let program = files.of_program(process);
        let program = program.ok_or_else(|| io::Error::other("the program of a checkpoint is gone"))?;
        let base = before.as_ref().filter(|before| before.program == program);
        let layout = layout(process, files)?;
        let pages = changed_pages(process, &layout, base, files)?;
        if !needed {
            allowance += share;
            let bytes: u64 = pages.iter().map(|pages| pages.end - pages.start).sum();
            match allowance.checked_sub(bytes) {
                Some(rest) => allowance = rest,
                None => continue,
            }
        }
        sink.number(ANOTHER)?;
        write_head(label, anchor, program, base.is_some(), sink)?;
        let areas: Vec<_> = layout.into_iter().map(|(area, _)| area).collect();
        sink.number(areas.len() as u64)?;
        areas.iter().try_for_each(|area| area.write(sink))?;
        write_pages(process, &pages, sink)?;
        write_registers(anchor, sink)?;
        before = Some(Written { process, program, areas });
    }
    sink.number(NO_MORE)
}

/// What is mapped, and whether its content is nowhere else, though the system counts it as a file's.
fn layout(process: Tid, files: &FileList) -> io::Result<Vec<(Area, bool)>> {
    let mappings = sys::mappings(process)?;
    let areas = mappings.iter().filter_map(|mapping| {
        let area = Area::of(mapping, files.of_mapping(mapping))?;
        let nowhere = area.file.is_none() && (mapping.inode != 0 || mapping.name == "[vdso]");
        Some((area, nowhere))
    });
    Ok(areas.collect())
}

fn write_head(
    label: &Label,
    anchor: &mut Anchor,
    program: usize,
    has_base: bool,
    sink: &mut Sink<'_, '_>,
) -> io::Result<()> {
    let gone = |error: sys::TraceError| io::Error::other(error.to_string());
    let process = anchor.frozen.tid();
    sink.block(Position { anchor: label.clone(), steps: 0 }.to_string().as_bytes())?;
    let time = anchor.time.map_or(u64::MAX, |time| time.as_micros() as u64);
    let flags = u64::from(anchor.aligned) | u64::from(anchor.pinned) << 1 | HAS_CAST;
    sink.numbers(&[anchor.event, flags, u64::from(anchor.walked), anchor.number, time])?;
    sink.numbers(&[anchor.frozen.gate(), program as u64, u64::from(has_base)])?;
    let heap_end = anchor.frozen.call(libc::SYS_brk, [0; 6]).map_err(gone)?;
    sink.numbers(&MemoryPlan::of(process)?.marks)?;
    sink.number(heap_end as u64)?;
    sink.block(&std::fs::read(format!("/proc/{}/auxv", process.0))?)
}

fn write_registers(anchor: &Anchor, sink: &mut Sink<'_, '_>) -> io::Result<()> {
    let gone = |error: sys::TraceError| io::Error::other(error.to_string());
    sink.numbers(&anchor.frozen.registers().map_err(gone)?.words())?;
    sink.block(
        &anchor.frozen.thread().and_then(|thread| thread.vector_registers()).map_err(gone)?.into_bytes(),
    )?;
    cast::write(anchor.frozen.cast(), sink)
}

fn write_pages(process: Tid, pages: &[Range<u64>], sink: &mut Sink<'_, '_>) -> io::Result<()> {
    let memory = ProcessMemory::open(process)?;
    let mut bytes = vec![0; (PAGES_AT_ONCE * PAGE) as usize];
    for pages in pages {
        let mut at = pages.start;
        while at < pages.end {
            let length = (pages.end - at).min(PAGES_AT_ONCE * PAGE);
            let bytes = &mut bytes[..length as usize];
            if memory.read_some(at, bytes) != bytes.len() {
                return Err(io::Error::other("the memory of a checkpoint cannot be read"));
            }
            sink.numbers(&[at, length / PAGE])?;
            sink.put(bytes)?;
            at += length;
        }
    }
    sink.numbers(&[0, 0])
}

/// The pages that are not as whoever makes the process again has them already.
fn changed_pages(
    process: Tid,
    layout: &[(Area, bool)],
    base: Option<&Written>,
    files: &FileList,
) -> io::Result<Vec<Range<u64>>> {
    let memory = ProcessMemory::open(process)?;
    let old = base.map(|base| ProcessMemory::open(base.process)).transpose()?;
    let mut found = Vec::new();
    let (mut new_page, mut old_page) = ([0; PAGE as usize], [0; PAGE as usize]);
    for (area, nowhere) in layout {
        let kept = base.map_or(area.start, |base| area.kept(&base.areas));
        let mut candidates = sys::touched(process, area.start..area.end, *nowhere)?;
        if let Some(base) = base.filter(|_| kept > area.start) {
            // What was given back since is there no more.
            candidates.extend(sys::touched(base.process, area.start..kept, *nowhere)?);
            candidates.sort_unstable_by_key(|pages| pages.start);
        }
        let mut done = area.start;
        for pages in candidates {
            let mut at = pages.start.max(done);
            while at < pages.end {
                if memory.read_some(at, &mut new_page) == new_page.len() {
                    old_page.fill(0);
                    match (&old, area.file) {
                        (Some(old), _) if at < kept => drop(old.read_some(at, &mut old_page)),
                        (_, Some((file, offset))) => {
                            let _ = read_file(files, file, offset + (at - area.start), &mut old_page);
                        }
                        _ => {}
                    }
                    if new_page != old_page {
                        add(&mut found, at);
                    }
                }
                at += PAGE;
            }
            done = done.max(pages.end);
        }
    }
    Ok(found)
}

fn read_file(files: &FileList, file: u64, offset: u64, page: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < page.len() {
        match files.file(file as usize).read_at(&mut page[done..], offset + done as u64)? {
            0 => break,
            count => done += count,
        }
    }
    Ok(())
}

fn add(ranges: &mut Vec<Range<u64>>, page: u64) {
    match ranges.last_mut() {
        Some(last) if last.end == page => last.end += PAGE,
        _ => ranges.push(page..page + PAGE),
    }
}
