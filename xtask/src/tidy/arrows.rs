//! Which crate may depend on which. The picture is in ARCHITECTURE.md.

use super::{SourceFile, Violation};
use crate::cargo_metadata::{Dependency, DependencyKind};

/// A crate, and the workspace crates it may use. Calls go down, engines and stores never see each other.
const ARROWS: &[(&str, &[&str])] = &[
    (
        "hindcast",
        &[
            "hindcast-core",
            "hindcast-dap",
            "hindcast-dotnet",
            "hindcast-mapping",
            "hindcast-native",
            "hindcast-server",
            "hindcast-services",
            "hindcast-stores",
        ],
    ),
    ("hindcast-server", &["hindcast-core", "hindcast-services"]),
    ("hindcast-services", &["hindcast-core", "hindcast-extract", "hindcast-xml"]),
    ("hindcast-extract", &[]),
    ("hindcast-core", &[]),
    ("hindcast-native", &["hindcast-core", "hindcast-python", "hindcast-streams", "hindcast-symbols"]),
    ("hindcast-python", &["hindcast-core"]),
    ("hindcast-symbols", &["hindcast-core", "hindcast-mapping"]),
    ("hindcast-mapping", &[]),
    ("hindcast-streams", &["hindcast-core"]),
    ("hindcast-dap", &["hindcast-core", "hindcast-streams"]),
    ("hindcast-dotnet", &["hindcast-core", "hindcast-mapping", "hindcast-streams"]),
    ("hindcast-stores", &["hindcast-core"]),
    ("hindcast-xml", &[]),
    ("hindcast-fixtures", &[]),
    ("xtask", &["hindcast-fixtures"]),
];

/// What tests may use beyond the arrows: services and the wire are also tested over the real stores.
const TEST_ARROWS: &[(&str, &str)] = &[
    ("hindcast-services", "hindcast-stores"),
    ("hindcast-server", "hindcast-stores"),
    ("hindcast-stores", "hindcast-fixtures"),
    ("hindcast-services", "hindcast-fixtures"),
    ("hindcast-symbols", "hindcast-fixtures"),
    ("hindcast-native", "hindcast-fixtures"),
    ("hindcast-dotnet", "hindcast-fixtures"),
    ("hindcast", "hindcast-fixtures"),
];

/// Crates that speak the wire, and so belong to `hindcast-server` alone. Tests that drive the wire may use them.
const WIRE: &[&str] = &[
    "axum",
    "axum-server",
    "http",
    "http-body",
    "http-body-util",
    "hyper",
    "hyper-util",
    "rmcp",
    "tower-http",
];

const WIRE_OWNER: &str = "hindcast-server";

/// One of our crates with its manifest.
pub(super) struct Manifest {
    /// The text of `Cargo.toml`, for line numbers.
    pub(super) file: SourceFile,
    /// The crate's name.
    pub(super) crate_name: String,
    /// What it depends on.
    pub(super) dependencies: Vec<Dependency>,
}

/// Every arrow that should not be there.
pub(super) fn check(manifests: &[Manifest]) -> Vec<Violation> {
    let ours: Vec<&str> = manifests.iter().map(|manifest| manifest.crate_name.as_str()).collect();
    manifests.iter().flat_map(|manifest| check_crate(manifest, &ours)).collect()
}

fn check_crate(manifest: &Manifest, ours: &[&str]) -> Vec<Violation> {
    let name = manifest.crate_name.as_str();
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![Violation {
            file: manifest.file.path.clone(),
            line: 1,
            problem: format!("`{name}` has no place among the crates"),
            hint: "draw its arrows in ARCHITECTURE.md and in xtask/src/tidy/arrows.rs",
        }];
    };
    let mut violations = Vec::new();
    for dependency in &manifest.dependencies {
        let to = dependency.name.as_str();
        let is_test = dependency.kind == Some(DependencyKind::Dev);
        let violation = |problem: String, hint| Violation {
            file: manifest.file.path.clone(),
            line: dependency_line(&manifest.file.text, dependency),
            problem,
            hint,
        };
        // A crate may name itself as a dev-dependency to switch on its own test features.
        let is_allowed =
            allowed.contains(&to) || (is_test && (TEST_ARROWS.contains(&(name, to)) || to == name));
        if ours.contains(&to) && !is_allowed {
            violations.push(violation(
                format!("`{name}` must not depend on `{to}`"),
                "go through a seam in hindcast-core, and connect the two in crates/hindcast/src/wiring.rs",
            ));
        }
        if WIRE.contains(&to) && name != WIRE_OWNER && !is_test {
            violations.push(violation(
                format!("`{name}` must not depend on `{to}`: only {WIRE_OWNER} knows MCP and HTTP"),
                "move the code that needs it into crates/hindcast-server",
            ));
        }
    }
    violations
}

/// The line that asks for the dependency, in the table of its kind; 1 when it is written in some other way.
fn dependency_line(manifest: &str, dependency: &Dependency) -> usize {
    let table = match dependency.kind {
        None => "dependencies",
        Some(DependencyKind::Dev) => "dev-dependencies",
        Some(DependencyKind::Build) => "build-dependencies",
    };
    let mut in_table = false;
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            // Also `[target.'cfg(unix)'.dependencies]`.
            in_table = header.rsplit('.').next() == Some(table);
        } else if in_table {
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            if key.trim_matches('"') == dependency.name {
                return index + 1;
            }
        }
    }
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(crate_name: &str, dependencies: &[(&str, Option<DependencyKind>)]) -> Manifest {
        let mut text = String::from("[package]\n");
        for (kind, table) in [(None, "[dependencies]\n"), (Some(DependencyKind::Dev), "[dev-dependencies]\n")]
        {
            text.push_str(table);
            for (name, _) in dependencies.iter().filter(|(_, found)| *found == kind) {
                text.push_str(&format!("{name}.workspace = true\n"));
            }
        }
        Manifest {
            file: SourceFile { path: format!("crates/{crate_name}/Cargo.toml").into(), text },
            crate_name: crate_name.into(),
            dependencies: dependencies
                .iter()
                .map(|(name, kind)| Dependency { name: (*name).into(), kind: *kind })
                .collect(),
        }
    }

    #[track_caller]
    fn check_problems(manifests: &[Manifest], expected: &[&str]) {
        let found: Vec<String> = check(manifests)
            .iter()
            .map(|violation| {
                format!("{}:{}: {}", violation.file.display(), violation.line, violation.problem)
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_drawn_arrows_pass() {
        check_problems(
            &[
                manifest(
                    "hindcast",
                    &[("hindcast-server", None), ("hindcast-stores", None), ("anyhow", None)],
                ),
                manifest("hindcast-server", &[("hindcast-services", None), ("rmcp", None), ("http", None)]),
                manifest(
                    "hindcast-services",
                    &[("hindcast-core", None), ("hindcast-stores", Some(DependencyKind::Dev))],
                ),
                manifest("hindcast-stores", &[("hindcast-core", None)]),
                manifest("hindcast-core", &[("hindcast-core", Some(DependencyKind::Dev))]),
                manifest("xtask", &[("anyhow", None)]),
            ],
            &[],
        );
    }

    #[test]
    fn an_arrow_that_goes_up_or_sideways_is_found() {
        check_problems(
            &[
                manifest("hindcast-core", &[("serde", None), ("hindcast-stores", None)]),
                manifest("hindcast-stores", &[("hindcast-services", Some(DependencyKind::Dev))]),
                manifest("hindcast-services", &[("hindcast-stores", None)]),
                manifest("xtask", &[("hindcast-core", None)]),
            ],
            &[
                "crates/hindcast-core/Cargo.toml:4: `hindcast-core` must not depend on `hindcast-stores`",
                "crates/hindcast-stores/Cargo.toml:4: `hindcast-stores` must not depend on `hindcast-services`",
                "crates/hindcast-services/Cargo.toml:3: `hindcast-services` must not depend on `hindcast-stores`",
                "crates/xtask/Cargo.toml:3: `xtask` must not depend on `hindcast-core`",
            ],
        );
    }

    #[test]
    fn only_the_server_may_speak_the_wire() {
        check_problems(
            &[
                manifest("hindcast-services", &[("rmcp", None)]),
                manifest("hindcast", &[("hyper", Some(DependencyKind::Dev))]),
            ],
            &["crates/hindcast-services/Cargo.toml:3: `hindcast-services` must not depend on `rmcp`: \
               only hindcast-server knows MCP and HTTP"],
        );
    }

    #[test]
    fn an_unknown_crate_must_be_drawn_first() {
        check_problems(
            &[manifest("hindcast-utils", &[])],
            &["crates/hindcast-utils/Cargo.toml:1: `hindcast-utils` has no place among the crates"],
        );
    }

    #[test]
    fn a_dependency_is_found_in_the_table_of_its_kind() {
        let manifest =
            "[dependencies]\nnix = \"1\"\n[target.'cfg(unix)'.dev-dependencies]\nnix = { version = \"1\" }\n";
        let line = |kind| dependency_line(manifest, &Dependency { name: "nix".into(), kind });
        assert_eq!(line(None), 2);
        assert_eq!(line(Some(DependencyKind::Dev)), 4);
        assert_eq!(line(Some(DependencyKind::Build)), 1);
    }
}
