//! What a trial would have printed.

use std::hash::{DefaultHasher, Hasher};

use crate::sys::ProcessMemory;

/// So many bytes are kept; of the rest only whether it is the same.
const MOST: usize = 64 << 10;
/// A program can claim to write more than it has.
pub(super) const LONGEST_WRITE: u64 = 16 << 20;

/// Output to descriptors 1 and 2, as one.
#[derive(Default, Clone)]
pub(crate) struct Printed {
    /// The first of it.
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u64,
    hasher: DefaultHasher,
}

impl Printed {
    /// Whether two printed the same.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.length == other.length && self.hasher.finish() == other.hasher.finish()
    }

    /// Takes what a call writes, if that is to be seen.
    pub(super) fn take(&mut self, number: i64, arguments: &[u64; 6], memory: &ProcessMemory) {
        if !matches!(arguments[0], 1 | 2) {
            return;
        }
        for (address, length) in pieces(number, arguments, memory) {
            let mut bytes = vec![0; length.min(LONGEST_WRITE) as usize];
            let count = memory.read_some(address, &mut bytes);
            let bytes = &bytes[..count];
            self.hasher.write(bytes);
            self.length += count as u64;
            let room = MOST.saturating_sub(self.bytes.len());
            self.bytes.extend(&bytes[..room.min(count)]);
        }
    }
}

/// The memory that a call writes out, in order.
pub(super) fn pieces(number: i64, arguments: &[u64; 6], memory: &ProcessMemory) -> Vec<(u64, u64)> {
    const MOST_PIECES: u64 = 1024;
    let [_, address, length, ..] = *arguments;
    if number != libc::SYS_writev {
        return vec![(address, length)];
    }
    let word = |at: u64| {
        let mut bytes = [0; 8];
        (memory.read_some(at, &mut bytes) == 8).then(|| u64::from_le_bytes(bytes))
    };
    let piece = |index: u64| Some((word(address + 16 * index)?, word(address + 16 * index + 8)?));
    (0..length.min(MOST_PIECES)).map_while(piece).collect()
}
