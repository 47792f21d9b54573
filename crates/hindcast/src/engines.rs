//! Which engine debugs what: the only place that chooses.

use std::{fs::File, io::Read, path::Path};

use hindcast_core::debug::{
    AttachRequest, Capability, CoreRequest, DebugBackend, DebugEngine, DebugError, Engine, Language,
    LaunchRequest, TraceFileRequest,
};

/// All engines of this build.
pub(crate) struct Engines {
    pub(crate) native: Box<dyn DebugEngine>,
    pub(crate) dotnet: Box<dyn DebugEngine>,
}

impl Engines {
    fn of(&self, engine: Engine) -> &dyn DebugEngine {
        match engine {
            Engine::Native => &*self.native,
            Engine::Dotnet => &*self.dotnet,
        }
    }
}

impl DebugEngine for Engines {
    fn capabilities(&self) -> Vec<Capability> {
        self.native.capabilities()
    }

    fn launch(&self, request: &LaunchRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.of(engine_of_launch(request)).launch(request)
    }

    fn attach(&self, request: &AttachRequest) -> Result<Box<dyn DebugBackend>, DebugError> {
        self.of(engine_of_attach(request)).attach(request).map_err(|error| {
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
pub(crate) fn engine_of_launch(request: &LaunchRequest) -> Engine {
    by_language(request.language).unwrap_or_else(|| engine_of_program(&request.program))
}

/// Which engine attaches to it.
pub(crate) fn engine_of_attach(request: &AttachRequest) -> Engine {
    by_language(request.language).unwrap_or_else(|| engine_of_process(request.pid))
}

fn by_language(language: Language) -> Option<Engine> {
    match language {
        Language::Auto => None,
        Language::C | Language::Cpp | Language::Rust => Some(Engine::Native),
        Language::Dotnet => Some(Engine::Dotnet),
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

/// By what the process has mapped.
fn engine_of_process(pid: u32) -> Engine {
    // What cannot be read is the native engine's to complain about.
    if hindcast_dotnet::has_runtime(pid).unwrap_or(false) { Engine::Dotnet } else { Engine::Native }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, fs, sync::Arc};

    use hindcast_core::debug::{
        OutputLog, Stdin, StopAtEntry, Streams,
        fake::{FakeEngine, FakeProgram},
    };

    use super::*;

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
        assert_eq!(engine_of_process(std::process::id()), Engine::Native);
        assert_eq!(engine_of_process(u32::MAX), Engine::Native);
    }

    #[test]
    fn the_language_decides_before_the_file_does() {
        let fake = |source: &str| Box::new(FakeEngine::new(FakeProgram::counter(source)));
        let folder = tempfile::tempdir().unwrap();
        let assembly = folder.path().join("app.dll");
        fs::write(&assembly, b"MZ").unwrap();
        let engines = Engines { native: fake("/src/native.c"), dotnet: fake("/src/managed.cs") };
        let source = |language| {
            let mut session = engines.launch(&launch(&assembly, language)).unwrap();
            session.source_file("/src/managed.cs").unwrap().is_some()
        };
        for language in [Language::C, Language::Cpp, Language::Rust] {
            assert!(!source(language));
        }
        for language in [Language::Auto, Language::Dotnet] {
            assert!(source(language));
        }
    }
}
