//! The database that keeps keys, limits and audit trail, where one is configured.

use hindcast_stores::PostgresStore;

use super::Check;
use crate::{config, wiring};

const NAME: &str = "store";

/// Connects to the database and asks for its version; none where the data folder is the store.
pub(super) fn check(store: &config::Store) -> Option<Check> {
    store.url.as_ref()?;
    let asked = wiring::postgres_settings(store)
        .and_then(|settings| Ok(settings.map(|settings| wiring::waited_for(PostgresStore::look(&settings)))));
    Some(match asked {
        Ok(Some(Ok(Ok(found)))) if found.is_encrypted || found.is_local => Check::ok(NAME, found.to_string()),
        Ok(Some(Ok(Ok(found)))) => Check::warn(
            NAME,
            format!("{found}, without encryption"),
            "take `sslmode` out of `store.url`, or set it to `require`",
        ),
        Ok(Some(Ok(Err(error)))) => Check::fail(
            NAME,
            error.to_string(),
            "start PostgreSQL, or correct `store.url` and what belongs to it",
        ),
        Ok(Some(Err(error))) | Err(error) => {
            Check::fail(NAME, format!("{error:#}"), "correct `store.url` and what belongs to it")
        }
        Ok(None) => return None,
    })
}
