//! The engine on real programs, with gdb as the judge where it knows better.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod attaching;
mod bells;
mod breakpoints;
mod conditions;
mod crashes;
mod debuggee;
mod elements;
mod gdb;
mod interruptions;
mod link_time;
mod live_conditions;
mod looking;
mod names;
mod pointers;
mod python;
mod questions;
mod random_numbers;
mod recordings;
mod registers;
mod sessions;
mod stacks;
mod stepping;
mod streams;
mod threads;
mod time_travel;
mod waits;
mod ways;
mod what_if;
mod writes;
