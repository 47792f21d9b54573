//! How often a site is asked.

use std::{sync::Mutex, time::Instant};

use hindcast_core::knowledge::{Web, WebAnswer, WebError};

use super::*;

/// A site that remembers when it was asked for what.
#[derive(Default)]
struct Site {
    delay: &'static str,
    asked: Mutex<Vec<(String, Instant)>>,
}

impl Web for Site {
    fn get(&self, url: &str, _: u64) -> Result<WebAnswer, WebError> {
        let path = url.strip_prefix("https://site.example").unwrap();
        self.asked.lock().unwrap().push((path.to_owned(), Instant::now()));
        let body = match path {
            "/robots.txt" => format!("User-agent: *\n{}", self.delay),
            "/map.xml" => "<sitemapindex><loc>/one.xml</loc><loc>/two.xml</loc>".into(),
            "/one.xml" | "/two.xml" => format!("<urlset><loc>{path}.html</loc>"),
            _ => format!("<p>The heron of {path}.</p>"),
        };
        Ok(WebAnswer {
            status: 200,
            body: body.into_bytes(),
            mime_type: Some("text/html".into()),
            location: None,
        })
    }
}

/// What was asked for, and the shortest time between two requests.
async fn asked(delay: &'static str) -> (Vec<String>, Duration) {
    let folder = tempfile::tempdir().unwrap();
    let site = Arc::new(Site { delay, ..Site::default() });
    let parts = Stage::parts(folder.path(), Parrot::default(), Arc::new(WordEmbedder));
    let policy = KnowledgePolicy { web_hosts: vec!["site.example".into()], ..parts.policy };
    let service = KnowledgeService::new(KnowledgeParts { web: Some(site.clone()), policy, ..parts });
    let map = files("site", std::path::Path::new("https://site.example/map.xml"), false);
    let report = service.add(&Caller::local(), map, &Unwatched).await.unwrap();
    assert_eq!(report.files.len(), 2, "{report:?}");
    let asked = site.asked.lock().unwrap();
    let shortest = asked.windows(2).map(|pair| pair[1].1.duration_since(pair[0].1)).min().unwrap();
    (asked.iter().map(|(path, _)| path.clone()).collect(), shortest)
}

#[tokio::test]
async fn a_site_is_asked_five_times_a_second_at_most_and_as_slowly_as_it_asks_for() {
    let (paths, shortest) = asked("").await;
    let expected = ["/robots.txt", "/map.xml", "/one.xml", "/two.xml", "/one.xml.html", "/two.xml.html"];
    assert_eq!(paths, expected);
    assert!(shortest >= Duration::from_millis(199), "{shortest:?}");
    let (paths, shortest) = asked("Crawl-delay: 0.5").await;
    assert_eq!(paths, expected);
    assert!(shortest >= Duration::from_millis(499), "{shortest:?}");
}
