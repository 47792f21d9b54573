//! The debugger on the wire, over the fake engine: the messages of the contracts, and their sizes.

mod contract;
mod resources;
mod stage;
mod tools;
mod travel;
