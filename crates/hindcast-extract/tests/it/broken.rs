//! Damaged files of every kind: refused with a reason, or read with passages that stand where they say.

use std::{
    io::{Cursor, Read as _, Write as _},
    panic::catch_unwind,
    time::{Duration, Instant},
};

use hindcast_extract::{Chunk, ExtractError, Extracted, Format, Language, chunk, extract};

/// The slowest of them takes a tenth of it where nothing else runs, without optimisation.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a file of some kilobytes may become, unpacked, repeated and put together.
const LARGEST: usize = 100 * 1024 * 1024;

/// A kind: its format, a file of it, and what opens something that can be nested.
struct Kind {
    name: &'static str,
    format: Format,
    file: Vec<u8>,
    opens: &'static str,
}

fn kind(format: Format, name: &'static str, opens: &'static str, text: &str) -> Kind {
    Kind { name, format, file: text.as_bytes().to_vec(), opens }
}

/// Kinds that are text.
fn texts() -> Vec<Kind> {
    let code = |language, name, opens, text| kind(Format::Code(language), name, opens, text);
    vec![
        kind(
            Format::Markdown,
            "md",
            "> - ",
            "---\ntitle: Vögel\ntags: [a, b]\n---\n# One\n\nWords, *more*.\n\n```rust\nfn f() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n## Two\n\n- x\n- y[^1]\n\n[^1]: Note.\n",
        ),
        kind(
            Format::Text,
            "txt",
            "(",
            "Herons – große – stand.\n\nThey wait; 12345 of them.\n\nThen they strike.\n",
        ),
        kind(
            Format::Html,
            "html",
            "<div><table><tr><td>",
            "<!doctype html><html><head><meta charset=utf-8><title>Vögel</title><meta name=description content=\"About &amp; so\"></head><body><nav><a href=/>x</a></nav><main><h1 id=a>Vögel</h1><p>Words <code>x</code> &uuml;.\n<ul><li>one<li>two</ul><table><tr><th>a<th>b<tr><td colspan=2>1</table><pre><code class=language-rust>fn f() {}</code></pre><dl><dt>t<dd>d</dl></main></body></html>",
        ),
        kind(
            Format::Rst,
            "rst",
            "=====\nA\n=====\n",
            "=====\nVögel\n=====\n\nWords.\n\nPart\n----\n\n.. note:: x\n\n::\n\n    code\n\nMore\n----\ny\n",
        ),
        kind(
            Format::AsciiDoc,
            "adoc",
            "= A\n",
            "= Vögel\n\nWords.\n\n== Part\n\n----\ncode\n----\n\n=== Deep\nx\n",
        ),
        kind(
            Format::Org,
            "org",
            "* ",
            "* Vögel\nWords.\n** Part :tag:\n- item\n#+begin_src c\nint x;\n#+end_src\n",
        ),
        kind(
            Format::Latex,
            "tex",
            "\\section{",
            "\\documentclass{article}\n\\begin{document}\n\\section[short]{Vögel \\emph{groß}}\nWords $x^2$.\n\\subsection*{Part}\nMore.\n\\end{document}\n",
        ),
        kind(
            Format::Csv,
            "csv",
            "\"",
            "name;size;\"a;b\"\n\"Reiher;\nviele\";180;\"\"\"x\"\"\"\nEule;95;y\nZaunkönig;15;5\"\n",
        ),
        kind(Format::Tsv, "tsv", "\"\t", "name\tsize\nReiher\t\"180\n\"\nEule\t95\"\n"),
        kind(
            Format::Man,
            "1",
            ".ie n \\{\\\n",
            ".TH REIHER 1 \"2024\"\n.SH NAME\nreiher \\- f\\(:angt Fische\n.SH OPTIONS\n.TP\n.BR \\-a \", \" \\-\\-all\nalle \\s10x\\s0 \\*(lq\\[u00FC]\\*(rq\n.ds X \\fB\n.if n \\{\\\nja\n.\\}\n.TS\ntab(@);\nl l.\na@T{\nb\nT}\n.TE\n.nf\ncode\n.fi\n",
        ),
        kind(
            Format::Man,
            "mdoc",
            ".Oo Fo a Fa b Op ",
            ".Dd May 1\n.Dt REIHER 1\n.Sh NAME\n.Nm reiher\n.Nd fängt\n.Sh SYNOPSIS\n.Nm\n.Op Fl ab , c\n.Fo f\n.Fa \"int x\"\n.Fc\n.Bl -tag\n.It Fl a Ar b\nWorte\n.Dl x\n.El\n.Ex -std\n.Xr ls 1 .\n",
        ),
        kind(
            Format::Json,
            "json",
            "[{\"a\":",
            "{\"vögel\": [{\"name\": \"Reiher\", \"size\": 180}, {\"name\": \"Eule\"}], \"x\": null}\n",
        ),
        kind(
            Format::Yaml,
            "yaml",
            "- [{a: ",
            "vögel:\n  - name: Reiher\n    size: 180\n  - &x {name: Eule}\n  - *x\ntext: |\n  many\n  lines\n",
        ),
        kind(
            Format::Toml,
            "toml",
            "[[a]]\nx=[",
            "title = \"Vögel\"\n[reiher]\nsize = 180\nnames = [\"a\", 'b']\n[[list]]\nx = 1979-05-27\n",
        ),
        kind(
            Format::Xml,
            "xml",
            "<a>",
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<!DOCTYPE b [<!ENTITY e \"x\">]>\n<b><vogel name=\"Reiher\">groß &e;</vogel><![CDATA[x]]></b>\n",
        ),
        kind(
            Format::Notebook,
            "ipynb",
            "{\"cells\":[",
            "{\"cells\":[{\"cell_type\":\"markdown\",\"source\":[\"# Vögel\\n\",\"x\"]},{\"cell_type\":\"code\",\"source\":\"print(1)\",\"outputs\":[{\"text\":[\"1\\n\"]},{\"data\":{\"text/plain\":\"y\"}}]}],\"metadata\":{\"kernelspec\":{\"language\":\"python\"}}}",
        ),
        kind(
            Format::Mail,
            "eml",
            "Content-Type: multipart/mixed; boundary=b\n\n--b\n",
            "From: =?utf-8?q?V=C3=B6gel?= <a@example.org>\nSubject: Reiher\nDate: Fri, 3 May 2024 10:00:00 +0200\nContent-Type: multipart/alternative; boundary=\"b\"\n\n--b\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nDer Flu=C3=9F =\nträgt.\n\nMehr.\n--b\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\nPHA+eDwvcD4=\n--b--\n",
        ),
        kind(
            Format::Mbox,
            "mbox",
            "From a@b\n\n",
            "From a@b Mon Jan  1 00:00:00 2024\nSubject: One\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n\nWörter.\n\n>From here.\n\nFrom b@c Mon Jan  1 00:00:00 2024\nSubject: Two\nContent-Transfer-Encoding: base64\n\nV29ydHMgdGhhdCBhcmUgcGFja2VkLg==\n",
        ),
        kind(
            Format::Docstrings,
            "docstrings",
            "if x:\n def f(",
            "\"\"\"Über Vögel.\"\"\"\n\nclass Lake(Water):\n    \"\"\"Where.\"\"\"\n\n    def level(self, a=1):\n        r\"\"\"How \\high.\"\"\"\n",
        ),
        kind(
            Format::Rustdoc,
            "rustdoc",
            "{\"inner\":",
            "{\"root\":0,\"crate_version\":\"1.0\",\"includes_private\":false,\"index\":{\"0\":{\"name\":\"vögel\",\"docs\":\"About.\",\"inner\":{\"module\":{\"items\":[1,2]}}},\"1\":{\"name\":\"f\",\"docs\":\"Does.\",\"inner\":{\"function\":{}}},\"2\":{\"name\":\"m\",\"docs\":null,\"inner\":{\"module\":{\"items\":[0,1]}}}}}",
        ),
        code(
            Language::Rust,
            "rs",
            "mod a { fn f() { (",
            "/// Über.\n#[inline]\nfn f(x: &str) -> u32 {\n    let y = \"ü{}\";\n    x.len() as u32\n}\n\nimpl A for B {\n    fn g() {}\n}\n",
        ),
        code(
            Language::C,
            "c",
            "{ if (",
            "/* Über */\n#include <a.h>\nint f(void) {\n    char *x = \"ü\";\n    return x[0];\n}\nstruct a { int b; };\n",
        ),
        code(
            Language::Cpp,
            "cpp",
            "namespace a { template<",
            "// Über\nnamespace a { class B : C<D> { int f() { return R\"(x)\"[0]; } }; }\n",
        ),
        code(
            Language::Python,
            "py",
            "if x: [lambda: (",
            "# Über\nimport os\n\nclass A:\n    \"\"\"Doc.\"\"\"\n\n    @b\n    def f(self, *x):\n        return f\"{x!r}\"\n",
        ),
        code(
            Language::Go,
            "go",
            "{[",
            "// Über\npackage a\n\nfunc F(x []int) (int, error) {\n\treturn `ü`[0], nil\n}\ntype T struct { A map[string]int }\n",
        ),
        code(
            Language::Java,
            "java",
            "class A<B<",
            "/** Über */\npackage a;\nclass A<T> { @B int f() { return \"ü\".length(); } }\n",
        ),
        code(
            Language::JavaScript,
            "js",
            "function f(){ `${",
            "// Über\nfunction f(a) { return `ü${a}` + /x/.test(a); }\nclass A { #b = 1; }\n",
        ),
        code(
            Language::TypeScript,
            "ts",
            "type A<B extends ",
            "// Über\ninterface A<T> { b?: T; }\nfunction f(a: number): A<string> { return { b: 'ü' }; }\n",
        ),
        code(Language::Tsx, "tsx", "<A b={", "// Über\nconst A = (p: P) => <b c={1}>ü {p.x}</b>;\n"),
        code(
            Language::CSharp,
            "cs",
            "a*(b)&&",
            "// Über\nnamespace A { class B { int F() => $\"ü{1}\".Length; } }\n",
        ),
        code(
            Language::Shell,
            "sh",
            "$(case x in (",
            "#!/bin/sh\n# Über\nf() {\n  echo \"ü $1\" | cat <<EOF\nx\nEOF\n}\n",
        ),
    ]
}

const DOCX: &[(&str, &str)] = &[
    (
        "word/document.xml",
        "<w:document><w:body><w:p><w:pPr><w:pStyle w:val=\"berschrift1\"/></w:pPr><w:r><w:t>Vögel</w:t></w:r></w:p><w:p><w:r><w:t>Words</w:t><w:footnoteReference w:id=\"2\"/></w:r></w:p><w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc></w:tr></w:tbl><w:p><w:r><w:br w:type=\"page\"/><w:txbxContent><w:p><w:r><w:t>b</w:t></w:r></w:p></w:txbxContent></w:r></w:p></w:body></w:document>",
    ),
    (
        "word/styles.xml",
        "<w:styles><w:style w:styleId=\"berschrift1\"><w:name w:val=\"heading 1\"/><w:basedOn w:val=\"berschrift1\"/></w:style></w:styles>",
    ),
    (
        "word/footnotes.xml",
        "<w:footnotes><w:footnote w:id=\"2\"><w:p><w:r><w:t>Note</w:t></w:r></w:p></w:footnote></w:footnotes>",
    ),
];

const ODS: &[(&str, &str)] = &[(
    "content.xml",
    "<office:document-content><office:body><office:spreadsheet><table:table table:name=\"Vögel\"><table:table-row><table:table-cell table:number-columns-repeated=\"3\"><text:p>name</text:p></table:table-cell></table:table-row><table:table-row table:number-rows-repeated=\"2\"><table:table-cell><text:p>owl</text:p></table:table-cell></table:table-row></table:table></office:spreadsheet></office:body></office:document-content>",
)];

const ODP: &[(&str, &str)] = &[(
    "content.xml",
    "<office:document-content><office:body><office:presentation><draw:page draw:name=\"eins\"><draw:frame><draw:text-box><text:p>Vögel<office:annotation><text:p>no</text:p></office:annotation></text:p></draw:text-box></draw:frame></draw:page><draw:page><draw:frame><draw:text-box><text:list><text:list-item><text:p>owl</text:p></text:list-item></text:list></draw:text-box></draw:frame></draw:page></office:presentation></office:body></office:document-content>",
)];

type Parts = Vec<(String, Vec<u8>)>;

/// Kinds that are archives, by their parts.
fn archives() -> Vec<(Format, &'static str, Parts)> {
    let made = |parts: &[(&str, &str)]| -> Parts {
        parts.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect()
    };
    let mut kinds = vec![
        (Format::Docx, "docx", made(DOCX)),
        (Format::Ods, "ods", made(ODS)),
        (Format::Odp, "odp", made(ODP)),
    ];
    for name in ["birds.xlsx", "talk.pptx", "notes.odt", "book.epub"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(name);
        let mut archive = zip::ZipArchive::new(Cursor::new(std::fs::read(path).unwrap())).unwrap();
        let mut parts = Parts::new();
        for number in 0..archive.len() {
            let mut file = archive.by_index(number).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            parts.push((file.name().unwrap().into_owned(), bytes));
        }
        kinds.push((Format::of_name(name).unwrap(), name, parts));
    }
    kinds
}

fn packed(parts: &Parts) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in parts {
        archive.start_file(&**name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// At least twenty ways in which a file is damaged.
fn damaged(file: &[u8], opens: &str) -> Vec<Vec<u8>> {
    let mut variants: Vec<Vec<u8>> = (1..10).map(|part| file[..file.len() * part / 10].to_vec()).collect();
    variants.push(file[..file.len() - 1].to_vec());
    variants.push(file[file.len() / 3..].to_vec());
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    for count in [1, 1, 1, 3, 3, 10, 10, 40] {
        let mut flipped = file.to_vec();
        for _ in 0..count {
            let at = numbers.below(file.len());
            flipped[at] ^= 1 << numbers.below(8);
        }
        variants.push(flipped);
    }
    let middle = file.len() / 2;
    let with = |inner: &[u8]| [&file[..middle], inner, &file[middle..]].concat();
    variants.push(with(b"\0\0\0\0"));
    variants.push(with(&[0xff, 0xfe, 0x80, 0xc3]));
    // The words of another encoding, the end of a character, and marks of encodings that it is not in.
    let text = String::from_utf8_lossy(file);
    variants.push(text.chars().map(|char| u8::try_from(char).unwrap_or(b'?')).collect());
    variants.push(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    variants.push([&[0xff, 0xfe][..], file].concat());
    variants.push([&[0xef, 0xbb, 0xbf][..], file].concat());
    variants.push(text.replace('\n', "\r\n").into_bytes());
    variants.push(text.replace('\n', " ").into_bytes());
    let longest =
        text.chars().map(|char| if char.is_ascii_digit() { "99999999999".to_owned() } else { char.into() });
    variants.push(longest.collect::<String>().into_bytes());
    variants.push(text.replace(['1', '2', '3'], "-1").into_bytes());
    variants.push(with(&file.repeat(20)));
    variants.push(opens.repeat(10_000).into_bytes());
    variants.push(with(opens.repeat(2_000).as_bytes()));
    variants.push(with("x".repeat(200_000).as_bytes()));
    assert!(variants.len() >= 20);
    variants
}

/// A file is refused with a reason, or what is read of it holds together.
fn check(name: &str, number: usize, format: Format, file: &[u8]) -> Result<(), ExtractError> {
    let began = Instant::now();
    let read = catch_unwind(|| {
        let extracted = extract(format, file)?;
        let text = match &extracted.text {
            Some(text) => text.clone(),
            None => String::from_utf8(file.to_vec()).unwrap(),
        };
        let chunks = chunk(format, &text, &extracted)?;
        Ok((extracted, text, chunks))
    });
    let what = format!("{name}, variant {number}");
    assert!(began.elapsed() < PATIENCE, "{what}: {:?}", began.elapsed());
    let read: Result<_, ExtractError> = read.unwrap_or_else(|_| panic!("{what}: it panicked"));
    let (extracted, text, chunks) = match read {
        Ok(read) => read,
        Err(error) => {
            assert!(error.to_string().len() > 10, "{what}: {error}");
            return Err(error);
        }
    };
    assert!(text.len() < LARGEST, "{what}: {}", text.len());
    holds_together(&what, &extracted, &text, &chunks, file);
    Ok(())
}

fn holds_together(what: &str, extracted: &Extracted, text: &str, chunks: &[Chunk], file: &[u8]) {
    let mut end = 0;
    // The lines of what is packed are not those of the file. An archive may have something before it.
    let is_packed = file.windows(4).any(|four| four == b"PK\x03\x04") || file.starts_with(&[0x1f, 0x8b]);
    let ends = |bytes: &[u8]| bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    for chunk in chunks {
        let (range, (first, last)) = (chunk.range.clone(), chunk.lines);
        assert!(end <= range.start && range.start < range.end, "{what}: {range:?} after {end}");
        let said = text.get(range.clone()).unwrap_or_else(|| panic!("{what}: {range:?} cuts a character"));
        assert_eq!(said, said.trim(), "{what}");
        end = range.end;
        assert!(first >= 1 && first <= last, "{what}: lines {first} to {last}");
        if extracted.lines.is_empty() {
            let before = ends(&text.as_bytes()[..range.start]);
            assert_eq!((first, last), (before + 1, before + 1 + ends(said.as_bytes())), "{what}");
        } else if !is_packed {
            assert!(last <= ends(file) + 1, "{what}: line {last}");
        }
        if let Some(page) = chunk.page {
            let place = &extracted.pages[page as usize - 1];
            assert!(place.start <= range.start && range.end <= place.end, "{what}: page {page}");
        }
    }
}

#[test]
fn damaged_texts_are_refused_or_read_and_tell_where_they_stand() {
    for Kind { name, format, file, opens } in texts() {
        assert_eq!(check(name, 0, format, &file), Ok(()));
        for (number, damaged) in (1..).zip(damaged(&file, opens)) {
            let _ = check(name, number, format, &damaged);
        }
    }
}

#[test]
fn damaged_archives_are_refused_or_read_and_tell_where_they_stand() {
    for (format, name, parts) in archives() {
        let whole = packed(&parts);
        assert_eq!(check(name, 0, format, &whole), Ok(()));
        let nested =
            ["<w:p><w:txbxContent><w:tbl><w:tr><w:tc>", "<text:p><draw:text-box>", "<si><row><c>", "<div>"];
        for (number, damaged) in (1..).zip(damaged(&whole, "PK\u{3}\u{4}")) {
            let _ = check(name, number, format, &damaged);
        }
        // What is in the archive is damaged while the archive is not.
        for (place, (part, bytes)) in parts.iter().enumerate() {
            if bytes.is_empty()
                || !(part.ends_with("ml") || part.ends_with(".rels") || part.ends_with(".opf"))
            {
                continue;
            }
            for (number, damaged) in (1000 * (place + 1)..).zip(damaged(bytes, nested[place % nested.len()]))
            {
                let mut parts = parts.clone();
                parts[place].1 = damaged;
                let _ = check(name, number, format, &packed(&parts));
            }
        }
    }
}

#[test]
fn damaged_files_that_are_packed_are_refused_or_read() {
    for Kind { name, format, file, opens } in
        texts().into_iter().filter(|kind| ["md", "1", "csv"].contains(&kind.name))
    {
        let whole = gzipped(&file);
        assert_eq!(check(name, 0, format, &whole), Ok(()));
        for (number, damaged) in (1..).zip(damaged(&whole, "\u{1f}\u{8b}")) {
            let _ = check(name, number, format, &damaged);
        }
        for (number, damaged) in (100..).zip(damaged(&file, opens)) {
            let _ = check(name, number, format, &gzipped(&damaged));
        }
    }
    let bomb = gzipped(&vec![b' '; 65 << 20]);
    assert!(matches!(check("gz", 0, Format::Text, &bomb), Err(ExtractError::TooLarge(_))));
}

#[test]
fn damaged_pdf_files_are_refused_or_read() {
    let whole = crate::scanned::pdf(&["Herons stand in the lake.", "", "1.1 Owls sit in the wood."]);
    assert_eq!(check("pdf", 0, Format::Pdf, &whole), Ok(()));
    for (number, damaged) in (1..).zip(damaged(&whole, "<</Kids[")) {
        let _ = check("pdf", number, Format::Pdf, &damaged);
    }
}
