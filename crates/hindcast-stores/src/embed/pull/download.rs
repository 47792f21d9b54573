//! Files from the web, with progress and without waiting for ever.

use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    time::Duration,
};

use hindcast_core::progress::Progress;
use reqwest::blocking::{Client, Response};

use crate::tls;

use super::{PullError, file_error};

/// For a connection to be there, and for the next bytes to come.
const PATIENCE: Duration = Duration::from_secs(20);
const PIECE: usize = 1 << 18;

/// Gets things.
pub(super) struct Downloader(Client);

impl Downloader {
    pub(super) fn new() -> Result<Self, PullError> {
        tls::ensure_provider();
        let client = Client::builder()
            .user_agent(concat!("hindcast/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(PATIENCE)
            // Holds for each wait, not for a whole file.
            .timeout(PATIENCE)
            .build()
            .map_err(|error| PullError::Unreachable(whole_story(&error)))?;
        Ok(Self(client))
    }

    /// The answer to a request, if it is a good one.
    pub(super) fn get(&self, url: &str, accept: &str) -> Result<Response, PullError> {
        let unreachable = |error: reqwest::Error| PullError::Unreachable(whole_story(&error.without_url()));
        self.0.get(url).header("accept", accept).send().and_then(Response::error_for_status).map_err(
            |error| match unreachable(error) {
                PullError::Unreachable(reason) => {
                    PullError::Unreachable(format!("{}: {reason}", host_of(url)))
                }
                other => other,
            },
        )
    }

    /// Puts a file from the web into one here.
    pub(super) fn save(&self, url: &str, to: &Path, progress: &dyn Progress) -> Result<(), PullError> {
        let response = self.get(url, "*/*")?;
        write(response, url, to, progress)
    }

    /// The same for a file that need not be there.
    pub(super) fn save_if_there(
        &self,
        url: &str,
        to: &Path,
        progress: &dyn Progress,
    ) -> Result<(), PullError> {
        let asked = self.0.get(url).header("accept", "*/*").send();
        match asked {
            Ok(response) if response.status() == reqwest::StatusCode::NOT_FOUND => Ok(()),
            Ok(response) if response.status().is_success() => write(response, url, to, progress),
            _ => self.save(url, to, progress),
        }
    }
}

/// Writes an answer to a file.
fn write(mut response: Response, url: &str, to: &Path, progress: &dyn Progress) -> Result<(), PullError> {
    {
        let total = response.content_length();
        let name = url.split(['#', '?']).next().and_then(|path| path.rsplit('/').next()).unwrap_or("file");
        let mut file = File::create(to).map_err(file_error("write", to))?;
        let mut piece = vec![0; PIECE];
        let mut done = 0;
        loop {
            if progress.cancelled() {
                return Err(PullError::Cancelled);
            }
            let read = response
                .read(&mut piece)
                .map_err(|error| PullError::Unreachable(format!("{} broke off: {error}", host_of(url))))?;
            if read == 0 {
                break;
            }
            file.write_all(&piece[..read]).map_err(file_error("write", to))?;
            done += read as u64;
            progress.report(done, total, name);
        }
        match total {
            Some(total) if total != done => {
                Err(PullError::Unreachable(format!("{} sent {done} of {total} bytes", host_of(url))))
            }
            _ => Ok(()),
        }
    }
}

/// Only the host: an index's address can have a password in it.
fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// An error with its causes, which reqwest keeps to itself.
fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !story.contains(&text) {
            story = format!("{story}: {text}");
        }
        cause = error.source();
    }
    story
}

#[cfg(test)]
mod tests {
    use super::host_of;

    #[test]
    fn a_password_in_an_address_is_not_repeated() {
        assert_eq!(host_of("https://user:secret@index.example/simple/x#sha256=1"), "index.example");
        assert_eq!(host_of("http://localhost:8080"), "localhost:8080");
    }
}
