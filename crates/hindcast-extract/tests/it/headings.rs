//! Headings of PDFs that have no outline, which only the size of their letters tells.

use hindcast_extract::{Block, Extracted, Format, Role, chunk, extract};
use pdf_extract::Document;

use crate::{
    documents,
    pdf::{folded, outline},
    scanned::file,
};

/// Level, name and page of each heading.
fn headings(extracted: &Extracted) -> Vec<(u8, String, u64)> {
    let page_of = |at: usize| {
        let mut pages = (1..).zip(&extracted.pages);
        pages.find(|(_, page)| page.contains(&at) || page.start == at)
    };
    let heading = |block: &Block| match &block.role {
        Role::Heading { level, name } => Some((*level, name.clone(), page_of(block.range.start)?.0)),
        _ => None,
    };
    extracted.blocks.iter().filter_map(heading).collect()
}

/// A title without its number.
fn unnumbered(name: &str) -> String {
    let words: Vec<_> = name.split_whitespace().collect();
    let is_name_of_a_part = |word: &&&str| {
        ["Chapter", "Kapitel", "Chapitre", "Appendix", "Anhang", "Annexe", "付録"].contains(word)
    };
    let is_number =
        |word: &&&str| word.contains(|char: char| char.is_ascii_digit()) || ["A", "B"].contains(word);
    let named = words.iter().take_while(is_name_of_a_part).count();
    let numbered = words[named..].iter().take(1).filter(is_number).count();
    folded(&words[named + numbered..].join(" "))
}

/// The outline itself is taken away and is what the headings are measured by.
#[test]
fn headings_by_size_are_those_that_the_outline_names() {
    let Some(folder) = documents() else { return };
    let is_full = std::env::var_os("HINDCAST_ORACLES").is_some_and(|oracles| oracles == "full");
    let languages: &[&str] = if is_full { &["en", "de", "fr", "ja"] } else { &["en"] };
    for language in languages {
        let path = folder.join(format!("usr/share/debian-reference/debian-reference.{language}.pdf"));
        let expected: Vec<_> = outline(&path)
            .into_iter()
            .map(|(titles, page)| (unnumbered(titles.last().unwrap()), page))
            .collect();
        let mut document = Document::load(&path).unwrap();
        document.catalog_mut().unwrap().remove(b"Outlines");
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        let found: Vec<_> = headings(&extract(Format::Pdf, &bytes).unwrap())
            .into_iter()
            .map(|(_, name, page)| (unnumbered(&name), page))
            .collect();
        let right = found.iter().filter(|heading| expected.contains(heading)).count();
        let told = expected.iter().filter(|title| found.contains(title)).count();
        let measured = format!(
            "{language}: {right} of {} are right, {told} of {} are found",
            found.len(),
            expected.len()
        );
        // The preface is not in the outline.
        assert!(right * 100 >= found.len() * 95, "{measured}");
        assert!(told * 100 >= expected.len() * 97, "{measured}");
        let chapters = found.iter().filter(|(name, _)| name == "networksetup").count();
        assert!(*language != "en" || chapters == 1, "{chapters}");
    }
}

/// A file whose pages have these lines, each as large as it says; an empty one leaves room.
fn pdf(pages: &[&[(u32, &str)]]) -> Vec<u8> {
    let contents = |lines: &&[(u32, &str)]| {
        let mut y = 760.0;
        let mut content = "BT ".to_owned();
        for (size, text) in *lines {
            y -= f64::from(*size) * 1.2;
            content += &format!("/F {size} Tf 1 0 0 1 72 {y:.1} Tm ({text}) Tj ");
        }
        content + "ET"
    };
    with_contents(&pages.iter().map(contents).collect::<Vec<_>>(), "")
}

fn with_contents(pages: &[String], catalog: &str) -> Vec<u8> {
    let kids: Vec<_> = (0..pages.len()).map(|page| format!("{} 0 R", 4 + page * 2)).collect();
    let mut objects = vec![
        format!("<</Type/Catalog/Pages 2 0 R{catalog}>>"),
        format!("<</Type/Pages/Kids[{}]/Count {}>>", kids.join(" "), pages.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
    ];
    for content in pages {
        let page = objects.len() + 1;
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F 3 0 R>>>>/Contents {} 0 R>>",
            page + 1
        ));
        objects.push(format!("<</Length {}>>stream\n{content}\nendstream", content.len()));
    }
    file(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

fn told(bytes: &[u8]) -> Vec<String> {
    let headings = headings(&extract(Format::Pdf, bytes).unwrap());
    headings.into_iter().map(|(level, name, page)| format!("{level} {name} p{page}")).collect()
}

const HERONS: (u32, &str) = (10, "Herons stand in the water and wait until a fish comes by.");
const OWLS: (u32, &str) = (10, "Owls sleep by day and hunt by night, which few have seen.");
const ROOM: (u32, &str) = (10, "");

#[test]
fn headings_without_an_outline_are_told_by_their_size() {
    let first = [
        (24, "Birds of the lake"),
        ROOM,
        HERONS,
        ROOM,
        (12, "Part 1"),
        ROOM,
        (18, "Birds that stand and"),
        (18, "those that swim"),
        ROOM,
        (14, "Herons and their legs"),
        HERONS,
        HERONS,
        ROOM,
        (14, "What they eat?"),
        HERONS,
    ];
    let second = [OWLS, OWLS, ROOM, (18, "Birds of the night"), ROOM, OWLS, (11, "Where they sleep"), OWLS];
    let bytes = pdf(&[&first, &second]);
    assert_eq!(
        told(&bytes),
        [
            "1 Birds of the lake p1",
            "2 Part 1 Birds that stand and those that swim p1",
            "3 Herons and their legs p1",
            "3 What they eat? p1",
            "2 Birds of the night p2",
        ],
        "what is hardly larger and has no room before it is none"
    );
    let extracted = extract(Format::Pdf, &bytes).unwrap();
    let chunks = chunk(Format::Pdf, extracted.text.as_ref().unwrap(), &extracted).unwrap();
    let last = chunks.last().unwrap();
    assert_eq!(last.headings, ["Birds of the lake", "Birds of the night"]);
}

#[test]
fn what_is_large_and_no_heading_begins_no_section() {
    let body = [HERONS, OWLS, HERONS, OWLS, HERONS, OWLS];
    let pages: [Vec<(u32, &str)>; 6] = [
        // Labels of a figure.
        vec![(14, "Water"), ROOM, (14, "Fish"), ROOM, (14, "Heron"), ROOM, (14, "Owl")],
        vec![(20, "A cover"), (26, "with much"), (20, "that is"), (26, "large"), (14, "and nothing else")],
        // Sentences, single letters, the contents.
        vec![
            (14, "This goes on for a while and ends as sentences do."),
            HERONS,
            (14, "A"),
            HERONS,
            (14, "B  F"),
        ],
        vec![(14, "Herons . . . . . . . . . 7"), HERONS, (14, "Owls.........12"), HERONS],
        // A box, again and again.
        vec![(12, "Tip"), HERONS, ROOM, (12, "Tip"), OWLS, ROOM],
        vec![(12, "Tip"), HERONS, ROOM, (12, "Tip"), OWLS, ROOM],
    ];
    let pages: Vec<Vec<_>> = pages
        .into_iter()
        .enumerate()
        .map(|(page, lines)| if page == 1 { lines } else { [&lines[..], &body].concat() })
        .collect();
    let pages: Vec<&[_]> = pages.iter().map(Vec::as_slice).collect();
    assert_eq!(told(&pdf(&pages)), [""; 0]);
}

#[test]
fn rows_of_a_table_and_lines_that_are_large_in_part_are_no_headings() {
    let body = "/F 10 Tf 1 0 0 1 72 300 Tm (Herons stand in the water and wait until a fish comes by.) Tj ET";
    for (large, expected) in [
        ("BT /F 14 Tf 1 0 0 1 72 700 Tm (Herons and owls) Tj ", 1),
        ("BT /F 14 Tf 1 0 0 1 72 700 Tm (Herons) Tj 1 0 0 1 300 700 Tm (Owls) Tj ", 0),
        ("BT /F 14 Tf 1 0 0 1 72 700 Tm (H) Tj /F 10 Tf (erons stand) Tj ", 0),
        ("BT /F 14 Tf 0 1 -1 0 72 700 Tm (Herons and owls) Tj ", 0),
    ] {
        assert_eq!(told(&with_contents(&[format!("{large}{body}")], "")).len(), expected, "{large}");
    }
}

#[test]
fn an_outline_tells_more_than_sizes() {
    let text = "BT /F 14 Tf 1 0 0 1 72 700 Tm (Herons) Tj /F 10 Tf 1 0 0 1 72 680 Tm (They stand in water.) Tj \
                1 0 0 1 72 660 Tm (Owls) Tj 1 0 0 1 72 640 Tm (They sleep.) Tj ET";
    let named = "/Outlines<</First 6 0 R>>";
    let with_outline = |title: &str| {
        let file = with_contents(&[text.to_owned()], named);
        let mut document = Document::load_mem(&file).unwrap();
        let entry = pdf_extract::Dictionary::from_iter([
            ("Title", pdf_extract::Object::string_literal(title)),
            ("Dest", vec![(4, 0).into(), pdf_extract::Object::from("Fit")].into()),
        ]);
        document.objects.insert((6, 0), entry.into());
        let mut bytes = Vec::new();
        document.save_to(&mut bytes).unwrap();
        told(&bytes)
    };
    assert_eq!(with_outline("Owls"), ["1 Owls p1"]);
    assert_eq!(told(&with_contents(&[text.to_owned()], "")), ["1 Herons p1"]);
}

#[test]
fn sizes_that_are_made_to_hurt_are_bounded() {
    let mut content = "BT ".to_owned();
    for line in 0..6_000 {
        content += &format!(
            "/F {}.{} Tf 1 0 0 1 72 {} Tm (Owl {line}) Tj\n",
            line % 700 + 1,
            line % 10,
            -line * 900
        );
    }
    content += "/F 99999999999999999999 Tf (Heron) Tj /F -5 Tf (Heron) Tj /F 0 Tf (Heron) Tj ET";
    let extracted = extract(Format::Pdf, &with_contents(&[content], "")).unwrap();
    assert!(extracted.text.unwrap().contains("Owl 5999"));
    let huge = "BT /F 99999 Tf 72 700 Td (Herons) Tj /F 10 Tf 72 100 Td (Owl) Tj ET";
    assert_eq!(told(&with_contents(&[huge.to_owned()], "")), [""; 0]);
}
