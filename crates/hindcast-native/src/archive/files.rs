//! The files that a program had mapped. Programs and libraries stay where they are and must not have changed: symbols come
//! from there as well. All others are taken along.

use std::{
    ffi::CString,
    fs::{self, File},
    io::{self, Write as _},
    os::{
        fd::AsRawFd as _,
        unix::fs::{FileExt, MetadataExt},
    },
    path::Path,
    rc::Rc,
};

use sha2::{Digest, Sha256};

use super::{
    ArchiveError, Part,
    stream::{Sink, Source},
};
use crate::{
    record::{Event, MappedFile, Recorder, Replay},
    replay::Label,
    sys::{self, Mapping, Tid},
};

/// A larger one is not taken along.
const LARGEST: u64 = 64 << 20;
const MOST: u64 = 100_000;
const LONGEST_PATH: u64 = 64 << 10;
const PIECE: usize = 256 << 10;

/// Kinds of files in a recording.
const STAYS: u64 = 0;
const TAKEN_ALONG: u64 = 1;

/// The files of a recording that is written.
pub(super) struct FileList(Vec<Known>);

struct Known {
    path: String,
    inode: u64,
    file: Rc<MappedFile>,
}

impl FileList {
    pub(super) fn gather(recorder: &Recorder, part: &Part, chosen: &[Label]) -> io::Result<Self> {
        let mut list = Self(Vec::new());
        let (start, end) = part.events(recorder);
        for (_, event) in recorder.log.range(start, end) {
            if let Event::Call(call) = &*event
                && let Replay::Map(Some(file)) = &call.replay
            {
                list.add(file)?;
            }
        }
        for anchor in chosen.iter().filter_map(|label| recorder.timeline.get(label)) {
            let process = anchor.frozen.tid();
            for mapping in sys::mappings(process)? {
                list.add_mapped(&mapping);
            }
            list.add(&Rc::new(MappedFile::new(File::open(format!("/proc/{}/exe", process.0))?)?))?;
        }
        Ok(list)
    }

    fn add(&mut self, file: &Rc<MappedFile>) -> io::Result<()> {
        let (inode, path) = (file.inode(), file.path()?);
        if file.is_changed() {
            return Err(io::Error::other(format!("`{path}` has changed since the program mapped it")));
        }
        if !self.0.iter().any(|known| known.inode == inode && known.path == path) {
            self.0.push(Known { path, inode, file: file.clone() });
        }
        Ok(())
    }

    fn add_mapped(&mut self, mapping: &Mapping) {
        if mapping.inode == 0 || !mapping.name.starts_with('/') || self.of_mapping(mapping).is_some() {
            return;
        }
        // One that is there no more, or is another by now, is only in the memory of the process.
        let is_same = |data: &fs::Metadata| data.is_file() && data.ino() == mapping.inode;
        if fs::metadata(&mapping.name).is_ok_and(|data| is_same(&data))
            && let Ok(file) = File::open(&mapping.name).and_then(MappedFile::new)
        {
            self.0.push(Known { path: mapping.name.clone(), inode: mapping.inode, file: Rc::new(file) });
        }
    }

    pub(super) fn of_mapping(&self, mapping: &Mapping) -> Option<usize> {
        let is_it = |known: &Known| known.inode == mapping.inode && known.path == mapping.name;
        (mapping.inode != 0).then(|| self.0.iter().position(is_it)).flatten()
    }

    pub(super) fn of_file(&self, file: &MappedFile) -> Option<usize> {
        let (inode, path) = (file.inode(), file.path().ok()?);
        self.0.iter().position(|known| known.inode == inode && known.path == path)
    }

    /// The program of a process.
    pub(super) fn of_program(&self, process: Tid) -> Option<usize> {
        let program = File::open(format!("/proc/{}/exe", process.0)).and_then(MappedFile::new);
        self.of_file(&program.ok()?)
    }

    pub(super) fn file(&self, index: usize) -> &File {
        self.0[index].file.file()
    }

    pub(super) fn write(&self, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        sink.number(self.0.len() as u64)?;
        for known in &self.0 {
            known.write(sink)?;
        }
        Ok(())
    }
}

impl Known {
    fn write(&self, sink: &mut Sink<'_, '_>) -> io::Result<()> {
        let file = self.file.file();
        let size = file.metadata()?.len();
        let is_there = fs::metadata(&self.path).is_ok_and(|data| data.ino() == self.inode);
        let mut magic = [0; 4];
        let is_program = file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF";
        sink.block(self.path.as_bytes())?;
        if size > LARGEST || is_there && is_program {
            sink.numbers(&[STAYS, size])?;
            return sink.put(&sum(file)?);
        }
        sink.numbers(&[TAKEN_ALONG, size])?;
        let mut done = 0;
        while done < size {
            let mut piece = vec![0; PIECE.min((size - done) as usize)];
            // What was cut off meanwhile is zeroes.
            let _ = file.read_at(&mut piece, done)?;
            sink.put(&piece)?;
            done += piece.len() as u64;
        }
        Ok(())
    }
}

fn sum(file: &File) -> io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    let (mut piece, mut at) = (vec![0; PIECE], 0);
    loop {
        match file.read_at(&mut piece, at)? {
            0 => return Ok(hash.finalize().into()),
            count => {
                hash.update(&piece[..count]);
                at += count as u64;
            }
        }
    }
}

/// The files of a recording that was opened.
pub(super) struct Files(Vec<Stored>);

struct Stored {
    path: String,
    file: Rc<MappedFile>,
    is_taken_along: bool,
}

impl Files {
    pub(super) fn read(source: &mut Source) -> Result<Self, ArchiveError> {
        let count = source.count(MOST)?;
        let mut files = Vec::new();
        for _ in 0..count {
            let path = source.text(LONGEST_PATH)?;
            files.push(match source.number()? {
                STAYS => {
                    let size = source.number()?;
                    let mut expected = [0; 32];
                    source.take(&mut expected)?;
                    let file = MappedFile::new(unchanged(&path, size, &expected)?)?;
                    Stored { file: Rc::new(file), path, is_taken_along: false }
                }
                TAKEN_ALONG => {
                    let file = MappedFile::new(unpacked(&path, source)?)?;
                    Stored { file: Rc::new(file), path, is_taken_along: true }
                }
                _ => return Err(ArchiveError::Malformed("there is an unknown kind of file in it")),
            });
        }
        Ok(Self(files))
    }

    pub(super) fn get(&self, index: u64) -> Result<&Rc<MappedFile>, ArchiveError> {
        Ok(&self.stored(index)?.file)
    }

    fn stored(&self, index: u64) -> Result<&Stored, ArchiveError> {
        let stored = usize::try_from(index).ok().and_then(|index| self.0.get(index));
        stored.ok_or(ArchiveError::Malformed("it names a file that is not in it"))
    }

    /// Where a program can be started from.
    pub(super) fn program(&self, index: u64) -> Result<CString, ArchiveError> {
        let stored = self.stored(index)?;
        let path = match stored.is_taken_along {
            true => format!("/proc/{}/fd/{}", std::process::id(), stored.file.file().as_raw_fd()),
            false => stored.path.clone(),
        };
        CString::new(path).map_err(|_| ArchiveError::Malformed("a path has a zero in it"))
    }
}

/// A file that stayed where it was, if it is as it was.
fn unchanged(path: &str, size: u64, expected: &[u8; 32]) -> Result<File, ArchiveError> {
    let other = |change: String| ArchiveError::OtherFile { path: path.to_owned(), change };
    let data = fs::metadata(path).map_err(|error| other(format!("it cannot be found ({error})")))?;
    // Not a pipe, whose opening would not end.
    if !Path::new(path).is_absolute() || !data.is_file() {
        return Err(other("it is no file".into()));
    }
    if data.len() != size {
        return Err(other(format!("it has {} bytes, and had {size}", data.len())));
    }
    let file = File::open(path).map_err(|error| other(format!("it cannot be opened ({error})")))?;
    if sum(&file)? != *expected {
        return Err(other("its content is another".into()));
    }
    Ok(file)
}

/// A file that was taken along.
fn unpacked(path: &str, source: &mut Source) -> Result<File, ArchiveError> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let name: String = name.chars().filter(|letter| *letter != '\0').take(100).collect();
    let name = CString::new(name).unwrap_or_default();
    let flags = nix::sys::memfd::MFdFlags::MFD_CLOEXEC;
    let memory = nix::sys::memfd::memfd_create(name.as_c_str(), flags).map_err(io::Error::from)?;
    let mut file = File::from(memory);
    let mut left = source.count(LARGEST)?;
    let mut piece = vec![0; PIECE];
    while left > 0 {
        let now = PIECE.min(left as usize);
        source.take(&mut piece[..now])?;
        file.write_all(&piece[..now])?;
        left -= now as u64;
    }
    Ok(file)
}
