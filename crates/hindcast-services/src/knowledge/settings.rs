//! What is decided for one collection.

use hindcast_core::{
    identity::Caller,
    knowledge::{Collection, CollectionSettings, EmbedError, Language},
};

pub use hindcast_core::knowledge::{LARGEST_PASSAGE, SMALLEST_PASSAGE};

use super::{KnowledgeService, invalid};
use crate::Failure;

/// What is to be decided otherwise. What is absent stays; an empty text, or 0, is as usual again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettingsChange {
    /// The model that makes the vectors: one that is installed, or `ollama:NAME`.
    pub model: Option<String>,
    /// What the documents are written in, such as `de`.
    pub language: Option<String>,
    /// How large passages are at most, in bytes.
    pub passage_bytes: Option<u32>,
}

impl SettingsChange {
    /// Whether nothing is to be decided.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl KnowledgeService {
    /// Decides something for a collection. A model must be usable; its vectors are made by whoever embeds what is missing, and the
    /// ones that are there answer until then.
    pub async fn change_settings(
        &self,
        caller: &Caller,
        name: &str,
        change: SettingsChange,
    ) -> Result<Collection, Failure> {
        let collection = self.changeable(caller, name).await?;
        let mut settings: CollectionSettings = collection.settings.clone();
        if let Some(model) = change.model {
            settings.model = Some(model.trim().to_owned()).filter(|model| !model.is_empty());
        }
        if let Some(language) = change.language {
            settings.language = language_of(&language)?;
        }
        if let Some(bytes) = change.passage_bytes {
            settings.passage_bytes = passage_bytes(bytes)?;
        }
        if let Some(model) = settings.model.as_deref().filter(|_| settings.model != collection.settings.model)
            && let Err(error) = self.meaning(model).await?
        {
            // The hint of the error gets the usual model.
            let details = match error {
                EmbedError::NotInstalled(_) => format!("the model `{model}` is not installed"),
                error => format!("the model `{model}` cannot be used: {error}"),
            };
            return Err(invalid(details)
                .hint("`hindcast models list` shows what is installed and offered; `hindcast models pull NAME` gets one"));
        }
        self.store.change_settings(collection.key, settings).await?;
        self.wrote.notify_one();
        self.collection(caller, name).await
    }
}

fn language_of(tag: &str) -> Result<Option<Language>, Failure> {
    if tag.trim().is_empty() {
        return Ok(None);
    }
    let known = || Language::ALL.iter().map(|language| language.code()).collect::<Vec<_>>().join(", ");
    Language::of_tag(tag).map(Some).ok_or_else(|| {
        invalid(format!("the language `{tag}` is not known to word search"))
            .hint(format!("known are {}", known()))
    })
}

fn passage_bytes(bytes: u32) -> Result<Option<u32>, Failure> {
    match bytes {
        0 => Ok(None),
        SMALLEST_PASSAGE..=LARGEST_PASSAGE => Ok(Some(bytes)),
        _ => Err(invalid(format!("passages cannot have {bytes} bytes")).hint(format!(
            "give a number from {SMALLEST_PASSAGE} to {LARGEST_PASSAGE}, or 0 for the usual size"
        ))),
    }
}
