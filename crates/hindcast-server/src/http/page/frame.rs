//! What is around the content of every page, and what a page says that has none.

use hindcast_services::{Failure, FailureKind, ToolNames};
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Empty, Full};
use maud::{DOCTYPE, Markup, html};

use super::{Body, KNOWLEDGE, OPERATIONS, SESSIONS, SIGN_IN, SIGN_OUT, answer::With as _, asset};

/// Nothing but our own files, and no script or style in a page itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
    form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// What goes around the content of somebody who is signed in.
pub(super) struct Shell {
    pub(super) title: String,
    /// The first part of the path.
    pub(super) place: String,
    /// The name of the key.
    pub(super) who: String,
    pub(super) csrf: String,
    /// What did not work.
    pub(super) notice: Option<Failure>,
    /// Where changes are told, for a page that follows them.
    pub(super) live: Option<String>,
}

/// For a page that is nothing but this failure. The protocol answers most of them with 200, because clients drop the rest.
pub(super) fn status_of(kind: FailureKind) -> StatusCode {
    match kind {
        FailureKind::InvalidInput => StatusCode::BAD_REQUEST,
        FailureKind::AuthenticationFailed => StatusCode::UNAUTHORIZED,
        FailureKind::PermissionDenied | FailureKind::LicenseExpired => StatusCode::FORBIDDEN,
        FailureKind::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        FailureKind::StoreUnreachable | FailureKind::ModelUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::NOT_FOUND,
    }
}

pub(super) fn nothing() -> Body {
    Empty::new().boxed()
}

/// Another page instead, which is asked for with GET.
pub(super) fn go_to(path: &str) -> Response<Body> {
    let mut response = Response::new(nothing());
    *response.status_mut() = StatusCode::SEE_OTHER;
    let path = HeaderValue::from_str(path).unwrap_or(HeaderValue::from_static(SESSIONS));
    response.headers_mut().insert(header::LOCATION, path);
    secured(response)
}

fn secured(response: Response<Body>) -> Response<Body> {
    response
        .with("cache-control", "no-store")
        .with("content-security-policy", POLICY)
        .with("x-content-type-options", "nosniff")
        .with("x-frame-options", "DENY")
        .with("referrer-policy", "same-origin")
        .with("cross-origin-opener-policy", "same-origin")
        .with("cross-origin-resource-policy", "same-origin")
}

fn document(status: StatusCode, title: &str, body: Markup) -> Response<Body> {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · hindcast" }
                link rel="stylesheet" href=(asset::style());
                link rel="icon" type="image/svg+xml" href=(asset::sign());
                script src=(asset::script()) defer {}
            }
            (body)
        }
    };
    let mut response = Response::new(Full::from(page.into_string()).boxed());
    *response.status_mut() = status;
    secured(response.with("content-type", "text/html; charset=utf-8"))
}

/// A page of somebody who is signed in.
pub(super) fn page(status: StatusCode, shell: &Shell, content: Markup) -> Response<Body> {
    let places = [
        ("sessions", SESSIONS, "Sessions"),
        ("knowledge", KNOWLEDGE, "Knowledge"),
        ("operations", OPERATIONS, "Operations"),
    ];
    let body = html! {
        body data-live=[shell.live.as_deref()] {
            a.skip href="#content" { "Skip to the content" }
            header.bar {
                a.brand href=(SESSIONS) { img src=(asset::sign()) alt="" width="20" height="20"; span { "hindcast" } }
                nav aria-label="Main" {
                    @for (place, path, name) in places {
                        a href=(path) aria-current=[(shell.place == place).then_some("page")] { (name) }
                    }
                }
                form.leave method="post" action=(SIGN_OUT) {
                    (token(&shell.csrf))
                    span.who title="The key you are signed in with" { (shell.who) }
                    button.quiet type="submit" { "Sign out" }
                }
            }
            main #content tabindex="-1" {
                @if let Some(failure) = &shell.notice { (told(failure)) }
                (content)
            }
            div #said .unseen role="status" aria-live="polite" {}
        }
    };
    document(status, &shell.title, body)
}

/// The hidden field that every form carries.
pub(super) fn token(csrf: &str) -> Markup {
    html! { input type="hidden" name="csrf" value=(csrf); }
}

/// What did not work, and what to do next.
pub(super) fn told(failure: &Failure) -> Markup {
    html! {
        div.notice role="alert" {
            p { (failure.details) }
            @if let Some(hint) = failure.advice(ToolNames::Slash) { p.hint { (hint) } }
        }
    }
}

/// The same within a page, where a part of it is missing.
pub(super) fn missing(failure: &Failure) -> Markup {
    html! {
        div.missing {
            p { (failure.details) }
            @if let Some(hint) = failure.advice(ToolNames::Slash) { p.hint { (hint) } }
        }
    }
}

/// A page that says only what did not work.
pub(super) fn failed(status: StatusCode, shell: Option<&Shell>, failure: &Failure) -> Response<Body> {
    let content = html! { h1 { "That did not work" } (told(failure)) };
    match shell {
        Some(shell) => page(status, shell, content),
        None => document(status, "That did not work", html! { body { main #content .alone { (content) } } }),
    }
}

/// Where one shows a key.
pub(super) fn sign_in(status: StatusCode, failure: Option<&Failure>) -> Response<Body> {
    let body = html! {
        body.door {
            main #content .alone {
                p.brand { img src=(asset::sign()) alt="" width="28" height="28"; span { "hindcast" } }
                h1 { "Sign in" }
                @if let Some(failure) = failure { (told(failure)) }
                form.card method="post" action=(SIGN_IN) {
                    label for="key" { "API key" }
                    input #key type="password" name="key" required autocomplete="current-password"
                        spellcheck="false" autocapitalize="off" placeholder="kdb_live_…" autofocus;
                    button.main type="submit" { "Sign in" }
                }
                p.faint {
                    "Keys are made with " code { "hindcast keys create --name NAME" } ". On the server's own machine "
                    code { "hindcast ui" } " opens this page without one."
                }
            }
        }
    };
    document(status, "Sign in", body)
}
