//! A request or two over plain HTTP, without a client library.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// An answer that was read to its end.
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The body, as it was sent.
    pub(crate) body: String,
}

/// Splits `http://127.0.0.1:4000/mcp` into `127.0.0.1:4000` and `/mcp`.
pub(crate) fn split_url(url: &str) -> Result<(&str, &str)> {
    let Some((_, rest)) = url.split_once("://") else {
        bail!("`{url}` is no URL");
    };
    let path = rest.find('/').unwrap_or(rest.len());
    Ok((&rest[..path], &rest[path..]))
}

/// Posts JSON on a connection of its own and reads the answer to the end of the connection.
pub(crate) fn post_json(url: &str, headers: &[(&str, &str)], body: &str) -> Result<Answer> {
    let (address, path) = split_url(url)?;
    let mut request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\nConnection: close\r\n",
        body.len(),
    );
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request.push_str("\r\n");
    request.push_str(body);
    let mut stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("no answer from {address}"))?;
    parse(&answer)
}

fn parse(answer: &str) -> Result<Answer> {
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no end of headers")?;
    let status = head.split_whitespace().nth(1).context("the answer has no status")?;
    Ok(Answer {
        status: status.parse().with_context(|| format!("`{status}` is no status"))?,
        body: body.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_splits_into_address_and_path() {
        assert_eq!(split_url("http://127.0.0.1:4000/mcp").expect("a URL"), ("127.0.0.1:4000", "/mcp"));
        assert_eq!(split_url("https://localhost").expect("a URL"), ("localhost", ""));
        assert!(split_url("localhost").is_err());
    }

    #[test]
    fn an_answer_splits_into_status_and_body() {
        let answer = parse("HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}").expect("an answer");
        assert_eq!((answer.status, answer.body.as_str()), (401, "{}"));
        assert!(parse("HTTP/1.1 200 OK\r\n").is_err());
    }
}
