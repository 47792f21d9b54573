//! Sitemaps: the pages that a site lists.

use std::io::Read as _;

use flate2::read::MultiGzDecoder;

/// More addresses of one file are not read; the standard allows as many.
const MOST: usize = 50_000;

/// What a sitemap lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sitemap {
    pub(super) pages: Vec<String>,
    /// Other sitemaps.
    pub(super) sitemaps: Vec<String>,
    /// Whether it lists more than is read.
    pub(super) is_cut: bool,
}

/// The text of a sitemap, which may be packed; none where it unpacks to more bytes than so many, or does not.
pub(super) fn text_of(body: &[u8], largest: u64) -> Option<String> {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Some(String::from_utf8_lossy(body).into_owned());
    }
    let mut unpacked = Vec::new();
    MultiGzDecoder::new(body).take(largest + 1).read_to_end(&mut unpacked).ok()?;
    (unpacked.len() as u64 <= largest).then(|| String::from_utf8_lossy(&unpacked).into_owned())
}

/// Reads a sitemap or an index of sitemaps; none where it is something else.
pub(super) fn parse(text: &str) -> Option<Sitemap> {
    let is_index = text.contains("<sitemapindex");
    if !is_index && !text.contains("<urlset") {
        return None;
    }
    let mut listed = text.split("<loc>").skip(1).filter_map(|rest| rest.split_once("</loc>"));
    let locations = listed.by_ref().take(MOST).map(|(address, _)| unescaped(address.trim())).collect();
    let is_cut = listed.next().is_some();
    Some(match is_index {
        true => Sitemap { sitemaps: locations, is_cut, ..Sitemap::default() },
        false => Sitemap { pages: locations, is_cut, ..Sitemap::default() },
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
        let long = "<urlset>".to_owned() + &"<loc>https://a/</loc>".repeat(MOST + 1);
        let long = parse(&long).unwrap();
        assert!(long.is_cut && long.pages.len() == MOST);
    }

    #[test]
    fn packed_sitemaps_are_unpacked_up_to_a_bound() {
        use std::io::Write as _;
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        packer.write_all(&[b' '; 5000]).unwrap();
        let packed = packer.finish().unwrap();
        assert_eq!(text_of(&packed, 5000).unwrap().len(), 5000);
        assert_eq!(text_of(&packed, 4999), None, "it is larger than it looks");
        assert_eq!(text_of(&packed[..packed.len() / 2], 5000), None);
        assert_eq!(text_of(b"<urlset>", 10).unwrap(), "<urlset>");
    }
}
