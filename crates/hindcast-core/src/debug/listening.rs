//! Which ports of this machine are listened at, as the system's tables tell. Pure: whoever uses it reads the tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The tables of one network, below `/proc/PID/net`.
pub const TCP_TABLES: [&str; 2] = ["tcp", "tcp6"];

/// A TCP socket of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpSocket {
    /// Its own address.
    pub local: SocketAddr,
    /// The other side's; port 0 where it listens.
    pub remote: SocketAddr,
    /// Whether it waits for connections.
    pub listens: bool,
    /// The number by which the descriptors of a process name it: `socket:[number]`.
    pub inode: u64,
}

impl TcpSocket {
    /// Where a process of this machine reaches a socket that listens; none where it is for other machines only.
    pub fn reached_at(&self) -> Option<SocketAddr> {
        let ip = match self.local.ip() {
            ip if ip.is_loopback() => ip,
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            _ => return None,
        };
        Some(SocketAddr::new(ip, self.local.port()))
    }
}

/// The sockets of a table; lines that are none are passed over.
pub fn tcp_sockets(table: &str) -> Vec<TcpSocket> {
    table.lines().filter_map(socket).collect()
}

/// `0: 0100007F:162E 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 …`
fn socket(line: &str) -> Option<TcpSocket> {
    const LISTENS: &str = "0A";
    let mut fields = line.split_whitespace().skip(1);
    let local = address(fields.next()?)?;
    let remote = address(fields.next()?)?;
    let listens = fields.next()? == LISTENS;
    let inode = fields.nth(5)?.parse().ok()?;
    Some(TcpSocket { local, remote, listens, inode })
}

/// Words of four bytes as the processor has them in memory, then the port as people write it.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let mut bytes = Vec::new();
    for at in (0..ip.len()).step_by(8) {
        let word = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        bytes.extend(word.to_ne_bytes());
    }
    let ip = match <[u8; 4]>::try_from(bytes.as_slice()) {
        Ok(v4) => IpAddr::from(v4),
        Err(_) => {
            let v6 = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
            v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
        }
    };
    Some(SocketAddr::new(ip, port))
}

/// The number of the socket that a descriptor's link names.
pub fn socket_inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_tables_of_the_system_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:162E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0 100 0 0 10 0\n   \
            1: 0100007F:C350 0100007F:162E 01 00000000:00000000 00:00000000 00000000  1000        0 777 1 0 20 4 30 10 -1\n   \
            2: 00000000000000000000000001000000:240D 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 9 1 0 100 0 0 10 0\n   \
            3: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 10 1\n   \
            4: 0500A8C0:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 11 1\n\
            rubbish\n   5: 01:02\n";
        let sockets = tcp_sockets(table);
        let reached: Vec<_> =
            sockets.iter().filter(|socket| socket.listens).map(TcpSocket::reached_at).collect();
        let at = |text: &str| Some(text.parse().unwrap());
        assert_eq!(reached, [at("127.0.0.1:5678"), at("[::1]:9229"), at("127.0.0.1:80"), None]);
        assert_eq!(sockets[0].inode, 12345);
        assert_eq!((sockets[1].listens, sockets[1].remote.port(), sockets[1].inode), (false, 5678, 777));
    }

    #[test]
    fn descriptors_name_sockets_by_number() {
        assert_eq!(socket_inode("socket:[42]"), Some(42));
        assert_eq!(socket_inode("pipe:[42]"), None);
        assert_eq!(socket_inode("socket:[x]"), None);
    }
}
