//! Ids and the URIs made of them.

use std::fmt::Write as _;

pub(super) use hindcast_core::knowledge::check_id;

use crate::{Failure, FailureKind};

/// The resource that lists the collections.
pub const COLLECTIONS_URI: &str = "resource://knowledge/collections";
/// The resource that tells how the parts of the system do.
pub const HEALTH_URI: &str = "resource://system/health";
/// The resource that tells which models there are.
pub const MODELS_URI: &str = "resource://system/models";

const KNOWLEDGE: &str = "resource://knowledge/";

/// What a URI names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceName {
    /// All collections.
    Collections,
    /// How the parts of the system do.
    Health,
    /// Which models there are.
    Models,
    /// The documents of a collection.
    Documents(String),
    /// The figures of a collection.
    Stats(String),
    /// One document.
    Document(String, String),
}

impl ResourceName {
    /// Reads a URI; ids in it are decoded and checked.
    pub fn parse(uri: &str) -> Result<Self, Failure> {
        match uri {
            COLLECTIONS_URI => return Ok(Self::Collections),
            HEALTH_URI => return Ok(Self::Health),
            MODELS_URI => return Ok(Self::Models),
            _ => {}
        }
        if !uri.starts_with("resource://") {
            return Err(invalid_uri(uri, "Resource URIs must start with 'resource://'"));
        }
        let shape = "Knowledge resources are resource://knowledge/collections, \
                     resource://knowledge/{collectionId}/documents, resource://knowledge/{collectionId}/stats and \
                     resource://knowledge/{collectionId}/document/{docId}";
        let path = uri.strip_prefix(KNOWLEDGE).ok_or_else(|| invalid_uri(uri, shape))?;
        let id = |part: &str| {
            let id =
                decoded(part).ok_or_else(|| invalid_uri(uri, "The URI is not properly percent-encoded"))?;
            check_id(&id).map_err(|problem| invalid_uri(uri, &problem))?;
            Ok::<_, Failure>(id)
        };
        let parts: Vec<_> = path.split('/').collect();
        match parts[..] {
            [collection, "documents"] => Ok(Self::Documents(id(collection)?)),
            [collection, "stats"] => Ok(Self::Stats(id(collection)?)),
            [collection, "document", document] => Ok(Self::Document(id(collection)?, id(document)?)),
            _ => Err(invalid_uri(uri, shape)),
        }
    }
}

fn invalid_uri(uri: &str, details: &str) -> Failure {
    let shown: String = uri.chars().take(300).collect();
    Failure::new(FailureKind::InvalidUri, details).fact("uri", shown)
}

/// The URI of a collection's list of documents.
pub fn documents_uri(collection: &str) -> String {
    format!("{KNOWLEDGE}{}/documents", encoded(collection))
}

/// The URI of a collection's figures.
pub fn stats_uri(collection: &str) -> String {
    format!("{KNOWLEDGE}{}/stats", encoded(collection))
}

/// The URI of a document.
pub fn document_uri(collection: &str, document: &str) -> String {
    format!("{KNOWLEDGE}{}/document/{}", encoded(collection), encoded(document))
}

/// The id of a name that a person gave.
pub(super) fn id_of_name(name: &str) -> Result<String, Failure> {
    hindcast_core::knowledge::id_of_name(name).map_err(|problem| {
        Failure::new(FailureKind::InvalidInput, problem)
            .hint("names have 1 to 256 characters, without slashes, `..` and control characters")
    })
}

/// An id for something whose name nobody chose as one: whatever an id must not have becomes `_`.
pub(super) fn id_of_anything(name: &str) -> String {
    let mut id: String = name
        .chars()
        .map(|char| if char.is_control() || matches!(char, '/' | '\\' | ' ') { '_' } else { char })
        .collect();
    while id.contains("..") {
        id = id.replace("..", "._");
    }
    let id: String = id.chars().take(200).collect();
    if id.is_empty() { "document".into() } else { id }
}

/// Characters that stand for themselves in a URI; the rest is escaped.
fn encoded(id: &str) -> String {
    let mut text = String::with_capacity(id.len());
    for byte in id.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$'()*+,;=:@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// None when an escape is broken or what comes out is not text.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_are_read_as_they_are_written() {
        for id in ["AI_Engineering", "über 100% 🦀?#", "a:b@c"] {
            assert_eq!(ResourceName::parse(&documents_uri(id)).unwrap(), ResourceName::Documents(id.into()));
            let document = ResourceName::Document("c".into(), id.into());
            assert_eq!(ResourceName::parse(&document_uri("c", id)).unwrap(), document);
        }
        assert_eq!(documents_uri("AI_Engineering"), "resource://knowledge/AI_Engineering/documents");
    }

    #[test]
    fn ids_that_could_lead_elsewhere_are_refused() {
        let bad = [
            "invalid://wrong-scheme/path",
            "resource://knowledge/a%2Fb/stats",
            "resource://knowledge/%2e%2e/stats",
            "resource://knowledge/a%00b/stats",
            "resource://knowledge/a%zz/stats",
            "resource://knowledge//stats",
            "resource://knowledge/a/other",
            "resource://other",
        ];
        for uri in bad {
            let failure = ResourceName::parse(uri).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidUri, "{uri}");
            assert_eq!(failure.facts["uri"], uri);
        }
        let long = format!("resource://knowledge/{}/stats", "x".repeat(257));
        assert!(ResourceName::parse(&long).is_err());
    }

    #[test]
    fn any_file_name_becomes_an_id() {
        assert_eq!(id_of_name("Machine Learning").unwrap(), "Machine_Learning");
        assert!(id_of_name("a/b").is_err() && id_of_name(" ").is_err());
        for name in ["new\nline", "../up", "a....b", "", "🦀 crab", "back\\slash"] {
            let id = id_of_anything(name);
            assert_eq!(check_id(&id), Ok(()), "{name:?} → {id:?}");
        }
    }
}
