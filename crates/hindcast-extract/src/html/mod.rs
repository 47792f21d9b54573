//! HTML as a reader sees it: the content of the page, with its headings, code, lists and tables, without what is around it.

mod content;
mod tree;
mod write;

use content::Content;
use jiff::Timestamp;
use tree::{DOCUMENT, Tree};

use crate::{ExtractError, Extracted, dated};

pub(crate) fn extract(html: &str) -> Result<Extracted, ExtractError> {
    let tree = Tree::of(html)?;
    if leads_elsewhere(&tree) {
        return Err(ExtractError::Redirect);
    }
    let content = Content::of(&tree);
    let written = write::write(&tree, &content);
    let title = tree.find(DOCUMENT, |node| node.tag() == "title").map(|title| tree.text(title));
    Ok(Extracted {
        text: Some(written.text),
        title: title.filter(|title| !title.is_empty()),
        description: description(&tree),
        dated: date(&tree),
        lines: written.lines,
        blocks: written.blocks,
        ..Extracted::default()
    })
}

/// What pages call the time of their last change, best first.
const DATES: [&str; 6] = [
    "article:modified_time",
    "last-modified",
    "dcterms.modified",
    "article:published_time",
    "dcterms.date",
    "date",
];

fn date(tree: &Tree) -> Option<Timestamp> {
    DATES.iter().find_map(|name| dated::parse(metadata(tree, name)?))
}

/// What a page says of itself under a name.
fn metadata<'a>(tree: &'a Tree, name: &str) -> Option<&'a str> {
    let meta = tree.find(DOCUMENT, |node| {
        let is_named =
            |given: &str| node.attribute(given).is_some_and(|given| given.eq_ignore_ascii_case(name));
        node.tag() == "meta" && (is_named("name") || is_named("property"))
    })?;
    tree[meta].attribute("content")
}

fn description(tree: &Tree) -> Option<String> {
    let text = metadata(tree, "description")?.split_whitespace().collect::<Vec<_>>().join(" ");
    let is_short = !text.is_empty() && text.chars().count() <= 300;
    is_short.then_some(text)
}

/// Whether a page only sends its reader to another.
fn leads_elsewhere(tree: &Tree) -> bool {
    let refreshes = tree.find(DOCUMENT, |node| {
        node.tag() == "meta"
            && node.attribute("http-equiv").is_some_and(|kind| kind.eq_ignore_ascii_case("refresh"))
            && node.attribute("content").is_some_and(|content| content.to_ascii_lowercase().contains("url="))
    });
    refreshes.is_some()
        && tree.find(DOCUMENT, |node| node.tag() == "body").is_none_or(|body| tree.text(body).len() < 500)
}

#[cfg(test)]
mod tests;
