//! Models by name: those that are offered, any of the hub, or one in a folder.

use std::{fs, io::Read as _, path::Path};

use hindcast_core::{
    knowledge::{EmbedError, Embedder, Reranker},
    progress::Progress,
};
use serde::Deserialize;

use super::{
    super::{CHECKPOINT, CrossEncoder, MINI_LM, SentenceEncoder, VOCABULARY, description::pooling_folder},
    PullError, Staging, checksum,
    download::Downloader,
    file_error, hub, place,
};

/// What says how the network is built.
const CONFIGURATION: &str = "config.json";

/// Which modules a model has, and where.
const MODULES: &str = "modules.json";

/// What says how a text becomes a vector, besides how it is pooled; not every model has all of them.
const MORE: [&str; 2] = ["sentence_bert_config.json", "config_sentence_transformers.json"];

/// What the hub says about a model's files.
const LONGEST_LISTING: u64 = 8 << 20;

/// A model that `hindcast models pull` offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedModel {
    /// What it is called here.
    pub name: &'static str,
    /// Where it is on the hub.
    pub repository: &'static str,
    /// What it is for: `embedding` or `reranking`.
    pub purpose: &'static str,
    /// What it knows, in a few words.
    pub about: &'static str,
    /// What its files take, about.
    pub megabytes: u32,
}

/// The models that are offered, the usual one first.
pub const OFFERED: [OfferedModel; 3] = [
    OfferedModel {
        name: MINI_LM,
        repository: "sentence-transformers/all-MiniLM-L6-v2",
        purpose: "embedding",
        about: "English",
        megabytes: 91,
    },
    OfferedModel {
        name: "multilingual-e5-small",
        repository: "intfloat/multilingual-e5-small",
        purpose: "embedding",
        about: "a hundred languages",
        megabytes: 488,
    },
    OfferedModel {
        name: "ms-marco-MiniLM-L6-v2",
        repository: "cross-encoder/ms-marco-MiniLM-L6-v2",
        purpose: "reranking",
        about: "English",
        megabytes: 92,
    },
];

/// A model that was installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// What it is called here.
    pub name: String,
    /// Where it came from.
    pub origin: String,
}

/// Installs a model below `models`: one that is offered, one of the hub by `owner/name`, or the one in a folder. What is
/// installed was loaded and has computed something; it is never half.
pub fn pull_named(
    models: &Path,
    wanted: &str,
    from: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Pulled, PullError> {
    pull_named_of(&hub(), models, wanted, from, progress)
}

/// The same with the hub at an address.
pub(in super::super) fn pull_named_of(
    hub: &str,
    models: &Path,
    wanted: &str,
    from: Option<&Path>,
    progress: &dyn Progress,
) -> Result<Pulled, PullError> {
    let offered = OFFERED.iter().find(|offered| offered.name == wanted || offered.repository == wanted);
    let repository = offered.map_or(wanted, |offered| offered.repository);
    let name = offered.map_or_else(|| wanted.rsplit('/').next().unwrap_or(wanted), |offered| offered.name);
    if name.is_empty() || name.starts_with('.') || name.contains(['\\', '\0']) {
        return Err(PullError::NoSuchModel(wanted.into()));
    }
    fs::create_dir_all(models).map_err(file_error("make the folder", models))?;
    let staging = Staging(models.join(format!(".pull-{}", std::process::id())));
    let folder = staging.0.join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(file_error("make the folder", &folder))?;
    let origin = match from {
        Some(from) => {
            copy(from, &folder)?;
            from.display().to_string()
        }
        None if repository.split('/').count() == 2 => {
            download(hub, repository, &folder, progress)?;
            format!("{hub}/{repository}")
        }
        None => return Err(PullError::NoSuchModel(wanted.into())),
    };
    try_out(&staging.0, name)
        .map_err(|error| PullError::Unusable { name: name.into(), reason: error.to_string() })?;
    place(&staging.0, models, name)?;
    Ok(Pulled { name: name.into(), origin })
}

fn copy(from: &Path, folder: &Path) -> Result<(), PullError> {
    let copied = |file: &str| {
        let (source, to) = (from.join(file), folder.join(file));
        if !source.is_file() {
            return Ok(false);
        }
        make_parent(&to)?;
        fs::copy(&source, &to).map_err(file_error("copy", &source))?;
        Ok(true)
    };
    copied(MODULES)?;
    copied(&pooling_file(folder)?)?;
    for file in MORE {
        copied(file)?;
    }
    for file in [CONFIGURATION, VOCABULARY, CHECKPOINT] {
        if !copied(file)? {
            let reason = format!("there is no `{file}`");
            return Err(PullError::NoModel { path: from.into(), reason });
        }
    }
    Ok(())
}

fn download(hub: &str, repository: &str, folder: &Path, progress: &dyn Progress) -> Result<(), PullError> {
    let downloader = Downloader::new()?;
    let url = |file: &str| format!("{hub}/{repository}/resolve/main/{file}");
    let known = known_files(&downloader, hub, repository);
    let checked = |file: &str| {
        known.iter().find(|known| known.name == file).map_or(Ok(()), |known| known.check(folder, hub))
    };
    let get_if_there = |file: &str| {
        let to = folder.join(file);
        make_parent(&to)?;
        downloader.save_if_there(&url(file), &to, progress)?;
        if to.is_file() { checked(file) } else { Ok(()) }
    };
    get_if_there(MODULES)?;
    get_if_there(&pooling_file(folder)?)?;
    MORE.into_iter().try_for_each(get_if_there)?;
    for file in [CONFIGURATION, VOCABULARY, CHECKPOINT] {
        downloader.save(&url(file), &folder.join(file), progress)?;
        checked(file)?;
    }
    Ok(())
}

/// Where the staged model says that its pooling is described.
fn pooling_file(folder: &Path) -> Result<String, PullError> {
    let found = pooling_folder(folder).map(|pooling| format!("{pooling}/config.json"));
    let name = || folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    found.map_err(|reason| PullError::Unusable { name: name(), reason })
}

fn make_parent(file: &Path) -> Result<(), PullError> {
    let Some(parent) = file.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(file_error("make the folder", parent))
}

/// A file of the hub, as the hub describes it.
#[derive(Deserialize)]
struct KnownFile {
    #[serde(rename = "rfilename")]
    name: String,
    size: Option<u64>,
    /// Of large files it has the checksum.
    lfs: Option<LargeFile>,
}

#[derive(Deserialize)]
struct LargeFile {
    sha256: Option<String>,
}

impl KnownFile {
    /// Holds what came against what should have.
    fn check(&self, folder: &Path, hub: &str) -> Result<(), PullError> {
        let path = folder.join(&self.name);
        let differs =
            |reason: String| PullError::Differs { file: self.name.clone(), origin: hub.into(), reason };
        let bytes = fs::metadata(&path).map_err(file_error("read", &path))?.len();
        if let Some(size) = self.size.filter(|size| *size != bytes) {
            return Err(differs(format!("{bytes} bytes came of {size}")));
        }
        let Some(expected) = self.lfs.as_ref().and_then(|lfs| lfs.sha256.as_ref()) else { return Ok(()) };
        let found = checksum(&path)?;
        match found.eq_ignore_ascii_case(expected) {
            true => Ok(()),
            false => Err(differs(format!("its SHA-256 is {found}, not {expected}"))),
        }
    }
}

/// What the hub says about the files of a model; nothing where it does not say, as mirrors do.
fn known_files(downloader: &Downloader, hub: &str, repository: &str) -> Vec<KnownFile> {
    #[derive(Deserialize)]
    struct Listing {
        siblings: Vec<KnownFile>,
    }
    let url = format!("{hub}/api/models/{repository}?blobs=true");
    let Ok(answer) = downloader.get(&url, "application/json") else { return Vec::new() };
    let mut listing = Vec::new();
    if answer.take(LONGEST_LISTING).read_to_end(&mut listing).is_err() {
        return Vec::new();
    }
    serde_json::from_slice::<Listing>(&listing).map(|listing| listing.siblings).unwrap_or_default()
}

/// Computes something with the staged model, as whoever asked for it will: a judgement where it can judge, else a vector.
fn try_out(staging: &Path, name: &str) -> Result<(), EmbedError> {
    if let Some(reranker) = CrossEncoder::open(staging, name, None)?
        && let Ok(judged) = reranker.judge("hello", &["hello world"])
    {
        return finite(&judged);
    }
    let made = SentenceEncoder::open(staging, name, None)?.embed(&["hello world"])?;
    finite(&made.concat())
}

fn finite(numbers: &[f32]) -> Result<(), EmbedError> {
    if numbers.iter().all(|number| number.is_finite()) {
        return Ok(());
    }
    Err(EmbedError::Failed("it computes no numbers".into()))
}
