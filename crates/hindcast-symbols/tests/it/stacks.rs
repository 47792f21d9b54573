//! Stacks of programs that really ran, unwound from their registers and memory alone.

use hindcast_fixtures::Fixture;
use hindcast_symbols::{FrameContext, Memory, Placement, Registers, Symbols, UnwindError, types::Types};

use crate::{
    snapshot::{Snapshot, StoppedFrame},
    support::loaded,
};

/// gdb's frames as `function`, innermost first, without those that are inlined.
fn functions_of_gdb(said: &str) -> Vec<String> {
    said.lines()
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            // `#1  0x… in f (…)`, or `#0  f (…)` where execution is at a line's beginning.
            let (_, plain) = line.split_once(char::is_whitespace).expect("a frame");
            let rest = line.split_once(" in ").map_or(plain.trim_start(), |(_, rest)| rest);
            rest.split(" (").next().expect("a function").to_owned()
        })
        .collect()
}

fn functions(symbols: &Symbols, frames: &[StoppedFrame<'_>]) -> Vec<String> {
    let mut names = Vec::new();
    for frame in frames {
        if frame.unwound.is_some_and(|unwound| unwound.signal_frame) {
            names.push("<signal handler called>".to_owned());
            continue;
        }
        for level in symbols.frames_at(frame.address) {
            names.push(level.function.unwrap_or_else(|| "??".to_owned()));
        }
    }
    names
}

#[test]
fn stacks_are_unwound_through_signals_as_gdb_does() {
    for flags in
        [&["-O0"] as &[&str], &["-O2"], &["-O2", "-fno-asynchronous-unwind-tables", "-gdwarf-4"], &["-Og"]]
    {
        let built = Fixture::c("signals").flags(["-static"]).flags(flags).build();
        let symbols = loaded(&built.path);
        let snapshot = Snapshot::take(&built.path, "handler", &["bt"]);
        let frames = snapshot.frames(&symbols);
        let theirs = functions_of_gdb(&snapshot.said);
        let ours = functions(&symbols, &frames);
        assert!(theirs.len() > 6, "{}", snapshot.said);
        // gdb stops at main; behind it are the functions that start a program.
        assert_eq!(ours[..theirs.len()], theirs, "{flags:?}");
        assert_eq!(ours.last().map(String::as_str), Some("_start"), "{flags:?}");
    }
}

#[test]
fn variables_of_every_frame_have_the_values_gdb_prints() {
    for flags in [&["-O0"] as &[&str], &["-Og"], &["-O1"], &["-O2"]] {
        let built = Fixture::c("signals").flags(["-static"]).flags(flags).build();
        let symbols = loaded(&built.path);
        let snapshot = Snapshot::take(&built.path, "handler", &["bt full"]);
        let mut compared = 0;
        let theirs = values_of_gdb(&snapshot.said);
        let mut index = 0;
        let frames = snapshot.frames(&symbols);
        for frame in &frames {
            if frame.unwound.is_some_and(|unwound| unwound.signal_frame) {
                index += 1;
                continue;
            }
            for level in symbols.frames_at(frame.address) {
                for variable in symbols.variables(&level) {
                    let is_int = symbols.get(variable.type_ref).is_some_and(|of| of.name == "int");
                    let expected = theirs.get(index).and_then(|frame| frame.get(&variable.name));
                    let Some(expected) = expected.filter(|_| is_int) else { continue };
                    let ours = match symbols.locate(&variable, frame) {
                        Ok(placement) => value(&placement, frame),
                        Err(error) => panic!("{}: {error}", variable.name),
                    };
                    assert_eq!(&ours, expected, "{} in frame {index} with {flags:?}", variable.name);
                    compared += 1;
                }
                index += 1;
            }
        }
        assert!(compared >= 8, "only {compared} variables with {flags:?}:\n{}", snapshot.said);
    }
}

fn value(placement: &Placement, frame: &StoppedFrame<'_>) -> String {
    let bytes = match placement {
        Placement::Memory(address) => match frame.memory().read_uint(*address, 4) {
            Ok(value) => value.to_le_bytes().to_vec(),
            Err(error) => return error.to_string(),
        },
        Placement::Register(register) => match frame.register(*register) {
            Some(bytes) => bytes,
            None => return "<optimized out>".to_owned(),
        },
        Placement::Bytes(bytes) => bytes.clone(),
        Placement::OptimisedOut => return "<optimized out>".to_owned(),
        other => return format!("{other:?}"),
    };
    let mut low = [0; 4];
    low.copy_from_slice(&bytes[..4]);
    i32::from_le_bytes(low).to_string()
}

/// `name = value` of each frame's arguments and locals.
fn values_of_gdb(said: &str) -> Vec<std::collections::HashMap<String, String>> {
    let mut frames = Vec::new();
    for line in said.lines() {
        if line.starts_with('#') {
            frames.push(std::collections::HashMap::new());
            let arguments = line
                .split_once('(')
                .and_then(|(_, rest)| rest.split_once(") at"))
                .map_or("", |(text, _)| text);
            for argument in arguments.split(", ") {
                add(&mut frames, argument);
            }
        } else {
            add(&mut frames, line.trim());
        }
    }
    frames
}

fn add(frames: &mut [std::collections::HashMap<String, String>], text: &str) {
    // `depth=depth@entry=2` says that both are the same.
    let (Some(frame), Some((name, _)), Some((_, value))) =
        (frames.last_mut(), text.split_once('='), text.rsplit_once('='))
    else {
        return;
    };
    let name = name.trim().trim_end_matches("@entry");
    frame.entry(name.to_owned()).or_insert_with(|| value.trim().to_owned());
}

struct Nothing;

impl Memory for Nothing {
    fn read(&self, address: u64, _: &mut [u8]) -> Result<(), hindcast_symbols::Unreadable> {
        Err(hindcast_symbols::Unreadable(address))
    }
}

#[test]
fn a_frame_that_nothing_tells_of_is_an_error_that_says_so() {
    let symbols = Symbols::new();
    let mut registers = Registers::new();
    assert_eq!(symbols.unwind(&registers, &Nothing, false), Err(UnwindError::NoPc));
    registers.set(16, Some(0x1234_5678));
    let error = symbols.unwind(&registers, &Nothing, false).expect_err("nothing is known");
    assert_eq!(error, UnwindError::NoInformation { pc: 0x1234_5678 });
    registers.set(16, Some(0));
    assert_eq!(symbols.unwind(&registers, &Nothing, true), Ok(None));
}

/// A few words of a stack.
struct Words(Vec<(u64, u64)>);

impl Memory for Words {
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), hindcast_symbols::Unreadable> {
        let word = self.0.iter().find(|(at, _)| *at == address);
        let &(_, value) = word.ok_or(hindcast_symbols::Unreadable(address))?;
        for (byte, from) in buffer.iter_mut().zip(value.to_le_bytes().iter().cycle()) {
            *byte = *from;
        }
        Ok(())
    }
}

#[test]
fn a_call_through_a_null_pointer_leads_back_to_its_caller() {
    let built = Fixture::c("calls").build();
    let symbols = loaded(&built.path);
    let caller = crate::support::mark(&symbols, &built, "loop_body");
    let mut registers = Registers::new();
    registers.set(16, Some(0));
    registers.set(7, Some(0x7000));
    let unwound = symbols.unwind(&registers, &Words(vec![(0x7000, caller)]), false).expect("a caller");
    let unwound = unwound.expect("a caller");
    assert_eq!((unwound.registers.pc(), unwound.cfa), (Some(caller), 0x7008));
}

#[test]
fn code_without_tables_is_unwound_by_its_frame_pointer() {
    let built = Fixture::c("calls").build();
    let symbols = loaded(&built.path);
    let caller = crate::support::mark(&symbols, &built, "loop_body");
    let mut registers = Registers::new();
    registers.set(16, Some(0x10_0000));
    registers.set(7, Some(0x7000));
    registers.set(6, Some(0x7020));
    let memory = Words(vec![(0x10_0000, 0), (0x7020, 0x7100), (0x7028, caller), (0x7000, 5)]);
    let unwound = symbols.unwind(&registers, &memory, false).expect("a caller").expect("a caller");
    assert_eq!((unwound.registers.pc(), unwound.registers.get(6)), (Some(caller), Some(0x7100)));
    // A caller below its callee cannot be.
    registers.set(6, Some(0x6000));
    assert!(matches!(symbols.unwind(&registers, &memory, false), Err(UnwindError::NoInformation { .. })));
}
