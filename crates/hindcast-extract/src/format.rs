//! Which formats there are, and how a file is known to have one.

/// A programming language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Language {
    Rust,
    C,
    Cpp,
    Python,
    Go,
    Java,
    JavaScript,
    TypeScript,
    Tsx,
    CSharp,
}

/// What a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Format {
    Markdown,
    Text,
    Html,
    Pdf,
    Docx,
    Xml,
    Json,
    Yaml,
    Toml,
    Code(Language),
}

/// Formats by the end of a file's name and by MIME type; the first MIME type of a format is the one it is served as.
const FORMATS: &[(Format, &[&str], &[&str])] = &[
    (Format::Markdown, &["md", "markdown", "mdown", "mkd"], &["text/markdown", "text/x-markdown"]),
    (Format::Text, &["txt", "text", "log", "rst", "adoc", "asciidoc", "org"], &["text/plain"]),
    (Format::Html, &["html", "htm", "xhtml"], &["text/html", "application/xhtml+xml"]),
    (Format::Pdf, &["pdf"], &["application/pdf"]),
    (Format::Docx, &["docx"], &["application/vnd.openxmlformats-officedocument.wordprocessingml.document"]),
    (Format::Xml, &["xml", "xsd", "xsl", "xslt"], &["application/xml", "text/xml"]),
    (Format::Json, &["json", "jsonl", "ndjson"], &["application/json"]),
    (Format::Yaml, &["yaml", "yml"], &["application/yaml", "text/yaml", "application/x-yaml"]),
    (Format::Toml, &["toml"], &["application/toml", "text/x-toml"]),
    (Format::Code(Language::Rust), &["rs"], &["text/x-rust", "text/rust"]),
    (Format::Code(Language::C), &["c", "h"], &["text/x-c", "text/x-csrc"]),
    (
        Format::Code(Language::Cpp),
        &["cpp", "cc", "cxx", "hpp", "hh", "hxx"],
        &["text/x-c++", "text/x-c++src"],
    ),
    (Format::Code(Language::Python), &["py", "pyi"], &["text/x-python"]),
    (Format::Code(Language::Go), &["go"], &["text/x-go"]),
    (Format::Code(Language::Java), &["java"], &["text/x-java"]),
    (
        Format::Code(Language::JavaScript),
        &["js", "mjs", "cjs", "jsx"],
        &["text/javascript", "application/javascript"],
    ),
    (
        Format::Code(Language::TypeScript),
        &["ts", "mts", "cts"],
        &["text/x-typescript", "application/typescript"],
    ),
    (Format::Code(Language::Tsx), &["tsx"], &["text/x-tsx"]),
    (Format::Code(Language::CSharp), &["cs"], &["text/x-csharp"]),
];

impl Format {
    /// By the end of a file's name, such as `md`; in any case.
    pub fn of_extension(extension: &str) -> Option<Self> {
        let extension = extension.to_ascii_lowercase();
        find(|(_, extensions, _)| extensions.contains(&&*extension))
    }

    /// By MIME type, with or without parameters.
    pub fn of_mime_type(mime_type: &str) -> Option<Self> {
        let essence = mime_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        find(|(_, _, mime_types)| mime_types.contains(&&*essence))
    }

    /// The MIME type its text is served as: what is converted becomes Markdown.
    pub fn served_mime_type(self) -> &'static str {
        match self {
            Self::Html | Self::Pdf | Self::Docx => "text/markdown",
            _ => {
                let row = FORMATS.iter().find(|(format, ..)| *format == self);
                row.and_then(|(_, _, mime_types)| mime_types.first()).copied().unwrap_or("text/plain")
            }
        }
    }

    /// Its name: the end of most of its files' names.
    pub fn name(self) -> &'static str {
        let row = FORMATS.iter().find(|(format, ..)| *format == self);
        row.and_then(|(_, extensions, _)| extensions.first()).copied().unwrap_or("txt")
    }

    /// Whether it is source code.
    pub fn is_code(self) -> bool {
        matches!(self, Self::Code(_))
    }

    /// The ends of file names that are understood, for people.
    pub fn known_extensions() -> String {
        let known: Vec<_> =
            FORMATS.iter().flat_map(|(_, extensions, _)| extensions.iter().copied()).collect();
        known.join(", ")
    }

    /// The MIME types that are understood, for people.
    pub fn known_mime_types() -> String {
        let known: Vec<_> = FORMATS.iter().filter_map(|(_, _, types)| types.first().copied()).collect();
        known.join(", ")
    }
}

type Row = (Format, &'static [&'static str], &'static [&'static str]);

fn find(fits: impl Fn(&Row) -> bool) -> Option<Format> {
    FORMATS.iter().find(|row| fits(row)).map(|(format, ..)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_known_by_name_and_by_mime_type() {
        assert_eq!(Format::of_extension("MD"), Some(Format::Markdown));
        assert_eq!(Format::of_extension("exe"), None);
        assert_eq!(Format::of_mime_type("text/html; charset=utf-8"), Some(Format::Html));
        assert_eq!(Format::Pdf.served_mime_type(), "text/markdown");
        assert_eq!(Format::Code(Language::Rust).served_mime_type(), "text/x-rust");
    }
}
