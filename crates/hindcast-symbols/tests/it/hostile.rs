//! Damaged files: answers may be wrong or missing, but there is always an answer, and soon.

use std::{
    collections::HashSet,
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

use hindcast_fixtures::Fixture;
use hindcast_symbols::{
    FrameContext, FunctionPattern, Memory, Registers, Symbols, Unreadable,
    types::{ModuleId, TypeKind, TypeRef, Types},
};

use crate::support::{output, section};

/// Numbers that look random and are the same in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % sides.max(1) as u64) as usize
    }
}

/// Where in the file the sections are that tell something.
fn interesting_sections(path: &Path) -> Vec<(usize, usize)> {
    let sections = output(Command::new("readelf").arg("-SW").arg(path));
    let told = [".debug_", ".eh_frame", ".symtab", ".strtab", ".note", ".shstrtab", ".dynsym"];
    let mut found = vec![(0, 64)];
    for line in sections.lines().filter(|line| told.iter().any(|name| line.contains(name))) {
        let words: Vec<&str> = line.rsplit(']').next().expect("a line").split_whitespace().collect();
        let number = |at: usize| usize::from_str_radix(words[at], 16).expect("a number");
        if words[1] != "NOBITS" && number(4) > 0 {
            found.push((number(3), number(4)));
        }
    }
    found
}

struct Frame {
    pc: u64,
}

impl Memory for Frame {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        // Half of all memory can be read, and leads to the other half.
        if address & 0x1000 == 0 {
            return Err(Unreadable(address));
        }
        buffer.fill(0x11);
        Ok(())
    }
}

impl FrameContext for Frame {
    fn register(&self, dwarf: u16) -> Option<Vec<u8>> {
        (!dwarf.is_multiple_of(3)).then(|| vec![dwarf as u8; 8])
    }

    fn memory(&self) -> &dyn Memory {
        self
    }

    fn tls_address(&self, _: ModuleId, offset: u64) -> Option<u64> {
        Some(offset)
    }

    fn cfa(&self) -> Option<u64> {
        Some(0x7fff_1000)
    }

    fn pc(&self) -> u64 {
        self.pc
    }
}

/// Asks everything that can be asked.
fn ask_everything(symbols: &Symbols, addresses: &[u64]) {
    let _ = symbols.modules().count();
    let _ = symbols.producer();
    for &address in addresses {
        let _ = symbols.module_at(address);
        let _ = symbols.place(address);
        let _ = symbols.line_at(address);
        let _ = symbols.symbol_at(address);
        if let Some(function) = symbols.function_at(address) {
            let _ = symbols.line_of_step(function.after_prologue);
        }
        for frame in symbols.frames_at(address) {
            for variable in symbols.variables(&frame).into_iter().take(50) {
                let _ = symbols.locate(&variable, &Frame { pc: address });
                walk(symbols, variable.type_ref);
            }
        }
        let mut registers = Registers::new();
        registers.set(16, Some(address));
        registers.set(7, Some(0x7fff_1000));
        registers.set(6, Some(0x7fff_1010));
        let _ = symbols.unwind(&registers, &Frame { pc: address }, true);
    }
    for variable in symbols.globals(addresses[0]).into_iter().take(50) {
        let _ = symbols.locate(&variable, &Frame { pc: addresses[0] });
        walk(symbols, variable.type_ref);
    }
    for name in
        ["main", "square", "geometry::hidden", "total", "hidden_count", "int", "point", "geometry::Square"]
    {
        let _ = symbols.functions_named(&FunctionPattern::Exact(name.to_owned()), 20);
        let _ = symbols.find_global(name, addresses[0]).map(|found| walk(symbols, found.type_ref));
        let _ = symbols.named(name).map(|found| walk(symbols, found));
    }
    let regex = regex_lite::Regex::new("s.*a").expect("a pattern");
    let _ = symbols.functions_named(&FunctionPattern::Regex(regex), 20);
    let _ = symbols.complete_function("sq", 20);
    let _ = symbols.source_files("calls", 20);
    let _ = symbols.find_source("shapes.cpp");
    for line in [1, 10, 40] {
        let _ = symbols.addresses_of_line("calls.c", line);
        let _ = symbols.addresses_of_line("shapes.cpp", line);
    }
}

fn walk(symbols: &Symbols, first: TypeRef) {
    let (mut seen, mut next) = (HashSet::new(), vec![first]);
    while let Some(type_ref) = next.pop().filter(|_| seen.len() < 60) {
        let Some(of) = symbols.get(type_ref).filter(|_| seen.insert(type_ref)) else { continue };
        match &of.kind {
            TypeKind::Pointer { target, .. } | TypeKind::Alias { target, .. } => next.extend(target),
            TypeKind::Struct(of) => {
                next.extend(of.members.iter().map(|member| member.type_ref));
                next.extend(of.bases.iter().map(|base| base.type_ref));
            }
            TypeKind::Array { element, .. } => next.push(*element),
            TypeKind::Function { parameters, .. } => next.extend(parameters),
            _ => {}
        }
    }
}

/// A copy with some bytes of one section changed, and sometimes without its end.
fn damage(bytes: &[u8], sections: &[(usize, usize)], dice: &mut Dice) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    let (start, size) = sections[dice.roll(sections.len())];
    for _ in 0..=dice.roll(12) {
        let at = (start + dice.roll(size)).min(damaged.len() - 1);
        damaged[at] = match dice.roll(4) {
            0 => 0xff,
            1 => 0,
            2 => damaged[at] ^ (1 << dice.roll(8)),
            _ => dice.roll(256) as u8,
        };
    }
    if dice.roll(20) == 0 {
        damaged.truncate(dice.roll(bytes.len()));
    }
    damaged
}

fn survives(fixture: &Fixture, rounds: usize, seed: u64) {
    let built = fixture.build();
    let bytes = fs::read(&built.path).expect("the fixture can be read");
    let text = section(&built.path, ".text");
    let addresses: Vec<u64> = text.clone().step_by((text.end - text.start) as usize / 4 + 1).collect();
    let sections = interesting_sections(&built.path);
    let mut dice = Dice(seed);
    for round in 0..rounds {
        let damaged = damage(&bytes, &sections, &mut dice);
        let started = Instant::now();
        let mut symbols = Symbols::new();
        if symbols.add_image("damaged", damaged, 0, 0..u64::MAX).is_ok() {
            ask_everything(&symbols, &addresses);
        }
        assert!(started.elapsed() < Duration::from_secs(10), "round {round} of seed {seed} takes too long");
    }
}

#[test]
fn damaged_c_programs_are_answered_about() {
    survives(&Fixture::c("calls"), 1500, 0x1234_5678_9abc_def1);
    survives(&Fixture::c("calls").flags(["-O2", "-gdwarf-4"]), 1500, 0xfeed_1234_5678_9abd);
}

#[test]
fn damaged_cpp_programs_are_answered_about() {
    survives(&Fixture::cpp("shapes").flags(["-O2", "-fdebug-types-section"]), 200, 0x0bad_cafe_1357_9bd1);
    survives(
        &Fixture::cpp("shapes").flags(["-gdwarf-4", "-fdebug-types-section"]),
        200,
        0x0bad_cafe_1357_9bd3,
    );
}

#[test]
fn damaged_compressed_sections_are_answered_about() {
    survives(&Fixture::c("calls").flags(["-gz"]), 400, 0x7777_1234_5678_9abd);
}

#[test]
fn damaged_split_files_and_packages_are_answered_about() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, split) = crate::separate::split_program(folder.path());
    let text = section(&program, ".text");
    let addresses: Vec<u64> = text.clone().step_by((text.end - text.start) as usize / 4 + 1).collect();
    let package = folder.path().join("shapes.dwp");
    let packed = Command::new("dwp").arg(&split).arg("-o").arg(&package).status();
    assert!(packed.is_ok_and(|status| status.success()), "dwp is installed");
    for file in [split, package] {
        let bytes = fs::read(&file).expect("the file can be read");
        let sections = interesting_sections(&file);
        let mut dice = Dice(0x5555_1234_9876_abcd);
        for _ in 0..200 {
            fs::write(&file, damage(&bytes, &sections, &mut dice)).expect("the file can be written");
            let mut symbols = Symbols::new();
            symbols.add(&program, 0, 0..u64::MAX).expect("a program");
            ask_everything(&symbols, &addresses);
        }
        // What is split is looked for before packages.
        fs::remove_file(&file).expect("the file can be removed");
    }
}

/// What the fuzzer asks; it compiles here too, and what it begins with is understood.
#[path = "../../../../fuzz/fuzz_targets/questions.rs"]
mod questions;

#[test]
fn what_the_fuzzer_begins_with_is_answered_about_whole_and_damaged() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/make.sh");
    let made = Command::new("bash").arg(make).arg(folder.path()).output().expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let mut seeds: Vec<_> = fs::read_dir(folder.path()).expect("a folder").flatten().collect();
    seeds.sort_by_key(fs::DirEntry::file_name);
    for seed in seeds.iter().map(fs::DirEntry::path) {
        let bytes = fs::read(&seed).expect("the seed can be read");
        let mut symbols = Symbols::new();
        symbols.add_image("seed", bytes.clone(), 0, 0..u64::MAX).expect("the seed is understood");
        let told = !["stripped", "rust-", "split"].iter().any(|kind| seed.to_string_lossy().contains(kind));
        assert_eq!(symbols.find_global("total", 0).is_some(), told, "{}", seed.display());
        questions::ask_everything(&bytes);
        let sections = interesting_sections(&seed);
        let mut dice = Dice(0x1357_9bdf_0246_8ace);
        for round in 0..20 {
            let damaged = damage(&bytes, &sections, &mut dice);
            let started = Instant::now();
            questions::ask_everything(&damaged);
            let name = seed.display();
            assert!(started.elapsed() < Duration::from_secs(10), "round {round} of {name} takes too long");
        }
    }
    assert!(seeds.len() > 20, "only {} seeds", seeds.len());
}

#[test]
fn files_that_are_something_else_are_refused() {
    let mut symbols = Symbols::new();
    for bytes in [Vec::new(), b"#!/bin/sh\n".to_vec(), b"\x7fELF".to_vec(), vec![0; 4096]] {
        let error = symbols.add_image("other", bytes, 0, 0..1).expect_err("not a program");
        assert!(error.to_string().contains("is not an ELF file"), "{error}");
    }
    let error = symbols.add(Path::new("/no/such/file"), 0, 0..1).expect_err("no file");
    assert!(error.to_string().starts_with("cannot read `/no/such/file`"), "{error}");
    assert!(symbols.add(Path::new("/dev/zero"), 0, 0..1).is_err());
}
