//! Which engine debugs what: the only place that chooses.

use std::{borrow::Cow, fs::File, io::Read, path::Path};

use hindcast_core::debug::{
    AttachRequest, Capability, CoreRequest, DebugBackend, DebugEngine, DebugError, Engine, Language,
    LaunchRequest, Streams, TraceFileRequest,
};
use hindcast_dap::Profiles;

/// All engines of this build.
pub(crate) struct Engines {
    pub(crate) native: Box<dyn DebugEngine>,
    pub(crate) dotnet: Box<dyn DebugEngine>,
    pub(crate) adapter: Box<dyn DebugEngine>,
    /// The debug adapters that there may be.
    pub(crate) profiles: Profiles,
}

impl Engines {
    fn of(&self, engine: Engine) -> &dyn DebugEngine {
        match engine {
            Engine::Native => &*self.native,
            Engine::Dotnet => &*self.dotnet,
            Engine::Adapter => &*self.adapter,
        }
    }
}

impl DebugEngine for Engines {
    fn capabilities(&self) -> Vec<Capability> {
        self.native.capabilities()
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        let engine = engine_of_launch(request, &self.profiles);
        self.of(engine).launch(&with_interpreter(request, text_variables(), &self.profiles))
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.of(engine_of_attach(request, &self.profiles)).attach(request).map_err(|error| {
            // A process that has just ended is reported as missing, whatever error came first.
            if hindcast_dotnet::ends_soon(request.pid) {
                DebugError::ProcessNotFound(request.pid)
            } else {
                error
            }
        })
    }

    fn open_core(&self, request: &CoreRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.native.open_core(request)
    }

    fn open_trace(&self, request: &TraceFileRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.native.open_trace(request)
    }
}

/// Which engine starts it.
pub(crate) fn engine_of_launch(request: &LaunchRequest, profiles: &Profiles) -> Engine {
    by_language(&request.language).unwrap_or_else(|| {
        // What only the native engine can do says what is meant, such as the interpreter itself.
        let is_native = request.follow.is_some()
            || request.follow_forks
            || request.chaos.is_some()
            || request.record_from.is_some()
            || request.streams == Streams::Inherited;
        match profiles.of_program(&request.program) {
            Some(_) if !is_native => Engine::Adapter,
            _ if request.program.is_dir() => Engine::Adapter,
            _ => engine_of_program(&request.program),
        }
    })
}

/// Our own variables, as far as they are text.
fn text_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The request to start the interpreter of a script, where the interpreter itself is to be debugged. It is looked for with
/// these variables and those of the request.
pub(crate) fn with_interpreter<'r>(
    request: &'r LaunchRequest,
    variables: impl Iterator<Item = (String, String)>,
    profiles: &Profiles,
) -> Cow<'r, LaunchRequest> {
    let here = std::env::current_dir().unwrap_or_default();
    let folder = request.cwd.as_ref().unwrap_or(&here);
    let is_meant = request.language == Language::Native && request.program.extension().is_some();
    let profile = profiles.of_program(&request.program).filter(|_| is_meant);
    let env = variables.chain(request.env.clone()).collect();
    match profile.and_then(|profile| profile.interpreter_of(&request.program, folder, &env)) {
        None => Cow::Borrowed(request),
        Some(interpreter) => {
            let script = request.program.to_string_lossy().into_owned();
            let args = std::iter::once(script).chain(request.args.iter().cloned()).collect();
            Cow::Owned(LaunchRequest { program: interpreter, args, ..request.clone() })
        }
    }
}

/// Which engine attaches to it.
pub(crate) fn engine_of_attach(request: &AttachRequest, profiles: &Profiles) -> Engine {
    by_language(&request.language).unwrap_or_else(|| match request.port {
        Some(_) => Engine::Adapter,
        None => engine_of_process(request.pid, request.record, profiles),
    })
}

fn by_language(language: &Language) -> Option<Engine> {
    match language {
        Language::Auto => None,
        Language::C | Language::Cpp | Language::Rust | Language::Native => Some(Engine::Native),
        Language::Dotnet => Some(Engine::Dotnet),
        Language::Other(_) => Some(Engine::Adapter),
    }
}

/// By what the file is: an assembly is a Windows executable, and its host an ELF file that stands beside it. What only has
/// the name of an assembly is for the engine that knows why it is none.
fn engine_of_program(program: &Path) -> Engine {
    let mut start = Vec::new();
    // What cannot be read is the native engine's to complain about.
    let _ = File::open(program).and_then(|file| file.take(4).read_to_end(&mut start));
    let is_elf = start == b"\x7fELF";
    let is_named_so = program.is_file() && program.extension().is_some_and(|end| end == "dll");
    let is_dotnet = if is_elf {
        hindcast_dotnet::assembly_beside(program).is_some()
    } else {
        start.starts_with(b"MZ") || is_named_so
    };
    if is_dotnet { Engine::Dotnet } else { Engine::Native }
}

/// By what the process has mapped, and which program it runs. An interpreter that is to be recorded is a native program.
fn engine_of_process(pid: u32, record: bool, profiles: &Profiles) -> Engine {
    // What cannot be read is the native engine's to complain about.
    if hindcast_dotnet::has_runtime(pid).unwrap_or(false) {
        return Engine::Dotnet;
    }
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
    let is_interpreted =
        !record && profiles.of_program(&program).is_some_and(|profile| profile.can_attach_to(pid));
    if is_interpreted { Engine::Adapter } else { Engine::Native }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, sync::Arc};

    use hindcast_core::debug::{
        OutputLog, Stdin, StopAtEntry,
        fake::{FakeEngine, FakeProgram},
    };

    use super::*;

    fn profiles() -> Profiles {
        Profiles::with(&BTreeMap::new()).unwrap()
    }

    fn launch(program: &Path, language: Language) -> LaunchRequest {
        LaunchRequest {
            program: program.to_owned(),
            args: Vec::new(),
            cwd: None,
            env: BTreeMap::new(),
            stop_at_entry: StopAtEntry::Main,
            stdin: Stdin::Written,
            streams: Streams::Pipes,
            record: false,
            chaos: None,
            follow: None,
            follow_forks: false,
            record_from: None,
            language,
            just_my_code: true,
            output: Arc::new(OutputLog::new(0)),
        }
    }

    #[test]
    fn a_program_is_known_by_its_first_bytes_and_its_neighbours() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            path
        };
        let assembly = file("app.dll", b"MZ\x90\0");
        let host = file("app", b"\x7fELF\x02");
        let plain = file("plain", b"\x7fELF\x02");
        assert_eq!(engine_of_program(&assembly), Engine::Dotnet);
        assert_eq!(engine_of_program(&host), Engine::Native, "it has no configuration");
        let dependencies = file("app.deps.json", b"{}");
        assert_eq!(engine_of_program(&host), Engine::Dotnet, "as the engine itself would have it");
        fs::remove_file(dependencies).unwrap();
        file("app.runtimeconfig.json", b"{}");
        assert_eq!(engine_of_program(&host), Engine::Dotnet);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&host, &link).unwrap();
        assert_eq!(engine_of_program(&link), Engine::Dotnet);
        assert_eq!(engine_of_program(&plain), Engine::Native);
        assert_eq!(engine_of_program(&file("script", b"#!/bin/sh\n")), Engine::Native);
        assert_eq!(engine_of_program(&folder.path().join("missing")), Engine::Native);
        assert_eq!(engine_of_program(&file("text.dll", b"text")), Engine::Dotnet);
        assert_eq!(engine_of_program(&file("native.dll", b"\x7fELF\x02")), Engine::Native);
        assert_eq!(engine_of_program(&folder.path().join("missing.dll")), Engine::Native);
    }

    #[test]
    fn a_process_without_the_runtime_is_native() {
        let profiles = profiles();
        assert_eq!(engine_of_process(std::process::id(), false, &profiles), Engine::Native);
        assert_eq!(engine_of_process(u32::MAX, false, &profiles), Engine::Native);
    }

    #[test]
    fn the_language_decides_before_the_file_does() {
        let fake = |source: &str| Box::new(FakeEngine::new(FakeProgram::counter(source)));
        let folder = tempfile::tempdir().unwrap();
        let assembly = folder.path().join("app.dll");
        fs::write(&assembly, b"MZ").unwrap();
        let engines = Engines {
            native: fake("/src/native.c"),
            dotnet: fake("/src/managed.cs"),
            adapter: fake("/src/script.py"),
            profiles: profiles(),
        };
        let has = |program: &Path, language, source: &str| {
            let mut session = engines.launch(&launch(program, language)).unwrap();
            session.source_file(source).unwrap().is_some()
        };
        for language in [Language::C, Language::Cpp, Language::Rust] {
            assert!(has(&assembly, language, "/src/native.c"));
        }
        for language in [Language::Auto, Language::Dotnet] {
            assert!(has(&assembly, language, "/src/managed.cs"));
        }
        let script = folder.path().join("app.py");
        assert!(has(&script, Language::Auto, "/src/script.py"));
        assert!(has(&assembly, Language::Other("python".into()), "/src/script.py"));
        assert!(has(&script, Language::C, "/src/native.c"), "the interpreter itself");
    }

    #[test]
    fn what_only_the_native_engine_can_do_chooses_it() {
        let python = Path::new("/usr/bin/python3");
        let plain = launch(python, Language::Auto);
        assert_eq!(engine_of_launch(&plain, &profiles()), Engine::Adapter);
        let followed = LaunchRequest { follow: Some("x".into()), ..plain.clone() };
        assert_eq!(engine_of_launch(&followed, &profiles()), Engine::Native);
        let recorded = LaunchRequest { streams: Streams::Inherited, ..plain };
        assert_eq!(engine_of_launch(&recorded, &profiles()), Engine::Native);
    }
}
