//! What browsers send: where it comes from, and the fields of forms.

use bytes::{Bytes, BytesMut};
use hindcast_services::{Failure, FailureKind};
use http::{HeaderMap, Method, Request, StatusCode, header, uri::Authority};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use subtle::ConstantTimeEq as _;
use tokio::time::timeout;
use url::{Url, form_urlencoded};

use super::{Turned, door::Entry, frame};
use crate::http::{HttpPolicy, body, crowd::Presence, guard::Guard};

/// The longest form of somebody who is not signed in.
const SHORT: usize = 4096;
/// So many fields are read, and so many files.
const MOST_FIELDS: usize = 200;

/// A request that is not done.
pub(super) struct Refused {
    pub(super) status: StatusCode,
    pub(super) failure: Failure,
}

impl Refused {
    fn new(status: StatusCode, details: &str, hint: &str) -> Self {
        Self { status, failure: Failure::new(FailureKind::InvalidInput, details).hint(hint) }
    }
}

/// Named texts, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn read(text: &[u8]) -> Self {
        let pairs = form_urlencoded::parse(text).take(MOST_FIELDS);
        Self(pairs.map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
    }

    /// The first of that name that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, value)| known == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn number(&self, name: &str) -> Option<u32> {
        self.get(name)?.parse().ok()
    }
}

/// Refuses what a page of somebody else sends. Browsers say of every form where it comes from.
pub(super) fn check_origin<B>(guard: &Guard, request: &Request<B>) -> Result<(), Turned> {
    let forbidden = |details: String| {
        let failure = Failure::new(FailureKind::PermissionDenied, details).hint(
            "open the page by an address that the server answers to; `server.allowed_hosts` names more of them",
        );
        Box::new(frame::failed(StatusCode::FORBIDDEN, None, &failure))
    };
    guard.check(request.uri(), request.headers()).map_err(forbidden)?;
    if *request.method() != Method::POST || is_from_here(request.headers()) {
        return Ok(());
    }
    Err(forbidden("this form was not sent by a page of this server".to_owned()))
}

fn is_from_here(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let origin = text("origin").map(|origin| {
        let origin = Url::parse(origin).ok();
        let host = text(header::HOST.as_str()).and_then(|host| host.parse::<Authority>().ok());
        match (origin, host) {
            (Some(origin), Some(host)) => {
                // Browsers leave out the usual port in both.
                let usual = if origin.scheme() == "https" { 443 } else { 80 };
                origin.host_str().is_some_and(|name| name.eq_ignore_ascii_case(host.host()))
                    && origin.port().unwrap_or(usual) == host.port_u16().unwrap_or(usual)
            }
            _ => false,
        }
    });
    match (text("sec-fetch-site"), origin) {
        (Some(site), origin) => site == "same-origin" && origin != Some(false),
        (None, origin) => origin == Some(true),
    }
}

/// A file that came with a form.
pub(super) struct Sent {
    pub(super) name: String,
    pub(super) bytes: Bytes,
}

/// A form of somebody who is signed in.
pub(super) struct Form {
    pub(super) fields: Fields,
    pub(super) files: Vec<Sent>,
    /// Counts its body until it is answered.
    _presence: Presence,
}

impl Form {
    /// Reads it, and checks that it is one that they were given.
    pub(super) async fn read(
        request: Request<Incoming>,
        policy: &HttpPolicy,
        mut presence: Presence,
        entry: &Entry,
    ) -> Result<Self, Turned> {
        let (parts, body) = request.into_parts();
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let kind = kind.unwrap_or_default().to_owned();
        let bytes = body::read(body, policy, &mut presence).await.map_err(|(status, error)| {
            let text = |name: &str| error.data.get(name).and_then(|text| text.as_str()).unwrap_or_default();
            Turned::from(Refused::new(status, text("details"), text("hint")))
        })?;
        let (fields, files) = if kind.starts_with("multipart/form-data") {
            parts_of(&kind, bytes).await.map_err(Turned::from)?
        } else {
            (Fields::read(&bytes), Vec::new())
        };
        let shown = fields.get("csrf").unwrap_or_default();
        if !bool::from(shown.as_bytes().ct_eq(entry.csrf.as_bytes())) {
            let details = "this form is from before you signed in";
            let refused =
                Refused::new(StatusCode::FORBIDDEN, details, "load the page again and send it once more");
            return Err(refused.into());
        }
        Ok(Self { fields, files, _presence: presence })
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }
}

async fn parts_of(kind: &str, bytes: Bytes) -> Result<(Fields, Vec<Sent>), Refused> {
    let broken = |_| {
        let hint = "load the page again and send it once more";
        Refused::new(StatusCode::BAD_REQUEST, "the form cannot be read", hint)
    };
    let boundary = multer::parse_boundary(kind).map_err(broken)?;
    let whole = futures::stream::iter([Ok::<_, std::convert::Infallible>(bytes)]);
    let mut parts = multer::Multipart::new(whole, boundary);
    let (mut fields, mut files) = (Vec::new(), Vec::new());
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if fields.len() + files.len() >= MOST_FIELDS {
            let details = format!("the form has more than {MOST_FIELDS} fields and files");
            return Err(Refused::new(StatusCode::PAYLOAD_TOO_LARGE, &details, "send fewer files at a time"));
        }
        let name = part.name().unwrap_or_default().to_owned();
        match part.file_name().map(str::to_owned) {
            Some(file) => {
                let bytes = part.bytes().await.map_err(broken)?;
                // A field for files that was left empty is sent with an empty name.
                if !file.is_empty() {
                    files.push(Sent { name: file, bytes });
                }
            }
            None => fields.push((name, part.text().await.map_err(broken)?)),
        }
    }
    Ok((Fields(fields), files))
}

/// The fields of a form of somebody who is not signed in yet.
pub(super) async fn short_body(request: Request<Incoming>, policy: &HttpPolicy) -> Result<Fields, Turned> {
    let mut body = request.into_body();
    let mut collected = BytesMut::new();
    let collect = async {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return Err("the form broke off") };
            if let Ok(data) = frame.into_data() {
                if collected.len() + data.len() > SHORT {
                    return Err("the form is too long");
                }
                collected.extend_from_slice(&data);
            }
        }
        Ok(())
    };
    let refused = |details: &str| {
        Turned::from(Refused::new(StatusCode::BAD_REQUEST, details, "load the page again and sign in"))
    };
    match timeout(policy.connection_timeout, collect).await {
        Ok(Ok(())) => Ok(Fields::read(&collected)),
        Ok(Err(details)) => Err(refused(details)),
        Err(_) => Err(refused("the form did not arrive in time")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn is_own(headers: &[(&'static str, &'static str)]) -> bool {
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        is_from_here(&all)
    }

    #[test]
    fn only_forms_of_our_own_pages_are_taken() {
        let host = ("host", "localhost:7443");
        assert!(is_own(&[host, ("origin", "https://localhost:7443")]));
        assert!(is_own(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(is_own(&[host, ("sec-fetch-site", "same-origin"), ("origin", "https://LOCALHOST:7443")]));
        assert!(is_own(&[("host", "h.example"), ("origin", "https://h.example")]));
        for headers in [
            vec![host],
            vec![host, ("origin", "null")],
            vec![host, ("origin", "https://localhost:8080")],
            vec![("host", "localhost"), ("origin", "http://localhost:9")],
            vec![host, ("origin", "https://localhost:7443.evil.example")],
            vec![host, ("sec-fetch-site", "same-site")],
            vec![host, ("sec-fetch-site", "cross-site"), ("origin", "https://localhost:7443")],
            vec![host, ("sec-fetch-site", "same-origin"), ("origin", "https://evil.example")],
            vec![host, ("sec-fetch-site", "none")],
        ] {
            assert!(!is_own(&headers), "{headers:?}");
        }
    }

    #[tokio::test]
    async fn files_and_fields_are_told_apart() {
        let text = "--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\nabc\r\n\
            --x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"a.md\"\r\n\
            Content-Type: text/markdown\r\n\r\n# A\r\n\
            --x\r\nContent-Disposition: form-data; name=\"files\"; filename=\"\"\r\n\r\n\r\n--x--\r\n";
        let (fields, files) =
            parts_of("multipart/form-data; boundary=x", Bytes::from_static(text.as_bytes()))
                .await
                .ok()
                .unwrap();
        assert_eq!(fields.get("csrf"), Some("abc"));
        assert_eq!(files.len(), 1);
        assert_eq!((files[0].name.as_str(), &files[0].bytes[..]), ("a.md", &b"# A"[..]));
        assert!(parts_of("multipart/form-data", Bytes::new()).await.is_err());
    }
}
