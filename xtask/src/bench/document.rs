//! The document that keeps what was measured.

use anyhow::{Context, Result};

use crate::workspace::Workspace;

const DOCUMENT: &str = "docs/benchmarks.md";

/// Puts a section in place of the one an earlier run wrote under the same name.
pub(super) fn write_section(workspace: &Workspace, name: &str, section: &str) -> Result<()> {
    let path = workspace.root.join(DOCUMENT);
    let document = match std::fs::read_to_string(&path) {
        Ok(document) => document,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => "# Benchmarks\n".to_owned(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {DOCUMENT}")),
    };
    std::fs::write(&path, replace_section(&document, name, section))
        .with_context(|| format!("cannot write {DOCUMENT}"))?;
    println!("written to {DOCUMENT}");
    Ok(())
}

/// Neighbours may take this share of the processor before the figures are called into question.
const BUSY: f64 = 0.1;

/// What to say, as lines, when the neighbours' share was too large to trust the figures.
pub(super) fn busy_warning(neighbours_share: f64) -> Vec<String> {
    if neighbours_share < BUSY {
        return Vec::new();
    }
    let percent = neighbours_share * 100.0;
    vec![
        format!(
            "**The machine was busy**: other programs took up to {percent:.0} % of the processor meanwhile."
        ),
        String::new(),
    ]
}

/// One line of a list of goals.
pub(super) fn goal(holds: bool, text: &str) -> String {
    format!("- {}: {text}", if holds { "holds" } else { "**does not hold**" })
}

/// From the kernel's kB.
pub(super) fn megabytes(kilobytes: u64) -> f64 {
    kilobytes as f64 / 1e3
}

/// Puts the section between its markers; a document without the markers gets them at its end.
fn replace_section(document: &str, name: &str, section: &str) -> String {
    let (begin, end) = (format!("<!-- bench:{name}:begin -->"), format!("<!-- bench:{name}:end -->"));
    let block = format!("{begin}\n{section}\n{end}");
    match (document.find(&begin), document.find(&end)) {
        (Some(start), Some(stop)) if start < stop => {
            format!("{}{block}{}", &document[..start], &document[stop + end.len()..])
        }
        _ => format!("{}\n\n{block}\n", document.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_replaced_and_the_rest_kept() {
        let document = "# Benchmarks\n\n<!-- bench:a:begin -->\nold\n<!-- bench:a:end -->\n\nafter\n";
        assert_eq!(
            replace_section(document, "a", "new"),
            "# Benchmarks\n\n<!-- bench:a:begin -->\nnew\n<!-- bench:a:end -->\n\nafter\n"
        );
    }

    #[test]
    fn a_new_section_goes_to_the_end() {
        assert_eq!(
            replace_section("# Benchmarks\n", "a", "new"),
            "# Benchmarks\n\n<!-- bench:a:begin -->\nnew\n<!-- bench:a:end -->\n"
        );
    }
}
