//! Debian's reference: DocBook's HTML, in languages with and without spaces.

use hindcast_extract::{Block, Role};

use crate::{documents, files, read};

#[test]
fn the_chapters_have_their_text_and_no_navigation() {
    let Some(folder) = documents() else { return };
    let folder = folder.join("usr/share/debian-reference");
    for language in ["en", "de", "fr", "ja"] {
        let chapters = files(&folder, &format!(".{language}.html"));
        assert!(chapters.len() >= 14, "{language}: {}", chapters.len());
        for path in chapters {
            let read = read(&path);
            let source = std::fs::read_to_string(&path).unwrap();
            let of_source = (1..=6).map(|level| source.matches(&format!("<h{level}")).count()).sum::<usize>();
            let is_heading = |block: &&Block| matches!(block.role, Role::Heading { .. });
            let of_text = read.extracted.blocks.iter().filter(is_heading).count();
            assert_eq!(of_text, of_source, "{}: every heading is kept", path.display());
            for (text, chunk) in &read.chunks {
                assert!(chunk.lines.0 <= chunk.lines.1, "{}", path.display());
                assert!(!text.contains("](") && !text.contains("accesskey"), "{}: {text}", path.display());
            }
            let is_start = path.file_name().unwrap().to_str().unwrap().starts_with("index.");
            let with_heading = read.chunks.iter().filter(|(_, chunk)| !chunk.headings.is_empty()).count();
            assert!(
                is_start || with_heading * 20 > read.chunks.len() * 19,
                "{}: {with_heading}",
                path.display()
            );
        }
    }
}

#[test]
fn text_in_other_encodings_says_the_same() {
    let Some(folder) = documents() else { return };
    let folder = folder.join("usr/share/debian-reference");
    for (language, encoding) in
        [("de", "iso-8859-1"), ("fr", "windows-1252"), ("ja", "shift_jis"), ("ja", "euc-jp")]
    {
        let source = std::fs::read_to_string(folder.join(format!("ch03.{language}.html"))).unwrap();
        let declared = source.replace("charset=UTF-8", &format!("charset={encoding}"));
        let declared = declared.replace("encoding=\"UTF-8\"", &format!("encoding=\"{encoding}\""));
        // What the encoding does not have is written as a reference to it.
        let (bytes, _, _) = encoding_rs::Encoding::for_label(encoding.as_bytes()).unwrap().encode(&declared);
        let given = hindcast_extract::extract(hindcast_extract::Format::Html, &bytes).unwrap();
        let same = hindcast_extract::extract(hindcast_extract::Format::Html, source.as_bytes()).unwrap();
        assert_eq!(given.text, same.text, "{encoding}");
    }
}
