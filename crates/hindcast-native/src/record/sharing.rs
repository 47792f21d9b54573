//! Memory that others could change. A replica gets a copy of it, which is right as long as nobody but the program itself
//! writes there. Where that is not certain, the recording ends.

use std::{
    collections::{HashMap, HashSet},
    fs,
    os::unix::fs::{FileTypeExt as _, MetadataExt as _},
};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, InotifyEvent, WatchDescriptor};

use super::is_scratch;
use crate::{
    replay::CopiedArea,
    sys::{self, Mapping, Tid, Users},
};

/// What a process shares, and with whom.
pub(super) struct Sharing {
    process: Tid,
    /// Files in memory that the program made and nobody else can have, by inode.
    own: HashSet<u64>,
    /// Files that the program can write to and has mapped, by inode. Whoever opens one is noticed, if it can be opened.
    written: HashMap<u64, Option<WatchDescriptor>>,
    openings: Option<Inotify>,
    /// Whether another process may have what the program opened: a child has all descriptors, and some are sent around. Such
    /// files are shared even where nobody else opened them.
    shares_descriptors: bool,
    /// Files that the program had open from the start, by inode: whoever started it has them as well.
    inherited: HashSet<u64>,
    /// Whether some files may be read around the page cache.
    reads_directly: bool,
    /// Segments of System V that are mapped, as of the last look.
    segments: Vec<u64>,
    /// Who used each of them last, as of the last copy.
    last_users: HashMap<u64, Tid>,
    /// Whether some memory is not in copies that are made by `fork`.
    keeps_from_forks: bool,
    /// Whether the program opened the memory of a process as a file.
    opens_memory: bool,
    /// What has to be copied, as of the last look.
    areas: Vec<CopiedArea>,
}

/// How a mapped file is mapped again in a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// From the file, which does not change.
    FromFile,
    /// Not at all: a checkpoint right behind the call has a copy.
    Copied,
}

/// Why a recording cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unrepeatable {
    pub(super) reason: String,
    /// Whether that has been so for an unknown time, at most since the last look.
    pub(super) since_last_look: bool,
}

/// More memory than this is not copied at each checkpoint.
const LARGEST: u64 = 256 << 20;
/// What the system calls shared memory that is no file.
const ANONYMOUS: &str = "/dev/zero";
const IN_MEMORY: &str = "/memfd:";
const SYSTEM_V: &str = "/SYSV";
const SECRET: &str = "/secretmem";

impl Sharing {
    pub(super) fn new(process: Tid) -> Self {
        Self {
            process,
            own: HashSet::new(),
            written: HashMap::new(),
            openings: None,
            shares_descriptors: false,
            inherited: HashSet::new(),
            reads_directly: false,
            segments: Vec::new(),
            last_users: HashMap::new(),
            keeps_from_forks: false,
            opens_memory: false,
            areas: Vec::new(),
        }
    }

    /// The process has become another program: none of its memory is left, but all descriptors may be.
    pub(super) fn on_exec(&mut self) {
        let before = std::mem::replace(self, Self::new(self.process));
        self.own = before.own;
        self.shares_descriptors = before.shares_descriptors;
        self.inherited = before.inherited;
        self.reads_directly = before.reads_directly;
        self.opens_memory = before.opens_memory;
    }

    /// Whether nothing that the program opens, writes or maps has to be looked at.
    pub(super) fn is_quiet(&self) -> bool {
        self.written.is_empty()
            && self.openings.is_none()
            && self.areas.is_empty()
            && !self.reads_directly
            && !self.opens_memory
    }

    /// What has to be copied at a checkpoint.
    pub(super) fn areas(&self) -> &[CopiedArea] {
        &self.areas
    }

    /// The program made a file in memory.
    pub(super) fn on_memory_file(&mut self, descriptor: i64) {
        if let Ok(data) = fs::metadata(self.descriptor(descriptor as i32)) {
            self.own.insert(data.ino());
        }
    }

    /// The program sends a message with something beside its text, which can be descriptors.
    pub(super) fn on_descriptors_sent(&mut self) -> Result<(), Unrepeatable> {
        self.own.clear();
        self.shares_descriptors = true;
        if self.written.is_empty() {
            return Ok(());
        }
        Err(now("the program gave descriptors to another process and maps a file that it can write to"))
    }

    /// The program has descriptors that others have as well.
    pub(super) fn on_descriptors_received(&mut self) {
        self.shares_descriptors = true;
        self.reads_directly = true;
    }

    /// The program has just been started.
    pub(super) fn on_start(&mut self) {
        for descriptor in sys::descriptors(self.process).unwrap_or_default() {
            if let Ok(data) = fs::metadata(self.descriptor(descriptor)) {
                self.inherited.insert(data.ino());
            }
            self.reads_directly |= self.is_direct(descriptor);
        }
    }

    /// A call may have made a descriptor, or changed what it does.
    pub(super) fn on_descriptors(&mut self, number: i64, arguments: &[u64; 6], failed: bool) {
        let direct = |flags: u64| flags & libc::O_DIRECT as u64 != 0;
        match number {
            _ if failed => {}
            libc::SYS_pidfd_getfd => self.on_descriptors_received(),
            libc::SYS_openat2 => self.reads_directly = true,
            libc::SYS_open => self.reads_directly |= direct(arguments[1]),
            libc::SYS_openat => self.reads_directly |= direct(arguments[2]),
            libc::SYS_fcntl if arguments[1] == libc::F_SETFL as u64 => {
                self.reads_directly |= direct(arguments[2]);
            }
            _ => {}
        }
    }

    /// Whether what is read from a descriptor comes around the page cache, in whole blocks.
    pub(super) fn reads_around_cache(&self, descriptor: i32) -> bool {
        self.reads_directly && self.is_direct(descriptor)
    }

    fn is_direct(&self, descriptor: i32) -> bool {
        sys::is_direct(self.process, descriptor).unwrap_or(true)
    }

    /// The program may have opened any file, and nobody knows which.
    pub(super) fn forget_who_opens(&mut self) {
        self.own.clear();
        self.opens_memory = true;
        self.on_descriptors_received();
    }

    /// The process has just been copied, which uses what it shares.
    pub(super) fn on_copied(&mut self) {
        let last_user = |number: &u64| Some((*number, sys::shared_segment(*number)?.last_user));
        self.last_users = self.segments.iter().filter_map(last_user).collect();
    }

    /// The program makes a process. One that `borrows` its memory until it becomes another program has none of it later.
    pub(super) fn on_child(&mut self, borrows: bool) -> Result<(), Unrepeatable> {
        self.shares_descriptors = true;
        self.own.clear();
        let is_shared = |area: &CopiedArea| area.is_shared;
        if !self.written.is_empty() || !borrows && self.areas.iter().any(is_shared) {
            return Err(now(
                "the program started a process that shares memory with it, and what that process writes there is not recorded",
            ));
        }
        Ok(())
    }

    /// The program opens a file: only it has done so until now.
    pub(super) fn before_opening(&mut self) -> Result<(), Unrepeatable> {
        if self.written.is_empty() { Ok(()) } else { self.look_for_openings() }
    }

    /// The program has opened a file, which was noticed as well.
    pub(super) fn after_opening(&mut self, descriptor: i32) -> Result<(), Unrepeatable> {
        self.opens_memory |= self.is_memory(descriptor);
        let data = fs::metadata(self.descriptor(descriptor));
        let opened = data.ok().and_then(|data| self.written.get(&data.ino()).copied()).flatten();
        self.look_for_openings_but(opened)
    }

    /// Whether a descriptor leads to the memory of a process, by which a program can write to its own.
    fn is_memory(&self, descriptor: i32) -> bool {
        let name = fs::read_link(self.descriptor(descriptor)).unwrap_or_default();
        name.starts_with("/proc") && name.ends_with("mem")
    }

    /// Memory is advised not to be in copies of the process, or to be empty there.
    pub(super) fn keep_from_forks(&mut self) {
        self.keeps_from_forks = true;
    }

    /// Whether a call changes a file that is mapped.
    pub(super) fn is_written_by(&self, number: i64, arguments: &[u64; 6]) -> bool {
        if self.written.is_empty() && !self.opens_memory {
            return false;
        }
        let descriptor = match number {
            libc::SYS_write
            | libc::SYS_pwrite64
            | libc::SYS_writev
            | libc::SYS_pwritev
            | libc::SYS_pwritev2
            | libc::SYS_ftruncate
            | libc::SYS_fallocate
            | libc::SYS_sendfile => arguments[0],
            libc::SYS_copy_file_range | libc::SYS_splice => arguments[2],
            libc::SYS_truncate | libc::SYS_creat => return true,
            libc::SYS_open => return arguments[1] as i32 & libc::O_TRUNC != 0,
            libc::SYS_openat => return arguments[2] as i32 & libc::O_TRUNC != 0,
            libc::SYS_openat2 => return true,
            _ => return false,
        };
        if self.opens_memory && self.is_memory(descriptor as i32) {
            return true;
        }
        let data = fs::metadata(self.descriptor(descriptor as i32));
        data.is_ok_and(|data| self.written.contains_key(&data.ino()))
    }

    /// The program maps the file behind a descriptor.
    pub(super) fn map(&mut self, descriptor: i32, shared: bool) -> Result<Way, Unrepeatable> {
        let path = self.descriptor(descriptor);
        let name = fs::read_link(&path).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let by_others = || now(&format!("the program maps `{name}`, which another process may write to"));
        let data = fs::metadata(&path).map_err(|_| by_others())?;
        if data.file_type().is_char_device() && data.rdev() == ZERO_DEVICE {
            return Ok(Way::Copied);
        }
        if !data.is_file() {
            return Err(now(&format!(
                "the program maps `{name}`, which is no file: what it reads there is not recorded"
            )));
        }
        if name.starts_with(SECRET) {
            return Err(now("the program has memory that nobody else may read, so that it cannot be copied"));
        }
        let inode = data.ino();
        let is_in_memory = name.starts_with(IN_MEMORY);
        if is_in_memory && !self.own.contains(&inode) {
            return Err(by_others());
        }
        let writable = sys::is_writable(self.process, descriptor).map_err(|_| by_others())?;
        if shared && writable {
            let process = self.process;
            let is_alone = || {
                let borrowed = sys::borrow_descriptor(process, descriptor);
                borrowed.is_ok_and(|file| sys::has_no(Users::Others, &file) == Some(true))
            };
            let known = self.written.contains_key(&inode);
            // Whoever opens it from now on is noticed; who has it open is found out after that.
            self.watch(inode, (!is_in_memory).then_some(path.as_str()))?;
            let is_passed_on = self.shares_descriptors || self.inherited.contains(&inode);
            if !is_in_memory && (is_passed_on || !known && !is_alone()) {
                return Err(by_others());
            }
            return Ok(Way::Copied);
        }
        let file = sys::borrow_descriptor(self.process, descriptor).map_err(|_| by_others())?;
        if !writable && sys::has_no(Users::Writers, &file) == Some(false) && !self.can_write(inode) {
            return Err(by_others());
        }
        let is_written = writable || self.can_write(inode);
        if is_written && !self.shares_descriptors && data.len() <= LARGEST {
            // The program itself may write to it, which is seen.
            self.watch(inode, (!is_in_memory).then_some(path.as_str()))?;
            return Ok(Way::Copied);
        }
        Ok(Way::FromFile)
    }

    /// Whether the program has a descriptor by which it can write to a file.
    fn can_write(&self, inode: u64) -> bool {
        sys::descriptors(self.process).unwrap_or_default().into_iter().any(|descriptor| {
            fs::metadata(self.descriptor(descriptor)).is_ok_and(|data| data.ino() == inode)
                && sys::is_writable(self.process, descriptor).unwrap_or(false)
        })
    }

    /// Notices from now on who opens a file.
    fn watch(&mut self, inode: u64, path: Option<&str>) -> Result<(), Unrepeatable> {
        if self.written.contains_key(&inode) {
            return Ok(());
        }
        let failed =
            |error: nix::Error| now(&format!("a file that the program maps cannot be watched: {error}"));
        let watch = match (path, &self.openings) {
            (None, _) => None,
            (Some(path), Some(openings)) => {
                Some(openings.add_watch(path, AddWatchFlags::IN_OPEN).map_err(failed)?)
            }
            (Some(path), None) => {
                let openings =
                    Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).map_err(failed)?;
                let watch = openings.add_watch(path, AddWatchFlags::IN_OPEN).map_err(failed)?;
                self.openings = Some(openings);
                Some(watch)
            }
        };
        self.written.insert(inode, watch);
        Ok(())
    }

    fn look_for_openings(&mut self) -> Result<(), Unrepeatable> {
        self.look_for_openings_but(None)
    }

    /// The same; the program itself opened one.
    fn look_for_openings_but(&mut self, own: Option<WatchDescriptor>) -> Result<(), Unrepeatable> {
        let Some(openings) = &self.openings else { return Ok(()) };
        let mut is_opened = false;
        while let Ok(events) = openings.read_events() {
            let is_by_others = |event: InotifyEvent| {
                let is_watched = self.written.values().flatten().any(|watch| *watch == event.wd);
                // Other events tell that a file is gone.
                let opened = event.mask.contains(AddWatchFlags::IN_OPEN) && Some(event.wd) != own;
                opened && is_watched || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
            };
            is_opened |= events.into_iter().any(is_by_others);
        }
        if is_opened {
            return Err(Unrepeatable {
                reason: "another process opened a file that the program maps and can write to".into(),
                since_last_look: true,
            });
        }
        Ok(())
    }

    /// Looks at what the process has mapped; afterwards [`Self::areas`] is up to date.
    pub(super) fn look(&mut self) -> Result<(), Unrepeatable> {
        self.look_for_openings()?;
        let mappings = sys::mappings(self.process)
            .map_err(|error| now(&format!("its memory cannot be listed: {error}")))?;
        let copied: Vec<_> = mappings.iter().filter(|mapping| self.is_copied(mapping)).collect();
        self.written.retain(|inode, watch| {
            let is_mapped = copied.iter().any(|mapping| mapping.inode == *inode);
            if !is_mapped && let (Some(openings), Some(watch)) = (&self.openings, watch) {
                let _ = openings.rm_watch(*watch);
            }
            is_mapped
        });
        for mapping in &copied {
            self.check_users(mapping)?;
            let is_alias = |other: &Mapping| other != *mapping && is_same_memory(mapping, other);
            // Only what is written through shared memory shows elsewhere at once.
            if mapping.permissions.ends_with('s') && mappings.iter().any(is_alias) {
                return Err(now("the program maps the same memory at two places"));
            }
        }
        let mut areas: Vec<_> = copied.iter().map(|mapping| CopiedArea::of(mapping)).collect();
        if self.keeps_from_forks {
            let kept = sys::kept_from_forks(self.process).unwrap_or_default();
            areas.extend(kept.iter().filter(|kept| !is_scratch(kept.start)).map(CopiedArea::of));
        }
        let total: u64 = areas.iter().map(|area| area.end - area.start).sum();
        if total > LARGEST {
            return Err(now(&format!(
                "the program shares {} MB of memory, and no more than {} MB are copied",
                total >> 20,
                LARGEST >> 20
            )));
        }
        self.areas = areas;
        let segments = copied.iter().filter(|mapping| mapping.name.starts_with(SYSTEM_V));
        self.segments = segments.map(|mapping| mapping.inode).collect();
        Ok(())
    }

    /// The process was running before it was recorded: nobody knows who else has its descriptors, and which memory it keeps
    /// from copies.
    pub(super) fn on_join(&mut self) {
        self.shares_descriptors = true;
        self.reads_directly = true;
        self.keeps_from_forks = true;
    }

    fn is_copied(&self, mapping: &Mapping) -> bool {
        let is_shared = mapping.permissions.ends_with('s');
        self.written.contains_key(&mapping.inode)
            || is_shared && (mapping.permissions.contains('w') || !is_plain_file(mapping))
    }

    /// A segment of System V can be attached by others, whoever made it.
    fn check_users(&self, mapping: &Mapping) -> Result<(), Unrepeatable> {
        if !mapping.name.starts_with(SYSTEM_V) {
            return Ok(());
        }
        let is_alone = sys::shared_segment(mapping.inode).is_some_and(|segment| {
            let is_known = [Some(&self.process), self.last_users.get(&mapping.inode)]
                .contains(&Some(&segment.last_user));
            segment.creator == self.process && segment.attached == 1 && is_known
        });
        if is_alone {
            return Ok(());
        }
        let reason = "the program uses shared memory that another process may write to".into();
        Err(Unrepeatable { reason, since_last_look: !self.areas.is_empty() })
    }

    fn descriptor(&self, descriptor: i32) -> String {
        format!("/proc/{}/fd/{descriptor}", self.process.0)
    }
}

/// `/dev/zero`: mapped shared, it is memory of nobody's.
const ZERO_DEVICE: u64 = 1 << 8 | 5;

fn now(reason: &str) -> Unrepeatable {
    Unrepeatable { reason: reason.to_owned(), since_last_look: false }
}

fn is_plain_file(mapping: &Mapping) -> bool {
    let is_other = [ANONYMOUS, IN_MEMORY, SYSTEM_V].iter().any(|other| mapping.name.starts_with(other));
    mapping.name.starts_with('/') && !is_other
}

/// Whether two mappings show some of the same memory.
fn is_same_memory(one: &Mapping, other: &Mapping) -> bool {
    let end = |mapping: &Mapping| mapping.offset + (mapping.end - mapping.start);
    one.inode != 0
        && (one.inode, &one.name) == (other.inode, &other.name)
        && one.offset < end(other)
        && other.offset < end(one)
}
