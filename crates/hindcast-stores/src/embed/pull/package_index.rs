//! Where a package's wheel is, as pip would find it.

use std::path::PathBuf;

use reqwest::Url;
use serde::Deserialize;

use super::{PullError, download::Downloader};

const DEFAULT_INDEX: &str = "https://pypi.org/simple";
/// Indexes answer with either, and say which.
const ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";

/// The address of the newest wheel of a package.
pub(super) fn find_wheel(downloader: &Downloader, package: &str) -> Result<String, PullError> {
    let index = configured_index().unwrap_or_else(|| DEFAULT_INDEX.into());
    let page = format!("{}/{package}/", index.trim_end_matches('/'));
    let response = downloader.get(&page, ACCEPT)?;
    let base = response.url().clone();
    let text = response.text().map_err(|error| PullError::Unreachable(error.without_url().to_string()))?;
    last_wheel(&text, &base)
        .ok_or_else(|| PullError::Unreachable(format!("the package index has no wheel of {package}")))
}

/// The index that pip is told to use, by its environment or its configuration.
fn configured_index() -> Option<String> {
    let from_environment = std::env::var("PIP_INDEX_URL").ok().filter(|index| !index.is_empty());
    from_environment.or_else(|| {
        configuration_files().into_iter().find_map(|file| index_in(&std::fs::read_to_string(file).ok()?))
    })
}

/// pip's configuration files, the most particular first.
fn configuration_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::env::var_os("PIP_CONFIG_FILE").map(PathBuf::from).into_iter().collect();
    if let Some(home) = std::env::home_dir() {
        let configuration =
            std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        files.extend([configuration.join("pip/pip.conf"), home.join(".pip/pip.conf")]);
    }
    files.push("/etc/pip.conf".into());
    files
}

/// `index-url` in the section `[global]`.
fn index_in(configuration: &str) -> Option<String> {
    let mut section = "";
    for line in configuration.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name.trim();
        } else if let Some((key, value)) = line.split_once('=')
            && section == "global"
            && matches!(key.trim(), "index-url" | "index_url")
        {
            return Some(value.trim().to_owned());
        }
    }
    None
}

/// Reads a project page, whichever of its two forms it has. Pages list the newest last.
fn last_wheel(page: &str, base: &Url) -> Option<String> {
    #[derive(Deserialize)]
    struct Project {
        files: Vec<ProjectFile>,
    }
    #[derive(Deserialize)]
    struct ProjectFile {
        url: String,
    }
    let links: Vec<String> = match serde_json::from_str::<Project>(page) {
        Ok(project) => project.files.into_iter().map(|file| file.url).collect(),
        Err(_) => {
            page.split("href=").skip(1).filter_map(quoted).map(|link| link.replace("&amp;", "&")).collect()
        }
    };
    let is_wheel = |link: &&String| link.split(['#', '?']).next().is_some_and(|path| path.ends_with(".whl"));
    let wheel = links.iter().rfind(is_wheel)?;
    base.join(wheel).ok().map(|url| url.to_string())
}

/// The text in the quotes at the beginning.
fn quoted(text: &str) -> Option<String> {
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    text[1..].split_once(quote).map(|(inside, _)| inside.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wheel_is_found_on_both_kinds_of_pages() {
        let base = Url::parse("https://index.example/simple/model/").unwrap();
        let html = r#"<a href="../../files/model-0.1.tar.gz">s</a> <a href='../../files/model-0.1.whl#sha256=ab'>w</a>"#;
        let json = r#"{"files":[{"url":"https://files.example/model-0.1.whl"},{"url":"x.tar.gz"}]}"#;
        assert_eq!(last_wheel(html, &base).unwrap(), "https://index.example/files/model-0.1.whl#sha256=ab");
        assert_eq!(last_wheel(json, &base).unwrap(), "https://files.example/model-0.1.whl");
        assert_eq!(last_wheel("<html></html>", &base), None);
    }

    #[test]
    fn the_index_is_read_from_pips_configuration() {
        let configuration =
            "[install]\nindex-url = no\n[global]\ntimeout = 3\nindex-url = https://index.example/simple\n";
        assert_eq!(index_in(configuration).as_deref(), Some("https://index.example/simple"));
        assert_eq!(index_in("[global]\ncert = x\n"), None);
    }
}
