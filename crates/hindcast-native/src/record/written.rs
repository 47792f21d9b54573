//! What a system call wrote to the program's memory.

use super::{calls::Out, log::Write};
use crate::sys::ProcessMemory;

const PAGE: u64 = 4096;
/// Larger than anything that a call writes whose size the program names. Beyond, the call is a barrier.
const LONGEST_NAMED: u64 = 1 << 20;
/// No call takes more places than this.
const MOST_PLACES: u64 = 1024;
const MESSAGE_HEADER: u64 = 56;
/// A header, the length of the message, and a gap.
const MESSAGE_STRIDE: u64 = 64;

/// Where a call will write that does not name the place in its arguments. This must be known before the call, which may
/// overwrite it.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    /// For each list of places: address and length of each.
    lists: Vec<Vec<(u64, u64)>>,
    /// Buffers whose length stands in memory: addresses, and also what a message has of names and control data.
    buffers: Vec<Buffer>,
}

#[derive(Debug, Clone)]
struct Buffer {
    address: u64,
    /// How much the program has room for.
    room: u64,
    /// Where the call tells how much there was.
    length_at: u64,
    /// In a word instead of half of one.
    is_word: bool,
}

impl Places {
    /// Reads them before the call; `None` where that cannot be told.
    pub(super) fn read(memory: &ProcessMemory, outs: &[Out], arguments: &[u64; 6]) -> Option<Self> {
        let mut places = Self::default();
        for &out in outs {
            match out {
                Out::Vectors(at, number) => places.add_list(memory, arguments[at], arguments[number])?,
                Out::Message(at) => places.add_message(memory, arguments[at])?,
                Out::Messages(at) => {
                    for index in 0..arguments[at + 1].min(MOST_PLACES) {
                        places.add_message(memory, arguments[at] + MESSAGE_STRIDE * index)?;
                    }
                }
                Out::Length(at, length) if arguments[length] != 0 => {
                    places.add_buffer(memory, arguments[at], arguments[length], false)?;
                }
                _ => {}
            }
        }
        Some(places)
    }

    fn add_list(&mut self, memory: &ProcessMemory, list: u64, count: u64) -> Option<()> {
        let place = |index: u64| {
            Some((read_word(memory, list + 16 * index)?, read_word(memory, list + 16 * index + 8)?))
        };
        self.lists.push((0..count.min(MOST_PLACES)).map(place).collect::<Option<_>>()?);
        Some(())
    }

    fn add_message(&mut self, memory: &ProcessMemory, header: u64) -> Option<()> {
        let word = |offset: u64| read_word(memory, header + offset);
        self.add_buffer(memory, word(0)?, header + 8, false)?;
        self.add_buffer(memory, word(32)?, header + 40, true)?;
        self.add_list(memory, word(16)?, word(24)?)
    }

    fn add_buffer(
        &mut self,
        memory: &ProcessMemory,
        address: u64,
        length_at: u64,
        is_word: bool,
    ) -> Option<()> {
        let room = read_length(memory, length_at, is_word)?;
        self.buffers.push(Buffer { address, room, length_at, is_word });
        Some(())
    }
}

/// Reads what a call wrote; `None` where that cannot be told.
pub(super) fn written(
    memory: &ProcessMemory,
    outs: &[Out],
    places: &Places,
    arguments: &[u64; 6],
    result: i64,
) -> Option<Box<[Write]>> {
    let mut writes = Writes { memory, list: Vec::new() };
    let count = u64::try_from(result).unwrap_or(0);
    let mut lists = places.lists.iter();
    for buffer in &places.buffers {
        let length = read_length(memory, buffer.length_at, buffer.is_word)?.min(buffer.room);
        writes.push_named(buffer.address, length, 1)?;
    }
    for &out in outs {
        match out {
            Out::Fixed(at, size) => writes.push(arguments[at], size),
            Out::Result(at) => writes.push(arguments[at], count),
            Out::ResultWithin(at, most) => writes.push(arguments[at], count.min(arguments[most])),
            Out::ResultTimes(at, size) => writes.push(arguments[at], count.saturating_mul(size)),
            Out::Counted(at, number, size) => writes.push_named(arguments[at], arguments[number], size)?,
            Out::Bits(at, number) => writes.push_named(arguments[at], arguments[number].div_ceil(64), 8)?,
            Out::Pages(at, length) => {
                writes.push_named(arguments[at], arguments[length].div_ceil(PAGE), 1)?
            }
            Out::Length(_, length) => writes.push(arguments[length], 4),
            Out::Vectors(..) => writes.push_list(lists.next()?, count),
            Out::Message(at) => {
                writes.push(arguments[at], MESSAGE_HEADER);
                writes.push_list(lists.next()?, count);
            }
            Out::SentMessages(at) => {
                for index in 0..count {
                    writes.push(arguments[at] + MESSAGE_STRIDE * index + MESSAGE_HEADER, 4);
                }
            }
            Out::Messages(at) => {
                for index in 0..count {
                    let header = arguments[at] + MESSAGE_STRIDE * index;
                    let length = read_word(memory, header + MESSAGE_HEADER)? as u32;
                    writes.push(header, MESSAGE_HEADER + 4);
                    writes.push_list(lists.next()?, u64::from(length));
                }
            }
        }
    }
    Some(writes.list.into())
}

/// Whether messages that a call sends have something beside their text.
pub(super) fn sends_control_data(memory: &ProcessMemory, number: i64, arguments: &[u64; 6]) -> bool {
    const CONTROL_LENGTH: u64 = 40;
    let count = match number {
        libc::SYS_sendmsg => 1,
        libc::SYS_sendmmsg => arguments[2].min(MOST_PLACES),
        _ => return false,
    };
    (0..count).any(|index| {
        let header = arguments[1] + MESSAGE_STRIDE * index;
        read_word(memory, header + CONTROL_LENGTH).is_some_and(|length| length > 0)
    })
}

/// Whether messages that were received have descriptors beside their text.
pub(super) fn receives_descriptors(
    memory: &ProcessMemory,
    number: i64,
    arguments: &[u64; 6],
    result: i64,
) -> bool {
    const CONTROL: u64 = 32;
    const LENGTH: u64 = 40;
    /// Length, level and type of what follows.
    const ITEM_HEADER: u64 = 16;
    let count = match number {
        libc::SYS_recvmsg if result >= 0 => 1,
        libc::SYS_recvmmsg => u64::try_from(result).unwrap_or(0),
        _ => 0,
    };
    (0..count).any(|index| {
        let header = arguments[1] + MESSAGE_STRIDE * index;
        let (Some(mut at), Some(length)) =
            (read_word(memory, header + CONTROL), read_word(memory, header + LENGTH))
        else {
            return true;
        };
        let end = at.saturating_add(length.min(LONGEST_NAMED));
        while at.saturating_add(ITEM_HEADER) <= end {
            let (Some(size), Some(kind)) = (read_word(memory, at), read_word(memory, at + 8)) else {
                return true;
            };
            if kind == (libc::SCM_RIGHTS as u64) << 32 | libc::SOL_SOCKET as u64 {
                return true;
            }
            at = at.saturating_add(size.max(ITEM_HEADER).next_multiple_of(8));
        }
        false
    })
}

/// The beginning of what was printed, for the timeline: written back where it is, it changes nothing. Of errors it is
/// enough for the message of a panic.
pub(super) fn printed(memory: &ProcessMemory, arguments: &[u64; 6], result: i64) -> Box<[Write]> {
    let shown = if arguments[0] == 2 { 1024 } else { 64 };
    let mut writes = Writes { memory, list: Vec::new() };
    writes.push(arguments[1], u64::try_from(result).unwrap_or(0).min(shown));
    writes.list.into()
}

pub(super) fn read_word(memory: &ProcessMemory, address: u64) -> Option<u64> {
    let mut word = [0; 8];
    (memory.read_some(address, &mut word) == 8).then(|| u64::from_le_bytes(word))
}

fn read_length(memory: &ProcessMemory, address: u64, is_word: bool) -> Option<u64> {
    let word = read_word(memory, address)?;
    Some(if is_word { word } else { word & 0xffff_ffff })
}

struct Writes<'a> {
    memory: &'a ProcessMemory,
    list: Vec<Write>,
}

impl Writes<'_> {
    fn push(&mut self, address: u64, length: u64) {
        if address == 0 || length == 0 {
            return;
        }
        let mut bytes = vec![0; length as usize];
        let count = self.memory.read_some(address, &mut bytes);
        bytes.truncate(count);
        if count > 0 {
            self.list.push(Write { address, bytes: bytes.into() });
        }
    }

    /// As much as the program named.
    fn push_named(&mut self, address: u64, count: u64, size: u64) -> Option<()> {
        let length = count.checked_mul(size).filter(|length| *length <= LONGEST_NAMED)?;
        self.push(address, length);
        Some(())
    }

    /// So many bytes, to one place after the other.
    fn push_list(&mut self, list: &[(u64, u64)], mut remaining: u64) {
        for &(address, length) in list {
            let length = length.min(remaining);
            self.push(address, length);
            remaining -= length;
        }
    }
}
