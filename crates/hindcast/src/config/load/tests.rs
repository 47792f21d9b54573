use std::ffi::OsString;

use tempfile::TempDir;

use super::*;
use crate::config::{Environment, LogLevel, ToolNames};

/// A home folder of its own, and what to load there.
struct Case {
    home: TempDir,
    sources: Sources,
}

impl Case {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a home folder");
        let mut case = Self { home, sources: Sources::default() };
        let path = case.home.path().to_str().expect("a Unicode path").to_owned();
        case.variable("HOME", &path);
        case
    }

    fn with_file(text: &str) -> Self {
        let mut case = Self::new();
        let path = case.home.path().join("config.toml");
        fs::write(&path, text).expect("a file");
        case.sources.config_file = Some(path);
        case
    }

    fn variable(&mut self, name: &str, value: &str) -> &mut Self {
        self.sources.environment.insert(name.to_owned(), OsString::from(value));
        self
    }

    fn flag(&mut self, flag: &str, key: &str, value: impl Into<toml::Value>) -> &mut Self {
        self.sources.flags.push(FlagValue::new(flag, key, value));
        self
    }

    fn load(&self) -> Loaded {
        Config::load(&self.sources).expect("a configuration")
    }

    /// The error, with the changing name of the home folder written as `HOME`.
    fn error(&self) -> String {
        let error = Config::load(&self.sources).expect_err("an error").to_string();
        error.replace(self.home.path().to_str().expect("a Unicode path"), "HOME")
    }
}

#[test]
fn without_any_source_the_defaults_are_in_force() {
    let case = Case::new();
    let loaded = case.load();
    let data_dir = case.home.path().join(".local/share/hindcast");
    assert_eq!(loaded.config, Config { data_dir, ..Config::default() });
    assert_eq!(loaded.file, None);
    assert!(loaded.keys.iter().all(|key| loaded.origin(&key.path) == Origin::Default));
}

#[test]
fn a_later_source_overrides_an_earlier_one() {
    let mut case = Case::with_file("[server]\nlisten = \"127.0.0.1:1\"\nmax_connections = 7\n");
    let file = case.sources.config_file.clone().expect("a file");
    let listen = |case: &Case| {
        let loaded = case.load();
        (loaded.config.server.listen.port(), loaded.origin("server.listen"))
    };
    assert_eq!(listen(&case), (1, Origin::File(file)));
    case.variable("HINDCAST_SERVER_LISTEN", "127.0.0.1:2");
    assert_eq!(listen(&case), (2, Origin::Variable("HINDCAST_SERVER_LISTEN".to_owned())));
    case.flag("--listen", "server.listen", "127.0.0.1:3");
    assert_eq!(listen(&case), (3, Origin::Flag("--listen".to_owned())));
    // The neighbours in the same table keep what the file said.
    assert_eq!(case.load().config.server.max_connections, 7);
}

#[test]
fn a_table_given_in_part_keeps_the_other_defaults() {
    let loaded = Case::with_file("[tiers.developer]\nper_minute = 5\n").load();
    assert_eq!(loaded.config.tiers.developer.per_minute, 5);
    assert_eq!(loaded.config.tiers.developer.per_month, 10_000);
    assert_eq!(loaded.config.tiers.team.per_minute, 300);
}

#[test]
fn variables_are_read_by_the_type_of_their_key() {
    let mut case = Case::with_file("[server]\nallowed_origins = [\"https://a.example\"]\n");
    case.variable("HINDCAST_ENVIRONMENT", "test")
        .variable("HINDCAST_SERVER_HTTP", "1")
        .variable("HINDCAST_SERVER_TOOL_NAMES", "underscore")
        .variable("HINDCAST_SERVER_ALLOWED_HOSTS", " a.example ,b.example,")
        .variable("HINDCAST_SERVER_ALLOWED_ORIGINS", "")
        .variable("HINDCAST_TIERS_FREE_PER_MONTH", "9")
        .variable("HINDCAST_LOG_LEVEL", "")
        .variable("HINDCAST_DEBUG_ALLOWED_FOLDERS", "~/programs,/srv");
    let config = case.load().config;
    assert_eq!(config.environment, Environment::Test);
    assert!(config.server.http);
    assert_eq!(config.server.tool_names, ToolNames::Underscore);
    assert_eq!(config.server.allowed_hosts, ["a.example", "b.example"]);
    assert!(config.server.allowed_origins.is_empty(), "an empty list overrides the file");
    assert_eq!(config.tiers.free.per_month, 9);
    assert_eq!(config.log.level, LogLevel::Info, "an empty variable is as good as none");
    assert_eq!(config.debug.allowed_folders, [case.home.path().join("programs"), PathBuf::from("/srv")]);
}

#[test]
fn the_file_is_found_by_flag_then_variable_then_in_the_usual_places() {
    let mut case = Case::new();
    let put = |case: &Case, name: &str, level: &str| {
        let path = case.home.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, format!("[log]\nlevel = \"{level}\"\n")).expect("a file");
        path
    };
    let level = |case: &Case| case.load().config.log.level;
    assert_eq!(level(&case), LogLevel::Info);
    put(&case, ".config/hindcast/config.toml", "error");
    assert_eq!(level(&case), LogLevel::Error);
    put(&case, "xdg/hindcast/config.toml", "warn");
    let xdg = case.home.path().join("xdg");
    case.variable("XDG_CONFIG_HOME", xdg.to_str().expect("a Unicode path"));
    assert_eq!(level(&case), LogLevel::Warn);
    let named = put(&case, "named.toml", "debug");
    case.variable("HINDCAST_CONFIG", named.to_str().expect("a Unicode path"));
    assert_eq!(level(&case), LogLevel::Debug);
    case.sources.config_file = Some(put(&case, "flag.toml", "trace"));
    assert_eq!(level(&case), LogLevel::Trace);
}

#[test]
fn the_data_folder_follows_the_xdg_specification() {
    let mut case = Case::new();
    case.variable("XDG_DATA_HOME", "/data");
    assert_eq!(case.load().config.data_dir, Path::new("/data/hindcast"));
    case.variable("XDG_DATA_HOME", "relative/is/ignored");
    assert_eq!(case.load().config.data_dir, case.home.path().join(".local/share/hindcast"));
    case.sources.environment.remove("HOME");
    assert_eq!(
        case.error(),
        "cannot tell where the data folder is: neither `XDG_DATA_HOME` nor `HOME` is an absolute path \
         · hint: set `data_dir`, `HINDCAST_DATA_DIR` or `--data-dir`"
    );
    case.flag("--data-dir", "data_dir", "here");
    assert_eq!(case.load().config.data_dir, Path::new("here"));
}

#[test]
fn a_relative_path_in_the_file_starts_at_the_file() {
    let case = Case::with_file("data_dir = \"data\"\n[license]\nfile = \"~/mine.json\"\n");
    let config = case.load().config;
    assert_eq!(config.data_dir, case.home.path().join("data"));
    assert_eq!(config.license.file, Some(case.home.path().join("mine.json")));
}

#[test]
fn a_path_in_the_home_folder_needs_a_home_folder() {
    let mut case = Case::new();
    case.variable("HOME", "").variable("HINDCAST_DATA_DIR", "~/data");
    assert_eq!(
        case.error(),
        "invalid value `\"~/data\"` for `data_dir` from the variable `HINDCAST_DATA_DIR`: there is no home folder, \
         `HOME` is not an absolute path · hint: give a path"
    );
}

#[test]
fn a_license_in_the_data_folder_is_found() {
    let case = Case::with_file("data_dir = \".\"\n");
    assert_eq!(case.load().config.license.file, None);
    fs::write(case.home.path().join("license.json"), "{}").expect("a file");
    let found = case.load().config.license.file.expect("a license");
    assert!(found.ends_with("license.json"));
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_key_place_value_and_remedy() {
    for (text, expected) in [
        (
            "[server]\nlisen = \"127.0.0.1:1\"\n",
            "unknown key `server.lisen` in HOME/config.toml · hint: did you mean `server.listen`?",
        ),
        (
            "[logs]\n",
            "unknown key `logs` in HOME/config.toml · hint: the nearest key is `log.level`; \
          `hindcast config show` lists them all",
        ),
        (
            "server = 3\n",
            "invalid value `3` for `server` in HOME/config.toml: it is a table of keys · hint: write `[server]` and \
             its keys below it",
        ),
        (
            "[server]\nlisten = \"localhost\"\n",
            "invalid value `\"localhost\"` for `server.listen` in HOME/config.toml: invalid socket address syntax \
             · hint: give a text such as `127.0.0.1:7443`",
        ),
        (
            "[server.listen]\nport = 1\n",
            "invalid value `{ port = 1 }` for `server.listen` in HOME/config.toml: expected a text, found table \
             · hint: give a text such as `127.0.0.1:7443`",
        ),
        (
            "[server]\nhttp = \"yes\"\n",
            "invalid value `\"yes\"` for `server.http` in HOME/config.toml: expected a boolean, found string \
             · hint: give `true` or `false`",
        ),
        (
            "[server]\nrequest_timeout_ms = 0\n",
            "invalid value `0` for `server.request_timeout_ms` in HOME/config.toml: it is too small \
             · hint: give a whole number from 1 to 86400000",
        ),
        (
            "[server]\nmax_body_bytes = 1000\n",
            "invalid value `1000` for `server.max_body_bytes` in HOME/config.toml: it is too small \
             · hint: give a whole number from 1024 to 1073741824",
        ),
        (
            "[server]\nallowed_hosts = [1]\n",
            "invalid value `[1]` for `server.allowed_hosts` in HOME/config.toml: expected texts in the list, found \
             integer · hint: give a list of texts",
        ),
        (
            "[log]\nformat = \"xml\"\n",
            "invalid value `\"xml\"` for `log.format` in HOME/config.toml: there is no such choice \
             · hint: give one of `text`, `json`",
        ),
        (
            "[server]\ntls_cert = \"cert.pem\"\n",
            "invalid value `HOME/cert.pem` for `server.tls_cert` in HOME/config.toml: `server.tls_key` is not set \
             · hint: set both, or neither for a self-signed certificate",
        ),
        (
            "[server]\nallowed_origins = [\"https://a.example/path\"]\n",
            "invalid value `https://a.example/path` for `server.allowed_origins` in HOME/config.toml: it is not a web \
             origin · hint: give scheme, host and perhaps port, such as `https://tools.example.org`",
        ),
        (
            "[license]\nissuers = [\"c2hvcnQ=\"]\n",
            "invalid value `c2hvcnQ=` for `license.issuers` in HOME/config.toml: it is not an Ed25519 public key \
             · hint: give its 32 bytes in base64: 43 characters and `=`",
        ),
    ] {
        assert_eq!(Case::with_file(text).error(), expected, "{text}");
    }
}

#[test]
fn what_is_wrong_in_the_environment_names_the_variable() {
    for (variable, value, expected) in [
        (
            "HINDCAST_SERVER_MAX_CONNECTIONS",
            "many",
            "invalid value `many` for `server.max_connections` from the variable `HINDCAST_SERVER_MAX_CONNECTIONS`: \
             it is not a whole number · hint: give a whole number from 1 to 1000000",
        ),
        (
            "HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS",
            "notes",
            "invalid value `notes` for `knowledge.allowed_folders` from the variable \
             `HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS`: it is not an absolute path without `..` · hint: give the whole path, \
             such as `/srv/programs`",
        ),
        (
            "HINDCAST_DEBUG_ALLOWED_PROGRAMS",
            "bin/app",
            "invalid value `bin/app` for `debug.allowed_programs` from the variable \
             `HINDCAST_DEBUG_ALLOWED_PROGRAMS`: it is not an absolute path without `..` · hint: give the whole path, \
             such as `/srv/programs`",
        ),
    ] {
        assert_eq!(Case::new().variable(variable, value).error(), expected);
    }
}

#[test]
fn plain_http_beyond_loopback_is_refused_wherever_the_two_values_come_from() {
    let mut case = Case::with_file("[server]\nlisten = \"0.0.0.0:80\"\n");
    case.flag("--http", "server.http", true);
    assert_eq!(
        case.error(),
        "invalid value `true` for `server.http` from the flag `--http`: plain HTTP is only for loopback, and \
         `server.listen` is 0.0.0.0:80 · hint: leave `server.http` out to serve HTTPS, or listen on `127.0.0.1`"
    );
    case.flag("--listen", "server.listen", "[::1]:80");
    assert!(case.load().config.server.http);
}

#[test]
fn variables_of_others_are_ignored_with_a_warning() {
    let mut case = Case::new();
    case.variable("HINDCAST_PORT", "tcp://10.96.12.7:7443")
        .variable("HINDCAST_SERVICE_HOST", "10.96.12.7")
        .variable("HINDCAST_SERVER_LISEN", "127.0.0.1:1");
    let warnings: Vec<_> = case.load().warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "unknown variable `HINDCAST_SERVER_LISEN` in the environment is ignored \
             · hint: did you mean `HINDCAST_SERVER_LISTEN`?",
            "variables that Kubernetes sets for a service are ignored: HINDCAST_PORT, HINDCAST_SERVICE_HOST",
        ]
    );
}

#[test]
fn variables_that_are_not_keys_are_left_alone() {
    let mut case = Case::new();
    for variable in keys::OTHER_VARIABLES.iter().skip(1) {
        case.variable(variable, "anything");
    }
    assert_eq!(case.load().warnings, []);
}

#[test]
fn all_problems_are_reported_at_once() {
    let mut case = Case::with_file("colour = true\n[server]\nhttp = 1\n");
    case.variable("HINDCAST_SERVER_MAX_CONNECTIONS", "0");
    assert_eq!(case.error().lines().count(), 3);
}

#[test]
fn a_named_file_that_is_missing_or_broken_is_an_error() {
    let mut case = Case::new();
    case.sources.config_file = Some(case.home.path().join("none.toml"));
    let error = case.error();
    assert!(error.starts_with("cannot read the configuration file HOME/none.toml: "), "{error}");
    assert!(error.contains("· hint: create it, or leave out `--config`"), "{error}");
    let error = Case::with_file("[server\n").error();
    assert!(error.starts_with("HOME/config.toml is not valid TOML: "), "{error}");
    assert!(error.contains("line 1"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_variable_that_is_not_unicode_is_an_error() {
    use std::os::unix::ffi::OsStringExt;
    let mut case = Case::new();
    let value = OsString::from_vec(vec![0xff]);
    case.sources.environment.insert("HINDCAST_DATA_DIR".to_owned(), value);
    assert_eq!(
        case.error(),
        "the variable `HINDCAST_DATA_DIR` is not valid Unicode · hint: set it to a text that is"
    );
}
