use proptest::prelude::*;

use super::*;
use crate::Language;

fn chunks(format: Format, text: &str) -> Vec<Chunk> {
    chunk(format, text, &Extracted::default()).unwrap()
}

fn texts(format: Format, text: &str) -> Vec<String> {
    chunks(format, text).into_iter().map(|chunk| text[chunk.range].to_owned()).collect()
}

#[test]
fn markdown_is_cut_at_headings_and_keeps_their_path() {
    let text = "# Book\n\nIntro.\n\n## Part\n\n### Deep\n\nWords here.\n\n## Other `code`\n\nMore.\n";
    let found = chunks(Format::Markdown, text);
    let told: Vec<_> = found
        .iter()
        .map(|chunk| (chunk.headings.join(" › "), chunk.lines, &text[chunk.range.clone()]))
        .collect();
    let expected = [
        ("Book".into(), (1, 3), "# Book\n\nIntro."),
        ("Book › Part › Deep".into(), (7, 9), "### Deep\n\nWords here."),
        ("Book › Other code".into(), (11, 13), "## Other `code`\n\nMore."),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_function_that_fits_is_never_cut_and_has_its_comment() {
    let function = |number: usize| {
        let body = format!("    let value = compute({number}, \"{}\");\n", "x".repeat(40)).repeat(6);
        format!("/// Says {number}.\n#[inline]\nfn number_{number}() -> u32 {{\n{body}    value\n}}\n\n")
    };
    let text: String = (0..8).map(function).collect();
    let found = texts(Format::Code(Language::Rust), &text);
    for number in 0..8 {
        let whole = function(number);
        assert!(found.iter().any(|chunk| chunk.contains(whole.trim())), "{number} is cut: {found:#?}");
    }
}

#[test]
fn a_class_that_does_not_fit_is_cut_between_its_methods_and_names_itself() {
    let method = |number: usize| {
        format!("    def method_{number}(self):\n{}\n", format!("        self.call({number})\n").repeat(15))
    };
    let text = format!("import os\n\nclass Archive:\n{}", (0..6).map(method).collect::<String>());
    let found = chunks(Format::Code(Language::Python), &text);
    let last = found.last().unwrap();
    assert_eq!(last.headings, ["Archive"]);
    let last = &text[last.range.clone()];
    assert!(last.starts_with("def method_") && last.contains("def method_5"), "{last:?}");
}

#[test]
fn every_language_is_cut_by_its_tree() {
    let languages = [
        (Language::C, "int f(void) { return 1; }"),
        (Language::Cpp, "namespace a { class B { int f() { return 1; } }; }"),
        (Language::Go, "package a\nfunc F() int { return 1 }"),
        (Language::Java, "class A { int f() { return 1; } }"),
        (Language::JavaScript, "function f() { return 1; }"),
        (Language::TypeScript, "function f(a: number): number { return a; }"),
        (Language::Tsx, "const A = () => <b>x</b>;"),
        (Language::CSharp, "class A { int F() { return 1; } }"),
    ];
    for (language, code) in languages {
        assert_eq!(texts(Format::Code(language), code), [code], "{language:?}");
        let many = format!("{code}\n").repeat(200);
        assert!(texts(Format::Code(language), &many).iter().all(|chunk| chunk.len() <= CODE_BYTES));
    }
}

#[test]
fn blocks_of_a_language_without_a_grammar_stay_whole() {
    let column = |number: usize| format!("    column_{number} integer NOT NULL DEFAULT {number},\n\n");
    let table = |name: &str| {
        let columns: String = (0..11).map(column).collect();
        format!("-- Keeps the {name}.\nCREATE TABLE {name} (\n{columns}    id integer PRIMARY KEY\n\n);")
    };
    let function = |name: &str| {
        let body = format!("  total += {name}_of(1, 2, 3, 4)\n\n").repeat(16);
        format!("# Counts the {name}.\ndef count_{name}\n{body}end")
    };
    for (language, comment, blocks) in [
        (Language::Sql, "--", [table("herons"), table("owls")]),
        (Language::Ruby, "#", [function("herons"), function("owls")]),
    ] {
        for block in &blocks {
            assert!((500..CODE_BYTES).contains(&block.len()), "{language:?}: {}", block.len());
        }
        let text = blocks.join("\n\n");
        assert!(text.len() > CODE_BYTES, "{language:?}");
        assert_eq!(texts(Format::Code(language), &text), blocks, "{language:?}");
        // However much stands before, the last line of a block does not go with the next block.
        for before in (0..300).step_by(2) {
            let text = format!("{comment} {}\n\n{text}", "x".repeat(before));
            let found = texts(Format::Code(language), &text);
            let is_whole = |block: &String| found.iter().any(|chunk| chunk.contains(block));
            assert!(blocks.iter().all(is_whole), "{language:?}, {before}: {found:#?}");
        }
    }
}

#[test]
fn a_heading_is_no_passage_of_its_own_where_its_section_is_cut() {
    let sentences = "The mill grinds what the wind brings to it. ".repeat(60);
    for section in [sentences.clone(), "风车把风带来的东西磨成粉。".repeat(100)] {
        let text = format!("Chapter 3. The Glockenspiel\n\n{section}\n\nThe End");
        let found = texts(Format::Text, &text);
        assert!(found.len() > 2 && found[0].starts_with("Chapter 3."), "{found:#?}");
        assert!(found[0].len() > 800, "{}", found[0]);
    }
    let text = format!("# Mills\n\n## The Glockenspiel\n\n{sentences}\n");
    let found = texts(Format::Markdown, &text);
    assert!(found[0].starts_with("## The Glockenspiel") && found[0].len() > 800, "{found:#?}");
}

#[test]
fn pages_are_told_and_not_mixed() {
    let text = "first page\n\nsecond page";
    let extracted = Extracted { pages: vec![0..10, 12..23], ..Extracted::default() };
    let found = chunk(Format::Pdf, text, &extracted).unwrap();
    let told: Vec<_> = found.iter().map(|chunk| (chunk.page, &text[chunk.range.clone()])).collect();
    assert_eq!(told, [(Some(1), "first page"), (Some(2), "second page")]);
}

#[test]
fn hostile_nesting_does_not_overflow() {
    for language in [Language::Rust, Language::Cpp, Language::JavaScript] {
        let text = format!("fn f() {{ {}1{} }}", "(".repeat(20_000), ")".repeat(20_000));
        assert!(!chunks(Format::Code(language), &text).is_empty());
    }
    chunks(Format::Markdown, &"> ".repeat(20_000));
}

proptest! {
    #[test]
    fn nothing_but_white_space_is_lost_and_nothing_is_too_long(
        text in "([a-z]{1,30}[ .\n]{1,3}|[#`*>-]{1,3} ?|ä{1,700}|\\PC{0,5}){0,60}",
        format in prop_oneof![
            Just(Format::Text), Just(Format::Json), Just(Format::Code(Language::Rust)), Just(Format::Code(Language::Python))
        ],
    ) {
        let found = chunks(format, &text);
        let mut end = 0;
        for chunk in &found {
            prop_assert!(text[end..chunk.range.start].trim().is_empty(), "lost {:?}", &text[end..chunk.range.start]);
            prop_assert!(chunk.range.len() <= PROSE_BYTES);
            end = chunk.range.end;
        }
        prop_assert!(text[end..].trim().is_empty());
    }
}

#[test]
fn headings_are_cut_before_every_chunk_carries_them() {
    let header = "column é,".repeat(100_000);
    let text = header + "\n" + &"words of a row\n".repeat(10_000);
    let extracted = Extracted { blocks: crate::table::blocks(Format::Csv, &text), ..Extracted::default() };
    let found = chunk(Format::Csv, &text, &extracted).unwrap();
    assert!(found.len() > 100);
    for chunk in found {
        assert!(chunk.headings[0].len() <= 600 && chunk.headings[0].ends_with('…'), "{:?}", chunk.headings);
    }
    let outer = "long ".repeat(100);
    let found = chunks(Format::Markdown, &format!("# {outer}\n\n## {outer}\n\n### Inner\n\nWords.\n"));
    assert_eq!(found[0].headings, ["…", outer.trim(), "Inner"]);
}

#[test]
fn a_text_of_nothing_but_headings_is_refused_before_it_takes_the_memory() {
    let text = format!("# {}\n\n", "long ".repeat(110)) + &"## a\n\nb\n\n".repeat(600_000);
    assert_eq!(chunk(Format::Markdown, &text, &Extracted::default()), Err(ExtractError::TooManyHeadings));
}

#[test]
fn what_a_note_says_about_itself_is_no_passage_unless_it_is_all() {
    let metadata = "---\ntags: [cake]\ndate: 2021-03-04\n---\n";
    let note = format!("{metadata}\n# Cake\n\nApples and sugar.\n");
    assert_eq!(texts(Format::Markdown, &note), ["# Cake\n\nApples and sugar."]);
    assert_eq!(chunks(Format::Markdown, &note)[0].lines, (6, 8));
    assert_eq!(texts(Format::Markdown, metadata).len(), 1);
}
