//! Documents and queries that are meant to do harm: each is refused or answered in little time and memory.

use std::time::{Duration, Instant};

use hindcast_xml::{
    Limits,
    xpath::{Allowance, Query, XPathError},
};

/// Generous, because the machine may be busy; what is caught here would take for ever.
const SOON: Duration = Duration::from_secs(60);

fn soon<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let done = work();
    assert!(started.elapsed() < SOON, "it took {:?}", started.elapsed());
    done
}

fn refused(text: String) -> String {
    soon(|| hindcast_xml::read(text, &Limits::default())).unwrap_err().to_string()
}

#[test]
fn billion_laughs_are_refused() {
    let mut entities = String::from("<!ENTITY l0 'lol'>");
    for level in 1..40 {
        entities += &format!("<!ENTITY l{level} '{}'>", format!("&l{};", level - 1).repeat(10));
    }
    let document = |body: &str| format!("<!DOCTYPE a [{entities}]>{body}");
    assert!(refused(document("<a>&l9;</a>")).contains("entities expand to more than"));
    assert!(refused(document("<a b='&l9;'/>")).contains("entities expand to more than"));
    assert!(refused(document("<a>&l39;</a>")).contains("too deep"));
}

#[test]
fn quadratic_entities_are_refused() {
    let document =
        format!("<!DOCTYPE a [<!ENTITY x '{}'>]><a>{}</a>", "x".repeat(100_000), "&x;".repeat(100_000));
    assert!(refused(document).contains("entities expand to more than"));
}

#[test]
fn empty_entities_are_counted_too() {
    let document = format!("<!DOCTYPE a [<!ENTITY e ''>]><a>{}</a>", "&e;".repeat(1_100_000));
    assert!(refused(document).contains("entities expand to more than"));
}

#[test]
fn external_entities_are_never_read() {
    for system in ["file:///etc/passwd", "/etc/passwd", "http://127.0.0.1:9/x"] {
        let document = format!("<!DOCTYPE a [<!ENTITY x SYSTEM '{system}'>]><a>&x;</a>");
        assert!(refused(document).contains("stands outside the document and is not read"));
        let parameter = format!("<!DOCTYPE a [<!ENTITY % p SYSTEM '{system}'> %p;]><a>&x;</a>");
        assert!(refused(parameter).contains("`&x;` is not declared"));
    }
}

#[test]
fn deep_nesting_is_refused() {
    assert!(refused(format!("{}x", "<a>".repeat(200_000))).contains("nest deeper than 1024"));
}

#[test]
fn a_hundred_thousand_attributes_are_read_in_linear_time() {
    let attributes: String = (0..100_000).map(|number| format!(" a{number}='{number}'")).collect();
    let document = soon(|| hindcast_xml::read(format!("<a{attributes}/>"), &Limits::default())).unwrap();
    let query = Query::parse("string(/a/@a99999)", &Default::default()).unwrap();
    let answer = query.ask(&document, Allowance::default()).unwrap();
    assert_eq!(answer, hindcast_xml::xpath::Answer::Text("99999".into()));
    let twice = format!("<a{attributes} a500=''/>");
    assert!(refused(twice).contains("`a500` twice"));
}

#[test]
fn a_hundred_thousand_namespaces_are_refused() {
    let declarations: String = (0..100_000).map(|number| format!(" xmlns:n{number}='u{number}'")).collect();
    assert!(refused(format!("<a{declarations}/>")).contains("namespaces are in force"));
}

#[test]
fn a_tree_much_larger_than_its_text_is_refused() {
    let limits = Limits { tree_bytes: 4 << 20, ..Limits::default() };
    let error =
        soon(|| hindcast_xml::read(format!("<a>{}</a>", "<b/>".repeat(300_000)), &limits)).unwrap_err();
    assert!(error.to_string().contains("the tree takes more than 4 MiB"), "{error}");
}

#[test]
fn names_that_are_all_different_are_counted_too() {
    let limits = Limits { tree_bytes: 4 << 20, ..Limits::default() };
    let numbered = |form: fn(u32) -> String| (0..40_000).map(form).collect::<String>();
    for document in [
        format!("<a>{}</a>", numbered(|number| format!("<x{number}/>"))),
        format!("<a{}/>", numbered(|number| format!(" x{number}=''"))),
        format!("<a>{}</a>", numbered(|number| format!("<?x{number}?>"))),
        format!("<a>{}</a>", numbered(|number| format!("<b xmlns='u{number}'/>"))),
    ] {
        let start: String = document.chars().take(20).collect();
        let error = soon(|| hindcast_xml::read(document, &limits)).unwrap_err();
        assert!(error.to_string().contains("the tree takes more than 4 MiB"), "{start}: {error}");
    }
}

#[test]
fn declarations_are_counted_too() {
    let entities: String = (0..100_001).map(|number| format!("<!ENTITY e{number} ''>")).collect();
    let attributes: String =
        (0..100_001).map(|number| format!("<!ATTLIST e{number} a ID #IMPLIED>")).collect();
    for declarations in [entities, attributes] {
        let document = format!("<!DOCTYPE a [{declarations}]><a/>");
        assert!(refused(document).contains("more than 100000 entities and attributes are declared"));
    }
}

#[test]
fn a_runaway_query_is_given_up() {
    let items: String = (0..20_000).map(|number| format!("<i><j>{number}</j></i>")).collect();
    let document = hindcast_xml::read(format!("<a>{items}</a>"), &Limits::default()).unwrap();
    let allowance = Allowance { time: Duration::from_millis(200), ..Allowance::default() };
    for runaway in [
        "count(//*[count(//*[count(//*) > 1]) > 1])",
        "//*[//* = //*[. = ../..]]",
        "//j[preceding::j[following::j[. = 5]] = 7]",
        "//*[string-length(concat(/, /, /, /)) > count(//*[string(/) = 'x'])]",
        "//i/ancestor::*/descendant::*/ancestor::*[count(//*/following::*) > 3]",
    ] {
        let query = Query::parse(runaway, &Default::default()).unwrap();
        let error = soon(|| query.ask(&document, allowance)).unwrap_err();
        assert!(matches!(error, XPathError::OutOfTime(_) | XPathError::OutOfMemory(_)), "{runaway}: {error}");
    }
}

#[test]
fn queries_that_would_exhaust_the_stack_are_refused() {
    for query in [
        format!("{}1{}", "(".repeat(10_000), ")".repeat(10_000)),
        format!("1{}", "+1".repeat(20_000)),
        format!("a{}", "[a".repeat(10_000)),
        "-".repeat(30_000) + "1",
        "x".repeat(100_000),
    ] {
        let parsed = Query::parse(&query, &Default::default());
        if let Ok(query) = parsed {
            let document = hindcast_xml::read("<a/>".into(), &Limits::default()).unwrap();
            soon(|| query.ask(&document, Allowance::default())).unwrap();
        }
    }
}
