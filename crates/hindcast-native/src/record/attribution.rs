//! Who wrote something: of the bytes that the log holds for a system call, those that it surely wrote. The log may name
//! more than a call wrote, which is right for a replay, but would be false as an answer.

use std::ops::Range;

use super::log::{Call, Event, Replay, Write};

/// A `struct pollfd`, and what the system writes of it.
const POLLED: usize = 8;
const RETURNED: Range<u64> = 6..8;
/// What the system writes of a `struct msghdr`: the length of a name, that of control data, and flags.
const TOLD_OF_MESSAGE: [Range<u64>; 2] = [8..12, 40..52];
/// In a list of messages, how long each was follows.
const LISTED_MESSAGE: u64 = 64;
const LENGTH: Range<u64> = 56..60;

impl Event {
    /// Whether the system wrote to some of these bytes.
    pub(crate) fn wrote_to(&self, wanted: &Range<u64>) -> bool {
        match self {
            Event::Call(call) => call.wrote_to(wanted),
            Event::Interrupted { number, writes, .. } => writes.iter().enumerate().any(|(index, write)| {
                let is_list = index == 0
                    && (*number == libc::SYS_poll || *number == libc::SYS_ppoll && writes.len() == 2);
                if is_list { returned(write, wanted) } else { whole(write, wanted) }
            }),
            Event::Left { writes, .. } => writes.iter().any(|write| whole(write, wanted)),
            _ => false,
        }
    }
}

impl Call {
    fn wrote_to(&self, wanted: &Range<u64>) -> bool {
        let writes = match &self.replay {
            Replay::Emulate(writes) => writes,
            Replay::Thread(made) => return made.writes.iter().any(|write| whole(write, wanted)),
            Replay::Real | Replay::Map(_) => return false,
        };
        writes.iter().any(|write| whole(write, wanted) && self.wrote(write, wanted))
    }

    fn wrote(&self, write: &Write, wanted: &Range<u64>) -> bool {
        let is_at = |argument: usize| write.address == self.arguments[argument];
        let interrupted = self.result == -i64::from(libc::EINTR);
        match self.number {
            // What a program prints is kept for the timeline.
            libc::SYS_write => false,
            libc::SYS_nanosleep | libc::SYS_clock_nanosleep => interrupted,
            libc::SYS_poll | libc::SYS_ppoll if is_at(0) => returned(write, wanted),
            // How much time is left, whatever came of it.
            libc::SYS_ppoll => true,
            libc::SYS_select | libc::SYS_pselect6 if is_at(4) => true,
            // The version that the system would understand, or the size.
            libc::SYS_capget | libc::SYS_capset | libc::SYS_sched_getattr => true,
            // A call that fails writes nothing else; where it may have, a copy of the memory follows it.
            _ if self.result < 0 => false,
            libc::SYS_wait4 => self.result > 0,
            libc::SYS_getgroups => self.arguments[0] > 0,
            libc::SYS_recvmsg if is_at(1) => {
                TOLD_OF_MESSAGE.iter().any(|field| within(write.address, field, wanted))
            }
            libc::SYS_recvmmsg => {
                let offset = write.address.wrapping_sub(self.arguments[1]);
                let is_header = offset.is_multiple_of(LISTED_MESSAGE)
                    && offset / LISTED_MESSAGE < self.result as u64
                    && write.bytes.len() as u64 == LENGTH.end;
                let mut fields = TOLD_OF_MESSAGE.iter().chain([&LENGTH]);
                !is_header || fields.any(|field| within(write.address, field, wanted))
            }
            _ => true,
        }
    }
}

fn whole(write: &Write, wanted: &Range<u64>) -> bool {
    within(write.address, &(0..write.bytes.len() as u64), wanted)
}

/// What came of each descriptor in a list.
fn returned(write: &Write, wanted: &Range<u64>) -> bool {
    (0..write.bytes.len()).step_by(POLLED).any(|at| within(write.address + at as u64, &RETURNED, wanted))
}

/// Whether a part of something at `address` is wanted.
fn within(address: u64, part: &Range<u64>, wanted: &Range<u64>) -> bool {
    address + part.start < wanted.end && wanted.start < address + part.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: i64, arguments: [u64; 6], result: i64, address: u64, length: usize) -> Event {
        let writes = [Write { address, bytes: vec![0; length].into() }];
        let replay = Replay::Emulate(writes.into());
        Event::Call(Call { number, arguments, pc: 0, result, replay })
    }

    #[test]
    fn a_call_is_blamed_only_for_what_it_wrote() {
        let polled = call(libc::SYS_poll, [0x1000, 2, 0, 0, 0, 0], 1, 0x1000, 16);
        assert!(!polled.wrote_to(&(0x1000..0x1006)), "the descriptor and what is asked of it");
        assert!(polled.wrote_to(&(0x100e..0x1010)));
        let missing = call(libc::SYS_stat, [0, 0x1000, 0, 0, 0, 0], -2, 0x1000, 144);
        assert!(!missing.wrote_to(&(0x1000..0x1008)));
        let found = call(libc::SYS_stat, [0, 0x1000, 0, 0, 0, 0], 0, 0x1000, 144);
        assert!(found.wrote_to(&(0x1000..0x1008)) && !found.wrote_to(&(0x1090..0x1098)));
        let slept = |result| call(libc::SYS_nanosleep, [0, 0x1000, 0, 0, 0, 0], result, 0x1000, 16);
        assert!(!slept(0).wrote_to(&(0x1000..0x1010)));
        assert!(slept(-i64::from(libc::EINTR)).wrote_to(&(0x1000..0x1010)));
        let waited = |result| call(libc::SYS_wait4, [0, 0x1000, 0, 0, 0, 0], result, 0x1000, 4);
        assert!(!waited(0).wrote_to(&(0x1000..0x1004)) && waited(7).wrote_to(&(0x1000..0x1004)));
        let message = call(libc::SYS_recvmsg, [0, 0x1000, 0, 0, 0, 0], 5, 0x1000, 56);
        assert!(!message.wrote_to(&(0x1010..0x1018)), "where the list of buffers is");
        assert!(message.wrote_to(&(0x1030..0x1034)), "its flags");
        let listed = call(libc::SYS_recvmmsg, [0, 0x1000, 2, 0, 0, 0], 2, 0x1040, LENGTH.end as usize);
        assert!(!listed.wrote_to(&(0x1050..0x1058)) && listed.wrote_to(&(0x1078..0x107c)));
    }
}
