//! Wide registers, now, in the past and in core files.

use hindcast_core::debug::{
    CoreRequest, DebugBackend, DebugEngine as _, FrameRef, Movement, Outcome, Register, RegisterSet,
};
use hindcast_fixtures::Fixture;
use hindcast_native::NativeEngine;

use crate::{debuggee::Debuggee, gdb};

/// The first bytes of the fixture's pattern, as a number.
fn pattern(bytes: u8) -> String {
    let digits: String = (1..=bytes).rev().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{digits}")
}

fn vectors(backend: &mut dyn DebugBackend, frame: FrameRef) -> Vec<Register> {
    let raw = backend.registers().expect("it has registers");
    raw.registers(frame, RegisterSet::Vector).expect("they can be read")
}

fn value<'a>(registers: &'a [Register], name: &str) -> Option<&'a str> {
    let register = registers.iter().find(|register| register.name == name);
    register.unwrap_or_else(|| panic!("no {name} among {registers:?}")).value.as_deref()
}

fn check_wide(registers: &[Register]) {
    assert_eq!(value(registers, "zmm5"), Some(&*pattern(64)));
    assert_eq!(value(registers, "zmm20"), Some(&*pattern(64)));
    assert_eq!(value(registers, "ymm5"), Some(&*pattern(32)));
    assert_eq!(value(registers, "k3"), Some("0x123456789abcdef0"));
}

#[test]
fn zmm_and_k_registers_are_shown_now_and_in_the_past() {
    if !std::is_x86_feature_detected!("avx512bw") {
        let mut debuggee = Debuggee::launch(&Fixture::c("vectors"), &[]);
        let frame = FrameRef::of(debuggee.thread(), 0);
        let shown = vectors(debuggee.backend(), frame);
        assert!(shown.iter().all(|register| !register.name.starts_with(['z', 'k'])), "{shown:?}");
        return;
    }
    let mut debuggee = Debuggee::record(&Fixture::c("vectors"), &[]);
    debuggee.break_at("wide");
    debuggee.go();
    let frame = FrameRef::of(debuggee.thread(), 0);
    check_wide(&vectors(debuggee.backend(), frame));
    assert_eq!(debuggee.value_of("$zmm20.u8[63]"), "64");
    assert_eq!(debuggee.value_of("$k3"), 0x1234_5678_9abc_def0_u64.to_string());
    // Callees may change them: what they were in the caller nobody knows.
    let outer = vectors(debuggee.backend(), FrameRef { index: 1, ..frame });
    assert_eq!((value(&outer, "zmm5"), value(&outer, "k3")), (None, None));
    debuggee.run_to("end");
    debuggee.movement(Movement::ReverseContinue);
    assert_eq!(debuggee.line(), Some(debuggee.built.line("wide")));
    check_wide(&vectors(debuggee.backend(), frame));
}

#[test]
fn the_upper_halves_of_ymm_registers_are_right_where_nothing_wider_is_in_use() {
    if !std::is_x86_feature_detected!("avx2") {
        return;
    }
    let mut debuggee = Debuggee::launch(&Fixture::c("vectors"), &["half"]);
    debuggee.run_to("half");
    let frame = FrameRef::of(debuggee.thread(), 0);
    let shown = vectors(debuggee.backend(), frame);
    assert_eq!(value(&shown, "ymm5"), Some(&*pattern(32)));
    if std::is_x86_feature_detected!("avx512bw") {
        let zeros = "0".repeat(64);
        assert_eq!(value(&shown, "zmm5"), Some(&*pattern(32).replacen("0x", &format!("0x{zeros}"), 1)));
    }
}

#[test]
fn wide_registers_of_a_core_file_are_shown() {
    if !std::is_x86_feature_detected!("avx512bw") {
        return;
    }
    let built = Fixture::c("vectors").build();
    let folder = tempfile::tempdir().unwrap();
    let core = folder.path().join("core");
    let script = format!(
        "gdb.execute('break {}:{}', to_string=True)\ngdb.execute('run', to_string=True)\n\
         gdb.execute('generate-core-file {}', to_string=True)\nprint('@ done')\n",
        built.source_text(),
        built.line("wide"),
        core.display()
    );
    assert_eq!(gdb::script(&built.path, &[], &script), ["done"]);
    let mut backend = NativeEngine.open_core(&CoreRequest { core, program: None }).unwrap();
    let Outcome::Stopped(stop) = backend.run(Movement::Begin).unwrap() else { panic!("nobody interrupted") };
    check_wide(&vectors(&mut *backend, FrameRef::of(stop.thread, 0)));
}
