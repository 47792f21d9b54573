//! Tickets: how whoever may write the data folder signs in without a key.
//!
//! `hindcast ui` leaves a file whose name is the hash of a random text, and opens the page with that text. The server takes the
//! file away when the text is shown, so it opens once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use hindcast_core::{Timestamp, identity::KeyId};
use sha2::{Digest, Sha256};

use super::door;

/// How long one opens.
const OPENS_FOR: Duration = Duration::from_secs(300);

/// A ticket that has just been made.
#[derive(Debug)]
pub struct Ticket {
    text: String,
}

impl Ticket {
    /// Leaves a ticket for the holder of `key` in `folder`, which is made.
    pub fn leave(folder: &Path, key: &KeyId) -> io::Result<Self> {
        let text = door::random().ok_or_else(|| io::Error::other("the system gives no random bytes"))?;
        fs::create_dir_all(folder)?;
        fs::write(place(folder, &text), &*key.0)?;
        Ok(Self { text })
    }

    /// Where it opens the page of a server at `address`, such as `http://localhost:7443`.
    pub fn url(&self, address: &str) -> String {
        format!("{address}{}?t={}", super::TICKET, self.text)
    }
}

fn place(folder: &Path, text: &str) -> PathBuf {
    folder.join(hex::encode(Sha256::digest(text.as_bytes())))
}

/// The key whose holder the ticket lets in. It is gone afterwards, and so are all that are too old.
pub(super) fn redeem(folder: &Path, text: &str, now: Timestamp) -> Option<KeyId> {
    clear(folder, now);
    if text.len() != 64 {
        return None;
    }
    let path = place(folder, text);
    if !is_ours(&path) {
        return None;
    }
    let key = fs::read_to_string(&path).ok()?;
    // Of two who come at once, one takes it away.
    fs::remove_file(&path).ok()?;
    Some(KeyId(key.trim().into()))
}

/// Whether the user whom this process runs as made it: others may have been able to write here.
#[cfg(target_os = "linux")]
fn is_ours(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let owner = |path: &Path| fs::symlink_metadata(path).ok().map(|about| (about.uid(), about.is_file()));
    let ours = fs::metadata("/proc/self").ok().map(|about| (about.uid(), true));
    ours.is_some() && owner(path) == ours
}

#[cfg(not(target_os = "linux"))]
fn is_ours(path: &Path) -> bool {
    path.is_file()
}

fn clear(folder: &Path, now: Timestamp) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|about| about.modified()).ok();
        let made = made.and_then(|made| Timestamp::try_from(made).ok());
        let is_old =
            made.is_none_or(|made| now.duration_since(made).as_secs().unsigned_abs() > OPENS_FOR.as_secs());
        if is_old && let Err(error) = fs::remove_file(entry.path()) {
            tracing::debug!(%error, "an old ticket stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_once_and_only_for_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyId("abcdefgh".into());
        let ticket = Ticket::leave(folder.path(), &key).unwrap();
        let now = Timestamp::now();
        assert_eq!(redeem(folder.path(), &"0".repeat(64), now), None);
        assert_eq!(redeem(folder.path(), &ticket.text, now), Some(key.clone()));
        assert_eq!(redeem(folder.path(), &ticket.text, now), None);

        let late = Ticket::leave(folder.path(), &key).unwrap();
        let later = now.saturating_add(Duration::from_secs(400)).unwrap();
        assert_eq!(redeem(folder.path(), &late.text, later), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
    }
}
