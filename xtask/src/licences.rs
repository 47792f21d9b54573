//! Every dependency must be under a licence that fits `MIT OR Apache-2.0` software.

use anyhow::{Result, bail};

use crate::cargo_metadata::{Extent, Metadata, Package};
use crate::spdx;
use crate::workspace::Workspace;

/// Licences that ask for no more than notice.
const ACCEPTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Licences accepted for single crates only, after a look at them: (crate, licence).
const EXCEPTIONS: &[(&str, &str)] = &[
    // Data, not code: the root certificates that Mozilla trusts; only compiled for platforms without a store of their own.
    ("webpki-root-certs", "CDLA-Permissive-2.0"),
];

/// Checks everything in `Cargo.lock`, for every platform.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let metadata = Metadata::read(&workspace.root, Extent::AllDependencies)?;
    let problems: Vec<String> = metadata.packages.iter().filter_map(problem).collect();
    for problem in &problems {
        println!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} of {} crates have a licence problem", problems.len(), metadata.packages.len());
    }
    println!("the licences of {} crates are accepted", metadata.packages.len());
    Ok(())
}

fn problem(package: &Package) -> Option<String> {
    let Package { name, version, .. } = package;
    let Some(expression) = &package.license else {
        let declared = match &package.license_file {
            Some(file) => format!("names only the licence file `{file}`"),
            None => "declares no licence".to_owned(),
        };
        return Some(format!(
            "{name} {version} {declared} · hint: replace it, or ask its authors for an SPDX expression"
        ));
    };
    let accepted =
        |licence: &str| ACCEPTED.contains(&licence) || EXCEPTIONS.contains(&(name.as_str(), licence));
    match spdx::is_satisfied(expression, &accepted) {
        Ok(true) => None,
        Ok(false) => Some(format!(
            "{name} {version} is under `{expression}` · hint: replace it, or add it to EXCEPTIONS in \
             xtask/src/licences.rs with the reason"
        )),
        Err(error) => Some(format!(
            "{name} {version} has an unreadable licence: {error} · hint: replace it, or ask its authors to mend it"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(license: Option<&str>, license_file: Option<&str>) -> Package {
        Package {
            name: "example".into(),
            version: "1.0.0".into(),
            license: license.map(Into::into),
            license_file: license_file.map(Into::into),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
        }
    }

    #[test]
    fn permissive_licences_pass() {
        assert_eq!(problem(&package(Some("(MIT OR Apache-2.0) AND Unicode-3.0"), None)), None);
    }

    #[test]
    fn copyleft_is_named_with_a_hint() {
        let problem = problem(&package(Some("GPL-3.0-only"), None)).expect("a problem");
        assert!(problem.contains("example 1.0.0 is under `GPL-3.0-only` · hint:"), "{problem}");
    }

    #[test]
    fn a_missing_licence_is_a_problem_even_with_a_file() {
        assert!(problem(&package(None, None)).expect("a problem").contains("declares no licence"));
        assert!(problem(&package(None, Some("LICENCE"))).expect("a problem").contains("`LICENCE`"));
    }

    #[test]
    fn a_malformed_licence_is_a_problem() {
        assert!(problem(&package(Some("MIT OR"), None)).expect("a problem").contains("unreadable"));
    }
}
