//! The reference page of the configuration, generated from its definition.

use serde_json::Value;

use super::keys::{self, Key};

const INTRODUCTION: &str = "# Configuration

<!-- Generated from the definition of the configuration: edit the comments there. -->

A value is looked for in four places; the later wins:

1. the default below;
2. the file: `--config FILE`, else `$HINDCAST_CONFIG`, else `$XDG_CONFIG_HOME/hindcast/config.toml`
   (`~/.config/hindcast/config.toml`) when it exists;
3. the environment variable; the items of a list are separated by commas;
4. the flag of the command, where it has one.

`hindcast config show` prints every key, its value and where the value came from. An unknown key in the file and a value
out of range are errors. An unknown variable that begins with `HINDCAST_` is a warning that names the nearest known one;
Kubernetes sets such variables for a service named `hindcast`. In paths, `~/` is the home folder; a relative path in the
file starts at the file's folder.
";

/// The page `docs/reference/configuration.md`: every key with default, variable, accepted values
/// and meaning.
pub(crate) fn reference_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut previous = None;
    for key in keys::known_keys() {
        let table = key.path.rsplit_once('.').map(|(table, _)| table.to_owned());
        if previous.as_ref() != Some(&table) {
            let heading = table.as_ref().map_or("Top level".to_owned(), |name| format!("`[{name}]`"));
            page.push_str(&format!("\n## {heading}\n\n"));
            page.push_str("| key | default | values | variable | meaning |\n|---|---|---|---|---|\n");
            previous = Some(table);
        }
        page.push_str(&row(&key));
    }
    page
}

fn row(key: &Key) -> String {
    let name = key.path.rsplit('.').next().unwrap_or(&key.path);
    let default = match &key.default {
        Value::Null => "none".to_owned(),
        value => format!("`{value}`"),
    };
    let cells = [
        format!("`{name}`"),
        default,
        key.accepted(),
        format!("`{}`", key.variable),
        key.description.clone(),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_every_key() {
        let page = reference_markdown();
        for key in keys::known_keys() {
            assert!(page.contains(&format!("`{}`", key.variable)), "{}", key.path);
        }
        let heading = page.find("## `[server]`").expect("a section");
        let row = page[heading..].lines().find(|line| line.starts_with("| `listen`")).expect("a row");
        assert_eq!(
            row,
            "| `listen` | `\"127.0.0.1:7443\"` | a text such as `127.0.0.1:7443` | `HINDCAST_SERVER_LISTEN` | IP \
             address and port to listen on. Port 0 takes any free port. |"
        );
    }

    #[test]
    fn each_table_has_one_section_and_every_row_five_cells() {
        let page = reference_markdown();
        assert_eq!(page.matches("## `[tiers.team]`").count(), 1);
        assert_eq!(page.matches("## Top level").count(), 1);
        for line in page.lines().filter(|line| line.starts_with("| `")) {
            assert_eq!(line.matches(" | ").count(), 4, "{line}");
        }
    }
}
