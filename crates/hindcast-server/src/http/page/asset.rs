//! The style sheet, the script and the sign: inside the binary, under names that change with what they hold.

use std::sync::LazyLock;

use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use sha2::{Digest, Sha256};

use super::{Body, answer::With as _};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const SIGN: &str = include_str!("sign.svg");

/// What browsers may keep for as long as they like.
const FOR_EVER: &str = "public, max-age=31536000, immutable";

/// A file of the page.
struct Asset {
    name: String,
    kind: &'static str,
    text: &'static str,
}

static ASSETS: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    let asset = |stem: &str, ending: &str, kind, text: &'static str| {
        let hash = hex::encode(&Sha256::digest(text.as_bytes())[..8]);
        Asset { name: format!("{stem}-{hash}.{ending}"), kind, text }
    };
    [
        asset("page", "css", "text/css; charset=utf-8", STYLE),
        asset("page", "js", "text/javascript; charset=utf-8", SCRIPT),
        asset("sign", "svg", "image/svg+xml", SIGN),
    ]
});

pub(super) fn style() -> String {
    format!("{}{}", super::ASSETS, ASSETS[0].name)
}

pub(super) fn script() -> String {
    format!("{}{}", super::ASSETS, ASSETS[1].name)
}

pub(super) fn sign() -> String {
    format!("{}{}", super::ASSETS, ASSETS[2].name)
}

pub(super) fn answer(name: &str) -> Response<Body> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        let mut response = Response::new(Full::from("there is no such file\n").boxed());
        *response.status_mut() = StatusCode::NOT_FOUND;
        return response.with("content-type", "text/plain").with("cache-control", "no-store");
    };
    Response::new(Full::from(asset.text).boxed())
        .with("content-type", asset.kind)
        .with("cache-control", FOR_EVER)
        .with("x-content-type-options", "nosniff")
        .with("cross-origin-resource-policy", "same-origin")
        .with("content-security-policy", "default-src 'none'")
}
