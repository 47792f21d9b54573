//! What would have happened: two copies of a past moment go on, one of them with a change.

use std::{rc::Rc, time::Duration};

use hindcast_core::debug::{
    CallValue, DebugError, Evaluation, FrameRef, Location, Moment, NumberFormat, Place, PrintedDifference,
    Reason, Remedy, TrialEnding, TrialRun, ValueLimits, Variable, WhatIf, WhatIfQuestion,
};
use hindcast_symbols::names::cut;

use super::{
    Session, movement, system,
    travel::{Departure, Halted, function_around},
};
use crate::{
    look::{self, Write},
    replay::{Inputs, Over, Position, Printed, Replica, Trial, TrialEnd},
    sys::signal_name,
};

/// So much of what was printed last is told.
const LAST_PRINTED: usize = 600;
const MOST_FRAMES: u32 = 6;
const LONGEST_VALUE: usize = 200;

/// A question that is being answered.
pub(super) struct Experiment {
    question: WhatIfQuestion,
    position: Position,
    location: Location,
    stops: Vec<u64>,
    /// Without a change, until it is over.
    control: Option<Trial>,
    unchanged: Option<(Told, Rc<Inputs>)>,
    /// With it.
    changed: Option<Trial>,
    notes: Vec<String>,
}

/// How a copy went on.
struct Told {
    run: TrialRun,
    printed: Printed,
    notes: Vec<String>,
}

impl Session {
    /// Goes on from a moment with a change and without. A question that was interrupted goes on where it was.
    pub(super) fn what_if(&mut self, question: &WhatIfQuestion) -> Result<WhatIf, Halted> {
        let known = self.experiment.take().filter(|known| known.question == *question);
        let mut experiment = match known {
            Some(experiment) => experiment,
            None => Box::new(self.begin_experiment(question)?),
        };
        match self.compare_runs(&mut experiment) {
            Err(Halted::Interrupted) => {
                self.experiment = Some(experiment);
                Err(Halted::Interrupted)
            }
            result => result,
        }
    }

    fn begin_experiment(&mut self, question: &WhatIfQuestion) -> Result<Experiment, Halted> {
        self.history()?;
        let position = match question.moment.as_ref().map(|moment| (moment, moment.0.trim())) {
            None => {
                let Departure { position, gap, .. } = self.departure()?;
                if let Some(gap) = gap {
                    return Err(super::writes::behind_the_end(&gap, &position).into());
                }
                position
            }
            Some((_, "start")) => self.first()?,
            Some((_, "present")) => self.last()?,
            Some((moment, _)) => self.moment_named(moment)?,
        };
        if question.set.is_empty() && !question.skip_line && question.returns.is_none() {
            let reason = Reason::new("no change is named");
            return Err(DebugError::Expression(reason.advise("give `set`, `skip_line` or `returns`")).into());
        }
        self.land(&position)?;
        if self.process.threads().len() > 1 {
            let reason =
                Reason::new("the program has several threads at that moment, and a copy has only one");
            let reason = reason.advise("choose a moment before the others were started");
            return Err(DebugError::Unsupported(reason.remedy(Remedy::ListMoments)).into());
        }
        let stops = self.stops_of(question.until.as_ref())?;
        let location = self.place_now();
        let time = Duration::from_millis(question.time_ms);
        let replica = self.replica_at(&position)?;
        let trial = self.process.begin_trial(replica, &stops, time, None)?;
        Ok(Experiment {
            question: question.clone(),
            position,
            location,
            stops,
            control: Some(trial),
            unchanged: None,
            changed: None,
            notes: Vec::new(),
        })
    }

    fn compare_runs(&mut self, experiment: &mut Experiment) -> Result<WhatIf, Halted> {
        let question = &experiment.question;
        if let Some(mut trial) = experiment.control.take() {
            let end = match self.process.run_trial(&mut trial) {
                Ok(end) => end,
                Err(error) => {
                    experiment.control = Some(trial);
                    return Err(error.into());
                }
            };
            experiment.unchanged = Some(self.tell(question, &experiment.position, trial.over(), &end)?);
        }
        let Some((unchanged, inputs)) = &experiment.unchanged else {
            return Err(DebugError::System("a copy has not ended".into()).into());
        };
        let mut trial = match experiment.changed.take() {
            Some(trial) => trial,
            None => {
                let replica = self.replica_at(&experiment.position)?;
                let replica =
                    self.with_changes(question, &experiment.position, replica, &mut experiment.notes)?;
                let time = Duration::from_millis(question.time_ms);
                self.process.begin_trial(replica, &experiment.stops, time, Some(inputs.clone()))?
            }
        };
        let end = match self.process.run_trial(&mut trial) {
            Ok(end) => end,
            Err(error) => {
                experiment.changed = Some(trial);
                return Err(error.into());
            }
        };
        let (changed, _) = self.tell(question, &experiment.position, trial.over(), &end)?;
        let printed = PrintedDifference::between(&changed.printed.bytes, &unchanged.printed.bytes);
        let differs = (changed.run.end, &changed.run.detail, &changed.run.values)
            != (unchanged.run.end, &unchanged.run.detail, &unchanged.run.values)
            || !changed.printed.equals(&unchanged.printed);
        let mut notes = experiment.notes.clone();
        notes.extend(changed.notes.iter().cloned());
        if unchanged.run.end == TrialEnding::Unknown && self.process.live_ended().is_none() {
            notes.push("let the program run to its end first: its recording then has more answers".into());
        }
        if printed.is_none() && !changed.printed.equals(&unchanged.printed) {
            notes.push("what they print differs behind the part that is kept".into());
        }
        Ok(WhatIf {
            moment: Moment(experiment.position.to_string()),
            location: experiment.location.clone(),
            differs,
            changed: changed.run,
            unchanged: unchanged.run.clone(),
            printed,
            notes,
        })
    }

    fn replica_at(&mut self, position: &Position) -> Result<Replica, Halted> {
        let symbols = &self.symbols;
        Ok(self.process.replica_of(position, &|address| function_around(symbols, address))?)
    }

    fn stops_of(&self, until: Option<&Place>) -> Result<Vec<u64>, DebugError> {
        let Some(place) = until else { return Ok(Vec::new()) };
        let resolved = self.resolve(place);
        let stops: Vec<_> = resolved.addresses().collect();
        if stops.is_empty() {
            let nothing = || Reason::new(format!("there is no code at `{}`", cut(&place.to_string())));
            let note = resolved.note.unwrap_or_else(nothing);
            return Err(DebugError::Expression(note));
        }
        Ok(stops)
    }

    /// Where the program stands now: the innermost statement of its own.
    pub(super) fn place_now(&self) -> Location {
        let frames = self.walk(self.process.acting(), MOST_FRAMES);
        let frames = frames.map(|walk| self.with_scene(|scene| walk.frames(scene))).unwrap_or_default();
        let own = frames.iter().find(|frame| !frame.location.library && frame.location.file.is_some());
        own.or(frames.first()).map(|frame| frame.location.clone()).unwrap_or_default()
    }

    /// Carries out what is to be changed in a replica.
    fn with_changes(
        &mut self,
        question: &WhatIfQuestion,
        position: &Position,
        replica: Replica,
        notes: &mut Vec<String>,
    ) -> Result<Replica, Halted> {
        let before = self.process.look_at(replica, position);
        let changed = self.change(question, notes);
        let replica = self.process.look_back(before);
        changed?;
        replica.ok_or_else(|| DebugError::System("a copy of the program is missing".into()).into())
    }

    fn change(&mut self, question: &WhatIfQuestion, notes: &mut Vec<String>) -> Result<(), DebugError> {
        for text in &question.set {
            let evaluated = self.evaluated(text, question.frame.index, true)?;
            let write = evaluated.1.ok_or_else(|| {
                let reason = Reason::new(format!("`{text}` is no assignment"));
                DebugError::Expression(reason.advise("write it as `count = 3`"))
            })?;
            self.write_to_copy(&write)?;
        }
        if question.skip_line {
            self.skip_line(notes)?;
        }
        match &question.returns {
            Some(value) => self.return_early(value),
            None => Ok(()),
        }
    }

    fn evaluated(
        &self,
        text: &str,
        frame: u32,
        may_write: bool,
    ) -> Result<(Variable, Option<Write>), DebugError> {
        let tid = self.process.acting();
        let evaluation = Evaluation {
            expression: text.to_owned(),
            frame: FrameRef::of(movement::thread_id(tid), frame),
            limits: ValueLimits::default(),
            format: NumberFormat::default(),
            may_write,
            allow_calls: None,
        };
        let shown = self.with_scope(tid, frame, |scope| look::evaluate(scope, &evaluation))??;
        Ok((shown.shown, shown.write))
    }

    fn write_to_copy(&mut self, write: &Write) -> Result<(), DebugError> {
        match write {
            Write::Memory { address, bytes } => self
                .process
                .write_to_copy(*address, bytes)
                .map_err(|_| DebugError::Expression(format!("cannot write memory at {address:#x}").into())),
            Write::Register { name, offset, bytes } => {
                let refused = || DebugError::Expression(format!("`{name}` cannot be written").into());
                let mut registers = self.process.registers(self.process.acting()).map_err(system)?;
                let mut wide = registers.get(name).ok_or_else(refused)?.to_le_bytes();
                let from = *offset as usize;
                wide.get_mut(from..from + bytes.len()).ok_or_else(refused)?.copy_from_slice(bytes);
                registers.set(name, u64::from_le_bytes(wide));
                self.process.set_registers_of_copy(&registers).map_err(system)
            }
        }
    }

    /// Goes to the end of the line's code that the program stands in.
    fn skip_line(&mut self, notes: &mut Vec<String>) -> Result<(), DebugError> {
        let mut registers = self.process.registers(self.process.acting()).map_err(system)?;
        let unknown = || {
            let reason = Reason::new("where this line ends is not known");
            DebugError::Unsupported(reason.advise("use `returns`, or choose a moment in code with lines"))
        };
        let line = self.symbols.line_at(registers.pc()).ok_or_else(unknown)?;
        let function = function_around(&self.symbols, registers.pc()).ok_or_else(unknown)?;
        let mut end = line.range.end;
        while let Some(next) = self.symbols.line_at(end)
            && (&next.file, next.line) == (&line.file, line.line)
            && next.range.end > end
        {
            end = next.range.end;
        }
        if !function.contains(&end) {
            return Err(unknown());
        }
        let pieces = line.file.as_deref().map(|file| self.symbols.addresses_of_line(file, line.line));
        if pieces.is_some_and(|found| found.targets.len() > 1) {
            notes.push("the code of the line is in several places: only this one was left out".into());
        }
        registers.set("rip", end);
        self.process.set_registers_of_copy(&registers).map_err(system)
    }

    fn return_early(&mut self, value: &str) -> Result<(), DebugError> {
        const NAMES: [&str; 17] = [
            "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
            "r14", "r15", "rip",
        ];
        let refused =
            |why: &str| DebugError::Unsupported(Reason::new(why).advise("use `set` or `skip_line`"));
        let value = match value.trim() {
            "" => None,
            text => Some(self.number(text)?),
        };
        let mut registers = self.process.registers(self.process.acting()).map_err(system)?;
        if self.symbols.frames_at(registers.pc()).len() > 1 {
            return Err(refused("the function is inlined into its caller and does not return"));
        }
        let known = hindcast_symbols::Registers::all(registers.dwarf());
        let unwound = self.symbols.unwind(&known, &self.process.memory(), false).ok().flatten();
        let unwound = unwound.filter(|unwound| !unwound.signal_frame);
        let unwound = unwound.ok_or_else(|| refused("where this function returns to is not known"))?;
        for (number, name) in (0..).zip(NAMES) {
            if let Some(value) = unwound.registers.get(number) {
                registers.set(name, value);
            }
        }
        registers.set("rsp", unwound.cfa);
        if let Some(value) = value {
            registers.set("rax", value);
        }
        self.process.set_registers_of_copy(&registers).map_err(system)
    }

    /// A value that fits into a register.
    fn number(&self, text: &str) -> Result<u64, DebugError> {
        let (shown, _) = self.evaluated(text, 0, false)?;
        let word = shown.value.split_whitespace().next().unwrap_or_default();
        let parsed = match (word, word.strip_prefix("0x")) {
            ("true", _) => Some(1),
            ("false", _) => Some(0),
            (_, Some(digits)) => u64::from_str_radix(digits, 16).ok(),
            _ => word.parse::<i128>().ok().map(|number| number as u64),
        };
        parsed.ok_or_else(|| {
            let reason = Reason::new(format!("`{text}` is no number: {}", shown.value));
            DebugError::Unsupported(reason.advise("return a number, a pointer or a bool"))
        })
    }

    /// Looks at a copy where it ended. The inputs of its calls are given back.
    fn tell(
        &mut self,
        question: &WhatIfQuestion,
        position: &Position,
        over: Over,
        end: &TrialEnd,
    ) -> Result<(Told, Rc<Inputs>), Halted> {
        let Over { replica, printed, inputs, notes } = over;
        let before = self.process.look_at(replica, position);
        let run = self.told_run(question, &printed, end);
        self.process.look_back(before);
        Ok((Told { run: run?, printed, notes }, inputs))
    }

    fn told_run(
        &mut self,
        question: &WhatIfQuestion,
        printed: &Printed,
        end: &TrialEnd,
    ) -> Result<TrialRun, DebugError> {
        let walk = self.walk(self.process.acting(), MOST_FRAMES)?;
        let frames = self.with_scene(|scene| walk.frames(scene));
        let own = frames.iter().find(|frame| !frame.location.library && frame.location.file.is_some());
        let index = own.map_or(0, |frame| frame.index);
        let shown = |text: &String| {
            let value = match self.evaluated(text, index, false) {
                Ok((shown, _)) => shown.value,
                Err(error) => format!("? ({error})"),
            };
            let value = value.chars().take(LONGEST_VALUE).collect();
            CallValue { name: text.clone(), value }
        };
        let values = question.show.iter().map(shown).collect();
        let (ending, detail) = described(end, question.until.as_ref());
        let bytes = &printed.bytes;
        let last = bytes.len().saturating_sub(LAST_PRINTED);
        Ok(TrialRun {
            end: ending,
            detail,
            location: own.map(|frame| frame.location.clone()),
            stack: frames.iter().map(|frame| frame.location.in_words()).collect(),
            printed_bytes: printed.length,
            output: String::from_utf8_lossy(&bytes[last..]).into_owned(),
            values,
        })
    }
}

fn described(end: &TrialEnd, until: Option<&Place>) -> (TrialEnding, String) {
    match end {
        TrialEnd::Exited(code) => (TrialEnding::Exited, format!("exited with code {code}")),
        TrialEnd::Signal(details) => {
            let address = details.address.filter(|_| details.code > 0);
            let address = address.map(|address| format!(" at address {address:#x}")).unwrap_or_default();
            (TrialEnding::Signal, format!("ended by {}{address}", signal_name(details.signal)))
        }
        TrialEnd::Arrived => {
            let place = until.map(|place| format!(" {place}")).unwrap_or_default();
            (TrialEnding::Until, format!("came to{place}"))
        }
        TrialEnd::Unknown(what) => (
            TrialEnding::Unknown,
            format!(
                "asked the system for {what}, whose answer is not in the recording: nobody knows how it went on"
            ),
        ),
        TrialEnd::OutOfTime => (TrialEnding::Time, "computed for longer than `time_ms` allows".into()),
    }
}
