//! A loopback proxy in front of the server, because the conformance suite cannot send a key.
//!
//! It adds the key and puts our own prompt and resource in the place of the suite's fixtures, so that scenarios which only
//! need *some* prompt or resource exercise a real one. Nothing else that matters changes: Host and Origin pass through,
//! and answers flow back byte by byte, so event streams stay streams. Each connection carries one request.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use anyhow::{Context, Result};

/// Larger requests are cut off; the suite sends a few hundred bytes.
const REQUEST_LIMIT: usize = 1024 * 1024;

/// Names of the suite's fixtures in requests, and what we have instead.
const STAND_INS: &[(&str, &str)] = &[
    ("\"test://watched-resource\"", "\"hindcast://quota\""),
    ("\"test_prompt_with_arguments\"", "\"review-audit\""),
    ("\"arg1\"", "\"period\""),
];

/// Listens until the process ends, and returns the address.
pub(super) fn start(upstream: &str, key: &str) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on loopback")?;
    let address = listener.local_addr()?;
    let route = Arc::new(Route { upstream: upstream.to_owned(), key: key.to_owned() });
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let route = Arc::clone(&route);
            // A connection that breaks shows on the client's side as a failed check.
            std::thread::spawn(move || route.relay(client));
        }
    });
    Ok(address)
}

struct Route {
    upstream: String,
    key: String,
}

impl Route {
    fn relay(&self, mut client: TcpStream) -> io::Result<()> {
        let request = Request::read(&mut client)?;
        let mut server = TcpStream::connect(&self.upstream)?;
        server.set_nodelay(true)?;
        client.set_nodelay(true)?;
        server.write_all(request.rewritten(&self.key).as_bytes())?;

        let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
        std::thread::spawn(move || {
            // A client that goes away ends its request upstream too, as without a proxy.
            let _ = io::copy(&mut from_client, &mut to_server);
            let _ = to_server.shutdown(Shutdown::Both);
        });
        io::copy(&mut server, &mut client)?;
        client.shutdown(Shutdown::Both)
    }
}

struct Request {
    /// Request line and headers, each with its line end, without the empty line.
    head: String,
    body: String,
}

impl Request {
    fn read(client: &mut impl Read) -> io::Result<Self> {
        let mut received = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let count = client.read(&mut chunk)?;
            received.extend_from_slice(&chunk[..count]);
            if let Some(request) = Self::parse(&received)? {
                return Ok(request);
            }
            if count == 0 || received.len() > REQUEST_LIMIT {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    /// `None` while bytes are missing.
    fn parse(received: &[u8]) -> io::Result<Option<Self>> {
        let text = std::str::from_utf8(received).map_err(|_| io::ErrorKind::InvalidData)?;
        let Some(end) = text.find("\r\n\r\n") else {
            return Ok(None);
        };
        let (head, body) = (&text[..end + 2], &text[end + 4..]);
        let length = head.lines().find_map(|line| header(line, "content-length")).unwrap_or("0");
        let length: usize = length.parse().map_err(|_| io::ErrorKind::InvalidData)?;
        let is_complete = body.len() >= length;
        Ok(is_complete.then(|| Self { head: head.to_owned(), body: body.to_owned() }))
    }

    /// With the key and the stand-ins, on a connection of its own.
    fn rewritten(&self, key: &str) -> String {
        let body =
            STAND_INS.iter().fold(self.body.clone(), |body, (theirs, ours)| body.replace(theirs, ours));
        let mut head = String::new();
        for line in self.head.split_inclusive("\r\n") {
            if header(line, "content-length").is_some() {
                head.push_str(&format!("Content-Length: {}\r\n", body.len()));
            } else if header(line, "connection").is_none() {
                head.push_str(line);
            }
        }
        format!("{head}Authorization: Bearer {key}\r\nConnection: close\r\n\r\n{body}")
    }
}

/// The value of a header line, if it is that header.
fn header<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (found, value) = line.split_once(':')?;
    found.eq_ignore_ascii_case(name).then(|| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(request: &str) -> String {
        Request::read(&mut request.as_bytes()).expect("a request").rewritten("secret")
    }

    #[test]
    fn the_key_is_added_and_everything_else_kept() {
        assert_eq!(
            rewritten(
                "POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nConnection: keep-alive\r\n\
                 Origin: http://a\r\nContent-Length: 2\r\n\r\n{}"
            ),
            "POST /mcp HTTP/1.1\r\nHost: evil.example.com\r\nOrigin: http://a\r\nContent-Length: 2\r\n\
             Authorization: Bearer secret\r\nConnection: close\r\n\r\n{}"
        );
    }

    #[test]
    fn our_own_things_stand_in_for_fixtures() {
        let request =
            rewritten("POST / HTTP/1.1\r\ncontent-length: 33\r\n\r\n{\"uri\":\"test://watched-resource\"}");
        assert!(request.ends_with("\r\n\r\n{\"uri\":\"hindcast://quota\"}"), "{request}");
        assert!(request.contains("Content-Length: 26\r\n"), "{request}");
    }

    #[test]
    fn an_unfinished_request_is_waited_for() {
        assert!(Request::parse(b"POST / HTTP/1.1\r\n").expect("text").is_none());
        assert!(Request::parse(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nab").expect("text").is_none());
        assert!(Request::parse(b"GET / HTTP/1.1\r\n\r\n").expect("text").is_some());
    }

    #[test]
    fn a_request_passes_and_the_answer_comes_back() {
        let upstream = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = upstream.local_addr().expect("an address").to_string();
        let proxy = start(&address, "secret").expect("a proxy");
        let server = std::thread::spawn(move || {
            let (mut connection, _) = upstream.accept().expect("a connection");
            let request = Request::read(&mut connection).expect("a request");
            connection.write_all(b"HTTP/1.1 200 OK\r\n\r\nfine").expect("an answer");
            request
        });
        let mut client = TcpStream::connect(proxy).expect("the proxy listens");
        client.write_all(b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n").expect("the head");
        client.write_all(b"hello").expect("the body");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("the answer");
        let request = server.join().expect("the server");
        assert!(request.head.contains("Authorization: Bearer secret\r\n"), "{}", request.head);
        assert_eq!(request.body, "hello");
        assert_eq!(answer, "HTTP/1.1 200 OK\r\n\r\nfine");
    }
}
