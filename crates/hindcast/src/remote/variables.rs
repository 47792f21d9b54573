//! Which of the server's variables a launched program has.

use std::{collections::BTreeMap, env};

/// Where the variables of a program come from that its launch does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variables {
    /// All are ours: whoever launches it could have set them.
    Ours,
    /// Those of ours that find programs and say how to write: others may be secrets, and callers are not the operator.
    Harmless,
    /// None of ours.
    Confined,
}

/// What finds programs and their parts, and says how to write numbers and times.
const HARMLESS: [&str; 14] = [
    "DOTNET_ROOT",
    "GOPATH",
    "GOROOT",
    "HOME",
    "JAVA_HOME",
    "JS_DEBUG",
    "LANG",
    "LANGUAGE",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
    "VIRTUAL_ENV",
];
const HARMLESS_PREFIX: &str = "LC_";

/// What a confined program has: its folders are its own.
const CONFINED: [(&str, &str); 4] = [
    ("HOME", "/tmp"),
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("USER", "tenant"),
];

impl Variables {
    /// Their names and values, as far as they are text.
    pub(super) fn collect(self) -> BTreeMap<String, String> {
        let ours = env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        match self {
            Self::Ours => ours.collect(),
            Self::Harmless => ours.filter(|(name, _)| is_harmless(name)).collect(),
            Self::Confined => CONFINED.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        }
    }

    /// Whether the worker itself has this variable, and with it what inherits from it.
    pub(super) fn reach_worker(self, name: &std::ffi::OsStr, value: &std::ffi::OsStr) -> bool {
        match self {
            // It cannot be told of what is no text.
            Self::Ours => name == "LD_LIBRARY_PATH" || name.to_str().is_none() || value.to_str().is_none(),
            // Needed to load it.
            Self::Harmless | Self::Confined => name == "LD_LIBRARY_PATH",
        }
    }

    /// Whether a worker that is attached by a debug adapter, which is found by variables, has this one.
    pub(super) fn find_adapters(self, name: &std::ffi::OsStr) -> bool {
        self == Self::Ours || name.to_str().is_some_and(is_harmless)
    }
}

fn is_harmless(name: &str) -> bool {
    HARMLESS.contains(&name) || name.starts_with(HARMLESS_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_operator_that_may_be_secret_are_not_harmless() {
        for name in
            ["AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "HINDCAST_LOG", "SSH_AUTH_SOCK", "LD_PRELOAD", "PWD"]
        {
            assert!(!is_harmless(name), "{name}");
        }
        for name in ["PATH", "LC_ALL", "TZ"] {
            assert!(is_harmless(name), "{name}");
        }
    }

    #[test]
    fn confined_programs_have_nothing_of_ours() {
        assert_eq!(Variables::Confined.collect()["PATH"], CONFINED[2].1);
        assert_eq!(Variables::Confined.collect().len(), CONFINED.len());
    }
}
