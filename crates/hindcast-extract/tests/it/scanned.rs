//! PDF files some or all of whose pages are pictures.

use hindcast_extract::{ExtractError, Extracted, Format, chunk, extract};

/// A file whose pages say this; those that say nothing show a picture.
pub(crate) fn pdf(pages: &[&str]) -> Vec<u8> {
    let mut objects = vec![
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        String::new(),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>".to_owned(),
        "<</Type/XObject/Subtype/Image/Width 1/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 1>>stream\nA\nendstream"
            .to_owned(),
    ];
    let mut kids = String::new();
    for text in pages {
        let page = objects.len() + 1;
        kids += &format!("{page} 0 R ");
        let (resources, content) = match text.is_empty() {
            true => ("/XObject<</I 4 0 R>>", "q 500 0 0 700 0 0 cm /I Do Q".to_owned()),
            false => ("/Font<</F 3 0 R>>", format!("BT /F 12 Tf 72 700 Td ({text}) Tj ET")),
        };
        objects.push(format!(
            "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<<{resources}>>/Contents {} 0 R>>",
            page + 1
        ));
        objects.push(format!("<</Length {}>>stream\n{content}\nendstream", content.len()));
    }
    objects[1] = format!("<</Type/Pages/Kids[{kids}]/Count {}>>", pages.len());
    file(&objects.into_iter().map(String::into_bytes).collect::<Vec<_>>())
}

/// A file with these objects, of which the first is the catalog.
pub(crate) fn file(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut file = b"%PDF-1.4\n".to_vec();
    let mut offsets = Vec::new();
    for (number, object) in (1..).zip(objects) {
        offsets.push(file.len());
        file.extend(format!("{number} 0 obj\n").bytes());
        file.extend_from_slice(object);
        file.extend_from_slice(b"\nendobj\n");
    }
    let table = file.len();
    file.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).bytes());
    for offset in offsets {
        file.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let trailer = format!("trailer<</Size {}/Root 1 0 R>>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1);
    file.extend(trailer.bytes());
    file
}

fn read(pages: &[&str]) -> Extracted {
    extract(Format::Pdf, &pdf(pages)).unwrap()
}

#[test]
fn a_file_of_nothing_but_pictures_says_that_it_is_scanned() {
    let error = extract(Format::Pdf, &pdf(&["", ""])).unwrap_err();
    assert_eq!(error, ExtractError::Scanned(2));
    assert!(error.to_string().starts_with("its 2 pages are images without text"), "{error}");
}

#[test]
fn a_picture_among_pages_of_text_is_told_and_not_searched() {
    let extracted = read(&["Herons stand in the lake.", "", "Owls sit in the wood."]);
    let text = extracted.text.clone().unwrap();
    assert_eq!(
        text.split("\n\n").collect::<Vec<_>>(),
        ["Herons stand in the lake.", "[page 2 is an image without text]", "Owls sit in the wood."]
    );
    let found = chunk(Format::Pdf, &text, &extracted).unwrap();
    let told: Vec<_> = found.iter().map(|chunk| (&text[chunk.range.clone()], chunk.page)).collect();
    assert_eq!(told, [("Herons stand in the lake.", Some(1)), ("Owls sit in the wood.", Some(3))]);
    assert!(!read(&["One", "Two"]).text.unwrap().contains('['));
}

#[test]
fn a_page_that_cannot_be_read_is_told_and_does_not_cost_the_others() {
    let file = String::from_utf8(pdf(&["Herons.", "Gone", "Owls."])).unwrap();
    // A font that nobody has.
    let file = file.replacen("/F 12 Tf 72 700 Td (Gone)", "/X 12 Tf 72 700 Td (Gone)", 1);
    let text = extract(Format::Pdf, file.as_bytes()).unwrap().text.unwrap();
    assert_eq!(text, "Herons.\n\n[page 2 cannot be read]\n\nOwls.");
}
