//! What goes into the log comes out again, wherever it was kept meanwhile.

use std::fs::File;

use super::{
    Answer, Call, Event, Kept, Leaves, Log, Packed, Replay, Told, Write, chunks::MOST_EVENTS,
    numbers::Malformed, pack, unpack,
};
use crate::sys::Tid;

/// A row of numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn below(&mut self, most: u64) -> u64 {
        self.next() % most
    }

    /// Of all sizes.
    fn any(&mut self) -> u64 {
        let number = self.next() << 33 ^ self.next();
        number >> self.below(64)
    }

    fn bytes(&mut self, count: u64) -> Box<[u8]> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    fn writes(&mut self, arguments: &[u64; 6], result: u64) -> Box<[Write]> {
        let mut end = self.any();
        let count = if self.below(20) == 0 { 12 } else { self.below(4) };
        let write = |_| {
            let address = match self.below(3) {
                0 => arguments[self.below(6) as usize].wrapping_add(self.below(16)),
                1 => end,
                _ => self.any(),
            };
            let length = if self.below(2) == 0 { result.min(40) } else { self.below(9) };
            let write = Write { address, bytes: self.bytes(length) };
            end = address.wrapping_add(length);
            write
        };
        (0..count).map(write).collect()
    }

    /// Few places and few arguments, so that much repeats; now and then something quite different.
    fn event(&mut self) -> Event {
        let pc = if self.below(20) == 0 { self.any() } else { 0x7fff_f7d0_0000 + 64 * self.below(5) };
        let number = if self.below(30) == 0 { self.any() as i64 } else { self.below(3) as i64 };
        let strange = self.below(10) == 0;
        let mut arguments = [3, 0x5555_5555_0000 + 8 * self.below(3), 64, 0, 0, 0];
        if strange {
            arguments = arguments.map(|_| self.any());
        }
        let result = if strange { self.any() as i64 } else { self.below(40) as i64 - 3 };
        let to = Tid(if strange { self.next() as i32 } else { 1000 + self.below(4) as i32 });
        match self.below(40) {
            0 => Event::Barrier { number, arguments, pc, result },
            1 => Event::Interrupted { number, pc, writes: self.writes(&[0; 6], 0) },
            2 => Event::Signal {
                number: self.below(65) as i32,
                code: result as i32,
                address: strange.then_some(pc),
            },
            3 => Event::Edit,
            4 => Event::Turn { to, leaves: Leaves::AtCall { number, pc } },
            5 => Event::Turn { to, leaves: Leaves::BehindEvent },
            6 => Event::Turn { to, leaves: Leaves::Anywhere },
            7 => Event::Left { pc, writes: self.writes(&[0; 6], 0), to },
            8..12 => {
                let told = match self.below(3) {
                    0 => Told::Counter { value: self.any(), processor: strange.then_some(3) },
                    1 => Told::Features([0, 1, 2, 3].map(|_| self.any() as u32)),
                    _ => Told::Random { register: self.any() as u8, bytes: 8, value: self.any() },
                };
                Event::Answer(Answer { pc, length: self.any() as u8, told })
            }
            12 => Event::Call(Call { number, arguments, pc, result, replay: Replay::Real }),
            13 => Event::Call(Call { number, arguments, pc, result, replay: Replay::Map(None) }),
            _ => {
                let replay = Replay::Emulate(self.writes(&arguments, result.max(0) as u64));
                Event::Call(Call { number, arguments, pc, result, replay })
            }
        }
    }
}

fn same(events: &[Event], log: &Log, first: u64) {
    for (index, event) in events.iter().enumerate() {
        let found = log.get(first + index as u64).unwrap();
        assert_eq!(format!("{event:?}"), format!("{:?}", &*found), "event {index}");
    }
}

fn filled(seed: u64, count: usize, log: &mut Log) -> Vec<Event> {
    let (mut numbers, mut again) = (Numbers(seed), Numbers(seed));
    for _ in 0..count {
        log.push(numbers.event());
    }
    (0..count).map(|_| again.event()).collect()
}

#[test]
fn what_is_packed_comes_out_as_it_was() {
    for seed in 0..40 {
        let mut numbers = Numbers(seed);
        let events: Vec<_> = (0..1 + 25 * seed).map(|_| numbers.event()).collect();
        let Packed { count, bytes, kept } = pack(&events);
        let unpacked = unpack(count, &bytes, &kept).unwrap();
        assert_eq!(format!("{events:?}"), format!("{unpacked:?}"), "seed {seed}");
    }
}

#[test]
fn a_log_is_the_same_in_memory_in_a_file_and_forwards_and_backwards() {
    let mut log = Log::starting_at(100);
    log.spill_to(tempfile::tempfile().unwrap(), 10_000);
    let events = filled(1, 20_000, &mut log);
    assert_eq!(log.len(), 20_100);
    assert!(log.is_spilled() && log.failure().is_none());
    same(&events, &log, 100);
    let backwards: Vec<_> = log.range(150, 20_050).rev().map(|(index, _)| index).collect();
    assert!(backwards.into_iter().eq((150..20_050).rev()));
    assert!(log.get(99).is_none() && log.get(20_100).is_none() && log.get(u64::MAX).is_none());
    for (index, event) in events.iter().enumerate() {
        let is_break = matches!(event, Event::Barrier { .. }) || event.is_interruption();
        let expected = is_break.then(|| event.is_interruption());
        assert_eq!(log.break_at(100 + index as u64), expected, "event {index}");
    }
}

#[test]
fn what_is_forgotten_or_withdrawn_is_gone_and_the_rest_stays() {
    for (from, to) in
        [(0, 20_000), (1, 19_999), (5_000, 5_001), (3 * MOST_EVENTS as u64, 12_345), (19_990, 19_995)]
    {
        let mut log = Log::default();
        log.spill_to(tempfile::tempfile().unwrap(), 100_000);
        let events = filled(2, 20_000, &mut log);
        let whole = log.bytes();
        log.forget_before(from);
        log.withdraw_from(to);
        assert_eq!(log.len(), to);
        assert!(log.get(to).is_none() && from.checked_sub(1).is_none_or(|before| log.get(before).is_none()));
        same(&events[from as usize..to as usize], &log, from);
        assert!(to - from > 15_000 || log.bytes() < whole / 2, "{} of {whole} bytes", log.bytes());
        // It goes on from there.
        log.push(Event::Edit);
        assert!(matches!(*log.get(to).unwrap(), Event::Edit));
        assert_eq!(log.break_at(to), Some(true));
        let breaks = (from..to).filter(|&index| log.break_at(index).is_some()).count();
        let expected = events[from as usize..to as usize]
            .iter()
            .filter(|event| matches!(event, Event::Barrier { .. }) || event.is_interruption())
            .count();
        assert_eq!(breaks, expected);
    }
}

#[test]
fn any_part_can_be_taken_as_bytes() {
    let mut log = Log::starting_at(7);
    log.spill_to(tempfile::tempfile().unwrap(), 100_000);
    let events = filled(3, 10_000, &mut log);
    for (start, end) in [(7, 10_007), (0, u64::MAX), (8, 5_000), (4_000, 4_001), (9_990, 10_000), (50, 50)] {
        let mut copy = Log::starting_at(start.max(7));
        for packed in log.packed(start, end) {
            let Packed { count, bytes, kept } = packed.unwrap();
            assert!(count <= MOST_EVENTS);
            unpack(count, &bytes, &kept).unwrap().into_iter().for_each(|event| copy.push(event));
        }
        let (start, end) = (start.max(7), end.min(10_007));
        assert_eq!(copy.len(), end);
        same(&events[(start - 7) as usize..(end - 7) as usize], &copy, start);
    }
}

/// The device is as full as a disk can be.
#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let mut log = Log::default();
    log.spill_to(File::options().read(true).write(true).open("/dev/full").unwrap(), 10_000);
    let events = filled(4, 5_000, &mut log);
    assert!(log.failure().is_some_and(|failure| failure.contains("No space left")), "{:?}", log.failure());
    same(&events, &log, 0);
}

/// What cannot be read back is an event that nothing can be replayed over, and not the end of the log.
#[test]
fn events_that_the_disk_does_not_give_back_are_named_as_such() {
    let mut log = Log::default();
    let file = tempfile::tempfile().unwrap();
    log.spill_to(file.try_clone().unwrap(), 10_000);
    let events = filled(5, 20_000, &mut log);
    file.set_len(1).unwrap();
    assert!(matches!(*log.get(10).unwrap(), Event::Unreadable));
    assert_eq!(log.len(), 20_000);
    assert_eq!(format!("{:?}", events.last().unwrap()), format!("{:?}", &*log.get(19_999).unwrap()));
    assert!(log.packed(0, 20_000).any(|packed| packed.is_err()));
}

#[test]
fn bytes_that_make_no_sense_are_refused_or_harmless() {
    let mut numbers = Numbers(6);
    let events: Vec<_> = (0..300).map(|_| numbers.event()).collect();
    let Packed { count, bytes, kept } = pack(&events);
    for cut in (0..bytes.len()).step_by(7) {
        assert_eq!(unpack(count, &bytes[..cut], &kept).err(), Some(Malformed), "cut at {cut}");
    }
    assert_eq!(unpack(count - 1, &bytes, &kept).err(), Some(Malformed));
    assert_eq!(unpack(usize::MAX, &bytes, &kept).err(), Some(Malformed));
    for _ in 0..4_000 {
        let mut other = bytes.clone();
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(other.len() as u64) as usize;
            other[at] = numbers.next() as u8;
        }
        // Whatever it is now, it can be packed again.
        if let Ok(events) = unpack(count, &other, &kept) {
            let Packed { count, bytes, kept } = pack(&events);
            assert!(unpack(count, &bytes, &kept).is_ok());
        }
    }
    // Lengths and counts of which there is not so much.
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    for start in [&[1, 0, 0][..], &[10, 0], &[0, 0, 0, 0, 16, 0x80], &[0, 4, 56, 0, 16, 0, 0]] {
        let bytes = [start, &huge, &[0; 40]].concat();
        assert_eq!(unpack(1, &bytes, &[] as &[Kept]).err(), Some(Malformed), "{start:?}");
    }
}

fn waits(calls: u64) -> impl Iterator<Item = Event> {
    (0..calls).map(|call| {
        let (number, arguments, result, bytes) = match call % 4 {
            0 => (libc::SYS_epoll_wait, [3, 0x7fff_ffff_e000, 64, 100, 0, 0], 0, None),
            1 => (libc::SYS_clock_gettime, [1, 0x7fff_ffff_e500, 0, 0, 0, 0], 0, Some(16)),
            2 => (libc::SYS_read, [5, 0x5555_5556_0000 + call % 64, 64, 0, 0, 0], 32, Some(32)),
            _ => (libc::SYS_write, [6, 0x5555_5557_0000, 32, 0, 0, 0], 32, None),
        };
        let writes = bytes.map(|count| Write { address: arguments[1], bytes: Numbers(call).bytes(count) });
        let replay = Replay::Emulate(writes.into_iter().collect());
        Event::Call(Call { number, arguments, pc: 0x7fff_f7d0_0000 + number as u64, result, replay })
    })
}

#[test]
fn an_event_takes_few_bytes_beside_its_data() {
    let mut log = Log::default();
    let calls = 100 * MOST_EVENTS as u64;
    waits(calls).for_each(|event| log.push(event));
    let data = calls / 4 * (16 + 32);
    let each = (log.bytes() - data) as f64 / calls as f64;
    eprintln!("{each:.2} bytes an event beside its data");
    assert!(each < 4.0, "{each} bytes");
}
