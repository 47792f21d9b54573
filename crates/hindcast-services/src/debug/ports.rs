//! Which process listens at a port of this machine.

use std::{collections::BTreeSet, fs};

use hindcast_core::debug::{
    Language,
    listening::{TCP_TABLES, socket_inode, tcp_sockets},
};

use super::options::AttachOptions;
use crate::{Failure, FailureKind};

/// The process to attach to.
pub(super) fn process_of(options: &AttachOptions) -> Result<u32, Failure> {
    let invalid =
        |details: &str, hint: &str| Err(Failure::new(FailureKind::InvalidInput, details).hint(hint));
    match (options.pid, options.port) {
        (Some(pid), None) => Ok(pid),
        (Some(_), Some(_)) => invalid("`pid` and `port` both say what to attach to", "give one of them"),
        (None, None) => invalid(
            "nothing says what to attach to",
            "give the `pid` of a process, or the `port` at which it waits for debuggers",
        ),
        (None, Some(_)) if options.record => {
            invalid("a program that is reached by a port is not recorded", "leave `record` out")
        }
        (None, Some(port)) => match &options.language {
            Language::Auto | Language::Other(_) => listener_at(port),
            Language::C | Language::Cpp | Language::Rust | Language::Native | Language::Dotnet => {
                invalid("a native or .NET program does not wait for debuggers at a port", "give its `pid`")
            }
        },
    }
}

/// The process that listens there; where several share the socket, the one with the lowest number.
fn listener_at(port: u16) -> Result<u32, Failure> {
    let inodes = listening_at(port);
    if inodes.is_empty() {
        let details = format!("nobody listens at port {port} of this machine");
        return Err(Failure::new(FailureKind::ProcessNotFound, details)
            .hint(
                "start the program so that it waits for debuggers: `python -m debugpy --listen PORT app.py`, \
                 `node --inspect=PORT app.js`, `rdbg --open --port PORT app.rb`, \
                 `dlv exec --headless --accept-multiclient --listen=127.0.0.1:PORT app`",
            )
            .fact("port", port));
    }
    holder_of(&inodes).ok_or_else(|| {
        let details = format!("port {port} belongs to a process that cannot be looked at");
        Failure::new(FailureKind::PermissionDenied, details)
            .hint("attach to a process of the server's own user")
            .fact("port", port)
    })
}

fn listening_at(port: u16) -> BTreeSet<u64> {
    let tables = TCP_TABLES.iter().filter_map(|table| fs::read_to_string(format!("/proc/net/{table}")).ok());
    let sockets = tables.flat_map(|table| tcp_sockets(&table));
    let listening = sockets.filter(|socket| socket.listens && socket.local.port() == port);
    listening.map(|socket| socket.inode).collect()
}

fn holder_of(inodes: &BTreeSet<u64>) -> Option<u32> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let mut links = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok());
        links.any(|link| link.to_str().and_then(socket_inode).is_some_and(|inode| inodes.contains(&inode)))
    };
    pids.filter(holds).min()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_process_behind_a_port_is_found_while_it_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(listener_at(port).unwrap(), std::process::id());
        drop(listener);
        let failure = listener_at(port).unwrap_err();
        assert_eq!(failure.kind, FailureKind::ProcessNotFound);
        assert!(failure.details.contains("nobody listens at port"), "{failure}");
    }
}
