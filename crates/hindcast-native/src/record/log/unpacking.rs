//! Events from the bytes that [`pack`](super::pack) made. The bytes may come from a file, whoever wrote it: what makes no
//! sense is refused, and no more memory is taken than some times as much as the bytes.

use super::{
    Answer, Call, Event, Kept, Leaves, Made, Replay, Told, Write,
    numbers::{Bytes, Malformed},
    packing::{
        ANYWHERE, AS_LONG_AS_RESULT, BARRIER, BEHIND_LAST, COUNTER, EDIT, EMULATED, FEATURES, FIRST_SITE,
        INTERRUPTED, LEFT, MADE_AGAIN, MADE_THREAD, MAPPED, MAPPED_FILE, MOST_REMEMBERED, NEW_SITE,
        PLACES_DIFFER, Place, RANDOM, RESULT_DIFFERS, SIGNAL, Site, TURN_ANYWHERE, TURN_AT_CALL,
        TURN_BEHIND_EVENT, UNREADABLE,
    },
};
use crate::sys::Tid;

/// As many events as were made bytes of.
pub(crate) fn unpack(count: usize, bytes: &[u8], kept: &[Kept]) -> Result<Vec<Event>, Malformed> {
    // Each has a byte at least.
    if count > bytes.len() {
        return Err(Malformed);
    }
    let mut unpacker = Unpacker { bytes: Bytes(bytes), kept, sites: Vec::new(), pc: 0, counter: 0, tid: 0 };
    let mut events = Vec::with_capacity(count);
    for _ in 0..count {
        events.push(unpacker.event()?);
    }
    if unpacker.bytes.0.is_empty() { Ok(events) } else { Err(Malformed) }
}

struct Unpacker<'a> {
    bytes: Bytes<'a>,
    kept: &'a [Kept],
    sites: Vec<Site>,
    /// The last of each that was read.
    pc: u64,
    counter: u64,
    tid: i32,
}

impl Unpacker<'_> {
    fn event(&mut self) -> Result<Event, Malformed> {
        Ok(match self.bytes.number()? {
            NEW_SITE => {
                let (kind, number) = (self.bytes.byte()?, self.bytes.number()? as i64);
                let pc = self.pc()?;
                self.sites.push(Site::new(kind, number, pc));
                let site = self.bytes.number()?.checked_sub(FIRST_SITE).ok_or(Malformed)?;
                self.at_site(site)?
            }
            INTERRUPTED => {
                let number = self.bytes.number()? as i64;
                Event::Interrupted { number, pc: self.pc()?, writes: self.writes()? }
            }
            SIGNAL => {
                let (number, code) = (self.small()?, self.small()?);
                Event::Signal { number, code, address: self.optional()? }
            }
            EDIT => Event::Edit,
            kind @ (COUNTER | FEATURES | RANDOM) => Event::Answer(self.answer(kind)?),
            TURN_AT_CALL => {
                let number = self.bytes.number()? as i64;
                let leaves = Leaves::AtCall { number, pc: self.pc()? };
                Event::Turn { leaves, to: self.tid()? }
            }
            TURN_BEHIND_EVENT => Event::Turn { leaves: Leaves::BehindEvent, to: self.tid()? },
            TURN_ANYWHERE => Event::Turn { leaves: Leaves::Anywhere, to: self.tid()? },
            LEFT => Event::Left { pc: self.pc()?, writes: self.writes()?, to: self.tid()? },
            UNREADABLE => Event::Unreadable,
            site => self.at_site(site.checked_sub(FIRST_SITE).ok_or(Malformed)?)?,
        })
    }

    fn at_site(&mut self, index: u64) -> Result<Event, Malformed> {
        let index = usize::try_from(index).map_err(|_| Malformed)?;
        let site = self.sites.get_mut(index).ok_or(Malformed)?;
        let differs = self.bytes.byte()?;
        for (bit, argument) in site.arguments.iter_mut().enumerate() {
            if differs & 1 << bit != 0 {
                *argument = self.bytes.difference(*argument)?;
            }
        }
        if differs & RESULT_DIFFERS != 0 {
            site.result = self.bytes.difference(site.result as u64)? as i64;
        }
        let &mut Site { kind, number, pc, arguments, result, .. } = site;
        let writes = if differs & PLACES_DIFFER == 0 {
            read_writes(&site.places, &arguments, result, &mut self.bytes)?
        } else {
            let places = read_places(&mut self.bytes)?;
            let writes = read_writes(&places, &arguments, result, &mut self.bytes)?;
            site.places = if places.len() > MOST_REMEMBERED { Vec::new() } else { places };
            writes
        };
        if !matches!(kind, EMULATED | MADE_THREAD) && !writes.is_empty() {
            return Err(Malformed);
        }
        let replay = match kind {
            EMULATED => Replay::Emulate(writes),
            MADE_AGAIN => Replay::Real,
            MAPPED => Replay::Map(None),
            MAPPED_FILE => match self.kept()? {
                Kept::File(file) => Replay::Map(Some(file.clone())),
                Kept::Thread(_) => return Err(Malformed),
            },
            MADE_THREAD => {
                let tid = self.tid()?;
                let Kept::Thread(actor) = self.kept()? else { return Err(Malformed) };
                Replay::Thread(Box::new(Made { tid, actor: actor.clone(), writes }))
            }
            BARRIER => return Ok(Event::Barrier { number, arguments, pc, result }),
            _ => return Err(Malformed),
        };
        Ok(Event::Call(Call { number, arguments, pc, result, replay }))
    }

    fn answer(&mut self, kind: u64) -> Result<Answer, Malformed> {
        let length = self.tiny()?;
        let pc = self.pc()?;
        let told = match kind {
            COUNTER => {
                self.counter = self.bytes.difference(self.counter)?;
                let processor = self.optional()?.map(u32::try_from).transpose().map_err(|_| Malformed)?;
                Told::Counter { value: self.counter, processor }
            }
            FEATURES => {
                let mut words = [0; 4];
                for word in &mut words {
                    *word = u32::try_from(self.bytes.number()?).map_err(|_| Malformed)?;
                }
                Told::Features(words)
            }
            _ => {
                let (register, bytes) = (self.tiny()?, self.tiny()?);
                Told::Random { register, bytes, value: self.bytes.number()? }
            }
        };
        Ok(Answer { pc, length, told })
    }

    fn tiny(&mut self) -> Result<u8, Malformed> {
        u8::try_from(self.bytes.number()?).map_err(|_| Malformed)
    }

    fn small(&mut self) -> Result<i32, Malformed> {
        i32::try_from(self.bytes.difference(0)? as i64).map_err(|_| Malformed)
    }

    fn optional(&mut self) -> Result<Option<u64>, Malformed> {
        match self.bytes.byte()? {
            0 => Ok(None),
            1 => self.bytes.number().map(Some),
            _ => Err(Malformed),
        }
    }

    fn pc(&mut self) -> Result<u64, Malformed> {
        self.pc = self.bytes.difference(self.pc)?;
        Ok(self.pc)
    }

    fn tid(&mut self) -> Result<Tid, Malformed> {
        let tid = self.bytes.difference(self.tid as u64)? as i64;
        self.tid = i32::try_from(tid).map_err(|_| Malformed)?;
        Ok(Tid(self.tid))
    }

    fn kept(&mut self) -> Result<&Kept, Malformed> {
        let index = usize::try_from(self.bytes.number()?).map_err(|_| Malformed)?;
        self.kept.get(index).ok_or(Malformed)
    }

    fn writes(&mut self) -> Result<Box<[Write]>, Malformed> {
        let places = read_places(&mut self.bytes)?;
        read_writes(&places, &[0; 6], 0, &mut self.bytes)
    }
}

fn read_places(bytes: &mut Bytes<'_>) -> Result<Vec<Place>, Malformed> {
    let count = bytes.number()?;
    // Each has two bytes at least.
    if count > bytes.0.len() as u64 / 2 {
        return Err(Malformed);
    }
    let place = |_| {
        let start = bytes.byte()?;
        if start & !AS_LONG_AS_RESULT > BEHIND_LAST {
            return Err(Malformed);
        }
        let offset = bytes.difference(0)?;
        let length = if start & AS_LONG_AS_RESULT == 0 { bytes.number()? } else { 0 };
        Ok(Place { start, offset, length })
    };
    (0..count).map(place).collect()
}

fn read_writes(
    places: &[Place],
    arguments: &[u64; 6],
    result: i64,
    bytes: &mut Bytes<'_>,
) -> Result<Box<[Write]>, Malformed> {
    let mut last_end = None;
    let write = |place: &Place| {
        let (address, length) = place.find(arguments, result, last_end);
        last_end = Some(address.wrapping_add(length));
        Ok(Write { address, bytes: bytes.take(length)?.into() })
    };
    places.iter().map(write).collect()
}

const _: () = assert!(ANYWHERE < BEHIND_LAST && BEHIND_LAST < AS_LONG_AS_RESULT);
