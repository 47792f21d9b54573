//! The only place that names concrete engines and stores.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, Result};
use hindcast_core::{
    Timestamp,
    debug::{ConfinementLimits, DebugEngine, Layer, SYSTEM_FOLDERS},
    identity,
    knowledge::{ChatModel, Embedder, KnowledgeStore, VectorWrite, Web},
    license::{License, LicenseError, LicenseFile},
    quota::Limits,
    store::MetadataStore,
    time::Clock,
};
use hindcast_server::{App, AppParts, ToolNames, http::HttpPolicy};
use hindcast_services::{
    Events,
    debug::{ConfinementPolicy, DebugService, TargetPolicy},
    documents::{DocumentPolicy, DocumentService, FilePolicy, WorkerCommand},
    gateway::{AuditTrail, Gateway, GatewayPolicy, TierLimits, metered},
    knowledge::{Extractor, KnowledgeParts, KnowledgePolicy, KnowledgeService, ReadPolicy},
};
use hindcast_stores::{
    LexicalIndex, ModelShelf, ModelSource, Ollama, OpenAi, PostgresKnowledge, PostgresSettings,
    PostgresStore, Qdrant, QdrantSettings, SentenceEncoder, SqliteKnowledge, SqliteStore, VectorIndex,
    WebClient,
};

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::remote::Variables;
use crate::{
    config::{self, Config},
    data_folder::DataFolder,
    index_folder::IndexFolder,
    workspaces::{self, real},
};

/// How long an embedding model that nobody needs stays in memory.
const MODEL_IDLE_LIMIT: Duration = Duration::from_secs(300);

/// The system's clock.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// The gateway over the data folder's store.
pub(crate) fn gateway(config: &Config, folder: &DataFolder, events: &Events) -> Result<Arc<Gateway>> {
    let audit_key = folder.audit_key()?;
    let public_key = audit_key.verifying_key();
    let clock = Arc::new(SystemClock);
    let (store, shared_license): (Arc<dyn MetadataStore>, Option<String>) =
        match postgres_settings(&config.store)? {
            Some(settings) => {
                let opened = async {
                    let store = PostgresStore::open(&settings, audit_key, clock.now()).await?;
                    let license = store.license().await?;
                    anyhow::Ok((Arc::new(store) as Arc<dyn MetadataStore>, license))
                };
                waited_for(opened)??
            }
            None => (Arc::new(SqliteStore::open(&folder.database(), audit_key, clock.now())?), None),
        };
    let (store, figures) = metered(store);
    let audit = AuditTrail::new(store.clone(), public_key, events.clone());
    let policy = gateway_policy(config, folder, shared_license)?;
    Ok(Arc::new(Gateway::new(store, clock, policy, audit, events.clone()).with_figures(figures)))
}

/// How to get into the database that is configured, if one is.
pub(crate) fn postgres_settings(store: &config::Store) -> Result<Option<PostgresSettings>> {
    let Some(url) = store.url.clone() else { return Ok(None) };
    let password =
        store.password_file.as_ref().map(|file| secret("store.password_file", file)).transpose()?;
    let connections = usize::try_from(store.connections)?;
    Ok(Some(PostgresSettings { url, password, tls_ca: store.tls_ca.clone(), connections }))
}

/// The database that is configured, if one is, brought up to date.
pub(crate) fn postgres_store(config: &Config, folder: &DataFolder) -> Result<Option<PostgresStore>> {
    let Some(settings) = postgres_settings(&config.store)? else { return Ok(None) };
    let opened = PostgresStore::open(&settings, folder.audit_key()?, Timestamp::now());
    Ok(Some(waited_for(opened)??))
}

/// For what is asked before a server is up, inside of a runtime or not. The store's connections have one of their own.
pub(crate) fn waited_for<T: Send>(work: impl Future<Output = T> + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            anyhow::Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work))
        });
        waiting.join().unwrap_or_else(|_| Err(anyhow::anyhow!("the store was not opened: it panicked")))
    })
}

/// The audit trail of a store in whatever state it is, to look at.
pub(crate) fn audit_trail_as_found(config: &Config, folder: &DataFolder) -> Result<AuditTrail> {
    let audit_key = folder
        .existing_audit_key()?
        .context("the data folder has no audit.key · hint: restore it; without it nothing can be verified")?;
    let public_key = audit_key.verifying_key();
    let store: Arc<dyn MetadataStore> = match postgres_settings(&config.store)? {
        Some(settings) => Arc::new(waited_for(PostgresStore::inspect(&settings, audit_key))??),
        None => Arc::new(SqliteStore::inspect(&folder.database(), audit_key)?),
    };
    Ok(AuditTrail::new(store, public_key, Events::default()))
}

/// The knowledge base of a data folder, and the folder of its indexes, which must be kept as long as it is used.
pub(crate) fn knowledge(
    config: &Config,
    folder: &DataFolder,
    keys: Option<Arc<Gateway>>,
    events: &Events,
) -> Result<(Arc<KnowledgeService>, IndexFolder)> {
    let truth = truth(config, folder)?;
    let indexes = IndexFolder::open(&truth.indexes)?;
    let sources = if config.knowledge.fetch_model { ModelSource::usual() } else { Vec::new() };
    let embedder =
        Arc::new(SentenceEncoder::mini_lm(&folder.models(), Some(MODEL_IDLE_LIMIT))?.fetched_from(sources));
    let qdrant = qdrant(&config.vectors, truth.name)?;
    let vectors: Arc<dyn VectorWrite> = match &qdrant {
        Some(qdrant) => qdrant.vectors(embedder.model(), embedder.dimension()),
        None => Arc::new(VectorIndex::open(&indexes.vectors(), embedder.model(), embedder.dimension())?),
    };
    let lexical = indexes.lexical();
    let ollama_url = config.knowledge.ollama_url.as_deref();
    let ollama = ollama_url.unwrap_or("http://127.0.0.1:11434");
    let key = config.knowledge.chat_key_file.as_ref().map(|file| secret("knowledge.chat_key_file", file));
    let key = key.filter(|_| OpenAi::is_meant_by(ollama)).transpose()?;
    let mut models = model_shelf(config, folder, &indexes, ollama, key.clone());
    if let Some(qdrant) = qdrant {
        models = models.with_qdrant(qdrant);
    }
    let chat = match ollama {
        "off" => None,
        url if OpenAi::is_meant_by(url) => Some(Arc::new(OpenAi::at(url, key)?) as Arc<dyn ChatModel>),
        url => Some(Arc::new(Ollama::at(url)?) as Arc<dyn ChatModel>),
    };
    let web = match config.knowledge.web_hosts.is_empty() {
        true => None,
        false => Some(Arc::new(WebClient::new(config.knowledge.web_private)) as Arc<dyn Web>),
    };
    let service = KnowledgeService::new(KnowledgeParts {
        store: truth.store,
        open_lexical: Box::new(move || Ok(Arc::new(LexicalIndex::open(&lexical)?))),
        vectors,
        embedder,
        models: Some(Arc::new(models)),
        chat,
        web,
        keys,
        events: events.clone(),
        clock: Arc::new(SystemClock),
        policy: KnowledgePolicy {
            max_file_bytes: config.knowledge.max_file_bytes,
            owner_bytes: config.knowledge.owner_bytes,
            disk: Some(config.data_dir.clone()),
            reading: ReadPolicy {
                allowed_folders: config.knowledge.allowed_folders.clone(),
                forbidden_folders: vec![config.data_dir.clone(), workspaces::folder(config)],
            },
            lock_file: Some(folder.knowledge_lock()),
            extractor: std::env::current_exe().map_or(Extractor::Here, Extractor::Program),
            ollama_is_expected: ollama_url.is_some_and(|url| url != "off"),
            chat_model: config.knowledge.chat_model.clone(),
            web_hosts: config.knowledge.web_hosts.clone(),
        },
    });
    Ok((service, indexes))
}

/// The Qdrant that is configured, if one is, for the truth of this name.
pub(crate) fn qdrant(
    vectors: &config::Vectors,
    truth: impl FnOnce() -> Result<String>,
) -> Result<Option<Qdrant>> {
    let Some(url) = vectors.url.clone() else { return Ok(None) };
    let api_key =
        vectors.api_key_file.as_ref().map(|file| secret("vectors.api_key_file", file)).transpose()?;
    // At the start, not at the first search.
    if let Some(file) = &vectors.tls_ca {
        std::fs::read(file).with_context(|| format!("cannot read `vectors.tls_ca`, `{}`", file.display()))?;
    }
    let settings = QdrantSettings { url, api_key, tls_ca: vectors.tls_ca.clone(), truth: truth()? };
    Ok(Some(Qdrant::new(&settings)?))
}

/// The truth of the knowledge base.
struct Truth {
    store: Arc<dyn KnowledgeStore>,
    /// Gives the name that all servers with this truth know it by, and that no other truth has. Asked for only where it is needed: it
    /// makes the file of a truth that is in a file.
    name: Box<dyn FnOnce() -> Result<String>>,
    /// The folder of what is derived from it. Each truth has one of its own.
    indexes: PathBuf,
}

fn truth(config: &Config, folder: &DataFolder) -> Result<Truth> {
    let Some(settings) = postgres_settings(&config.store)? else {
        let store = Arc::new(SqliteKnowledge::in_file(&folder.knowledge()));
        let named = store.clone();
        let name = Box::new(move || Ok(named.name()?));
        return Ok(Truth { store, name, indexes: folder.indexes() });
    };
    if folder.knowledge().exists() {
        tracing::info!(
            "the knowledge base in the data folder is not used: the one in PostgreSQL is · hint: `hindcast store migrate --to postgres` moves it"
        );
    }
    let store = waited_for(PostgresKnowledge::open(&settings, machine(config, folder)?))??;
    let name = store.truth().to_owned();
    let indexes = folder.indexes().join(&name);
    Ok(Truth { store: Arc::new(store), name: Box::new(move || Ok(name)), indexes })
}

/// Whose files are read.
pub(crate) fn machine(config: &Config, folder: &DataFolder) -> Result<String> {
    config.knowledge.machine.clone().map_or_else(|| folder.machine_name(), Ok)
}

/// The models that collections may choose; `key` is that of the model server.
fn model_shelf(
    config: &Config,
    folder: &DataFolder,
    indexes: &IndexFolder,
    ollama: &str,
    key: Option<String>,
) -> ModelShelf {
    let mut shelf = ModelShelf::new(&folder.models(), indexes.folder(), Some(MODEL_IDLE_LIMIT));
    if OpenAi::is_meant_by(ollama) {
        shelf = shelf.with_openai(ollama, key);
    } else if ollama != "off" {
        shelf = shelf.with_ollama(ollama);
    }
    match &*config.knowledge.reranker {
        "off" => shelf,
        reranker => shelf.with_reranker(reranker),
    }
}

/// The truth of the knowledge base alone, to move collections between files. Only one in the data folder can do that.
pub(crate) fn knowledge_store(config: &Config, folder: &DataFolder) -> Result<SqliteKnowledge> {
    if config.store.url.is_some() {
        anyhow::bail!(
            "collections of a knowledge base in PostgreSQL are not written to files · hint: `hindcast store migrate --to sqlite` copies all of it to a data folder, where they can be exported; back it up with `pg_dump`"
        );
    }
    Ok(SqliteKnowledge::in_file(&folder.knowledge()))
}

/// The first line of a file, which holds a secret.
fn secret(key: &str, file: &Path) -> Result<String> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read `{key}`, `{}`", file.display()))?;
    Ok(text.lines().next().unwrap_or_default().trim().to_owned())
}

/// The server behind its transports. Where no folders for documents are configured, `folders` are taken.
pub(crate) fn app(
    config: &Config,
    gateway: Arc<Gateway>,
    knowledge: Arc<KnowledgeService>,
    engine: Option<Arc<dyn DebugEngine>>,
    events: Events,
    folders: Vec<PathBuf>,
) -> Result<Arc<App>> {
    let tool_names = match config.server.tool_names {
        config::ToolNames::Slash => ToolNames::Slash,
        config::ToolNames::Underscore => ToolNames::Underscore,
    };
    let clock = Arc::new(SystemClock);
    let debug = Arc::new(debug_service(config, engine, events.clone())?);
    let configured = config.documents.allowed_folders.clone();
    let folders = if configured.is_empty() { folders } else { configured };
    let documents = Arc::new(documents(&config.documents, folders)?);
    let toolsets = config.server.toolsets.iter().map(|toolset| (*toolset).into()).collect();
    Ok(App::new(AppParts { gateway, debug, documents, knowledge, events, clock, tool_names, toolsets }))
}

/// XML documents below `folders`; schemas run in workers, which are this program again.
pub(crate) fn documents(documents: &config::Documents, folders: Vec<PathBuf>) -> Result<DocumentService> {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    let program = std::env::current_exe().context("cannot find this program to start workers from")?;
    let policy = DocumentPolicy {
        files: FilePolicy { folders, max_bytes: documents.max_document_bytes },
        cache_bytes: size(documents.cache_bytes),
        query_time: Duration::from_millis(documents.query_timeout_ms),
        worker: WorkerCommand {
            program,
            arguments: vec!["worker".into(), "xml".into()],
            time: Duration::from_millis(documents.validation_timeout_ms),
            memory: documents.validation_memory_bytes,
        },
    };
    Ok(DocumentService::new(policy, Arc::new(SystemClock)))
}

/// Debug sessions by this engine.
pub(crate) fn debug_service(
    config: &Config,
    engine: Option<Arc<dyn DebugEngine>>,
    events: Events,
) -> Result<DebugService> {
    Ok(DebugService::new(target_policy(config)?, engine, events, Arc::new(SystemClock)))
}

/// What debugs programs for the local user; elsewhere than on Linux x86-64 nothing does. The .NET runtime's debugging library
/// must match the program's, and debug adapters must end with their session, so those sessions have processes of their own.
pub(crate) fn debug_engine(debug: &config::Debug) -> Result<Option<Arc<dyn DebugEngine>>> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return Ok(Some(Arc::new(crate::engines::Engines {
        native: Box::new(hindcast_native::NativeEngine),
        dotnet: Box::new(worker_engine(debug, Variables::Ours)?),
        adapter: Box::new(worker_engine(debug, Variables::Ours)?),
        profiles: profiles(debug)?,
    })));
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    return {
        let _ = debug;
        Ok(None)
    };
}

/// Our profiles of debug adapters and the user's.
#[cfg(target_os = "linux")]
pub(crate) fn profiles(debug: &config::Debug) -> Result<hindcast_dap::Profiles> {
    Ok(hindcast_dap::Profiles::with(&debug.adapters)?)
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn worker_engine(debug: &config::Debug, variables: Variables) -> Result<crate::remote::WorkerEngine> {
    let users_profiles =
        (!debug.adapters.is_empty()).then(|| serde_json::to_string(&debug.adapters)).transpose()?;
    Ok(crate::remote::WorkerEngine {
        dotnet: debug.dotnet.clone(),
        profiles: profiles(debug)?,
        users_profiles,
        variables,
        confinement: None,
    })
}

/// What debugs programs in a worker process, which has one session.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) fn debug_engine_of_worker(users_profiles: Option<&str>) -> Result<crate::engines::Engines> {
    let users = match users_profiles {
        Some(text) => serde_json::from_str(text)?,
        None => std::collections::BTreeMap::new(),
    };
    let profiles = hindcast_dap::Profiles::with(&users)?;
    Ok(crate::engines::Engines {
        native: Box::new(hindcast_native::HostedNativeEngine),
        dotnet: Box::new(hindcast_dotnet::DotnetEngine),
        adapter: Box::new(hindcast_dap::AdapterEngine::new(profiles.clone())),
        profiles,
    })
}

/// The same for many users, whose programs may be hostile: each session in a process of its own.
pub(crate) fn debug_engine_in_workers(debug: &config::Debug) -> Result<Option<Arc<dyn DebugEngine>>> {
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    return Ok(Some(Arc::new(worker_engine(debug, Variables::Harmless)?)));
    #[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
    return {
        let _ = debug;
        Ok(None)
    };
}

fn gateway_policy(
    config: &Config,
    folder: &DataFolder,
    shared_license: Option<String>,
) -> Result<GatewayPolicy> {
    let limits =
        |tier: &config::TierLimits| Limits { per_month: tier.per_month, per_minute: tier.per_minute };
    Ok(GatewayPolicy {
        environment: match config.environment {
            config::Environment::Live => identity::Environment::Live,
            config::Environment::Test => identity::Environment::Test,
        },
        tiers: TierLimits {
            free: limits(&config.tiers.free),
            developer: limits(&config.tiers.developer),
            team: limits(&config.tiers.team),
            enterprise: limits(&config.tiers.enterprise),
        },
        license: license(config, folder, shared_license)?,
    })
}

/// What `license.file` names goes first, then the license that all servers share. The one in the data folder comes last: after a
/// move to a shared store it is only a copy of what was moved.
fn license(config: &Config, folder: &DataFolder, shared: Option<String>) -> Result<License> {
    let read = |path: &Path| {
        std::fs::read_to_string(path).with_context(|| format!("cannot read the license `{}`", path.display()))
    };
    let text = match (&config.license.file, shared) {
        (Some(path), _) => read(path)?,
        (None, Some(shared)) => shared,
        (None, None) if folder.license().exists() => read(&folder.license())?,
        (None, None) => return Ok(License::Community),
    };
    let terms = serde_json::from_str::<LicenseFile>(&text)
        .map_err(|error| LicenseError::Malformed(error.to_string()))
        .and_then(|file| file.verify(&config.license.issuers));
    Ok(terms.map_or_else(License::Invalid, License::Granted))
}

fn target_policy(config: &Config) -> Result<TargetPolicy> {
    let debug = &config.debug;
    let users = debug.allowed_users.iter().map(|user| user_id(user)).collect::<Result<_>>()?;
    Ok(TargetPolicy {
        users,
        programs: debug.allowed_programs.clone(),
        folders: debug.allowed_folders.clone(),
        writable: None,
        confinement: Some(confinement_policy(config)),
    })
}

/// What keeps the programs of key holders in.
fn confinement_policy(config: &Config) -> ConfinementPolicy {
    let debug = &config.debug;
    let (data, workspaces) = (real(&config.data_dir), workspaces::folder(config));
    ConfinementPolicy {
        workspace_bytes: debug.workspace_bytes,
        system: SYSTEM_FOLDERS.map(PathBuf::from).into(),
        readable: debug.readable.iter().chain(&debug.dotnet).map(|path| real(path)).collect(),
        hidden: vec![data, workspaces.clone()],
        workspaces,
        network: debug.network,
        own_users: workspaces::programs_have_own_users(),
        limits: ConfinementLimits {
            memory: debug.memory_bytes,
            processes: debug.processes,
            files: debug.file_bytes,
        },
    }
}

/// What confines the programs of key holders on this machine with these settings, found out by trying; why nothing does.
pub(crate) fn confining_layers(config: &Config) -> Result<Vec<Layer>> {
    let engine = debug_engine_in_workers(&config.debug)?.context("this build has no debug engine")?;
    let trial = workspaces::for_trial(config)?;
    let workspace = trial.as_ref().map(|trial| trial.path().to_owned());
    let tried = target_policy(config)?.confinement_of("trial", workspace);
    let confined = tried.and_then(|tried| engine.confined(tried));
    Ok(confined.context("this build cannot confine what is launched")?.layers()?)
}

/// A user by number or by name.
fn user_id(user: &str) -> Result<u32> {
    if let Ok(number) = user.parse() {
        return Ok(number);
    }
    #[cfg(unix)]
    if let Some(found) = nix::unistd::User::from_name(user)? {
        return Ok(found.uid.as_raw());
    }
    anyhow::bail!("there is no user `{user}` · hint: mend `debug.allowed_users`, or give the number")
}

/// What the HTTP side goes by.
pub(crate) fn http_policy(server: &config::Server, tickets: PathBuf) -> HttpPolicy {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    HttpPolicy {
        listen: server.listen,
        allowed_hosts: server.allowed_hosts.clone(),
        allowed_origins: server.allowed_origins.clone(),
        max_body_bytes: size(server.max_body_bytes),
        max_connections: size(server.max_connections),
        connection_timeout: Duration::from_millis(server.connection_timeout_ms),
        request_timeout: Duration::from_millis(server.request_timeout_ms),
        drain_timeout: Duration::from_millis(server.drain_timeout_ms),
        is_encrypted: !server.http,
        tickets: Some(tickets),
        open_metrics: server.open_metrics,
    }
}
