//! Gives a program a dynamic loader and libraries of its own. patchelf, which moves parts of the program to make room, breaks
//! interpreters of Debian; here nothing moves.

use anyhow::{Context, Result, ensure};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_NULL: u64 = 0;
const DT_STRTAB: u64 = 5;
/// Unlike `DT_RUNPATH`, it also holds for what libraries need, such as modules that are loaded later.
const DT_RPATH: u64 = 15;
const PAGE: usize = 4096;

/// A program header.
struct Segment {
    /// Where the header is in the file.
    header: usize,
    kind: u32,
    offset: usize,
    address: u64,
    size: usize,
    size_in_memory: usize,
}

/// Changes a 64-bit program so that the kernel starts `loader` for it, and the loader looks for libraries in `libraries` first.
///
/// Both paths go where the last page of a segment is unused, and the entry for the second replaces one of those that linkers
/// leave free at the end of the dynamic section. Fails where there is no such room.
pub(super) fn give(program: &mut [u8], loader: &str, libraries: &str) -> Result<()> {
    ensure!(program.starts_with(b"\x7fELF\x02\x01"), "it is no 64-bit ELF file");
    let segments = segments_of(program)?;
    let find = |kind| segments.iter().find(|segment| segment.kind == kind);
    let interpreter = find(PT_INTERP).context("it has no dynamic loader")?;
    let dynamic = find(PT_DYNAMIC).context("it has no dynamic section")?;

    let (offset, address) = add_text(program, &segments, &format!("{loader}\0{libraries}\0"))?;
    let size = loader.len() as u64 + 1;
    for (field, value) in [(8, offset), (16, address), (24, address), (32, size), (40, size)] {
        put(program, interpreter.header + field, value)?;
    }
    add_library_path(program, dynamic, address + size)
}

fn segments_of(program: &[u8]) -> Result<Vec<Segment>> {
    let table = usize::try_from(get(program, 0x20)?)?;
    let count = usize::from(get(program, 0x38)? as u16);
    let segment = |index| {
        let header = table + index * 56;
        let field = |at| get(program, header + at);
        Ok(Segment {
            header,
            kind: field(0)? as u32,
            offset: usize::try_from(field(8)?)?,
            address: field(16)?,
            size: usize::try_from(field(32)?)?,
            size_in_memory: usize::try_from(field(40)?)?,
        })
    };
    (0..count).map(segment).collect()
}

/// Puts text behind a segment that does not fill its last page, and makes the segment that much longer. Returns where the text is
/// in the file and in memory.
fn add_text(program: &mut [u8], segments: &[Segment], text: &str) -> Result<(u64, u64)> {
    let loaded = || segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let has_room = |segment: &&Segment| {
        let start = segment.offset + segment.size;
        let end = start + text.len();
        let is_free = program.get(start..end).is_some_and(|bytes| bytes.iter().all(|&byte| byte == 0));
        let is_in_another = loaded().any(|other| (start..end).contains(&other.offset));
        // Where a segment is longer in memory than in the file, variables follow.
        let fits = end <= start.next_multiple_of(PAGE) && segment.size == segment.size_in_memory;
        is_free && fits && !is_in_another
    };
    let segment = loaded().find(has_room).context("no segment has room for its paths")?;
    let (start, size) = (segment.offset + segment.size, (segment.size + text.len()) as u64);
    program[start..start + text.len()].copy_from_slice(text.as_bytes());
    put(program, segment.header + 32, size)?;
    put(program, segment.header + 40, size)?;
    Ok((start as u64, segment.address + segment.size as u64))
}

/// Has the loader look for libraries in the folder whose path is at `address`.
fn add_library_path(program: &mut [u8], dynamic: &Segment, address: u64) -> Result<()> {
    let places = (dynamic.offset..dynamic.offset + dynamic.size).step_by(16);
    let entries = places.map(|place| Ok((place, get(program, place)?))).collect::<Result<Vec<_>>>()?;
    let find = |tag| entries.iter().position(|&(_, found)| found == tag);
    let strings = find(DT_STRTAB).context("it has no string table")?;
    let free = find(DT_NULL).context("its dynamic section has no end")?;
    // The entry after it becomes the end.
    ensure!(entries.get(free + 1).is_some_and(|&(_, tag)| tag == DT_NULL), "its dynamic section is full");
    let strings = get(program, entries[strings].0 + 8)?;
    let distance = address.checked_sub(strings).context("its string table is behind the paths")?;
    put(program, entries[free].0, DT_RPATH)?;
    put(program, entries[free].0 + 8, distance)
}

fn get(program: &[u8], at: usize) -> Result<u64> {
    let bytes = program.get(at..).and_then(|rest| rest.first_chunk()).context("it is cut short")?;
    Ok(u64::from_le_bytes(*bytes))
}

fn put(program: &mut [u8], at: usize, value: u64) -> Result<()> {
    let bytes = program.get_mut(at..).and_then(|rest| rest.first_chunk_mut()).context("it is cut short")?;
    *bytes = value.to_le_bytes();
    Ok(())
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_program_runs_with_the_loader_and_libraries_it_was_given() {
        let folder = std::env::temp_dir().join(format!("own-loader-{}", std::process::id()));
        let libraries = folder.join("libraries");
        fs::create_dir_all(&libraries).unwrap();
        let loader = libraries.join("loader");
        fs::copy("/lib64/ld-linux-x86-64.so.2", &loader).unwrap();
        fs::copy("/lib/x86_64-linux-gnu/libc.so.6", libraries.join("libc.so.6")).unwrap();
        let program = folder.join("cat");
        fs::copy("/bin/cat", &program).unwrap();
        let mut image = fs::read(&program).unwrap();
        give(&mut image, loader.to_str().unwrap(), "$ORIGIN/libraries").unwrap();
        fs::write(&program, image).unwrap();

        let output = Command::new(&program).arg("/proc/self/maps").current_dir("/").output();
        fs::remove_dir_all(&folder).unwrap();
        let output = output.unwrap();
        assert!(output.status.success(), "{output:?}");
        let maps = String::from_utf8(output.stdout).unwrap();
        for file in ["loader", "libc.so.6"] {
            let path = Path::new(&libraries).join(file);
            assert!(maps.contains(path.to_str().unwrap()), "no {file} in {maps}");
        }
    }

    #[test]
    fn what_is_no_program_is_refused() {
        assert!(give(&mut b"#!/bin/sh\n".to_vec(), "/loader", "/libraries").is_err());
        assert!(give(&mut b"\x7fELF\x02\x01".to_vec(), "/loader", "/libraries").is_err());
    }
}
