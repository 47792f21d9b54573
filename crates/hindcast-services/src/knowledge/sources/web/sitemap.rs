//! Sitemaps: the pages that a site lists.

/// More addresses of one file are not read; the standard allows as many.
const MOST: usize = 50_000;

/// What a sitemap lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sitemap {
    pub(super) pages: Vec<String>,
    /// Other sitemaps.
    pub(super) sitemaps: Vec<String>,
}

/// Reads a sitemap or an index of sitemaps; none where it is something else.
pub(super) fn parse(text: &str) -> Option<Sitemap> {
    let is_index = text.contains("<sitemapindex");
    if !is_index && !text.contains("<urlset") {
        return None;
    }
    let locations = text.split("<loc>").skip(1).take(MOST).filter_map(|rest| rest.split_once("</loc>"));
    let locations = locations.map(|(address, _)| unescaped(address.trim())).collect();
    Some(match is_index {
        true => Sitemap { sitemaps: locations, ..Sitemap::default() },
        false => Sitemap { pages: locations, ..Sitemap::default() },
    })
}

/// Addresses are written plainly or as CDATA, with at most the five entities of XML.
fn unescaped(text: &str) -> String {
    if let Some(plain) = text.strip_prefix("<![CDATA[").and_then(|text| text.strip_suffix("]]>")) {
        return plain.trim().to_owned();
    }
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    entities.iter().fold(text.to_owned(), |text, (entity, letter)| text.replace(entity, letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_other_sitemaps_are_listed() {
        let pages = "<?xml version='1.0'?><urlset xmlns='x'><url><loc> https://a/b?c=1&amp;d=2 </loc><lastmod>2026</lastmod></url>\
                     <url><loc><![CDATA[https://a/e]]></loc></url><url><loc>unfinished";
        assert_eq!(parse(pages).unwrap().pages, ["https://a/b?c=1&d=2", "https://a/e"]);
        let index = "<sitemapindex><sitemap><loc>https://a/s.xml</loc></sitemap></sitemapindex>";
        assert_eq!(parse(index).unwrap().sitemaps, ["https://a/s.xml"]);
        assert_eq!(parse("<html></html>"), None);
    }
}
