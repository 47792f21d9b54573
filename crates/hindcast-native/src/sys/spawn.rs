//! Starting a program that we trace from its first instruction on.

use std::{
    ffi::CString,
    io::{self, PipeReader, PipeWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd},
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

use super::{
    Event, Resume, Stopped, Tid, TraceError, Tree, attach_thread, end,
    tree::{adopt_orphans, keep},
    wait_for,
};

/// All that a program is started with.
#[derive(Debug)]
pub(crate) struct SpawnPlan {
    /// An absolute path.
    pub(crate) program: CString,
    /// Beginning with its own name.
    pub(crate) arguments: Vec<CString>,
    /// `NAME=VALUE`, all of them.
    pub(crate) environment: Vec<CString>,
    pub(crate) folder: Option<CString>,
    pub(crate) streams: SpawnStreams,
}

/// What the program reads from and writes to.
#[derive(Debug)]
pub(crate) enum SpawnStreams {
    /// Its own. It has a session of its own, so that nothing typed at our terminal reaches it.
    Own { stdin: OwnedFd, stdout: OwnedFd, stderr: OwnedFd },
    /// Ours as we were started with them. It is in our process group, so that our terminal is its terminal.
    Inherited,
}

/// Why it did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SpawnError {
    #[error("{0}")]
    Folder(io::Error),
    #[error("{0}")]
    Program(io::Error),
    #[error("cannot start a process: {0}")]
    System(io::Error),
    #[error(transparent)]
    Trace(#[from] TraceError),
    #[error("the process ended before it became the program")]
    Died,
}

/// The most memory that programs may have, where that is less than ours; 0 where it is not.
static MOST_MEMORY: AtomicU64 = AtomicU64::new(0);

/// Has all programs that are started from now on keep to this many bytes.
pub(crate) fn limit_programs(bytes: u64) {
    MOST_MEMORY.store(bytes, Ordering::Relaxed);
}

/// Steps of the child that can fail, as they are told to us.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Step {
    Setup,
    Folder,
    Program,
}

/// Starts the program and returns it standing at its first instruction. It dies when we do.
pub(crate) fn spawn(plan: &SpawnPlan) -> Result<Stopped, SpawnError> {
    begin(plan, |child| {
        let parent = std::process::id() as libc::pid_t;
        // SAFETY: the child only makes calls that are allowed after a fork, until it execs or exits.
        match unsafe { libc::fork() } {
            -1 => Err(SpawnError::System(io::Error::last_os_error())),
            // SAFETY: this is the child.
            0 => unsafe { child.run(parent) },
            process => Ok(Tid(process)),
        }
    })
}

/// The same of a program whose whole tree of processes dies when we do, also those that nobody traces.
pub(crate) fn spawn_tree(plan: &SpawnPlan) -> Result<(Stopped, Tree), SpawnError> {
    let (life_read, life_write) = io::pipe().map_err(SpawnError::System)?;
    let (mut number_read, number_write) = io::pipe().map_err(SpawnError::System)?;
    let mut life = Some(life_write);
    let mut tree = None;
    let leader = begin(plan, |child| {
        // SAFETY: as for `spawn`, and so does the child of the child.
        let keeper = match unsafe { libc::fork() } {
            -1 => return Err(SpawnError::System(io::Error::last_os_error())),
            0 => unsafe {
                adopt_orphans();
                let own = libc::getpid();
                let process = libc::fork();
                if process == 0 {
                    child.run(own);
                }
                let number = process.to_ne_bytes();
                libc::write(number_write.as_raw_fd(), number.as_ptr().cast(), number.len());
                keep(&life_read)
            },
            keeper => Tid(keeper),
        };
        tree = life.take().map(|life| Tree::under(keeper, life));
        drop(number_write);
        let mut number = [0; 4];
        number_read.read_exact(&mut number).map_err(SpawnError::System)?;
        match i32::from_ne_bytes(number) {
            -1 => Err(SpawnError::System(io::ErrorKind::OutOfMemory.into())),
            process => Ok(Tid(process)),
        }
    })?;
    // It is there where the child is.
    Ok((leader, tree.ok_or(SpawnError::Died)?))
}

/// The process that becomes the program. Made before the fork: a child of a threaded process must not allocate.
struct Child<'a> {
    plan: &'a SpawnPlan,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
    go: &'a PipeReader,
    failure: &'a PipeWriter,
}

impl Child<'_> {
    /// # Safety
    /// Only in a forked child, whose parent is `parent`.
    unsafe fn run(&self, parent: libc::pid_t) -> ! {
        // SAFETY: all pointers are to memory that the fork copied.
        let step = unsafe { become_program(self, parent) };
        let errno = io::Error::last_os_error().raw_os_error().unwrap_or(0);
        let mut message = [step as u8, 0, 0, 0, 0];
        message[1..].copy_from_slice(&errno.to_ne_bytes());
        // SAFETY: `message` lives for the call; _exit does not return.
        unsafe {
            libc::write(self.failure.as_raw_fd(), message.as_ptr().cast(), message.len());
            libc::_exit(127)
        }
    }
}

fn begin(
    plan: &SpawnPlan,
    fork: impl FnOnce(&Child<'_>) -> Result<Tid, SpawnError>,
) -> Result<Stopped, SpawnError> {
    let (go_read, go_write) = io::pipe().map_err(SpawnError::System)?;
    let (mut failure_read, failure_write) = io::pipe().map_err(SpawnError::System)?;
    let (arguments, environment) = (pointers(&plan.arguments), pointers(&plan.environment));
    let process = fork(&Child { plan, arguments, environment, go: &go_read, failure: &failure_write })?;
    drop((go_read, failure_write));
    let started = traced_from_the_start(process, go_write);
    if let Err(error) = &started
        && !matches!(error, SpawnError::Died)
    {
        end(process);
    }
    // Closed by the exec, or filled by a failure before it.
    let mut message = [0; 5];
    match failure_read.read_exact(&mut message) {
        Err(_) => started,
        Ok(()) => {
            let error = io::Error::from_raw_os_error(i32::from_ne_bytes([
                message[1], message[2], message[3], message[4],
            ]));
            Err(match message[0] {
                step if step == Step::Folder as u8 => SpawnError::Folder(error),
                step if step == Step::Program as u8 => SpawnError::Program(error),
                _ => SpawnError::System(error),
            })
        }
    }
}

fn traced_from_the_start(process: Tid, mut go: io::PipeWriter) -> Result<Stopped, SpawnError> {
    // It waits for the byte, so that it cannot get ahead of us.
    attach_thread(process, true)?;
    go.write_all(&[1]).map_err(SpawnError::System)?;
    loop {
        match wait_for(process)? {
            Event::Exec(stopped) => return Ok(stopped),
            Event::Exited(..) | Event::Killed(..) => return Err(SpawnError::Died),
            Event::Signal(stopped, signal) => {
                stopped.resume(Resume::Continue, signal)?;
            }
            Event::Stop(stopped, _) | Event::Call(stopped) | Event::Other(stopped) => {
                stopped.resume(Resume::Continue, 0)?;
            }
            _ => {}
        }
    }
}

fn pointers(texts: &[CString]) -> Vec<*const libc::c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Returns only when something failed, and then what.
///
/// # Safety
/// Only in a forked child. Makes only async-signal-safe calls.
unsafe fn become_program(child: &Child<'_>, parent: libc::pid_t) -> Step {
    let Child { plan, arguments, environment, go, .. } = child;
    // SAFETY: see above; all pointers end with what the calls expect.
    unsafe {
        // Until it is traced, this keeps it from outliving us.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            return Step::Setup;
        }
        // The same addresses in every run. Refused in some containers, where it then is not so.
        let personality = libc::personality(0xffff_ffff);
        if personality != -1 {
            libc::personality((personality | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
        }
        // Signals that our own threads block or ignore are not the program's business.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGIO, libc::SIG_DFL);
        if !take_streams(&plan.streams) {
            return Step::Setup;
        }
        let mut byte = 0u8;
        if libc::read(go.as_raw_fd(), (&raw mut byte).cast(), 1) != 1 {
            return Step::Setup;
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, 0);
        let most = MOST_MEMORY.load(Ordering::Relaxed);
        let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
        if most != 0 && libc::setrlimit(libc::RLIMIT_DATA, &raw const limit) == -1 {
            return Step::Setup;
        }
        if let Some(folder) = &plan.folder
            && libc::chdir(folder.as_ptr()) == -1
        {
            return Step::Folder;
        }
        libc::execve(plan.program.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    }
    Step::Program
}

/// # Safety
/// As for [`become_program`].
unsafe fn take_streams(streams: &SpawnStreams) -> bool {
    // SAFETY: see above; no pointers are passed.
    unsafe {
        match streams {
            SpawnStreams::Inherited => super::at_start::restore(),
            SpawnStreams::Own { stdin, stdout, stderr } => {
                libc::setsid();
                for (from, to) in [(stdin, 0), (stdout, 1), (stderr, 2)] {
                    // They are above 2, because our own 0 to 2 are open.
                    if libc::dup2(from.as_raw_fd(), to) == -1 {
                        return false;
                    }
                }
                // Fails where stdin is no terminal, and then there is none to control.
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
        }
    }
    true
}
