//! Where a process waits for debuggers: its door.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hindcast_core::debug::{
    DebugError, Reason,
    listening::{TCP_TABLES, TcpSocket, socket_inode, tcp_sockets},
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::profile::{Profile, Waiting};

/// How long Node may take to listen after it was asked to.
const OPENS_WITHIN: Duration = Duration::from_secs(3);
/// Between two looks whether it does: no system call waits until another process listens.
const GLANCE: Duration = Duration::from_millis(4);
/// Where Node listens unless it is told otherwise.
const USUAL_INSPECTOR: u16 = 9229;

/// Where a process waits for debuggers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Door {
    /// A port of this machine.
    Port(SocketAddr),
    /// A socket that is a file.
    File(PathBuf),
}

impl Door {
    /// At a port, in whichever way this machine reaches it.
    pub(crate) fn at(port: u16) -> Self {
        let all = TCP_TABLES.iter().filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok());
        let all: Vec<_> = all.flat_map(|table| tcp_sockets(&table)).collect();
        let mut there = all.iter().filter(|socket| socket.listens && socket.local.port() == port);
        let address = there.find_map(TcpSocket::reached_at);
        Self::Port(address.unwrap_or_else(|| (Ipv4Addr::LOCALHOST, port).into()))
    }
}

impl std::fmt::Display for Door {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Port(address) => write!(to, "port {}", address.port()),
            Self::File(path) => write!(to, "`{}`", path.display()),
        }
    }
}

/// Whether a process has a door, or can be made to have one.
pub(crate) fn is_there(profile: &Profile, pid: u32) -> bool {
    match profile.waiting {
        Waiting::Inspector => inspector(pid).is_some() || opens_by_signal(pid),
        Waiting::Debugpy => debugpy(pid).is_some(),
        Waiting::Rdbg => rdbg(pid).is_some(),
        Waiting::Unknown => false,
    }
}

/// The door of a process, which is made where that is possible.
pub(crate) fn of(profile: &Profile, pid: u32) -> Result<Door, DebugError> {
    let closed = |what: String, advice: &str| {
        let advice = format!(
            "{advice}; or launch the program instead; `language: c` attaches to the interpreter as a native program"
        );
        Err(DebugError::Unsupported(Reason::new(what).advise(advice)))
    };
    match profile.waiting {
        Waiting::Unknown => closed(
            format!("hindcast does not attach to processes through {}", profile.adapter),
            "give the `port` at which it waits for debuggers",
        ),
        Waiting::Debugpy => debugpy(pid).map_or_else(
            || closed(
                format!("process {pid} does not wait for debuggers"),
                "start it with `python -m debugpy --listen PORT app.py`, or have it call `debugpy.listen(PORT)`, and attach by `pid` or `port`",
            ),
            Ok,
        ),
        Waiting::Rdbg => rdbg(pid).map_or_else(
            || closed(
                format!("process {pid} does not wait for debuggers"),
                "start it with `rdbg --open --nonstop app.rb`, or with `--port PORT`, and attach by `pid` or `port`",
            ),
            Ok,
        ),
        Waiting::Inspector => match inspector(pid) {
            Some(door) => Ok(door),
            None if opens_by_signal(pid) => open_inspector(pid),
            None => closed(
                format!("process {pid} does not wait for debuggers, and does not begin to when it is sent SIGUSR1"),
                "start it with `node --inspect=PORT app.js`, and attach by `pid` or `port`",
            ),
        },
    }
}

/// A program under debugpy is connected to an adapter, which listens for debuggers at the port that it was started with.
fn debugpy(pid: u32) -> Option<Door> {
    let connected: BTreeSet<u16> = sockets_of(pid)
        .iter()
        .filter(|socket| !socket.listens && socket.remote.ip().is_loopback())
        .map(|socket| socket.remote.port())
        .collect();
    let is_its = |adapter: &u32| {
        let adapters = sockets_of(*adapter);
        adapters.iter().any(|socket| socket.listens && connected.contains(&socket.local.port()))
    };
    let runs_adapter = |pid: &u32| words_of(*pid).iter().any(|word| word.ends_with("/debugpy/adapter"));
    let adapter = processes().filter(runs_adapter).find(is_its)?;
    let words = words_of(adapter);
    let port = words.iter().position(|word| word == "--port").and_then(|at| words.get(at + 1))?;
    let port: u16 = port.parse().ok()?;
    let listening = sockets_of(adapter);
    let mut listening = listening.iter().filter(|socket| socket.listens);
    // Port 0 lets the system choose: it is the one that is not for the program.
    let is_it = |socket: &&TcpSocket| {
        let at = socket.local.port();
        at == port || port == 0 && !connected.contains(&at)
    };
    listening.find(is_it).and_then(TcpSocket::reached_at).map(Door::Port)
}

/// `rdbg --open` listens at a file with its own number, or at a port.
fn rdbg(pid: u32) -> Option<Door> {
    let inodes = inodes_of(pid);
    let table = fs::read_to_string(format!("/proc/{pid}/net/unix")).ok()?;
    if let Some(file) = listening_files(&table, &inodes)
        .into_iter()
        .find(|file| file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ruby-debug-")))
    {
        return Some(Door::File(file));
    }
    let words = words_of(pid);
    let by_option = words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix("--port") {
        Some("") => words.get(at + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    });
    let port: u16 = variable_of(pid, "RUBY_DEBUG_PORT").or(by_option)?.parse().ok()?;
    let sockets = sockets_of(pid);
    let mut there = sockets.iter().filter(|socket| socket.listens && socket.local.port() == port);
    there.find_map(TcpSocket::reached_at).map(Door::Port)
}

/// Node listens where `--inspect` says, or at the usual port.
fn inspector(pid: u32) -> Option<Door> {
    let mut options = words_of(pid);
    options
        .extend(variable_of(pid, "NODE_OPTIONS").iter().flat_map(|text| text.split(' ')).map(str::to_owned));
    let ports: Vec<u16> = options.iter().filter_map(|word| inspector_port(word)).collect();
    let sockets = sockets_of(pid);
    let at = |port: u16| {
        let mut there = sockets.iter().filter(|socket| socket.listens && socket.local.port() == port);
        there.find_map(TcpSocket::reached_at)
    };
    let named = ports.iter().copied().chain([USUAL_INSPECTOR]).find_map(at);
    // Port 0 lets the system choose. Where the program listens by itself, too, nobody can tell which it is.
    let listening: Vec<_> = sockets.iter().filter(|socket| socket.listens).collect();
    let chosen = (ports.contains(&0) && listening.len() == 1).then(|| listening[0].reached_at()).flatten();
    named.or(chosen).map(Door::Port)
}

/// `--inspect`, `--inspect-brk=0.0.0.0:9230`, `--inspect=9230`.
fn inspector_port(word: &str) -> Option<u16> {
    const OPTIONS: [&str; 4] = ["--inspect", "--inspect-brk", "--inspect-wait", "--inspect-port"];
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    if !OPTIONS.contains(&name) {
        return None;
    }
    let port = value.rsplit(':').next().unwrap_or_default();
    port.parse().ok().or(Some(USUAL_INSPECTOR))
}

/// Whether Node has its own handler for the signal. It would die of it without.
fn opens_by_signal(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught & (1 << (Signal::SIGUSR1 as u32 - 1)) != 0
}

/// Asks Node to listen, and waits until it does.
fn open_inspector(pid: u32) -> Result<Door, DebugError> {
    let listening = || -> BTreeSet<SocketAddr> {
        let sockets = sockets_of(pid);
        sockets.iter().filter(|socket| socket.listens).filter_map(TcpSocket::reached_at).collect()
    };
    let before = listening();
    let number = i32::try_from(pid).map_err(|_| DebugError::ProcessNotFound(pid))?;
    kill(Pid::from_raw(number), Signal::SIGUSR1).map_err(|error| {
        DebugError::Unsupported(
            Reason::new(format!("process {pid} cannot be asked to wait for debuggers: {error}"))
                .advise("attach as the user that it belongs to"),
        )
    })?;
    let until = Instant::now() + OPENS_WITHIN;
    while Instant::now() < until {
        if let Some(new) = listening().difference(&before).next() {
            return Ok(Door::Port(*new));
        }
        std::thread::sleep(GLANCE);
    }
    let reason = format!(
        "process {pid} does not wait for debuggers within {} s of SIGUSR1: another process may have port {USUAL_INSPECTOR}, \
         or the program uses the signal itself",
        OPENS_WITHIN.as_secs()
    );
    Err(DebugError::Unsupported(
        Reason::new(reason).advise("start it with `node --inspect=PORT app.js`, and attach by `port`"),
    ))
}

pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The words of a process's command line.
pub(crate) fn words_of(pid: u32) -> Vec<String> {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = line.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

fn variable_of(pid: u32, name: &str) -> Option<String> {
    let variables = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let mut variables = variables.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    variables.find_map(|it| it.strip_prefix(name)?.strip_prefix('=').map(str::to_owned))
}

fn inodes_of(pid: u32) -> BTreeSet<u64> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
    links.filter_map(|link| socket_inode(link.to_str()?)).collect()
}

fn sockets_of(pid: u32) -> Vec<TcpSocket> {
    let inodes = inodes_of(pid);
    let tables = TCP_TABLES.iter();
    let tables = tables.filter_map(|table| fs::read_to_string(format!("/proc/{pid}/net/{table}")).ok());
    tables.flat_map(|table| tcp_sockets(&table)).filter(|socket| inodes.contains(&socket.inode)).collect()
}

/// Whether a process listens at a port.
pub(crate) fn listens_at(pid: u32, port: u16) -> bool {
    sockets_of(pid).iter().any(|socket| socket.listens && socket.local.port() == port)
}

/// `0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/socket`
fn listening_files(table: &str, inodes: &BTreeSet<u64>) -> Vec<PathBuf> {
    const LISTENS: &str = "00010000";
    let file = |line: &str| {
        let mut fields = line.split_whitespace();
        let flags = fields.nth(3)?;
        let inode: u64 = fields.nth(2)?.parse().ok()?;
        let path = fields.next().filter(|path| path.starts_with('/'))?;
        (flags == LISTENS && inodes.contains(&inode)).then(|| Path::new(path).to_owned())
    };
    table.lines().filter_map(file).collect()
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, os::unix::net::UnixListener};

    use super::*;

    #[test]
    fn what_node_is_told_says_where_it_listens() {
        for (word, port) in [
            ("--inspect", Some(9229)),
            ("--inspect=9230", Some(9230)),
            ("--inspect-brk=0.0.0.0:9231", Some(9231)),
            ("--inspect=localhost", Some(9229)),
            ("--inspect=0", Some(0)),
            ("--inspector", None),
            ("app.js", None),
        ] {
            assert_eq!(inspector_port(word), port, "{word}");
        }
    }

    #[test]
    fn the_sockets_of_a_process_are_found() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let ours = sockets_of(std::process::id());
        assert!(ours.iter().any(|socket| socket.listens && socket.reached_at() == Some(address)));
        assert_eq!(Door::at(address.port()), Door::Port(address));

        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ruby-debug-me-1");
        let _listener = UnixListener::bind(&file).unwrap();
        assert_eq!(rdbg(std::process::id()), Some(Door::File(file)));
    }

    #[test]
    fn a_process_that_would_die_of_the_signal_is_not_sent_it() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!opens_by_signal(sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}
