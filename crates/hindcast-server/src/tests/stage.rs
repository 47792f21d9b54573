//! A server with a fake engine, and a client that speaks to it line by line.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ed25519_dalek::SigningKey;
use hindcast_core::{
    debug::fake::{FakeEngine, FakeProgram},
    identity::{Caller, Environment, ScopeSet},
    knowledge::{Embedder, WordEmbedder},
    license::License,
    progress::Unwatched,
    quota::Limits,
    time::{Clock, ManualClock},
};
use hindcast_services::{
    Events,
    debug::{DebugService, TargetPolicy},
    documents::{DocumentPolicy, DocumentService, FilePolicy, WorkerCommand},
    gateway::{AuditTrail, Gateway, GatewayPolicy, TierLimits},
    knowledge::{Extractor, KnowledgeParts, KnowledgePolicy, KnowledgeService, ReadPolicy},
};
use hindcast_stores::{LexicalIndex, SqliteKnowledge, SqliteStore, VectorIndex};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::{App, AppParts, ToolNames, Toolset, catalogue::WireError, registry::Attachment, stdio};

pub(super) struct Stage {
    pub(super) app: Arc<App>,
    pub(super) engine: Arc<FakeEngine>,
    pub(super) folder: PathBuf,
    _kept: tempfile::TempDir,
}

/// What a tool said, and the same as data.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) content: Value,
    pub(super) attachment: Option<Attachment>,
}

impl Stage {
    /// With the counting program, whose source is on disk.
    pub(super) fn counter() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().canonicalize().unwrap().join("counter.c");
        let lines: Vec<_> = (1..=14).map(|line| format!("    statement({line});\n")).collect();
        std::fs::write(&file, lines.concat()).unwrap();
        Self::in_folder(FakeProgram::counter(file.to_str().unwrap()), folder)
    }

    pub(super) fn with(program: FakeProgram) -> Self {
        Self::in_folder(program, tempfile::tempdir().unwrap())
    }

    fn in_folder(program: FakeProgram, kept: tempfile::TempDir) -> Self {
        let folder = kept.path().canonicalize().unwrap();
        std::fs::write(folder.join("program"), "").unwrap();
        let clock = Arc::new(ManualClock::at("2026-02-05T10:30:05Z".parse().unwrap()));
        let key = SigningKey::from_bytes(&[5; 32]);
        let public = key.verifying_key();
        let store = Arc::new(SqliteStore::open(&folder.join("a.db"), key, clock.now()).unwrap());
        let events = Events::default();
        let limits = Limits { per_month: 1000, per_minute: 1000 };
        let policy = GatewayPolicy {
            environment: Environment::Live,
            tiers: TierLimits { free: limits, developer: limits, team: limits, enterprise: limits },
            license: License::Community,
        };
        let audit = AuditTrail::new(store.clone(), public, events.clone());
        let gateway = Arc::new(Gateway::new(store, clock.clone(), policy, audit, events.clone()));
        let engine = Arc::new(FakeEngine::new(program));
        let debug = Arc::new(DebugService::new(
            TargetPolicy::default(),
            Some(engine.clone()),
            events.clone(),
            clock.clone(),
        ));
        let documents = Arc::new(DocumentService::new(documents_in(&folder), clock.clone()));
        let knowledge = knowledge(&folder, &events, clock.clone());
        let tool_names = ToolNames::Slash;
        let toolsets = Toolset::ALL.to_vec();
        let app =
            App::new(AppParts { gateway, debug, documents, knowledge, events, clock, tool_names, toolsets });
        Self { app, engine, folder, _kept: kept }
    }

    pub(super) fn source(&self) -> String {
        self.folder.join("counter.c").to_str().unwrap().to_owned()
    }

    /// Calls a tool as this caller; an error as it goes out.
    pub(super) async fn call_as(&self, caller: Caller, tool: &str, arguments: Value) -> Result<Said, Value> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        let arguments: Map<_, _> = arguments;
        let tool = format!("debugger/{tool}");
        match self.app.call_tool(caller, tool, arguments, Arc::new(Unwatched), None).await {
            Ok(reply) => Ok(Said { text: reply.text, content: reply.content, attachment: reply.attachment }),
            Err(failure) => Err(WireError::of(failure, ToolNames::Slash).answer(&json!(1))["error"].take()),
        }
    }

    /// Calls a tool that answers.
    #[track_caller]
    pub(super) fn call(&self, tool: &str, arguments: Value) -> impl Future<Output = Said> {
        let tool = tool.to_owned();
        async move {
            self.call_as(Caller::local(), &tool, arguments)
                .await
                .unwrap_or_else(|error| panic!("{tool}: {error}"))
        }
    }

    /// Calls a tool that fails.
    pub(super) async fn refused(&self, tool: &str, arguments: Value) -> Value {
        match self.call_as(Caller::local(), tool, arguments).await {
            Ok(said) => panic!("{tool} answered: {}", said.text),
            Err(error) => {
                assert!(error["data"]["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{error}");
                error
            }
        }
    }

    pub(super) async fn launch(&self) -> Said {
        self.call("launch", json!({ "program": self.folder.join("program") })).await
    }

    pub(super) fn reader() -> Caller {
        let scopes: ScopeSet = [hindcast_core::identity::Scope::DebugRead].into_iter().collect();
        Caller { scopes, ..Caller::local() }
    }

    /// A client on the other end of a pipe, with its handshake done.
    pub(super) async fn client(&self) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (read, write) = tokio::io::split(theirs);
        tokio::spawn(stdio::serve_over(self.app.clone(), BufReader::new(read), write));
        let (read, write) = tokio::io::split(ours);
        let mut client = Client { lines: BufReader::new(read), write, heard: Vec::new(), last: 0 };
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        client.request("initialize", hello).await;
        client.send(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await;
        client
    }

    pub(super) async fn finish(&self) {
        self.app.end_debug_sessions().await;
        assert_eq!(self.engine.alive(), 0, "a session was left behind");
    }
}

/// Documents of a folder; nothing here runs schemas, which needs the built program.
fn documents_in(folder: &std::path::Path) -> DocumentPolicy {
    DocumentPolicy {
        files: FilePolicy { folders: vec![folder.to_owned()], max_bytes: 1 << 20 },
        cache_bytes: 1 << 20,
        query_time: Duration::from_secs(2),
        worker: WorkerCommand {
            program: "false".into(),
            arguments: Vec::new(),
            time: Duration::from_secs(1),
            memory: 1 << 30,
        },
    }
}

/// A knowledge base over real stores, with a model that only knows words.
fn knowledge(folder: &Path, events: &Events, clock: Arc<dyn Clock>) -> Arc<KnowledgeService> {
    let embedder = Arc::new(WordEmbedder);
    let vectors = VectorIndex::open(&folder.join("vectors"), embedder.model(), embedder.dimension()).unwrap();
    KnowledgeService::new(KnowledgeParts {
        store: Arc::new(SqliteKnowledge::in_file(&folder.join("k.db"))),
        open_lexical: Box::new({
            let lexical = folder.join("lexical");
            move || Ok(Arc::new(LexicalIndex::open(&lexical)?))
        }),
        vectors: Arc::new(vectors),
        embedder,
        models: None,
        chat: None,
        web: None,
        keys: None,
        events: events.clone(),
        clock,
        policy: KnowledgePolicy {
            lock_file: None,
            max_file_bytes: 1 << 20,
            owner_bytes: 1 << 30,
            disk: None,
            reading: ReadPolicy::default(),
            extractor: Extractor::Here,
            ollama_is_expected: false,
            chat_model: None,
            web_hosts: Vec::new(),
        },
    })
}

pub(super) struct Client {
    lines: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
    /// Notifications that came before the answer that was waited for.
    pub(super) heard: Vec<Value>,
    last: u64,
}

impl Client {
    async fn send(&mut self, message: Value) {
        self.write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn receive(&mut self) -> Value {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        tokio::time::timeout(Duration::from_secs(10), read).await.expect("nothing came").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// The answer, with result or error.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let id = self.last;
        self.send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        loop {
            let message = self.receive().await;
            if message["id"] == id {
                return message;
            }
            self.heard.push(message);
        }
    }

    /// Waits until a notification with this method and URI has come.
    pub(super) async fn hear(&mut self, method: &str, uri: Option<&str>) {
        let fits = |message: &Value| {
            message["method"] == method && uri.is_none_or(|uri| message["params"]["uri"] == uri)
        };
        while !self.heard.iter().any(fits) {
            let message = self.receive().await;
            self.heard.push(message);
        }
    }
}
