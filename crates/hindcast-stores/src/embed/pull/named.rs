//! Models by name: those that are offered, any of the hub, or one in a folder.

use std::{fs, path::Path};

use hindcast_core::{
    knowledge::{EmbedError, Embedder, Reranker},
    progress::Progress,
};

use super::{
    super::{CHECKPOINT, CrossEncoder, MINI_LM, SentenceEncoder, VOCABULARY},
    PullError, Staging,
    download::Downloader,
    file_error, hub, place,
};

/// What says how the network is built.
const CONFIGURATION: &str = "config.json";

/// What says how a text becomes a vector; not every model has all of them.
const MORE: [&str; 4] = [
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

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
    fs::create_dir_all(folder.join("1_Pooling")).map_err(file_error("make the folder", &folder))?;
    let origin = match from {
        Some(from) => {
            copy(from, &folder)?;
            from.display().to_string()
        }
        None if repository.split('/').count() == 2 => {
            download(repository, &folder, progress)?;
            format!("{}/{repository}", hub())
        }
        None => return Err(PullError::NoSuchModel(wanted.into())),
    };
    try_out(&staging.0, name)
        .map_err(|error| PullError::Unusable { name: name.into(), reason: error.to_string() })?;
    place(&staging.0, models, name)?;
    Ok(Pulled { name: name.into(), origin })
}

fn copy(from: &Path, folder: &Path) -> Result<(), PullError> {
    for file in [CONFIGURATION, VOCABULARY, CHECKPOINT].into_iter().chain(MORE) {
        let source = from.join(file);
        if source.is_file() {
            fs::copy(&source, folder.join(file)).map_err(file_error("copy", &source))?;
        } else if !MORE.contains(&file) {
            let reason = format!("there is no `{file}`");
            return Err(PullError::NoModel { path: from.into(), reason });
        }
    }
    Ok(())
}

fn download(repository: &str, folder: &Path, progress: &dyn Progress) -> Result<(), PullError> {
    let downloader = Downloader::new()?;
    let url = |file: &str| format!("{}/{repository}/resolve/main/{file}", hub());
    for file in MORE {
        downloader.save_if_there(&url(file), &folder.join(file), progress)?;
    }
    for file in [CONFIGURATION, VOCABULARY, CHECKPOINT] {
        downloader.save(&url(file), &folder.join(file), progress)?;
    }
    Ok(())
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
