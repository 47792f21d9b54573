//! What is taken in besides files and folders: commit messages, pages of the manual, docstrings of Python packages.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{Client, knowledge};
use crate::{
    sdk,
    server::{Server, command, try_hindcast},
};

fn git(folder: &Path, arguments: &[&str]) {
    let output = Command::new("git")
        .args([
            "-c",
            "user.name=A Person",
            "-c",
            "user.email=person@example.org",
            "-c",
            "commit.gpgsign=false",
        ])
        .args(["-c", "init.defaultBranch=main"])
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn commit(folder: &Path, message: &str) {
    git(folder, &["commit", "--quiet", "--allow-empty", "-m", message]);
}

/// How many files became what.
fn outcomes(added: &Value) -> [usize; 4] {
    let files = added["files"].as_array().unwrap();
    ["added", "unchanged", "removed", "failed"]
        .map(|outcome| files.iter().filter(|file| file["outcome"] == outcome).count())
}

#[test]
fn commit_messages_are_documents_and_only_new_ones_are_taken_in_again() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let repository = folder.path().canonicalize().unwrap();
    git(&repository, &["init", "--quiet"]);
    commit(&repository, "lakes: herons stand still\n\nThey were counted twice when they moved.");
    commit(&repository, "owls: hunt at night");
    let source = format!("git:{}", repository.display());
    let add = || knowledge(data.path(), &["add", "history", &source]);
    let watched = try_hindcast(data.path(), &["knowledge", "add", "history", &source, "--watch"]);
    let told = String::from_utf8_lossy(&watched.stdout).into_owned();
    assert!(told.contains("is not watched") && !told.contains("keeps it up to date"), "{told}");
    knowledge(data.path(), &["remove", "history"]);
    let added = add();
    assert_eq!(outcomes(&added), [2, 0, 0, 0], "{added}");
    assert_eq!(outcomes(&add()), [0, 2, 0, 0]);
    commit(&repository, "lakes: drain them");
    assert_eq!(outcomes(&add()), [1, 2, 0, 0]);
    git(&repository, &["commit", "--quiet", "--amend", "--allow-empty", "-m", "lakes: fill them"]);
    assert_eq!(outcomes(&add()), [1, 2, 1, 0], "a commit that the history lost is removed");

    let found = knowledge(data.path(), &["search", "why are herons counted twice", "--min-relevance", "0"]);
    let hit = &found["hits"][0];
    assert_eq!(
        (&hit["headings"], &hit["stale"]),
        (&json!("lakes: herons stand still"), &json!(false)),
        "{hit}"
    );
    let (text, path) = (hit["text"].as_str().unwrap(), hit["path"].as_str().unwrap());
    let hash = path.strip_prefix(&format!("{source}/")).unwrap_or_else(|| panic!("{path}"));
    assert!(text.contains(hash) && text.contains("by A Person, 20"), "{text}");
    assert_eq!(hit["document"], hash[..12], "{hit}");
}

/// A repository's configuration may name programs, which are not run.
#[test]
fn reading_a_repository_runs_nothing_of_it() {
    let (folder, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    git(folder.path(), &["init", "--quiet"]);
    commit(folder.path(), "first");
    let ran = folder.path().join("ran");
    let program = format!("touch {}; false", ran.display());
    let script = folder.path().join("program");
    std::fs::write(&script, format!("#!/bin/sh\n{program}\n")).unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    for (key, value) in [
        ("log.showSignature", "true"),
        ("gpg.program", script.to_str().unwrap()),
        ("core.fsmonitor", script.to_str().unwrap()),
        ("core.pager", script.to_str().unwrap()),
        ("pager.log", script.to_str().unwrap()),
        ("diff.external", script.to_str().unwrap()),
        ("alias.log", &format!("!{program}")),
    ] {
        git(folder.path(), &["config", key, value]);
    }
    let added = knowledge(data.path(), &["add", "history", &format!("git:{}", folder.path().display())]);
    assert_eq!(outcomes(&added), [1, 0, 0, 0], "{added}");
    assert!(!ran.exists());
}

#[test]
fn what_is_no_repository_package_or_page_says_what_to_do() {
    let mut client = Client::new();
    let folder = tempfile::tempdir().unwrap();
    let paths = [
        format!("git:{}", folder.path().display()),
        "git:/nowhere/at/all".into(),
        "python:no_such_package_here".into(),
        "python:../x".into(),
        "man:no-such-page-here".into(),
        "man:".into(),
    ];
    let added = client.call("knowledge/add", json!({ "collection": "none", "paths": paths }));
    assert_eq!(added["failed"], 6, "{added}");
    for file in added["files"].as_array().unwrap() {
        let reason = file["reason"].as_str().unwrap();
        assert!(reason.contains("hint") || reason.contains("no such file"), "{file}");
    }
}

/// Over HTTP a source is read only where files are, and nothing is told of what is elsewhere.
#[test]
fn a_remote_caller_reads_sources_only_below_the_folders_that_the_operator_allows() {
    let files = tempfile::tempdir().unwrap();
    let root = files.path().canonicalize().unwrap();
    let (open, closed, linked, none) =
        (root.join("open"), root.join("closed"), root.join("open/linked"), root.join("open/none"));
    for folder in [&open, &closed, &linked, &none] {
        std::fs::create_dir(folder).unwrap();
    }
    for folder in [&root, &closed] {
        git(folder, &["init", "--quiet"]);
        commit(folder, "secret plans");
    }
    std::fs::write(linked.join(".git"), format!("gitdir: {}\n", closed.join(".git").display())).unwrap();
    let server = Server::start_with(&[("HINDCAST_KNOWLEDGE_ALLOWED_FOLDERS", open.to_str().unwrap())]);
    let key = server.unlimited_key();
    let refused = |source: &str| {
        let answer = server.call(&key, "knowledge/add", json!({ "collection": "x", "paths": [source] }));
        let file = &answer["result"]["structuredContent"]["files"][0];
        assert_eq!(file["outcome"], "failed", "{source}: {answer}");
        file["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(refused(&format!("git:{}", closed.display())), refused("git:/nowhere"));
    let reasons = [&linked, &none].map(|folder| refused(&format!("git:{}", folder.display())));
    assert_eq!(reasons[0], reasons[1]);
    assert!(!reasons[0].contains(root.to_str().unwrap()), "{}", reasons[0]);
    assert_eq!(refused("python:json"), refused("python:no_such_package"));
    assert_eq!(refused("man:ls"), refused("man:no-such-page"));

    let own = root.join("open/own");
    std::fs::create_dir(&own).unwrap();
    git(&own, &["init", "--quiet"]);
    commit(&own, "public plans");
    let answer = server.call(
        &key,
        "knowledge/add",
        json!({ "collection": "x", "paths": [format!("git:{}", own.display())] }),
    );
    assert_eq!(answer["result"]["structuredContent"]["added"], 1, "{answer}");
}

/// Adds to the collection `installed`, with the manual of the peers and an environment of Python.
fn add_installed(data: &Path, peers: &Path, environment: &Path, arguments: &[&str]) -> Value {
    let output = command()
        .args(["knowledge", "add", "installed", "--json"])
        .args(arguments)
        .arg("--data-dir")
        .arg(data)
        .env("MANPATH", peers.join("documents/usr/share/man"))
        .env("VIRTUAL_ENV", environment)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// Where the peers have the package `click`, and which version of it.
fn click_of(peers: &Path) -> (PathBuf, String) {
    let folders = std::fs::read_dir(peers.join("python/lib")).unwrap().flatten();
    let libraries = folders.map(|folder| folder.path().join("site-packages"));
    let library = libraries.into_iter().find(|library| library.join("click").is_dir()).unwrap();
    let names = std::fs::read_dir(&library).unwrap().flatten().map(|entry| entry.file_name());
    let version = names
        .filter_map(|name| name.into_string().ok())
        .find_map(|name| Some(name.strip_prefix("click-")?.strip_suffix(".dist-info")?.to_owned()));
    (library.join("click"), version.unwrap())
}

#[test]
fn documentation_is_of_one_version_and_two_versions_stand_side_by_side() {
    let Some(peers) = sdk::peers() else { return };
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (click, version) = click_of(&peers);
    let library = |environment: &str| folder.path().join(environment).join("lib/python3.11/site-packages");
    for (environment, version) in [("new", &*version), ("old", "7.9")] {
        let copy = library(environment).join("click");
        std::fs::create_dir_all(&copy).unwrap();
        for module in ["__init__.py", "utils.py"] {
            std::fs::copy(click.join(module), copy.join(module)).unwrap();
        }
        std::fs::create_dir(library(environment).join(format!("click-{version}.dist-info"))).unwrap();
    }
    let add = |environment: &str| {
        add_installed(data.path(), &peers, &folder.path().join(environment), &["python:click"])
    };
    for environment in ["new", "old"] {
        let added = add(environment);
        assert_eq!(outcomes(&added), [2, 0, 0, 0], "{added}");
    }
    for (crate_version, place) in [("1.0.228", "older"), ("1.0.229", "newer")] {
        let json = json!({ "0": { "name": "serde", "docs": "Frogs become bytes.", "inner": { "module": { "items": [] } } } });
        let json = format!(
            "{{\"root\":0,\"crate_version\":\"{crate_version}\",\"includes_private\":false,\"index\":{json}}}"
        );
        std::fs::create_dir(folder.path().join(place)).unwrap();
        std::fs::write(folder.path().join(place).join("serde.json"), json).unwrap();
        add_installed(data.path(), &peers, folder.path(), &[folder.path().join(place).to_str().unwrap()]);
    }
    let found = |query: &str, tag: &str| {
        let found = knowledge(data.path(), &["search", query, "--tag", tag, "--min-relevance", "0"]);
        let hits = found["hits"].as_array().unwrap();
        let mut names: Vec<_> = hits.iter().map(|hit| hit["name"].as_str().unwrap().to_owned()).collect();
        names.dedup();
        names
    };
    let echo = "echo a message to stdout";
    let [new, old] = [&*version, "7.9"].map(|version| format!("click@{version}"));
    for tag in [&new, &old] {
        assert_eq!(found(echo, tag)[0], format!("click.utils, {tag}"));
        assert!(found(echo, tag).iter().all(|name| name.ends_with(&**tag)), "{tag}");
    }
    for version in ["1.0.228", "1.0.229"] {
        assert_eq!(found("frogs", &format!("serde@{version}")), [format!("serde {version}")]);
    }

    // Another version takes the place of one. Its modules are those of that version, also where they say the same.
    let about = |version: &str| library("old").join(format!("click-{version}.dist-info"));
    std::fs::rename(about("7.9"), about("8.0")).unwrap();
    let added = add("old");
    let updated = added["files"].as_array().unwrap().iter().filter(|file| file["outcome"] == "updated");
    // An id stays, so it must not say which version it was.
    let mut ids: Vec<_> = updated.map(|file| file["document"].as_str().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["click-old", "click.utils-old"], "{added}");
    assert_eq!(found(echo, &old), [""; 0]);
    assert_eq!(
        (&*found(echo, "click@8.0")[0], &*found(echo, &new)[0]),
        ("click.utils, click@8.0", &*format!("click.utils, {new}"))
    );
    assert_eq!(outcomes(&add("old")), [0, 2, 0, 0]);
}

#[test]
fn pages_of_the_manual_and_docstrings_are_taken_from_what_is_installed() {
    let Some(peers) = sdk::peers() else { return };
    let data = tempfile::tempdir().unwrap();
    let add = |arguments: &[&str]| add_installed(data.path(), &peers, &peers.join("python"), arguments);
    let (_, version) = click_of(&peers);
    let added = add(&["man:iconv", "python:click"]);
    let [taken, _, _, failed] = outcomes(&added);
    assert!(taken > 10 && failed == 0, "{added}");
    let notices = added["notices"].to_string();
    assert!(notices.contains(&format!("click {version}, from")), "the version is told: {notices}");
    assert!(!notices.contains("is empty"), "{notices}");
    let best = |query: &str| {
        let found = knowledge(data.path(), &["search", query, "--min-relevance", "0"]);
        found["hits"][0].clone()
    };
    let hit = best("iconv convert text from one character encoding to another");
    assert!(hit["path"].as_str().is_some_and(|path| path.contains("man1/iconv.1")), "{hit}");
    let tag = hit["name"].as_str().and_then(|name| name.strip_prefix("iconv(1), ")).unwrap().to_owned();
    assert!(tag.starts_with("linux-man-pages@"), "{hit}");
    let found = knowledge(data.path(), &["search", "convert an echo", "--tag", &tag, "--min-relevance", "0"]);
    let pages: Vec<_> = found["hits"].as_array().unwrap().iter().map(|hit| &hit["name"]).collect();
    assert!(!pages.is_empty() && pages.iter().all(|page| **page == hit["name"]), "{found}");
    let hit = best("echo a message to stdout click");
    assert_eq!(
        (&hit["name"], &hit["stale"]),
        (&json!(format!("click.utils, click@{version}")), &json!(false)),
        "{hit}"
    );
    assert!(hit["headings"].as_str().is_some_and(|headings| headings.starts_with("echo(")), "{hit}");
    let path = hit["path"].as_str().and_then(|path| path.strip_prefix("python:")).unwrap();
    let source = std::fs::read_to_string(path).unwrap();
    let line = source.lines().nth(hit["first_line"].as_u64().unwrap() as usize - 1).unwrap();
    let beginning = hit["text"].as_str().and_then(|text| text.lines().next()).unwrap();
    assert!(line.contains(beginning), "the citation is the source's line: {line}: {hit}");
    let again = add(&["python:click"]);
    assert_eq!(outcomes(&again)[0], 0, "{again}");
    // The same files as source code are other documents.
    let code = add(&[Path::new(path).to_str().unwrap()]);
    assert_eq!(outcomes(&code), [1, 0, 0, 0], "{code}");
}
