//! Finding the values: defaults, then the file, then the environment, then flags; the later wins.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use super::{
    Config, FlagValue, Origin, Sources,
    error::{ConfigError, Problem, Warning},
    keys::{self, Key, Kind},
    service_links, validate,
};

/// The configuration in force and where each of its values came from.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The values.
    pub(crate) config: Config,
    /// The configuration file that was read, if any.
    pub(crate) file: Option<PathBuf>,
    /// What the user should know although the configuration holds.
    pub(crate) warnings: Vec<Warning>,
    pub(super) keys: Vec<Key>,
    pub(super) settings: BTreeMap<String, Setting>,
}

/// A value that somebody set.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: toml::Value,
    pub(super) origin: Origin,
}

impl Config {
    /// The configuration in force, or everything that is wrong with it.
    ///
    /// Reads one file and touches nothing else. A value is checked even where a later source
    /// overrides it, so that a mistake in the file does not wait for the day the flag is left out.
    pub(crate) fn load(sources: &Sources) -> Result<Loaded, ConfigError> {
        let mut loader = Loader {
            sources,
            keys: keys::known_keys(),
            settings: BTreeMap::new(),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        let file = loader.find_file()?;
        if let Some(path) = &file {
            loader.read_file(path)?;
        }
        loader.read_environment();
        loader.read_flags();
        loader.finish(file)
    }
}

impl Loaded {
    /// Where the value of the dotted `key` came from.
    pub(crate) fn origin(&self, key: &str) -> Origin {
        self.settings.get(key).map_or(Origin::Default, |setting| setting.origin.clone())
    }
}

struct Loader<'a> {
    sources: &'a Sources,
    keys: Vec<Key>,
    settings: BTreeMap<String, Setting>,
    problems: Vec<Problem>,
    warnings: Vec<Warning>,
}

impl Loader<'_> {
    /// The file to read: a named one must exist, the one in the usual place need not.
    fn find_file(&self) -> Result<Option<PathBuf>, ConfigError> {
        let named = self.sources.config_file.clone().or_else(|| {
            let value = self.sources.environment.get("HINDCAST_CONFIG")?;
            (!value.is_empty()).then(|| PathBuf::from(value))
        });
        if named.is_some() {
            return Ok(named);
        }
        let Some(path) = self.sources.default_config_file() else {
            return Ok(None);
        };
        match fs::metadata(&path) {
            Ok(_) => Ok(Some(path)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(unreadable(&path, &error).into()),
        }
    }

    fn read_file(&mut self, path: &Path) -> Result<(), ConfigError> {
        let text = fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Problem::InvalidToml {
            path: path.to_owned(),
            message: error.to_string(),
        })?;
        let origin = Origin::File(path.to_owned());
        for (name, value) in table {
            self.take_tree(name, value, &origin);
        }
        Ok(())
    }

    fn take_tree(&mut self, path: String, value: toml::Value, origin: &Origin) {
        let is_key = self.keys.iter().any(|key| key.path == path);
        let prefix = format!("{path}.");
        let is_table = self.keys.iter().any(|key| key.path.starts_with(&prefix));
        match value {
            value if is_key => self.take(&path, value, origin.clone()),
            toml::Value::Table(children) if is_table || !children.is_empty() => {
                for (name, child) in children {
                    self.take_tree(format!("{prefix}{name}"), child, origin);
                }
            }
            value if is_table => self.problems.push(Problem::InvalidValue {
                value: shown(&value),
                origin: origin.clone(),
                reason: "it is a table of keys".to_owned(),
                remedy: format!("write `[{path}]` and its keys below it"),
                key: path,
            }),
            _ => self.push_unknown(path, origin.clone()),
        }
    }

    fn read_environment(&mut self) {
        let mut service_links = Vec::new();
        for (variable, text) in &self.sources.environment {
            if keys::OTHER_VARIABLES.contains(&variable.as_str()) {
                continue;
            }
            let key = self.keys.iter().find(|key| key.variable == *variable).cloned();
            match (key, text.to_str()) {
                (Some(key), Some(text)) => self.take_variable(&key, text),
                (Some(_), None) => self.problems.push(Problem::NotUnicode { variable: variable.clone() }),
                // The folders of the system.
                (None, _) if !variable.starts_with(keys::VARIABLE_PREFIX) => {}
                (None, Some(text)) if service_links::is_one(variable, text) => {
                    service_links.push(variable.clone());
                }
                // Others may use our prefix, too, and must not keep the program from starting.
                (None, _) => {
                    let hint = keys::hint_for_variable(&self.keys, variable);
                    self.warnings.push(Warning::UnknownVariable { variable: variable.clone(), hint });
                }
            }
        }
        if !service_links.is_empty() {
            self.warnings.push(Warning::ServiceLinks { variables: service_links });
        }
    }

    fn take_variable(&mut self, key: &Key, text: &str) {
        // `VARIABLE=` is how a shell takes a setting back; only a list has a use for being empty.
        if text.trim().is_empty() && !matches!(key.kind, Kind::List(_)) {
            return;
        }
        let origin = Origin::Variable(key.variable.clone());
        match key.parse(text) {
            Ok(value) => self.take(&key.path, value, origin),
            Err(reason) => self.push_invalid(key, origin, text.to_owned(), reason.to_owned()),
        }
    }

    fn read_flags(&mut self) {
        let sources = self.sources;
        for FlagValue { flag, key, value } in &sources.flags {
            let origin = Origin::Flag(flag.clone());
            if self.keys.iter().any(|known| known.path == *key) {
                self.take(key, value.clone(), origin);
            } else {
                self.push_unknown(key.clone(), origin);
            }
        }
    }

    /// Checks a value by itself and keeps it.
    fn take(&mut self, path: &str, mut value: toml::Value, origin: Origin) {
        let Some(key) = self.keys.iter().find(|key| key.path == path).cloned() else {
            return;
        };
        if let Some(reason) = key.objection(&value) {
            return self.push_invalid(&key, origin, shown(&value), reason);
        }
        // What the schema cannot say (an address, say) shows when the value is deserialised, alone
        // to know whose it is.
        let alone =
            BTreeMap::from([(path.to_owned(), Setting { value: value.clone(), origin: origin.clone() })]);
        if let Err(error) = assemble(&alone) {
            return self.push_invalid(&key, origin, shown(&value), error.message().to_owned());
        }
        if key.holds_paths && !self.expand_paths(&mut value, &origin) {
            let reason = "there is no home folder, `HOME` is not an absolute path".to_owned();
            return self.push_invalid(&key, origin, shown(&value), reason);
        }
        self.settings.insert(path.to_owned(), Setting { value, origin });
    }

    /// `~/` is the home folder; in a file, a relative path starts at the file, wherever the program
    /// is started. False when the home folder is wanted and there is none.
    fn expand_paths(&self, value: &mut toml::Value, origin: &Origin) -> bool {
        let text = match value {
            toml::Value::Array(items) => {
                return items.iter_mut().all(|item| self.expand_paths(item, origin));
            }
            toml::Value::String(text) => text,
            _ => return true,
        };
        let expanded = match (text.strip_prefix("~/"), origin) {
            (Some(rest), _) => match self.sources.home_folder() {
                Some(home) => home.join(rest),
                None => return false,
            },
            (None, Origin::File(file)) => file.parent().unwrap_or(Path::new("")).join(&*text),
            (None, _) => return true,
        };
        // Not Unicode: only the path of the file itself can make it so, and then the text stays as
        // written.
        if let Some(expanded) = expanded.to_str() {
            *text = expanded.to_owned();
        }
        true
    }

    fn push_unknown(&mut self, key: String, origin: Origin) {
        let hint = keys::hint_for_key(&self.keys, &key);
        self.problems.push(Problem::UnknownKey { key, origin, hint });
    }

    fn push_invalid(&mut self, key: &Key, origin: Origin, value: String, reason: String) {
        let remedy = format!("give {}", key.accepted());
        let key = key.path.clone();
        self.problems.push(Problem::InvalidValue { key, origin, value, reason, remedy });
    }

    fn finish(self, file: Option<PathBuf>) -> Result<Loaded, ConfigError> {
        ConfigError::check(self.problems)?;
        let mut config = assemble(&self.settings).map_err(|error| Problem::InvalidToml {
            path: file.clone().unwrap_or_default(),
            message: error.to_string(),
        })?;
        if !self.settings.contains_key("data_dir") {
            config.data_dir = self.sources.default_data_dir().ok_or(Problem::NoDataFolder)?;
        }
        let license = config.data_dir.join("license.json");
        // With a shared store, the license that is in there goes first.
        if config.license.file.is_none() && config.store.url.is_none() && license.is_file() {
            config.license.file = Some(license);
        }
        let Self { keys, settings, warnings, .. } = self;
        let loaded = Loaded { config, file, warnings, keys, settings };
        ConfigError::check(validate::problems(&loaded))?;
        Ok(loaded)
    }
}

/// The defaults with `settings` laid over them.
fn assemble(settings: &BTreeMap<String, Setting>) -> Result<Config, toml::de::Error> {
    // The defaults are plain values, so they always serialise; were they not, the missing ones come
    // from serde.
    let mut table = toml::Table::try_from(Config::default()).unwrap_or_default();
    for (path, setting) in settings {
        put(&mut table, path, setting.value.clone());
    }
    table.try_into()
}

fn put(table: &mut toml::Table, path: &str, value: toml::Value) {
    let Some((folder, rest)) = path.split_once('.') else {
        table.insert(path.to_owned(), value);
        return;
    };
    let inner = table.entry(folder).or_insert_with(|| toml::Table::new().into());
    if let toml::Value::Table(inner) = inner {
        put(inner, rest, value);
    }
}

/// A value as a message quotes it: as it would be written in a file, and not too long.
fn shown(value: &toml::Value) -> String {
    const LONGEST: usize = 80;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error) -> Problem {
    let remedy = if is_absent(error) {
        "create it, or leave out `--config` and `HINDCAST_CONFIG`"
    } else {
        "make it a text file that this user may read"
    };
    Problem::UnreadableFile { path: path.to_owned(), reason: error.to_string(), remedy: remedy.to_owned() }
}

#[cfg(test)]
mod tests;
