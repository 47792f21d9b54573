//! The server that keeps vectors, where one is configured.

use anyhow::{Context, Result};
use hindcast_core::knowledge::IndexError;
use hindcast_stores::QdrantFound;

use super::Check;
use crate::{config, wiring};

const NAME: &str = "vectors";

/// Asks the server for its version, with the key; none where vectors are in the data folder.
pub(super) fn check(vectors: &config::Vectors) -> Option<Check> {
    vectors.url.as_ref()?;
    Some(match look(vectors) {
        Ok(found) if found.is_private => Check::ok(NAME, found.to_string()),
        Ok(found) => Check::warn(
            NAME,
            format!("{found}, without encryption"),
            "switch on TLS in Qdrant, and give `vectors.url` with `https://`",
        ),
        Err(error) => {
            let remedy = "start Qdrant, or correct `vectors.url` and what belongs to it";
            Check::fail(NAME, format!("{error:#}"), remedy)
        }
    })
}

fn look(vectors: &config::Vectors) -> Result<QdrantFound> {
    let qdrant = wiring::qdrant(vectors, || Ok(String::new()))?.context("no server is configured")?;
    qdrant.look().map_err(|error| match &error {
        IndexError::Unreachable { reason, .. } | IndexError::Refused { reason, .. } => {
            anyhow::anyhow!("{error}: {reason}")
        }
        _ => error.into(),
    })
}
