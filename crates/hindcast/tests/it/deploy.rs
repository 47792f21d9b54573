//! What is in `deploy/`: files that their own tools accept, and settings that real servers start with.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use hindcast_fixtures::postgres::Cluster;
use serde::Deserialize;
use serde_json::json;

use crate::{
    sdk::peers,
    server::{Server, command},
    several_servers::get,
};

/// How a container of hindcast is started.
#[derive(Deserialize)]
struct Container {
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    mounts: Vec<PathBuf>,
    probes: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All of them, by what starts them; fails where a file breaks the rules of its tool.
fn containers() -> Option<BTreeMap<String, Vec<Container>>> {
    let python = peers()?.join("deploy/bin/python");
    let validated = Command::new(python)
        .arg(root().join("peers/deploy/validate.py"))
        .arg(root().join("deploy"))
        .output()
        .unwrap();
    assert!(validated.status.success(), "{}", String::from_utf8_lossy(&validated.stderr));
    Some(serde_json::from_slice(&validated.stdout).unwrap())
}

#[test]
fn compose_accepts_its_file() {
    if peers().is_none() {
        return;
    }
    let checked = Command::new("docker-compose")
        .arg("--file")
        .arg(root().join("deploy/compose.yaml"))
        .args(["config", "--quiet"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn servers_start_with_the_settings_of_each_file_and_share_their_keys() {
    let Some(all) = containers() else { return };
    assert_eq!(all.keys().collect::<Vec<_>>(), ["compose", "kubernetes"]);
    for (tool, containers) in &all {
        assert_eq!(containers.len(), 2, "{tool}");
        let Some(cluster) = Cluster::start() else { return };
        let database = cluster.new_database();
        let folders: Vec<_> = containers.iter().map(|_| tempfile::tempdir().unwrap()).collect();
        let servers: Vec<_> = containers
            .iter()
            .zip(&folders)
            .map(|(container, folder)| start(container, folder.path(), &database))
            .collect();
        let made = command()
            .args(["keys", "create", "--name", "me", "--json", "--store-url", &database, "--data-dir"])
            .arg(folders[0].path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let made: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
        for (server, container) in servers.iter().zip(containers) {
            let listed = server.rpc(made["key"].as_str().unwrap(), "tools/list", json!({}));
            assert_eq!(listed.status, 200, "{tool}: {listed:?}");
            for probe in &container.probes {
                assert_eq!(get(server, probe).status, 200, "{tool}: {probe}");
            }
        }
    }
}

/// Starts a server as the container would be, with files and addresses of the test in the place of the container's.
fn start(container: &Container, folder: &Path, database: &str) -> Server {
    assert_eq!(container.arguments, ["serve"]);
    let password = PathBuf::from(&container.environment["HINDCAST_STORE_PASSWORD_FILE"]);
    let data = Path::new(&container.environment["HINDCAST_DATA_DIR"]);
    let key = PathBuf::from(&container.environment["HINDCAST_VECTORS_API_KEY_FILE"]);
    for needed in [&password, &key, data, &data.join("audit.key")] {
        assert!(container.mounts.iter().any(|mount| mount == needed), "{needed:?} is not mounted");
    }
    let shown = command().args(["config", "show"]).envs(&container.environment).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    // As `openssl rand -base64 32` writes it.
    std::fs::write(folder.join("audit.key"), "c2V2ZXJhbCBzZXJ2ZXJzIHNoYXJlIG9uZSBrZXkgLi4=\n").unwrap();
    std::fs::write(folder.join("password"), "secret\n").unwrap();
    let password = folder.join("password");
    let mut environment = container.environment.clone();
    environment.insert("HINDCAST_STORE_URL".into(), database.into());
    environment.insert("HINDCAST_STORE_PASSWORD_FILE".into(), password.to_str().unwrap().into());
    // Qdrant may be away when a server starts.
    assert_eq!(container.environment["HINDCAST_VECTORS_URL"], "http://qdrant:6333");
    environment.insert("HINDCAST_VECTORS_URL".into(), "http://127.0.0.1:1".into());
    environment.insert("HINDCAST_VECTORS_API_KEY_FILE".into(), password.to_str().unwrap().into());
    let environment: Vec<_> = environment.iter().map(|(name, value)| (&**name, &**value)).collect();
    Server::launch(folder, &[], &environment, Stdio::inherit())
}
