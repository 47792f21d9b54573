use super::*;
use crate::{Chunk, Format, Role, chunk};

fn text(html: &str) -> String {
    extract(html).unwrap().text.unwrap()
}

fn chunks(html: &str) -> Vec<(String, Chunk)> {
    let extracted = extract(html).unwrap();
    let text = extracted.text.clone().unwrap();
    let found = chunk(Format::Html, &text, &extracted).unwrap();
    found.into_iter().map(|chunk| (text[chunk.range.clone()].to_owned(), chunk)).collect()
}

#[test]
fn a_page_becomes_markdown_without_its_scripts() {
    let page = "<html><head><title>The &amp; page</title><script>evil()</script></head><body><h1>Big</h1>\
                <p>Some <b>bold</b> words.</p><script>alert('x')</script><style>p{}</style><ul><li>one</ul></body>";
    let extracted = extract(page).unwrap();
    assert_eq!(extracted.title.as_deref(), Some("The & page"));
    assert_eq!(extracted.text.as_deref(), Some("# Big\n\nSome bold words.\n\n- one"));
}

#[test]
fn words_have_no_markup_in_them() {
    let page = "<p>Set <code>check_same_thread</code> to <a href='https://example.org/very/long'>a_b*c[1]</a>: \
                <em>not</em> 2 < 3 &amp; x_y.</p>";
    assert_eq!(text(page), "Set `check_same_thread` to a_b*c[1]: not 2 < 3 & x_y.");
}

#[test]
fn preformatted_text_is_code_and_its_comments_are_no_headings() {
    let page = "<h1>Start</h1><div class='highlight-python3 notranslate'><div class='highlight'><pre>\
                <span></span><span class='c1'># Create a cursor</span>\n<span>cur</span> = con.cursor()\n</pre></div></div>\
                <p>After.</p>";
    assert_eq!(text(page), "# Start\n\n```python3\n# Create a cursor\ncur = con.cursor()\n```\n\nAfter.");
    let found = chunks(page);
    assert!(found.iter().all(|(_, chunk)| chunk.headings == ["Start"]), "{found:?}");
}

#[test]
fn what_stands_around_the_content_is_left_out() {
    let links = |count: usize| {
        (0..count).map(|number| format!("<li><a href=x>Link {number}</a>")).collect::<String>()
    };
    let page = format!(
        "<body><header><a href=/>Home</a><a href=/a>About</a></header><div class=sphinxsidebar><ul>{0}</ul></div>\
         <div class=breadcrumbs><a href=/>Up</a></div><div class=content><h1>Real<a class=headerlink href='#r'>¶</a></h1>\
         <p>The content of the page, which is long enough to be what a reader came for.</p>\
         <div class=toc><ul>{0}</ul></div><p>It goes on for a while after the table of contents and says more.</p></div>\
         <div id=footer>Copyright somebody <a href=x>Terms</a></div><footer>© 2020</footer></body>",
        links(3)
    );
    let served = text(&page);
    assert!(served.starts_with("# Real\n\nThe content"), "{served}");
    assert!(!served.contains("Home") && !served.contains("Up") && !served.contains("20"), "{served}");
    assert!(served.contains("- Link 2"), "a reader of the document sees its contents: {served}");
    let found = chunks(&page);
    assert!(found.iter().all(|(text, _)| !text.contains("Link")), "{found:?}");
    assert_eq!(found.len(), 2, "what stands on both sides of the contents is not put together");
}

#[test]
fn headings_and_sections_with_ids_of_such_words_are_content() {
    let long = "Words of the section that a reader came for, one after the other. ".repeat(8);
    let page = format!(
        "<body><nav><a href=/>Home</a></nav><div id=main-menu><a href=a>Start</a> <a href=b>End</a></div>\
         <h1 id=using-structs-to-structure-related-data>Using Structs to Structure Related Data</h1><p>{long}</p>\
         <h2 id=related-macros>Related macros</h2><p>They are short.</p>\
         <section id=window-menu-shell-and-editor><h3>Window menu</h3><p>Opens a window.</p></section>\
         <div class=section id=share><h3>Share</h3><p>Gives <a href=x>a part of it to all others</a>.</p></div>\
         <div id=the-navigation-bar><h2>The navigation bar</h2><p>It is short, too.</p></div>\
         <table id=cookie-fields><tr><th>Field</th></tr><tr><td>Max-Age</td></tr></table>\
         <div id=related><a href=a>Other one</a> <a href=b>Other two</a></div>\
         <div id=share-buttons>Tell others</div></body>"
    );
    let served = text(&page);
    for kept in [
        "# Using Structs to Structure Related Data",
        "## Related macros\n\nThey are short.",
        "### Window menu\n\nOpens a window.",
        "### Share\n\nGives a part",
        "## The navigation bar\n\nIt is short, too.",
        "Max-Age",
    ] {
        assert!(served.contains(kept), "{kept}: {served}");
    }
    for left in ["Home", "Start", "Other one", "Tell others"] {
        assert!(!served.contains(left), "{left}: {served}");
    }
}

#[test]
fn a_page_of_nothing_but_links_is_searched() {
    let page = "<h1>Useful</h1><ul><li><a href=a>Heron pictures</a><li><a href=b>Owl sounds</a><li><a href=c>Kites</a>\
                <li><a href=d>Wrens</a><li><a href=e>Ducks</a></ul>";
    assert!(chunks(page).iter().any(|(text, _)| text.contains("Owl sounds")));
}

#[test]
fn the_main_element_is_preferred_unless_a_script_has_yet_to_fill_it() {
    let long = "Words that say something. ".repeat(20);
    let filled = format!("<body><div>Around</div><main><p>{long}</p></main><div>Below</div>");
    assert_eq!(text(&filled), long.trim());
    let empty = format!("<body><main></main><div><p>{long}</p></div>");
    assert_eq!(text(&empty), long.trim());
}

#[test]
fn tables_keep_their_rows_and_layout_tables_do_not_show() {
    let data = "<table><tr><th>Name</th><th>Size</th></tr><tr><td>a|b</td><td><p>1</p></td></tr></table>";
    assert_eq!(text(data), "| Name | Size |\n| --- | --- |\n| a¦b | 1 |");
    let layout = "<table><tr><td><h2>Left</h2><p>One.</p></td><td><p>Two.</p></td></tr></table>";
    assert_eq!(text(layout), "## Left\n\nOne.\n\nTwo.");
}

#[test]
fn lists_are_numbered_and_nested() {
    let page = "<ol><li><p>One</p><ul><li>inner</ul><li>Two</ol><p>After</p>";
    assert_eq!(text(page), "1. One\n  - inner\n2. Two\n\nAfter");
}

#[test]
fn a_function_of_a_reference_is_a_section_with_its_name() {
    let page = "<h1>sqlite3</h1><dl class='py function'><dt class='sig sig-object py' id=c>sqlite3.connect(\
                <em>database</em>, timeout=5.0)<a class=headerlink>¶</a></dt><dd><p>Opens it.</p></dd></dl>\
                <dl class='py class'><dt class=sig>class sqlite3.Row</dt><dd><p>A row.</p>\
                <dl class='py method'><dt class=sig>keys()</dt><dd><p>Its names.</p></dd></dl></dd></dl><h2>Next</h2><p>x</p>";
    let found: Vec<_> =
        chunks(page).into_iter().map(|(text, chunk)| (chunk.headings.join(" › "), text)).collect();
    let expected = [
        ("sqlite3 › sqlite3.connect", "sqlite3.connect(database, timeout=5.0)\n\nOpens it."),
        ("sqlite3 › class sqlite3.Row", "class sqlite3.Row\n\nA row."),
        ("sqlite3 › class sqlite3.Row › keys", "keys()\n\nIts names."),
        ("sqlite3 › Next", "## Next\n\nx"),
    ];
    assert_eq!(found, expected.map(|(headings, text)| (headings.to_owned(), text.to_owned())));
}

#[test]
fn chunks_tell_the_lines_of_the_source() {
    let page = "<html>\n<head><title>T</title></head>\n<body>\n<h1>One</h1>\n\n<p>First\nparagraph.</p>\n<h2>Two</h2>\n\
                <pre>\na\nb\n</pre>\n</body>";
    let found: Vec<_> = chunks(page).into_iter().map(|(_, chunk)| chunk.lines).collect();
    assert_eq!(found, [(4, 7), (8, 11)], "where their words are");
}

#[test]
fn a_paragraph_of_several_lines_begins_on_its_first() {
    let words = "many words of a long paragraph that fills its line, and then some more of them ".repeat(2);
    let paragraph = |number: usize| {
        format!("<p>Paragraph {number} begins here,\n{}\nand ends.</p>\n", [&*words; 6].join("\n"))
    };
    let page = format!("<body>\n{}</body>", (0..12).map(paragraph).collect::<String>());
    let lines: Vec<&str> = page.lines().collect();
    let found = chunks(&page);
    assert!(found.len() > 3, "{}", found.len());
    for (text, chunk) in found {
        let (first, last) = (lines[chunk.lines.0 as usize - 1], lines[chunk.lines.1 as usize - 1]);
        let begins = text.trim_start().split(',').next().unwrap_or_default();
        assert!(first.contains(begins), "{:?}: {first} does not begin with {begins}", chunk.lines);
        assert!(last.contains("and ends."), "{:?}: {last}", chunk.lines);
    }
}

#[test]
fn end_tags_may_be_left_out_and_deep_nesting_is_refused() {
    let flat = "<dl>".to_owned() + &"<dt>term<dd>meaning <br> <img src=x> <p>more".repeat(10_000);
    assert!(extract(&flat).is_ok());
    let options = "<table>".to_owned() + &"<tr><td>1<td>2<thead><tbody>".repeat(5_000);
    assert!(extract(&options).is_ok());
    assert!(extract(&"<div>".repeat(600)).is_ok(), "ugly, and a page");
    assert!(extract(&"<div>".repeat(100_000)).is_err());
}

#[test]
fn a_page_that_only_leads_elsewhere_is_not_taken_in() {
    let page =
        "<meta http-equiv=refresh content='0;URL=../x.html'><body><p>Redirecting to <a href=x>x</a>...</p>";
    assert_eq!(extract(page), Err(ExtractError::Redirect));
}

#[test]
fn roles_cover_what_is_served_in_order() {
    let extracted = extract("<h1>A</h1><p>b<p>c<div class=toc><a href=x>d</a></div>").unwrap();
    let roles: Vec<_> = extracted.blocks.iter().map(|block| &block.role).collect();
    let heading = Role::Heading { level: 1, name: "A".into() };
    assert_eq!(roles, [&heading, &Role::Body, &Role::Body, &Role::Links]);
    assert!(extracted.blocks.is_sorted_by_key(|block| block.range.start));
}
