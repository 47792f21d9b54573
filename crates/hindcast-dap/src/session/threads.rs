//! Threads of all connections, by numbers of our own.

use std::collections::BTreeMap;

use hindcast_core::debug::ThreadId;

use crate::transport::ConnectionId;

/// Which thread of which connection a number stands for.
#[derive(Debug, Default)]
pub(super) struct Threads(BTreeMap<u32, (ConnectionId, i64)>);

impl Threads {
    /// The number of a thread: the adapter's where nobody else has it.
    pub(super) fn number(&mut self, connection: ConnectionId, dap: i64) -> ThreadId {
        let known =
            self.0.iter().find(|(_, thread)| **thread == (connection, dap)).map(|(number, _)| *number);
        if let Some(number) = known {
            return ThreadId(number);
        }
        let wanted = u32::try_from(dap).ok().filter(|number| *number > 0 && !self.0.contains_key(number));
        let number = wanted.unwrap_or_else(|| (1..).find(|number| !self.0.contains_key(number)).unwrap_or(1));
        self.0.insert(number, (connection, dap));
        ThreadId(number)
    }

    /// The thread of a number.
    pub(super) fn of(&self, thread: ThreadId) -> Option<(ConnectionId, i64)> {
        self.0.get(&thread.0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_keep_their_numbers_where_they_can() {
        let mut threads = Threads::default();
        let (one, two) = (ConnectionId(1), ConnectionId(2));
        assert_eq!(threads.number(one, 7), ThreadId(7));
        assert_eq!(threads.number(one, 0), ThreadId(1), "0 is no number of ours");
        assert_eq!(threads.number(two, 7), ThreadId(2), "another process has it already");
        assert_eq!(threads.number(one, 7), ThreadId(7));
        assert_eq!(threads.number(one, -1), ThreadId(3));
        assert_eq!(threads.of(ThreadId(2)), Some((two, 7)));
        assert_eq!(threads.of(ThreadId(9)), None);
    }
}
