//! `hindcast mcp`.

use std::process::ExitCode;

use anyhow::Result;
use hindcast_services::Events;

use super::{print_text, serve::StopSignals, shed_the_start};
use crate::{
    config::Config,
    data_folder::DataFolder,
    install::{self, Outcome, Surroundings},
    options::{Mcp, McpCommand},
    wiring,
};

pub(super) fn run(config: &Config, mcp: Mcp) -> Result<ExitCode> {
    if let Some(command) = mcp.command {
        let surroundings = Surroundings::from_process()?;
        let outcome = match command {
            McpCommand::Install(arguments) => install::install(&arguments, &surroundings)?,
            McpCommand::Uninstall(arguments) => install::uninstall(&arguments, &surroundings)?,
        };
        print_text(outcome.text())?;
        return Ok(if matches!(outcome, Outcome::ClientNeeded(_)) {
            ExitCode::from(2)
        } else {
            ExitCode::SUCCESS
        });
    }
    let folder = DataFolder::open(&config.data_dir)?;
    let events = Events::default();
    let gateway = wiring::gateway(config, &folder, &events)?;
    let (knowledge, indexes) = wiring::knowledge(config, &folder, Some(gateway.clone()), &events)?;
    // The folder that the client started us in is the one it works on.
    let folders = std::env::current_dir().into_iter().collect();
    let engine = wiring::debug_engine(&config.debug)?;
    let app = wiring::app(config, gateway, knowledge.clone(), engine, events, folders)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        // An agent's host often ends its servers by a signal; what they debug must not be left half-way.
        let mut stop = StopSignals::new()?;
        let keeping_up = tokio::spawn(knowledge.clone().keep_up());
        tokio::spawn(shed_the_start());
        let served = tokio::select! {
            served = hindcast_server::serve_stdio(app.clone()) => served,
            () = stop.next() => Ok(()),
        };
        keeping_up.abort();
        knowledge.stop();
        app.end_debug_sessions().await;
        knowledge.finish().await?;
        drop(indexes);
        anyhow::Ok(served?)
    });
    // A blocked read of standard input must not keep the process.
    runtime.shutdown_background();
    served?;
    Ok(ExitCode::SUCCESS)
}
