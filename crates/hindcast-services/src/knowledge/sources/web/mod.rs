//! Pages of a site: a page with those it leads to, or those that a sitemap lists. Off unless the operator names hosts.

mod crawl;
mod robots;
mod sitemap;

use hindcast_core::{
    knowledge::{Document, SourceFile, TextHash, WebAnswer},
    progress::Progress,
};
use hindcast_extract::Format;
use sha2::{Digest, Sha256};
use url::Url;

use super::super::{
    FileOutcome, FileReport, KnowledgeService, blocking,
    intake::{Entry, Intake, TRIES, reader_of},
    names::id_of_anything,
    preparing::Original,
};
use crate::Failure;
use crawl::{Crawl, Limits, Page, PageOutcome};

/// Whether something that was given is an address.
pub(super) fn is_address(text: &str) -> bool {
    let is = |scheme: &str| text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
    is("https://") || is("http://")
}

impl KnowledgeService {
    /// Takes in the pages of a site from an address on.
    pub(in super::super) async fn add_pages(
        &self,
        intake: &mut Intake,
        address: &str,
        progress: &dyn Progress,
    ) -> Result<Vec<FileReport>, Failure> {
        let failed = |path: &str, reason: String| FileReport {
            path: path.into(),
            outcome: FileOutcome::Failed { reason },
        };
        let (url, web) = match (self.allowed(address), &self.web) {
            (Ok(url), Some(web)) => (url, web.clone()),
            (Err(reason), _) => return Ok(vec![failed(address, reason)]),
            (Ok(_), None) => return Ok(vec![failed(address, OFF.into())]),
        };
        let limits = Limits::usual(self.policy.max_file_bytes);
        let mut crawl = match blocking(move || Crawl::begin(web, url, limits)).await? {
            Ok(crawl) => crawl,
            Err(reason) => return Ok(vec![failed(address, reason)]),
        };
        let mut reports = Vec::new();
        loop {
            if progress.cancelled() || self.stopping.is_set() {
                intake.is_stopped = true;
                intake.notice("stopped before all pages were read · hint: add the address again".into());
                break;
            }
            let (done, total) = crawl.progress();
            progress.report(done as u64, Some(total as u64), address);
            // Before each request: the first comes behind that for the site's rules.
            tokio::time::sleep(crawl.pause()).await;
            let (page, continued) = blocking(move || {
                let page = crawl.next();
                (page, crawl)
            })
            .await?;
            crawl = continued;
            let Some(Page { url, outcome }) = page else { break };
            let path = url.to_string();
            let outcome = match outcome {
                PageOutcome::Read(answer) => self.add_page(intake, &url, answer, progress).await?,
                PageOutcome::Gone(status) => self.forget_page(intake, &path, status).await?,
                PageOutcome::Failed(reason) => Some(FileOutcome::Failed { reason }),
                PageOutcome::PassedOver => None,
            };
            reports.extend(outcome.map(|outcome| FileReport { path, outcome }));
        }
        for notice in std::mem::take(&mut crawl.notices) {
            intake.notice(notice);
        }
        Ok(reports)
    }

    /// The address, if the operator allows its host.
    fn allowed(&self, address: &str) -> Result<Url, String> {
        let hosts = &self.policy.web_hosts;
        if hosts.is_empty() {
            return Err(OFF.into());
        }
        let url = Url::parse(address).map_err(|error| format!("it is not an address: {error}"))?;
        if crawl::has_secret(&url) {
            return Err(
                "it has a user or password in it · hint: give an address that anybody can read".into()
            );
        }
        let host = url.host_str().unwrap_or_default();
        let is_it = |allowed: &String| match allowed.strip_prefix('*') {
            Some(end) => host.ends_with(&end.to_ascii_lowercase()),
            None => host.eq_ignore_ascii_case(allowed),
        };
        match hosts.iter().any(is_it) {
            true => Ok(url),
            false => {
                Err(format!("`{host}` is not one of `knowledge.web_hosts` · hint: let the operator add it"))
            }
        }
    }

    async fn add_page(
        &self,
        intake: &mut Intake,
        url: &Url,
        answer: WebAnswer,
        progress: &dyn Progress,
    ) -> Result<Option<FileOutcome>, Failure> {
        let Some(format) = format_of(url, answer.mime_type.as_deref()) else {
            intake.skip_kind(
                answer.mime_type.as_deref().unwrap_or("pages without a type"),
                "pages of this type are not understood",
            );
            return Ok(None);
        };
        if answer.body.is_empty() {
            return Ok(Some(FileOutcome::Failed { reason: "it is empty".into() }));
        }
        let path = url.to_string();
        let hash: TextHash = Sha256::digest(&answer.body).into();
        let size = answer.body.len() as u64;
        let source = SourceFile { path: path.clone(), modified: 0, size, is_elsewhere: false };
        for _ in 0..TRIES {
            let known = self.store.document_at(intake.collection.key, &path).await?;
            let reader = reader_of(&intake.collection.settings);
            let is_same = |known: &&Document| known.hash == hash && known.reader == reader;
            if let Some(known) = known.as_ref().filter(is_same) {
                self.tag(known, intake).await?;
                return Ok(Some(FileOutcome::Unchanged { document: known.id.clone() }));
            }
            let (owner, settings) = (&intake.reads_for, &intake.collection.settings);
            let charset = answer.mime_type.as_deref().and_then(charset_of);
            let page = Original { format, bytes: answer.body.clone(), hash, charset };
            let prepared = self.prepare(owner, page, settings).await?;
            let prepared = match prepared {
                Ok(prepared) => prepared,
                Err(reason) => return Ok(Some(FileOutcome::Failed { reason })),
            };
            let ids = possible_ids(url);
            let name = prepared.extracted.title.clone().unwrap_or_else(|| ids[0].clone());
            let entry = Entry { ids, name, known, format, source: Some(source.clone()) };
            if let Ok(outcome) = self.keep(intake, entry, prepared, progress).await? {
                return Ok(Some(outcome));
            }
        }
        Ok(Some(FileOutcome::Failed {
            reason: "another process changes it again and again · hint: add it again".into(),
        }))
    }

    /// Removes a page that the site does not have any more; one that was never here failed.
    async fn forget_page(
        &self,
        intake: &Intake,
        path: &str,
        status: u16,
    ) -> Result<Option<FileOutcome>, Failure> {
        let Some(known) = self.store.document_at(intake.collection.key, path).await? else {
            return Ok(Some(FileOutcome::Failed { reason: format!("the server answered {status}") }));
        };
        self.store.remove_unchanged(vec![known.version()], self.clock.now()).await?;
        self.wrote.notify_one();
        Ok(Some(FileOutcome::Removed { document: known.id }))
    }
}

const OFF: &str = "pages of the web are not taken in here · hint: let the operator name the host in `knowledge.web_hosts`, or give \
                   the page as `name` and `text`";

/// What the server says that it is, or else its name.
fn format_of(url: &Url, mime_type: Option<&str>) -> Option<Format> {
    let of_name = || Format::of_name(url.path().rsplit('/').next()?);
    match mime_type.map(|mime_type| mime_type.split(';').next().unwrap_or_default().trim()) {
        None | Some("" | "application/octet-stream") => of_name(),
        // Servers send Markdown and the like so.
        Some("text/plain") => Some(of_name().unwrap_or(Format::Text)),
        Some(mime_type) => Format::of_mime_type(mime_type),
    }
}

/// The encoding that the server names beside the type.
fn charset_of(mime_type: &str) -> Option<String> {
    let named = mime_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
    });
    let is_name = |name: &String| {
        !name.is_empty()
            && name.len() <= 40
            && name.chars().all(|char| char.is_ascii_alphanumeric() || "-_.:".contains(char))
    };
    named.filter(is_name)
}

/// Ids that say which page it is: its name, then with its folders, then with its query.
fn possible_ids(url: &Url) -> Vec<String> {
    let path = url.path().trim_matches('/');
    let name = path.rsplit('/').next().unwrap_or_default();
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let host = url.host_str().unwrap_or_default();
    let name = if name.is_empty() { host } else { name };
    let whole = format!("{path}{}", url.query().map(|query| format!("-{query}")).unwrap_or_default());
    [
        name.to_owned(),
        path.replace('/', "-"),
        whole.replace('/', "-"),
        format!("{host}-{}", whole.replace('/', "-")),
    ]
    .iter()
    .filter(|id| !id.is_empty())
    .map(|id| id_of_anything(id))
    .collect()
}
