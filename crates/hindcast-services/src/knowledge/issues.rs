//! Issues of a tracker, each a document: as GitHub and GitLab tell them in JSON, or as Markdown.

use std::fmt::Write as _;

use hindcast_core::{identity::Caller, knowledge::Ownership, progress::Progress};
use serde_json::Value;

use super::{
    AddReport, FileOutcome, FileReport, KnowledgeService, blocking, invalid, names::id_of_anything,
    reading::Reader,
};
use crate::Failure;

/// What issues are tagged with.
pub const ISSUE_TAG: &str = "issue";
/// Issues with more comments than anybody reads.
const MOST_COMMENTS: usize = 200;
/// Labels that become tags.
const MOST_LABELS: usize = 30;

/// Files with issues, and where they go.
#[derive(Debug, Clone)]
pub struct IssueRequest {
    /// Id or name of the collection, which is made if there is none.
    pub collection: String,
    /// Whose the collection is.
    pub ownership: Ownership,
    /// Names of files and what they say.
    pub files: Vec<(String, String)>,
}

/// An issue as a document.
#[derive(Debug, Clone, PartialEq)]
struct Issue {
    id: String,
    text: String,
}

impl KnowledgeService {
    /// Takes issues in. One that is there already, by its address or number, is replaced where it says something else.
    pub async fn import_issues(
        &self,
        caller: &Caller,
        request: IssueRequest,
        progress: &dyn Progress,
    ) -> Result<AddReport, Failure> {
        let mut reports = Vec::new();
        let mut issues = Vec::new();
        for (name, text) in &request.files {
            match read(name, text) {
                Ok(read) => issues.extend(read),
                Err(reason) => {
                    let outcome = FileOutcome::Failed { reason };
                    reports.push(FileReport { path: name.clone(), outcome });
                }
            }
        }
        if issues.is_empty() {
            let reason = reports.iter().find_map(|report| match &report.outcome {
                FileOutcome::Failed { reason } => Some(format!("`{}`: {reason}", report.path)),
                _ => None,
            });
            return Err(invalid(reason.unwrap_or_else(|| "there are no issues in these files".into()))
                .hint("`gh issue list --state all --limit 1000 --json number,title,state,labels,body,comments,url,createdAt,updatedAt > issues.json` makes such a file"));
        }
        let (policy, reader) = (self.policy.reading.clone(), Reader::of(caller));
        let permit = std::sync::Arc::new(blocking(move || policy.permit(reader)).await?);
        let IssueRequest { collection, ownership, .. } = request;
        let mut intake = self.intake(caller, &collection, None, ownership, permit).await?;
        intake.tags = vec![ISSUE_TAG.into()];
        let settings = intake.collection.settings.clone();
        let total = issues.len() as u64;
        for (done, issue) in (0_u64..).zip(issues) {
            if progress.cancelled() || self.stopping.is_set() {
                intake.is_stopped = true;
                intake.notice(format!(
                    "stopped: {} of {total} issues were not looked at · hint: import them again",
                    total - done
                ));
                break;
            }
            progress.report(done, Some(total), &issue.id);
            let path = issue.id.clone();
            let given =
                self.prepare_text(caller, &path, issue.text, Some("text/markdown"), settings.clone()).await;
            let outcome = match given {
                Err(failure) => FileOutcome::Failed { reason: failure.details },
                Ok(given) => match self.check_may_replace(caller, &intake, &given).await {
                    Err(failure) => FileOutcome::Failed { reason: failure.details },
                    Ok(()) => self.add_text(&mut intake, given, progress).await?,
                },
            };
            reports.push(FileReport { path, outcome });
        }
        self.finished(caller, intake, reports.into()).await
    }
}

/// The issues of a file.
fn read(name: &str, text: &str) -> Result<Vec<Issue>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let is_markdown = [".md", ".markdown"].iter().any(|end| name.to_lowercase().ends_with(end));
    if is_markdown {
        return Ok(vec![of_markdown(name, text)]);
    }
    let whole = serde_json::from_str::<Value>(text);
    let values = match whole {
        Ok(Value::Array(values)) => values,
        // What a search of GitHub gives, or pages that were put together.
        Ok(Value::Object(mut object)) => match object.remove("items").or_else(|| object.remove("issues")) {
            Some(Value::Array(values)) => values,
            _ => vec![Value::Object(object)],
        },
        Ok(_) => return Err("it is no list of issues".into()),
        Err(error) => in_lines(text).ok_or_else(|| format!("it is no JSON: {error}"))?,
    };
    // Pages of an API, one list each.
    let values = values.into_iter().flat_map(|value| match value {
        Value::Array(values) => values,
        value => vec![value],
    });
    let issues: Vec<Issue> = values.filter_map(|value| of_json(&value)).collect();
    if issues.is_empty() { Err("no issue in it has a title".into()) } else { Ok(issues) }
}

/// One issue, or one list of them, a line.
fn in_lines(text: &str) -> Option<Vec<Value>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| serde_json::from_str(line).ok())
        .collect::<Option<Vec<_>>>()
        .filter(|all| !all.is_empty())
}

fn of_markdown(name: &str, text: &str) -> Issue {
    let stem = name.rsplit('/').next().unwrap_or(name);
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    Issue { id: id_of_anything(stem), text: text.to_owned() }
}

fn of_json(value: &Value) -> Option<Issue> {
    let title = in_a_line(text(value, &["title"])?);
    let number = ["number", "iid", "id"].iter().find_map(|name| value[name].as_u64());
    let url = text(value, &["html_url", "web_url", "url"]).unwrap_or_default();
    let state = text(value, &["state"]).unwrap_or_default().to_lowercase();
    let state = if state == "opened" { "open".to_owned() } else { state };
    let labels = labels(value);
    let date = |names: &[&str]| text(value, names).map(in_a_line).unwrap_or_default();
    let (created, updated, closed) = (
        date(&["created_at", "createdAt"]),
        date(&["updated_at", "updatedAt"]),
        date(&["closed_at", "closedAt"]),
    );
    let mut said = format!("---\ntags: [{}]\n", [&[ISSUE_TAG.to_owned()], &*labels].concat().join(", "));
    for (name, date) in [("created", &created), ("updated", &updated)] {
        if !date.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(said, "{name}: {date}");
        }
    }
    let _ = write!(said, "---\n# {title}\n\n");
    let mut facts = Vec::new();
    facts.extend(number.map(|number| format!("Issue {number}")));
    facts.extend(Some(state).filter(|state| !state.is_empty()));
    facts.extend((!labels.is_empty()).then(|| format!("labels: {}", labels.join(", "))));
    facts.extend((!created.is_empty()).then(|| format!("opened {created}{}", by(value))));
    facts.extend((!closed.is_empty()).then(|| format!("closed {closed}")));
    facts.extend((!url.is_empty()).then(|| in_a_line(url)));
    let _ = write!(said, "{}\n\n", facts.join(" · "));
    said.push_str(text(value, &["body", "description"]).unwrap_or_default().trim());
    for comment in comments(value) {
        let when = text(comment, &["created_at", "createdAt"]).map(|date| format!(", {}", in_a_line(date)));
        let body = text(comment, &["body", "note"]).unwrap_or_default().trim();
        let _ = write!(said, "\n\n## Comment{}{}\n\n{body}", by(comment), when.unwrap_or_default());
    }
    said.push('\n');
    Some(Issue { id: id(url, number, &title), text: said })
}

/// The address without what all have in common; without an address the number, else the title.
fn id(url: &str, number: Option<u64>, title: &str) -> String {
    let path = url.split("://").nth(1).and_then(|rest| rest.split_once('/')).map(|(_, path)| path);
    let path = path.map(|path| path.trim_start_matches("repos/").split(['?', '#']).next().unwrap_or(path));
    match (path, number) {
        (Some(path), _) if !path.is_empty() => id_of_anything(path.trim_end_matches('/')),
        (_, Some(number)) => format!("issue-{number}"),
        _ => id_of_anything(title),
    }
}

fn text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    names.iter().find_map(|name| value[*name].as_str()).filter(|text| !text.trim().is_empty())
}

/// A line break in a title or date would be something else in the document.
fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn by(value: &Value) -> String {
    let person =
        ["user", "author"].iter().find_map(|name| text(&value[*name], &["login", "username", "name"]));
    person.map(|person| format!(" by {}", in_a_line(person))).unwrap_or_default()
}

fn labels(value: &Value) -> Vec<String> {
    let labels = value["labels"].as_array().into_iter().flatten();
    let names = labels.filter_map(|label| label.as_str().or_else(|| label["name"].as_str()));
    // What ends a list or a tag in front matter.
    let clean = names.map(|name| in_a_line(&name.replace(['[', ']', ',', '"', '\'', '#'], " ")));
    clean.filter(|name| !name.is_empty() && name.len() <= 100).take(MOST_LABELS).collect()
}

fn comments(value: &Value) -> impl Iterator<Item = &Value> {
    let lists = ["comments", "notes"].iter().filter_map(|name| match &value[*name] {
        // `gh` puts them into pages where it asks GraphQL.
        Value::Object(pages) => pages.get("nodes").and_then(Value::as_array),
        list => list.as_array(),
    });
    let is_said = |comment: &&Value| comment["system"] != true && text(comment, &["body", "note"]).is_some();
    lists.flatten().filter(is_said).take(MOST_COMMENTS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(value: Value) -> Issue {
        read("issues.json", &value.to_string()).unwrap().remove(0)
    }

    #[test]
    fn issues_of_githubs_api_are_read() {
        let issue = one(json!([{
            "number": 7, "title": "Crash on an empty list\n# x", "state": "closed", "labels": [{ "name": "bug" }, { "name": "a, [b]" }],
            "body": "It crashes.", "html_url": "https://github.com/a/shop/issues/7", "url": "https://api.github.com/repos/a/shop/issues/7",
            "created_at": "2024-01-02T03:04:05Z", "updated_at": "2024-02-02T03:04:05Z", "user": { "login": "ann" }, "comments": 3,
        }]));
        assert_eq!(issue.id, "a_shop_issues_7");
        assert_eq!(
            issue.text,
            "---\ntags: [issue, bug, a b]\ncreated: 2024-01-02T03:04:05Z\nupdated: 2024-02-02T03:04:05Z\n---\n\
             # Crash on an empty list # x\n\nIssue 7 · closed · labels: bug, a b · opened 2024-01-02T03:04:05Z by ann · \
             https://github.com/a/shop/issues/7\n\nIt crashes.\n"
        );
    }

    #[test]
    fn issues_of_gh_and_of_gitlab_are_read_with_their_comments() {
        let gh = one(json!([{
            "number": 8, "title": "Hang", "state": "OPEN", "labels": [], "body": "", "url": "https://github.com/a/shop/issues/8",
            "createdAt": "2024-01-02T03:04:05Z", "comments": [{ "author": { "login": "bo" }, "body": "Same here", "createdAt": "2024-01-03T00:00:00Z" }],
        }]));
        assert_eq!(gh.id, "a_shop_issues_8");
        assert!(
            gh.text.contains("· open ·")
                && gh.text.contains("## Comment by bo, 2024-01-03T00:00:00Z\n\nSame here"),
            "{}",
            gh.text
        );
        let gitlab = one(json!({
            "id": 900, "iid": 3, "title": "Leak", "state": "opened", "labels": ["memory"], "description": "It grows.",
            "web_url": "https://gitlab.com/a/b/-/issues/3", "author": { "username": "cy" },
            "notes": [{ "body": "changed the label", "system": true }, { "body": "Seen", "author": { "username": "di" } }],
        }));
        assert_eq!(gitlab.id, "a_b_-_issues_3");
        assert!(
            gitlab.text.contains("Issue 3 · open · labels: memory") && gitlab.text.contains("It grows."),
            "{}",
            gitlab.text
        );
        assert!(
            gitlab.text.contains("Seen") && !gitlab.text.contains("changed the label"),
            "{}",
            gitlab.text
        );
    }

    #[test]
    fn lists_in_lines_in_pages_and_in_searches_are_read() {
        let issue = |title: &str| json!({ "title": title }).to_string();
        for text in [
            format!("{}\n{}\n", issue("a"), issue("b")),
            format!("[{}]\n[{}]", issue("a"), issue("b")),
            format!("{{\"total_count\": 2, \"items\": [{},{}]}}", issue("a"), issue("b")),
        ] {
            let ids: Vec<_> = read("x.json", &text).unwrap().into_iter().map(|issue| issue.id).collect();
            assert_eq!(ids, ["a", "b"], "{text}");
        }
    }

    #[test]
    fn markdown_is_one_issue_and_what_is_none_is_refused() {
        let issue =
            read("notes/12-crash.md", "---\nstate: open\n---\n# Crash\n\nIt does.").unwrap().remove(0);
        assert_eq!((&*issue.id, issue.text.contains("It does.")), ("12-crash", true));
        for text in ["", "[]", "{}", "7", "not json", "[{\"number\": 1}]"] {
            assert!(read("x.json", text).is_err(), "{text}");
        }
    }
}
