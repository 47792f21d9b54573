//! Who a file says it is.

use hindcast_dotnet::image::{
    Assembly, ImageError, MAXIMAL_EMBEDDED_PDB, Machine, Pdb, Version, pdb::Language,
};

use super::{EMBEDDED, SAMPLE, SAMPLE_PDB, Sample};

#[test]
fn an_assembly_tells_its_name_version_framework_and_entry_point() {
    let Sample { assembly, .. } = Sample::open();
    assert_eq!(assembly.name(), Some("sample"));
    assert_eq!(assembly.version(), Some(Version([1, 2, 3, 4])));
    assert_eq!(assembly.module_name(), Some("sample.dll"));
    assert!(assembly.mvid().is_some_and(|mvid| mvid.0 != [0; 16]));
    assert_eq!(assembly.target_framework().as_deref(), Some(".NETCoreApp,Version=v3.1"));
    assert_eq!(assembly.metadata_version(), "v4.0.30319");
    assert!(assembly.references().any(|reference| reference.name == "System.Runtime"));
    let main = assembly.method(assembly.entry_point().unwrap()).unwrap();
    assert_eq!(main.full_name().as_deref(), Some("Sample.Program.Main"));
    assert_eq!(assembly.check_64_bit(), Ok(()));
    assert!(!assembly.is_precompiled());
}

#[test]
fn an_assembly_tells_whether_it_is_a_debug_build() {
    assert!(Sample::open().assembly.disables_optimizations());
    assert!(!Assembly::parse(EMBEDDED).unwrap().disables_optimizations());
}

#[test]
fn an_assembly_names_the_pdb_that_belongs_to_it() {
    let Sample { assembly, pdb } = Sample::open();
    let code_view = assembly.code_view().unwrap();
    assert_eq!(code_view.pdb_id(), pdb.id());
    assert_eq!((code_view.path.as_str(), code_view.age), ("/sample/sample.pdb", 1));
    assert!(code_view.is_portable && assembly.is_reproducible());
    assert_eq!(pdb.entry_point(), assembly.entry_point());
    assert_eq!(assembly.pdb_checksums()[0].algorithm, "SHA256");
    assert_eq!(assembly.embedded_pdb(MAXIMAL_EMBEDDED_PDB), Ok(None));
}

#[test]
fn an_embedded_pdb_and_an_embedded_source_are_inflated() {
    let assembly = Assembly::parse(EMBEDDED).unwrap();
    let bytes = assembly.embedded_pdb(MAXIMAL_EMBEDDED_PDB).unwrap().unwrap();
    let pdb = Pdb::parse(bytes).unwrap();
    assert_eq!(assembly.code_view().unwrap().pdb_id(), pdb.id());
    let document = pdb.documents().next().unwrap();
    assert_eq!(document.path().as_deref(), Some("C:\\sample\\embedded.cs"));
    assert_eq!(document.language(), Some(Language::CSharp));
    let source = include_bytes!("../../data/embedded.cs");
    assert_eq!(document.embedded_source().unwrap().as_deref(), Some(&source[..]));
    assert_eq!(document.matches(source), Some(true));
}

#[test]
fn an_embedded_pdb_above_the_limit_is_refused() {
    let assembly = Assembly::parse(EMBEDDED).unwrap();
    let size = assembly.embedded_pdb(MAXIMAL_EMBEDDED_PDB).unwrap().unwrap().len();
    assert!(assembly.embedded_pdb(size).is_ok());
    let refused = assembly.embedded_pdb(size - 1);
    assert_eq!(refused, Err(ImageError::TooLarge { what: "the embedded PDB", limit: size - 1 }));
}

#[test]
fn a_source_that_was_changed_does_not_match() {
    let Sample { pdb, .. } = Sample::open();
    let source = include_bytes!("../../data/sample.cs");
    let document = pdb.documents_matching("sample.cs")[0];
    assert_eq!(document.matches(source), Some(true));
    assert_eq!(document.matches(&source[1..]), Some(false));
    // A document that the compiler has never read has no hash.
    assert_eq!(pdb.documents_matching("other.txt")[0].matches(source), None);
}

#[test]
fn files_that_are_no_assemblies_are_told_apart() {
    let check = |bytes: &[u8], expected: ImageError| assert_eq!(Assembly::parse(bytes).err(), Some(expected));
    check(b"", ImageError::Empty);
    check(b"\x7fELF\x02\x01\x01", ImageError::Elf);
    check(&[0xcf, 0xfa, 0xed, 0xfe], ImageError::MachO);
    check(SAMPLE_PDB, ImageError::PortablePdb);
    check(b"Microsoft C/C++ MSF 7.00\r\n\x1aDS", ImageError::WindowsPdb);
    check(b"#!/bin/sh\n", ImageError::Unknown);
    check(&SAMPLE[..200], ImageError::Truncated { what: "the PE header" });
    check(&SAMPLE[..1024], ImageError::Truncated { what: "the metadata" });
    assert_eq!(Pdb::parse(SAMPLE).err(), Some(ImageError::Pe));
    assert_eq!(Pdb::parse(&b"BSJB"[..]).err(), Some(ImageError::Truncated { what: "the metadata" }));
}

/// Where the PE header of the sample lies.
fn header() -> usize {
    usize::from(SAMPLE[0x3c])
}

#[test]
fn a_program_without_a_cli_header_is_native() {
    let mut native = SAMPLE.to_vec();
    // The fifteenth directory of a 32-bit optional header, which the compiler writes for any machine.
    let directory = header() + 24 + 96 + 14 * 8;
    native[directory..directory + 8].fill(0);
    assert_eq!(Assembly::parse(native).err(), Some(ImageError::Native { machine: Machine::X86 }));
}

#[test]
fn an_assembly_that_requires_32_bits_says_so() {
    let mut assembly = SAMPLE.to_vec();
    // The flags of the CLI header, which stands at the beginning of the first section, eight bytes in.
    let flags = assembly.windows(8).position(|bytes| bytes == [0x48, 0, 0, 0, 2, 0, 5, 0]).unwrap() + 16;
    assembly[flags] |= 0x2;
    let required = Assembly::parse(assembly.clone()).unwrap().check_64_bit();
    assert_eq!(required, Err(ImageError::Requires32Bit { machine: Machine::X86 }));
    // Preferring is not requiring.
    assembly[flags + 2] |= 0x2;
    assert_eq!(Assembly::parse(assembly).unwrap().check_64_bit(), Ok(()));
}
