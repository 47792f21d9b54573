//! `cargo xtask bench dotnet`: sessions with .NET programs on both runtimes, against the time that the runtime itself takes.

mod attach;
mod debuggee;
mod figures;
mod report;
mod session;
mod start;
mod stops;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hindcast_fixtures::dotnet::{self, DotnetProgram, Runtime};

use super::{document, machine};
use crate::peers;
use crate::scratch::ScratchFolder;
use crate::workspace::{DIST, Profile, RELEASE, Workspace};
use figures::Figures;
use report::Results;

/// How to measure.
#[derive(Args)]
pub(crate) struct Options {
    /// Rounds on each runtime that count; one more goes before them
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Measure what `cargo build --release` makes, which takes less time to build
    #[arg(long)]
    release: bool,
    /// Print the section instead of writing it to docs/benchmarks.md
    #[arg(long)]
    print: bool,
}

/// Measures everything in one run, so that the ratios compare like with like.
pub(super) fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    peers::prepare_dotnet(workspace)?;
    let (profile, profile_name) =
        if options.release { (Profile::Release, RELEASE) } else { (Profile::Dist, DIST) };
    let binary = workspace.build_hindcast(profile)?;
    let scratch = ScratchFolder::create(workspace, "bench-dotnet")?;
    let runtimes = dotnet::runtimes();
    ensure!(!runtimes.is_empty(), "there are no .NET runtimes");
    let bench = Bench {
        binary,
        data: scratch.path().join("data"),
        begin: dotnet::program("Begin"),
        hello: dotnet::program("Hello"),
        values: dotnet::program("Values"),
        server: dotnet::program("Server"),
    };
    let watch = machine::TreeWatch::start()?;
    let results = Results {
        machine: machine::describe_with(profile_name)?,
        rounds: options.rounds,
        is_release: options.release,
        figures: bench.measure(&runtimes, options.rounds)?,
        neighbours_share: watch.share()?,
    };
    let section = results.section();
    println!("\n{section}");
    if options.print {
        return Ok(());
    }
    document::write_section(workspace, "dotnet", &section)
}

/// What is measured, and with what.
struct Bench {
    binary: PathBuf,
    data: PathBuf,
    /// Writes a line first thing in `Main`.
    begin: DotnetProgram,
    /// Steps in a loop, with a few variables.
    hello: DotnetProgram,
    /// Has a frame full of collections.
    values: DotnetProgram,
    /// Runs until it is told to end.
    server: DotnetProgram,
}

impl Bench {
    /// The runtimes take turns, so that a busy neighbour disturbs both alike.
    fn measure(&self, runtimes: &[Runtime], rounds: u16) -> Result<Vec<Figures>> {
        let mut all: Vec<Figures> = runtimes.iter().map(|runtime| Figures::new(runtime.version)).collect();
        // One round more than asked for: the first only warms the caches.
        for round in 0..=rounds {
            for (runtime, figures) in runtimes.iter().zip(&mut all) {
                let measured = self.round(runtime).with_context(|| format!("on .NET {}", runtime.version))?;
                println!("round {round}: {}", measured.summary());
                if round > 0 {
                    figures.append(measured);
                }
            }
        }
        Ok(all)
    }

    fn round(&self, runtime: &Runtime) -> Result<Figures> {
        let mut figures = Figures::new(runtime.version);
        start::measure(self, runtime, &mut figures)?;
        stops::measure(self, runtime, &mut figures)?;
        attach::measure(self, runtime, &mut figures)?;
        Ok(figures)
    }
}
