//! HTML as Markdown.

use htmd::HtmlToMarkdown;

use crate::{ExtractError, Extracted};

/// What is not for readers.
const SKIPPED: [&str; 9] =
    ["script", "style", "noscript", "template", "iframe", "object", "svg", "head", "nav"];

/// Deeper than any page for people; the parser's tree is walked by recursion.
const DEEPEST: usize = 512;

pub(crate) fn extract(html: &str) -> Result<Extracted, ExtractError> {
    let broken = |reason: String| ExtractError::Broken { format: "HTML", reason };
    if deepest(html) > DEEPEST {
        return Err(broken(format!("its elements are nested deeper than {DEEPEST}")));
    }
    let converter = HtmlToMarkdown::builder().skip_tags(SKIPPED.to_vec()).build();
    let text = converter.convert(html).map_err(|error| broken(error.to_string()))?;
    Ok(Extracted { text: Some(text), title: title(html), ..Extracted::default() })
}

/// How deep elements may be nested at most, judged by their tags alone.
fn deepest(html: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for (at, _) in html.match_indices('<') {
        match html.as_bytes().get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(byte) if byte.is_ascii_alphabetic() => {
                let tag = &html[at + 1..];
                let name = tag.split(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or_default();
                let closes_itself = VOID.contains(&&*name.to_ascii_lowercase())
                    || tag.split('>').next().is_some_and(|tag| tag.ends_with('/'));
                depth += usize::from(!closes_itself);
                deepest = deepest.max(depth);
            }
            _ => {}
        }
    }
    deepest
}

/// Elements that have no end tag, or whose end tag people leave out.
const VOID: [&str; 17] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr",
    "li", "p", "td", "tr",
];

fn title(html: &str) -> Option<String> {
    let start = find_tag(html, "<title")?;
    let after = &html[start..];
    let content = &after[after.find('>')? + 1..];
    let title = content[..content.find("</").unwrap_or(content.len())].trim();
    let title = title.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    (!title.is_empty()).then(|| title.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn find_tag(html: &str, tag: &str) -> Option<usize> {
    let fits =
        |at: &usize| html.get(*at..at + tag.len()).is_some_and(|found| found.eq_ignore_ascii_case(tag));
    html.match_indices('<').map(|(at, _)| at).find(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_markdown_without_its_scripts() {
        let page = "<html><head><title>The &amp; page</title><script>evil()</script></head><body><h1>Big</h1>\
                    <p>Some <b>bold</b> words.</p><script>alert('x')</script><style>p{}</style><ul><li>one</ul></body>";
        let extracted = extract(page).unwrap();
        assert_eq!(extracted.title.as_deref(), Some("The & page"));
        let text = extracted.text.unwrap();
        assert!(text.contains("# Big") && text.contains("**bold**") && text.contains("one"), "{text}");
        assert!(!text.contains("alert") && !text.contains("evil") && !text.contains("p{}"), "{text}");
    }

    #[test]
    fn nesting_that_would_overflow_is_refused() {
        assert!(extract(&"<div>".repeat(100_000)).is_err());
        let flat = "<p>paragraph <br> <img src=x> ".repeat(10_000);
        assert!(extract(&flat).is_ok());
    }
}
