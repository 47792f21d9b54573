//! A file that claims to be a .NET assembly or a portable PDB, asked everything that can be asked.
//!
//! No answer is checked: none may panic, hang or take memory without bound. libFuzzer's `-timeout` and
//! `-rss_limit_mb` watch the latter two.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = hindcast_dotnet::image::walk_everything(bytes);
});
