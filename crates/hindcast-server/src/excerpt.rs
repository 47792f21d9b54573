//! What of a caller's own words may be repeated to them or written down.

/// The beginning of a text, with everything that looks like an API key taken out: people paste keys into
/// the wrong place.
pub(crate) fn excerpt(text: &str, most: usize) -> String {
    let mut rest = text;
    let mut shown = String::new();
    while let Some(start) = rest.find("kdb_") {
        let (before, key) = rest.split_at(start);
        let end =
            key.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(key.len());
        shown.push_str(before);
        shown.push_str("kdb_…");
        rest = &key[end..];
    }
    shown.push_str(rest);
    match shown.char_indices().nth(most) {
        None => shown,
        Some((end, _)) => shown[..end].to_owned() + "…",
    }
}

/// A path that a call is about, for the audit trail.
pub(crate) fn shown_target(path: &std::path::Path) -> String {
    excerpt(&path.display().to_string(), 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_taken_out_before_the_text_is_cut() {
        assert_eq!(excerpt("debugger/attach", 80), "debugger/attach");
        assert_eq!(excerpt("a kdb_live_abc23, kdb_test_x.", 80), "a kdb_…, kdb_….");
        assert_eq!(excerpt(&format!("{}kdb_live_abc", "x".repeat(78)), 80), "x".repeat(78) + "kd…");
        assert_eq!(excerpt("ääää", 2), "ää…");
    }
}
