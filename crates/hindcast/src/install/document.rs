//! A client's file as text that is read as a whole and edited in one place.

use serde_json::Value;

use super::{json_edit, toml_document};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// JSON, with the comments and trailing commas that some clients allow.
    Json,
    /// TOML.
    Toml,
}

impl Format {
    /// As it is called.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Toml => "TOML",
        }
    }

    /// A file that says nothing.
    pub(super) fn empty(self) -> &'static str {
        match self {
            Self::Json => "{}\n",
            Self::Toml => "",
        }
    }

    /// What the text says, or why it cannot be read.
    pub(super) fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Json => {
                serde_json::from_str(&json_edit::without_comments(text)).map_err(|error| error.to_string())
            }
            Self::Toml => toml_document::parse(text),
        }
    }

    /// The text with a value at a path; none where something on the way is not an object.
    pub(super) fn set(self, text: &str, path: &[&str], value: &Value) -> Option<String> {
        match self {
            Self::Json => json_edit::set(text, path, value),
            Self::Toml => toml_document::set(text, path, value),
        }
    }

    /// The text without what is at a path; none where nothing is there.
    pub(super) fn remove(self, text: &str, path: &[&str]) -> Option<String> {
        match self {
            Self::Json => json_edit::remove(text, path),
            Self::Toml => toml_document::remove(text, path),
        }
    }
}
