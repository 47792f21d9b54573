//! The known keys, read from the schema and the defaults of [`Config`].

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Config;

/// Prefix of every environment variable that sets a key.
pub(super) const VARIABLE_PREFIX: &str = "HINDCAST_";

/// Variables with our prefix that are not keys of the configuration.
pub(super) const OTHER_VARIABLES: [&str; 6] = [
    "HINDCAST_CONFIG",
    "HINDCAST_LOG",
    "HINDCAST_PEERS",
    "HINDCAST_REQUIRE_PEERS",
    "HINDCAST_SELF_CHECK",
    "HINDCAST_UPDATE",
];

/// Below this similarity a name is mentioned, but not proposed.
const NEAR: f64 = 0.6;

/// A place in the configuration that holds a value (not a table).
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    /// Dotted, as in `server.listen`.
    pub(super) path: String,
    /// The environment variable that sets it, as in `HINDCAST_SERVER_LISTEN`.
    pub(super) variable: String,
    pub(super) kind: Kind,
    /// Values are paths, in which `~/` is expanded.
    pub(super) holds_paths: bool,
    pub(super) description: String,
    /// Null when there is none.
    pub(super) default: Value,
}

/// What values a key takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Text,
    Boolean,
    Integer {
        minimum: i64,
        maximum: i64,
    },
    /// Of texts; only of these, unless there are none.
    List(Vec<String>),
    Choice(Vec<String>),
    Table,
}

/// Every key, those of the top level first, then by name.
pub(super) fn known_keys() -> Vec<Key> {
    let schema = SchemaSettings::default()
        .with(|settings| settings.inline_subschemas = true)
        .into_generator()
        .into_root_schema_for::<Config>();
    // Paths of a default are plain ASCII, so this cannot fail; an empty object would only lose the
    // default column.
    let defaults = serde_json::to_value(Config::default()).unwrap_or_default();
    let mut keys = Vec::new();
    collect(schema.as_value(), &defaults, "", &mut keys);
    keys.sort_by(|left, right| {
        let depth = |key: &Key| key.path.contains('.');
        (depth(left), &left.path).cmp(&(depth(right), &right.path))
    });
    keys
}

fn collect(schema: &Value, defaults: &Value, prefix: &str, keys: &mut Vec<Key>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        let default = &defaults[name.as_str()];
        if property["properties"].is_object() {
            collect(property, default, &path, keys);
            continue;
        }
        keys.push(Key {
            variable: variable_of(&path),
            kind: Kind::of(property),
            holds_paths: property["format"] == "path",
            description: property["description"].as_str().unwrap_or_default().replace('\n', " "),
            default: default.clone(),
            path,
        });
    }
}

fn variable_of(path: &str) -> String {
    format!("{VARIABLE_PREFIX}{}", path.replace('.', "_").to_uppercase())
}

impl Kind {
    fn of(property: &Value) -> Self {
        if let Some(names) = choices(property) {
            return Self::Choice(names);
        }
        // The type of an optional value is an array such as ["string", "null"].
        let type_name = match &property["type"] {
            Value::Array(types) => types.first().and_then(Value::as_str),
            name => name.as_str(),
        };
        match type_name {
            Some("integer") => Self::Integer {
                minimum: property["minimum"].as_i64().unwrap_or(i64::MIN),
                maximum: property["maximum"].as_i64().unwrap_or(i64::MAX),
            },
            Some("boolean") => Self::Boolean,
            Some("array") => Self::List(choices(&property["items"]).unwrap_or_default()),
            Some("object") => Self::Table,
            _ => Self::Text,
        }
    }
}

/// The constants that a schema chooses between.
fn choices(schema: &Value) -> Option<Vec<String>> {
    // A choice whose variants are documented is a `oneOf` of constants, otherwise an `enum`.
    let variants = schema["oneOf"].as_array().or_else(|| schema["enum"].as_array())?;
    let names = variants.iter().map(|variant| variant.get("const").unwrap_or(variant));
    Some(names.filter_map(Value::as_str).map(str::to_owned).collect())
}

fn one_of(names: &[String]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

impl Key {
    /// What to write, for a hint and for the reference.
    pub(super) fn accepted(&self) -> String {
        match &self.kind {
            Kind::Boolean => "`true` or `false`".to_owned(),
            Kind::Integer { minimum, maximum } => {
                format!("a whole number from {minimum} to {maximum}")
            }
            Kind::Table => "tables, in the file only".to_owned(),
            Kind::List(_) if self.holds_paths => "a list of paths".to_owned(),
            Kind::List(names) if names.is_empty() => "a list of texts".to_owned(),
            Kind::List(names) => format!("a list of {}", one_of(names)),
            Kind::Choice(names) => format!("one of {}", one_of(names)),
            Kind::Text if self.holds_paths => "a path".to_owned(),
            Kind::Text => match self.default.as_str() {
                Some(default) => format!("a text such as `{default}`"),
                None => "a text".to_owned(),
            },
        }
    }

    /// The value that an environment variable's text stands for, or why it stands for none.
    pub(super) fn parse(&self, text: &str) -> Result<toml::Value, &'static str> {
        let text = text.trim();
        match self.kind {
            Kind::Boolean => match text {
                "true" | "1" => Ok(toml::Value::Boolean(true)),
                "false" | "0" => Ok(toml::Value::Boolean(false)),
                _ => Err("it is not a boolean"),
            },
            Kind::Integer { .. } => {
                text.parse().map(toml::Value::Integer).map_err(|_| "it is not a whole number")
            }
            Kind::List(_) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                Ok(toml::Value::Array(items.map(toml::Value::from).collect()))
            }
            Kind::Text | Kind::Choice(_) => Ok(toml::Value::from(text)),
            Kind::Table => Err("a variable cannot hold tables"),
        }
    }

    /// Why `value` cannot be the value of this key.
    pub(super) fn objection(&self, value: &toml::Value) -> Option<String> {
        let expected = |name: &str| Some(format!("expected {name}, found {}", value.type_str()));
        match (&self.kind, value) {
            (Kind::Integer { minimum, .. }, toml::Value::Integer(number)) if number < minimum => {
                Some("it is too small".to_owned())
            }
            (Kind::Integer { maximum, .. }, toml::Value::Integer(number)) if number > maximum => {
                Some("it is too large".to_owned())
            }
            (Kind::Integer { .. }, toml::Value::Integer(_)) => None,
            (Kind::Integer { .. }, _) => expected("a whole number"),
            (Kind::Boolean, toml::Value::Boolean(_)) => None,
            (Kind::Boolean, _) => expected("a boolean"),
            (Kind::List(names), toml::Value::Array(items)) => items.iter().find_map(|item| {
                let Some(name) = item.as_str() else {
                    return Some(format!("expected texts in the list, found {}", item.type_str()));
                };
                let known = names.is_empty() || names.iter().any(|known| known == name);
                (!known).then(|| format!("there is no choice `{name}`"))
            }),
            (Kind::List(_), _) => expected("a list"),
            (Kind::Table, toml::Value::Table(_)) => None,
            (Kind::Table, _) => expected("a table"),
            (Kind::Choice(names), toml::Value::String(name)) => {
                (!names.contains(name)).then(|| "there is no such choice".to_owned())
            }
            (Kind::Text, toml::Value::String(text)) => text.is_empty().then(|| "it is empty".to_owned()),
            (Kind::Choice(_) | Kind::Text, _) => expected("a text"),
        }
    }
}

/// A hint that names the key nearest to an unknown one.
pub(super) fn hint_for_key(keys: &[Key], unknown: &str) -> String {
    let last = unknown.rsplit('.').next().unwrap_or(unknown);
    let scored = keys.iter().map(|key| (key.path.as_str(), key.similarity(unknown, last)));
    hint(scored, "key")
}

/// A hint that names the variable nearest to an unknown one.
pub(super) fn hint_for_variable(keys: &[Key], unknown: &str) -> String {
    let name = unknown.trim_start_matches(VARIABLE_PREFIX).to_lowercase();
    let of_keys = keys.iter().map(|key| (key.variable.as_str(), key.similarity(&name, &name)));
    let others =
        OTHER_VARIABLES.iter().map(|other| (*other, strsim::normalized_damerau_levenshtein(other, unknown)));
    // The prefix that all of these share would make anything look similar.
    let others = others.filter(|(_, score)| *score > 0.85);
    hint(of_keys.chain(others), "variable")
}

fn hint<'a>(scored: impl Iterator<Item = (&'a str, f64)>, noun: &str) -> String {
    match scored.max_by(|left, right| left.1.total_cmp(&right.1)) {
        Some((name, score)) if score >= NEAR => format!("did you mean `{name}`?"),
        Some((name, _)) => {
            format!("the nearest {noun} is `{name}`; `hindcast config show` lists them all")
        }
        None => "`hindcast config show` lists them all".to_owned(),
    }
}

impl Key {
    /// Compares whole paths, and last names too, so that `listen` finds `server.listen`.
    fn similarity(&self, path: &str, last: &str) -> f64 {
        let whole =
            strsim::normalized_damerau_levenshtein(&self.path.replace('.', "_"), &path.replace('.', "_"));
        let own_last = self.path.rsplit('.').next().unwrap_or(&self.path);
        whole.max(0.95 * strsim::normalized_damerau_levenshtein(own_last, last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn key(path: &str) -> Key {
        known_keys().into_iter().find(|key| key.path == path).expect("a known key")
    }

    #[test]
    fn the_definition_yields_each_kind_of_key() {
        assert_eq!(key("server.listen").kind, Kind::Text);
        assert_eq!(key("server.http").kind, Kind::Boolean);
        assert_eq!(key("server.tls_cert").kind, Kind::Text);
        assert_eq!(key("server.allowed_hosts").kind, Kind::List(Vec::new()));
        assert!(
            matches!(key("server.toolsets").kind, Kind::List(names) if names.contains(&"xml".to_owned()))
        );
        assert_eq!(key("server.max_body_bytes").kind, Kind::Integer { minimum: 1024, maximum: 1 << 30 });
        let choices = vec!["slash".to_owned(), "underscore".to_owned()];
        assert_eq!(key("server.tool_names").kind, Kind::Choice(choices));
        assert!(key("debug.allowed_folders").holds_paths);
        assert!(!key("debug.allowed_users").holds_paths);
        assert_eq!(key("tiers.team.per_minute").default, 300);
    }

    #[test]
    fn every_key_is_described_and_has_a_variable_of_its_own() {
        let keys = known_keys();
        let variables: BTreeSet<_> = keys.iter().map(|key| &key.variable).collect();
        assert_eq!(variables.len(), keys.len());
        for key in &keys {
            assert!(key.description.ends_with('.'), "{} is not described", key.path);
            assert!(!OTHER_VARIABLES.contains(&key.variable.as_str()), "{}", key.path);
        }
    }

    #[test]
    fn every_default_is_a_value_its_key_accepts() {
        for key in known_keys().iter().filter(|key| !key.default.is_null()) {
            let value = toml::Value::try_from(&key.default).expect("a TOML value");
            assert_eq!(key.objection(&value), None, "{}", key.path);
        }
    }

    #[test]
    fn hints_name_the_nearest_key() {
        for (unknown, expected) in [
            ("server.lisen", "did you mean `server.listen`?"),
            ("sever.listen", "did you mean `server.listen`?"),
            ("listen", "did you mean `server.listen`?"),
            ("tiers.team.per_mnth", "did you mean `tiers.team.per_month`?"),
            ("datadir", "did you mean `data_dir`?"),
            ("server.level", "did you mean `log.level`?"),
        ] {
            assert_eq!(hint_for_key(&known_keys(), unknown), expected, "{unknown}");
        }
        let far = hint_for_key(&known_keys(), "qqqqqqqq");
        assert!(far.starts_with("the nearest key is `"), "{far}");
    }

    #[test]
    fn hints_name_the_nearest_variable() {
        for (unknown, expected) in [
            ("HINDCAST_SERVER_LISEN", "did you mean `HINDCAST_SERVER_LISTEN`?"),
            ("HINDCAST_LISTEN", "did you mean `HINDCAST_SERVER_LISTEN`?"),
            ("HINDCAST_CONFG", "did you mean `HINDCAST_CONFIG`?"),
            ("HINDCAST_LOGLEVEL", "did you mean `HINDCAST_LOG_LEVEL`?"),
        ] {
            assert_eq!(hint_for_variable(&known_keys(), unknown), expected, "{unknown}");
        }
    }
}
