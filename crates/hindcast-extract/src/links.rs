//! Where a page leads, and whether its author wants it found.

use std::cell::RefCell;

use html5ever::{
    tendril::StrTendril,
    tokenizer::{
        BufferQueue, StartTag, Tag, TagToken, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
    },
};

use crate::encoding;

/// More links of one page are not followed.
const MOST: usize = 10_000;

/// What a page says about others and itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Links {
    /// As they are written, in order.
    pub targets: Vec<String>,
    /// What they are relative to, where that is not the page's own address.
    pub base: Option<String>,
    /// Whether the page asks not to be found.
    pub is_unlisted: bool,
    /// Whether the page asks that its links are not followed.
    pub is_dead_end: bool,
}

/// The links of an HTML page. Linear in its size, and without a tree: it may be made to hurt.
pub fn links(bytes: &[u8]) -> Links {
    let Ok(text) = encoding::decoded(bytes) else { return Links::default() };
    let tokenizer = Tokenizer::new(Sink::default(), TokenizerOpts::default());
    let input = BufferQueue::default();
    input.push_back(StrTendril::from(&*text));
    let _ = tokenizer.feed(&input);
    tokenizer.end();
    tokenizer.sink.0.into_inner()
}

#[derive(Default)]
struct Sink(RefCell<Links>);

impl TokenSink for Sink {
    type Handle = ();

    fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
        if let TagToken(tag) = token
            && tag.kind == StartTag
        {
            self.take(&tag);
        }
        TokenSinkResult::Continue
    }
}

impl Sink {
    fn take(&self, tag: &Tag) {
        let attribute = |name: &str| {
            let found = tag.attrs.iter().find(|attribute| &*attribute.name.local == name);
            found.map(|attribute| attribute.value.to_string())
        };
        let mut links = self.0.borrow_mut();
        match &*tag.name {
            "a" | "area" if links.targets.len() < MOST => links.targets.extend(attribute("href")),
            "base" if links.base.is_none() => links.base = attribute("href"),
            "meta" if attribute("name").is_some_and(|name| name.eq_ignore_ascii_case("robots")) => {
                let wishes = attribute("content").unwrap_or_default().to_ascii_lowercase();
                links.is_unlisted |= wishes.contains("noindex") || wishes.contains("none");
                links.is_dead_end |= wishes.contains("nofollow") || wishes.contains("none");
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_those_of_tags_and_not_of_comments_or_text() {
        let page = b"<base href='/docs/'><a href=one.html>1</a><!-- <a href=no.html> --><A HREF=\"two?x=1&amp;y=2\">2</A>&lt;a href=no&gt;<a>3</a>";
        let found = links(page);
        assert_eq!(found.targets, ["one.html", "two?x=1&y=2"]);
        assert_eq!(found.base.as_deref(), Some("/docs/"));
        assert!(!found.is_unlisted && !found.is_dead_end);
        let shy = links(b"<meta name=ROBOTS content='noindex, nofollow'>");
        assert!(shy.is_unlisted && shy.is_dead_end);
    }
}
