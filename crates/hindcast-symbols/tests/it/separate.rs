//! Debug information that is not in the program's own file.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use hindcast_fixtures::Fixture;
use hindcast_symbols::{FunctionPattern, SymbolKind, Symbols, types::Types};

use crate::support::{BIAS, loaded};

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Copies a program and moves its debug information to a file beside it.
fn stripped(folder: &Path, debug: &str) -> PathBuf {
    let built = Fixture::c("calls").build();
    let program = folder.join("calls");
    fs::copy(&built.path, &program).expect("the program can be copied");
    let file = folder.join(debug);
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder can be made");
    run(Command::new("objcopy").arg("--only-keep-debug").arg(&program).arg(&file));
    run(Command::new("strip").arg("--strip-all").arg(&program));
    run(Command::new("objcopy").arg(format!("--add-gnu-debuglink={}", file.display())).arg(&program));
    program
}

fn kind(symbols: &Symbols) -> SymbolKind {
    symbols.modules().next().expect("a module").symbols
}

fn square(symbols: &Symbols) -> usize {
    symbols.functions_named(&FunctionPattern::Exact("square".to_owned()), 10).len()
}

#[test]
fn a_debug_link_leads_to_files_beside_the_program() {
    for place in ["calls.debug", ".debug/calls.debug"] {
        let folder = tempfile::tempdir().expect("a folder");
        let symbols = loaded(&stripped(folder.path(), place));
        assert_eq!((kind(&symbols), square(&symbols)), (SymbolKind::Dwarf, 1), "{place}");
        let module = symbols.modules().next().expect("a module");
        assert!(module.symbol_file.is_some_and(|file| file.ends_with(place)));
        let line = symbols.addresses_of_line("calls.c", 10);
        assert_eq!(symbols.variables(&symbols.frames_at(line.targets[0].address)[0]).len(), 2);
    }
}

#[test]
fn a_debug_file_of_another_build_is_not_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = stripped(folder.path(), "calls.debug");
    let file = folder.path().join("calls.debug");
    let mut bytes = fs::read(&file).expect("the debug file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&file, bytes).expect("the debug file");
    let symbols = loaded(&program);
    assert_eq!((kind(&symbols), square(&symbols)), (SymbolKind::SymtabOnly, 0));
}

#[test]
fn a_symbol_table_alone_still_names_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let built = Fixture::cpp("shapes").build();
    let program = folder.path().join("shapes");
    run(Command::new("strip").arg("--strip-debug").arg("-o").arg(&program).arg(&built.path));
    let symbols = loaded(&program);
    assert_eq!(kind(&symbols), SymbolKind::SymtabOnly);
    let found = symbols.functions_named(&FunctionPattern::Exact("Square::area".to_owned()), 10);
    assert_eq!(found.len(), 1);
    let function = symbols.function_at(found[0].address).expect("a function");
    assert!(function.from_symtab && function.name == "geometry::Square::area");
    assert_eq!(symbols.place(found[0].address).line, None);
}

/// A program compiled in a folder that its debug information does not name, and its split file.
pub(crate) fn split_program(folder: &Path) -> (PathBuf, PathBuf) {
    let source = Fixture::cpp("shapes").build().source;
    let map = format!("-fdebug-prefix-map={}=/nowhere", folder.display());
    // binutils' dwp writes packages of DWARF 4 only.
    run(Command::new("g++")
        .args(["-g", "-gsplit-dwarf", "-fdebug-types-section", "-gdwarf-4", &map, "-o", "shapes"])
        .arg(source)
        .current_dir(folder));
    let mut files =
        fs::read_dir(folder).expect("the folder can be read").filter_map(|entry| Some(entry.ok()?.path()));
    let split = files.find(|path| path.extension().is_some_and(|extension| extension == "dwo"));
    (folder.join("shapes"), split.expect("a split file"))
}

#[test]
fn split_units_are_found_in_a_package() {
    let source = Fixture::cpp("shapes").build();
    let (compiled, moved) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (made, split) = split_program(compiled.path());
    let program = moved.path().join("shapes");
    fs::rename(made, &program).expect("the program can be moved");
    let without = loaded(&program);
    let line = source.line("twice_body");
    let matches = without.addresses_of_line("shapes.cpp", line);
    assert!(!matches.targets.is_empty(), "lines are in the program itself");
    assert!(without.variables(&without.frames_at(matches.targets[0].address)[0]).is_empty());

    run(Command::new("dwp").arg(&split).arg("-o").arg(moved.path().join("shapes.dwp")));
    let symbols = loaded(&program);
    let matches = symbols.addresses_of_line("shapes.cpp", line);
    assert_eq!(matches.targets.len(), 2);
    let variables = symbols.variables(&symbols.frames_at(matches.targets[0].address)[0]);
    assert_eq!(variables.len(), 2);
    let main = symbols.addresses_of_line("shapes.cpp", source.line("main_sum")).targets[0].address;
    let variables = symbols.variables(&symbols.frames_at(main)[0]);
    let square = variables.iter().find(|variable| variable.name == "square").expect("a variable");
    let of = symbols.get(square.type_ref).expect("a type");
    assert_eq!((of.name.as_str(), of.size), ("geometry::Square", Some(64)));
}

#[test]
fn several_modules_are_told_apart_by_address() {
    let program = Fixture::c("calls").build();
    let library = Fixture::cpp("shapes").library().build();
    let mut symbols = Symbols::new();
    let first = symbols.add(&program.path, BIAS, BIAS..BIAS + 0x10000).expect("a program");
    let other = 0x7fff_f000_0000;
    let second = symbols.add(&library.path, other, other..other + 0x10_0000).expect("a library");
    let twice = symbols.functions_named(&FunctionPattern::Exact("twice".to_owned()), 10);
    assert!(
        !twice.is_empty() && twice.iter().all(|target| symbols.module_at(target.address) == Some(second))
    );
    assert_eq!(symbols.module_at(BIAS + 0x1000), Some(first));
    assert_eq!(symbols.module_at(0x10), None);
    symbols.remove(second);
    assert!(symbols.functions_named(&FunctionPattern::Exact("twice".to_owned()), 10).is_empty());
    assert_eq!(symbols.modules().count(), 1);
}

#[test]
fn the_kernels_own_library_is_read_from_memory() {
    use std::os::unix::fs::FileExt;
    let maps = fs::read_to_string("/proc/self/maps").expect("a list of mappings");
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).expect("a range");
    let range = crate::support::hexadecimal(start)..crate::support::hexadecimal(end);
    let mut bytes = vec![0; (range.end - range.start) as usize];
    let memory = fs::File::open("/proc/self/mem").expect("our own memory");
    memory.read_exact_at(&mut bytes, range.start).expect("our own memory");
    let mut symbols = Symbols::new();
    let id = symbols.add_image("[vdso]", bytes, range.start, range.clone()).expect("an image");
    let found = symbols.functions_named(&FunctionPattern::Exact("__vdso_gettimeofday".to_owned()), 10);
    assert_eq!(found.len(), 1);
    assert_eq!(symbols.module_at(found[0].address), Some(id));
    assert_eq!(symbols.modules().next().map(|module| module.name).as_deref(), Some("[vdso]"));
}

#[test]
fn symbols_can_be_asked_from_any_thread() {
    fn check<T: Send + Sync>() {}
    check::<Symbols>();
}
