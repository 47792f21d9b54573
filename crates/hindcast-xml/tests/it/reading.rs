//! What is read as XML, and what is not.

use hindcast_xml::{Limits, NodeId, XmlError, xpath::NodeRef};

fn read(text: &str) -> Result<String, String> {
    let document =
        hindcast_xml::read(text.to_owned(), &Limits::default()).map_err(|error| error.to_string())?;
    let Ok(hindcast_xml::xpath::Answer::Nodes(nodes)) =
        hindcast_xml::xpath::Query::parse("/", &Default::default())
            .unwrap()
            .ask(&document, Default::default())
    else {
        panic!("the document is a node")
    };
    let root: NodeRef = nodes[0];
    assert_eq!(document.kind(NodeId::DOCUMENT), hindcast_xml::Kind::Document);
    Ok(hindcast_xml::serialize(&document, root, 10_000).0)
}

#[test]
fn what_is_read_can_be_written_again() {
    for (text, expected) in [
        ("<a/>", "<a/>"),
        ("<?xml version='1.0'?>\n<a >x</a >\n", "<a>x</a>"),
        ("<a b='1' c=\"2\"/>", "<a b=\"1\" c=\"2\"/>"),
        ("<a b='\"&amp;&#10;\t'/>", "<a b=\"&quot;&amp;&#10; \"/>"),
        ("<a>&lt;&#x41;&amp;&gt;</a>", "<a>&lt;A&amp;&gt;</a>"),
        ("<a><![CDATA[<b>&]]>]</a>", "<a>&lt;b&gt;&amp;]</a>"),
        ("<!-- one --><a><!-- two --></a><?pi data?>", "<!-- one --><a><!-- two --></a><?pi data?>"),
        ("<a xmlns='u'><b xmlns=''/></a>", "<a xmlns=\"u\"><b xmlns=\"\"/></a>"),
        ("<!DOCTYPE a [<!ENTITY e '<b>x</b>'>]><a>1&e;2</a>", "<a>1<b>x</b>2</a>"),
        ("<!DOCTYPE a [<!ENTITY e 'x'><!ENTITY f '&e;&e;'>]><a b='&f;'>&f;</a>", "<a b=\"xx\">xx</a>"),
        (
            "<!DOCTYPE a [<!ATTLIST a t NMTOKENS '  x   y ' d CDATA #FIXED 'z'>]><a/>",
            "<a t=\"x y\" d=\"z\"/>",
        ),
        ("<!DOCTYPE a SYSTEM 'http://example.org/a.dtd' []><a/>", "<a/>"),
        ("<é ü='ö'/>", "<é ü=\"ö\"/>"),
    ] {
        assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_well_formed_is_refused_with_its_place() {
    for (text, problem) in [
        ("", "line 1, column 1: the document has no element"),
        ("text", "line 1, column 1: no element begins here"),
        ("<a>\n  <b></a>", "line 2, column 6: `</a>` comes where `</b>` must"),
        ("<a>", "line 1, column 4: the document ends, but `<a>` is not closed"),
        ("<a/><b/>", "line 1, column 5: nothing may follow the root element"),
        ("<a b='1' b='2'/>", "line 1, column 1: `<a>` has the attribute `b` twice"),
        (
            "<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>",
            "line 1, column 1: `<a>` has the attribute `q:b` twice",
        ),
        ("<a b=1/>", "line 1, column 6: the value of `b` is not quoted"),
        ("<a b='<'/>", "line 1, column 7: `<` in the value of an attribute; write `&lt;`"),
        ("<a>]]></a>", "line 1, column 4: `]]>` may not stand in text"),
        ("<a>&x;</a>", "line 1, column 7: the entity `&x;` is not declared"),
        ("<a>& b</a>", "line 1, column 4: `&` begins no reference; write `&amp;`"),
        ("<a>&#0;</a>", "line 1, column 4: this reference names no character"),
        ("<p:a/>", "line 1, column 1: the prefix of `<p:a>` is not declared"),
        ("<a:b:c/>", "line 1, column 1: `a:b:c` is no name: colons may only stand after a prefix"),
        ("<a><!-- x -- y --></a>", "line 1, column 13: `--` may not stand in a comment"),
        ("<a>\u{1}</a>", "line 1, column 4: this character may not stand in XML"),
        ("<a b='1'c='2'/>", "line 1, column 9: white space is missing before an attribute"),
        ("<1/>", "line 1, column 1: `<` begins no tag; write `&lt;`"),
        ("<a xmlns:xml='u'/>", "line 1, column 1: `xml` and its namespace belong together"),
        (
            "<!DOCTYPE a [<!ENTITY e '</a>'>]><a>&e;",
            "line 1, column 37: the entity closes an element that it did not open",
        ),
        (
            "<!DOCTYPE a [<!ENTITY e '<b>'>]><a>&e;</b></a>",
            "line 1, column 36: the document ends, but `<b>` is not closed",
        ),
    ] {
        assert_eq!(read(text), Err(problem.to_owned()), "{text}");
    }
}

#[test]
fn every_document_that_xmllint_refuses_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("document.xml");
    for text in [
        "<a></b>",
        "<a",
        "<a b></a>",
        "<a b='x' b='y'/>",
        "<a>&nope;</a>",
        "<a>&#xFFFE;</a>",
        "<a><![CDATA[</a>",
        "<?xml?><a/>",
        "<?xml version='1.0'?><?xml version='1.0'?><a/>",
        "<a/>x",
        "<a><!--</a>",
        "<a>]]></a>",
        "< a/>",
        "<a/ >",
        "<a>&lt</a>",
        "<!DOCTYPE a [<!ENTITY e '&e;'>]><a>&e;</a>",
        "<a b=\"a\"\"/>",
        "<a \u{7}/>",
    ] {
        std::fs::write(&file, text).unwrap();
        let theirs = std::process::Command::new("xmllint").arg("--noout").arg(&file).output().unwrap();
        assert!(!theirs.status.success(), "xmllint accepts {text}");
        assert!(read(text).is_err(), "{text} is accepted");
    }
}

#[test]
fn limits_are_told_apart_from_mistakes() {
    let deep = format!("{}{}", "<a>".repeat(2000), "</a>".repeat(2000));
    let error = hindcast_xml::read(deep, &Limits::default()).unwrap_err();
    assert!(matches!(error, XmlError::Limit { .. }), "{error}");
    assert!(error.to_string().contains("deeper than 1024"), "{error}");
}
