//! Assemblies that were built again while their program runs: the file is another one by then, and only the program's memory still
//! has what it runs.

use std::{
    fs::File,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    time::{Duration, SystemTime},
};

use crate::{cor::start_time, files::LARGEST_READ};

/// How exactly the system tells when a process began.
const EXACTLY: Duration = Duration::from_secs(2);

/// What a process has mapped of a file of this name, where that is another file by now. Empty where it cannot be read.
pub(crate) fn mapped_before(path: &Path, process: u32) -> Option<Vec<u8>> {
    // Mostly the file is much older than the process, and nobody needs to look further.
    let now = std::fs::metadata(path).ok();
    if now.as_ref().is_some_and(|file| is_older(file, process)) {
        return None;
    }
    let maps = std::fs::read(format!("/proc/{process}/maps")).ok()?;
    let maps = String::from_utf8_lossy(&maps);
    let mut pieces: Vec<_> = maps.lines().filter_map(|line| Piece::of(line, path)).collect();
    // Loaded more than once, from different builds: which of them is meant is not known.
    if pieces.windows(2).any(|pair| pair[0].inode != pair[1].inode) {
        return Some(Vec::new());
    }
    let is_same =
        |piece: &Piece| !piece.is_deleted && now.as_ref().is_some_and(|file| file.ino() == piece.inode);
    if pieces.is_empty() || pieces.iter().any(is_same) {
        return None;
    }
    // What is private may have been changed, so what is shared counts.
    pieces.sort_by_key(|piece| piece.is_shared);
    Some(read(&pieces, process).unwrap_or_default())
}

/// Whether a file has been there for longer than a process.
fn is_older(file: &std::fs::Metadata, process: u32) -> bool {
    let Some(begun) = begun(process) else { return false };
    let changed =
        Duration::new(file.ctime().try_into().unwrap_or(0), file.ctime_nsec().try_into().unwrap_or(0));
    SystemTime::UNIX_EPOCH + changed + EXACTLY < begun
}

/// When a process began.
fn begun(process: u32) -> Option<SystemTime> {
    let ticks = start_time(process).ok()?;
    let second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??.try_into().ok()?;
    let up = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME).ok()?;
    let age = Duration::from(up)
        .checked_sub(Duration::from_millis(ticks * 1000 / std::cmp::max::<u64>(second, 1)))?;
    SystemTime::now().checked_sub(age)
}

/// A part of a file that is mapped.
#[derive(Debug, PartialEq, Eq)]
struct Piece {
    start: u64,
    end: u64,
    /// In the file.
    offset: u64,
    inode: u64,
    is_deleted: bool,
    /// Whether what is written there goes to the file.
    is_shared: bool,
}

impl Piece {
    /// Of a line of the system's list, if it is about this file.
    fn of(line: &str, path: &Path) -> Option<Self> {
        let (numbers, name) = line.split_at(line.find('/')?);
        let (name, is_deleted) = match name.strip_suffix(" (deleted)") {
            Some(name) if Path::new(name) == path => (name, true),
            _ => (name, false),
        };
        if Path::new(name) != path {
            return None;
        }
        let mut words = numbers.split_ascii_whitespace();
        let (start, end) = words.next()?.split_once('-')?;
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        let is_shared = words.next()?.ends_with('s');
        let offset = hexadecimal(words.next()?)?;
        Some(Self { start, end, offset, inode: words.nth(1)?.parse().ok()?, is_deleted, is_shared })
    }
}

/// Puts the file together again.
fn read(pieces: &[Piece], process: u32) -> Option<Vec<u8>> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let end = |piece: &Piece| piece.offset.saturating_add(piece.end - piece.start);
    let length = pieces.iter().map(end).max().filter(|&length| length <= LARGEST_READ)?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    for piece in pieces {
        let part = &mut bytes[piece.offset as usize..end(piece) as usize];
        // Behind the end of a file nothing can be read.
        let mut at = 0;
        while let Ok(count @ 1..) = memory.read_at(&mut part[at..], piece.start + at as u64) {
            at += count;
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_is_found_in_the_systems_list() {
        let path = Path::new("/app/My App.dll");
        let piece = |line: &str| Piece::of(line, path);
        let line = "7fea5ad34000-7fea5ad3a000 r--s 00001000 fe:00 5423905                    /app/My App.dll";
        let found = Piece {
            start: 0x7fea_5ad3_4000,
            end: 0x7fea_5ad3_a000,
            offset: 0x1000,
            inode: 5_423_905,
            is_deleted: false,
            is_shared: true,
        };
        assert_eq!(piece(line).as_ref(), Some(&found));
        assert_eq!(piece(&format!("{line} (deleted)")), Some(Piece { is_deleted: true, ..found }));
        assert_eq!(piece(&format!("{line}.bak")), None);
        assert_eq!(piece("7fea5ad34000-7fea5ad3a000 rw-p 00000000 00:00 0 "), None);
        assert_eq!(piece(""), None);
    }

    #[test]
    fn a_process_begins_before_now_and_after_old_files() {
        let us = std::process::id();
        let age = SystemTime::now().duration_since(begun(us).unwrap()).unwrap();
        assert!(age < Duration::from_secs(3600), "{age:?}");
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_older(&std::fs::metadata(folder.path()).unwrap(), us));
        assert!(is_older(&std::fs::metadata("/bin/sh").unwrap(), us));
        assert_eq!(mapped_before(&folder.path().join("none"), us), None);
    }

    #[test]
    fn what_was_mapped_before_a_file_was_replaced_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.dll"), folder.path().join("b.dll"));
        let old = vec![7; 5000];
        std::fs::write(&path, &old).unwrap();
        let mapped = hindcast_mapping::MappedFile::new(&File::open(&path).unwrap()).unwrap();
        let us = std::process::id();
        assert_eq!(mapped_before(&path, us), None);
        std::fs::write(&other, "new").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let read = mapped_before(&path, us).unwrap();
        assert_eq!(read[..5000], old);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(mapped_before(&path, us).unwrap()[..5000], old);
        drop(mapped);
    }
}
