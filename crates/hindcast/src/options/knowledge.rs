//! What `hindcast knowledge` is told.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Json;

#[derive(Subcommand)]
pub(crate) enum Knowledge {
    /// Take files and folders into a collection; what did not change is skipped
    Add(AddKnowledge),
    /// List the collections
    List(ListKnowledge),
    /// List the documents of a collection, or print one
    Show(ShowKnowledge),
    /// Remove a document or a whole collection; files on disk stay
    Remove(RemoveKnowledge),
    /// Stop watching a folder of a collection, or all of them; the documents stay
    Unwatch(UnwatchKnowledge),
    /// List the watched folders
    Watches(ListKnowledge),
    /// Give a collection another name and id
    Rename(RenameKnowledge),
    /// Show what is decided for a collection (model, language, size of passages), or decide it
    Settings(SettingsKnowledge),
    /// Compare the indexes with the store and build what is missing
    Reindex(Json),
    /// Write a collection, with its documents, vectors and settings, to one file
    Export(ExportKnowledge),
    /// Make a collection from a file that was exported
    Import(ImportKnowledge),
    /// Take issues of a tracker into a collection, for `debugger/find_similar_bugs`; those that are there already are replaced
    ImportIssues(ImportIssues),
    /// Show the figures of a collection
    Stats(OneCollection),
    /// Find passages by words and by meaning
    Search(SearchKnowledge),
    /// Measure how good the search is on a set with known answers
    Eval(EvaluateKnowledge),
}

#[derive(Args)]
pub(crate) struct EvaluateKnowledge {
    /// The documents, one JSON object a line: {"id", "title", "text"}
    #[arg(long, value_name = "FILE")]
    pub(crate) corpus: PathBuf,
    /// The questions, one JSON object a line: {"id", "text"}
    #[arg(long, value_name = "FILE")]
    pub(crate) queries: PathBuf,
    /// Which documents answer them: query, document and grade, separated by tabs
    #[arg(long, value_name = "FILE")]
    pub(crate) qrels: PathBuf,
    /// How to search
    #[arg(long, value_enum, default_value_t = SearchMode::Hybrid)]
    pub(crate) mode: SearchMode,
    #[command(flatten)]
    pub(crate) output: Json,
}

/// Whose collections are meant.
#[derive(Args)]
pub(crate) struct Whose {
    /// Act for this owner of keys: its private collections, and new ones private to it (default: shared ones and your own,
    /// new ones shared)
    #[arg(long, value_name = "OWNER")]
    pub(crate) owner: Option<String>,
}

#[derive(Args)]
pub(crate) struct AddKnowledge {
    /// The collection; made if there is none
    pub(crate) name: String,
    /// Files and folders; hidden ones below them are left out. Also `git:FOLDER` (commit messages), `man:ls`, `man:printf.3`,
    /// `man:3` (pages of the manual), `python:PACKAGE` (docstrings of an installed package) and `https://…` (a page with those
    /// below it, or a sitemap; only of `knowledge.web_hosts`)
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// The id of a new collection (default: its name with `_` for spaces)
    #[arg(long)]
    pub(crate) id: Option<String>,
    /// Let the running server keep the collection up to date with them
    #[arg(long)]
    pub(crate) watch: bool,
    /// Only files that fit this pattern, as in a .gitignore; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) include: Vec<String>,
    /// No files that fit this pattern; may be given several times
    #[arg(long, value_name = "PATTERN")]
    pub(crate) exclude: Vec<String>,
    /// A tag for the documents, besides those in their front matter; may be given several times
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct UnwatchKnowledge {
    /// The collection
    pub(crate) name: String,
    /// The folder, as it is listed by `hindcast knowledge watches` (default: all)
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct ExportKnowledge {
    /// The collection
    pub(crate) name: String,
    /// The file, which must not be there yet
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct ImportKnowledge {
    /// The file
    pub(crate) file: PathBuf,
    /// What the new collection is called (default: as it was)
    #[arg(long)]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct ImportIssues {
    /// JSON as GitHub's API, `gh issue list --json …` or GitLab's API give it, or Markdown, one issue a file; `-` for standard
    /// input (JSON)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// The collection; made if there is none
    #[arg(long, default_value = "Issues", value_name = "NAME")]
    pub(crate) collection: String,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct ListKnowledge {
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct ShowKnowledge {
    /// The collection
    pub(crate) name: String,
    /// A document of it
    pub(crate) document: Option<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct RemoveKnowledge {
    /// The collection
    pub(crate) name: String,
    /// Only this document of it (id or path)
    pub(crate) document: Option<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct RenameKnowledge {
    /// The collection
    pub(crate) name: String,
    /// Its new name
    pub(crate) new_name: String,
    /// Its new id (default: the new name with `_` for spaces)
    #[arg(long)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct SettingsKnowledge {
    /// The collection
    pub(crate) name: String,
    /// The model that makes its vectors: an installed one, or `ollama:NAME`; '' for the usual one. The old vectors answer until
    /// the new ones are complete
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// What its documents are written in, such as `de`; '' to tell it from each document
    #[arg(long)]
    pub(crate) language: Option<String>,
    /// How large its passages are at most, in bytes, 200 to 8000; 0 for the usual size. Holds for what is added from then on
    #[arg(long, value_name = "N")]
    pub(crate) passage_bytes: Option<u32>,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct OneCollection {
    /// The collection
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

#[derive(Args)]
pub(crate) struct SearchKnowledge {
    /// Words or a question
    #[arg(required = true)]
    pub(crate) query: Vec<String>,
    /// Only in this collection
    #[arg(long, value_name = "NAME")]
    pub(crate) collection: Option<String>,
    /// How many passages at most
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub(crate) limit: usize,
    /// Only passages at least this relevant, from 0 to 1 (default: all, where the best is relevant at all)
    #[arg(long, value_name = "SCORE")]
    pub(crate) min_relevance: Option<f32>,
    /// How to search
    #[arg(long, value_enum, default_value_t = SearchMode::Hybrid)]
    pub(crate) mode: SearchMode,
    /// Only documents whose path contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) path: Option<String>,
    /// Only documents whose files are of this MIME type, such as application/pdf
    #[arg(long, value_name = "TYPE")]
    pub(crate) mime_type: Option<String>,
    /// Only documents with this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
    /// Only documents from this date on, such as 2021-01-01
    #[arg(long, value_name = "DATE")]
    pub(crate) since: Option<String>,
    /// Only documents up to this date, which is included where it is a day
    #[arg(long, value_name = "DATE")]
    pub(crate) until: Option<String>,
    /// Also show so many passages before and after each
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) context: usize,
    #[command(flatten)]
    pub(crate) whose: Whose,
    #[command(flatten)]
    pub(crate) output: Json,
}

/// How to search.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SearchMode {
    /// By words
    Lexical,
    /// By meaning
    Dense,
    /// By both
    Hybrid,
}
