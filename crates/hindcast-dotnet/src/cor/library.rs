//! The runtime's debugging library, which must be of the same build as the debuggee's runtime.

use std::{
    ffi::{CStr, CString, c_char},
    fs::File,
    io::{BufRead, BufReader},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use super::{
    callback::Events,
    com::{Com, Raw},
    error::{CorError, Hresult},
    interfaces::{CorDebug, Process},
    large_pages::large_pages,
    read_ahead::{count_messages, read_ahead},
    redirect::{Redirection, redirect},
};

/// The debuggee, attached to.
#[derive(Debug)]
pub(crate) struct Debugging {
    /// Kept as long as the process is: the runtime ends what it holds with it.
    pub(crate) debugging: Com<CorDebug>,
    pub(crate) process: Com<Process>,
}

/// Why a process cannot be debugged.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DebuggingError {
    #[error("process {pid} has not loaded a .NET runtime")]
    NoRuntime { pid: u32 },
    #[error("cannot read the memory map of process {pid}: {error}")]
    Maps { pid: u32, error: std::io::Error },
    #[error("`{}` cannot be loaded: {why}", path.display())]
    Library { path: PathBuf, why: String },
    #[error("`{}` has no `{symbol}`", path.display())]
    Symbol { path: PathBuf, symbol: &'static str },
    #[error(transparent)]
    Cor(#[from] CorError),
}

/// The runtime of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MappedRuntime {
    /// Where `libcoreclr.so` begins.
    pub(crate) base: u64,
    /// Its file.
    pub(crate) path: PathBuf,
}

impl MappedRuntime {
    /// Finds it in a process; none where it is not loaded yet.
    pub(crate) fn of(pid: u32) -> Result<Option<Self>, DebuggingError> {
        let failed = |error| DebuggingError::Maps { pid, error };
        let maps = File::open(format!("/proc/{pid}/maps")).map_err(failed)?;
        Self::in_maps(BufReader::new(maps)).map_err(failed)
    }

    /// Reads no further than to where it is: processes can have many thousand mappings.
    fn in_maps(maps: impl BufRead) -> std::io::Result<Option<Self>> {
        for line in maps.split(b'\n') {
            let line = line?;
            if line.ends_with(b"/libcoreclr.so") {
                return Ok(Self::in_line(&line));
            }
        }
        Ok(None)
    }

    fn in_line(line: &[u8]) -> Option<Self> {
        let base = std::str::from_utf8(line.split(|byte| *byte == b'-').next()?).ok()?;
        let base = u64::from_str_radix(base, 16).ok()?;
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        Some(Self { base, path: PathBuf::from(std::ffi::OsStr::from_bytes(path)) })
    }
}

/// Whether a process has loaded a .NET runtime.
///
/// # Errors
///
/// When the system does not tell what the process has mapped.
pub fn has_runtime(pid: u32) -> std::io::Result<bool> {
    match MappedRuntime::of(pid) {
        Ok(found) => Ok(found.is_some()),
        Err(DebuggingError::Maps { error, .. }) => Err(error),
        Err(error) => Err(std::io::Error::other(error)),
    }
}

/// The process that debugs this one already. The runtime does not refuse a second debugger; it lets it wait for a minute.
pub(crate) fn other_debugger(pid: u32) -> Option<u32> {
    let marker = format!("clr-debug-pipe-{pid}-");
    let processes = std::fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    // Our own pipes to a session that has ended close a little later.
    let us = std::process::id();
    numbers.filter(|other| *other != pid && *other != us).find(|other| {
        // Those of other users cannot be looked at, and cannot debug it either.
        let Ok(files) = std::fs::read_dir(format!("/proc/{other}/fd")) else { return false };
        files.filter_map(Result::ok).any(|file| {
            std::fs::read_link(file.path()).is_ok_and(|path| path.to_string_lossy().contains(&marker))
        })
    })
}

type DllMain = unsafe extern "C" fn(Raw, u32, Raw) -> i32;
type CreateCordbObject = unsafe extern "C" fn(i32, u32, u64, *mut Raw) -> i32;

/// `CorDebugVersion_4_0`.
const VERSION: i32 = 4;
const PROCESS_ATTACH: u32 = 1;

impl Debugging {
    /// Attaches to a process whose runtime is loaded; it reports to `events`.
    pub(crate) fn attach(pid: u32, runtime: &MappedRuntime, events: &Events) -> Result<Self, DebuggingError> {
        let path = runtime.path.with_file_name("libmscordbi.so");
        // The debugging library loads it, from the same folder.
        let reader = runtime.path.with_file_name("libmscordaccore.so");
        let library = open(&path)?;
        // SAFETY: the library's own functions, with the types that the runtime declares.
        let (initialize, create) = unsafe {
            let initialize: DllMain = std::mem::transmute(symbol(library, c"DllMain", &path, "DllMain")?);
            let create = "CoreCLRCreateCordbObject";
            let create: CreateCordbObject =
                std::mem::transmute(symbol(library, c"CoreCLRCreateCordbObject", &path, create)?);
            (initialize, create)
        };
        speed_up((library, &path), (open(&reader)?, &reader));
        let mut object: Raw = std::ptr::null_mut();
        // SAFETY: DllMain sets up what the library needs before anything else; loading alone does not run it.
        let code = unsafe {
            initialize(library, PROCESS_ATTACH, std::ptr::null_mut());
            create(VERSION, pid, runtime.base, &mut object)
        };
        super::com::check(code, "CoreCLRCreateCordbObject")?;
        let call = "CoreCLRCreateCordbObject";
        // SAFETY: a counted reference; it is seen as what it is only after the cast.
        let object: Com<CorDebug> =
            unsafe { Com::owned(object) }.ok_or(CorError { call, code: Hresult::COMPONENT_MISSING })?;
        let debugging: Com<CorDebug> = object.expect(call)?;
        debugging.initialize()?;
        events.listen_to(&debugging)?;
        let process = debugging.debug_active_process(pid, 0)?;
        Ok(Self { debugging, process })
    }
}

/// Makes the runtime's libraries faster, before they are used. They only take more time without that.
fn speed_up(talker: (Raw, &Path), reader: (Raw, &Path)) {
    let try_to = |(library, path): (Raw, &Path), redirections: &[Redirection]| {
        // SAFETY: open; nobody has called it yet, or its calls are redirected already. Our functions do what the system's do.
        let redirected = unsafe { redirect(library, path, redirections) };
        redirected.inspect_err(
            |error| tracing::debug!(path = %path.display(), %error, "the library is not sped up"),
        )
    };
    let _ = try_to(reader, &[large_pages()]);
    // Nothing may be kept of what was read unless it is known when the program goes on.
    if try_to(talker, &count_messages()).is_ok() {
        let _ = try_to(reader, &[read_ahead()]);
    }
}

fn open(path: &Path) -> Result<Raw, DebuggingError> {
    let failed = |why: String| DebuggingError::Library { path: path.to_owned(), why };
    if !path.exists() {
        return Err(failed("there is no such file".into()));
    }
    // Loading it runs its code as us. Whoever has the folder can put another file there.
    let folder = path.parent().unwrap_or(path);
    if ![path, folder].iter().all(|path| is_trusted(path)) {
        return Err(failed(
            "it or its folder belongs to another user, whose code would run as this one".into(),
        ));
    }
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| failed(error.to_string()))?;
    // SAFETY: loading runs the library's constructors, as the runtime itself does.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
    if !library.is_null() {
        return Ok(library);
    }
    // SAFETY: returns a text that is valid until the next call, or null.
    let why = unsafe {
        let text: *const c_char = libc::dlerror();
        if text.is_null() { String::new() } else { CStr::from_ptr(text).to_string_lossy().into_owned() }
    };
    Err(failed(why))
}

/// Whether a file, and the link that leads to it, belong to root or to us.
fn is_trusted(path: &Path) -> bool {
    let is_ours = |file: std::fs::Metadata| file.uid() == 0 || file.uid() == nix::unistd::geteuid().as_raw();
    path.metadata().is_ok_and(is_ours) && path.symlink_metadata().is_ok_and(is_ours)
}

/// # Safety
/// The library is open.
unsafe fn symbol(
    library: Raw,
    name: &CStr,
    path: &Path,
    symbol: &'static str,
) -> Result<Raw, DebuggingError> {
    // SAFETY: by contract.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() { Err(DebuggingError::Symbol { path: path.to_owned(), symbol }) } else { Ok(found) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_found_where_it_begins() {
        let maps = b"55d0-55d1 r--p 00000000 08:01 1 /usr/bin/dotnet\n\
            7f0000000000-7f0000100000 r--p 00000000 08:01 2 /opt/my dotnet/libcoreclr.so\n\
            7f0000100000-7f0000200000 r-xp 00100000 08:01 2 /opt/my dotnet/libcoreclr.so\n";
        let found = MappedRuntime::in_maps(maps.as_slice()).unwrap().unwrap();
        assert_eq!(found.base, 0x7f00_0000_0000);
        assert_eq!(found.path, Path::new("/opt/my dotnet/libcoreclr.so"));
        assert_eq!(MappedRuntime::in_maps(b"1-2 r--p 0 0:0 1 /lib/libc.so\n".as_slice()).unwrap(), None);
    }
}
