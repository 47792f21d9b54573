//! A file that claims to be an ELF program, asked everything that a session asks of one.
//!
//! No answer is checked: none may panic, hang or take memory without bound. libFuzzer's `-timeout` and
//! `-rss_limit_mb` watch the latter two.
#![no_main]

mod questions;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| questions::ask_everything(bytes));
