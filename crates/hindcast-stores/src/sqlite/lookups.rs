//! Looking keys up on the way of a request, without reading them anew each time.

use std::{collections::HashMap, path::Path, sync::Arc};

use hindcast_core::{
    identity::{KeyId, KeyRecord},
    store::StoreError,
};
use rusqlite::Connection;

use super::{keys, schema};

/// Keys that were looked up, for as long as nobody changes the file.
pub(super) struct Lookups {
    pub(super) connection: Connection,
    keys: HashMap<KeyId, Arc<KeyRecord>>,
    /// The state of the file that `keys` are from.
    version: Option<i64>,
}

impl Lookups {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self { connection: schema::open(path)?, keys: HashMap::new(), version: None })
    }

    /// The key as it is in the file now, whichever process changed it.
    pub(super) fn find(&mut self, id: &KeyId) -> rusqlite::Result<Option<Arc<KeyRecord>>> {
        // Differs as soon as another connection has committed, and costs no page.
        let version = self
            .connection
            .prepare_cached("PRAGMA data_version")?
            .query_row([], |row| row.get::<_, i64>(0))?;
        if self.version != Some(version) {
            self.keys.clear();
            self.version = Some(version);
        }
        if let Some(known) = self.keys.get(id) {
            return Ok(Some(known.clone()));
        }
        let found = keys::find(&self.connection, id)?.map(Arc::new);
        if let Some(found) = &found {
            self.keys.insert(id.clone(), found.clone());
        }
        Ok(found)
    }
}
