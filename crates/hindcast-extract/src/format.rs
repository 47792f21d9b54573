//! Which formats there are, and how a file is known to have one.

use std::path::Path;

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
    Shell,
    PowerShell,
    Sql,
    Ruby,
    Php,
    Kotlin,
    Swift,
    Scala,
    Lua,
    Perl,
    R,
    Julia,
    Haskell,
    Dart,
    Elixir,
    Erlang,
    Zig,
    Clojure,
    FSharp,
    VisualBasic,
    ObjectiveC,
    Assembly,
    Css,
    Make,
    Dockerfile,
    CMake,
    Proto,
    Nix,
    Terraform,
    Vue,
    Fortran,
    Groovy,
    OCaml,
    Batch,
    Lisp,
    Scheme,
    Nim,
    Verilog,
    Vhdl,
    GraphQl,
    Matlab,
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
    Rst,
    AsciiDoc,
    Org,
    Latex,
    Csv,
    Tsv,
    Notebook,
    Epub,
    Pptx,
    Xlsx,
    Odt,
    Odp,
    Ods,
    Man,
    Mail,
    Mbox,
    /// The docstrings of a Python module.
    Docstrings,
    /// What rustdoc writes as JSON.
    Rustdoc,
    Code(Language),
}

/// Formats by the end of a file's name and by MIME type; the first MIME type of a format is the one it is served as.
const FORMATS: &[(Format, &[&str], &[&str])] = &[
    (
        Format::Markdown,
        &["md", "markdown", "mdown", "mkd", "mdx", "rmd", "qmd"],
        &["text/markdown", "text/x-markdown"],
    ),
    (
        Format::Text,
        &["txt", "text", "log", "srt", "vtt", "ini", "cfg", "conf", "properties", "bib", "diff", "patch"],
        &["text/plain"],
    ),
    (Format::Rst, &["rst"], &["text/x-rst"]),
    (Format::AsciiDoc, &["adoc", "asciidoc"], &["text/asciidoc"]),
    (Format::Org, &["org"], &["text/x-org"]),
    (Format::Latex, &["tex", "latex", "ltx"], &["application/x-tex", "text/x-tex"]),
    (Format::Csv, &["csv"], &["text/csv"]),
    (Format::Tsv, &["tsv", "tab"], &["text/tab-separated-values"]),
    (Format::Notebook, &["ipynb"], &["application/x-ipynb+json"]),
    (Format::Epub, &["epub"], &["application/epub+zip"]),
    (Format::Pptx, &["pptx"], &["application/vnd.openxmlformats-officedocument.presentationml.presentation"]),
    (Format::Xlsx, &["xlsx"], &["application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"]),
    (Format::Odt, &["odt"], &["application/vnd.oasis.opendocument.text"]),
    (Format::Odp, &["odp"], &["application/vnd.oasis.opendocument.presentation"]),
    (Format::Ods, &["ods"], &["application/vnd.oasis.opendocument.spreadsheet"]),
    (Format::Man, &["man", "mdoc", "1", "2", "3", "4", "5", "6", "7", "8", "9"], &["text/troff"]),
    (Format::Mail, &["eml"], &["message/rfc822"]),
    (Format::Mbox, &["mbox"], &["application/mbox"]),
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
    (
        Format::Code(Language::Shell),
        &["sh", "bash", "zsh", "ksh", "fish"],
        &["text/x-shellscript", "application/x-sh"],
    ),
    (Format::Code(Language::PowerShell), &["ps1", "psm1", "psd1"], &["text/x-powershell"]),
    (Format::Code(Language::Sql), &["sql"], &["text/x-sql", "application/sql"]),
    (Format::Code(Language::Ruby), &["rb", "rake"], &["text/x-ruby"]),
    (Format::Code(Language::Php), &["php"], &["text/x-php"]),
    (Format::Code(Language::Kotlin), &["kt", "kts"], &["text/x-kotlin"]),
    (Format::Code(Language::Swift), &["swift"], &["text/x-swift"]),
    (Format::Code(Language::Scala), &["scala", "sc"], &["text/x-scala"]),
    (Format::Code(Language::Lua), &["lua"], &["text/x-lua"]),
    (Format::Code(Language::Perl), &["pl", "pm"], &["text/x-perl"]),
    (Format::Code(Language::R), &["r"], &["text/x-r"]),
    (Format::Code(Language::Julia), &["jl"], &["text/x-julia"]),
    (Format::Code(Language::Haskell), &["hs"], &["text/x-haskell"]),
    (Format::Code(Language::Dart), &["dart"], &["text/x-dart"]),
    (Format::Code(Language::Elixir), &["ex", "exs"], &["text/x-elixir"]),
    (Format::Code(Language::Erlang), &["erl", "hrl"], &["text/x-erlang"]),
    (Format::Code(Language::Zig), &["zig"], &["text/x-zig"]),
    (Format::Code(Language::Clojure), &["clj", "cljs", "cljc", "edn"], &["text/x-clojure"]),
    (Format::Code(Language::FSharp), &["fs", "fsx", "fsi"], &["text/x-fsharp"]),
    (Format::Code(Language::VisualBasic), &["vb"], &["text/x-vb"]),
    (Format::Code(Language::ObjectiveC), &["mm"], &["text/x-objective-c"]),
    (Format::Code(Language::Assembly), &["s", "asm"], &["text/x-asm"]),
    (Format::Code(Language::Css), &["css", "scss", "less"], &["text/css"]),
    (Format::Code(Language::Make), &["mk", "mak"], &["text/x-makefile"]),
    (Format::Code(Language::Dockerfile), &["dockerfile"], &["text/x-dockerfile"]),
    (Format::Code(Language::CMake), &["cmake"], &["text/x-cmake"]),
    (Format::Code(Language::Proto), &["proto"], &["text/x-proto"]),
    (Format::Code(Language::Nix), &["nix"], &["text/x-nix"]),
    (Format::Code(Language::Terraform), &["tf", "hcl", "tfvars"], &["text/x-hcl"]),
    (Format::Code(Language::Vue), &["vue", "svelte"], &["text/x-vue"]),
    (
        Format::Code(Language::Fortran),
        &["f90", "f", "for", "ftn", "f77", "f95", "f03", "f08"],
        &["text/x-fortran"],
    ),
    (Format::Code(Language::Groovy), &["groovy", "gradle", "gvy"], &["text/x-groovy"]),
    (Format::Code(Language::OCaml), &["ml", "mli", "mll", "mly"], &["text/x-ocaml"]),
    (Format::Code(Language::Batch), &["bat", "cmd"], &["text/x-batch", "application/x-bat"]),
    (Format::Code(Language::Lisp), &["lisp", "lsp", "el"], &["text/x-lisp", "text/x-common-lisp"]),
    (Format::Code(Language::Scheme), &["scm", "ss", "rkt"], &["text/x-scheme"]),
    (Format::Code(Language::Nim), &["nim", "nims", "nimble"], &["text/x-nim"]),
    (Format::Code(Language::Verilog), &["v", "vh", "sv", "svh"], &["text/x-verilog"]),
    (Format::Code(Language::Vhdl), &["vhdl", "vhd"], &["text/x-vhdl"]),
    (Format::Code(Language::GraphQl), &["graphql", "graphqls", "gql"], &["application/graphql"]),
    // Objective-C is called so, too, which its content tells.
    (Format::Code(Language::Matlab), &["m"], &["text/x-matlab"]),
    // Known by what they are asked for as, or by what is in them, and not by their names.
    (Format::Docstrings, &["docstrings"], &["text/x-python"]),
    (Format::Rustdoc, &["rustdoc"], &["application/json"]),
];

/// Files that are known by their whole name, in lower case.
const NAMES: &[(Format, &[&str])] = &[
    (
        Format::Text,
        &[
            "readme",
            "license",
            "licence",
            "copying",
            "copyright",
            "changelog",
            "changes",
            "news",
            "authors",
            "contributors",
            "notice",
            "todo",
            "install",
            "faq",
            "history",
            "maintainers",
            "credits",
        ],
    ),
    (Format::Code(Language::Make), &["makefile", "gnumakefile", "justfile"]),
    (Format::Code(Language::Dockerfile), &["dockerfile", "containerfile"]),
    (Format::Code(Language::Ruby), &["rakefile", "gemfile", "vagrantfile"]),
    (Format::Code(Language::CMake), &["cmakelists.txt"]),
    (Format::Code(Language::Python), &["sconstruct", "wscript"]),
    (Format::Code(Language::Groovy), &["jenkinsfile"]),
];

impl Format {
    /// By a file's name and the folder it is in: `man3/fields.3perl` is a page of the manual.
    pub fn of_path(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        let folder = path.parent().and_then(Path::file_name).and_then(|folder| folder.to_str());
        let is_manual = folder.and_then(|folder| folder.strip_prefix("man")).is_some_and(is_section);
        let end = name.strip_suffix(".gz").unwrap_or(name).rsplit_once('.').map(|(_, end)| end);
        if is_manual && end.is_some_and(is_section) { Some(Self::Man) } else { Self::of_name(name) }
    }

    /// By a file's whole name; one that gzip packed is what it unpacks to.
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let name = name.strip_suffix(".gz").unwrap_or(&name);
        // `app.log.1` is an older `app.log`, no page of the manual.
        let name = name
            .rsplit_once('.')
            .filter(|(log, age)| {
                log.ends_with(".log") && !age.is_empty() && age.bytes().all(|byte| byte.is_ascii_digit())
            })
            .map_or(name, |(log, _)| log);
        let known = NAMES.iter().find(|(_, names)| names.contains(&name)).map(|(format, _)| *format);
        let of_end = || Self::of_extension(name.rsplit_once('.').filter(|(stem, _)| !stem.is_empty())?.1);
        // `Dockerfile.test`, `README.linux`
        let of_stem =
            || NAMES.iter().find(|(_, names)| names.contains(&name.split('.').next().unwrap_or_default()));
        known.or_else(of_end).or_else(|| of_stem().map(|(format, _)| *format))
    }

    /// Whether its text is made from the file, and is Markdown then.
    pub fn is_converted(self) -> bool {
        matches!(
            self,
            Self::Html
                | Self::Pdf
                | Self::Docx
                | Self::Pptx
                | Self::Xlsx
                | Self::Odt
                | Self::Odp
                | Self::Ods
                | Self::Epub
                | Self::Notebook
                | Self::Man
                | Self::Mail
                | Self::Mbox
                | Self::Docstrings
                | Self::Rustdoc
        )
    }

    /// Whether more than lines and Markdown are read in it: a document made to hurt may then take all time, memory or stack.
    pub fn needs_parser(self) -> bool {
        self.is_converted() || self.is_code() || self == Self::Latex
    }

    /// What a file turns out to be whose name says that it is this.
    pub fn of_content(self, bytes: &[u8]) -> Self {
        match self {
            Self::Json if crate::rustdoc::is_rustdoc(bytes) => Self::Rustdoc,
            // `install` and `configure.txt` may be programs.
            Self::Code(Language::Matlab) if is_objective_c(bytes) => Self::Code(Language::ObjectiveC),
            Self::Text => of_first_line(bytes).map_or(self, Self::Code),
            named => named,
        }
    }

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

    /// The MIME type of its files.
    pub fn mime_type(self) -> &'static str {
        let row = FORMATS.iter().find(|(format, ..)| *format == self);
        row.and_then(|(_, _, mime_types)| mime_types.first()).copied().unwrap_or("text/plain")
    }

    /// The MIME type its text is served as: what is converted becomes Markdown, and so does LaTeX, whose files are text all the same.
    pub fn served_mime_type(self) -> &'static str {
        match self {
            _ if self.is_converted() || self == Self::Latex => "text/markdown",
            _ => self.mime_type(),
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

    /// Whether no file is called so.
    fn is_named_otherwise(self) -> bool {
        matches!(self, Self::Docstrings | Self::Rustdoc)
    }

    /// The ends of file names that are understood, for people.
    pub fn known_extensions() -> String {
        let known: Vec<_> = FORMATS
            .iter()
            .filter(|(format, ..)| !format.is_named_otherwise())
            .flat_map(|(_, extensions, _)| extensions.iter().copied())
            .collect();
        known.join(", ")
    }

    /// The MIME types that are understood, for people.
    pub fn known_mime_types() -> String {
        let known: Vec<_> = FORMATS
            .iter()
            .filter(|(format, ..)| !format.is_named_otherwise())
            .filter_map(|(_, _, types)| types.first().copied())
            .collect();
        known.join(", ")
    }
}

/// A section of the manual, such as `3` or `3perl`.
fn is_section(name: &str) -> bool {
    let rest = name.strip_prefix(|char: char| char.is_ascii_digit());
    rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_alphabetic()))
}

type Row = (Format, &'static [&'static str], &'static [&'static str]);

/// The language of a program that names its interpreter, as in `#!/usr/bin/env python3`.
fn of_first_line(bytes: &[u8]) -> Option<Language> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(&line[..line.len().min(200)]).ok()?;
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let name = words.find(|word| *word != "env" && !word.starts_with('-') && !word.contains('='))?;
    Some(match name.trim_end_matches(|char: char| char.is_ascii_digit() || char == '.') {
        "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "fish" => Language::Shell,
        "python" | "pypy" => Language::Python,
        "perl" => Language::Perl,
        "ruby" => Language::Ruby,
        "node" | "nodejs" => Language::JavaScript,
        "php" => Language::Php,
        "lua" => Language::Lua,
        "Rscript" => Language::R,
        "julia" => Language::Julia,
        "pwsh" => Language::PowerShell,
        "groovy" => Language::Groovy,
        "elixir" => Language::Elixir,
        "escript" => Language::Erlang,
        "ocaml" => Language::OCaml,
        "runghc" | "runhaskell" => Language::Haskell,
        "guile" => Language::Scheme,
        _ => return None,
    })
}

/// So many lines of a file tell its language.
const TOLD_BY: usize = 500;

/// Whether a file that may be in MATLAB is in Objective-C: no line of MATLAB begins so.
fn is_objective_c(bytes: &[u8]) -> bool {
    let marks =
        ["#import", "#include", "#define", "@import", "@interface", "@implementation", "@protocol", "@class"];
    let lines = bytes.split(|byte| *byte == b'\n').take(TOLD_BY);
    lines.map(<[u8]>::trim_ascii_start).any(|line| marks.iter().any(|mark| line.starts_with(mark.as_bytes())))
}

fn find(fits: impl Fn(&Row) -> bool) -> Option<Format> {
    FORMATS.iter().find(|row| fits(row)).map(|(format, ..)| *format)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_without_an_ending_are_known_by_their_names() {
        for (name, format) in [
            ("README", Some(Format::Text)),
            ("Makefile", Some(Format::Code(Language::Make))),
            ("Dockerfile.test", Some(Format::Code(Language::Dockerfile))),
            ("CMakeLists.txt", Some(Format::Code(Language::CMake))),
            ("ls.1.gz", Some(Format::Man)),
            ("app.log.1", Some(Format::Text)),
            ("app.log.12.gz", Some(Format::Text)),
            ("resolv.conf.5", Some(Format::Man)),
            ("film.srt", Some(Format::Text)),
            ("page.mdx", Some(Format::Markdown)),
            ("Notes.MD", Some(Format::Markdown)),
            (".bashrc", None),
            ("program.exe", None),
            ("picture.tar.gz", None),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
    }

    #[test]
    fn pages_of_all_sections_of_the_manual_are_known_by_their_folder() {
        for (path, format) in [
            ("/usr/share/man/man3/Carp.3perl.gz", Some(Format::Man)),
            ("/usr/share/man/man3/size_t.3type", Some(Format::Man)),
            ("man3/License.3pm", Some(Format::Man)),
            ("man3p/printf.3p.gz", Some(Format::Man)),
            ("man1/ls.1", Some(Format::Man)),
            ("notes/size_t.3type", None),
            ("manual/size_t.3type", None),
            ("man3/picture.png", None),
            ("man3/README", Some(Format::Text)),
        ] {
            assert_eq!(Format::of_path(Path::new(path)), format, "{path}");
        }
    }

    #[test]
    fn a_text_that_names_its_interpreter_is_a_program() {
        for (line, language) in [
            ("#!/bin/sh\necho", Some(Language::Shell)),
            ("#! /usr/bin/env -S LANG=C python3.11 -u\n", Some(Language::Python)),
            ("#!/usr/bin/perl -w\r\n", Some(Language::Perl)),
            ("#!/usr/bin/env node\n", Some(Language::JavaScript)),
            ("#!/usr/bin/ruby", Some(Language::Ruby)),
            ("#!/opt/strange\n", None),
            ("#!\n", None),
            ("words #!/bin/sh", None),
        ] {
            let expected = language.map_or(Format::Text, Format::Code);
            assert_eq!(Format::Text.of_content(line.as_bytes()), expected, "{line}");
        }
        assert_eq!(Format::Markdown.of_content(b"#!/bin/sh"), Format::Markdown);
    }

    #[test]
    fn source_code_is_known_by_its_endings() {
        for (names, language) in [
            (&["a.f90", "A.F", "a.for"][..], Language::Fortran),
            (&["build.gradle", "a.groovy", "Jenkinsfile"], Language::Groovy),
            (&["build.gradle.kts"], Language::Kotlin),
            (&["a.ml", "a.mli"], Language::OCaml),
            (&["run.bat", "RUN.CMD"], Language::Batch),
            (&["a.ps1", "a.psd1"], Language::PowerShell),
            (&["init.el", "a.lisp"], Language::Lisp),
            (&["a.scm", "a.rkt"], Language::Scheme),
            (&["a.clj", "a.cljc", "deps.edn"], Language::Clojure),
            (&["a.nim"], Language::Nim),
            (&["a.v", "a.sv"], Language::Verilog),
            (&["a.vhd", "a.vhdl"], Language::Vhdl),
            (&["a.tf", "a.tfvars", "a.hcl"], Language::Terraform),
            (&["a.graphql", "a.gql"], Language::GraphQl),
            (&["a.m"], Language::Matlab),
        ] {
            for name in names {
                assert_eq!(Format::of_name(name), Some(Format::Code(language)), "{name}");
            }
        }
    }

    #[test]
    fn objective_c_and_matlab_are_told_apart_by_what_they_say() {
        let named = Format::of_name("a.m").unwrap();
        for (text, language) in [
            ("// Herons\n#import <Foundation/Foundation.h>\n", Language::ObjectiveC),
            ("@interface Heron : Bird\n@end\n", Language::ObjectiveC),
            ("% Herons\nfunction y = wait(x)\n  y = x' * @sin;\nend\n", Language::Matlab),
            ("", Language::Matlab),
        ] {
            assert_eq!(named.of_content(text.as_bytes()), Format::Code(language), "{text}");
        }
    }

    #[test]
    fn each_kind_of_open_document_has_its_own_mime_type() {
        for (name, mime_type) in [
            ("a.odt", "application/vnd.oasis.opendocument.text"),
            ("a.odp", "application/vnd.oasis.opendocument.presentation"),
            ("a.ods", "application/vnd.oasis.opendocument.spreadsheet"),
        ] {
            let format = Format::of_name(name).unwrap();
            assert_eq!((format.mime_type(), Format::of_mime_type(mime_type)), (mime_type, Some(format)));
            assert_eq!(format.served_mime_type(), "text/markdown");
        }
    }

    #[test]
    fn every_format_is_known_by_its_own_name() {
        for (format, ..) in FORMATS {
            assert_eq!(Format::of_extension(format.name()), Some(*format));
        }
    }

    #[test]
    fn a_format_is_known_by_name_and_by_mime_type() {
        assert_eq!(Format::of_extension("MD"), Some(Format::Markdown));
        assert_eq!(Format::of_extension("exe"), None);
        assert_eq!(Format::of_mime_type("text/html; charset=utf-8"), Some(Format::Html));
        assert_eq!(Format::Pdf.served_mime_type(), "text/markdown");
        assert_eq!(Format::Code(Language::Rust).served_mime_type(), "text/x-rust");
    }
}
