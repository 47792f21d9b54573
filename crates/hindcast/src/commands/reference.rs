//! `hindcast reference`: the pages that are generated from the declarations.

use std::{path::Path, process::ExitCode};

use anyhow::{Context, Result};
use clap::CommandFactory;
use hindcast_services::Events;

use crate::{
    config::{self, Config},
    data_folder::DataFolder,
    options::Options,
    wiring,
};

pub(super) fn run(folder: &Path) -> Result<ExitCode> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for (name, text) in pages()? {
        let path = folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn pages() -> Result<Vec<(&'static str, String)>> {
    // The declarations do not depend on what is stored: an empty store in a passing folder will do.
    let passing = std::env::temp_dir().join(format!("hindcast-reference-{}", std::process::id()));
    let folder = DataFolder::open(&passing)?;
    let events = Events::default();
    let config = Config::default();
    let made = wiring::gateway(&config, &folder, &events).and_then(|gateway| {
        let (knowledge, _indexes) = wiring::knowledge(&config, &folder, None, &events)?;
        let app = wiring::app(
            &config,
            gateway,
            knowledge,
            wiring::debug_engine(&config.debug)?,
            events,
            Vec::new(),
        )?;
        Ok(hindcast_server::reference_pages(&app))
    });
    std::fs::remove_dir_all(&passing)?;
    let mut pages = made?;
    pages.push(("configuration.md", config::reference_markdown()));
    pages.push(("command-line.md", command_line()));
    Ok(pages)
}

fn command_line() -> String {
    let mut page = String::from(
        "# Command line\n\n<!-- Generated from the code by `cargo xtask docs`; do not edit. -->\n",
    );
    let mut root = Options::command().term_width(100);
    root.build();
    describe(&mut root, &mut page);
    page
}

fn describe(command: &mut clap::Command, page: &mut String) {
    if command.is_hide_set() || command.get_name() == "help" {
        return;
    }
    let name = command.get_bin_name().unwrap_or("hindcast").to_owned();
    let help = command.render_long_help().to_string();
    let help: Vec<_> = help.lines().map(str::trim_end).collect();
    page.push_str(&format!("\n## `{name}`\n\n```text\n{}\n```\n", help.join("\n").trim_end()));
    for inner in command.get_subcommands_mut() {
        describe(inner, page);
    }
}
