//! All that was written to a value, and by which statements; on request also who read it.

use std::collections::HashMap;

use hindcast_core::debug::{
    Allocation, DebugError, HistoryQuestion, HistoryWrite, Moment, ReadingStatement, Reason, Span, Watched,
    WriteHistory, WritingStatement,
};
use hindcast_symbols::{Memory as _, types::Encoding};

use super::{
    Session,
    access::{Accessed, accessed},
    scribe::{Author, Scribe},
    travel::{Departure, Halted, function_around},
    writes::Cell,
};
use crate::{
    debuggee::{Quarry, Sight, Sights, Surveyed, Surveyor, Wish},
    process::CleanMemory,
    replay::{Position, ReplayError, Replica},
    sys::Tid,
};

/// So many statements are told, those with the most writes.
const MOST_STATEMENTS: usize = 24;

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Chronicle {
    question: HistoryQuestion,
    cell: Cell,
    encoding: Option<Encoding>,
    since: Position,
    until: Position,
    allocation: Option<Box<Allocation>>,
    note: Option<String>,
    /// What was before is known.
    at: Position,
    kept: Kept,
}

/// What was found out so far.
#[derive(Debug, Clone, Default)]
struct Kept {
    total: u64,
    statements: Vec<Statement>,
    by_author: HashMap<Author, usize>,
    writes: Vec<HistoryWrite>,
    /// Who read, in the order of their first reads.
    readers: Vec<Reader>,
    by_reader: HashMap<Author, usize>,
    /// Accesses that changed nothing, of which it is not known whether they wrote.
    unclear: u64,
    first: String,
    last: String,
    /// What is there.
    bytes: Option<Vec<u8>>,
}

#[derive(Debug, Clone)]
struct Reader {
    author: Author,
    count: u64,
    first: Option<Moment>,
}

#[derive(Debug, Clone)]
struct Statement {
    author: Author,
    count: u64,
    changed: u64,
    added: i128,
    added_float: f64,
    /// Whether all changes were of numbers that are known.
    is_sum_known: bool,
    first: Option<Moment>,
}

impl Session {
    /// All writes to a value within a part of the past. A question that was interrupted goes on where it was.
    pub(super) fn chronicle(&mut self, question: &HistoryQuestion) -> Result<WriteHistory, Halted> {
        let mut chronicle = match self.chronicle.take().filter(|known| known.question == *question) {
            Some(chronicle) => chronicle,
            None => self.begin_chronicle(question)?,
        };
        loop {
            let (from, to) = (chronicle.at.clone(), chronicle.until.clone());
            let mut kept = chronicle.kept.clone();
            let cell = chronicle.cell;
            let symbols = &self.symbols;
            let mut scribe = Writing {
                scribe: Scribe::new(symbols, &self.image, self.main),
                cell,
                encoding: chronicle.encoding,
                page: question.offset..question.offset.saturating_add(question.limit.into()),
                reads: question.reads,
                kept: &mut kept,
                wishes: Vec::new(),
            };
            let functions = |address| function_around(symbols, address);
            let surveyed = self.process.survey((&from, &to), &functions, &mut scribe);
            match surveyed {
                Ok(Surveyed::All) => {
                    chronicle.kept = kept;
                    return Ok(chronicle.told());
                }
                Ok(Surveyed::UpTo(position)) => (chronicle.kept, chronicle.at) = (kept, position),
                Ok(Surveyed::Interrupted(position)) => {
                    (chronicle.kept, chronicle.at) = (kept, position);
                    self.chronicle = Some(chronicle);
                    return Err(Halted::Interrupted);
                }
                Err(error) => {
                    let halted = Halted::from(error);
                    self.chronicle = matches!(halted, Halted::Interrupted).then_some(chronicle);
                    return Err(halted);
                }
            }
        }
    }

    fn begin_chronicle(&mut self, question: &HistoryQuestion) -> Result<Chronicle, Halted> {
        let (since, until) = self.part_of_past(&question.span)?;
        let cell = self.place_of(&question.watched)?;
        let encoding = cell.type_ref.and_then(|type_ref| self.encoding_of(type_ref));
        let life = match &question.watched {
            Watched::Expression { frame, .. } => {
                let tid = self.known_thread(frame.thread)?;
                self.life_of_frame(tid, cell.address)?
            }
            Watched::Memory { .. } => None,
        };
        let mut allocation = None;
        let (since, note) = match life {
            Some(Life { born: Some(born), function }) if born > since => {
                let note =
                    format!("it is a variable of `{function}`: told from the beginning of this call on");
                (born, Some(note))
            }
            Some(Life { born: Some(_), .. }) => (since, None),
            Some(Life { born: None, function }) => {
                let what = format!("where this call of `{function}` began is not known: ");
                (since, Some(what + "some of this may be what other calls wrote to the same memory"))
            }
            // What is allocated can be freed, and then be something else's.
            None if self.image.at(cell.address).is_none() => {
                match self.allocation_of(cell.address, &until)? {
                    Some((block, begun)) => {
                        allocation = Some(Box::new(block));
                        match question.span.since {
                            _ if since >= begun => (since, None),
                            None => (begun, None),
                            Some(_) => {
                                let note = format!("before moment {begun} the memory was something else's");
                                (since, Some(note))
                            }
                        }
                    }
                    None => (since, Some("the memory may have been something else's before".into())),
                }
            }
            None => (since, None),
        };
        check_order(&since, &until)?;
        let symbols = &self.symbols;
        let (bytes, text) =
            self.process.glance(&since, &|address| function_around(symbols, address), |replica| {
                let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
                let mut bytes = vec![0; cell.size as usize];
                let bytes = memory.read(cell.address, &mut bytes).is_ok().then_some(bytes);
                (bytes, super::writes::value_text(symbols, &memory, cell))
            })?;
        let kept = Kept { first: text.clone(), last: text, bytes, ..Kept::default() };
        let (question, at) = (question.clone(), since.clone());
        Ok(Chronicle { question, cell, encoding, since, until, allocation, note, at, kept })
    }

    /// The moments between which something is looked for; goes to the later one, so that what is named is found there.
    pub(super) fn part_of_past(&mut self, span: &Span) -> Result<(Position, Position), Halted> {
        self.history()?;
        let named = |session: &mut Self, moment: &Option<Moment>| -> Result<Option<Position>, Halted> {
            let named = |moment: &Moment| match moment.0.trim() {
                "start" => session.first().map_err(Halted::from),
                "present" => session.last(),
                _ => session.moment_named(moment),
            };
            moment.as_ref().map(named).transpose()
        };
        let (since, until) = (named(self, &span.since)?, named(self, &span.until)?);
        let since = since.map_or_else(|| self.first(), Ok)?;
        let Departure { position: now, gap, .. } = self.departure()?;
        if let (Some(gap), None) = (gap, &until) {
            return Err(super::writes::behind_the_end(&gap, &now).into());
        }
        if self.process.ended().is_some() {
            self.land(&now)?;
        }
        let until = until.unwrap_or(now);
        check_order(&since, &until)?;
        Ok((since, until))
    }

    /// The call whose frame a piece of memory is part of, if it is on a thread's stack.
    pub(super) fn life_of_frame(&mut self, tid: Tid, address: u64) -> Result<Option<Life>, Halted> {
        let walk = self.walk(tid, 64)?;
        let around = walk.physical.iter().find_map(|frame| {
            let (start, end) = (frame.registers.sp()?, frame.cfa?);
            (start.saturating_sub(RED_ZONE)..end).contains(&address).then_some((frame.code_address(), end))
        });
        let Some((pc, end)) = around else { return Ok(None) };
        let Some(function) = self.symbols.function_at(pc) else {
            return Ok(Some(Life { born: None, function: format!("{pc:#x}") }));
        };
        let now = self.process.position()?;
        let quarry = Quarry::Call { address: function.start, stack: Some(end.wrapping_sub(8)) };
        let found = now.map(|now| self.find(&now, quarry)).transpose()?.flatten();
        Ok(Some(Life { born: found.map(|found| found.position), function: function.name }))
    }
}

/// A call, and when it began, where that is known.
pub(super) struct Life {
    pub(super) born: Option<Position>,
    pub(super) function: String,
}

pub(super) fn check_order(since: &Position, until: &Position) -> Result<(), DebugError> {
    if since <= until {
        return Ok(());
    }
    let reason =
        Reason::new(format!("there is nothing between the moments {since} and {until}: the first is later"));
    Err(DebugError::NoHistory(reason.advise("give a later `until`, or an earlier `since`")))
}

/// What a function may use below its stack pointer.
const RED_ZONE: u64 = 128;

impl Chronicle {
    fn told(self) -> WriteHistory {
        let Kept { total, mut statements, writes, mut readers, unclear, first, last, .. } = self.kept;
        readers.sort_by_key(|reader| std::cmp::Reverse(reader.count));
        let mut notes = Vec::from_iter(self.note);
        if readers.len() > MOST_STATEMENTS {
            notes.push(format!("{} more statements read it", readers.len() - MOST_STATEMENTS));
        }
        if unclear > 0 {
            notes.push(format!("{unclear} times it was read, or the same value was written again"));
        }
        let reads = readers.into_iter().take(MOST_STATEMENTS).map(|reader| {
            let Author { location, through, .. } = reader.author;
            let Reader { count, first, .. } = reader;
            ReadingStatement { location, text: None, through, count, first }
        });
        statements.sort_by_key(|statement| std::cmp::Reverse(statement.count));
        let left_out = statements.len().saturating_sub(MOST_STATEMENTS) as u64;
        let statements = statements.into_iter().take(MOST_STATEMENTS).map(|statement| {
            let change = match self.encoding {
                Some(encoding) if has_sign(encoding).is_some() && statement.is_sum_known => {
                    Some(format!("{:+}", statement.added))
                }
                Some(Encoding::Float) if statement.is_sum_known => {
                    Some(format!("{:+}", statement.added_float))
                }
                _ => None,
            };
            let Author { location, through, by } = statement.author;
            let Statement { count, changed, first, .. } = statement;
            WritingStatement { location, text: None, through, by, count, changed, change, first }
        });
        WriteHistory {
            total,
            statements: statements.collect(),
            left_out,
            writes,
            reads: reads.collect(),
            first,
            last,
            since: Moment(self.since.to_string()),
            until: Moment(self.until.to_string()),
            allocation: self.allocation,
            note: (!notes.is_empty()).then(|| notes.join("; ")),
        }
    }
}

/// Takes down the writes of a stretch.
struct Writing<'a> {
    scribe: Scribe<'a>,
    cell: Cell,
    encoding: Option<Encoding>,
    /// These are told one by one.
    page: std::ops::Range<u64>,
    /// Whether reads are taken down as well.
    reads: bool,
    kept: &'a mut Kept,
    /// For what the last moment was wished.
    wishes: Vec<Wanted>,
}

/// What a moment is told for.
enum Wanted {
    Statement(usize),
    Reader(usize),
    Write(Box<HistoryWrite>),
}

impl Writing<'_> {
    /// Takes down a read.
    fn read_by(&mut self, author: Author) -> Wish {
        let count = self.kept.readers.len();
        let index = *self.kept.by_reader.entry(author.clone()).or_insert(count);
        if index == count {
            self.kept.readers.push(Reader { author, count: 0, first: None });
        }
        self.kept.readers[index].count += 1;
        if index < count || index >= MOST_STATEMENTS {
            return Wish::Pass;
        }
        self.wishes.push(Wanted::Reader(index));
        Wish::Name
    }
}

impl Surveyor for Writing<'_> {
    fn see(&mut self, replica: &mut Replica, sight: Sight) -> Result<Wish, ReplayError> {
        let cell = self.cell;
        let written = cell.address..cell.address + cell.size;
        let author = self.scribe.author(replica, sight, std::slice::from_ref(&written))?;
        let memory = CleanMemory { memory: &replica.memory, overlay: &replica.overlay };
        let mut bytes = vec![0; cell.size as usize];
        let bytes = memory.read(cell.address, &mut bytes).is_ok().then_some(bytes);
        // Where it is not known what was there before, only the instruction tells.
        if sight == Sight::Access && (self.kept.bytes.is_none() || bytes == self.kept.bytes) {
            let before = self.kept.bytes.clone();
            self.kept.bytes.clone_from(&bytes);
            match accessed(&memory, self.scribe.symbols, &replica.registers()?, &written) {
                Some(Accessed { writes: true, .. }) => self.kept.bytes = before,
                Some(Accessed { reads: true, .. }) => return Ok(self.read_by(author)),
                _ => {
                    self.kept.unclear += 1;
                    return Ok(Wish::Pass);
                }
            }
        }
        let old = std::mem::replace(&mut self.kept.bytes, bytes.clone());
        let (index, is_new) = self.kept.statement(author.clone());
        self.kept.statements[index].add(self.encoding, old.as_deref(), bytes.as_deref());
        let number = self.kept.total;
        self.kept.total += 1;
        let text = super::writes::value_text(self.scribe.symbols, &memory, cell);
        let before = std::mem::replace(&mut self.kept.last, text.clone());
        if is_new && index < MOST_STATEMENTS {
            self.wishes.push(Wanted::Statement(index));
        }
        if self.page.contains(&number) {
            let Author { location, through, by } = author;
            let thread = super::movement::thread_id(replica.frozen.cast().acting());
            let moment = Moment(String::new());
            let write =
                HistoryWrite { moment, thread, location, text: None, through, old: before, new: text, by };
            self.wishes.push(Wanted::Write(Box::new(write)));
        }
        Ok(if self.wishes.is_empty() { Wish::Pass } else { Wish::Name })
    }

    fn named(&mut self, _: &Replica, position: Position) -> Result<(), ReplayError> {
        let moment = Moment(position.to_string());
        for wanted in self.wishes.drain(..) {
            match wanted {
                Wanted::Statement(index) => self.kept.statements[index].first = Some(moment.clone()),
                Wanted::Reader(index) => self.kept.readers[index].first = Some(moment.clone()),
                Wanted::Write(mut write) => {
                    write.moment = moment.clone();
                    self.kept.writes.push(*write);
                }
            }
        }
        Ok(())
    }

    fn sights(&self) -> Sights {
        let whole = self.cell.address..self.cell.address + self.cell.size;
        if self.reads { Sights::Accesses(vec![whole]) } else { Sights::Memory(vec![whole]) }
    }
}

impl Kept {
    /// The statement of an author, and whether it is a new one.
    fn statement(&mut self, author: Author) -> (usize, bool) {
        if let Some(&index) = self.by_author.get(&author) {
            return (index, false);
        }
        let index = self.statements.len();
        self.by_author.insert(author.clone(), index);
        self.statements.push(Statement {
            author,
            count: 0,
            changed: 0,
            added: 0,
            added_float: 0.0,
            is_sum_known: true,
            first: None,
        });
        (index, true)
    }
}

/// Whether the numbers of an encoding have a sign; none where they are no integers.
fn has_sign(encoding: Encoding) -> Option<bool> {
    match encoding {
        Encoding::Signed | Encoding::SignedChar => Some(true),
        Encoding::Unsigned | Encoding::UnsignedChar => Some(false),
        _ => None,
    }
}

impl Statement {
    fn add(&mut self, encoding: Option<Encoding>, old: Option<&[u8]>, new: Option<&[u8]>) {
        self.count += 1;
        self.changed += u64::from(old != new);
        let (Some(old), Some(new)) = (old, new) else {
            self.is_sum_known = false;
            return;
        };
        let Some(encoding) = encoding else { return };
        if let Some(signed) = has_sign(encoding) {
            self.added += integer(new, signed) - integer(old, signed);
        } else if encoding == Encoding::Float {
            match (float(new), float(old)) {
                (Some(new), Some(old)) => self.added_float += new - old,
                _ => self.is_sum_known = false,
            }
        }
    }
}

/// A number of at most eight bytes.
fn integer(bytes: &[u8], signed: bool) -> i128 {
    let mut wide = [0; 16];
    let length = bytes.len().min(8);
    wide[..length].copy_from_slice(&bytes[..length]);
    if signed && bytes.get(length.wrapping_sub(1)).is_some_and(|last| last & 0x80 != 0) {
        wide[length..].fill(0xff);
    }
    i128::from_le_bytes(wide)
}

fn float(bytes: &[u8]) -> Option<f64> {
    match bytes.len() {
        4 => Some(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(f64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}
