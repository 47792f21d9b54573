//! Setting and removing one value in the text of a TOML document. Comments and layout stay.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Item, Table};

/// What a document says.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let table: toml::Table = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    serde_json::to_value(table).map_err(|error| error.to_string())
}

/// `document` with `value` at `path`, making the tables on the way. `None` when something on the way is no table, or TOML has no
/// such value.
pub(super) fn set(document: &str, path: &[&str], value: &Value) -> Option<String> {
    let mut document: DocumentMut = document.parse().ok()?;
    let (name, tables) = path.split_last()?;
    let mut table = document.as_table_mut();
    for (depth, key) in tables.iter().enumerate() {
        let made = || {
            let mut table = Table::new();
            // `[mcp_servers]` alone says nothing above `[mcp_servers.NAME]`.
            table.set_implicit(depth + 1 < tables.len());
            Item::Table(table)
        };
        table = table.entry(key).or_insert_with(made).as_table_mut()?;
    }
    let mut item = Item::Value(item(value)?);
    // What stood before and behind the old value stays there.
    if let (Some(old), Some(new)) = (table.get(name).and_then(Item::as_value), item.as_value_mut()) {
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(name, item);
    Some(document.to_string())
}

/// `document` without what is at `path`, and without a table on the way that has nothing else; `None` when nothing is there.
pub(super) fn remove(document: &str, path: &[&str]) -> Option<String> {
    let mut document: DocumentMut = document.parse().ok()?;
    remove_from(document.as_table_mut(), path)?;
    Some(document.to_string())
}

fn remove_from(table: &mut Table, path: &[&str]) -> Option<()> {
    let (key, rest) = path.split_first()?;
    if rest.is_empty() {
        return table.remove(key).map(drop);
    }
    let inner = table.get_mut(key)?.as_table_mut()?;
    remove_from(inner, rest)?;
    if inner.is_empty() {
        table.remove(key);
    }
    Some(())
}

/// Texts, truth values and lists of texts, which is all that an entry has.
fn item(value: &Value) -> Option<toml_edit::Value> {
    match value {
        Value::String(text) => Some(text.as_str().into()),
        Value::Bool(truth) => Some((*truth).into()),
        Value::Array(all) => {
            let texts: Option<Array> = all.iter().map(Value::as_str).collect();
            Some(texts?.into())
        }
        Value::Null | Value::Number(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const USERS: &str = "# mine\nmodel = \"o9\"   # the large one\n\n[mcp_servers.other]\ncommand = 'npx'\n\n[tui]\ntheme = \"x\"\n";

    #[test]
    fn only_the_entry_changes_and_goes_again() {
        let path = ["mcp_servers", "hindcast"];
        let with = set(USERS, &["mcp_servers", "hindcast", "command"], &json!("/opt/hindcast")).unwrap();
        let with = set(&with, &["mcp_servers", "hindcast", "args"], &json!(["mcp"])).unwrap();
        assert!(with.contains("model = \"o9\"   # the large one"), "{with}");
        assert!(
            with.contains("[mcp_servers.hindcast]\ncommand = \"/opt/hindcast\"\nargs = [\"mcp\"]\n"),
            "{with}"
        );
        assert_eq!(parse(&with).unwrap()["mcp_servers"]["other"]["command"], "npx");
        assert_eq!(remove(&with, &path).unwrap(), USERS);
        assert_eq!(remove(USERS, &path), None);
        let only = set("", &["mcp_servers", "hindcast", "command"], &json!("x")).unwrap();
        assert_eq!(only, "[mcp_servers.hindcast]\ncommand = \"x\"\n");
        assert_eq!(remove(&only, &path).unwrap(), "");
    }

    #[test]
    fn a_value_keeps_the_comment_behind_it() {
        let before = "[mcp_servers.hindcast]\ncommand = \"old\" # why\n";
        let after = set(before, &["mcp_servers", "hindcast", "command"], &json!("new")).unwrap();
        assert_eq!(after, "[mcp_servers.hindcast]\ncommand = \"new\" # why\n");
    }

    #[test]
    fn what_is_no_table_is_not_edited() {
        for document in ["mcp_servers = 1", "mcp_servers = [", "[[mcp_servers]]\nx = 1"] {
            assert_eq!(
                set(document, &["mcp_servers", "hindcast", "command"], &json!("x")),
                None,
                "{document}"
            );
        }
    }
}
