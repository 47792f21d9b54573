use std::sync::Arc;

use proptest::prelude::*;

use crate::{
    read::{Limits, read},
    schema::{Schema, SchemaFiles},
};

/// A schema of one text.
#[derive(Debug)]
struct Text(String);

impl SchemaFiles for Text {
    fn read(&self, _location: &str) -> Result<Vec<u8>, String> {
        Ok(self.0.clone().into_bytes())
    }
}

fn schema(inside: &str) -> Schema {
    let whole = format!("<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'>{inside}</xs:schema>");
    Schema::load("schema.xsd", Arc::new(Text(whole))).unwrap()
}

/// What the quick look says, and what the whole validation says.
fn both(schema: &Schema, document: &str) -> (bool, bool) {
    let document = read(document.to_owned(), &Limits::default()).unwrap();
    let plain = schema.plain.as_ref().is_some_and(|plain| plain.conforms(&document, &schema.set));
    (plain, schema.judge(&document, 1).unwrap().total == 0)
}

const ORDERS: &str = "
    <xs:attributeGroup name='marked'>
      <xs:attribute name='id' type='code' use='required'/><xs:attribute name='on' type='xs:date'/>
    </xs:attributeGroup>
    <xs:simpleType name='code'><xs:restriction base='xs:string'><xs:pattern value='[A-Z]{2}-\\d{1,3}'/></xs:restriction></xs:simpleType>
    <xs:simpleType name='state'>
      <xs:restriction base='xs:string'><xs:enumeration value='open'/><xs:enumeration value='shut'/></xs:restriction>
    </xs:simpleType>
    <xs:simpleType name='sum'>
      <xs:restriction base='xs:decimal'>
        <xs:minInclusive value='-5.5'/><xs:maxInclusive value='1000'/><xs:fractionDigits value='2'/>
      </xs:restriction>
    </xs:simpleType>
    <xs:complexType name='money'>
      <xs:simpleContent><xs:extension base='sum'><xs:attribute name='in' type='xs:language'/></xs:extension></xs:simpleContent>
    </xs:complexType>
    <xs:complexType name='thing'><xs:attributeGroup ref='marked'/></xs:complexType>
    <xs:complexType name='order'>
      <xs:complexContent>
        <xs:extension base='head'>
          <xs:sequence>
            <xs:choice minOccurs='0' maxOccurs='2'><xs:element name='thing' type='thing'/><xs:element name='price' type='money'/></xs:choice>
            <xs:element name='note' type='xs:string' minOccurs='0'/>
          </xs:sequence>
          <xs:attribute name='count' type='xs:unsignedByte' use='required'/>
        </xs:extension>
      </xs:complexContent>
    </xs:complexType>
    <xs:complexType name='head'>
      <xs:sequence><xs:element name='state' type='state'/></xs:sequence>
      <xs:attribute name='sure' type='xs:boolean'/>
    </xs:complexType>
    <xs:element name='orders'>
      <xs:complexType><xs:sequence><xs:element name='order' type='order' maxOccurs='unbounded'/></xs:sequence></xs:complexType>
    </xs:element>";

/// A document, in pieces that can be left out, doubled, or stand elsewhere.
const ORDER: &[&str] = &[
    "<orders>\n  <order",
    " count='2'",
    " sure='true'",
    ">\n    ",
    "<state>open</state>",
    "<thing",
    " id='AB-12'",
    " on='2024-02-29'",
    "/>",
    "<price",
    " in='en'",
    ">12.50</price>",
    "<note>a &amp; b</note>",
    "</order>",
    "<order count='255'>",
    "<state>shut</state>",
    "</order>",
    "\n</orders>",
];

#[test]
fn a_plain_document_conforms_at_a_look() {
    assert_eq!(both(&schema(ORDERS), &ORDER.concat()), (true, true));
}

#[test]
fn what_is_not_known_is_left_to_the_validator() {
    let known = "<xs:element name='a' type='xs:string'/><xs:element name='r'>";
    for (schemas, document) in [
        (
            "<xs:complexType><xs:sequence><xs:any processContents='lax'/></xs:sequence></xs:complexType></xs:element>",
            "<r><z/></r>",
        ),
        (
            "<xs:complexType><xs:anyAttribute processContents='skip'/></xs:complexType></xs:element>",
            "<r z='1'/>",
        ),
        ("<xs:complexType><xs:attribute name='x' fixed='1'/></xs:complexType></xs:element>", "<r x='1'/>"),
        ("<xs:complexType><xs:attribute name='x' type='xs:ID'/></xs:complexType></xs:element>", "<r x='a'/>"),
        (
            "<xs:complexType mixed='true'><xs:sequence><xs:element ref='a'/></xs:sequence></xs:complexType></xs:element>",
            "<r>x<a/></r>",
        ),
        (
            "<xs:complexType><xs:sequence><xs:element ref='a'/></xs:sequence></xs:complexType>\
             <xs:unique name='u'><xs:selector xpath='a'/><xs:field xpath='.'/></xs:unique></xs:element>",
            "<r><a>1</a></r>",
        ),
        (
            "<xs:complexType><xs:sequence><xs:element ref='a'/></xs:sequence></xs:complexType></xs:element>\
             <xs:element name='b' substitutionGroup='a' type='xs:string'/>",
            "<r><a>1</a></r>",
        ),
        (
            "<xs:complexType><xs:sequence><xs:element ref='a'/></xs:sequence></xs:complexType></xs:element>",
            "<r xmlns:i='http://www.w3.org/2001/XMLSchema-instance'><a i:type='xs:string' xmlns:xs='http://www.w3.org/2001/XMLSchema'>1</a></r>",
        ),
    ] {
        assert_eq!(both(&schema(&format!("{known}{schemas}")), document), (false, true), "{schemas}");
    }
}

/// A place that is changed, and what comes there: nothing, another piece of the document, or something else.
type Change = (usize, usize);

/// The document with changes, if it is one still.
fn mutated(changes: &[Change]) -> Option<String> {
    const OTHERS: &[&str] = &[
        "",
        "x",
        " ",
        "<note/>",
        "<note>1</note><note>2</note>",
        "<price>1</price>",
        "<price>-5.51</price>",
        "<price>1000.01</price>",
        "<price>1.234</price>",
        "<state>ajar</state>",
        "<!-- c -->",
        "<![CDATA[x]]>",
        " count='256'",
        " on='2023-02-29'",
        " id='AB-1234'",
        " sure='maybe'",
        " in='nobody-speaks'",
    ];
    let mut pieces = ORDER.to_vec();
    for (place, piece) in changes {
        let piece =
            ORDER.iter().chain(OTHERS).nth(piece % (ORDER.len() + OTHERS.len())).copied().unwrap_or("");
        let place = place % (2 * pieces.len());
        // Before what is there, or in its stead.
        if place.is_multiple_of(2) { pieces.insert(place / 2, piece) } else { pieces[place / 2] = piece }
    }
    let text = pieces.concat();
    read(text.clone(), &Limits::default()).is_ok().then_some(text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_look_never_lets_a_fault_pass(changes in prop::collection::vec((0usize..1000, 0usize..1000), 1..4)) {
        thread_local!(static SCHEMA: Schema = schema(ORDERS));
        if let Some(document) = mutated(&changes) {
            let (plain, whole) = SCHEMA.with(|schema| both(schema, &document));
            prop_assert!(whole || !plain, "{document}");
        }
    }

    #[test]
    fn a_value_that_is_taken_at_a_look_is_one(
        kind in prop::sample::select(&["string", "token", "language", "boolean", "date", "decimal", "integer", "long", "byte",
            "unsignedLong", "positiveInteger", "negativeInteger", "nonPositiveInteger", "code", "state", "sum", "float", "NCName"][..]),
        value in prop_oneof![
            "[-+]?[0-9]{0,20}(\\.[0-9]{0,20})?", "[0-9]{4}-[0-9]{2}-[0-9]{2}Z?", "[A-Z]{1,3}-[0-9]{0,4}", "[a-z]{0,9}(-[a-z0-9]{0,9}){0,2}",
            "(true|false|0|1|open|shut| |\u{663}|\u{e9}){0,3}",
        ],
    ) {
        thread_local!(static SCHEMAS: std::cell::RefCell<std::collections::HashMap<String, Schema>> = Default::default());
        let prefix = if ["code", "state", "sum"].contains(&kind) { "" } else { "xs:" };
        let document = format!("<r>{value}</r>");
        let (plain, whole) = SCHEMAS.with_borrow_mut(|schemas| {
            let schema = schemas
                .entry(kind.to_owned())
                .or_insert_with(|| schema(&format!("{ORDERS}<xs:element name='r' type='{prefix}{kind}'/>")));
            both(schema, &document)
        });
        // For values alone the look is as good as the validator.
        prop_assert_eq!(plain, whole, "{} {}", kind, document);
    }
}
