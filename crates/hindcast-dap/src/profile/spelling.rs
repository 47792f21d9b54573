//! Command lines, taken apart into what adapters want to hear separately.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{Profile, Spelling, java::java};
use crate::find;

/// A command line, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spelled {
    /// The program, where it is not a module or a piece of code.
    pub(crate) program: Option<String>,
    /// A module of Python.
    pub(crate) module: Option<String>,
    /// A piece of code.
    pub(crate) code: Option<String>,
    /// A source that is compiled first.
    pub(crate) source: Option<PathBuf>,
    /// The program's arguments.
    pub(crate) args: Vec<String>,
    /// What runs it.
    pub(crate) interpreter: Option<String>,
    /// Options of what runs it.
    pub(crate) interpreter_args: Vec<String>,
    /// What Go is to do.
    pub(crate) mode: Option<&'static str>,
    /// The address of a page.
    pub(crate) url: Option<String>,
    /// Whether these are tests.
    pub(crate) is_test: bool,
    /// The one test that is run, where it is known.
    pub(crate) test: Option<String>,
    /// The function to stop in at first, where the command line tells it.
    pub(crate) entry: Option<String>,
}

/// Takes a command line apart.
pub(crate) fn spell(
    profile: &Profile,
    program: &Path,
    args: &[String],
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Spelled {
    let is_interpreter = profile.is_interpreter(program);
    let named = program.display().to_string();
    let mut spelled = match profile.spelling {
        Spelling::Executable => Spelled { program: Some(named), args: args.to_vec(), ..Spelled::default() },
        Spelling::Go => go(program, is_interpreter, args, cwd),
        Spelling::Java => java(program, is_interpreter, args, interpreter(profile, program, cwd, env)),
        Spelling::Page => page(program, is_interpreter, args, cwd, interpreter(profile, program, cwd, env)),
        Spelling::Node if is_interpreter && !is_node(program) => {
            let is_test = args.iter().any(|word| word.starts_with("test"));
            let (interpreter, interpreter_args) = (Some(named), args.to_vec());
            Spelled { interpreter, interpreter_args, is_test, ..Spelled::default() }
        }
        Spelling::Node if is_interpreter => interpreted(named, args, &NODE),
        Spelling::Python if is_interpreter => interpreted(named, args, &PYTHON),
        Spelling::Script if is_interpreter => interpreted(named, args, &RUBY),
        Spelling::Node | Spelling::Python | Spelling::Script => {
            let interpreter = interpreter(profile, program, cwd, env);
            Spelled { program: Some(named), args: args.to_vec(), interpreter, ..Spelled::default() }
        }
    };
    if profile.spelling == Spelling::Python {
        let runs = spelled.module.as_deref().or(spelled.program.as_deref()).unwrap_or_default();
        let name = Path::new(runs).file_name().and_then(|name| name.to_str()).unwrap_or(runs);
        spelled.is_test = matches!(name, "pytest" | "py.test" | "unittest");
    }
    spelled
}

fn is_node(program: &Path) -> bool {
    matches!(program.file_name().and_then(|name| name.to_str()), Some("node" | "nodejs"))
}

/// What runs a script: the program that its first line names, that of an environment around it, or the usual one.
fn interpreter(
    profile: &Profile,
    script: &Path,
    cwd: &Path,
    env: &BTreeMap<String, String>,
) -> Option<String> {
    let shown = |path: PathBuf| path.display().to_string();
    if let Some(named) = find::interpreter_of(script).filter(|named| profile.is_interpreter(Path::new(named)))
    {
        // Where `env` looks for it, an environment that is there comes first, as if it were active.
        if named.contains('/') {
            return find::in_path(&named, env).map(shown);
        }
    }
    if profile.spelling == Spelling::Python {
        let active = env.get("VIRTUAL_ENV").map(|root| Path::new(root).join("bin/python"));
        let active = active.filter(|python| python.is_file());
        let around = || script.parent().and_then(find::virtual_environment);
        if let Some(python) = active.or_else(|| find::virtual_environment(cwd)).or_else(around) {
            return Some(shown(python));
        }
    }
    let usual = match profile.spelling {
        Spelling::Python => &["python3", "python"][..],
        Spelling::Node => &["node"],
        _ => &[],
    };
    let ours = profile.interpreters.iter().map(String::as_str);
    usual.iter().copied().chain(ours).find_map(|name| find::in_path(name, env)).map(shown)
}

/// The options of an interpreter.
struct Options {
    /// Those that have a value behind them.
    valued: &'static [&'static str],
    /// That of a module.
    module: &'static [&'static str],
    /// That of a piece of code.
    code: &'static [&'static str],
}

const PYTHON: Options =
    Options { valued: &["-W", "-X", "--check-hash-based-pycs"], module: &["-m"], code: &["-c"] };
const NODE: Options = Options {
    valued: &[
        "-r",
        "--require",
        "--import",
        "--loader",
        "--experimental-loader",
        "-C",
        "--conditions",
        "--env-file",
    ],
    module: &[],
    code: &["-e", "--eval", "-p", "--print"],
};
const RUBY: Options = Options { valued: &["-I", "-r", "-C", "-E", "-K"], module: &[], code: &["-e"] };

fn interpreted(interpreter: String, args: &[String], options: &Options) -> Spelled {
    let mut spelled = Spelled { interpreter: Some(interpreter), ..Spelled::default() };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let is = |names: &[&str]| names.contains(&word.as_str());
        if is(options.module) {
            spelled.module = words.next().cloned();
            break;
        }
        if is(options.code) {
            spelled.code = words.next().cloned();
            if options.module.is_empty() {
                // The others have no word for it but their own option.
                spelled.interpreter_args.push(word.clone());
                spelled.interpreter_args.extend(spelled.code.take());
            }
            break;
        }
        if is(options.valued) {
            spelled.interpreter_args.push(word.clone());
            spelled.interpreter_args.extend(words.next().cloned());
        } else if word == "--test" {
            spelled.is_test = true;
            spelled.interpreter_args.push(word.clone());
        } else if word.starts_with('-') && word.len() > 1 {
            spelled.interpreter_args.push(word.clone());
        } else {
            spelled.program = Some(word.clone());
            break;
        }
    }
    spelled.args = words.cloned().collect();
    spelled
}

/// A page by its file or its address, and options of the browser.
fn page(program: &Path, is_browser: bool, args: &[String], cwd: &Path, browser: Option<String>) -> Spelled {
    let (options, named): (Vec<_>, Vec<_>) = args.iter().cloned().partition(|word| word.starts_with('-'));
    let file = |path: &Path| Some(cwd.join(path).display().to_string());
    let mut spelled = Spelled { interpreter: browser, interpreter_args: options, ..Spelled::default() };
    if !is_browser {
        spelled.program = file(program);
        return spelled;
    }
    spelled.interpreter = Some(program.display().to_string());
    match named.first() {
        Some(address) if address.contains("://") || address.starts_with("about:") => {
            spelled.url = Some(address.clone());
        }
        Some(path) => spelled.program = file(Path::new(path)),
        None => spelled.url = Some("about:blank".into()),
    }
    spelled
}

/// Options of `go test` that are the test program's, and whether a value follows.
const TEST_OPTIONS: [(&str, bool); 14] = [
    ("run", true),
    ("bench", true),
    ("count", true),
    ("timeout", true),
    ("parallel", true),
    ("cpu", true),
    ("list", true),
    ("fuzz", true),
    ("skip", true),
    ("shuffle", true),
    ("v", false),
    ("short", false),
    ("failfast", false),
    ("benchmem", false),
];

fn go(program: &Path, is_go: bool, args: &[String], cwd: &Path) -> Spelled {
    let named = program.display().to_string();
    if !is_go {
        let is_test = named.ends_with("_test.go");
        let is_source = named.ends_with(".go") || program.is_dir();
        let mode = if is_test {
            "test"
        } else if is_source {
            "debug"
        } else {
            "exec"
        };
        // Tests are those of a package, which is a folder.
        let package = program.parent().filter(|_| is_test).map(|folder| folder.display().to_string());
        let (program, args) = (Some(package.unwrap_or(named)), args.to_vec());
        return Spelled { program, args, mode: Some(mode), is_test, ..Spelled::default() };
    }
    let mut words = args.iter().peekable();
    let verb = words.next().map(String::as_str);
    let is_test = verb == Some("test");
    let mode = if is_test { "test" } else { "debug" };
    let mut spelled = Spelled { mode: Some(mode), is_test, ..Spelled::default() };
    while let Some(word) = words.next() {
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let Some(option) = option.filter(|_| spelled.program.is_none() || is_test) else {
            if spelled.program.is_none() {
                spelled.program = Some(word.clone());
            } else {
                spelled.args.push(word.clone());
            }
            continue;
        };
        if option == "args" {
            spelled.args.extend(words.by_ref().cloned());
            break;
        }
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let of_tests = TEST_OPTIONS.iter().find(|(known, _)| is_test && *known == name);
        match of_tests {
            Some((_, has_value)) => {
                let value =
                    value.map(str::to_owned).or_else(|| has_value.then(|| words.next().cloned()).flatten());
                if name == "run" {
                    spelled.test = value.as_deref().and_then(one_test);
                }
                let value = value.map(|value| format!("={value}")).unwrap_or_default();
                spelled.args.push(format!("-test.{name}{value}"));
            }
            None => {
                spelled.interpreter_args.push(word.clone());
                if value.is_none() && matches!(name, "tags" | "mod" | "ldflags" | "gcflags" | "p") {
                    spelled.interpreter_args.extend(words.next().cloned());
                }
            }
        }
    }
    let package = spelled.program.take().unwrap_or_else(|| ".".into());
    spelled.program = Some(cwd.join(package).display().to_string());
    spelled
}

/// The test that a pattern stands for, if it is one.
fn one_test(pattern: &str) -> Option<String> {
    let first = pattern.split('/').next()?;
    let name = first.trim_start_matches('^').trim_end_matches('$');
    let is_name = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    (is_name && name.len() > 4).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profiles;

    fn spelled(line: &str) -> Spelled {
        let mut words = line.split(' ').map(str::to_owned);
        let program = PathBuf::from(words.next().unwrap());
        let args: Vec<_> = words.collect();
        let profiles = Profiles::with(&BTreeMap::new()).unwrap();
        let profile = profiles.of_program(&program).unwrap();
        spell(profile, &program, &args, Path::new("/project"), &BTreeMap::new())
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn python_runs_programs_modules_and_code() {
        let program = spelled("/usr/bin/python3 -u -X dev app.py -m x");
        assert_eq!(program.program.as_deref(), Some("app.py"));
        assert_eq!(program.interpreter_args, words("-u -X dev"));
        assert_eq!(program.args, words("-m x"));
        let module = spelled("/usr/bin/python3.11 -m pytest tests/test_x.py::test_y -q");
        assert_eq!((module.module.as_deref(), module.is_test), (Some("pytest"), true));
        assert_eq!(module.args, words("tests/test_x.py::test_y -q"));
        assert_eq!(module.interpreter.as_deref(), Some("/usr/bin/python3.11"));
        let code = spelled("/usr/bin/python3 -c print(1) x");
        assert_eq!((code.code.as_deref(), code.args), (Some("print(1)"), words("x")));
    }

    #[test]
    fn node_and_npm_are_told_apart() {
        let node = spelled("/usr/bin/node --import tsx --test app.ts a");
        assert_eq!(node.program.as_deref(), Some("app.ts"));
        assert_eq!((node.interpreter_args, node.is_test), (words("--import tsx --test"), true));
        assert_eq!(node.args, words("a"));
        let npm = spelled("/usr/bin/npm test -- --grep x");
        assert_eq!((npm.program, npm.is_test), (None, true));
        assert_eq!(npm.interpreter_args, words("test -- --grep x"));
        let code = spelled("/usr/bin/node -e 1+1");
        assert_eq!(code.interpreter_args, words("-e 1+1"));
    }

    #[test]
    fn a_page_is_a_file_or_an_address() {
        let file = spelled("/project/index.html --window-size=80,60");
        assert_eq!((file.program.as_deref(), file.url), (Some("/project/index.html"), None));
        assert_eq!(file.interpreter_args, words("--window-size=80,60"));
        let address = spelled("/usr/bin/chromium --lang=en http://localhost:8000/a");
        assert_eq!(address.url.as_deref(), Some("http://localhost:8000/a"));
        assert_eq!((address.program, address.interpreter_args), (None, words("--lang=en")));
        assert_eq!(spelled("/usr/bin/chromium a.html").program.as_deref(), Some("/project/a.html"));
    }

    #[test]
    fn go_builds_what_it_runs_and_tests() {
        let run = spelled("/usr/bin/go run -race ./cmd/server -port 80");
        assert_eq!((run.mode, run.program.as_deref()), (Some("debug"), Some("/project/./cmd/server")));
        assert_eq!((run.interpreter_args, run.args), (words("-race"), words("-port 80")));
        let test = spelled("/usr/bin/go test -v -run ^TestSum$ ./pkg -tags x -count=1");
        assert_eq!((test.mode, test.program.as_deref()), (Some("test"), Some("/project/./pkg")));
        assert_eq!(test.args, words("-test.v -test.run=^TestSum$ -test.count=1"));
        assert_eq!((test.test.as_deref(), test.interpreter_args), (Some("TestSum"), words("-tags x")));
        assert_eq!(spelled("/project/main.go a").mode, Some("debug"));
        let file = spelled("/project/pkg/x_test.go");
        assert_eq!((file.mode, file.program.as_deref()), (Some("test"), Some("/project/pkg")));
    }
}
