//! Which models there are, and how they did.

use hindcast_core::{
    Timestamp,
    identity::Caller,
    knowledge::{InstalledModel, ModelFigures},
};

use super::{
    KnowledgeService,
    model_probe::{LONGEST_WAIT, Listed},
};
use crate::Failure;

/// An installed model and how it did.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRow {
    /// The model.
    pub model: InstalledModel,
    /// How it did; none where it was never asked.
    pub figures: Option<ModelFigures>,
    /// When vectors were last made with it, or it was last asked.
    pub last_used: Option<Timestamp>,
}

/// All models, most used first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ModelReport {
    /// All of them.
    pub models: Vec<ModelRow>,
    /// The one with the lowest mean time.
    pub fastest: Option<String>,
    /// The one that answers most surely.
    pub most_reliable: Option<String>,
    /// The one with the most conversations.
    pub most_used: Option<String>,
    /// Why not all models may be here.
    pub notice: Option<String>,
}

impl KnowledgeService {
    /// What is installed, with how it did for the caller.
    pub async fn models(&self, caller: &Caller) -> Result<ModelReport, Failure> {
        let figures = self.store.model_figures(&caller.principal).await?;
        let Some(chat) = &self.chat else { return Ok(report(Vec::new(), figures)) };
        Ok(match self.model_probe.models(chat.clone(), LONGEST_WAIT).await {
            // No model server is a normal state, with no models.
            Listed::Told(models) => report(models.unwrap_or_default(), figures),
            Listed::Silent(known) => {
                let seconds = LONGEST_WAIT.as_secs();
                let notice = format!(
                    "the model server at {} did not answer within {seconds} s: these are the models it had before",
                    chat.address()
                );
                ModelReport { notice: Some(notice), ..report(known, figures) }
            }
        })
    }

    /// The names of what is installed; none where the server does not say so in time.
    pub(super) async fn installed_models(&self) -> Option<Vec<String>> {
        let models = match &self.chat {
            Some(chat) => match self.model_probe.models(chat.clone(), LONGEST_WAIT).await {
                Listed::Told(models) => models.unwrap_or_default(),
                Listed::Silent(_) => return None,
            },
            None => Vec::new(),
        };
        Some(models.into_iter().map(|model| model.name).collect())
    }
}

fn report(installed: Vec<InstalledModel>, figures: Vec<ModelFigures>) -> ModelReport {
    let mut models: Vec<_> = installed
        .into_iter()
        .map(|model| {
            let figures = figures.iter().find(|figures| figures.model == model.name).cloned();
            let last_used = figures.as_ref().and_then(|figures| figures.last_used);
            ModelRow { model, figures, last_used }
        })
        .collect();
    let conversations = |row: &ModelRow| row.figures.as_ref().map_or(0, |figures| figures.conversations);
    models.sort_by(|one, other| {
        let rank = |row: &ModelRow| (row.model.embeds, std::cmp::Reverse(conversations(row)));
        rank(one).cmp(&rank(other)).then(one.model.name.cmp(&other.model.name))
    });
    let asked: Vec<_> = models
        .iter()
        .filter(|row| !row.model.embeds)
        .filter_map(|row| row.figures.as_ref())
        .filter(|figures| figures.conversations > 0)
        .collect();
    let name = |figures: Option<&&ModelFigures>| figures.map(|figures| figures.model.clone());
    let fastest =
        name(asked.iter().filter(|figures| figures.mean_duration_ms.is_some()).min_by(|one, other| {
            one.mean_duration_ms.unwrap_or(f64::MAX).total_cmp(&other.mean_duration_ms.unwrap_or(f64::MAX))
        }));
    // As products, so that nothing is rounded: a/b against c/d.
    let most_reliable = name(asked.iter().rev().max_by(|one, other| {
        let shares = (one.answered * other.asked).cmp(&(other.answered * one.asked));
        shares.then(one.conversations.cmp(&other.conversations))
    }));
    let most_used = name(asked.first());
    ModelReport { fastest, most_reliable, most_used, models, notice: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn installed(name: &str, embeds: bool) -> InstalledModel {
        InstalledModel { name: name.into(), size: 1, embeds, calls_tools: false, dimension: None }
    }

    fn did(model: &str, conversations: u64, answered: u64, asked: u64, mean: f64) -> ModelFigures {
        ModelFigures {
            model: model.into(),
            conversations,
            asked,
            answered,
            mean_duration_ms: Some(mean),
            tokens: 1,
            last_used: None,
        }
    }

    #[test]
    fn the_best_models_are_told_and_embedding_models_never_count() {
        let models =
            ["gemma3:12b", "qwen3:latest", "llama3.1:8b", "unused"].map(|name| installed(name, false));
        let mut models = models.to_vec();
        models.push(installed("nomic-embed-text", true));
        let figures = vec![
            did("gemma3:12b", 18, 29, 30, 10_510.0),
            did("qwen3:latest", 14, 20, 20, 22_100.0),
            did("llama3.1:8b", 10, 10, 10, 4880.0),
            did("nomic-embed-text", 99, 99, 99, 1.0),
        ];
        let report = report(models, figures);
        assert_eq!(report.fastest.as_deref(), Some("llama3.1:8b"));
        assert_eq!(report.most_reliable.as_deref(), Some("qwen3:latest"), "ties go to more conversations");
        assert_eq!(report.most_used.as_deref(), Some("gemma3:12b"));
        let order: Vec<_> = report.models.iter().map(|row| &*row.model.name).collect();
        assert_eq!(order, ["gemma3:12b", "qwen3:latest", "llama3.1:8b", "unused", "nomic-embed-text"]);
    }

    #[test]
    fn without_a_conversation_nothing_is_recommended() {
        assert_eq!(report(vec![installed("new", false)], Vec::new()).fastest, None);
    }
}
