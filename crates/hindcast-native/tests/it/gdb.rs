//! gdb, driven by its own Python, as the judge of lines and stacks.

use std::{fmt::Write as _, path::Path, process::Command};

/// Runs a Python script in gdb and returns the lines that it printed behind `@ `.
pub(crate) fn script(program: &Path, args: &[&str], python: &str) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a scratch folder");
    let file = folder.path().join("judge.py");
    let mut text = String::from("import gdb\n");
    for setting in [
        "pagination off",
        "confirm off",
        "disable-randomization on",
        "debuginfod enabled off",
        "width 0",
        "debug-file-directory /nonexistent",
    ] {
        // Not every gdb knows every setting.
        let _ = writeln!(text, "try:\n    gdb.execute('set {setting}')\nexcept gdb.error:\n    pass");
    }
    text.push_str(python);
    std::fs::write(&file, text).expect("the script can be written");
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-x"])
        .arg(&file)
        .arg("--args")
        .arg(program)
        .args(args)
        .output()
        .expect("gdb can be run; `cargo xtask ci` installs it");
    let printed = String::from_utf8_lossy(&output.stdout);
    let lines: Vec<_> =
        printed.lines().filter_map(|line| line.strip_prefix("@ ").map(str::to_owned)).collect();
    assert!(output.status.success(), "gdb failed:\n{printed}\n{}", String::from_utf8_lossy(&output.stderr));
    lines
}

/// The places that `command` (`step` or `next`) visits from `main` to the end; Rust's has its crate's name before it: `file line`.
pub(crate) fn steps(program: &Path, main: &str, command: &str) -> Vec<String> {
    script(
        program,
        &[],
        &format!(
            r#"
gdb.execute('break {main}', to_string=True)
gdb.execute('run > /dev/null', to_string=True)
gdb.execute('delete', to_string=True)
for _ in range(3000):
    try:
        frame = gdb.selected_frame()
    except gdb.error:
        break
    sal = frame.find_sal()
    print('@', sal.symtab.fullname() if sal.symtab else '?', sal.line if sal.symtab else 0)
    gdb.execute('{command}', to_string=True)
"#
        ),
    )
}

/// The stacks at each of the first `stops` stops at breakpoints on `functions` and `lines`:
/// `function line` of each frame, joined by ` < `. Frames of code without source are left out.
pub(crate) fn stacks(program: &Path, args: &[&str], breakpoints: &[String], stops: usize) -> Vec<String> {
    let arguments = args.join(" ");
    script(
        program,
        args,
        &format!(
            r#"
import os
for place in {breakpoints:?}:
    gdb.execute('break ' + place, to_string=True)
gdb.execute('handle SIGUSR1 SIGALRM nostop noprint pass', to_string=True)
gdb.execute('run {arguments} > /dev/null', to_string=True)
for _ in range({stops}):
    try:
        frame = gdb.newest_frame()
    except gdb.error:
        break
    shown = []
    while frame:
        sal = frame.find_sal()
        if sal.symtab and os.path.exists(sal.symtab.fullname()):
            shown.append('%s %d' % (os.path.basename(sal.symtab.filename), sal.line))
        frame = frame.older()
    print('@', ' < '.join(shown))
    gdb.execute('continue', to_string=True)
"#
        ),
    )
}
