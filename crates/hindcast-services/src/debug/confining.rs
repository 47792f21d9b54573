//! Which callers' programs are confined, and to what.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_core::{
    debug::{Confinement, ConfinementLimits, DebugEngine},
    identity::{Caller, PrincipalId, Scope},
};
use sha2::{Digest as _, Sha256};

use super::{
    AttachOptions, DebugService, Session, TargetPolicy,
    source::{AllowedSources, SeenByTenant},
    worker::Core,
    workspace::make_folders,
};
use crate::{Failure, FailureKind};

/// What keeps the programs of key holders in, unless their key has the scope `debug:unconfined`.
#[derive(Debug, Clone)]
pub struct ConfinementPolicy {
    /// Each owner has a folder in it. It must be there.
    pub workspaces: PathBuf,
    /// The most bytes that an owner's files may have.
    pub workspace_bytes: u64,
    /// The folders of the system whose programs may be launched where no others are named.
    pub system: Vec<PathBuf>,
    /// Files and folders that programs may read besides those.
    pub readable: Vec<PathBuf>,
    /// Folders that they never see.
    pub hidden: Vec<PathBuf>,
    /// Whether they may use the network.
    pub network: bool,
    /// Whether they run as a user of their own, who may open only what everybody may.
    pub own_users: bool,
    /// What the programs of one session may take.
    pub limits: ConfinementLimits,
}

impl ConfinementPolicy {
    /// The folder of an owner. Its name tells nothing, and every owner's text makes one.
    pub(super) fn workspace_of(&self, owner: &PrincipalId) -> PathBuf {
        let hash = Sha256::digest(owner.0.as_bytes());
        let name: String = hash.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        self.workspaces.join(name)
    }
}

impl TargetPolicy {
    /// What the programs of a tenant are confined to; none where nothing confines them.
    pub fn confinement_of(&self, tenant: &str, workspace: Option<PathBuf>) -> Option<Confinement> {
        let policy = self.confinement.as_ref()?;
        let readable = [&self.folders, &self.programs, &policy.readable];
        Some(Confinement {
            tenant: tenant.to_owned(),
            readable: readable.into_iter().flatten().cloned().collect(),
            hidden: policy.hidden.clone(),
            workspace,
            network: policy.network,
            limits: policy.limits,
        })
    }
}

impl DebugService {
    /// What confines the caller's programs; none for the local user, and for keys that may do without.
    pub(super) fn confines(&self, caller: &Caller) -> Option<&ConfinementPolicy> {
        let is_tenant = caller.key.is_some() && !caller.scopes.contains(Scope::DebugUnconfined);
        self.policy.confinement.as_ref().filter(|_| is_tenant)
    }

    /// What the caller may touch: where it is confined, what it cannot see is refused in the same words.
    pub(super) fn policy_for(&self, caller: &Caller) -> Cow<'_, TargetPolicy> {
        let Some(confinement) = self.confines(caller) else { return Cow::Borrowed(&self.policy) };
        let workspace = confinement.workspace_of(&caller.principal);
        let mut policy = self.policy.clone();
        if policy.programs.is_empty() && policy.folders.is_empty() {
            policy.folders.extend(confinement.system.iter().chain(&confinement.readable).cloned());
        }
        policy.folders.push(workspace.clone());
        policy.writable = Some(workspace);
        Cow::Owned(policy)
    }

    /// Which sources may be shown to the caller.
    pub(super) fn sources_for(&self, caller: &Caller) -> AllowedSources {
        if caller.key.is_none() {
            return AllowedSources::default();
        }
        let allowed = AllowedSources::below(&self.policy_for(caller).folders);
        match self.confines(caller) {
            Some(policy) => allowed.seen_by(SeenByTenant {
                workspace: policy.workspace_of(&caller.principal),
                hidden: policy.hidden.clone(),
                as_stranger: policy.own_users,
            }),
            None => allowed,
        }
    }

    /// Refuses a session to a key that must not touch what the session's program can: another key of the same owner may have
    /// launched it without a confinement.
    pub(super) fn check_reach(&self, caller: &Caller, session: &Session) -> Result<(), Failure> {
        if self.may_reach(caller, session) {
            return Ok(());
        }
        let details = format!("session `{}` is not confined, and this key is", session.id);
        Err(Failure::new(FailureKind::PermissionDenied, details)
            .hint("use a key with the scope `debug:unconfined`, or launch a program with this one")
            .fact("required_scope", Scope::DebugUnconfined.name()))
    }

    /// Whether the key may use the session.
    pub(super) fn may_reach(&self, caller: &Caller, session: &Session) -> bool {
        session.is_confined || self.confines(caller).is_none()
    }

    /// The engine that has the caller's sessions.
    pub(super) fn engine_for(
        &self,
        caller: &Caller,
        engine: Arc<dyn DebugEngine>,
    ) -> Result<Arc<dyn DebugEngine>, Failure> {
        let Some(policy) = self.confines(caller) else { return Ok(engine) };
        let workspace = self.workspace(caller, policy)?;
        let confinement = self.policy.confinement_of(&caller.principal.0, Some(workspace));
        let confined = confinement.and_then(|confinement| engine.confined(confinement));
        confined.ok_or_else(|| {
            Failure::new(FailureKind::PermissionDenied, "this build cannot confine what is launched")
                .hint("ask the operator for a key with the scope `debug:unconfined`")
        })
    }

    /// The caller's folder, which is there from now on.
    pub(super) fn workspace(&self, caller: &Caller, policy: &ConfinementPolicy) -> Result<PathBuf, Failure> {
        let folder = policy.workspace_of(&caller.principal);
        make_folders(&policy.workspaces, &folder).map_err(|error| {
            tracing::error!(%error, folder = %folder.display(), "cannot make a workspace");
            Failure::new(FailureKind::Internal, "the workspace cannot be made")
                .hint("ask the operator to look at the server's log, and try again")
        })?;
        Ok(folder)
    }

    /// Where the caller's program runs: paths of a tenant begin in its workspace.
    pub(super) fn working_folder(
        &self,
        caller: &Caller,
        named: Option<PathBuf>,
    ) -> Result<Option<PathBuf>, Failure> {
        let Some(policy) = self.confines(caller) else { return Ok(named) };
        let workspace = self.workspace(caller, policy)?;
        Ok(Some(named.map_or_else(|| workspace.clone(), |named| workspace.join(named))))
    }

    /// The path that the caller means.
    pub(super) fn resolved(&self, caller: &Caller, named: &Path) -> PathBuf {
        match self.confines(caller) {
            Some(policy) => policy.workspace_of(&caller.principal).join(named),
            None => named.to_owned(),
        }
    }

    /// Nothing outside of its confinement exists for a tenant, whether it is there or not.
    pub(super) fn check_attach(&self, caller: &Caller, options: &AttachOptions) -> Result<(), Failure> {
        if self.confines(caller).is_none() {
            return Ok(());
        }
        let what = match (options.pid, options.port) {
            (Some(pid), _) => format!("there is no process {pid} of yours"),
            (None, Some(port)) => format!("no process of yours listens at port {port}"),
            (None, None) => "nothing says what to attach to".to_owned(),
        };
        let failure = Failure::new(FailureKind::ProcessNotFound, what)
            .hint("launch the program with `debugger/launch`; to attach to the server's processes, a key needs the scope `debug:unconfined`");
        Err(match options.pid {
            Some(pid) => failure.fact("pid", pid),
            None => failure,
        })
    }
}

impl Core {
    /// Tells everybody what keeps the program in.
    pub(super) fn publish_layers(&mut self) {
        let layers = self.backend().map(|backend| backend.layers().into()).unwrap_or_default();
        self.standing.send_modify(|standing| standing.layers = layers);
    }
}
