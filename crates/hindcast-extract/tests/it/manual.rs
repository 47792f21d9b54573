//! Linux's manual pages.

use std::{
    collections::HashMap,
    io::Write,
    path::Path,
    process::{Command, Stdio},
};

use hindcast_extract::{ExtractError, Format, chunk, extract};

use crate::{documents, files};

#[test]
fn every_page_has_its_sections_and_no_macros() {
    let Some(folder) = documents() else { return };
    let pages = files(&folder.join("usr/share/man"), ".gz");
    assert!(pages.len() > 100, "{}", pages.len());
    for path in pages {
        let bytes = std::fs::read(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(format) = Format::of_name(name) else { continue };
        let extracted = match extract(format, &bytes) {
            Err(ExtractError::Redirect) => continue,
            extracted => extracted.unwrap_or_else(|error| panic!("{name}: {error}")),
        };
        let text = extracted.text.clone().unwrap();
        let is_macro = |line: &&str| {
            line.starts_with('.')
                && line[1..].starts_with(|char: char| char.is_ascii_uppercase())
                && line.len() < 5
        };
        // Pages about macros name them.
        let is_about_macros = name.starts_with("man-pages.") || name.starts_with("man.");
        assert!(is_about_macros || !text.lines().any(|line| is_macro(&line)), "{name}: {text}");
        assert!(is_about_macros || !text.contains("\\fB") && !text.contains("\\fI"), "{name}: {text}");
        let chunks = chunk(format, &text, &extracted).unwrap();
        let sections = chunks.iter().filter(|chunk| !chunk.headings.is_empty()).count();
        assert!(sections * 10 >= chunks.len() * 9, "{name}: {sections} of {}", chunks.len());
    }
}

/// What `groff` prints of a page, on lines that are long enough to hyphenate nothing; none where it is not installed, which is said.
fn printed(path: &Path) -> Option<String> {
    let unpacked = Command::new("gzip").arg("-cd").arg(path).output().unwrap().stdout;
    let device = ["-mandoc", "-t", "-k", "-Tutf8", "-P-c", "-P-b", "-P-o", "-P-u", "-rLL=1000n", "-rHY=0"];
    let Ok(mut groff) = Command::new("groff")
        .args(device)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
    else {
        let _ = writeln!(std::io::stderr(), "SKIPPED words of manual pages: there is no groff");
        return None;
    };
    let mut input = groff.stdin.take().unwrap();
    let writer = std::thread::spawn(move || drop(input.write_all(&unpacked)));
    let output = groff.wait_with_output().unwrap();
    writer.join().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// How often each word of letters stands in a text.
fn counted(text: &str) -> HashMap<String, usize> {
    let mut words = HashMap::new();
    for word in text.split(|char: char| !char.is_alphanumeric()).filter(|word| word.chars().count() > 1) {
        *words.entry(word.to_lowercase()).or_default() += 1;
    }
    words
}

#[test]
fn pages_have_the_words_that_groff_prints_of_them() {
    let Some(folder) = documents() else { return };
    let (mut all, mut missing, mut strange) = (0, 0, HashMap::<String, usize>::new());
    // Every fifth is enough, and takes a tenth of a minute.
    for path in files(&folder.join("usr/share/man"), ".gz").into_iter().step_by(5) {
        let bytes = std::fs::read(&path).unwrap();
        let Ok(text) = extract(Format::Man, &bytes).map(|extracted| extracted.text.unwrap()) else {
            continue;
        };
        let Some(printed) = printed(&path) else { return };
        // The first and the last line are the head and the foot of the page.
        let lines: Vec<_> = printed.lines().filter(|line| !line.trim().is_empty()).collect();
        let body = lines.get(1..lines.len().saturating_sub(1)).unwrap_or_default().join("\n");
        let found = counted(&text);
        for (word, count) in counted(&body) {
            let lost = count.saturating_sub(found.get(&word).copied().unwrap_or_default());
            (all, missing) = (all + count, missing + lost);
            if lost > 0 {
                *strange.entry(word).or_default() += lost;
            }
        }
    }
    assert!(all > 10_000, "{all}");
    let mut strange: Vec<_> = strange.into_iter().collect();
    strange.sort_by_key(|(_, lost)| std::cmp::Reverse(*lost));
    strange.truncate(30);
    assert!(missing * 200 < all, "{missing} of {all}: {strange:?}");
}
