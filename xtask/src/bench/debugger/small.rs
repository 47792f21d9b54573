//! A small C program: how long an agent waits for each of the usual calls, and how much it has to read.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use hindcast_fixtures::Fixture;

use super::Contender;
use super::contender::{Inspector, Place, Program};
use crate::bench::conversation::Answer;
use crate::bench::machine::TreeWatch;
use crate::bench::series::Series;

/// Steps in one round, each followed by a look at the variables. From the second hit in the loop this many stay within
/// `main` and before its output.
const STEPS: usize = 12;

/// The answers whose sizes are compared, in the order of [`Figures::sizes`].
pub(super) const ANSWERS: [&str; 5] = ["launch", "continue", "step", "stack", "locals"];

/// Bytes of an answer.
#[derive(Clone, Copy)]
pub(super) struct Size {
    /// What a model reads of it.
    pub(super) text: usize,
    /// With its frame.
    pub(super) all: usize,
}

/// What was measured of one contender.
pub(super) struct Figures {
    /// What the table calls it.
    pub(super) name: &'static str,
    /// From the start of the process until it answers.
    pub(super) ready: Series,
    /// From the start of the process until variables at the first stop.
    pub(super) stop_from_start: Series,
    /// From the request to launch until then.
    pub(super) stop_from_launch: Series,
    /// One step over a line.
    pub(super) step: Series,
    /// Local variables at a place not seen before.
    pub(super) locals: Series,
    /// The list of tools, where there is one.
    pub(super) tools_list: Option<Size>,
    /// Largest of each of [`ANSWERS`].
    pub(super) sizes: [Size; ANSWERS.len()],
    /// Which share of the processor other programs took at worst.
    pub(super) neighbours_share: f64,
}

/// Measures all of them, taking turns, so that a busy neighbour disturbs all alike.
pub(super) fn measure(
    contenders: &[Contender<'_, dyn Inspector>],
    repetitions: usize,
) -> Result<Vec<Figures>> {
    let built = Fixture::c("calls").build();
    // As the kernel and debuggers show it: without `..`.
    let path = built.path.canonicalize().with_context(|| format!("cannot find {}", built.path.display()))?;
    let program = Program { path, arguments: Vec::new() };
    let place = Place::Line { file: built.source_text(), line: built.line("loop_body") };
    let mut all: Vec<Option<Figures>> = contenders.iter().map(|_| None).collect();
    // One round more than asked for: the first only warms the caches.
    for repetition in 0..=repetitions {
        for (contender, figures) in contenders.iter().zip(&mut all) {
            let round = measure_round(contender, &program, &place)
                .with_context(|| format!("{} on the small program", contender.name))?;
            println!(
                "{}, round {repetition}: ready {:.1} ms, first stop {:.1} ms, step {:.2} ms, locals {:.2} ms, {:.0} % taken by neighbours",
                contender.name,
                round.ready.median(),
                round.stop_from_launch.median(),
                round.step.median(),
                round.locals.median(),
                round.neighbours_share * 100.0,
            );
            if repetition > 0 {
                match figures {
                    Some(figures) => figures.append(round),
                    None => *figures = Some(round),
                }
            }
        }
    }
    Ok(all.into_iter().flatten().collect())
}

fn measure_round(
    contender: &Contender<'_, dyn Inspector>,
    program: &Program,
    place: &Place,
) -> Result<Figures> {
    let watch = TreeWatch::start()?;
    let (mut ready, mut stop_from_start, mut stop_from_launch) =
        (Series::default(), Series::default(), Series::default());
    let start = Instant::now();
    let mut debugger = (contender.start)()?;
    ready.push(start.elapsed());
    let launch = Instant::now();
    let launched = debugger.run_to(program, place)?;
    let stack = debugger.stack()?;
    let first_locals = debugger.locals()?;
    stop_from_launch.push(launch.elapsed());
    stop_from_start.push(start.elapsed());
    mentions(&stack, "main")?;
    mentions(&first_locals, "sum")?;

    let continued = debugger.continue_to_stop()?;
    let (mut step, mut locals) = (Series::default(), Series::default());
    let mut sizes = [size(&launched), size(&continued), size(&stack), size(&stack), size(&first_locals)];
    sizes[2] = Size { text: 0, all: 0 };
    for _ in 0..STEPS {
        let stepped = step.time(|| debugger.step_over())?;
        let seen = locals.time(|| debugger.locals())?;
        mentions(&seen, "sum")?;
        sizes[2] = sizes[2].max(size(&stepped));
        sizes[4] = sizes[4].max(size(&seen));
    }
    let tools_list = debugger.tools_list()?.as_ref().map(size);
    let neighbours_share = watch.share()?;
    let name = contender.name;
    Ok(Figures {
        name,
        ready,
        stop_from_start,
        stop_from_launch,
        step,
        locals,
        tools_list,
        sizes,
        neighbours_share,
    })
}

/// A quick answer that is not one would win every comparison.
fn mentions(answer: &Answer, word: &str) -> Result<()> {
    if !answer.text.contains(word) {
        bail!("`{word}` is missing in `{}`", answer.text);
    }
    Ok(())
}

fn size(answer: &Answer) -> Size {
    Size { text: answer.text.len(), all: answer.bytes }
}

impl Size {
    fn max(self, other: Self) -> Self {
        if other.all > self.all { other } else { self }
    }
}

impl Figures {
    fn append(&mut self, round: Self) {
        self.ready.append(round.ready);
        self.stop_from_start.append(round.stop_from_start);
        self.stop_from_launch.append(round.stop_from_launch);
        self.step.append(round.step);
        self.locals.append(round.locals);
        for (size, other) in self.sizes.iter_mut().zip(round.sizes) {
            *size = size.max(other);
        }
        self.neighbours_share = self.neighbours_share.max(round.neighbours_share);
    }
}
