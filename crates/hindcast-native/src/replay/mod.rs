//! Replay: any moment of a recording is made again, from a copy of the process and the log.

mod alarm;
mod cast;
mod error;
mod follower;
mod frozen;
mod history;
mod landmark;
mod reel;
mod repeat;
mod replica;
mod room;
mod running;
mod search;
mod share;
mod sieve;
mod state;
#[cfg(test)]
pub(crate) mod tests;
mod timeline;
mod track;
mod trampoline;
mod trial;
mod turns;
mod window;

#[cfg(test)]
pub(crate) use self::state::digest;
pub(crate) use self::{
    cast::{Actor, Cast},
    error::ReplayError,
    follower::{Comparison, Follower, Live},
    frozen::{CopiedArea, Frozen, Gates, Kin, begin, copy_live, settled},
    history::{Arrival, Bound, Context, Past, check},
    landmark::Functions,
    replica::{Advance, Pause, Replica},
    running::Running,
    sieve::{Back, Caught, End, Gate, LiveGate, LiveSieve, Sieves, VALUES},
    timeline::{Anchor, Label, Position, Timeline},
    track::{Plan, Posts, Tally, Track},
    trampoline::{Listing, Site},
    trial::{Inputs, Over, Printed, Trial, TrialEnd},
    turns::Standing,
    window::Window,
};
