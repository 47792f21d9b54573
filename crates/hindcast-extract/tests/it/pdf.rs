//! Debian's reference and its FAQ as PDF, which have bookmarks, a table of contents and running titles; and files that are made to
//! hurt.

use std::{
    collections::HashMap,
    io::{Read as _, Write as _},
    path::Path,
    process::Command,
};

use flate2::{Compression, read::GzDecoder, write::ZlibEncoder};
use hindcast_extract::{Chunk, ExtractError, Format, Role, extract};
use pdf_extract::{Document, Object, ObjectId, Outline, decode_text_string};

use crate::{Read, documents, read, scanned::file};

/// The reference in a language, and the letters of each of its pages.
fn reference(folder: &Path, language: &str) -> (Read, Vec<String>) {
    let path = folder.join(format!("usr/share/debian-reference/debian-reference.{language}.pdf"));
    (read(&path), pages(&path))
}

/// The letters of every page as poppler reads them, in the order in which the file has its text. It leaves out what runs off the
/// edge of a page, such as long paths, so the pages are made larger first.
fn pages(path: &Path) -> Vec<String> {
    let mut document = Document::load(path).unwrap();
    for dictionary in document.objects.values_mut().filter_map(|object| object.as_dict_mut().ok()) {
        if dictionary.has(b"MediaBox") {
            dictionary.set("MediaBox", [-2000, -2000, 4000, 4000].map(Object::from).to_vec());
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large.pdf");
    document.save(&large).unwrap();
    let output = Command::new("pdftotext").arg("-raw").arg(large).arg("-").output();
    let output = output.expect("`pdftotext` is missing · hint: install poppler-utils");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // Behind every page stands its end.
    text.split_terminator('\u{c}').map(letters).collect()
}

/// Letters and digits: readers differ in white space, hyphens and ligatures.
fn letters(text: &str) -> String {
    let text = text.replace('ﬀ', "ff").replace('ﬁ', "fi").replace('ﬂ', "fl").replace('ﬃ', "ffi");
    text.chars().filter(|character| character.is_alphanumeric()).collect()
}

/// Every passage stands as a whole on the page that it is told to be on.
fn check_pages(read: &Read, pages: &[String]) {
    assert_eq!(read.extracted.pages.len(), pages.len());
    let page_of = |chunk: &Chunk| usize::try_from(chunk.page.unwrap()).unwrap();
    let is_elsewhere = |(text, chunk): &&(String, Chunk)| !pages[page_of(chunk) - 1].contains(&letters(text));
    let wrong: Vec<_> = read.chunks.iter().filter(is_elsewhere).collect();
    let (count, first) = (wrong.len(), wrong.iter().take(5).collect::<Vec<_>>());
    assert_eq!(count, 0, "of {} passages, such as {first:#?}", read.chunks.len());
}

#[test]
fn headings_and_pages_are_told_and_the_contents_are_not_searched() {
    let Some(folder) = documents() else { return };
    let (read, pages) = reference(&folder, "en");
    check_pages(&read, &pages);
    assert!(read.extracted.pages.len() > 200, "{}", read.extracted.pages.len());
    let with_heading = read.chunks.iter().filter(|(_, chunk)| !chunk.headings.is_empty()).count();
    assert!(with_heading * 10 > read.chunks.len() * 9, "{with_heading} of {}", read.chunks.len());
    let leads = |text: &str| text.lines().filter(|line| line.contains(". . . . .")).count();
    let contents = read.chunks.iter().filter(|(text, _)| leads(text) > 3).count();
    assert!(contents * 100 < read.chunks.len(), "{contents} of {}", read.chunks.len());
    let (_, hostname) = read
        .chunks
        .iter()
        .find(|(_, chunk)| {
            chunk.headings.last().is_some_and(|heading| heading.contains("The hostname resolution"))
        })
        .expect("a section of chapter 5");
    assert!(hostname.page.is_some());
    assert!(
        hostname.headings.iter().any(|heading| heading.contains("Network setup")),
        "{:?}",
        hostname.headings
    );
}

/// They have their letters in fonts of their own.
#[test]
fn passages_in_other_languages_stand_on_their_pages() {
    let Some(folder) = documents() else { return };
    if std::env::var_os("HINDCAST_ORACLES").is_none_or(|oracles| oracles != "full") {
        return;
    }
    for language in ["de", "fr", "ja"] {
        let (read, pages) = reference(&folder, language);
        check_pages(&read, &pages);
    }
}

/// A title of the outline with those above it, and its page.
pub(crate) type Entry = (Vec<String>, u64);

/// The outline of a file, as the library reads it, which trusts it.
pub(crate) fn outline(path: &Path) -> Vec<Entry> {
    let document = Document::load(path).unwrap();
    let tree = document.get_outlines(None, None, &mut Default::default()).unwrap().unwrap();
    let pages = document.get_pages().into_iter().map(|(number, id)| (id, u64::from(number))).collect();
    let mut entries = Vec::new();
    add_entries(&tree, &[], &pages, &mut entries);
    entries
}

fn add_entries(tree: &[Outline], above: &[String], pages: &HashMap<ObjectId, u64>, entries: &mut Vec<Entry>) {
    let mut last = above.to_vec();
    for part in tree {
        match part {
            Outline::Destination(destination) => {
                let title = decode_text_string(destination.title().unwrap()).unwrap();
                let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
                last = [above, &[title]].concat();
                let page = destination.page().unwrap().as_reference().unwrap();
                entries.push((last.clone(), pages[&page]));
            }
            Outline::SubOutlines(below) => add_entries(below, &last, pages, entries),
        }
    }
}

/// Letters without case, also of ligatures.
pub(crate) fn folded(text: &str) -> String {
    let letters = text.chars().filter(|character| character.is_alphabetic());
    letters.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Every passage that begins with a title of its page, maybe behind `7.9` or `Chapter 7`, stands under it and those above it. Gives
/// how many do.
fn check_headings(read: &Read, outline: &[Entry]) -> usize {
    let mut checked = 0;
    for (text, chunk) in &read.chunks {
        let words: Vec<_> = text.split_whitespace().take(60).collect();
        let is_numbered = |from: usize| {
            words[..from].iter().all(|word| {
                word.starts_with(|character: char| character.is_ascii_digit())
                    || ["Chapter", "Kapitel", "Appendix", "Anhang", "A", "B"].contains(word)
            })
        };
        let begins = |(path, page): &&Entry| {
            let title = folded(path.last().unwrap());
            *page == chunk.page.unwrap()
                && (0..words.len().min(3))
                    .any(|from| is_numbered(from) && folded(&words[from..].join(" ")).starts_with(&title))
        };
        let longest =
            outline.iter().filter(begins).max_by_key(|(path, _)| folded(path.last().unwrap()).len());
        let Some((path, _)) = longest else { continue };
        assert!(chunk.headings == *path, "{path:?}, but {:?} above {text}", chunk.headings);
        checked += 1;
    }
    checked
}

#[test]
fn titles_over_several_lines_are_headings_and_running_titles_are_left_out() {
    let Some(folder) = documents() else { return };
    let unpacked = tempfile::tempdir().unwrap();
    for (language, virtual_package) in
        [("en", "What is a Virtual Package?"), ("de", "Was ist ein virtuelles Paket?")]
    {
        let packed = folder.join(format!("usr/share/doc/debian/FAQ/debian-faq.{language}.pdf.gz"));
        let path = unpacked.path().join(format!("faq.{language}.pdf"));
        let mut bytes = Vec::new();
        GzDecoder::new(&*std::fs::read(packed).unwrap()).read_to_end(&mut bytes).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let read = read(&path);
        check_pages(&read, &pages(&path));
        let outline = outline(&path);
        let (checked, all) = (check_headings(&read, &outline), outline.len());
        assert!(checked * 10 > all * 7, "{language}: {checked} of {all}");
        let runs = |text: &str| {
            let running = ["CHAPTER ", "KAPITEL ", "CONTENTS", "INHALTSVERZEICHNIS"];
            text.lines().any(|line| running.iter().any(|title| line.trim().starts_with(title)))
                || text.trim().chars().all(|character| character.is_numeric())
        };
        let running: Vec<_> = read.chunks.iter().filter(|(text, _)| runs(text)).collect();
        assert!(running.is_empty(), "{language}: {running:#?}");
        let under = |chunk: &Chunk| chunk.headings.last().is_some_and(|heading| heading == virtual_package);
        let found = read.chunks.iter().filter(|(_, chunk)| under(chunk)).count();
        assert!((1..=3).contains(&found), "{language}: {found}");
    }
}

/// A file with these objects beside a catalog, its pages and one page with these contents.
fn one_page(contents: &str, resources: &str, catalog: &str, more: &[String]) -> Vec<u8> {
    let mut objects = vec![
        format!("<</Type/Catalog/Pages 2 0 R{catalog}>>"),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        format!("<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<<{resources}>>/Contents 4 0 R>>"),
        stream("", contents),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    objects.extend_from_slice(more);
    file(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

fn stream(dictionary: &str, content: &str) -> String {
    format!("<</Length {}{dictionary}>>stream\n{content}\nendstream", content.len())
}

const HERONS: &str = "BT /F 12 Tf 72 700 Td (Herons stand.) Tj ET";

/// What is said of a file whose bookmarks begin with object 6.
fn with_outline(bookmarks: &[String]) -> Vec<Vec<String>> {
    let outline = [vec!["<</First 7 0 R>>".to_owned()], bookmarks.to_vec()].concat();
    let bytes = one_page(HERONS, "/Font<</F 5 0 R>>", "/Outlines 6 0 R", &outline);
    let extracted = extract(Format::Pdf, &bytes).unwrap();
    let text = extracted.text.clone().unwrap();
    assert_eq!(text, "Herons stand.");
    let chunks = hindcast_extract::chunk(Format::Pdf, &text, &extracted).unwrap();
    chunks.into_iter().map(|chunk| chunk.headings).collect()
}

#[test]
fn an_outline_that_leads_back_to_itself_ends() {
    let bookmark = |title: &str, more: &str| format!("<</Title({title})/Dest[3 0 R/Fit]{more}>>");
    let round = [
        bookmark("Birds", "/First 8 0 R/Next 7 0 R"),
        bookmark("Large birds", "/First 7 0 R/Next 9 0 R"),
        bookmark("Small birds", "/First 9 0 R/Next 8 0 R"),
    ];
    assert_eq!(with_outline(&round), [["Birds", "Small birds"]]);
}

#[test]
fn an_outline_is_bounded_in_depth_number_and_titles() {
    let deep: Vec<_> =
        (8..3_008).map(|next| format!("<</Title(Level {next})/Dest[3 0 R/Fit]/First {next} 0 R>>")).collect();
    assert_eq!(with_outline(&deep)[0].len(), 10);
    // Only the last leads to a page.
    let many = |count: usize| {
        let mut many: Vec<_> =
            (8..7 + count).map(|next| format!("<</Title(Number {next})/Next {next} 0 R>>")).collect();
        many.push("<</Title(Last)/Dest[3 0 R/Fit]>>".to_owned());
        many
    };
    assert_eq!(with_outline(&many(20_000)), [["Last"]]);
    assert_eq!(with_outline(&many(20_001)), [[""; 0]]);
    let long = format!("<</Title({})/Dest[3 0 R/Fit]>>", "long ".repeat(1_000_000));
    let outline = ["<</First 7 0 R>>".to_owned(), long];
    let bytes = one_page(HERONS, "/Font<</F 5 0 R>>", "/Outlines 6 0 R", &outline);
    let blocks = extract(Format::Pdf, &bytes).unwrap().blocks;
    let Role::Heading { name, .. } = &blocks[0].role else { panic!("{blocks:?}") };
    assert_eq!(name, "long ".repeat(200).trim_end());
    assert_eq!(with_outline(&["<</Title 7 0 R/Dest 7 0 R/A 7 0 R/Next 7 0 R>>".to_owned()]), [[""; 0]]);
}

#[test]
fn a_bookmark_that_is_not_found_does_not_take_the_page_behind_the_next_one() {
    let page = |contents: usize| {
        format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 4 0 R>>>>/Contents {contents} 0 R>>"
        )
    };
    let bookmark = |title: &str, next: &str| format!("<</Title({title})/Dest[3 0 R/Fit]{next}>>");
    let lines = |lines: &[&str]| {
        let lines: String = lines.iter().map(|line| format!("0 -40 Td ({line}) Tj ")).collect();
        stream("", &format!("BT /F 12 Tf 72 700 Td {lines}ET"))
    };
    let objects = [
        "<</Type/Catalog/Pages 2 0 R/Outlines 8 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R 5 0 R]/Count 2>>".to_owned(),
        page(6),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
        page(7),
        lines(&["Herons", "They stand.", "Owls", "They sit."]),
        lines(&["They hoot."]),
        "<</First 9 0 R>>".to_owned(),
        bookmark("Herons", "/Next 10 0 R"),
        bookmark("Ducks", "/Next 11 0 R"),
        bookmark("Owls", ""),
    ];
    let extracted = extract(Format::Pdf, &file(&objects.map(String::into_bytes))).unwrap();
    let text = extracted.text.clone().unwrap();
    let chunks = hindcast_extract::chunk(Format::Pdf, &text, &extracted).unwrap();
    let told: Vec<_> =
        chunks.iter().map(|chunk| (&text[chunk.range.clone()], chunk.headings.join(" > "))).collect();
    let expected = [
        ("Herons\n\nThey stand.", "Herons".to_owned()),
        ("Owls\n\nThey sit.", "Owls".to_owned()),
        ("They hoot.", "Owls".to_owned()),
    ];
    assert_eq!(told, expected);
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn bytes_stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let mut stream = format!("<</Length {}{dictionary}>>stream\n", content.len()).into_bytes();
    stream.extend_from_slice(content);
    stream.extend_from_slice(b"\nendstream");
    stream
}

/// A file whose only page has this stream as object 4.
fn with_contents(stream: Vec<u8>, contents: &str) -> Vec<u8> {
    let page = "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 5 0 R>>>>/Contents";
    let objects = [
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
        format!("{page} {contents}>>").into_bytes(),
        stream,
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_vec(),
        b"4 0 R".to_vec(),
    ];
    file(&objects)
}

/// A file whose only page has packed contents.
fn packed(content: &[u8], times: usize) -> Vec<u8> {
    let mut content = content.to_vec();
    for _ in 0..times {
        content = compressed(&content);
    }
    let filters = "/FlateDecode".repeat(times);
    with_contents(bytes_stream(&format!("/Filter[{filters}]"), &content), "4 0 R")
}

/// Rows of so many bytes, each as the difference to the one above it.
fn with_predictor(content: &[u8], columns: usize) -> Vec<u8> {
    let (mut above, mut rows) = (vec![0; columns], Vec::new());
    for row in content.chunks(columns) {
        rows.push(2);
        let row: Vec<u8> = row.iter().copied().chain(std::iter::repeat(b' ')).take(columns).collect();
        rows.extend(row.iter().zip(&above).map(|(byte, above)| byte.wrapping_sub(*above)));
        above = row;
    }
    rows
}

#[test]
fn streams_of_differences_between_rows_are_read_and_counted_as_the_library_reads_them() {
    let filters = |filters: &str| format!("/Filter[{filters}]/DecodeParms<</Predictor 12/Columns 7>>");
    let rows = |content: &[u8]| compressed(&with_predictor(content, 7));
    let text = bytes_stream(&filters("/FlateDecode"), &rows(HERONS.as_bytes()));
    assert_eq!(extract(Format::Pdf, &with_contents(text, "4 0 R")).unwrap().text.unwrap(), "Herons stand.");
    let dictionary = format!("/Type/ObjStm/N 1/First 4{}", filters("/FlateDecode"));
    let objects = [
        b"<</Type/Catalog/Pages 6 0 R>>".to_vec(),
        bytes_stream(&dictionary, &rows(b"6 0 <</Type/Pages/Kids[3 0 R]/Count 1>>")),
        b"<</Type/Page/MediaBox[0 0 612 792]/Resources<</Font<</F 5 0 R>>>>/Contents 4 0 R>>".to_vec(),
        stream("", HERONS).into_bytes(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_vec(),
    ];
    assert_eq!(extract(Format::Pdf, &file(&objects)).unwrap().text.unwrap(), "Herons stand.");
}

#[test]
fn a_small_file_in_disguise_is_refused() {
    let much = [HERONS.as_bytes(), &b" ".repeat(20 << 20)].concat();
    let twice = compressed(&with_predictor(&compressed(&with_predictor(&much, 1000)), 1000));
    let parameters = "/Filter[/FlateDecode/FlateDecode]/DecodeParms<</Predictor 12/Columns 1000>>";
    let once = bytes_stream("/Filter/FlateDecode", &compressed(&much));
    for bytes in [
        with_contents(bytes_stream(parameters, &twice), "4 0 R"),
        // Object 6 is a reference to object 4.
        with_contents(once, "[6 0 R]"),
    ] {
        let error = extract(Format::Pdf, &bytes).unwrap_err();
        assert_eq!(error, ExtractError::UnpacksToMore { megabytes: 16 });
    }
}

#[test]
fn a_page_with_parents_without_end_is_refused() {
    let parents = (4..20_000).map(|parent| format!("<</Type/Pages/Parent {} 0 R>>", parent + 1));
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 4 0 R/MediaBox[0 0 612 792]>>".to_owned(),
    ];
    let objects: Vec<_> = objects.into_iter().chain(parents).map(String::into_bytes).collect();
    let error = extract(Format::Pdf, &file(&objects)).unwrap_err();
    assert_eq!(error, ExtractError::UnpacksToMore { megabytes: 16 });
}

#[test]
fn a_small_file_that_unpacks_to_much_is_refused() {
    let text = packed(HERONS.as_bytes(), 3);
    assert_eq!(extract(Format::Pdf, &text).unwrap().text.unwrap(), "Herons stand.");
    for (content, times) in [(b"q ".repeat(35 << 20), 3), (HERONS.repeat(1 << 19).into_bytes(), 1)] {
        let bytes = packed(&content, times);
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let error = extract(Format::Pdf, &bytes).unwrap_err();
        assert!(matches!(error, ExtractError::UnpacksToMore { .. }), "{error}");
        assert!(error.to_string().contains("hint: "), "{error}");
    }
}

#[test]
fn forms_that_draw_forms_are_refused_when_they_draw_too_much() {
    // Objects 6 to 15 draw the next one each.
    let forms = |times: usize, last: &str| {
        let draws = "/X Do ".repeat(times);
        let form = |next: usize| {
            let resources = format!("/Type/XObject/Subtype/Form/Resources<</XObject<</X {next} 0 R>>>>");
            stream(&resources, &draws)
        };
        let mut forms: Vec<_> = (7..16).map(form).collect();
        forms.push(stream(
            "/Type/XObject/Subtype/Form/Resources<</Font<</F 5 0 R>>/XObject<</X 6 0 R>>>>",
            last,
        ));
        one_page("/X Do", "/XObject<</X 6 0 R>>", "", &forms)
    };
    assert_eq!(extract(Format::Pdf, &forms(1, HERONS)).unwrap().text.unwrap(), "Herons stand.");
    for bytes in [forms(100, HERONS), forms(1, "/X Do")] {
        let error = extract(Format::Pdf, &bytes).unwrap_err();
        assert!(matches!(error, ExtractError::UnpacksToMore { .. }), "{error}");
    }
}

#[test]
fn a_damaged_form_does_not_cost_the_text_before_it() {
    let text = format!("{HERONS} /X Do");
    // Behind `EI` is no white space.
    let form = stream("/Type/XObject/Subtype/Form", "BI /W 1/H 1/BPC 8/CS/G/F/AHx ID FF>\nEI");
    let bytes = one_page(&text, "/Font<</F 5 0 R>>/XObject<</X 6 0 R>>", "", &[form]);
    let text = extract(Format::Pdf, &bytes).unwrap().text.unwrap();
    assert_eq!(text, "Herons stand.\n\n[the rest of page 1 cannot be read]");
}

#[test]
fn a_password_that_is_missing_is_told() {
    let mut document = Document::load_mem(&one_page(HERONS, "/Font<</F 5 0 R>>", "", &[])).unwrap();
    document.trailer.set(
        "ID",
        vec![Object::string_literal("0123456789abcdef"), Object::string_literal("0123456789abcdef")],
    );
    let version = pdf_extract::EncryptionVersion::V2 {
        document: &document,
        owner_password: "owner",
        user_password: "user",
        key_length: 128,
        permissions: pdf_extract::Permissions::all(),
    };
    let state = pdf_extract::EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    let error = extract(Format::Pdf, &bytes).unwrap_err();
    assert_eq!(error, ExtractError::Protected);
    assert!(error.to_string().starts_with("it is protected by a password · hint: "), "{error}");
}
