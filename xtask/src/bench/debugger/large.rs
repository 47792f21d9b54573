//! A large program, ourselves with full debug information: how long it takes to the first stop, and how much memory.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};

use super::Contender;
use super::contender::{Debugger, Place, Program};
use crate::bench::machine::TreeWatch;
use crate::bench::process_tree;
use crate::bench::series::Series;
use crate::workspace::Workspace;

const FUNCTION: &str = "hindcast::main";
const SOURCE: &str = "crates/hindcast/src/main.rs";
/// `--version` ends the program within this line, so nothing behind it is reached.
const LINE: &str = "options::Options::parse()";

/// What was measured of one contender.
pub(super) struct Figures {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// To a breakpoint by function.
    pub(super) by_function: Reached,
    /// To a breakpoint by file and line.
    pub(super) by_line: Reached,
    /// Which share of the processor other programs took at worst.
    pub(super) neighbours_share: f64,
}

/// How a breakpoint was reached.
#[derive(Default)]
pub(super) struct Reached {
    /// From the start of the debugger's process.
    pub(super) time: Series,
    /// Of all processes of the debugger, in kB, at most.
    pub(super) peak_memory: u64,
}

/// Measures all of them, taking turns, so that a busy neighbour disturbs all alike.
pub(super) fn measure(
    workspace: &Workspace,
    binary: &Path,
    contenders: &[Contender<'_, dyn Debugger>],
    repetitions: usize,
) -> Result<Vec<Figures>> {
    let path = binary.canonicalize().with_context(|| format!("cannot find {}", binary.display()))?;
    let program = Program { path, arguments: vec!["--version".to_owned()] };
    let function = Place::Function(FUNCTION.to_owned());
    let line = line_place(workspace)?;
    let mut all: Vec<Figures> = contenders.iter().map(|contender| Figures::new(contender.name)).collect();
    // One round more than asked for: the first only warms the caches.
    for repetition in 0..=repetitions {
        for (contender, figures) in contenders.iter().zip(&mut all) {
            let mut round = Figures::new(contender.name);
            for (reached, place) in [(&mut round.by_function, &function), (&mut round.by_line, &line)] {
                let share = reach(contender, &program, place, reached)
                    .with_context(|| format!("{} on the large program", contender.name))?;
                round.neighbours_share = round.neighbours_share.max(share);
            }
            println!(
                "{}, round {repetition}: by function {:.1} ms, {} kB, by line {:.1} ms, {} kB, {:.0} % taken by neighbours",
                contender.name,
                round.by_function.time.median(),
                round.by_function.peak_memory,
                round.by_line.time.median(),
                round.by_line.peak_memory,
                round.neighbours_share * 100.0,
            );
            if repetition > 0 {
                figures.append(round);
            }
        }
    }
    Ok(all)
}

/// Returns the neighbours' share.
fn reach(
    contender: &Contender<'_, dyn Debugger>,
    program: &Program,
    place: &Place,
    reached: &mut Reached,
) -> Result<f64> {
    let watch = TreeWatch::start()?;
    let begin = Instant::now();
    let mut debugger = (contender.start)()?;
    debugger.run_to(program, place)?;
    reached.time.push(begin.elapsed());
    let process = debugger.conversation().process();
    reached.peak_memory = process_tree::peak_memory_without(process, &program.path)?;
    watch.share()
}

fn line_place(workspace: &Workspace) -> Result<Place> {
    let source = workspace.root.join(SOURCE);
    let text = std::fs::read_to_string(&source).with_context(|| format!("cannot read {SOURCE}"))?;
    let line = (1..).zip(text.lines()).find(|(_, text)| text.contains(LINE));
    let (line, _) = line.with_context(|| format!("{SOURCE} no longer contains `{LINE}`"))?;
    Ok(Place::Line { file: source.display().to_string(), line })
}

impl Figures {
    fn new(name: &'static str) -> Self {
        Self { name, by_function: Reached::default(), by_line: Reached::default(), neighbours_share: 0.0 }
    }

    fn append(&mut self, round: Self) {
        self.by_function.append(round.by_function);
        self.by_line.append(round.by_line);
        self.neighbours_share = self.neighbours_share.max(round.neighbours_share);
    }
}

impl Reached {
    fn append(&mut self, round: Self) {
        self.time.append(round.time);
        self.peak_memory = self.peak_memory.max(round.peak_memory);
    }
}
