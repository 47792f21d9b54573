//! The memory of a real program, taken from a core file that gdb makes.

use std::{fs, path::Path, process::Command};

use hindcast_symbols::{Memory, Unreadable};
use object::{Object, ObjectSegment};

/// A program that ran up to its function `done`.
pub(crate) struct CoreImage {
    segments: Vec<(u64, Vec<u8>)>,
    /// What the program printed.
    pub(crate) printed: String,
}

impl CoreImage {
    pub(crate) fn of(program: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (core, printed) = (folder.path().join("core"), folder.path().join("printed"));
        let mut command = Command::new("gdb");
        command.args(["-batch", "-nx", "-ex", "set debuginfod enabled off", "-ex", "set confirm off"]);
        // Everything, also what could be read from the files again.
        command.args(["-ex", "set use-coredump-filter off", "-ex", "set dump-excluded-mappings on"]);
        command.args(["-ex", "break done", "-ex", &format!("run > {}", printed.display())]);
        command.args(["-ex", &format!("generate-core-file {}", core.display()), "-ex", "kill"]);
        let output = command.arg(program).output().expect("gdb runs");
        let bytes = fs::read(&core).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        let file = object::File::parse(bytes.as_slice()).expect("a core file is ELF");
        let segments = file
            .segments()
            .map(|segment| (segment.address(), segment.data().expect("a segment is in the file").to_vec()));
        let mut segments: Vec<_> = segments.filter(|(_, bytes)| !bytes.is_empty()).collect();
        // What was never written is not in the core file but in the program's.
        let bytes = fs::read(program).expect("the program can be read");
        let file = object::File::parse(bytes.as_slice()).expect("a program is ELF");
        let bias = crate::support::bias(program);
        segments.extend(
            file.segments()
                .filter_map(|segment| Some((segment.address() + bias, segment.data().ok()?.to_vec()))),
        );
        let printed = fs::read_to_string(printed).expect("the program prints");
        Self { segments, printed }
    }
}

impl Memory for CoreImage {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable> {
        let mut done = 0;
        while done < buffer.len() {
            let at = address.wrapping_add(done as u64);
            let inside = |(start, bytes): &&(u64, Vec<u8>)| at >= *start && at - start < bytes.len() as u64;
            let (start, bytes) = self.segments.iter().find(inside).ok_or(Unreadable(at))?;
            let rest = &bytes[(at - start) as usize..];
            let count = rest.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&rest[..count]);
            done += count;
        }
        Ok(())
    }
}
