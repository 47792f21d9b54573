//! Stacks are those that gdb shows.
