//! What was found out about one failure is found again when another is like it.

use std::path::Path;

use hindcast_fixtures::{
    crashes::{Cause, VARIANTS, causes},
    oracle_size,
};
use serde_json::{Value, json};

use crate::{
    debugger::Client,
    knowledge::knowledge,
    sdk,
    server::{Local, Server, hindcast},
};

fn cause(name: &str) -> Cause {
    causes().into_iter().find(|cause| cause.name == name).unwrap_or_else(|| panic!("no cause {name}"))
}

/// The data of a call.
#[track_caller]
fn data(client: &mut Client, tool: &str, arguments: Value) -> Value {
    let answer = client.rpc("tools/call", &json!({ "name": tool, "arguments": arguments }));
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"]["structuredContent"].clone()
}

/// Runs a variant into its crash; gives the autopsy.
fn crash(client: &mut Client, cause: &Cause, variant: usize, record: bool) -> String {
    let program = cause.build(variant).path;
    let env = json!({ "RUST_BACKTRACE": "0" });
    client.call("debugger/launch", json!({ "program": program, "record": record, "env": env }));
    let stopped = client.call("debugger/continue", json!({}));
    assert!(stopped.starts_with("Stopped"), "{} {variant}: {stopped}", cause.name);
    client.call("debugger/autopsy", json!({}))
}

fn save(client: &mut Client, cause: &Cause) -> Value {
    let story = cause.story(1);
    let finding = json!({ "symptom": story.symptom, "cause": story.cause, "fix": story.fix });
    data(client, "debugger/save_finding", finding)
}

#[test]
fn a_cause_that_was_kept_is_found_from_another_crash_and_listed_and_removed_like_a_document() {
    let mut client = Client::new();
    let cause = cause("member_never_set");
    let autopsy = crash(&mut client, &cause, 1, true);
    assert!(!autopsy.contains("find_similar_bugs"), "nothing is known yet: {autopsy}");
    let nothing = client.call("debugger/find_similar_bugs", json!({}));
    assert_eq!(nothing, "Nothing similar is known: there are no findings or documents yet");
    let story = cause.story(1);
    let finding = json!({
        "symptom": story.symptom, "cause": story.cause, "fix": story.fix, "expression": "app->requests",
        "evidence": ["the log is NULL from the beginning"],
    });
    let saved = data(&mut client, "debugger/save_finding", finding.clone());
    assert_eq!((&saved["collection"], &saved["shared"]), (&json!("Findings"), &json!(false)), "{saved}");
    let fingerprint: Vec<_> =
        saved["fingerprint"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert!(fingerprint.contains(&"kind: SIGSEGV"), "{fingerprint:?}");
    assert!(fingerprint.contains(&"access: null_dereference read"), "{fingerprint:?}");
    assert!(fingerprint.contains(&"expression: app->logger"), "{fingerprint:?}");
    assert!(
        fingerprint.contains(&"frame: report | if (app->logger->level > 1) puts(what);"),
        "{fingerprint:?}"
    );

    let uri = saved["uri"].as_str().unwrap();
    let read = client.rpc("resources/read", &json!({ "uri": uri }));
    let text = read["result"]["contents"][0]["text"].as_str().unwrap();
    // The bad value's writes became place, statement and values.
    for part in [
        "The first message that is written",
        "app->requests++;",
        "Before: `3 (0x3)`, after: `4 (0x4)`",
        "build ",
        "it failed at moment",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let again = data(&mut client, "debugger/save_finding", finding);
    assert_eq!(again["document"], saved["document"], "the same finding is the same document");

    client.call("debugger/disconnect", json!({}));
    let autopsy = crash(&mut client, &cause, 2, false);
    assert!(autopsy.ends_with("\nnext: debugger/find_similar_bugs: findings are kept"), "{autopsy}");
    let said = client.call("debugger/find_similar_bugs", json!({}));
    assert!(said.starts_with("1 similar\n\n[1] ") && said.contains("finding: The first message"), "{said}");
    assert!(said.contains("why: SIGSEGV; null dereference read;"), "{said}");
    assert!(said.contains("frame cook like report"), "{said}");
    assert!(said.contains("nobody gives it a logger") && said.contains("fix: Make the logger"), "{said}");

    let found = client.call("knowledge/search", json!({ "query": "first message after the start crashes" }));
    assert!(found.contains("resource://knowledge/Findings/document/finding-"), "{found}");
    let gone = json!({ "collection": "Findings", "document": saved["document"] });
    client.call("knowledge/remove", gone);
    let nothing = client.call("debugger/find_similar_bugs", json!({}));
    assert!(nothing.starts_with("Nothing similar is known"), "{nothing}");
}

#[test]
fn what_is_like_nothing_known_is_said_so() {
    let mut client = Client::new();
    crash(&mut client, &cause("mean_of_none"), 1, false);
    save(&mut client, &cause("mean_of_none"));
    client.call("debugger/disconnect", json!({}));
    crash(&mut client, &cause("stale_index"), 1, false);
    let said = client.call("debugger/find_similar_bugs", json!({}));
    assert!(said.starts_with("Nothing similar is known (1 findings; the most likely has 0."), "{said}");
    let all = data(&mut client, "debugger/find_similar_bugs", json!({ "min_score": 0 }));
    assert_eq!(all["similar"].as_array().unwrap().len(), 1, "{all}");
}

/// Causes that show in the same way as another one, so that the signal or the message alone does not tell them apart.
const ALIKE: [&str; 6] = [
    "freed_while_walking",
    "member_never_set",
    "moved_away",
    "one_too_far",
    "stale_index",
    "unchecked_lookup",
];

/// The first variant of each cause is kept with what a person would write; the others must find it.
#[test]
fn crashes_with_other_names_lines_and_inputs_find_the_cause_that_was_kept() {
    let is_full = oracle_size(0, 1) == 1;
    let chosen: Vec<Cause> =
        causes().into_iter().filter(|cause| is_full || ALIKE.contains(&&*cause.name)).collect();
    let folder = tempfile::tempdir().unwrap();
    let peers = if is_full { sdk::peers() } else { None };
    if let Some(peers) = &peers {
        copy(&peers.join("models/all-MiniLM-L6-v2"), &folder.path().join("models/all-MiniLM-L6-v2"));
    }
    let mut client = Client::of(Local::start_in(folder, &[]).initialize());
    let mut names = Vec::new();
    for cause in &chosen {
        crash(&mut client, cause, 1, false);
        names.push((save(&mut client, cause)["uri"].clone(), cause.name.clone()));
        client.call("debugger/disconnect", json!({}));
    }
    let mut tally = Tally::default();
    for cause in &chosen {
        for variant in 2..=VARIANTS {
            crash(&mut client, cause, variant, false);
            let asked = json!({ "limit": 50, "min_score": 0 });
            let found = data(&mut client, "debugger/find_similar_bugs", asked);
            let name = |one: &Value| names.iter().find(|(uri, _)| *uri == one["uri"]).unwrap().1.clone();
            tally.count(&format!("{} {variant}", cause.name), &cause.name, &found["similar"], name);
            client.call("debugger/disconnect", json!({}));
        }
    }
    println!("{tally:?}");
    assert_eq!(tally.all, chosen.len() * (VARIANTS - 1));
    assert!(tally.right * 10 >= tally.all * 9, "{tally:?}");
    // The best that is wrong is rarely taken for likely.
    assert!(tally.wrong_and_sure * 10 <= tally.all, "{tally:?}");
}

#[derive(Debug, Default)]
struct Tally {
    all: usize,
    right: usize,
    by_stack: usize,
    by_text: usize,
    wrong_and_sure: usize,
    missed: Vec<String>,
}

impl Tally {
    fn count(&mut self, crash: &str, cause: &str, similar: &Value, name: impl Fn(&Value) -> String) {
        let similar = similar.as_array().unwrap();
        let first = |by: &dyn Fn(&Value) -> f64| {
            let best = similar.iter().max_by(|one, other| by(one).total_cmp(&by(other)));
            best.is_some_and(|best| name(best) == cause)
        };
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        self.all += 1;
        self.by_stack += usize::from(first(&|one| number(&one["why"]["stack"])));
        self.by_text +=
            usize::from(first(&|one| number(&one["why"]["by_words"]) + number(&one["why"]["meaning"])));
        if similar.first().is_some_and(|best| name(best) == cause) {
            self.right += 1;
        } else {
            self.missed.push(crash.to_owned());
        }
        let wrong = similar.iter().find(|one| name(one) != cause);
        self.wrong_and_sure += usize::from(wrong.is_some_and(|wrong| number(&wrong["score"]) > 0.8));
    }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

const TRACE: &str = "Program received signal SIGSEGV, Segmentation fault.\n\
    #0  0x0000555555555171 in weigh_parcel (one=0x0) at parcels.c:12\n\
    #1  0x00005555555551a2 in total_weight (count=3) at parcels.c:30\n#2  0x0 in main () at parcels.c:40\n";

#[test]
fn a_pasted_trace_finds_what_was_kept_without_a_session() {
    let mut client = Client::new();
    let finding = json!({
        "symptom": format!("Weighing crashes for parcels that are not in stock.\n\n{TRACE}"),
        "cause": "the lookup gives NULL", "shared": true,
    });
    let saved = data(&mut client, "debugger/save_finding", finding);
    assert_eq!(saved["shared"], true);
    let trace = TRACE.replace("5171", "9999").replace(":12", ":77").replace("(count=3)", "(count=9)");
    let found = data(&mut client, "debugger/find_similar_bugs", json!({ "text": trace }));
    let first = &found["similar"][0];
    assert_eq!((&first["kind"], &first["uri"]), (&json!("finding"), &saved["uri"]), "{found}");
    assert!(first["why"]["stack"].as_f64().unwrap() > 0.95, "{found}");
    assert!(first["score"].as_f64().unwrap() > 0.8, "{found}");
    let words = json!({ "text": "weighing a parcel that is not in stock crashes" });
    let found = data(&mut client, "debugger/find_similar_bugs", words);
    assert_eq!(found["similar"][0]["uri"], saved["uri"], "{found}");
    let other = json!({ "text": "the printer prints upside down on Tuesdays" });
    let said = client.call("debugger/find_similar_bugs", other);
    assert!(said.starts_with("Nothing similar is known (1 findings"), "{said}");
}

#[test]
fn a_kept_recording_finds_what_was_kept() {
    let mut client = Client::new();
    let cause = cause("freed_while_walking");
    crash(&mut client, &cause, 1, true);
    save(&mut client, &cause);
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("crash.trace");
    client.call("debugger/disconnect", json!({}));
    crash(&mut client, &cause, 3, true);
    client.call("debugger/export_trace", json!({ "format": "binary", "path": trace }));
    client.call("debugger/disconnect", json!({}));
    let found = data(&mut client, "debugger/find_similar_bugs", json!({ "trace": trace }));
    assert_eq!(found["similar"][0]["kind"], "finding", "{found}");
    let sessions = data(&mut client, "debugger/status", json!({}));
    assert!(sessions.get("session_id").is_none(), "no session is left: {sessions}");
}

#[test]
fn after_going_back_in_time_the_crash_is_still_what_is_kept() {
    let mut client = Client::new();
    let cause = cause("unchecked_lookup");
    crash(&mut client, &cause, 1, true);
    client.call("debugger/goto", json!({ "moment": "start" }));
    let saved = save(&mut client, &cause);
    assert!(saved["fingerprint"].to_string().contains("kind: SIGSEGV"), "{saved}");
    let read = client.rpc("resources/read", &json!({ "uri": saved["uri"] }));
    assert!(read.to_string().contains("looked at moment"), "{read}");
}

#[test]
fn secrets_are_masked_in_what_is_kept() {
    let mut client = Client::new();
    let finding = json!({
        "symptom": "login with password: S3cret fails", "cause": "token=S3cret is sent", "fix": "drop --password=S3cret",
        "evidence": ["Authorization: Token S3cret"], "statement": "password = read();", "before": "S3cret",
    });
    let saved = data(&mut client, "debugger/save_finding", finding);
    let read = client.rpc("resources/read", &json!({ "uri": saved["uri"] })).to_string();
    assert!(!read.contains("S3cret") && read.contains("***"), "{read}");
    assert!(!saved.to_string().contains("S3cret"), "{saved}");
}

#[test]
fn findings_stay_with_their_owner_unless_they_are_shared() {
    let server = Server::start(&[]);
    let (ann, bob) = (server.unlimited_key(), server.unlimited_key());
    let finding = |cause: &str, shared: bool| json!({ "symptom": TRACE, "cause": cause, "shared": shared });
    let asked = || json!({ "text": TRACE, "min_score": 0 });
    let saved = server.call(&ann, "debugger/save_finding", finding("tangerine", false));
    assert!(saved["result"].is_object(), "{saved}");
    let own = server.call(&ann, "debugger/find_similar_bugs", asked()).to_string();
    assert!(own.contains("tangerine"), "{own}");
    let others = server.call(&bob, "debugger/find_similar_bugs", asked()).to_string();
    assert!(!others.contains("tangerine") && others.contains("Nothing similar is known"), "{others}");
    let shared =
        json!({ "symptom": TRACE, "cause": "persimmon", "shared": true, "collection": "Everybody's" });
    assert!(server.call(&ann, "debugger/save_finding", shared)["result"].is_object());
    let others = server.call(&bob, "debugger/find_similar_bugs", asked()).to_string();
    assert!(others.contains("persimmon") && !others.contains("tangerine"), "{others}");
    // What somebody else shares is not replaced.
    let replaced =
        json!({ "symptom": TRACE, "cause": "quince", "shared": true, "collection": "Everybody's" });
    let refused = server.call(&bob, "debugger/save_finding", replaced);
    assert_eq!(refused["error"]["code"], -32003, "{refused}");
}

#[test]
fn both_scopes_are_needed_where_both_sides_are_used() {
    let server = Server::start(&[]);
    let reads_programs = server.key(&["--tier", "enterprise", "--scope", "debug:read"]);
    let refused = server.call(&reads_programs, "debugger/find_similar_bugs", json!({ "text": TRACE }));
    assert_eq!(refused["error"]["data"]["required_scope"], "knowledge:read", "{refused}");
    let writes = server.key(&["--tier", "enterprise", "--scope", "knowledge:write"]);
    let finding = json!({ "symptom": "a", "cause": "b", "session_id": "c" });
    let refused = server.call(&writes, "debugger/save_finding", finding);
    assert_eq!(refused["error"]["data"]["required_scope"], "debug:read", "{refused}");
    let recording = json!({ "trace": "/tmp/none" });
    let both = server.key(&["--tier", "enterprise", "--scope", "debug:read,knowledge:read"]);
    let refused = server.call(&both, "debugger/find_similar_bugs", recording);
    assert_eq!(refused["error"]["data"]["required_scope"], "debug:write", "{refused}");
}

#[test]
fn mistakes_in_a_question_are_told_with_what_to_do() {
    let mut client = Client::new();
    for (tool, arguments, said) in [
        (
            "debugger/find_similar_bugs",
            json!({ "text": "x", "trace": "/x" }),
            "more than one thing is asked about",
        ),
        ("debugger/find_similar_bugs", json!({ "text": " " }), "`text` is empty"),
        ("debugger/find_similar_bugs", json!({ "text": "x", "limit": 0 }), "`limit` is 0"),
        ("debugger/find_similar_bugs", json!({ "text": "x", "min_score": 7 }), "`min_score` is 7"),
        ("debugger/find_similar_bugs", json!({ "trace": "/no/such" }), "/no/such"),
        ("debugger/save_finding", json!({ "symptom": "", "cause": "x" }), "`symptom` is empty"),
        ("debugger/save_finding", json!({ "symptom": "x".repeat(30_000), "cause": "x" }), "20000 bytes"),
    ] {
        let refused = client.refused(tool, arguments);
        assert!(refused["data"]["details"].as_str().unwrap().contains(said), "{refused}");
        assert!(refused["data"]["hint"].is_string(), "{refused}");
    }
    let program = cause("mean_of_none").build(1).path;
    client.call("debugger/launch", json!({ "program": program, "record": false }));
    let refused = client.refused("debugger/find_similar_bugs", json!({}));
    assert!(refused["data"]["details"].as_str().unwrap().starts_with("nothing failed here"), "{refused}");
}

#[test]
fn issues_and_commits_are_found_beside_findings_and_imported_issues_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let issues = folder.path().join("issues.json");
    let issue = |state: &str| {
        json!([{
            "number": 7, "title": "Weighing parcels crashes", "state": state, "labels": [{ "name": "bug" }], "url": "https://example.org/a/shop/issues/7",
            "createdAt": "2024-01-02T03:04:05Z", "body": format!("Since yesterday:\n\n```\n{TRACE}```\n"),
            "comments": [{ "author": { "login": "bo" }, "body": "The lookup gives NULL for marzipan", "createdAt": "2024-01-03T00:00:00Z" }],
        }])
    };
    let data_folder = tempfile::tempdir().unwrap();
    let file = issues.to_str().unwrap();
    for (state, outcome) in [("OPEN", "added"), ("OPEN", "unchanged"), ("CLOSED", "updated")] {
        std::fs::write(&issues, issue(state).to_string()).unwrap();
        let report = knowledge(data_folder.path(), &["import-issues", file]);
        assert_eq!(report["files"][0]["outcome"], outcome, "{report}");
        assert_eq!(report["collection"]["documents"], 1, "{report}");
    }
    let note = folder.path().join("upside-down.md");
    std::fs::write(&note, "# The printer prints upside down\n\nOnly on Tuesdays.").unwrap();
    knowledge(data_folder.path(), &["import-issues", note.to_str().unwrap()]);
    let listed = hindcast(data_folder.path(), &["knowledge", "show", "Issues"]);
    assert!(listed.contains("a_shop_issues_7") && listed.contains("upside-down"), "{listed}");

    let git = |arguments: &[&str]| {
        let run =
            std::process::Command::new("git").current_dir(folder.path()).args(arguments).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    };
    git(&["init", "-q"]);
    let who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
    git(&[
        &who[..],
        &["commit", "-q", "--allow-empty", "-m", "Refuse sprockets without teeth in the gear box"],
    ]
    .concat());
    let repository = format!("git:{}", folder.path().display());
    knowledge(data_folder.path(), &["add", "History", &repository]);

    let mut client = Client::of(Local::start_in(data_folder, &[]).initialize());
    let found = data(&mut client, "debugger/find_similar_bugs", json!({ "text": TRACE }));
    assert_eq!(found["similar"][0]["kind"], "issue", "{found}");
    assert!(found["similar"][0]["why"]["agrees"].to_string().contains("frame weigh_parcel"), "{found}");
    let sprockets = json!({ "text": "the gear box takes sprockets without teeth" });
    let found = data(&mut client, "debugger/find_similar_bugs", sprockets);
    assert_eq!(found["similar"][0]["kind"], "commit", "{found}");
}

#[test]
fn what_is_no_issue_is_refused_with_how_to_get_some() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none.json");
    std::fs::write(&file, "{\"a\": 1}").unwrap();
    let output =
        crate::server::try_hindcast(folder.path(), &["knowledge", "import-issues", file.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success()
            && said.contains("no issue in it has a title")
            && said.contains("gh issue list"),
        "{said}"
    );
}
