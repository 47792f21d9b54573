//! The documentation of a Rust crate as `rustdoc --output-format json` writes it.

use std::collections::{HashMap, HashSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{ExtractError, Extracted, outline::Outline};

/// Modules in modules, and re-exports of re-exports.
const DEEPEST: usize = 50;

/// A version that is longer, in bytes, is none.
const LONGEST_TAG: usize = 200;

#[derive(Deserialize)]
struct Documentation {
    root: Value,
    crate_version: Option<String>,
    index: HashMap<String, Item>,
}

#[derive(Deserialize)]
struct Item {
    name: Option<String>,
    docs: Option<String>,
    /// What it is, and what is said of such things.
    inner: Value,
}

/// Whether a JSON file is one of rustdoc's, as far as its beginning tells.
pub(crate) fn is_rustdoc(bytes: &[u8]) -> bool {
    let beginning = String::from_utf8_lossy(&bytes[..bytes.len().min(300)]);
    beginning.starts_with("{\"root\":") && beginning.contains("\"includes_private\":")
}

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let documentation: Documentation = serde_json::from_slice(bytes)
        .map_err(|error| ExtractError::Broken { format: "rustdoc JSON", reason: error.to_string() })?;
    let root = id_of(&documentation.root);
    let name = documentation.index.get(&root).and_then(|item| item.name.as_deref());
    let version = documentation.crate_version.as_deref();
    let tag = name.zip(version).map(|(name, version)| format!("{name}@{version}"));
    let title = name.map(|name| match version {
        Some(version) => format!("{name} {version}"),
        None => name.to_owned(),
    });
    let mut reader =
        Reader { index: &documentation.index, outline: Outline::default(), seen: HashSet::new() };
    reader.module(&root, "", 0);
    let tags = tag.filter(|tag| tag.len() <= LONGEST_TAG).into_iter().collect();
    Ok(Extracted { tags, ..reader.outline.finish(title) })
}

/// Ids are numbers, and were texts.
fn id_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn ids(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(id_of).collect()
}

impl Item {
    /// Its kind, as rustdoc calls it, and the rest.
    fn kind(&self) -> (&str, &Value) {
        let kind = self.inner.as_object().and_then(|kinds| kinds.iter().next());
        kind.map_or(("", &Value::Null), |(kind, content)| (kind.as_str(), content))
    }

    fn said(&self) -> &str {
        self.docs.as_deref().map_or("", str::trim)
    }
}

struct Reader<'a> {
    index: &'a HashMap<String, Item>,
    outline: Outline,
    seen: HashSet<String>,
}

impl<'a> Reader<'a> {
    fn module(&mut self, id: &str, above: &str, depth: usize) {
        let Some(item) = self.index.get(id).filter(|_| depth < DEEPEST && self.seen.insert(id.to_owned()))
        else {
            return;
        };
        let name = item.name.as_deref().unwrap_or_default();
        let path = if above.is_empty() { name.to_owned() } else { format!("{above}::{name}") };
        self.outline.heading(1, &path);
        self.outline.body(item.said());
        let mut modules = Vec::new();
        for child in self.resolved(&ids(&item.kind().1["items"])) {
            match self.index[&child].kind().0 {
                "module" => modules.push(child),
                _ => self.item(&child, &path),
            }
        }
        // The headings of a module hold until those of the next.
        for module in modules {
            self.module(&module, &path, depth + 1);
        }
    }

    /// The items that are here, each re-export by what it leads to.
    fn resolved(&self, ids: &[String]) -> Vec<String> {
        let follow = |id: &String| {
            let mut id = id.clone();
            for _ in 0..DEEPEST {
                let (kind, content) = self.index.get(&id)?.kind();
                match kind {
                    "use" | "import" => id = id_of(&content["id"]),
                    _ => return Some(id),
                }
            }
            None
        };
        ids.iter().filter_map(follow).collect()
    }

    fn item(&mut self, id: &str, path: &str) {
        let Some(item) = self.index.get(id).filter(|_| self.seen.insert(id.to_owned())) else { return };
        let (kind, content) = item.kind();
        let name = item.name.as_deref().unwrap_or_default();
        let path = format!("{path}::{name}");
        let members = self.members(content);
        if item.said().is_empty() && members.is_empty() {
            return;
        }
        self.outline.heading(2, &format!("{} {path}", written(kind)));
        self.outline.body(item.said());
        for member in members {
            self.outline.heading(
                3,
                &format!(
                    "{} {name}::{}",
                    written(member.kind().0),
                    member.name.as_deref().unwrap_or_default()
                ),
            );
            self.outline.body(member.said());
        }
    }

    /// What is documented of a type's variants, fields and own functions, and of a trait's items.
    fn members(&self, content: &'a Value) -> Vec<&'a Item> {
        let mut members = ids(&content["items"]);
        members.extend(ids(&content["variants"]));
        members.extend(ids(&content["kind"]["plain"]["fields"]));
        for id in ids(&content["impls"]) {
            let Some(("impl", block)) = self.index.get(&id).map(Item::kind) else { continue };
            // What a trait's functions do is said where the trait is.
            if block["trait"].is_null() {
                members.extend(ids(&block["items"]));
            }
        }
        members
            .iter()
            .filter_map(|id| self.index.get(id))
            .filter(|member| !member.said().is_empty())
            .collect()
    }
}

/// A kind as it is written in Rust.
fn written(kind: &str) -> &str {
    match kind {
        "function" => "fn",
        "constant" | "assoc_const" => "const",
        "type_alias" | "assoc_type" => "type",
        "struct_field" => "field",
        "proc_macro" => "macro",
        other => other,
    }
}
