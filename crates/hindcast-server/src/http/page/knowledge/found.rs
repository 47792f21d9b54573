//! Passages that were found, with the words that were looked for.

use http::Response;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::json;

use super::{Body, KNOWLEDGE, Turned, Visit, path, words};

const SHOWN: u32 = 12;

#[derive(Deserialize)]
struct Found {
    hits: Vec<Hit>,
    #[serde(default)]
    notices: Vec<String>,
}

#[derive(Deserialize)]
struct Hit {
    text: String,
    score: f32,
    collection: String,
    document: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    headings: String,
    first_line: u64,
    last_line: u64,
    page: Option<u64>,
    path: Option<String>,
    why_stale: Option<String>,
}

pub(super) fn form(query: &str, collection: &str) -> Markup {
    html! {
        form.search role="search" method="get" action={ (KNOWLEDGE) "/search" } {
            label for="q" { "Search" }
            div.line {
                input #q type="search" name="q" value=(query) required placeholder="words, or a question";
                @if !collection.is_empty() { input type="hidden" name="in" value=(collection); }
                button.main type="submit" { "Search" }
            }
        }
    }
}

/// The page.
pub(in super::super) async fn search(visit: &Visit<'_>) -> Result<Response<Body>, Turned> {
    let query = visit.query.get("q").unwrap_or_default();
    let collection = visit.query.get("in");
    let asked = json!({ "query": query, "limit": SHOWN, "collection": collection });
    let found = if query.is_empty() {
        None
    } else {
        match visit.desk.look::<Found>("knowledge/search", asked).await {
            Ok(found) => Some(found),
            Err(failure) => return Ok(visit.failed(&failure)),
        }
    };
    let content = html! {
        div.head {
            p.crumb { a href=(KNOWLEDGE) { "Knowledge" } @if let Some(id) = collection { " / " a href=(path(id)) { (id) } } }
            h1 { "Search" }
        }
        (form(query, collection.unwrap_or_default()))
        @if let Some(found) = &found {
            @for notice in &found.notices { p.faint { (notice) } }
            @if found.hits.is_empty() { div.empty { p { "Nothing was found." } p.faint { "Try other words, or fewer." } } }
            ol.hits { @for hit in &found.hits { (one(hit, query)) } }
        }
    };
    Ok(visit.page("Search", content))
}

fn one(hit: &Hit, query: &str) -> Markup {
    let document = format!("{}/{}", path(&hit.collection), words::encoded(&hit.document));
    let document = words::link(&document, &[("line", &hit.first_line.to_string())]);
    let name = if hit.name.is_empty() { &hit.document } else { &hit.name };
    html! {
        li.panel.hit {
            h2 {
                a href=(document) { (name) }
                span.faint {
                    @if let Some(page) = hit.page { "page " (page) ", " }
                    @if hit.first_line == hit.last_line { "line " (hit.first_line) } @else { "lines " (hit.first_line) "–" (hit.last_line) }
                    " · relevance " (format!("{:.2}", hit.score))
                    @if let Some(why) = &hit.why_stale { " · " (why) }
                }
            }
            @if !hit.headings.is_empty() { p.faint { (hit.headings) } }
            p.text { (highlighted(&hit.text, query)) }
            p.faint { "in " a href=(path(&hit.collection)) { (hit.collection) } @if let Some(path) = &hit.path { " · " span.path { (path) } } }
        }
    }
}

/// The text with the words of the query marked; also where they go on, as in `breakpoint` and `breakpoints`.
fn highlighted(text: &str, query: &str) -> Markup {
    let lower = query.to_lowercase();
    let wanted: Vec<&str> = lower
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| word.chars().count() > 2)
        .collect();
    let is_wanted = |word: &str| {
        let word = word.to_lowercase();
        wanted
            .iter()
            .any(|wanted| word == *wanted || (wanted.chars().count() > 3 && word.starts_with(wanted)))
    };
    let mut parts: Vec<(&str, bool)> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = first.is_alphanumeric();
        let end = rest.find(|letter: char| letter.is_alphanumeric() != is_word).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        parts.push((part, is_word && is_wanted(part)));
        rest = after;
    }
    html! { @for (part, is_found) in parts { @if is_found { mark { (part) } } @else { (part) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_query_are_marked_and_everything_is_escaped() {
        let marked =
            highlighted("Set <b>breakpoints</b>, a breakpoint; Break it", "breakpoint it").into_string();
        assert_eq!(
            marked,
            "Set &lt;b&gt;<mark>breakpoints</mark>&lt;/b&gt;, a <mark>breakpoint</mark>; Break it"
        );
        assert_eq!(highlighted("äöü ÄÖÜ x", "äöü").into_string(), "<mark>äöü</mark> <mark>ÄÖÜ</mark> x");
        assert_eq!(highlighted("", "x").into_string(), "");
    }
}
