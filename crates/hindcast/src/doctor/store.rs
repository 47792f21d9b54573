//! The database that keeps keys, limits and audit trail, where one is configured.

use anyhow::Result;
use hindcast_stores::{PostgresFound, PostgresStore};

use super::Check;
use crate::{config, wiring};

const NAME: &str = "store";

/// Connects to the database and asks for its version; none where the data folder is the store.
pub(super) fn check(store: &config::Store) -> Option<Check> {
    store.url.as_ref()?;
    Some(match look(store) {
        Ok(found) if found.is_encrypted || found.is_local => Check::ok(NAME, found.to_string()),
        Ok(found) => Check::warn(
            NAME,
            format!("{found}, without encryption"),
            "take `sslmode` out of `store.url`, or set it to `require`",
        ),
        Err(error) => {
            let remedy = "start PostgreSQL, or correct `store.url` and what belongs to it";
            Check::fail(NAME, format!("{error:#}"), remedy)
        }
    })
}

fn look(store: &config::Store) -> Result<PostgresFound> {
    let settings = wiring::postgres_settings(store)?.unwrap_or_default();
    Ok(wiring::waited_for(PostgresStore::look(&settings))??)
}
