//! The one file that says which others count.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::Path,
};

use hindcast_core::knowledge::IndexError;
use serde::{Deserialize, Serialize};

use super::segment::SegmentRecord;

const FILE: &str = "manifest.json";
/// Of our own layout; another number means another program wrote it, and the index is made again.
const FORMAT: u32 = 1;

/// What was committed.
#[derive(Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    model: String,
    dimension: usize,
    pub(super) generation: u64,
    pub(super) next_name: u64,
    pub(super) collections: BTreeMap<i64, Vec<SegmentRecord>>,
}

impl Manifest {
    pub(super) fn new(model: &str, dimension: usize, generation: u64) -> Self {
        let collections = BTreeMap::new();
        Self { format: FORMAT, model: model.into(), dimension, generation, next_name: 0, collections }
    }

    /// The last one that was written for this model; none if there is none.
    pub(super) fn read(folder: &Path, model: &str, dimension: usize) -> Result<Option<Self>, IndexError> {
        let text = match fs::read(folder.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IndexError::Unavailable(error.to_string())),
        };
        let manifest: Self = serde_json::from_slice(&text)
            .map_err(|error| IndexError::Corrupt(format!("`{FILE}`: {error}")))?;
        let ours = manifest.format == FORMAT && manifest.model == model && manifest.dimension == dimension;
        Ok(ours.then_some(manifest))
    }

    /// Takes the place of the last one, wholly or not at all.
    pub(super) fn write(&self, folder: &Path) -> Result<(), IndexError> {
        let failed = |error: io::Error| IndexError::Unavailable(format!("cannot write `{FILE}`: {error}"));
        let text = serde_json::to_vec(self).map_err(|error| IndexError::Unavailable(error.to_string()))?;
        let beside = folder.join("manifest.new");
        let mut file = File::create(&beside).map_err(failed)?;
        file.write_all(&text).and_then(|()| file.sync_all()).map_err(failed)?;
        fs::rename(&beside, folder.join(FILE)).map_err(failed)?;
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)
    }

    /// Removes what no longer counts, and what a crash left behind.
    pub(super) fn remove_other_files(&self, folder: &Path) {
        let counting: HashSet<String> =
            self.collections.values().flatten().flat_map(SegmentRecord::files).chain([FILE.into()]).collect();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            if !name.to_str().is_some_and(|name| counting.contains(name)) {
                // It costs space and nothing else; the next commit tries again.
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}
