//! Which pages of a site are asked for, in which order, and when to stop.

use std::{
    collections::{HashSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use hindcast_core::knowledge::{Web, WebAnswer};
use hindcast_extract::links;
use url::Url;

use super::{robots::Robots, sitemap};

/// How much of a site is read at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) pages: usize,
    pub(super) bytes: u64,
    pub(super) page_bytes: u64,
    /// Links from the first page on.
    pub(super) depth: usize,
    /// Between two requests.
    pub(super) pause: Duration,
}

impl Limits {
    pub(super) fn usual(page_bytes: u64) -> Self {
        Self {
            pages: 500,
            bytes: 200 << 20,
            page_bytes: page_bytes.min(20 << 20),
            depth: 3,
            pause: Duration::from_millis(200),
        }
    }
}

/// A site asks for longer pauses than this are not waited for: it is given up.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const MOST_REDIRECTS: usize = 5;
const MOST_SITEMAPS: usize = 50;
/// A rule is tested against a path this often in one walk: hundreds of rules for ten thousands of links. A hostile site has more.
const MOST_RULE_TESTS: usize = 10_000_000;
/// What the standard allows.
const LARGEST_SITEMAP: u64 = 50 << 20;

const NO_PAGE: &str =
    "it is not a page · hint: give the address of a page, a folder or a sitemap that ends in `.xml`";
const NO_LISTED_PAGES: &str =
    "it lists no pages of its own host that may be read · hint: give a sitemap or a page";
const DISALLOWED: &str = "the site's robots.txt does not allow it to be read · hint: ask the site, or save the page and add the file";

/// A page that was asked for.
pub(super) struct Page {
    pub(super) url: Url,
    pub(super) outcome: PageOutcome,
}

pub(super) enum PageOutcome {
    /// It is there.
    Read(WebAnswer),
    /// The site says that it is gone.
    Gone(u16),
    /// It could not be had.
    Failed(String),
    /// It leads to a page that comes by itself, or does not want to be found.
    PassedOver,
}

/// A walk through one site.
pub(super) struct Crawl {
    web: Arc<dyn Web>,
    limits: Limits,
    robots: Robots,
    /// Where it began, which everything else must be below.
    root: Url,
    /// Whether links are followed; a sitemap lists all there is.
    follows: bool,
    waiting: VecDeque<(Url, usize)>,
    /// Sitemaps that are to be read, those that are known of, and how many were read.
    maps: VecDeque<Url>,
    known_maps: HashSet<String>,
    read_maps: usize,
    seen: HashSet<String>,
    rule_tests: usize,
    asked: usize,
    bytes: u64,
    /// What was left out, and why.
    pub(super) notices: Vec<String>,
}

impl Crawl {
    /// Asks for the site's rules. Blocks.
    pub(super) fn begin(web: Arc<dyn Web>, start: Url, limits: Limits) -> Result<Self, String> {
        let mut crawl = Self {
            web,
            limits,
            robots: Robots::default(),
            root: folder_of(&start),
            follows: true,
            waiting: VecDeque::new(),
            maps: VecDeque::new(),
            known_maps: HashSet::new(),
            read_maps: 0,
            seen: HashSet::new(),
            rule_tests: 0,
            asked: 0,
            bytes: 0,
            notices: Vec::new(),
        };
        crawl.robots = crawl.rules(&start)?;
        let pause = crawl.robots.delay.unwrap_or_default().max(limits.pause);
        if pause > LONGEST_PAUSE {
            return Err(format!(
                "its robots.txt asks for pauses of {} seconds, longer than are waited",
                pause.as_secs()
            ));
        }
        crawl.limits.pause = pause;
        if is_sitemap(&start) {
            crawl.follows = false;
            // What a sitemap lists stands anywhere on its host.
            crawl.root.set_path("/");
            crawl.enqueue_map(start);
        } else {
            let is_allowed = crawl.robots.allow(path_of(&start));
            crawl.enqueue(start, 0);
            if crawl.waiting.is_empty() {
                let reason = if is_allowed { NO_PAGE } else { DISALLOWED };
                return Err(reason.into());
            }
        }
        Ok(crawl)
    }

    pub(super) fn pause(&self) -> Duration {
        self.limits.pause
    }

    /// How many pages were asked for, and how many are known of.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.asked, (self.asked + self.waiting.len()).min(self.limits.pages))
    }

    /// The next page or sitemap; none where there are no more. Asks the site once, so that the pause between two calls is one
    /// between two requests. Blocks.
    pub(super) fn next(&mut self) -> Option<Page> {
        if let Some(url) = self.maps.pop_front() {
            return Some(self.next_map(url));
        }
        let (url, depth) = self.waiting.pop_front()?;
        let reason = if self.asked >= self.limits.pages {
            format!("more than {} pages", self.limits.pages)
        } else if self.bytes >= self.limits.bytes {
            format!("more than {} bytes", self.limits.bytes)
        } else {
            self.asked += 1;
            return Some(self.ask(url, depth));
        };
        self.notices.push(format!(
            "not everything was read: the site has {reason}; left out from `{url}` on · hint: add parts of it by themselves"
        ));
        self.waiting.clear();
        None
    }

    fn ask(&mut self, url: Url, depth: usize) -> Page {
        let answer = match self.web.get(url.as_str(), self.limits.page_bytes) {
            Ok(answer) => answer,
            Err(error) => return Page { url, outcome: PageOutcome::Failed(error.to_string()) },
        };
        self.bytes += answer.body.len() as u64;
        let outcome = match answer.status {
            200 => return self.read(url, answer, depth),
            301 | 302 | 303 | 307 | 308 => match self.led(&url, &answer, depth) {
                Ok(()) => PageOutcome::PassedOver,
                Err(reason) => PageOutcome::Failed(reason),
            },
            404 | 410 => PageOutcome::Gone(answer.status),
            status => PageOutcome::Failed(format!("the server answered {status}")),
        };
        Page { url, outcome }
    }

    fn read(&mut self, url: Url, answer: WebAnswer, depth: usize) -> Page {
        let is_html = answer.mime_type.as_deref().is_none_or(|mime_type| mime_type.contains("html"));
        if !is_html {
            return Page { url, outcome: PageOutcome::Read(answer) };
        }
        let found = links(&answer.body);
        if self.follows && depth < self.limits.depth && !found.is_dead_end {
            let base =
                found.base.as_deref().and_then(|base| url.join(base).ok()).unwrap_or_else(|| url.clone());
            for target in found.targets.iter().filter_map(|target| base.join(target).ok()) {
                self.enqueue(target, depth + 1);
            }
        }
        let outcome = if found.is_unlisted { PageOutcome::PassedOver } else { PageOutcome::Read(answer) };
        Page { url, outcome }
    }

    /// Puts what a page leads to in its place.
    fn led(&mut self, url: &Url, answer: &WebAnswer, depth: usize) -> Result<(), String> {
        let target = answer.location.as_deref().and_then(|location| url.join(location).ok());
        let target = target.ok_or("it leads nowhere")?;
        if !is_same_host(&target, &self.root) {
            let host = target.host_str().unwrap_or_default();
            return Err(format!("it leads to another host, `{host}` · hint: give the address there"));
        }
        if has_secret(&target) {
            return Err("it leads to an address with a user or password in it".into());
        }
        // The page that was given itself may lead out of its folder.
        if depth == 0 && self.follows {
            self.root = folder_of(&target);
        }
        self.enqueue(target, depth);
        Ok(())
    }

    /// Remembers a page to be read, once, if it is one of those that may be.
    fn enqueue(&mut self, mut url: Url, depth: usize) {
        url.set_fragment(None);
        let is_here = is_same_host(&url, &self.root) && url.path().starts_with(self.root.path());
        // One more than is read shows that there is more.
        let is_enough = self.asked + self.waiting.len() > self.limits.pages;
        let is_plain = url.as_str().len() <= 2000 && !has_secret(&url) && looks_readable(&url);
        let is_wanted = is_here && !is_enough && is_plain;
        if is_wanted && self.seen.insert(url.to_string()) && self.is_allowed(&url) {
            self.waiting.push_back((url, depth));
        }
    }

    /// Whether the site's rules allow a page. Once too many were tested, nothing more is allowed.
    fn is_allowed(&mut self, url: &Url) -> bool {
        if self.rule_tests > MOST_RULE_TESTS {
            return false;
        }
        self.rule_tests += self.robots.rules();
        if self.rule_tests > MOST_RULE_TESTS {
            self.notices.push(format!(
                "not every link was followed: the site's robots.txt has {} rules, too many for its links; left out from `{url}` on · hint: \
                 add parts of the site by themselves",
                self.robots.rules()
            ));
            return false;
        }
        self.robots.allow(path_of(url))
    }

    /// The site's robots.txt. A site that has none allows everything; one that fails to say is left alone.
    fn rules(&mut self, start: &Url) -> Result<Robots, String> {
        let mut url = start.join("/robots.txt").map_err(|error| error.to_string())?;
        for _ in 0..MOST_REDIRECTS {
            let answer = self.web.get(url.as_str(), 1 << 20).map_err(|error| error.to_string())?;
            match answer.status {
                200 => return Ok(Robots::parse(&answer.body)),
                300..400 => {
                    let target = answer.location.and_then(|location| url.join(&location).ok());
                    let Some(target) = target.filter(|target| is_same_host(target, start)) else { break };
                    url = target;
                    std::thread::sleep(self.limits.pause);
                }
                400..500 => return Ok(Robots::default()),
                status => {
                    return Err(format!(
                        "its robots.txt cannot be read, the server answered {status} · hint: try again later"
                    ));
                }
            }
        }
        Ok(Robots::default())
    }

    /// Remembers a sitemap to be read, once.
    fn enqueue_map(&mut self, mut url: Url) {
        url.set_fragment(None);
        if is_same_host(&url, &self.root) && self.known_maps.insert(url.to_string()) {
            self.maps.push_back(url);
        }
    }

    /// Reads a sitemap, or leaves it and those behind it out.
    fn next_map(&mut self, url: Url) -> Page {
        let is_first = self.read_maps == 0;
        let reason = if self.read_maps >= MOST_SITEMAPS {
            Some(format!("there are more than {MOST_SITEMAPS}"))
        } else if self.bytes >= self.limits.bytes {
            Some(format!("they have more than {} bytes", self.limits.bytes))
        } else {
            None
        };
        if let Some(reason) = reason {
            self.notices.push(format!(
                "not every sitemap was read: {reason}; left out from `{url}` on, {} in all · hint: add them by themselves",
                self.maps.len() + 1
            ));
            self.maps.clear();
        } else {
            self.read_maps += 1;
            if let Err(reason) = self.read_map(&url) {
                if is_first {
                    return Page { url, outcome: PageOutcome::Failed(reason) };
                }
                self.notices.push(format!("the sitemap `{url}` was left out: {reason}"));
            }
        }
        let is_empty = self.maps.is_empty() && self.waiting.is_empty() && self.asked == 0;
        let outcome = match is_empty {
            true => PageOutcome::Failed(NO_LISTED_PAGES.into()),
            false => PageOutcome::PassedOver,
        };
        Page { url, outcome }
    }

    fn read_map(&mut self, url: &Url) -> Result<(), String> {
        let limit = LARGEST_SITEMAP.min(self.limits.bytes - self.bytes);
        let answer = self.web.get(url.as_str(), limit).map_err(|error| error.to_string())?;
        self.bytes += answer.body.len() as u64;
        if answer.status != 200 {
            return Err(format!("the server answered {}", answer.status));
        }
        let text = sitemap::text_of(&answer.body, LARGEST_SITEMAP);
        let text = text.ok_or_else(|| format!("it does not unpack to at most {LARGEST_SITEMAP} bytes"))?;
        let found = sitemap::parse(&text).ok_or("it is no sitemap")?;
        if found.is_cut {
            self.notices
                .push(format!("`{url}` lists more than is read of a sitemap: what stands last was left out"));
        }
        for other in found.sitemaps.iter().filter_map(|address| url.join(address).ok()) {
            self.enqueue_map(other);
        }
        for page in found.pages.iter().filter_map(|address| url.join(address).ok()) {
            self.enqueue(page, 0);
        }
        Ok(())
    }
}

fn is_sitemap(url: &Url) -> bool {
    url.path().ends_with(".xml") || url.path().ends_with(".xml.gz")
}

/// The folder that a page is in: `/3/library/` of `/3/library/csv.html`.
fn folder_of(page: &Url) -> Url {
    let mut folder = page.join(".").unwrap_or_else(|_| page.clone());
    folder.set_query(None);
    folder.set_fragment(None);
    folder
}

/// The same host, also where it moved from `http` to `https`.
pub(super) fn is_same_host(one: &Url, other: &Url) -> bool {
    let port = |url: &Url| match url.port_or_known_default() {
        Some(80) => Some(443),
        port => port,
    };
    matches!(one.scheme(), "http" | "https") && one.host_str() == other.host_str() && port(one) == port(other)
}

/// Whether an address has a user or password in it, which would be kept and shown.
pub(super) fn has_secret(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

fn path_of(url: &Url) -> &str {
    &url[url::Position::BeforePath..url::Position::AfterQuery]
}

/// Pictures, archives and the like are not asked for.
fn looks_readable(url: &Url) -> bool {
    let name = url.path().rsplit('/').next().unwrap_or_default();
    let Some((_, end)) = name.rsplit_once('.') else { return true };
    let is_other = [
        "png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "css", "js", "zip", "gz", "bz2", "xz", "tgz",
        "mp3", "mp4", "woff", "woff2",
    ];
    !is_other.contains(&&*end.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use hindcast_core::knowledge::WebError;

    use super::*;

    /// A site without an end: every page leads to two others, and each is a hundred bytes.
    struct Endless;

    impl Web for Endless {
        fn get(&self, url: &str, _limit: u64) -> Result<WebAnswer, WebError> {
            let url = Url::parse(url).unwrap();
            let (status, location, body) = match url.path() {
                "/robots.txt" => (404, None, String::new()),
                "/map.xml" => (200, None, "<sitemapindex>".to_owned() + &maps()),
                "/large.xml" => {
                    (200, None, "<sitemapindex>".to_owned() + &maps() + &maps().replace('?', "?more"))
                }
                "/own.xml" => {
                    let parts = ["own.xml", "own.xml#x", "away.xml", "no.xml", "list.xml.gz"];
                    let parts = parts.map(|part| format!("<loc>{part}</loc>")).concat();
                    (200, None, format!("<sitemapindex>{parts}"))
                }
                "/away.xml" => return Err(WebError::Unreachable("refused".into())),
                "/no.xml" => (404, None, String::new()),
                "/list.xml.gz" => {
                    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                    packer.write_all(b"<urlset><loc>/packed</loc>").unwrap();
                    let body = packer.finish().unwrap();
                    return Ok(WebAnswer { status: 200, body, ..WebAnswer::default() });
                }
                "/list.xml" => (200, None, "<urlset><loc>/page</loc>".to_owned() + &" ".repeat(400)),
                "/loop/" => (302, Some("again".to_owned()), String::new()),
                "/secret/" => (302, Some("https://ann:hunter2@site.example/open/".to_owned()), String::new()),
                "/loop/again" => (302, Some("/loop/".to_owned()), String::new()),
                _ => (200, None, "<a href='a/'>a</a><a href='b/'>b</a>".to_owned() + &"x".repeat(64)),
            };
            Ok(WebAnswer { status, location, mime_type: Some("text/html".into()), body: body.into_bytes() })
        }
    }

    fn maps() -> String {
        (0..40).map(|number| format!("<loc>/list.xml?{number}</loc>")).collect()
    }

    fn pages(start: &str, limits: Limits) -> (usize, Vec<String>) {
        let mut crawl = Crawl::begin(Arc::new(Endless), start.parse().unwrap(), limits).unwrap();
        let mut count = 0;
        while let Some(page) = crawl.next() {
            count += usize::from(matches!(page.outcome, PageOutcome::Read(_)));
        }
        (count, crawl.notices)
    }

    #[test]
    fn a_site_without_an_end_is_left_at_every_limit() {
        let limits = Limits { pages: 50, bytes: 1 << 20, page_bytes: 1000, depth: 3, pause: Duration::ZERO };
        let (count, notices) = pages("https://site.example/docs/", limits);
        assert_eq!((count, notices.len()), (1 + 2 + 4 + 8, 0), "by its depth, which is as it should be");
        let (count, notices) = pages("https://site.example/docs/", Limits { depth: 30, ..limits });
        assert_eq!((count, notices.len()), (50, 1));
        let (count, notices) =
            pages("https://site.example/docs/", Limits { depth: 30, bytes: 1000, ..limits });
        assert_eq!((count, notices.len()), (10, 1), "{notices:?}");
        assert_eq!(pages("https://site.example/loop/", limits).0, 0);
    }

    /// A site with so many rules that testing every link against all of them would take minutes.
    struct Ruled;

    impl Web for Ruled {
        fn get(&self, url: &str, _limit: u64) -> Result<WebAnswer, WebError> {
            let url = Url::parse(url).unwrap();
            let body: String = match url.path() {
                "/robots.txt" => {
                    let rules = (0..20_000).map(|rule| format!("Disallow: /*a*{rule}*z\n"));
                    "User-agent: *\n".to_owned() + &rules.collect::<String>()
                }
                path => (0..1000).map(|link| format!("<a href='{path}{link}a/'>a</a>")).collect(),
            };
            let mime_type = Some("text/html".into());
            Ok(WebAnswer { status: 200, location: None, mime_type, body: body.into_bytes() })
        }
    }

    #[test]
    fn a_site_with_too_many_rules_for_its_links_is_read_as_far_as_its_rules_can_be_tested() {
        let limits =
            Limits { pages: 5000, bytes: 1 << 30, page_bytes: 1 << 20, depth: 3, pause: Duration::ZERO };
        let start = "https://site.example/docs/".parse().unwrap();
        let mut crawl = Crawl::begin(Arc::new(Ruled), start, limits).unwrap();
        let pages = std::iter::from_fn(|| crawl.next()).count();
        assert_eq!(pages, MOST_RULE_TESTS / 20_000);
        assert!(
            crawl.notices.len() == 1 && crawl.notices[0].contains("has 20000 rules"),
            "{:?}",
            crawl.notices
        );
    }

    #[test]
    fn sitemaps_count_towards_what_is_read_of_a_site() {
        let limits = Limits { pages: 50, bytes: 4000, page_bytes: 1000, depth: 3, pause: Duration::ZERO };
        let (count, notices) = pages("https://site.example/map.xml", limits);
        assert_eq!(count, 0, "nothing is left for pages");
        assert!(notices[0].contains("not every sitemap was read"), "{notices:?}");
        let (count, notices) = pages("https://site.example/map.xml", Limits { bytes: 1 << 20, ..limits });
        assert_eq!((count, notices), (1, Vec::new()));
        let (_, notices) = pages("https://site.example/large.xml", Limits { bytes: 1 << 20, ..limits });
        assert!(notices.len() == 1 && notices[0].contains("more than 50; left out from"), "{notices:?}");
        assert!(notices[0].contains("31 in all"), "{notices:?}");
    }

    #[test]
    fn a_part_of_a_sitemap_that_cannot_be_had_is_told_and_the_others_are_read_once() {
        let limits = Limits { pages: 50, bytes: 1 << 20, page_bytes: 1000, depth: 3, pause: Duration::ZERO };
        let (count, notices) = pages("https://site.example/own.xml", limits);
        assert_eq!(count, 1, "the page of the packed sitemap");
        assert_eq!(notices.len(), 2, "{notices:?}");
        assert!(notices[0].contains("away.xml` was left out: it cannot be reached"), "{notices:?}");
        assert!(notices[1].contains("no.xml` was left out: the server answered 404"), "{notices:?}");
        assert_eq!(pages("https://site.example/list.xml.gz", limits).0, 1, "given by itself");
    }

    #[test]
    fn a_sitemap_without_pages_says_so() {
        let limits = Limits { pages: 50, bytes: 1 << 20, page_bytes: 1000, depth: 3, pause: Duration::ZERO };
        let reason = |start: &str| {
            let mut crawl = Crawl::begin(Arc::new(Endless), start.parse().unwrap(), limits).unwrap();
            match crawl.next().map(|page| page.outcome) {
                Some(PageOutcome::Failed(reason)) => (reason, crawl.next().is_none()),
                _ => panic!("{start}"),
            }
        };
        assert!(matches!(reason("https://site.example/away.xml"), (said, true) if said.contains("refused")));
        assert!(matches!(reason("https://site.example/no.xml"), (said, true) if said.contains("404")));
        assert!(
            matches!(reason("https://site.example/page.xml"), (said, true) if said.contains("no sitemap"))
        );
    }

    #[test]
    fn a_password_that_a_site_puts_into_an_address_is_not_kept() {
        let limits = Limits { pages: 50, bytes: 1 << 20, page_bytes: 1000, depth: 3, pause: Duration::ZERO };
        let start = "https://site.example/secret/".parse().unwrap();
        let mut crawl = Crawl::begin(Arc::new(Endless), start, limits).unwrap();
        let Some(PageOutcome::Failed(reason)) = crawl.next().map(|page| page.outcome) else { panic!() };
        assert!(reason.contains("a user or password") && !reason.contains("hunter2"), "{reason}");
        assert!(crawl.next().is_none());
    }

    #[test]
    fn a_folder_of_a_site_is_told_from_its_neighbours() {
        let url = |text: &str| text.parse::<Url>().unwrap();
        assert_eq!(folder_of(&url("https://a/3/library/csv.html?x#y")).as_str(), "https://a/3/library/");
        assert!(is_same_host(&url("https://a/"), &url("http://a/")));
        for other in ["https://b/", "https://a:444/", "ftp://a/", "https://a.b/"] {
            assert!(!is_same_host(&url(other), &url("https://a/")), "{other}");
        }
    }
}
