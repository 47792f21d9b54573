//! Mapped files, and what others do to them.

use std::{fs::File, io::Write};

use hindcast_mapping::MappedFile;

const PAGE: usize = 4096;

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("it can be written");
    file
}

#[test]
fn a_mapping_has_what_the_file_has() {
    let bytes: Vec<u8> = (0..3 * PAGE + 17).map(|at| (at % 251) as u8).collect();
    let mapped = MappedFile::new(&file_of(&bytes)).expect("it can be mapped");
    assert_eq!(mapped.bytes(), bytes);
}

#[test]
fn what_was_given_back_is_read_again() {
    let bytes = vec![7; 64 * PAGE];
    let mapped = MappedFile::new(&file_of(&bytes)).expect("it can be mapped");
    let part = &mapped.bytes()[PAGE..2 * PAGE];
    assert_eq!(part, &bytes[PAGE..2 * PAGE]);
    mapped.give_back(0..usize::MAX);
    assert_eq!(part, &bytes[PAGE..2 * PAGE]);
}

#[test]
fn memory_that_is_given_back_is_no_longer_resident() {
    let bytes = vec![7; 4096 * PAGE];
    let mapped = MappedFile::new(&file_of(&bytes)).expect("it can be mapped");
    assert!(mapped.bytes().iter().all(|&byte| byte == 7));
    let before = resident_pages();
    mapped.give_back(0..bytes.len());
    assert!(before - resident_pages() > 3500, "{before} pages before, {} after", resident_pages());
}

#[test]
fn a_file_that_shrinks_reads_as_zeros() {
    let file = file_of(&vec![7; 4 * PAGE]);
    let mapped = MappedFile::new(&file).expect("it can be mapped");
    assert_eq!(mapped.bytes()[3 * PAGE], 7);
    file.set_len(PAGE as u64).expect("it can be cut");
    assert_eq!(mapped.bytes()[0], 7);
    assert!(mapped.bytes()[PAGE..].iter().all(|&byte| byte == 0));
}

#[test]
fn an_empty_file_cannot_be_mapped() {
    assert!(MappedFile::new(&file_of(&[])).is_err());
}

/// Of this process, backed by files or not.
fn resident_pages() -> usize {
    let sizes = std::fs::read_to_string("/proc/self/statm").expect("we are running");
    sizes.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("a number")
}
