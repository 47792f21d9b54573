//! Queries, answered as libxml2 answers them.

use hindcast_xml::{
    Document, Limits, Paths,
    xpath::{Allowance, Answer, Namespaces, Query, XPathError},
};

use crate::{oracle, xpath_cases};

pub(crate) fn document(text: &str) -> Document {
    hindcast_xml::read(text.to_owned(), &Limits::default()).unwrap()
}

fn namespaces(bindings: &[(&str, &str)]) -> Namespaces {
    bindings.iter().map(|(prefix, namespace)| (prefix.to_string(), namespace.to_string())).collect()
}

fn ask(document: &Document, query: &str, bindings: &[(&str, &str)]) -> Result<Answer, XPathError> {
    Query::parse(query, &namespaces(bindings))?.ask(document, Allowance::default())
}

/// The answer as xmllint's shell would write it.
fn written(document: &Document, query: &str, bindings: &[(&str, &str)]) -> String {
    let text = match ask(document, query, bindings) {
        Ok(Answer::Text(text)) => text,
        Ok(Answer::Number(number)) => Answer::number_text(number),
        Ok(Answer::Boolean(boolean)) => boolean.to_string(),
        Ok(Answer::Nodes(_)) => panic!("`{query}` gives nodes; ask for their text"),
        Err(error) => panic!("`{query}`: {error}"),
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What is compared of a query: of nodes their number, and text and name of the first and the last.
fn questions(document: &Document, query: &str, bindings: &[(&str, &str)]) -> Vec<String> {
    match ask(document, query, bindings).unwrap_or_else(|error| panic!("`{query}`: {error}")) {
        Answer::Nodes(_) => vec![
            format!("string(count({query}))"),
            format!("string({query})"),
            format!("string(({query})[last()])"),
            format!("name(({query})[1])"),
            format!("name(({query})[last()])"),
        ],
        _ => vec![format!("string({query})")],
    }
}

fn agrees_with_xmllint(text: &str, bindings: &[(&str, &str)], queries: &[&str]) {
    let parsed = document(text);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document.xml");
    std::fs::write(&file, text).unwrap();
    let questions: Vec<String> =
        queries.iter().flat_map(|query| questions(&parsed, query, bindings)).collect();
    let theirs = oracle::ask(&file, bindings, &questions);
    let mut differences = Vec::new();
    for (question, theirs) in questions.iter().zip(theirs) {
        let ours = written(&parsed, question, bindings);
        // The shell cuts long texts.
        let agree =
            theirs.strip_suffix("...").map_or(ours == theirs, |start| ours.starts_with(start.trim_end()));
        let is_known = xpath_cases::DIFFERENT.iter().any(|(known, own, other, _)| {
            question == &format!("string({known})") && *own == ours && *other == theirs
        });
        if !agree && !is_known {
            differences.push(format!("{question}\n  ours:   {ours}\n  theirs: {theirs}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn queries_to_a_plain_document_are_answered_as_by_libxml2() {
    agrees_with_xmllint(xpath_cases::SHOP, &[], xpath_cases::SHOP_QUERIES);
}

#[test]
fn queries_to_a_document_with_namespaces_are_answered_as_by_libxml2() {
    agrees_with_xmllint(xpath_cases::FEED, xpath_cases::FEED_NAMESPACES, xpath_cases::FEED_QUERIES);
}

#[test]
fn queries_to_mixed_content_are_answered_as_by_libxml2() {
    agrees_with_xmllint(xpath_cases::PROSE, &[], xpath_cases::PROSE_QUERIES);
}

#[test]
fn at_least_eighty_expressions_are_compared() {
    let all = [xpath_cases::SHOP_QUERIES, xpath_cases::FEED_QUERIES, xpath_cases::PROSE_QUERIES].concat();
    assert!(all.len() >= 80, "{}", all.len());
}

#[test]
fn numbers_differ_from_libxml2_only_where_it_leaves_the_standard() {
    let queries: Vec<&str> = xpath_cases::DIFFERENT.iter().map(|(query, ..)| *query).collect();
    let parsed = document(xpath_cases::SHOP);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document.xml");
    std::fs::write(&file, xpath_cases::SHOP).unwrap();
    let questions: Vec<String> = queries.iter().map(|query| format!("string({query})")).collect();
    let theirs = oracle::ask(&file, &[], &questions);
    for ((query, own, other, clause), theirs) in xpath_cases::DIFFERENT.iter().zip(theirs) {
        assert_eq!(written(&parsed, &format!("string({query})"), &[]), *own, "{query}: {clause}");
        assert_eq!(theirs, *other, "xmllint has changed its mind about {query}");
    }
}

#[test]
fn nodes_know_their_path_and_place() {
    let parsed = document("<a>\n  <b x='1'/>\n  <b>é<c/></b>\n</a>");
    let Answer::Nodes(nodes) = ask(&parsed, "//c | //@x | //text()[. = 'é']", &[]).unwrap() else {
        panic!("no nodes")
    };
    let mut paths = Paths::new(&parsed);
    let shown: Vec<_> = nodes
        .iter()
        .map(|node| {
            let position = node.position(&parsed);
            (
                node.path(&mut paths),
                position.line,
                position.column,
                hindcast_xml::serialize(&parsed, *node, 100).0,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            ("/a[1]/b[1]/@x".to_owned(), 2, 6, "x=\"1\"".to_owned()),
            ("/a[1]/b[2]/text()[1]".to_owned(), 3, 6, "é".to_owned()),
            ("/a[1]/b[2]/c[1]".to_owned(), 3, 7, "<c/>".to_owned()),
        ]
    );
}

#[test]
fn the_empty_prefix_gives_unprefixed_names_a_namespace() {
    let parsed = document("<a xmlns='urn:x'><b/></a>");
    let count = |bindings: &[(&str, &str)]| written(&parsed, "count(//b)", bindings);
    assert_eq!((count(&[]), count(&[("", "urn:x")])), ("0".into(), "1".into()));
    assert_eq!(parsed.default_namespace(), Some("urn:x"));
}

#[test]
fn mistakes_are_told_with_their_place() {
    let parsed = document("<a/>");
    for (query, message) in [
        ("//a[", "at character 5: a step is missing here"),
        ("count(", "at character 7: a step is missing here"),
        ("//a]", "at character 4: the query should have ended before this"),
        ("foo()", "there is no function `foo` in XPath 1.0"),
        ("q:a", "the prefix `q` is bound to no namespace"),
        ("count(1)", "the argument of `count()` is not a node-set"),
        ("concat('a')", "`concat()` takes 2 or more arguments, not 1"),
        ("$x", "the variable `$x` has no value; there are no variables here"),
        ("'abc", "at character 1: the text is not closed by its quote"),
        ("sideways::a", "at character 1: there is no axis `sideways`"),
        ("1 ~ 2", "at character 3: `~` has no meaning here"),
        ("", "at character 1: a step is missing here"),
    ] {
        match ask(&parsed, query, &[]) {
            Err(error) => assert_eq!(error.to_string(), message, "{query}"),
            Ok(answer) => panic!("`{query}` gave {answer:?}"),
        }
    }
}
