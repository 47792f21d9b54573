//! Replay: any moment of a recording is made again, from a copy of the process and the log.

mod cast;
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
mod turns;

#[cfg(test)]
pub(crate) use self::state::digest;
pub(crate) use self::{
    cast::{Actor, Cast},
    follower::{Comparison, Follower, Live},
    frozen::{CopiedArea, Frozen, Gates, Kin, begin, copy_live, settled},
    history::{Arrival, Bound, Context, Past, check},
    landmark::Functions,
    replica::{Advance, Pause, ReplayError, Replica},
    search::Window,
    timeline::{Anchor, Label, Position, Timeline},
    turns::Standing,
};
