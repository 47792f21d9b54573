//! `hindcast ui`: the page of the server on this machine, signed in by a ticket that opens once.

use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use hindcast_core::{Timestamp, identity::KeyRecord};
use hindcast_server::http::Ticket;
use hindcast_services::Events;

use super::{print_text, small_runtime};
use crate::{
    config::Config,
    data_folder::{DataFolder, keep_from_others},
    options::Ui,
    wiring,
};

pub(super) fn run(config: &Config, ui: &Ui) -> Result<ExitCode> {
    keep_from_others();
    let folder = DataFolder::existing(&config.data_dir)?;
    let address = std::fs::read_to_string(folder.page_address()).ok();
    let Some(address) = address.filter(|_| folder.is_served().unwrap_or(false)) else {
        bail!(
            "no server serves from `{}` · hint: start one with `hindcast serve`, or name its folder with `--data-dir`",
            config.data_dir.display()
        );
    };
    let gateway = wiring::gateway(config, &folder, &Events::default())?;
    let key = small_runtime()?.block_on(async {
        let key = chosen(gateway.list_keys().await?, ui.key.as_deref())?;
        gateway.record_operator("ui/ticket", &key.id.0).await?;
        anyhow::Ok(key)
    })?;
    let ticket =
        Ticket::leave(&folder.tickets(), &key.id).context("cannot leave a ticket in the data folder")?;
    let url = ticket.url(address.trim());
    if ui.print || !has_opened(&url) {
        print_text(&format!("{url}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The key that was named, or the only one that opens anything.
fn chosen(keys: Vec<KeyRecord>, named: Option<&str>) -> Result<KeyRecord> {
    let now = Timestamp::now();
    let mut good: Vec<_> = keys.into_iter().filter(|key| !key.has_ended(now)).collect();
    if let Some(id) = named {
        let found = good.into_iter().find(|key| &*key.id.0 == id);
        return found.with_context(|| {
            format!("no key `{id}` opens anything · hint: `hindcast keys list` shows them")
        });
    }
    match good.len() {
        0 => bail!(
            "there is no key to be signed in with · hint: make one with `hindcast keys create --name NAME`"
        ),
        1 => Ok(good.remove(0)),
        _ => {
            let listed: Vec<_> = good.iter().map(|key| format!("{} ({})", key.id.0, key.name)).collect();
            bail!("there are several keys: {} · hint: choose one with `--key ID`", listed.join(", "))
        }
    }
}

/// Whether a browser was asked to show it.
fn has_opened(url: &str) -> bool {
    let mut opener = Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" });
    opener.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    opener.status().is_ok_and(|ended| ended.success())
}
