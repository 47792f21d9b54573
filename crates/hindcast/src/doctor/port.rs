//! The address of `hindcast serve`: can it be bound, and if it is taken, by whom.

use std::{fs, io, net::SocketAddr, net::TcpListener, path::Path};

use super::Check;

const NAME: &str = "port";
/// How a socket that listens is marked in `/proc/net/tcp`.
const LISTENING: &str = "0A";

pub(super) fn check(listen: SocketAddr) -> Check {
    match TcpListener::bind(listen) {
        Ok(_) => Check::ok(NAME, format!("{listen} is free")),
        Err(error) => explain(listen, &error, holder(listen.port())),
    }
}

/// A process that listens on the port.
#[derive(Debug)]
struct Holder {
    process_id: u32,
    name: String,
}

fn explain(listen: SocketAddr, error: &io::Error, holder: Option<Holder>) -> Check {
    match (error.kind(), holder) {
        (io::ErrorKind::AddrInUse, Some(holder)) if holder.name == "hindcast" => {
            let detail = format!("hindcast is already serving on {listen} (process {})", holder.process_id);
            Check::ok(NAME, detail)
        }
        (io::ErrorKind::AddrInUse, Some(Holder { process_id, name })) => Check::fail(
            NAME,
            format!("{listen} is in use by `{name}` (process {process_id})"),
            "stop it, or choose another address with `--listen`",
        ),
        // Another user's process cannot be looked into: it may well be our own server.
        (io::ErrorKind::AddrInUse, None) => Check::warn(
            NAME,
            format!("{listen} is in use"),
            "fine if that is hindcast, else choose another address with `--listen`",
        ),
        (io::ErrorKind::PermissionDenied, _) => Check::fail(
            NAME,
            format!("this user may not listen on {listen}"),
            "choose a port above 1023 with `--listen`, or grant CAP_NET_BIND_SERVICE",
        ),
        (io::ErrorKind::AddrNotAvailable, _) => Check::fail(
            NAME,
            format!("this machine has no address {}", listen.ip()),
            "choose one of its own addresses with `--listen`",
        ),
        _ => Check::fail(
            NAME,
            format!("cannot listen on {listen}: {error}"),
            "choose another address with `--listen`",
        ),
    }
}

/// Found through `/proc`, so `None` on other systems and for processes of other users.
fn holder(port: u16) -> Option<Holder> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let sockets: Vec<String> = tables
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
        .find(|(_, folder)| has_open(folder, &sockets))
        .map(|(process_id, folder)| {
            let name = fs::read_to_string(folder.join("comm")).unwrap_or_default();
            Holder { process_id, name: name.trim().to_owned() }
        })
}

fn has_open(process: &Path, sockets: &[String]) -> bool {
    let Ok(descriptors) = fs::read_dir(process.join("fd")) else {
        return false;
    };
    descriptors
        .flatten()
        .filter_map(|descriptor| fs::read_link(descriptor.path()).ok())
        .any(|target| sockets.iter().any(|socket| target.as_os_str() == socket.as_str()))
}

/// The inodes of the sockets that listen on `port`, from the text of `/proc/net/tcp`.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    let wanted = format!(":{port:04X}");
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.len() > 9 && row[1].ends_with(&wanted) && row[3] == LISTENING)
        .map(|row| row[9].to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_free_address_is_fine_and_is_free_again_afterwards() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        assert_eq!(check(any).status, Status::Ok);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_taken_address_names_the_process_that_has_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let checked = check(address);
        assert_eq!(checked.status, Status::Fail, "{checked:?}");
        let expected = format!("(process {})", std::process::id());
        assert!(checked.detail.ends_with(&expected), "{checked:?}");
    }

    #[test]
    fn an_address_of_another_machine_is_said_to_be_that() {
        // From the range that is reserved for documentation.
        let checked = check(SocketAddr::from(([192, 0, 2, 1], 7443)));
        assert_eq!(checked.status, Status::Fail);
        assert_eq!(checked.detail, "this machine has no address 192.0.2.1");
    }

    #[test]
    fn each_cause_has_its_own_words() {
        let listen = SocketAddr::from(([127, 0, 0, 1], 443));
        let ours = || Some(Holder { process_id: 7, name: "hindcast".to_owned() });
        let other = || Some(Holder { process_id: 8, name: "nginx".to_owned() });
        for (kind, holder, status, detail) in [
            (
                io::ErrorKind::AddrInUse,
                ours(),
                Status::Ok,
                "hindcast is already serving on 127.0.0.1:443 (process 7)",
            ),
            (
                io::ErrorKind::AddrInUse,
                other(),
                Status::Fail,
                "127.0.0.1:443 is in use by `nginx` (process 8)",
            ),
            (io::ErrorKind::AddrInUse, None, Status::Warn, "127.0.0.1:443 is in use"),
            (
                io::ErrorKind::PermissionDenied,
                None,
                Status::Fail,
                "this user may not listen on 127.0.0.1:443",
            ),
        ] {
            let checked = explain(listen, &kind.into(), holder);
            assert_eq!((checked.status, checked.detail.as_str()), (status, detail));
        }
    }

    #[test]
    fn only_listening_sockets_of_the_port_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1D13 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n\
             1: 0100007F:1D13 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 4343 1\n\
             2: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4444 1\n";
        assert_eq!(listening_inodes(table, 7443), ["4242"]);
    }
}
