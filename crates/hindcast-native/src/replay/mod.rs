//! Replay: any moment of a recording is made again, from a copy of the process and the log.

mod follower;
mod frozen;
mod history;
mod landmark;
mod repeat;
mod replica;
mod search;
mod share;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod trampoline;

#[cfg(test)]
pub(crate) use self::state::digest;
pub(crate) use self::{
    follower::{Comparison, Follower, Live},
    frozen::{CopiedArea, Frozen, Kin, begin, copy_live},
    history::{Arrival, Bound, Context, Past, check},
    landmark::Functions,
    replica::{Advance, Pause, ReplayError, Replica},
    search::Window,
    timeline::{Anchor, Label, Position, Timeline},
};
