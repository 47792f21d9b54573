//! Schemas, judged as libxml2 judges them.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use hindcast_xml::{
    Limits,
    schema::{Schema, SchemaError, SchemaFiles, Verdict},
};

use crate::{
    oracle,
    schema_cases::{CASES, Case, NEWER, XMLLINT_IS_WRONG},
};

/// Files of a folder, and nothing else.
#[derive(Debug)]
struct Folder(PathBuf);

impl SchemaFiles for Folder {
    fn read(&self, location: &str) -> Result<Vec<u8>, String> {
        if !Path::new(location).starts_with(&self.0) {
            return Err("it is outside".into());
        }
        std::fs::read(location).map_err(|error| error.to_string())
    }
}

struct Bench {
    _kept: tempfile::TempDir,
    folder: PathBuf,
}

impl Bench {
    fn new(case: &Case) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let folder = kept.path().canonicalize().unwrap();
        for (name, text) in case.files {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let schema = if case.schema.starts_with("<?xml") {
            case.schema.to_owned()
        } else {
            format!("<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'>{}</xs:schema>", case.schema)
        };
        std::fs::write(folder.join("schema.xsd"), schema).unwrap();
        Self { _kept: kept, folder }
    }

    fn schema(&self) -> Result<Schema, SchemaError> {
        Schema::load(self.folder.join("schema.xsd").to_str().unwrap(), Arc::new(Folder(self.folder.clone())))
    }

    fn xmllint(&self, document: &str) -> Option<bool> {
        let file = self.folder.join("document.xml");
        std::fs::write(&file, document).unwrap();
        oracle::conforms(&file, &self.folder.join("schema.xsd"))
    }
}

fn validate(schema: &Schema, document: &str) -> Verdict {
    let document = hindcast_xml::read(document.to_owned(), &Limits::default()).unwrap();
    schema.validate(&document, 10).unwrap()
}

fn schema_of(inside: &'static str) -> (Bench, Schema) {
    let bench = Bench::new(&Case { name: "", schema: inside, files: &[], valid: &[], invalid: &[] });
    let schema = bench.schema().unwrap();
    (bench, schema)
}

#[test]
fn documents_are_judged_as_the_standard_says_and_as_xmllint_does() {
    assert!(CASES.len() >= 40, "{}", CASES.len());
    let mut wrong = Vec::new();
    for case in CASES {
        assert!(!case.valid.is_empty() && !case.invalid.is_empty(), "{}", case.name);
        let bench = Bench::new(case);
        let schema = match bench.schema() {
            Ok(schema) => schema,
            Err(error) => {
                wrong.push(format!("{}: {error}", case.name));
                continue;
            }
        };
        let documents =
            case.valid.iter().map(|text| (text, true)).chain(case.invalid.iter().map(|text| (text, false)));
        for (text, expected) in documents {
            let verdict = validate(&schema, text);
            if (verdict.total == 0) != expected {
                wrong.push(format!("{}: we say {:?} to {text}", case.name, verdict.violations));
            }
            let is_newer = NEWER.contains(&case.name);
            let is_known =
                XMLLINT_IS_WRONG.iter().any(|(name, document, _)| *name == case.name && document == text);
            let theirs = bench.xmllint(text);
            if !is_newer && (theirs == Some(expected)) == is_known {
                wrong.push(format!("{}: xmllint says {theirs:?} to {text}", case.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn versions_are_found_out() {
    for case in CASES {
        let version = Bench::new(case).schema().unwrap().version();
        assert_eq!(version, if NEWER.contains(&case.name) { "1.1" } else { "1.0" }, "{}", case.name);
    }
}

#[test]
fn a_violation_says_where_and_what_was_expected() {
    let (_bench, schema) = schema_of(
        "<xs:element name='r'><xs:complexType><xs:sequence><xs:element name='a' type='xs:int'/><xs:element name='b'/></xs:sequence><xs:attribute name='k' type='xs:date'/></xs:complexType></xs:element>",
    );
    let verdict = validate(&schema, "<r k='soon'>\n  <a>ten</a>\n  <c/>\n</r>");
    let told: Vec<_> = verdict
        .violations
        .iter()
        .map(|violation| {
            (
                violation.line,
                violation.column,
                violation.path.as_str(),
                violation.expected.join(" "),
                violation.found.clone(),
            )
        })
        .collect();
    assert_eq!(told[0], (1, 4, "/r[1]/@k", String::new(), Some("soon".into())), "{verdict:?}");
    assert_eq!(told[1], (2, 3, "/r[1]/a[1]", String::new(), Some("ten".into())), "{verdict:?}");
    assert_eq!(told[2], (3, 3, "/r[1]/c[1]", "b".into(), Some("<c>".into())), "{verdict:?}");
    let verdict = validate(&schema, "<r><a>1</a></r>");
    assert_eq!(verdict.violations[0].expected, ["b"], "{verdict:?}");
    assert_eq!(verdict.violations[0].found.as_deref(), Some("</r>"), "{verdict:?}");
}

#[test]
fn violations_are_counted_beyond_those_that_are_told() {
    let (_bench, schema) = schema_of(
        "<xs:element name='r'><xs:complexType><xs:sequence><xs:element name='a' type='xs:int' maxOccurs='unbounded'/></xs:sequence></xs:complexType></xs:element>",
    );
    let verdict = validate(&schema, &format!("<r>{}</r>", "<a>x</a>".repeat(25)));
    assert_eq!((verdict.violations.len(), verdict.total), (10, 25));
}

#[test]
fn a_schema_that_is_wrong_is_told_apart() {
    for (inside, problem) in [
        ("<xs:element name='r' type='nope'/>", "nope"),
        ("<xs:element nam='r'/>", "nam"),
        (
            "<xs:element name='r'><xs:complexType><xs:sequence><xs:element name='a' minOccurs='0'/><xs:element name='a'/></xs:sequence></xs:complexType></xs:element>",
            "cos-nonambig",
        ),
        (
            "<xs:simpleType name='t'><xs:restriction base='xs:string'><xs:pattern value='['/></xs:restriction></xs:simpleType>",
            "pattern",
        ),
        ("<xs:element", "not well-formed"),
    ] {
        let bench = Bench::new(&Case { name: "", schema: inside, files: &[], valid: &[], invalid: &[] });
        match bench.schema() {
            Err(error @ SchemaError::Invalid { .. }) => {
                assert!(error.to_string().contains(problem), "{inside}: {error}");
            }
            other => panic!("{inside}: {other:?}"),
        }
    }
}

#[test]
fn what_a_schema_names_is_read_only_from_where_it_may_be() {
    for location in ["http://127.0.0.1:9/o.xsd", "../../../../etc/passwd", "missing.xsd"] {
        let schema = format!(
            "<?xml version='1.0'?><xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:include schemaLocation='{location}'/><xs:element name='r'/></xs:schema>"
        );
        let bench =
            Bench::new(&Case { name: "", schema: schema.leak(), files: &[], valid: &[], invalid: &[] });
        match bench.schema() {
            Err(SchemaError::Unreachable { .. }) => {}
            other => panic!("{location}: {other:?}"),
        }
    }
}

#[test]
fn a_schema_may_have_entities_and_any_encoding() {
    let case = Case { name: "", schema: "<xs:element name='r'/>", files: &[], valid: &[], invalid: &[] };
    let bench = Bench::new(&case);
    let text = "<?xml version='1.0' encoding='ISO-8859-1'?><!DOCTYPE xs:schema [<!ENTITY int 'xs:int'>]><xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:element name='größe' type='&int;'/></xs:schema>";
    let bytes: Vec<u8> = text.chars().map(|character| u8::try_from(u32::from(character)).unwrap()).collect();
    std::fs::write(bench.folder.join("schema.xsd"), bytes).unwrap();
    let schema = bench.schema().unwrap();
    assert_eq!(validate(&schema, "<größe>1</größe>").total, 0);
    assert_eq!(validate(&schema, "<größe>x</größe>").total, 1);
}
