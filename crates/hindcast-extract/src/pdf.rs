//! The text of a PDF, page by page.

use crate::{ExtractError, Extracted};

pub(crate) fn extract(bytes: &[u8]) -> Result<Extracted, ExtractError> {
    let broken = |reason: String| ExtractError::Broken { format: "PDF", reason };
    // The reader expects well-formed files in places, and panics where they are not.
    let pages = std::panic::catch_unwind(|| pdf_extract::extract_text_from_mem_by_pages(bytes))
        .map_err(|_| broken("its structure is damaged".into()))?
        .map_err(|error| broken(error.to_string()))?;
    let mut text = String::new();
    let mut places = Vec::with_capacity(pages.len());
    for page in pages {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        let start = text.len();
        push_tidied(&mut text, &page);
        places.push(start..text.len());
    }
    Ok(Extracted { text: Some(text), pages: places, ..Extracted::default() })
}

/// Without trailing blanks, and with at most one empty line between others.
fn push_tidied(text: &mut String, page: &str) {
    let mut is_first = true;
    let mut gap = false;
    for line in page.lines().map(str::trim_end) {
        if line.is_empty() {
            gap = !is_first;
            continue;
        }
        if !is_first {
            text.push_str(if gap { "\n\n" } else { "\n" });
        }
        text.extend(line.chars().filter(|char| !char.is_control() || *char == '\t'));
        (is_first, gap) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_tidied() {
        let mut text = String::new();
        push_tidied(&mut text, "\n\n  Title \n\n\n\nfirst line  \nsecond\u{7} line\n\n");
        assert_eq!(text, "  Title\n\nfirst line\nsecond line");
    }

    #[test]
    fn what_is_no_pdf_is_refused() {
        for bytes in [&b"%PDF-1.4 nothing of the kind"[..], b"hello", b"%PDF-1.7\n1 0 obj<<>>endobj\n%%EOF"] {
            assert!(matches!(extract(bytes), Err(ExtractError::Broken { .. })));
        }
    }
}
