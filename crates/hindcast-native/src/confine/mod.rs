//! Keeping what a tenant launches from everybody else.
//!
//! ```text
//! worker, as the server started it      waits, and ends as its child does
//!   └─ the first process of the namespaces: the engine goes on here
//!        └─ the program, its children, and the copies that time travel keeps
//! ```
//!
//! The engine is inside with the program, so that reading hostile debug information is confined, too. The end of the first
//! process is the end of all others: the system sees to that.

mod landlock;
mod limits;
mod view;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use hindcast_core::debug::{Confinement, Layer, SYSTEM_FOLDERS};
use nix::{
    sched::{CloneFlags, unshare},
    sys::{
        prctl::set_pdeathsig,
        signal::{Signal, raise},
        wait::{WaitStatus, waitpid},
    },
    unistd::{Pid, getegid, geteuid},
};

use crate::sys::{self, Sockets};

/// The user that a program without rights is inside of a user namespace.
const USER_INSIDE: u32 = 1000;
/// The first number of the users that tenants have where the server runs as root; no system gives out such numbers.
const FIRST_TENANT: u32 = 1_900_000_000;
const TENANTS: u32 = 100_000_000;

/// Why nothing can be confined here.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// A step did not succeed.
    #[error("cannot confine what is launched: {what}: {source}")]
    Step {
        /// Which.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
    /// The server is root, and can be nobody else.
    #[error(
        "cannot confine what is launched: the server runs as root and has no other users to run programs as"
    )]
    NoUser,
    /// Landlock opens folders whole: it cannot keep one inside of another closed.
    #[error(
        "cannot confine what is launched: without namespaces, `{hidden}` cannot be hidden inside of `{readable}`"
    )]
    CannotHide {
        /// What programs must not see.
        hidden: PathBuf,
        /// The folder around it, which they may read.
        readable: PathBuf,
    },
    /// The tenant's programs run as a user that may not enter its folder.
    #[error(
        "cannot confine what is launched: without namespaces, programs run as a user that cannot enter the workspace"
    )]
    ClosedWorkspace,
    /// Neither namespaces nor Landlock.
    #[error("this system has neither namespaces ({namespaces}) nor Landlock ({landlock}) for us")]
    NothingAvailable {
        /// Why there are no namespaces.
        namespaces: io::Error,
        /// Why there is no Landlock.
        landlock: String,
    },
}

impl ConfineError {
    fn at<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::Step { what, source: source.into() }
    }
}

/// Confines this process and all that it will start, and tells by what. Returns in a child of the caller where there are
/// namespaces: the caller itself waits for it and ends as it does. To be called before there are other threads.
///
/// `dies_with_parent`: whether the system ends it as soon as the process that called ends.
pub fn enter(confinement: &Confinement, dies_with_parent: bool) -> Result<Vec<Layer>, ConfineError> {
    let user = own_user(&confinement.tenant)?;
    let mut layers = match unshare_all(user, confinement.network) {
        Ok(layers) => build_view(confinement, user, layers, dies_with_parent)?,
        Err(namespaces) => restrict_by_landlock(confinement, user, namespaces, dies_with_parent)?,
    };
    limits::set(&confinement.limits).map_err(ConfineError::at("set limits"))?;
    layers.push(Layer::ResourceLimits);
    sys::forbid_calls(sockets(&layers, confinement.network))
        .map_err(ConfineError::at("filter system calls"))?;
    layers.push(Layer::Seccomp);
    sys::be_modest();
    Ok(layers)
}

/// Builds a root of its own inside the new namespaces.
fn build_view(
    confinement: &Confinement,
    user: Option<u32>,
    mut layers: Vec<Layer>,
    dies_with_parent: bool,
) -> Result<Vec<Layer>, ConfineError> {
    go_inside(dies_with_parent)?;
    let is_user = layers.contains(&Layer::UserNamespace);
    let user = user.filter(|_| !is_user);
    view::build(confinement, user).map_err(|(what, source)| ConfineError::Step { what, source })?;
    if !confinement.network {
        sys::start_loopback().map_err(ConfineError::at("start the loopback device"))?;
    }
    sys::give_up_rights(user).map_err(ConfineError::at("give up rights"))?;
    sys::settle_as_child(true).map_err(ConfineError::at("settle"))?;
    layers.push(Layer::NoNewPrivileges);
    Ok(layers)
}

/// Restricts this process where it is. `namespaces` says why there are none.
fn restrict_by_landlock(
    confinement: &Confinement,
    user: Option<u32>,
    namespaces: io::Error,
    dies_with_parent: bool,
) -> Result<Vec<Layer>, ConfineError> {
    // The attempt to make namespaces may have changed the user already; then there are no rights left to change it again.
    let still_root = user.filter(|_| geteuid().is_root());
    sys::give_up_rights(still_root).map_err(ConfineError::at("give up rights"))?;
    sys::settle_as_child(dies_with_parent).map_err(ConfineError::at("settle"))?;
    landlock::check(confinement)?;
    landlock::restrict(confinement, user.is_some())
        .map_err(|landlock| ConfineError::NothingAvailable { namespaces, landlock })?;
    let own_user = user.map(|_| Layer::OwnUser);
    Ok(own_user.into_iter().chain([Layer::Landlock, Layer::NoNewPrivileges]).collect())
}

/// The numbers of the system calls that are refused to what is confined: in 64-bit programs, and in 32-bit ones.
pub fn forbidden_calls() -> (Vec<u32>, Vec<u32>) {
    (sys::FORBIDDEN.map(|number| number as u32).into(), sys::FORBIDDEN_32.into())
}

/// Which sockets programs may make. Without a mount namespace, a Unix socket reaches every service of the machine that has a
/// path: Landlock does not restrict that.
fn sockets(layers: &[Layer], network: bool) -> Sockets {
    match (layers.contains(&Layer::MountNamespace), network) {
        (true, _) => Sockets::Usual,
        (false, true) => Sockets::Network,
        (false, false) => Sockets::None,
    }
}

/// The number of the user that a tenant's programs run as where the server runs as root.
fn user_of(tenant: &str) -> u32 {
    // FNV-1a: the same in every version of the program, because files in workspaces belong to this user.
    let hash =
        tenant.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    FIRST_TENANT + hash % TENANTS
}

/// The user that the tenant's programs run as; none where it is that of the server.
///
/// Root of a container may have no such user to become. It is nobody's root outside then, or nothing is confined: root that is
/// called otherwise can still write what belongs to root.
fn own_user(tenant: &str) -> Result<Option<u32>, ConfineError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let user = user_of(tenant);
    let map = fs::read_to_string("/proc/self/uid_map").map_err(ConfineError::at("look at the users"))?;
    let numbers = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    });
    let outside = |user: u64| {
        let mut ranges = numbers.clone();
        ranges.find_map(|(inside, outside, count)| {
            (inside..inside + count).contains(&user).then(|| outside + (user - inside))
        })
    };
    match (outside(user.into()), outside(0)) {
        (Some(_), _) => Ok(Some(user)),
        (None, Some(root)) if root != 0 => Ok(None),
        _ => Err(ConfineError::NoUser),
    }
}

/// Leaves the namespaces of the server. Root needs no user namespace for that; where it lacks the right, it is a user of the
/// tenant's first, because root inside of one is still root to files that only look at the number.
fn unshare_all(user: Option<u32>, network: bool) -> io::Result<Vec<Layer>> {
    let (flags, layers) = namespaces(network);
    if let Some(user) = user {
        match unshare(flags) {
            Ok(()) => return Ok([vec![Layer::OwnUser], layers].concat()),
            Err(_) => sys::become_user(user)?,
        }
    }
    let (own, group) = (geteuid(), getegid());
    unshare(flags | CloneFlags::CLONE_NEWUSER)?;
    // Groups must be given up before a group may be mapped.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{USER_INSIDE} {own} 1"))?;
    fs::write("/proc/self/gid_map", format!("{USER_INSIDE} {group} 1"))?;
    let own_user = user.map(|_| Layer::OwnUser);
    Ok(own_user.into_iter().chain([Layer::UserNamespace]).chain(layers).collect())
}

fn namespaces(network: bool) -> (CloneFlags, Vec<Layer>) {
    let mut flags = CloneFlags::CLONE_NEWNS
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWCGROUP;
    let mut layers = vec![Layer::MountNamespace, Layer::PidNamespace, Layer::IpcNamespace];
    if !network {
        flags |= CloneFlags::CLONE_NEWNET;
        layers.push(Layer::NetworkNamespace);
    }
    (flags, layers)
}

/// Goes on as the first process of the new namespaces.
fn go_inside(dies_with_parent: bool) -> Result<(), ConfineError> {
    let forked = sys::fork_alone().map_err(ConfineError::at("start a process"))?;
    // What was set before is lost with a change of rights. One whose parent was faster notices the end of its sockets.
    if forked.is_none() || dies_with_parent {
        set_pdeathsig(Signal::SIGKILL).map_err(ConfineError::at("settle"))?;
    }
    match forked {
        None => Ok(()),
        Some(child) => loop {
            match waitpid(Pid::from_raw(child.0), None) {
                Ok(WaitStatus::Exited(_, code)) => std::process::exit(code),
                Ok(WaitStatus::Signaled(_, signal, _)) => {
                    let _ = raise(signal);
                    std::process::exit(1);
                }
                Err(nix::errno::Errno::EINTR) | Ok(_) => {}
                Err(_) => std::process::exit(1),
            }
        },
    }
}

/// What of the system's configuration programs need. The rest may hold secrets.
const CONFIGURATION: [&str; 38] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "debian_version",
    "dotnet",
    "fonts",
    "gai.conf",
    "host.conf",
    "inputrc",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "locale.alias",
    "locale.conf",
    "localtime",
    "magic",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "python3",
    "python3.11",
    "python3.12",
    "python3.13",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// The folders and files of the system that every program may read; not all are on every system.
fn system_paths() -> impl Iterator<Item = PathBuf> {
    let configuration = CONFIGURATION.iter().map(|name| Path::new("/etc").join(name));
    SYSTEM_FOLDERS.iter().map(PathBuf::from).chain(configuration)
}
