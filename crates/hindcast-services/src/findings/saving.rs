//! Keeping what was found out.

use std::sync::Arc;

use hindcast_core::{
    debug::Watched,
    identity::{Caller, Scope},
    knowledge::Ownership,
    progress::Progress,
};
use sha2::{Digest, Sha256};

use super::{
    FindingService,
    document::{TAG, Written},
    fingerprint::Fingerprint,
    invalid, needs, traces,
};
use crate::{
    Failure, FailureKind,
    debug::{Crash, Found, FoundWrite, Mask, Patience, Searched, Session},
    knowledge::{AddRequest, FileOutcome, Material, document_uri},
};

/// The collection that findings go to where none is named.
pub(super) const COLLECTION: &str = "Findings";
/// What is written about a failure is a page, not a book.
const LONGEST_FIELD: usize = 20_000;
const MOST_EVIDENCE: usize = 50;
/// How far a bad value is followed back.
const HOPS: u32 = 5;

/// What is to be kept.
#[derive(Debug, Clone, Default)]
pub struct NewFinding {
    /// What was seen.
    pub symptom: String,
    /// Why it happened.
    pub cause: String,
    /// Where the mistake is.
    pub place: Option<String>,
    /// The statement that is wrong.
    pub statement: Option<String>,
    /// What it found there.
    pub before: Option<String>,
    /// What it left there.
    pub after: Option<String>,
    /// Moments, hops, measurements.
    pub evidence: Vec<String>,
    /// What mends it.
    pub fix: Option<String>,
    /// The bad value: who wrote it is looked up in the recording.
    pub expression: Option<String>,
    /// Id or name of the collection.
    pub collection: Option<String>,
    /// Whether it goes to a collection that everybody sees.
    pub shared: bool,
    /// The session; the current one where absent, if there is one.
    pub session: Option<String>,
}

/// What was kept.
#[derive(Clone)]
pub struct SavedFinding {
    /// The collection's id.
    pub collection: String,
    /// Whether everybody sees it.
    pub shared: bool,
    /// The document's id.
    pub document: String,
    /// Where it is read.
    pub uri: String,
    /// Its title.
    pub title: String,
    /// What it is found again by.
    pub fingerprint: Fingerprint,
    /// The session that it is about.
    pub session: Option<Arc<Session>>,
    /// What else to know.
    pub notices: Vec<String>,
}

impl FindingService {
    /// Keeps what was found out about the failure that a session stands at or stood at last.
    pub async fn save(
        &self,
        caller: &Caller,
        new: NewFinding,
        patience: &Patience,
        progress: &dyn Progress,
    ) -> Result<SavedFinding, Failure> {
        check(&new)?;
        let session = self.session_of(caller, new.session.as_deref())?;
        let mask = session.as_ref().map_or(Mask::new(true), |session| session.mask());
        let mut notices = Vec::new();
        let crash = match &session {
            Some(session) => session.crash().await.unwrap_or_default(),
            None => None,
        };
        let mut written = described(&new, mask);
        match &crash {
            Some(crash) => with_crash(&mut written, crash),
            None => match traces::fingerprint(&new.symptom) {
                Some(fingerprint) => written.fingerprint = fingerprint,
                None => notices.push(
                    "no crash was seen, so only words find it again · hint: stop at the crash, or put its stack trace into `symptom`"
                        .to_owned(),
                ),
            },
        }
        if let Some(session) = &session {
            with_session(&mut written, session);
            if let Some(expression) = &new.expression {
                let found = with_writes(&mut written, session, expression, patience).await;
                if let Err(failure) = found {
                    notices.push(format!("who wrote `{expression}` was not found: {failure}"));
                }
            }
        }
        let text = mask.text(&written.markdown()).into_owned();
        let request = AddRequest {
            collection: new.collection.unwrap_or_else(|| COLLECTION.into()),
            id: None,
            ownership: match new.shared {
                true => Ownership::Shared,
                false => Ownership::Private(caller.principal.clone()),
            },
            material: Material::Text {
                name: name_of(&written),
                text,
                mime_type: Some("text/markdown".into()),
            },
            tags: vec![TAG.into()],
        };
        let report = self.knowledge.add(caller, request, progress).await?;
        notices.extend(report.notices);
        let document = report.files.into_iter().find_map(|file| match file.outcome {
            FileOutcome::Added { document, .. }
            | FileOutcome::Updated { document, .. }
            | FileOutcome::Unchanged { document } => Some(document),
            FileOutcome::Removed { .. } | FileOutcome::Failed { .. } => None,
        });
        let document =
            document.ok_or_else(|| Failure::new(FailureKind::Internal, "the finding was not kept"))?;
        let collection = report.collection;
        Ok(SavedFinding {
            uri: document_uri(&collection.id, &document),
            shared: collection.ownership == Ownership::Shared,
            collection: collection.id,
            document,
            title: mask.text(&written.title()).into_owned(),
            fingerprint: written.fingerprint,
            session,
            notices,
        })
    }

    /// The session that is named, or the current one, if there is one that the caller may see.
    fn session_of(&self, caller: &Caller, named: Option<&str>) -> Result<Option<Arc<Session>>, Failure> {
        if named.is_some() {
            needs(caller, Scope::DebugRead, "what a session tells")?;
            return self.debug.session(caller, named).map(Some);
        }
        Ok(self.debug.current(caller).filter(|_| caller.may(Some(Scope::DebugRead))))
    }
}

fn check(new: &NewFinding) -> Result<(), Failure> {
    for (name, text) in [("symptom", &new.symptom), ("cause", &new.cause)] {
        if text.trim().is_empty() {
            return Err(invalid(format!("`{name}` is empty")).hint("say what was seen, and why it happened"));
        }
    }
    let others = [&new.place, &new.statement, &new.before, &new.after, &new.fix, &new.expression];
    let texts = others.into_iter().flatten().chain([&new.symptom, &new.cause]).chain(&new.evidence);
    if texts.into_iter().any(|text| text.len() > LONGEST_FIELD) || new.evidence.len() > MOST_EVIDENCE {
        return Err(invalid(format!(
            "a field has more than {LONGEST_FIELD} bytes, or `evidence` more than {MOST_EVIDENCE} lines"
        ))
        .hint("say it in a few sentences; longer texts go to `knowledge/add`"));
    }
    Ok(())
}

fn described(new: &NewFinding, mask: Mask) -> Written {
    let clean = |text: &str| mask.text(text.trim()).into_owned();
    let given = |text: &Option<String>| text.as_deref().map(clean).unwrap_or_default();
    // A value has no name beside it that would tell that it is a secret; what is assigned to is its name.
    let assigned = new.statement.as_deref().and_then(|statement| statement.split('=').next());
    let hidden = [new.expression.as_deref(), assigned].into_iter().flatten().any(|text| mask.hides(text));
    let value = |text: &Option<String>| match text {
        Some(_) if hidden => crate::debug::MASKED.to_owned(),
        _ => given(text),
    };
    Written {
        symptom: clean(&new.symptom),
        cause: clean(&new.cause),
        place: given(&new.place),
        statement: given(&new.statement),
        before: value(&new.before),
        after: value(&new.after),
        evidence: new.evidence.iter().map(|line| clean(line).replace('\n', " ")).collect(),
        fix: given(&new.fix),
        ..Written::default()
    }
}

fn with_crash(written: &mut Written, crash: &Crash) {
    written.fingerprint = Fingerprint::of_crash(crash);
    written.crash.clone_from(&crash.told);
    written.program.clone_from(&crash.program);
    written.build = crash.build.clone().unwrap_or_default();
    if let Some(moment) = &crash.moment {
        written.evidence.push(format!("it failed at moment {moment}"));
    }
}

fn with_session(written: &mut Written, session: &Session) {
    let standing = session.standing();
    if written.program.is_empty() {
        written.program = standing.target.as_ref().map(|target| target.name.clone()).unwrap_or_default();
    }
    if let Some(recording) = session.kept_recording() {
        written.evidence.push(format!("recording `{}`", recording.display()));
    }
    let scene = standing.scene.as_ref();
    let when = scene.and_then(|scene| scene.when.as_ref()).filter(|when| when.in_past);
    if let (Some(when), Some(location)) = (when, scene.and_then(|scene| scene.location.as_ref())) {
        written.evidence.push(format!("looked at moment {}, in {}", when.moment, location.in_words()));
    }
}

/// Follows the bad value back: the last write is the statement with its values, the others are hops.
async fn with_writes(
    written: &mut Written,
    session: &Session,
    expression: &str,
    patience: &Patience,
) -> Result<(), Failure> {
    let frame = session.frame_in_history(None)?;
    let watched = Watched::Expression { text: expression.to_owned(), frame };
    let writes = match session.last_write(watched, HOPS, patience).await? {
        Searched::Found(Found::LastWrite(writes)) => writes,
        Searched::Found(_) => return Err(invalid("another question was answered")),
        Searched::Running(_) => {
            return Err(invalid("the search took too long")
                .hint("ask `debugger/last_write`, and give what it says as `place`, `statement`, `before` and `after`"));
        }
    };
    let hide = session.mask().hides(expression);
    let mut name = expression.to_owned();
    for (hop, write) in writes.iter().enumerate() {
        let values = if hide { String::new() } else { format!(": {} became {}", write.old, write.new) };
        written.evidence.push(format!(
            "`{name}` was written at moment {} in {}{values}",
            write.moment,
            write.location.in_words()
        ));
        if let Some(from) = &write.from {
            name.clone_from(from);
        }
        if hop == 0 {
            with_write(written, write, hide);
        }
    }
    if writes.is_empty() {
        return Err(invalid("it was not written since the start of the recording"));
    }
    Ok(())
}

/// What was said by the caller stays.
fn with_write(written: &mut Written, write: &FoundWrite, hide: bool) {
    let fill = |field: &mut String, value: String| {
        if field.is_empty() {
            *field = value;
        }
    };
    fill(&mut written.place, write.location.in_words());
    fill(&mut written.statement, write.text.clone().unwrap_or_default());
    if !hide {
        fill(&mut written.before, write.old.clone());
        fill(&mut written.after, write.new.clone());
    }
}

/// The same finding again takes the place of the one that is there.
fn name_of(written: &Written) -> String {
    let said = format!("{}\0{}\0{}", written.symptom, written.program, written.fingerprint.lines());
    let hash = Sha256::digest(said.as_bytes());
    let hash: String = hash.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("finding-{hash}")
}
