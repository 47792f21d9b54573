//! Which processes and programs the holder of a key may touch.

use std::{
    io::Read as _,
    path::{Component, Path, PathBuf},
};

use super::confining::ConfinementPolicy;
use crate::{Failure, FailureKind};

/// What the operator allows over HTTP.
#[derive(Debug, Clone, Default)]
pub struct TargetPolicy {
    /// User ids besides the server's own.
    pub users: Vec<u32>,
    /// Programs besides those in `folders`; both empty means any.
    pub programs: Vec<PathBuf>,
    /// Folders whose programs are allowed, at any depth.
    pub folders: Vec<PathBuf>,
    /// The only folder that files are written to; none where that is any of `folders`.
    pub writable: Option<PathBuf>,
    /// What keeps programs of key holders in; none where nothing does.
    pub confinement: Option<ConfinementPolicy>,
}

/// What is about to be started, or opened after it died.
pub(super) struct Launch<'a> {
    /// A real path, without links.
    pub(super) program: &'a Path,
    /// The program as the caller named it: where links lead to is not for everybody.
    pub(super) named: &'a Path,
    /// The names of the variables that are set.
    pub(super) env: Vec<&'a str>,
}

/// Variables by which a program loads code or reads files that its caller chooses: those
/// that the C library does not heed in setuid programs, and those of common interpreters and libraries.
const LOADING: [&str; 34] = [
    "BASH_ENV",
    "ENV",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GIO_EXTRA_MODULES",
    "GIO_MODULE_DIR",
    "GLIBC_TUNABLES",
    "GTK_MODULES",
    "GTK_PATH",
    "HOSTALIASES",
    "IFS",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "LOCPATH",
    "LUA_INIT",
    "NLSPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "OPENSSL_CONF",
    "OPENSSL_ENGINES",
    "OPENSSL_MODULES",
    "PERL5DB",
    "PERL5LIB",
    "PERL5OPT",
    "PERLLIB",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "QT_PLUGIN_PATH",
    "RESOLV_HOST_CONF",
    "RUBYLIB",
    "RUBYOPT",
    "TCLLIBPATH",
    "TZDIR",
];

/// The same for all that begin so.
const LOADING_PREFIXES: [&str; 6] = ["LD_", "DOTNET_", "COMPlus_", "CORECLR_", "COREHOST_", "CLR_"];
/// What is harmless among them, and needed where there is no ICU.
const HARMLESS: [&str; 1] = ["DOTNET_SYSTEM_GLOBALIZATION_INVARIANT"];

/// Runtimes look for some variables without regard to case.
fn loads_code(variable: &str) -> bool {
    let begins =
        |prefix: &&str| variable.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix));
    let is_prefixed = LOADING_PREFIXES.iter().any(begins);
    (is_prefixed || is_among(&LOADING, variable)) && !HARMLESS.contains(&variable)
}

fn is_among(names: &[&str], variable: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(variable))
}

/// Variables by which a .NET program finds its runtime, and a script its interpreter and its debug adapter, which are code,
/// too.
const FINDING_RUNTIME: [&str; 5] = ["PATH", "HOME", "VIRTUAL_ENV", "JS_DEBUG", "GOFLAGS"];

/// Whether it needs a runtime that is not a part of it: an assembly, or a host that stands beside one.
fn is_managed(program: &Path) -> bool {
    let mut start = Vec::new();
    let read = std::fs::File::open(program).and_then(|file| file.take(2).read_to_end(&mut start));
    let mut beside = program.as_os_str().to_owned();
    beside.push(".dll");
    read.is_ok() && start == b"MZ" || Path::new(&beside).is_file()
}

/// Whether an interpreter runs it, and not the system itself.
fn is_interpreted(program: &Path) -> bool {
    let mut start = Vec::new();
    let read = std::fs::File::open(program).and_then(|file| file.take(4).read_to_end(&mut start));
    read.is_ok() && start != b"\x7fELF"
}

/// How many interpreters the system looks for behind each other.
const MOST_INTERPRETERS: usize = 5;
/// So much of a script's first line the system reads.
const FIRST_LINE: u64 = 256;

#[cfg(unix)]
fn changes_user(program: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(program).is_ok_and(|program| program.mode() & 0o6000 != 0)
}

#[cfg(not(unix))]
fn changes_user(_program: &Path) -> bool {
    false
}

/// What is known of a process before it is touched.
pub(super) struct Target {
    user: u32,
    /// None when the system does not tell.
    program: Option<PathBuf>,
    /// The .NET program that a host such as `dotnet` runs.
    assembly: Option<PathBuf>,
    changes_user: bool,
    /// Whether it is a part of a server of ours, or held by one. A session without `ptrace` is known to its server only.
    pub(super) is_ours: bool,
}

/// Whether the process is this one or was started by it, at whatever distance; runs this program, as workers and their helpers
/// do; or is traced by such a process. All that a session has, whoever's it is, is among them.
#[cfg(target_os = "linux")]
fn is_ours(pid: u32) -> bool {
    let tracer = status_number(pid, "TracerPid:").filter(|&tracer| tracer != 0);
    [Some(pid), tracer].into_iter().flatten().any(|pid| runs_this_program(pid) || descends_from_us(pid))
}

/// Whether the process is one of our workers, or a helper of one.
#[cfg(target_os = "linux")]
pub(super) fn is_worker(pid: u32) -> bool {
    runs_this_program(pid) && descends_from_us(pid)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn is_worker(_pid: u32) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn runs_this_program(pid: u32) -> bool {
    use std::os::unix::fs::MetadataExt;
    let file = |link: String| std::fs::metadata(link).ok().map(|file| (file.dev(), file.ino()));
    file(format!("/proc/{pid}/exe")).is_some_and(|found| Some(found) == file("/proc/self/exe".into()))
}

#[cfg(target_os = "linux")]
fn descends_from_us(pid: u32) -> bool {
    let parent = |&pid: &u32| status_number(pid, "PPid:").filter(|&above| above != 0);
    std::iter::successors(Some(pid), parent).any(|above| above == std::process::id())
}

#[cfg(target_os = "linux")]
fn status_number(pid: u32, field: &str) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_ours(pid: u32) -> bool {
    pid == std::process::id()
}

/// The assembly that `dotnet` was started with. It counts only where the process has it in its memory, and a .NET runtime beside
/// it: anybody can write what they like into a command line.
#[cfg(unix)]
fn assembly_of(pid: u32, program: &Path) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    // Any other host stands for its own assembly, whatever its arguments are.
    if program.file_name()? != "dotnet" {
        return None;
    }
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let named = run_by_dotnet(line.split(|byte| *byte == 0).skip(1))?;
    let folder = std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let assembly = folder.join(std::ffi::OsStr::from_bytes(named)).canonicalize().ok()?;
    let maps = std::fs::read(format!("/proc/{pid}/maps")).ok()?;
    let mapped = |path: &[u8]| maps.split(|byte| *byte == b'\n').any(|line| line.ends_with(path));
    let mut at_the_end = b" ".to_vec();
    at_the_end.extend(assembly.as_os_str().as_bytes());
    (mapped(&at_the_end) && mapped(b"/libcoreclr.so")).then_some(assembly)
}

/// What `dotnet` runs, of the words behind it: the first that is no option of its own. None where an option is unknown.
fn run_by_dotnet<'a>(words: impl Iterator<Item = &'a [u8]>) -> Option<&'a [u8]> {
    /// Options with a value.
    const VALUED: [&[u8]; 7] = [
        b"--additionalprobingpath",
        b"--additional-deps",
        b"--depsfile",
        b"--fx-version",
        b"--roll-forward",
        b"--roll-forward-on-no-candidate-fx",
        b"--runtimeconfig",
    ];
    let mut words = words.peekable();
    words.next_if_eq(&b"exec".as_slice());
    loop {
        let word = words.next()?;
        if VALUED.contains(&word) {
            words.next()?;
        } else {
            return (!word.starts_with(b"-")).then_some(word);
        }
    }
}

impl Target {
    /// None when there is no such process.
    #[cfg(unix)]
    pub(super) fn of(pid: u32) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let user = std::fs::metadata(format!("/proc/{pid}")).ok()?.uid();
        let link = format!("/proc/{pid}/exe");
        // Through the link, so that a program that was replaced on disk is still the one that runs.
        let changes_user = changes_user(Path::new(&link));
        let program = std::fs::read_link(link).ok();
        let assembly = program.as_deref().and_then(|program| assembly_of(pid, program));
        Some(Self { user, program, assembly, changes_user, is_ours: is_ours(pid) })
    }

    #[cfg(not(unix))]
    pub(super) fn of(_pid: u32) -> Option<Self> {
        None
    }
}

/// Nobody may touch what belongs to a session.
pub(super) fn ours(pid: u32) -> Failure {
    let details = format!("process {pid} belongs to hindcast itself or to a debug session");
    Failure::new(FailureKind::PermissionDenied, details)
        .hint("attach to another process; `debugger/status` lists your own sessions")
        .fact("pid", pid)
}

impl TargetPolicy {
    /// Refuses what is not allowed, with the reason.
    pub(super) fn check(&self, pid: u32, target: &Target) -> Result<(), Failure> {
        let refuse = |details: String, hint: &str| {
            Err(Failure::new(FailureKind::PermissionDenied, details).hint(hint).fact("pid", pid))
        };
        let own = Target::of(std::process::id()).map(|own| own.user);
        if Some(target.user) != own && !self.users.contains(&target.user) {
            return refuse(
                format!("process {pid} belongs to another user"),
                "attach to a process of the server's own user, or have the operator add the user to `debug.allowed_users`",
            );
        }
        if target.is_ours {
            return Err(ours(pid));
        }
        if target.changes_user {
            return refuse(
                format!("process {pid} runs a setuid or setgid program"),
                "debug a copy of the program without that mode",
            );
        }
        let mut names = [&target.program, &target.assembly].into_iter().flatten();
        if names.any(|program| self.allows(program)) || !self.restricts() {
            return Ok(());
        }
        refuse(
            format!("the program of process {pid} is not among those that may be debugged"),
            "have the operator add it to `debug.allowed_programs` or `debug.allowed_folders`",
        )
    }

    /// Refuses to start what is not allowed.
    ///
    /// Where programs are restricted, so is what would make an allowed one run something else: its interpreter, where it is a
    /// script, and the variables of loaders and interpreters.
    pub(super) fn check_launch(&self, launch: &Launch<'_>) -> Result<(), Failure> {
        let refuse = |details: String, hint: &str| {
            Err(Failure::new(FailureKind::PermissionDenied, details).hint(hint))
        };
        let shown = launch.named.display();
        if changes_user(launch.program) {
            return refuse(
                format!("`{shown}` is a setuid or setgid program"),
                "debug a copy of the program without that mode",
            );
        }
        if !self.restricts() {
            return Ok(());
        }
        if !self.allows(launch.program) {
            return refuse(
                format!("`{shown}` is not among the programs that may be debugged"),
                "have the operator add it to `debug.allowed_programs` or `debug.allowed_folders`",
            );
        }
        // Debug adapters run whatever their variables name, so a caller may choose none of those that they are found by.
        let finds_runtime = is_managed(launch.program) || is_interpreted(launch.program);
        let loads = |name: &str| loads_code(name) || finds_runtime && is_among(&FINDING_RUNTIME, name);
        if let Some(name) = launch.env.iter().find(|name| loads(name)) {
            return refuse(
                format!("`{name}` may not be set: it would load other code into the program"),
                "leave it out of `env`",
            );
        }
        let mut script = launch.program.to_owned();
        for _ in 0..MOST_INTERPRETERS {
            let Some(interpreter) = interpreter_of(&script) else { return Ok(()) };
            // Where a relative one is depends on where the program runs.
            let real = interpreter.canonicalize().unwrap_or_else(|_| interpreter.clone());
            if !interpreter.is_absolute() || !self.allows(&real) {
                return refuse(
                    format!(
                        "`{shown}` is a script of `{}`, which is not among the programs that may be debugged",
                        interpreter.display()
                    ),
                    "have the operator add the interpreter to `debug.allowed_programs`",
                );
            }
            script = real;
        }
        Ok(())
    }

    /// Refuses a program that is not there, in the words in which it would be refused if it were.
    pub(super) fn check_missing_program(&self, named: &Path, cwd: Option<&Path>) -> Result<(), Failure> {
        let program = settled(&cwd.unwrap_or(Path::new("")).join(named)).unwrap_or_default();
        if !self.restricts() || self.allows(&program) {
            return Ok(());
        }
        self.check_launch(&Launch { program: &program, named, env: Vec::new() })
    }

    /// Refuses to start a program in a folder that is outside: programs load code and read files from where they run.
    pub(super) fn check_working_folder(&self, named: &Path) -> Result<(), Failure> {
        if self.is_inside_folders(named) {
            return Ok(());
        }
        Err(outside(named).hint("leave `cwd` out, or name a folder of `debug.allowed_folders`"))
    }

    /// Refuses to read a file for the caller that is outside, whether it is there or not.
    pub(super) fn check_read(&self, named: &Path) -> Result<(), Failure> {
        if !self.restricts() || settled(named).is_some_and(|file| self.allows(&file)) {
            return Ok(());
        }
        Err(outside(named)
            .hint("put it into a folder of `debug.allowed_folders`; for `stdin`, give its text instead"))
    }

    /// Refuses to write outside of the folders, whether the file is there or not.
    pub(super) fn check_written(&self, named: &Path) -> Result<(), Failure> {
        let is_allowed = match &self.writable {
            Some(writable) => settled(named).is_some_and(|file| file.starts_with(writable)),
            None => self.is_inside_folders(named),
        };
        if is_allowed {
            return Ok(());
        }
        Err(outside(named).hint("leave `path` out, or name a file in a folder of `debug.allowed_folders`"))
    }

    fn is_inside_folders(&self, named: &Path) -> bool {
        let is_inside = |file: PathBuf| self.folders.iter().any(|folder| file.starts_with(folder));
        !self.restricts() || settled(named).is_some_and(is_inside)
    }

    fn restricts(&self) -> bool {
        !(self.programs.is_empty() && self.folders.is_empty())
    }

    fn allows(&self, program: &Path) -> bool {
        self.programs.iter().any(|allowed| allowed == program)
            || self.folders.iter().any(|folder| program.starts_with(folder))
    }
}

fn outside(named: &Path) -> Failure {
    let shown: String = named.display().to_string().chars().take(200).collect();
    Failure::new(FailureKind::PermissionDenied, format!("`{shown}` is outside the folders that may be used"))
}

/// Where a path leads to, links and all, also when there is nothing. None where that cannot be told without telling what is
/// there: behind a link that leads nowhere, or up from a folder that does not exist.
pub(super) fn settled(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    let (real, there) = path.ancestors().find_map(|there| Some((there.canonicalize().ok()?, there)))?;
    let missing = path.strip_prefix(there).ok()?;
    let Some(first) = missing.components().next() else { return Some(real) };
    let is_plain = missing.components().all(|part| matches!(part, Component::Normal(_)));
    (is_plain && real.join(first).symlink_metadata().is_err()).then(|| real.join(missing))
}

/// The program that the system runs a script with; none for what is no script.
fn interpreter_of(program: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    let plain = program.metadata().is_ok_and(|file| file.is_file());
    let file = plain.then(|| std::fs::File::open(program).ok()).flatten()?;
    file.take(FIRST_LINE).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let mut words = line.split(|byte| matches!(byte, b' ' | b'\t' | 0)).filter(|word| !word.is_empty());
    Some(PathBuf::from(String::from_utf8_lossy(words.next().unwrap_or_default()).into_owned()))
}

/// The real path of a file that is not there yet.
pub(super) fn new_file(path: &Path) -> Result<PathBuf, Failure> {
    let shown: String = path.display().to_string().chars().take(200).collect();
    let refuse =
        |details: String, hint: &str| Err(Failure::new(FailureKind::InvalidInput, details).hint(hint));
    let Some((name, folder)) = path.file_name().zip(path.parent()) else {
        return refuse(format!("`{shown}` names no file"), "give an absolute path with a file name");
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let Some(folder) = folder.canonicalize().ok().filter(|folder| folder.is_dir()) else {
        return refuse(format!("there is no folder for `{shown}`"), "make the folder first, or name another");
    };
    let file = folder.join(name);
    // A link counts as a file even where it leads nowhere.
    if file.symlink_metadata().is_ok() {
        return refuse(format!("there is a file `{shown}` already"), "name another, or remove it first");
    }
    Ok(file)
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
