//! The program's own code, which is a mapped file too.

use std::{io, ops::Range};

/// Gives back the pages of this program's code. They are read from the file again when they are run, so only what runs
/// from now on takes memory: what a program does at its start is most of what it ever did.
pub fn give_back_code() -> io::Result<()> {
    let mappings = std::fs::read_to_string("/proc/self/smaps")?;
    for range in unchanged_code(&mappings) {
        // SAFETY: code that nobody can write to and of which no page differs from the file (a debugger's breakpoints would):
        // whoever runs it next finds the same there.
        let given = unsafe {
            libc::madvise(range.start as *mut libc::c_void, range.end - range.start, libc::MADV_DONTNEED)
        };
        if given != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Mappings of code, as the system lists them with their figures, of which every page is the file's.
fn unchanged_code(mappings: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut current = None;
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        match (words.next(), words.next()) {
            (Some(range), Some("r-xp")) if line.contains('/') => current = parse(range),
            (Some("Anonymous:"), Some("0")) => found.extend(current.take()),
            (Some(range), Some(_)) if parse(range).is_some() => current = None,
            _ => {}
        }
    }
    found
}

fn parse(range: &str) -> Option<Range<usize>> {
    let (start, end) = range.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_that_is_the_files_is_given_back() {
        let mappings = "1000-2000 r--p 00000000 08:01 7 /bin/x\nAnonymous: 0 kB\n\
                        2000-5000 r-xp 00001000 08:01 7 /bin/x\nRss: 12 kB\nAnonymous:        0 kB\n\
                        6000-7000 r-xp 00001000 08:01 7 /lib/y\nAnonymous:        4 kB\n\
                        8000-9000 r-xp 00000000 00:00 0 [vdso]\nAnonymous:        0 kB\n";
        let found: Vec<_> =
            unchanged_code(mappings).into_iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(found, [(0x2000, 0x5000)]);
    }

    #[test]
    fn the_program_goes_on_with_less_memory() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(2).unwrap().parse::<u64>().unwrap()
        };
        let before = resident();
        give_back_code().unwrap();
        assert!(resident() < before, "{} of {before} shared pages", resident());
    }
}
