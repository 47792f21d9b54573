//! `hindcast license`.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result, bail};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use hindcast_core::{
    Timestamp,
    license::{Feature, LicenseFile, LicenseTerms},
};
use hindcast_services::Events;

use super::{print_json, print_text, small_runtime};
use crate::{
    config::Config,
    data_folder::{self, DataFolder},
    options::{IssueLicense, Json, License},
    wiring,
};

pub(super) fn run(config: &Config, license: License) -> Result<ExitCode> {
    match license {
        License::Show(output) => show(config, output)?,
        License::Install { file } => install(config, &file)?,
        License::Keygen { file } => keygen(&file)?,
        License::Issue(request) => issue(request)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(config: &Config, output: Json) -> Result<()> {
    let folder = DataFolder::open(&config.data_dir)?;
    let view = wiring::gateway(config, &folder, &Events::default())?.license();
    if output.json {
        return print_json(&serde_json::to_value(view)?);
    }
    let features: Vec<_> = view.features.iter().map(|feature| feature.name()).collect();
    let mut text = format!("type      {}\nfeatures  {}\n", view.kind, features.join(", "));
    if let Some(licensee) = view.licensee {
        text += &format!("licensee  {licensee}\n");
    }
    text += &format!("expires   {}\n", view.expires_at.map_or("never".into(), |end| end.to_string()));
    if let Some(notice) = view.notice {
        text += &format!("notice    {notice}\n");
    }
    print_text(&text)
}

fn install(config: &Config, file: &Path) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read `{}`", file.display()))?;
    let license: LicenseFile =
        serde_json::from_str(&text).with_context(|| format!("`{}` is not a license file", file.display()))?;
    let terms = license.verify(&config.license.issuers)?;
    let folder = DataFolder::open(&config.data_dir)?;
    match wiring::postgres_store(config, &folder)? {
        Some(store) => small_runtime()?.block_on(store.install_license(&text))?,
        None => folder.keep_license(&text)?,
    }
    let end = terms.expires_at.map_or("does not expire".into(), |end| format!("expires at {end}"));
    print_text(&format!(
        "installed: {} for {}, {end}; a running server uses it after a restart\n",
        terms.kind, terms.licensee
    ))
}

fn keygen(file: &Path) -> Result<()> {
    if file.exists() {
        bail!(
            "`{}` exists already · hint: choose another name; a lost issuer key cannot be replaced",
            file.display()
        );
    }
    let key = data_folder::new_key(file).with_context(|| format!("cannot write `{}`", file.display()))?;
    print_text(&format!("{}\n", BASE64_STANDARD.encode(key.verifying_key().as_bytes())))
}

fn issue(request: IssueLicense) -> Result<()> {
    let key = data_folder::read_key(&request.key)
        .with_context(|| format!("cannot read the issuer key `{}`", request.key.display()))?;
    let features = if request.features.is_empty() {
        Feature::ALL.to_vec()
    } else {
        request.features.iter().map(|name| feature(name)).collect::<Result<_>>()?
    };
    let terms = LicenseTerms {
        kind: request.kind,
        licensee: request.licensee,
        features,
        issued_at: Timestamp::now(),
        expires_at: request.expires,
    };
    print_text(&format!("{}\n", serde_json::to_string_pretty(&LicenseFile::issue(&terms, &key))?))
}

fn feature(name: &str) -> Result<Feature> {
    Feature::ALL.into_iter().find(|feature| feature.name() == name).with_context(|| {
        let known: Vec<_> = Feature::ALL.iter().map(|feature| feature.name()).collect();
        format!("unknown feature `{name}` · hint: use one of {}", known.join(", "))
    })
}
