//! Events as bytes. Most of what a program is told comes from few places in it, again and again: a call is written down as
//! what differs from the last one of the same place. A waiting server's `epoll_wait` takes two bytes.
//!
//! An event is a number that says what it is, and its fields. A call or barrier has the number of its site, then a byte with
//! a bit for each field that differs from the site's last one: six arguments, the result, and where it wrote. The bytes that
//! the system wrote follow as they are.

use std::{collections::HashMap, rc::Rc};

use super::{
    super::mapped_files::MappedFile,
    Answer, Call, Event, Leaves, Replay, Told, Write,
    numbers::{put, put_difference},
};
use crate::{replay::Actor, sys::Tid};

/// What an event is. Those from [`FIRST_SITE`] on are calls and barriers.
pub(super) const NEW_SITE: u64 = 0;
pub(super) const INTERRUPTED: u64 = 1;
pub(super) const SIGNAL: u64 = 2;
pub(super) const EDIT: u64 = 3;
pub(super) const COUNTER: u64 = 4;
pub(super) const FEATURES: u64 = 5;
pub(super) const RANDOM: u64 = 6;
pub(super) const TURN_AT_CALL: u64 = 7;
pub(super) const TURN_BEHIND_EVENT: u64 = 8;
pub(super) const TURN_ANYWHERE: u64 = 9;
pub(super) const LEFT: u64 = 10;
pub(super) const UNREADABLE: u64 = 11;
pub(super) const FIRST_SITE: u64 = 16;

/// What the calls of a site are.
pub(super) const EMULATED: u8 = 0;
pub(super) const MADE_AGAIN: u8 = 1;
pub(super) const MAPPED: u8 = 2;
pub(super) const MAPPED_FILE: u8 = 3;
pub(super) const MADE_THREAD: u8 = 4;
pub(super) const BARRIER: u8 = 5;

/// The bits of what differs, beside one for each argument.
pub(super) const RESULT_DIFFERS: u8 = 1 << 6;
pub(super) const PLACES_DIFFER: u8 = 1 << 7;

/// Where a write begins, other than near the argument of this number.
pub(super) const ANYWHERE: u8 = 6;
pub(super) const BEHIND_LAST: u8 = 7;
/// As far from an argument is near.
const NEAR: u64 = 1 << 20;
/// Beside where a write begins: it is as long as the result says.
pub(super) const AS_LONG_AS_RESULT: u8 = 1 << 3;
/// A site remembers where its last call wrote if it was to no more places: so few bytes never stand for much memory.
pub(super) const MOST_REMEMBERED: usize = 8;

/// Something that an event refers to, and that is kept beside the bytes.
#[derive(Debug, Clone)]
pub(crate) enum Kept {
    File(Rc<MappedFile>),
    Thread(Rc<Actor>),
}

/// Events as bytes.
#[derive(Debug)]
pub(crate) struct Packed {
    /// How many.
    pub(crate) count: usize,
    pub(crate) bytes: Vec<u8>,
    pub(crate) kept: Vec<Kept>,
}

/// Where in a program calls of one kind come from, and the last one.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) kind: u8,
    pub(super) number: i64,
    pub(super) pc: u64,
    pub(super) arguments: [u64; 6],
    pub(super) result: i64,
    pub(super) places: Vec<Place>,
}

impl Site {
    pub(super) fn new(kind: u8, number: i64, pc: u64) -> Self {
        Self { kind, number, pc, arguments: [0; 6], result: 0, places: Vec::new() }
    }
}

/// Where a write is, by the arguments of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// An argument, [`ANYWHERE`] or [`BEHIND_LAST`]; and perhaps [`AS_LONG_AS_RESULT`].
    pub(super) start: u8,
    pub(super) offset: u64,
    /// Zero where the result says it.
    pub(super) length: u64,
}

impl Place {
    fn of(write: &Write, arguments: &[u64; 6], result: i64, last_end: Option<u64>) -> Self {
        let distance = |from: u64| (write.address.wrapping_sub(from) as i64).unsigned_abs();
        let near = (0_u8..6).find(|&argument| distance(arguments[usize::from(argument)]) < NEAR);
        let (mut start, offset) = match near {
            _ if last_end == Some(write.address) => (BEHIND_LAST, 0),
            Some(argument) => (argument, write.address.wrapping_sub(arguments[usize::from(argument)])),
            None => (ANYWHERE, write.address),
        };
        let mut length = write.bytes.len() as u64;
        if length > 0 && length == result as u64 {
            (start, length) = (start | AS_LONG_AS_RESULT, 0);
        }
        Self { start, offset, length }
    }

    /// The address and the length.
    pub(super) fn find(&self, arguments: &[u64; 6], result: i64, last_end: Option<u64>) -> (u64, u64) {
        let from = match self.start & !AS_LONG_AS_RESULT {
            BEHIND_LAST => last_end.unwrap_or(0),
            argument => arguments.get(usize::from(argument)).copied().unwrap_or(0),
        };
        let length = if self.start & AS_LONG_AS_RESULT == 0 { self.length } else { result as u64 };
        (from.wrapping_add(self.offset), length)
    }
}

/// Makes bytes of events.
pub(crate) fn pack(events: &[Event]) -> Packed {
    let mut packer = Packer::default();
    for event in events {
        packer.event(event);
    }
    Packed { count: events.len(), bytes: packer.bytes, kept: packer.kept }
}

#[derive(Default)]
struct Packer {
    bytes: Vec<u8>,
    kept: Vec<Kept>,
    sites: Vec<Site>,
    by_place: HashMap<(u8, i64, u64), usize>,
    /// The last of each that was written.
    pc: u64,
    counter: u64,
    tid: i32,
}

impl Packer {
    fn event(&mut self, event: &Event) {
        match event {
            Event::Call(call) => self.call(call),
            &Event::Barrier { number, ref arguments, pc, result } => {
                self.at_site(BARRIER, number, pc, arguments, result, &[]);
            }
            Event::Interrupted { number, pc, writes } => {
                self.numbers(&[INTERRUPTED, *number as u64]);
                self.pc(*pc);
                self.writes(writes);
            }
            Event::Signal { number, code, address } => {
                self.numbers(&[SIGNAL]);
                put_difference(0, *number as u64, &mut self.bytes);
                put_difference(0, *code as u64, &mut self.bytes);
                self.optional(*address);
            }
            Event::Edit => self.numbers(&[EDIT]),
            Event::Answer(answer) => self.answer(answer),
            Event::Turn { to, leaves } => {
                match leaves {
                    Leaves::AtCall { number, pc } => {
                        self.numbers(&[TURN_AT_CALL, *number as u64]);
                        self.pc(*pc);
                    }
                    Leaves::BehindEvent => self.numbers(&[TURN_BEHIND_EVENT]),
                    Leaves::Anywhere => self.numbers(&[TURN_ANYWHERE]),
                }
                self.tid(*to);
            }
            Event::Left { pc, writes, to } => {
                self.numbers(&[LEFT]);
                self.pc(*pc);
                self.writes(writes);
                self.tid(*to);
            }
            Event::Unreadable => self.numbers(&[UNREADABLE]),
        }
    }

    fn call(&mut self, call: &Call) {
        let &Call { number, ref arguments, pc, result, ref replay } = call;
        match replay {
            Replay::Emulate(writes) => self.at_site(EMULATED, number, pc, arguments, result, writes),
            Replay::Real => self.at_site(MADE_AGAIN, number, pc, arguments, result, &[]),
            Replay::Map(None) => self.at_site(MAPPED, number, pc, arguments, result, &[]),
            Replay::Map(Some(file)) => {
                self.at_site(MAPPED_FILE, number, pc, arguments, result, &[]);
                self.keep(Kept::File(file.clone()));
            }
            Replay::Thread(made) => {
                self.at_site(MADE_THREAD, number, pc, arguments, result, &made.writes);
                self.tid(made.tid);
                self.keep(Kept::Thread(made.actor.clone()));
            }
        }
    }

    fn at_site(
        &mut self,
        kind: u8,
        number: i64,
        pc: u64,
        arguments: &[u64; 6],
        result: i64,
        writes: &[Write],
    ) {
        let index = match self.by_place.get(&(kind, number, pc)) {
            Some(&known) => known,
            None => {
                self.numbers(&[NEW_SITE, u64::from(kind), number as u64]);
                self.pc(pc);
                self.sites.push(Site::new(kind, number, pc));
                self.by_place.insert((kind, number, pc), self.sites.len() - 1);
                self.sites.len() - 1
            }
        };
        put(FIRST_SITE + index as u64, &mut self.bytes);
        let (site, bytes) = (&mut self.sites[index], &mut self.bytes);
        let mask = bytes.len();
        bytes.push(0);
        for (bit, (last, &argument)) in site.arguments.iter_mut().zip(arguments).enumerate() {
            if *last != argument {
                bytes[mask] |= 1 << bit;
                put_difference(*last, argument, bytes);
                *last = argument;
            }
        }
        if site.result != result {
            bytes[mask] |= RESULT_DIFFERS;
            put_difference(site.result as u64, result as u64, bytes);
            site.result = result;
        }
        if !is_at(&site.places, writes, arguments, result) {
            bytes[mask] |= PLACES_DIFFER;
            site.places = put_places(writes, arguments, result, bytes);
            if site.places.len() > MOST_REMEMBERED {
                site.places = Vec::new();
            }
        }
        for write in writes {
            bytes.extend_from_slice(&write.bytes);
        }
    }

    fn answer(&mut self, answer: &Answer) {
        let &Answer { pc, length, ref told } = answer;
        let kind = match told {
            Told::Counter { .. } => COUNTER,
            Told::Features(_) => FEATURES,
            Told::Random { .. } => RANDOM,
        };
        self.numbers(&[kind, u64::from(length)]);
        self.pc(pc);
        match told {
            Told::Counter { value, processor } => {
                put_difference(self.counter, *value, &mut self.bytes);
                self.counter = *value;
                self.optional(processor.map(u64::from));
            }
            Told::Features(words) => self.numbers(&words.map(u64::from)),
            Told::Random { register, bytes, value } => {
                self.numbers(&[u64::from(*register), u64::from(*bytes), *value]);
            }
        }
    }

    fn numbers(&mut self, numbers: &[u64]) {
        for &number in numbers {
            put(number, &mut self.bytes);
        }
    }

    fn optional(&mut self, number: Option<u64>) {
        put(u64::from(number.is_some()), &mut self.bytes);
        if let Some(number) = number {
            put(number, &mut self.bytes);
        }
    }

    fn pc(&mut self, pc: u64) {
        put_difference(self.pc, pc, &mut self.bytes);
        self.pc = pc;
    }

    fn tid(&mut self, tid: Tid) {
        put_difference(self.tid as u64, tid.0 as u64, &mut self.bytes);
        self.tid = tid.0;
    }

    fn writes(&mut self, writes: &[Write]) {
        put_places(writes, &[0; 6], 0, &mut self.bytes);
        for write in writes {
            self.bytes.extend_from_slice(&write.bytes);
        }
    }

    fn keep(&mut self, kept: Kept) {
        put(self.kept.len() as u64, &mut self.bytes);
        self.kept.push(kept);
    }
}

/// Whether a call wrote where its site says.
fn is_at(places: &[Place], writes: &[Write], arguments: &[u64; 6], result: i64) -> bool {
    let mut last_end = None;
    places.len() == writes.len()
        && places.iter().zip(writes).all(|(place, write)| {
            let found = place.find(arguments, result, last_end);
            last_end = Some(end(write));
            found == (write.address, write.bytes.len() as u64)
        })
}

fn put_places(writes: &[Write], arguments: &[u64; 6], result: i64, bytes: &mut Vec<u8>) -> Vec<Place> {
    put(writes.len() as u64, bytes);
    let mut last_end = None;
    let place = |write: &Write| {
        let place = Place::of(write, arguments, result, last_end);
        last_end = Some(end(write));
        bytes.push(place.start);
        put_difference(0, place.offset, bytes);
        if place.start & AS_LONG_AS_RESULT == 0 {
            put(place.length, bytes);
        }
        place
    };
    writes.iter().map(place).collect()
}

fn end(write: &Write) -> u64 {
    write.address.wrapping_add(write.bytes.len() as u64)
}
