//! What a model's own files say about it: how its network is built, how a text becomes a vector, what its texts begin with.

use std::{fs, path::Path};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Tokens that are read of a text at most, whatever a model could: passages are shorter, and attention costs the square.
const LONGEST_WINDOW: usize = 2048;

/// A network and how it is used.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Description {
    pub(super) family: Family,
    /// Numbers in a vector, which is also the width of the layers.
    pub(super) width: usize,
    /// The width between the two halves of a layer.
    pub(super) wide: usize,
    pub(super) layers: usize,
    pub(super) heads: usize,
    pub(super) epsilon: f32,
    pub(super) activation: Activation,
    /// Tokens that are read at once; the rest of a text is cut off.
    pub(super) window: usize,
    pub(super) pooling: Pooling,
    /// What stands before a question and before a passage.
    pub(super) question_prefix: String,
    pub(super) passage_prefix: String,
}

/// How a network differs from others.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Family {
    Bert(Bert),
    Modern(Modern),
}

/// BERT, and RoBERTa, which counts places from behind its padding token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bert {
    /// The row of the first token's place.
    pub(super) first_place: usize,
    pub(super) is_roberta: bool,
}

/// ModernBERT: normalised before each half, places told by turning, most layers see only what is near.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Modern {
    /// Whether each layer sees everything.
    pub(super) sees_all: Vec<bool>,
    /// How far the others see on each side.
    pub(super) near: usize,
    /// The bases of the turning, for layers that see everything and those that do not.
    pub(super) turning: (f32, f32),
    /// From what a judgement is made.
    pub(super) judges_by: Pooling,
    /// The activation of what judges.
    pub(super) judges_with: Activation,
}

/// What stands between the two halves of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activation {
    Gelu,
    /// By the hyperbolic tangent.
    ApproximateGelu,
    Relu,
}

/// How the vectors of a text's tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pooling {
    Mean,
    First,
}

impl Description {
    /// all-MiniLM-L6-v2, whose package has no file that says so.
    pub(super) fn of_mini_lm() -> Self {
        Self {
            family: Family::Bert(Bert { first_place: 0, is_roberta: false }),
            width: 384,
            wide: 1536,
            layers: 6,
            heads: 12,
            epsilon: 1e-12,
            activation: Activation::Gelu,
            window: 256,
            pooling: Pooling::Mean,
            question_prefix: String::new(),
            passage_prefix: String::new(),
        }
    }

    /// Reads what is beside a checkpoint.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let config: Value =
            json(folder, "config.json")?.ok_or("`config.json` is missing, which says how it is built")?;
        let config = Config(&config);
        let kind = config.text("model_type").unwrap_or_default();
        let (family, places) = match kind {
            "bert" => {
                let family = Family::Bert(Bert { first_place: 0, is_roberta: false });
                (family, config.size("max_position_embeddings")?)
            }
            "roberta" | "xlm-roberta" | "camembert" => {
                let first_place = config.size("pad_token_id").unwrap_or(1) + 1;
                let places = config.size("max_position_embeddings")?.saturating_sub(first_place);
                (Family::Bert(Bert { first_place, is_roberta: true }), places)
            }
            "modernbert" => (
                Family::Modern(config.modern()?),
                config.size("max_position_embeddings").unwrap_or(LONGEST_WINDOW),
            ),
            other => {
                return Err(format!(
                    "its architecture is `{other}` · hint: `bert`, `roberta`, `xlm-roberta`, `camembert` and `modernbert` \
                     are understood"
                ));
            }
        };
        if config.text("position_embedding_type").is_some_and(|kind| kind != "absolute") {
            return Err("its places are not absolute, which is not understood".into());
        }
        let is_modern = kind == "modernbert";
        let (epsilon, activation) =
            if is_modern { ("norm_eps", "hidden_activation") } else { ("layer_norm_eps", "hidden_act") };
        let (width, heads) = (config.size("hidden_size")?, config.size("num_attention_heads")?);
        if width == 0 || heads == 0 || width % heads != 0 || (is_modern && width / heads % 2 != 0) {
            return Err(format!("{heads} heads do not share a width of {width}"));
        }
        let (question_prefix, passage_prefix) = prefixes(folder, &config)?;
        Ok(Self {
            family,
            width,
            wide: config.size("intermediate_size")?,
            layers: config.size("num_hidden_layers")?,
            heads,
            epsilon: config.number(epsilon).unwrap_or(if is_modern { 1e-5 } else { 1e-12 }) as f32,
            activation: activation_of(config.text(activation).unwrap_or("gelu"))?,
            window: window(folder, places)?,
            pooling: pooling(folder)?,
            question_prefix,
            passage_prefix,
        })
    }

    pub(super) fn head_width(&self) -> usize {
        self.width / self.heads
    }
}

/// `config.json`.
struct Config<'a>(&'a Value);

impl Config<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key)?.as_f64()
    }

    fn size(&self, key: &str) -> Result<usize, String> {
        let size = self.0.get(key).and_then(Value::as_u64).and_then(|size| usize::try_from(size).ok());
        size.filter(|size| *size < 1 << 24).ok_or_else(|| format!("`config.json` has no usable `{key}`"))
    }

    fn modern(&self) -> Result<Modern, String> {
        let layers = self.size("num_hidden_layers")?;
        let every = self.size("global_attn_every_n_layers").unwrap_or(3).max(1);
        let sees_all: Vec<bool> = match self.0.get("layer_types").and_then(Value::as_array) {
            Some(types) => types.iter().map(|kind| kind.as_str() == Some("full_attention")).collect(),
            None => (0..layers).map(|layer| layer % every == 0).collect(),
        };
        if sees_all.len() != layers {
            return Err("`layer_types` does not have an entry for each layer".into());
        }
        let turning = |kind: &str, older: &str, usual: f64| {
            let parameters = self.0.get("rope_parameters").and_then(|parameters| parameters.get(kind));
            let scaling = parameters.and_then(|one| one.get("rope_type")).and_then(Value::as_str);
            if scaling.is_some_and(|scaling| scaling != "default") {
                return Err(format!(
                    "its places are turned by `{}`, which is not understood",
                    scaling.unwrap_or("")
                ));
            }
            let base = parameters.and_then(|one| one.get("rope_theta")).and_then(Value::as_f64);
            Ok(base.or_else(|| self.number(older)).unwrap_or(usual) as f32)
        };
        Ok(Modern {
            sees_all,
            near: self.size("local_attention").unwrap_or(128) / 2,
            turning: (
                turning("full_attention", "global_rope_theta", 160_000.0)?,
                turning("sliding_attention", "local_rope_theta", 10_000.0)?,
            ),
            judges_by: match self.text("classifier_pooling") {
                Some("mean") => Pooling::Mean,
                _ => Pooling::First,
            },
            judges_with: activation_of(self.text("classifier_activation").unwrap_or("gelu"))?,
        })
    }
}

fn activation_of(name: &str) -> Result<Activation, String> {
    match name {
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::ApproximateGelu),
        "relu" => Ok(Activation::Relu),
        other => Err(format!("its activation is `{other}`, which is not understood")),
    }
}

/// How many tokens are read, as the model was trained for, of what it has places for.
fn window(folder: &Path, places: usize) -> Result<usize, String> {
    let trained: Option<Value> = json(folder, "sentence_bert_config.json")?;
    let trained = trained.and_then(|config| config.get("max_seq_length")?.as_u64());
    let trained = trained.and_then(|length| usize::try_from(length).ok()).unwrap_or(512);
    match places.min(trained).min(LONGEST_WINDOW) {
        0..=2 => Err("it has no places for tokens".into()),
        window => Ok(window),
    }
}

/// The folder, beside a checkpoint, with what says how its vectors are pooled.
pub(super) fn pooling_folder(folder: &Path) -> Result<String, String> {
    let modules: Vec<Value> = json(folder, "modules.json")?.unwrap_or_default();
    let mut pooling = "1_Pooling".to_owned();
    for module in &modules {
        let kind = module.get("type").and_then(Value::as_str).unwrap_or_default();
        match kind.rsplit('.').next().unwrap_or_default() {
            "Pooling" => {
                let path = module.get("path").and_then(Value::as_str).unwrap_or_default();
                pooling = path.trim_matches('/').to_owned();
            }
            "Transformer" | "Normalize" => {}
            other => return Err(format!("it has a module `{other}`, which is not understood")),
        }
    }
    let is_inside =
        !pooling.contains(['\\', '\0']) && pooling.split('/').all(|part| !matches!(part, "" | "." | ".."));
    match is_inside {
        true => Ok(pooling),
        false => Err(format!("`modules.json` names the folder `{pooling}`, which is not one of the model")),
    }
}

/// How sentence-transformers pools; the mean where nothing is said.
fn pooling(folder: &Path) -> Result<Pooling, String> {
    let config: Option<Value> = json(folder, &format!("{}/config.json", pooling_folder(folder)?))?;
    let Some(config) = config else { return Ok(Pooling::Mean) };
    let named = config.get("pooling_mode").and_then(Value::as_str);
    let is_on = |mode: &str| config.get(mode).and_then(Value::as_bool).unwrap_or(false);
    match (named, is_on("pooling_mode_mean_tokens"), is_on("pooling_mode_cls_token")) {
        (Some("mean"), ..) | (None, true, false) => Ok(Pooling::Mean),
        (Some("cls"), ..) | (None, false, true) => Ok(Pooling::First),
        _ => Err("it pools neither by the mean nor by the first token".into()),
    }
}

/// What stands before questions and passages: as the model says, or as those of the family E5 were trained with, which do not
/// say so.
fn prefixes(folder: &Path, config: &Config<'_>) -> Result<(String, String), String> {
    let said: Option<Value> = json(folder, "config_sentence_transformers.json")?;
    let prompts = said.as_ref().and_then(|said| said.get("prompts"));
    let prompt = |names: &[&str]| {
        let found = names.iter().find_map(|name| prompts?.get(name)?.as_str());
        found.unwrap_or_default().to_owned()
    };
    let (question, passage) = (prompt(&["query"]), prompt(&["passage", "document"]));
    if !question.is_empty() || !passage.is_empty() {
        return Ok((question, passage));
    }
    let own = folder.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let origin = config.text("_name_or_path").unwrap_or_default().to_lowercase();
    let is_e5 = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or(name);
        name.starts_with("e5-") || name.starts_with("multilingual-e5-")
    };
    if is_e5(&own) || is_e5(&origin) {
        return Ok(("query: ".into(), "passage: ".into()));
    }
    Ok((String::new(), String::new()))
}

/// A JSON file of the folder; none where it is not there.
fn json<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<Option<T>, String> {
    match fs::read(folder.join(file)) {
        Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| format!("`{file}`: {error}")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("`{file}`: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(files: &[(&str, &str)]) -> Result<Description, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Description::read(folder.path())
    }

    const BERT: &str = r#"{"model_type": "bert", "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 96,
        "num_hidden_layers": 2, "max_position_embeddings": 128, "hidden_act": "gelu", "layer_norm_eps": 1e-12}"#;

    #[test]
    fn a_model_says_how_it_pools_and_what_its_texts_begin_with() {
        let plain = described(&[("config.json", BERT)]).unwrap();
        assert_eq!((plain.pooling, plain.window, &*plain.question_prefix), (Pooling::Mean, 128, ""));
        let said = described(&[
            ("config.json", BERT),
            ("sentence_bert_config.json", r#"{"max_seq_length": 100}"#),
            (
                "modules.json",
                r#"[{"path": "", "type": "sentence_transformers.models.Transformer"},
                {"path": "1_P", "type": "sentence_transformers.models.Pooling"},
                {"path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"#,
            ),
            ("1_P/config.json", r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": false}"#),
            ("config_sentence_transformers.json", r#"{"prompts": {"query": "Q: ", "document": "D: "}}"#),
        ])
        .unwrap();
        assert_eq!((said.pooling, said.window), (Pooling::First, 100));
        assert_eq!((&*said.question_prefix, &*said.passage_prefix), ("Q: ", "D: "));
        let e5 = BERT.replace(
            "\"hidden_size\"",
            "\"_name_or_path\": \"intfloat/multilingual-e5-small\", \"hidden_size\"",
        );
        assert_eq!(described(&[("config.json", &e5)]).unwrap().question_prefix, "query: ");
    }

    #[test]
    fn what_is_not_understood_is_refused_and_named() {
        for (config, reason) in [
            (BERT.replace("\"bert\"", "\"t5\""), "its architecture is `t5`"),
            (BERT.replace("\"gelu\"", "\"quick\""), "its activation is `quick`"),
            (BERT.replace("\"num_attention_heads\": 4", "\"num_attention_heads\": 5"), "5 heads"),
            (BERT.replace("\"hidden_size\": 64,", ""), "no usable `hidden_size`"),
            ("{".into(), "config.json"),
        ] {
            let error = described(&[("config.json", &config)]).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        for path in ["../other", "", "/", "a/../../b", "a//b"] {
            let modules = format!(r#"[{{"path": "{path}", "type": "x.Pooling"}}]"#);
            let error = described(&[("config.json", BERT), ("modules.json", &modules)]).unwrap_err();
            assert!(error.contains("not one of the model"), "{path}: {error}");
        }
        let dense = r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#;
        assert!(
            described(&[("config.json", BERT), ("modules.json", dense)]).unwrap_err().contains("`Dense`")
        );
    }
}
