//! Documents, questions, and which documents answer which question, as the usual test sets have them.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead, BufReader},
    path::Path,
};

use anyhow::{Context, Result, bail};
use hindcast_services::knowledge::quality::Grades;
use serde::{Deserialize, de::DeserializeOwned};

use crate::options::EvaluateKnowledge;

/// A line of the corpus.
#[derive(Deserialize)]
pub(super) struct CorpusRow {
    #[serde(alias = "_id")]
    pub(super) id: String,
    #[serde(default)]
    pub(super) title: String,
    pub(super) text: String,
}

/// A line of the questions.
#[derive(Deserialize)]
pub(super) struct Question {
    #[serde(alias = "_id")]
    pub(super) id: String,
    pub(super) text: String,
}

/// All three files.
pub(super) struct JudgedSet {
    pub(super) corpus: Vec<CorpusRow>,
    /// Only those that have judgements.
    pub(super) questions: Vec<Question>,
    pub(super) judgements: HashMap<String, Grades>,
}

impl JudgedSet {
    pub(super) fn read(files: &EvaluateKnowledge) -> Result<Self> {
        let corpus: Vec<CorpusRow> = json_lines(&files.corpus)?;
        let mut ids = HashSet::new();
        if let Some(twice) = corpus.iter().find(|row| !ids.insert(row.id.as_str())) {
            bail!("`{}` has the document `{}` twice", files.corpus.display(), twice.id);
        }
        let judgements = judgements(&files.qrels)?;
        let mut questions: Vec<Question> = json_lines(&files.queries)?;
        questions.retain(|question| judgements.contains_key(&question.id));
        if questions.is_empty() {
            bail!(
                "no question of `{}` has a judgement in `{}` · hint: the ids must be the same in both",
                files.queries.display(),
                files.qrels.display()
            );
        }
        Ok(Self { corpus, questions, judgements })
    }
}

fn json_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let mut rows = Vec::new();
    for (number, line) in lines(path)?.enumerate() {
        let line = line.with_context(|| format!("cannot read `{}`", path.display()))?;
        if line.trim().is_empty() {
            continue;
        }
        let row = serde_json::from_str(&line).with_context(|| {
            format!("`{}`, line {}, is not what it should be", path.display(), number + 1)
        })?;
        rows.push(row);
    }
    Ok(rows)
}

/// `query<TAB>document<TAB>grade`, with or without a line of headings.
fn judgements(path: &Path) -> Result<HashMap<String, Grades>> {
    let mut judgements: HashMap<String, Grades> = HashMap::new();
    for (number, line) in lines(path)?.enumerate() {
        let line = line.with_context(|| format!("cannot read `{}`", path.display()))?;
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        match fields[..] {
            [""] => {}
            [question, document, grade] if grade.parse::<f64>().is_ok() => {
                let grade = grade.parse().unwrap_or_default();
                judgements.entry(question.into()).or_default().insert(document.into(), grade);
            }
            [_, _, _] if number == 0 => {}
            _ => bail!(
                "`{}`, line {}, is not `query<TAB>document<TAB>grade`: `{}`",
                path.display(),
                number + 1,
                line.chars().take(60).collect::<String>()
            ),
        }
    }
    Ok(judgements)
}

fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    Ok(BufReader::new(File::open(path).with_context(|| format!("cannot open `{}`", path.display()))?).lines())
}
