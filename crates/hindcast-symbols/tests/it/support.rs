//! Compiled programs as symbols, and other tools to compare with.

use std::{ops::Range, path::Path, process::Command};

use hindcast_fixtures::Built;
use hindcast_symbols::{FunctionPattern, FunctionTarget, Symbols};

/// What is added to the addresses of position-independent programs.
pub(crate) const BIAS: u64 = 0x5555_5555_4000;

/// A program as it would be loaded.
pub(crate) fn loaded(path: &Path) -> Symbols {
    let mut symbols = Symbols::new();
    let bias = bias(path);
    symbols.add(path, bias, extent(path, bias)).expect("the fixture is understood");
    symbols
}

pub(crate) fn bias(path: &Path) -> u64 {
    let header = output(Command::new("readelf").arg("-h").arg(path));
    if header.contains("DYN") { BIAS } else { 0 }
}

fn extent(path: &Path, bias: u64) -> Range<u64> {
    let segments = output(Command::new("readelf").arg("-lW").arg(path));
    let loads = segments.lines().filter(|line| line.trim_start().starts_with("LOAD")).map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (start, size) = (hexadecimal(words[2]), hexadecimal(words[5]));
        start..start + size
    });
    let loads: Vec<_> = loads.collect();
    let start = loads.iter().map(|range| range.start).min().expect("a program is loaded");
    let end = loads.iter().map(|range| range.end).max().expect("a program is loaded");
    bias + (start & !0xfff)..bias + end
}

/// Addresses of a section, in the file.
pub(crate) fn section(path: &Path, name: &str) -> Range<u64> {
    let sections = output(Command::new("readelf").arg("-SW").arg(path));
    let line = sections.lines().find(|line| line.split_whitespace().any(|word| word == name));
    let line = line.unwrap_or_else(|| panic!("{} has no {name}", path.display()));
    let words: Vec<&str> = line.rsplit(']').next().expect("a line").split_whitespace().collect();
    let (start, size) = (hexadecimal(words[2]), hexadecimal(words[4]));
    start..start + size
}

pub(crate) fn hexadecimal(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a hexadecimal number")
}

pub(crate) fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What gdb prints for commands on a program that does not run.
pub(crate) fn gdb(path: &Path, commands: &[&str]) -> String {
    let mut command = Command::new("gdb");
    command.args(["-batch", "-nx", "-ex", "set width 0", "-ex", "set debuginfod enabled off"]);
    for text in commands {
        command.args(["-ex", text]);
    }
    output(command.arg(path))
}

pub(crate) fn function(symbols: &Symbols, name: &str) -> FunctionTarget {
    let found = symbols.functions_named(&FunctionPattern::Exact(name.to_owned()), 10);
    assert!(!found.is_empty(), "there is no function {name}");
    found[0].clone()
}

/// The address of a marked line.
pub(crate) fn mark(symbols: &Symbols, built: &Built, mark: &str) -> u64 {
    let matches = symbols.addresses_of_line(&built.source_text(), built.line(mark));
    assert!(!matches.targets.is_empty(), "no code at @mark {mark}");
    matches.targets[0].address
}
