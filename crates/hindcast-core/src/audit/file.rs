//! The exported trail: one JSON value a line, checked byte for byte.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ed25519_dalek::VerifyingKey;
use serde::{Deserialize, Serialize};

use super::{AuditRow, BadRow, ChainVerifier, Problem, SignedHead};

/// The first line of an exported trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportHeader {
    /// Always [`ExportHeader::FORMAT`].
    pub format: String,
    /// The key that signs the last line, base64.
    pub public_key: String,
}

impl ExportHeader {
    /// The name of this format and its version.
    pub const FORMAT: &'static str = "hindcast-audit-1";

    /// The header of a trail signed by `key`.
    pub fn new(key: &VerifyingKey) -> Self {
        Self { format: Self::FORMAT.into(), public_key: BASE64_STANDARD.encode(key.as_bytes()) }
    }
}

/// The last line of an exported trail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFooter {
    /// The end of the chain at the time of the export.
    pub head: SignedHead,
}

/// Checks an exported trail line by line.
pub struct FileVerifier {
    key: VerifyingKey,
    chain: ChainVerifier,
    head: Option<SignedHead>,
}

impl FileVerifier {
    /// Starts with the first line. `expected` is the key the trail should be signed by; without it
    /// the file's own word is taken, which proves integrity but not origin.
    pub fn start(first_line: &str, expected: Option<VerifyingKey>) -> Result<Self, BadRow> {
        let header: ExportHeader = strictly(first_line, 0)?;
        let unreadable = |reason: &str| BadRow { row: 0, problem: Problem::Unreadable(reason.into()) };
        if header.format != ExportHeader::FORMAT {
            return Err(unreadable("the first line does not name the format hindcast-audit-1"));
        }
        let own = BASE64_STANDARD
            .decode(&header.public_key)
            .ok()
            .and_then(|bytes| bytes.try_into().ok())
            .and_then(|bytes| VerifyingKey::from_bytes(&bytes).ok())
            .ok_or_else(|| unreadable("the first line holds no public key"))?;
        if expected.is_some_and(|expected| expected != own) {
            return Err(BadRow { row: 0, problem: Problem::BadSignature });
        }
        Ok(Self { key: own, chain: ChainVerifier::default(), head: None })
    }

    /// The row that the next line should hold.
    pub fn next_row(&self) -> u64 {
        self.chain.rows() + 1
    }

    /// Takes the next line.
    pub fn feed(&mut self, line: &str) -> Result<(), BadRow> {
        let row = self.next_row();
        if self.head.is_some() {
            return Err(BadRow { row, problem: Problem::NotCovered });
        }
        if line.starts_with(r#"{"head":"#) {
            let footer: ExportFooter = strictly(line, row)?;
            self.head = Some(footer.head);
            return Ok(());
        }
        self.chain.feed(&strictly::<AuditRow>(line, row)?)
    }

    /// How many rows verified, once all lines were fed.
    pub fn finish(self) -> Result<u64, BadRow> {
        let row = self.next_row();
        if self.head.is_none() {
            // The footer was cut off, and perhaps rows before it.
            return Err(BadRow { row, problem: Problem::Missing });
        }
        self.chain.finish(self.head.as_ref(), &self.key)
    }
}

/// Parses a line and insists that it is written exactly as we write it, so that not even white
/// space can be changed unnoticed.
fn strictly<T: Serialize + for<'a> Deserialize<'a>>(line: &str, row: u64) -> Result<T, BadRow> {
    let unreadable = |reason: String| BadRow { row, problem: Problem::Unreadable(reason) };
    let value: T = serde_json::from_str(line).map_err(|error| unreadable(error.to_string()))?;
    let again = serde_json::to_string(&value).map_err(|error| unreadable(error.to_string()))?;
    if again == line { Ok(value) } else { Err(BadRow { row, problem: Problem::Changed }) }
}
