//! A condition that reads too much to be watched: judged at checkpoints, and closer where two of them differ. There, only the
//! words are watched that differ, too; where these are too many still, single steps are made.

use std::ops::Range;

use hindcast_symbols::Memory as _;

use super::{Inquiry, Way, fits, witness::Witness};
use crate::{
    debuggee::{Sight, Sights, Surveyed},
    look::{FixedFrame, ReadSet},
    process::CleanMemory,
    replay::{Position, Replica},
    session::{
        Session,
        hidden::Hidden,
        scribe::Scribe,
        travel::{Halted, function_around},
    },
};

/// A search from checkpoint to checkpoint.
#[derive(Debug, Clone)]
pub(super) struct Sparse {
    points: Vec<Position>,
    /// The next one to be judged.
    next: usize,
}

impl Sparse {
    pub(super) fn new(points: Vec<Position>) -> Self {
        Self { points, next: 0 }
    }
}

impl Session {
    /// Judges it at checkpoints, and looks closer where two differ.
    pub(super) fn search_checkpoints(
        &mut self,
        inquiry: &mut Inquiry,
        frame: &FixedFrame,
        mut sparse: Sparse,
    ) -> Result<(), Halted> {
        if inquiry.question.monotone && sparse.next == 0 {
            sparse.next = self.last_alike(inquiry, frame, &sparse.points)?;
        }
        while sparse.next < sparse.points.len() && !inquiry.seen.is_over {
            let here = self.judge_at(&sparse.points[sparse.next], frame, &inquiry.terms)?;
            let holds = here.holds();
            if let (Some(before), Some(holds)) = (inquiry.seen.last, holds)
                && before != holds
                && inquiry.question.becomes.wants(holds)
                && sparse.next > 0
            {
                let span = (sparse.points[sparse.next - 1].clone(), sparse.points[sparse.next].clone());
                self.look_closer(inquiry, frame, span, holds)?;
            } else {
                inquiry.seen.note(here);
            }
            sparse.next += 1;
            inquiry.way = Way::Checkpoints(frame.clone(), sparse.clone());
        }
        Ok(())
    }

    /// The last of some moments up to which a condition that changes only once is as at the first.
    fn last_alike(
        &mut self,
        inquiry: &mut Inquiry,
        frame: &FixedFrame,
        points: &[Position],
    ) -> Result<usize, Halted> {
        let first = self.judge_at(&points[0], frame, &inquiry.terms)?.holds();
        let (mut low, mut high) = (0, points.len());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let here = self.judge_at(&points[middle], frame, &inquiry.terms)?;
            inquiry.seen.judged += 1;
            if here.holds() == first { low = middle } else { high = middle }
        }
        Ok(low)
    }

    /// Between two moments at which it differs: the write that did it.
    fn look_closer(
        &mut self,
        inquiry: &mut Inquiry,
        frame: &FixedFrame,
        (mut from, mut to): (Position, Position),
        becomes: bool,
    ) -> Result<(), Halted> {
        loop {
            let changed = self.changed_words(inquiry, frame, &from, &to)?;
            if fits(&changed) {
                return self.search_words(inquiry, frame, (from, to), changed.words());
            }
            let symbols = &self.symbols;
            let middle = self.process.middle(&from, &to, &|address| function_around(symbols, address))?;
            let Some(middle) = middle else {
                return self.step_to_change(inquiry, frame, &from, (changed.words(), becomes));
            };
            let here = self.judge_at(&middle, frame, &inquiry.terms)?;
            match here.holds() {
                Some(holds) if holds != becomes => {
                    inquiry.seen.note(here);
                    from = middle;
                }
                _ => to = middle,
            }
        }
    }

    /// The words of what a condition reads that differ between two moments.
    fn changed_words(
        &mut self,
        inquiry: &Inquiry,
        frame: &FixedFrame,
        from: &Position,
        to: &Position,
    ) -> Result<ReadSet, Halted> {
        let mut reads = self.judge_at(from, frame, &inquiry.terms)?.reads;
        reads.join(self.judge_at(to, frame, &inquiry.terms)?.reads);
        let words = reads.words();
        let symbols = &self.symbols;
        let functions = |address| function_around(symbols, address);
        let mut contents = |position: &Position| {
            self.process.glance(position, &functions, |replica| contents(replica, &words))
        };
        let (old, new) = (contents(from)?, contents(to)?);
        let mut changed = ReadSet::default();
        for ((range, old), new) in words.iter().zip(old).zip(new) {
            for (index, (old, new)) in old.chunks(8).zip(new.chunks(8)).enumerate() {
                if old != new {
                    changed.add(range.start + 8 * index as u64, 8);
                }
            }
        }
        Ok(changed)
    }

    /// Judges it at each write to some words.
    fn search_words(
        &mut self,
        inquiry: &mut Inquiry,
        frame: &FixedFrame,
        (from, to): (Position, Position),
        words: Vec<Range<u64>>,
    ) -> Result<(), Halted> {
        let mut at = from;
        loop {
            let span = (at, to.clone());
            let sights = Sights::Memory(words.clone());
            let (seen, surveyed) = self.search_between(span, sights, Some(frame), inquiry)?;
            inquiry.seen = seen;
            match surveyed {
                Surveyed::All => return Ok(()),
                Surveyed::UpTo(position) | Surveyed::Interrupted(position) => at = position,
            }
            if inquiry.seen.is_over || at >= to {
                return Ok(());
            }
        }
    }

    /// Steps to where it changes, which it does.
    fn step_to_change(
        &mut self,
        inquiry: &mut Inquiry,
        frame: &FixedFrame,
        from: &Position,
        (words, becomes): (Vec<Range<u64>>, bool),
    ) -> Result<(), Halted> {
        let symbols = &self.symbols;
        let mut seen = inquiry.seen.clone();
        let mut witness = Witness {
            scribe: Scribe::new(symbols, &self.image, self.main),
            question: &inquiry.question,
            terms: &inquiry.terms,
            sights: Sights::Memory(words.clone()),
            fixed: Some(frame),
            hidden: Hidden::default(),
            checks: &[],
            follows: false,
            seen: &mut seen,
            change: None,
        };
        let mut last = None;
        let functions = |address| function_around(symbols, address);
        let position = self.process.step_until(from, &functions, &mut |replica| {
            let now = Some(contents(replica, &words));
            if std::mem::replace(&mut last, now.clone()) == now {
                return Ok(false);
            }
            let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
            let here = witness.terms.judge_in(frame, &witness.scribe.scene(&memory));
            if here.holds() != Some(becomes) {
                witness.seen.note(here);
                return Ok(false);
            }
            witness.testify(replica, Sight::Write, here)?;
            Ok(true)
        })?;
        witness.name(&position);
        inquiry.seen = seen;
        Ok(())
    }
}

/// What is in some memory; nothing where it is not mapped.
fn contents(replica: &Replica, words: &[Range<u64>]) -> Vec<Vec<u8>> {
    let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
    let read = |range: &Range<u64>| {
        let mut bytes = vec![0; (range.end - range.start) as usize];
        if memory.read(range.start, &mut bytes).is_ok() { bytes } else { Vec::new() }
    };
    words.iter().map(read).collect()
}
