//! The log as it is kept: the last events as they are, those before as bytes in chunks, the oldest of these in a file.

use std::{borrow::Cow, cell::RefCell, collections::VecDeque, io, ops::Deref, rc::Rc};

use super::{
    super::mapped_files::MappedFiles,
    Call, Event, Kept, Packed, Replay, Write, pack,
    spill::{self, Extent, Spill},
    unpack,
};

/// What a log may take, in memory and on disk, unless told otherwise.
pub(crate) const BUDGET: u64 = 4 << 30;
/// What it may take in memory; the oldest of the rest goes to a file.
const IN_MEMORY: u64 = 64 << 20;
/// A chunk is so many events, or so many bytes that the system wrote.
pub(crate) const MOST_EVENTS: usize = 1024;
const MOST_DATA: u64 = 64 << 10;
/// So many chunks are kept unpacked: one for each place from which the log is read at the same time.
const UNPACKED: usize = 4;
/// How long their bytes may be together, where there are more than two.
const UNPACKED_BYTES: usize = 16 << 20;

/// Events in order. The first ones may have been forgotten, to keep to a budget.
#[derive(Debug)]
pub(crate) struct Log {
    chunks: VecDeque<Chunk>,
    /// How many of the chunks, from the first on, are in the file.
    in_file: usize,
    spill: Option<Spill>,
    /// Why no more can go to the file.
    failure: Option<String>,
    /// The last events.
    tail: Vec<Event>,
    /// The number of the first of those.
    tail_start: u64,
    /// What they take, and how much of that the system wrote.
    tail_bytes: u64,
    tail_data: u64,
    /// How many were forgotten.
    forgotten: u64,
    /// What chunks take, and what may stay in memory of that.
    memory: u64,
    spilled: u64,
    in_memory: u64,
    /// Events that cannot be replayed, with whether they came between two instructions.
    breaks: VecDeque<(u64, bool)>,
    /// How often another thread took over, also in what was forgotten.
    turns: u64,
    /// Chunks that were read last, by their first event.
    unpacked: RefCell<VecDeque<Unpacked>>,
    /// What the program had mapped of files.
    pub(crate) files: MappedFiles,
}

/// The events of a chunk.
#[derive(Debug, Clone)]
struct Unpacked {
    first: u64,
    events: Rc<Vec<Event>>,
    /// What they were packed to, in bytes.
    length: usize,
}

#[derive(Debug)]
struct Chunk {
    first: u64,
    count: usize,
    /// In bytes.
    length: usize,
    place: Place,
    kept: Vec<Kept>,
}

#[derive(Debug)]
enum Place {
    Memory(Box<[u8]>),
    File(Extent),
}

impl Chunk {
    fn end(&self) -> u64 {
        self.first + self.count as u64
    }

    /// What it takes in memory.
    fn memory(&self) -> u64 {
        let kept = |kept: &Kept| match kept {
            Kept::File(_) => 0,
            Kept::Thread(actor) => actor.vectors.area().len() as u64,
        };
        let bytes = if let Place::Memory(bytes) = &self.place { bytes.len() } else { 0 };
        (size_of::<Self>() + bytes) as u64 + self.kept.iter().map(kept).sum::<u64>()
    }
}

/// An event of the log.
#[derive(Debug)]
pub(crate) enum Logged<'a> {
    Last(&'a Event),
    Unpacked(Rc<Vec<Event>>, usize),
}

impl Deref for Logged<'_> {
    type Target = Event;

    fn deref(&self) -> &Event {
        match self {
            Self::Last(event) => event,
            Self::Unpacked(events, index) => &events[*index],
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self::starting_at(0)
    }
}

impl Log {
    /// One whose first event has this number.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            chunks: VecDeque::new(),
            in_file: 0,
            spill: None,
            failure: None,
            tail: Vec::new(),
            tail_start: first,
            tail_bytes: 0,
            tail_data: 0,
            forgotten: first,
            memory: 0,
            spilled: 0,
            in_memory: IN_MEMORY,
            breaks: VecDeque::new(),
            turns: 0,
            unpacked: RefCell::default(),
            files: MappedFiles::default(),
        }
    }

    /// Adds an event. Costs next to nothing until there are enough for a chunk.
    pub(crate) fn push(&mut self, event: Event) {
        self.turns += u64::from(event.taker().is_some());
        let is_interruption = event.is_interruption();
        if is_interruption || matches!(event, Event::Barrier { .. }) {
            self.breaks.push_back((self.len(), is_interruption));
        }
        self.add(event);
        if self.tail.len() >= MOST_EVENTS || self.tail_data >= MOST_DATA {
            self.pack_tail();
        }
    }

    fn add(&mut self, event: Event) {
        let data = data(&event);
        self.tail_data += data;
        self.tail_bytes += size_of::<Event>() as u64 + data;
        self.tail.push(event);
    }

    fn pack_tail(&mut self) {
        let Packed { count, bytes, kept } = pack(&self.tail);
        let (first, length) = (self.tail_start, bytes.len());
        let chunk = Chunk { first, count, length, place: Place::Memory(bytes.into_boxed_slice()), kept };
        self.memory += chunk.memory();
        self.tail_start = chunk.end();
        self.chunks.push_back(chunk);
        let events = std::mem::take(&mut self.tail);
        (self.tail_bytes, self.tail_data) = (0, 0);
        remember(&mut self.unpacked.borrow_mut(), Unpacked { first, events: Rc::new(events), length });
        while self.memory > self.in_memory && self.failure.is_none() && self.in_file < self.chunks.len() {
            if let Err(error) = self.spill_oldest() {
                let folder = spill::folder();
                self.failure = Some(format!(
                    "no more of it can be written to a file in `{}`: {error}",
                    folder.display()
                ));
            }
        }
    }

    /// Moves the oldest chunk that is in memory to the file.
    fn spill_oldest(&mut self) -> io::Result<()> {
        let spill = match &mut self.spill {
            Some(spill) => spill,
            none => none.insert(Spill::new()?),
        };
        let Some(chunk) = self.chunks.get_mut(self.in_file) else { return Ok(()) };
        if let Place::Memory(bytes) = &chunk.place {
            let extent = spill.put(bytes)?;
            self.memory -= bytes.len() as u64;
            self.spilled += extent.len();
            chunk.place = Place::File(extent);
        }
        self.in_file += 1;
        Ok(())
    }

    /// Why it can grow no more, if that is so. What it holds is right.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// How many there have been; the number of the next one.
    pub(crate) fn len(&self) -> u64 {
        self.tail_start + self.tail.len() as u64
    }

    pub(crate) fn get(&self, index: u64) -> Option<Logged<'_>> {
        if index < self.forgotten {
            return None;
        }
        if let Some(index) = index.checked_sub(self.tail_start) {
            return Some(Logged::Last(self.tail.get(usize::try_from(index).ok()?)?));
        }
        let Unpacked { first, events, .. } = self.chunk_with(index)?;
        let index = usize::try_from(index - first).ok().filter(|index| *index < events.len())?;
        Some(Logged::Unpacked(events, index))
    }

    /// Those from `start` to before `end`, with their numbers.
    pub(crate) fn range(&self, start: u64, end: u64) -> impl DoubleEndedIterator<Item = (u64, Logged<'_>)> {
        let range = start.max(self.forgotten)..end.min(self.len());
        range.filter_map(|index| Some((index, self.get(index)?)))
    }

    fn chunk_with(&self, index: u64) -> Option<Unpacked> {
        let mut unpacked = self.unpacked.borrow_mut();
        let is_it = |chunk: &Unpacked| {
            index.checked_sub(chunk.first).is_some_and(|offset| offset < chunk.events.len() as u64)
        };
        if let Some(at) = unpacked.iter().position(is_it) {
            unpacked.swap(0, at);
            return unpacked.front().cloned();
        }
        let at = self.chunks.partition_point(|chunk| chunk.end() <= index);
        let chunk = self.chunks.get(at)?;
        let read = Unpacked { first: chunk.first, events: Rc::new(self.unpack(chunk)), length: chunk.length };
        remember(&mut unpacked, read.clone());
        Some(read)
    }

    fn unpack(&self, chunk: &Chunk) -> Vec<Event> {
        let unpack = |bytes: Cow<'_, [u8]>| {
            unpack(chunk.count, &bytes, &chunk.kept).map_err(|_| io::ErrorKind::InvalidData.into())
        };
        self.bytes_of(chunk).and_then(unpack).unwrap_or_else(|error| {
            tracing::error!(%error, first = chunk.first, "events cannot be read back");
            (0..chunk.count).map(|_| Event::Unreadable).collect()
        })
    }

    fn bytes_of<'a>(&self, chunk: &'a Chunk) -> io::Result<Cow<'a, [u8]>> {
        match (&chunk.place, &self.spill) {
            (Place::Memory(bytes), _) => Ok(Cow::Borrowed(bytes)),
            (Place::File(extent), Some(spill)) => spill.get(*extent, chunk.length).map(Cow::Owned),
            (Place::File(_), None) => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Those from `start` to before `end` as bytes, chunk by chunk.
    pub(crate) fn packed(&self, start: u64, end: u64) -> impl Iterator<Item = io::Result<Packed>> {
        let start = start.max(self.forgotten);
        let part = move |first: u64, events: &[Event]| {
            let offset = |index: u64| (index.saturating_sub(first) as usize).min(events.len());
            pack(&events[offset(start)..offset(end).max(offset(start))])
        };
        let chunks = self.chunks.iter().filter(move |chunk| chunk.first < end && start < chunk.end());
        let packed = move |chunk: &Chunk| {
            let (count, kept, bytes) = (chunk.count, chunk.kept.clone(), self.bytes_of(chunk)?);
            if start <= chunk.first && chunk.end() <= end {
                return Ok(Packed { count, bytes: bytes.into_owned(), kept });
            }
            let events = unpack(count, &bytes, &kept).map_err(|_| io::ErrorKind::InvalidData)?;
            Ok(part(chunk.first, &events))
        };
        let tail = part(self.tail_start, &self.tail);
        chunks
            .map(packed)
            .chain([Ok(tail)])
            .filter(|packed| packed.as_ref().map_or(true, |packed| packed.count > 0))
    }

    /// Whether an event is one that cannot be replayed; and then, whether it came between two instructions.
    pub(crate) fn break_at(&self, index: u64) -> Option<bool> {
        let at = self.breaks.binary_search_by_key(&index, |(index, _)| *index).ok()?;
        self.breaks.get(at).map(|(_, is_interruption)| *is_interruption)
    }

    /// How often another thread took over.
    pub(crate) fn turns(&self) -> u64 {
        self.turns
    }

    /// What it takes, in memory and on disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.memory + self.spilled + self.tail_bytes
    }

    /// Withdraws what came from `index` on.
    pub(crate) fn withdraw_from(&mut self, index: u64) {
        self.reopen(index);
        self.tail.truncate(usize::try_from(index.saturating_sub(self.tail_start)).unwrap_or(usize::MAX));
        self.weigh_tail();
        while self.breaks.pop_back_if(|(at, _)| *at >= index).is_some() {}
    }

    /// Makes events of the chunks from that of `index` on.
    fn reopen(&mut self, index: u64) {
        while index < self.tail_start
            && let Some(chunk) = self.chunks.pop_back()
        {
            let mut events = self.unpack(&chunk);
            self.drop_bytes(&chunk);
            self.in_file = self.in_file.min(self.chunks.len());
            events.append(&mut self.tail);
            (self.tail, self.tail_start) = (events, chunk.first);
        }
        // They are read from the chunks that are no more.
        self.unpacked.borrow_mut().clear();
        self.weigh_tail();
    }

    fn weigh_tail(&mut self) {
        self.tail_data = self.tail.iter().map(data).sum();
        self.tail_bytes = self.tail_data + (self.tail.len() * size_of::<Event>()) as u64;
    }

    /// Forgets what was before `index`.
    pub(crate) fn forget_before(&mut self, index: u64) {
        self.forgotten = self.forgotten.max(index.min(self.len()));
        let mut last = None;
        while self.chunks.front().is_some_and(|chunk| chunk.end() <= index)
            && let Some(chunk) = self.chunks.pop_front()
        {
            self.drop_bytes(&chunk);
            if let Place::File(extent) = chunk.place {
                self.in_file -= 1;
                last = Some(extent);
            }
        }
        if let (Some(spill), Some(extent)) = (&self.spill, last) {
            spill.forget_to(extent);
        }
        while self.breaks.pop_front_if(|(at, _)| *at < index).is_some() {}
    }

    fn drop_bytes(&mut self, chunk: &Chunk) {
        self.memory -= chunk.memory();
        if let Place::File(extent) = &chunk.place {
            self.spilled -= extent.len();
        }
    }

    /// Writes to this file what does not fit into so much memory.
    #[cfg(test)]
    pub(crate) fn spill_to(&mut self, file: std::fs::File, in_memory: u64) {
        (self.spill, self.in_memory) = (Some(Spill::to(file)), in_memory);
    }

    #[cfg(test)]
    pub(crate) fn is_spilled(&self) -> bool {
        self.in_file > 0
    }

    #[cfg(test)]
    pub(crate) fn tamper(&mut self, index: u64, change: impl FnOnce(&mut Event)) {
        self.reopen(index);
        change(&mut self.tail[(index - self.tail_start) as usize]);
    }

    #[cfg(test)]
    pub(crate) fn drop_event(&mut self, index: u64) {
        self.reopen(index);
        self.tail.remove((index - self.tail_start) as usize);
    }
}

fn remember(unpacked: &mut VecDeque<Unpacked>, chunk: Unpacked) {
    unpacked.push_front(chunk);
    let total = |unpacked: &VecDeque<Unpacked>| unpacked.iter().map(|chunk| chunk.length).sum::<usize>();
    while unpacked.len() > UNPACKED || unpacked.len() > 2 && total(unpacked) > UNPACKED_BYTES {
        unpacked.pop_back();
    }
}

/// What an event takes beside itself.
fn data(event: &Event) -> u64 {
    let size = |writes: &[Write]| {
        writes.iter().map(|write| (size_of::<Write>() + write.bytes.len()) as u64).sum::<u64>()
    };
    match event {
        Event::Call(Call { replay: Replay::Emulate(writes), .. })
        | Event::Interrupted { writes, .. }
        | Event::Left { writes, .. } => size(writes),
        Event::Call(Call { replay: Replay::Thread(made), .. }) => {
            size(&made.writes) + made.actor.vectors.area().len() as u64
        }
        _ => 0,
    }
}
