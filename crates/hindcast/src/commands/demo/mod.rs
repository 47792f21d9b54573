//! `hindcast demo`: a program that corrupts its own memory, and who did it.

mod story;

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
};

use anyhow::{Context, Result, bail};

use super::{recorded_runtime, serve::StopSignals};
use crate::{config::Config, wiring};
use story::{Scenery, Teller};

/// A program that writes beyond an array over the pointer behind it, in one language.
struct Sample {
    compiler: &'static str,
    arguments: &'static [&'static str],
    file: &'static str,
    text: &'static str,
    /// The pointer that is overwritten, as seen where the program dies of it.
    expression: &'static str,
}

const SAMPLES: [Sample; 2] = [
    Sample {
        compiler: "cc",
        arguments: &["-g", "-O0"],
        file: "overrun.c",
        text: include_str!("overrun.c"),
        expression: "account->currency",
    },
    Sample {
        compiler: "rustc",
        arguments: &["-g", "-C", "opt-level=0"],
        file: "overrun.rs",
        text: include_str!("overrun.rust.txt"),
        expression: "(*account).currency",
    },
];

pub(super) fn run(config: &Config) -> Result<ExitCode> {
    let folder = tempfile::Builder::new().prefix("hindcast-demo-").tempdir()?;
    let (sample, program) = compile(folder.path())?;
    let service = wiring::debug_service(
        config,
        wiring::debug_engine(&config.debug)?,
        hindcast_services::Events::default(),
    )?;
    let scenery = Scenery {
        program,
        compiled: format!("{} {}", sample.compiler, sample.arguments.join(" ")),
        source: sample.text.to_owned(),
        expression: sample.expression.to_owned(),
    };
    recorded_runtime()?.block_on(async {
        let mut stop = StopSignals::new()?;
        let mut teller = Teller::new(std::io::stdout());
        let told = tokio::select! {
            told = story::tell(&service, &scenery, &mut teller) => told,
            () = stop.next() => Ok(false),
        };
        service.end_all().await;
        Ok(if told? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

/// Compiles the first sample for which there is a compiler.
fn compile(folder: &Path) -> Result<(&'static Sample, PathBuf)> {
    for sample in &SAMPLES {
        let source = folder.join(sample.file);
        std::fs::write(&source, sample.text)
            .with_context(|| format!("cannot write `{}`", source.display()))?;
        let program = folder.join("overrun");
        let mut compiler = Command::new(sample.compiler);
        compiler.args(sample.arguments).arg("-o").arg(&program).arg(&source).current_dir(folder);
        match compiler.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => return Ok((sample, program)),
            Ok(output) => {
                let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
                bail!("`{}` cannot compile the sample program: {complaint}", sample.compiler);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("cannot run `{}`", sample.compiler)),
        }
    }
    bail!("there is no compiler for the sample program · hint: install `gcc` or `clang`, or Rust")
}
