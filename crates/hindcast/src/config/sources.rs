//! Where values come from: the file, the environment, the command line.

use std::{collections::BTreeMap, ffi::OsString, fmt, path::PathBuf};

use super::keys;

/// Variables that say where the usual folders are.
const FOLDER_VARIABLES: [&str; 3] = ["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"];

/// Where values may come from. [`Sources::from_process`] takes the real ones; tests make their own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    /// The file given with `--config`.
    pub(crate) config_file: Option<PathBuf>,
    /// The usual folders and `HINDCAST_…`; others are not looked at.
    pub(crate) environment: BTreeMap<String, OsString>,
    /// Values given on the command line.
    pub(crate) flags: Vec<FlagValue>,
}

/// A value given on the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlagValue {
    /// As typed, such as `--listen`.
    pub(crate) flag: String,
    /// The key it sets, such as `server.listen`.
    pub(crate) key: String,
    /// The value, of the type that the key has in a file.
    pub(crate) value: toml::Value,
}

/// Where the value of a key came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Origin {
    /// Nobody set it.
    Default,
    /// The configuration file at this path.
    File(PathBuf),
    /// The environment variable of this name.
    Variable(String),
    /// The command line, with this flag.
    Flag(String),
}

impl Sources {
    /// The environment of this process.
    pub(crate) fn from_process(config_file: Option<PathBuf>, flags: Vec<FlagValue>) -> Self {
        let ours = |name: &str| FOLDER_VARIABLES.contains(&name) || name.starts_with(keys::VARIABLE_PREFIX);
        let environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| ours(name))
            .collect();
        Self { config_file, environment, flags }
    }

    /// The folder that `variable` names. The XDG specification wants relative ones ignored.
    fn absolute_folder(&self, variable: &str) -> Option<PathBuf> {
        self.environment.get(variable).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    pub(super) fn home_folder(&self) -> Option<PathBuf> {
        self.absolute_folder("HOME")
    }

    pub(super) fn default_data_dir(&self) -> Option<PathBuf> {
        self.absolute_folder("XDG_DATA_HOME")
            .or_else(|| Some(self.home_folder()?.join(".local/share")))
            .map(|folder| folder.join("hindcast"))
    }

    pub(super) fn default_config_file(&self) -> Option<PathBuf> {
        self.absolute_folder("XDG_CONFIG_HOME")
            .or_else(|| Some(self.home_folder()?.join(".config")))
            .map(|folder| folder.join("hindcast").join("config.toml"))
    }
}

impl FlagValue {
    /// A value given with `flag` (as typed) for the dotted `key`.
    pub(crate) fn new(flag: &str, key: &str, value: impl Into<toml::Value>) -> Self {
        Self { flag: flag.to_owned(), key: key.to_owned(), value: value.into() }
    }
}

impl Origin {
    /// How a sentence about a value goes on.
    pub(super) fn phrase(&self) -> String {
        match self {
            Self::Default => "by default".to_owned(),
            Self::File(path) => format!("in {}", path.display()),
            Self::Variable(name) => format!("from the variable `{name}`"),
            Self::Flag(flag) => format!("from the flag `{flag}`"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Variable(name) | Self::Flag(name) => formatter.write_str(name),
        }
    }
}
