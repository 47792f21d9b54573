//! A large document and its schema.

use std::{
    io::{BufWriter, Write},
    path::Path,
};

use anyhow::Result;

pub(super) const DOCUMENT: &str = "catalogue.xml";
pub(super) const SCHEMA: &str = "catalogue.xsd";

const SCHEMA_TEXT: &str = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
  <xs:element name="catalogue">
    <xs:complexType>
      <xs:sequence><xs:element name="item" type="item" maxOccurs="unbounded"/></xs:sequence>
    </xs:complexType>
  </xs:element>
  <xs:complexType name="item">
    <xs:sequence>
      <xs:element name="name" type="xs:string"/>
      <xs:element name="price" type="price"/>
      <xs:element name="stock" type="xs:nonNegativeInteger"/>
      <xs:element name="added" type="xs:date"/>
      <xs:element name="note" type="xs:string" minOccurs="0"/>
    </xs:sequence>
    <xs:attribute name="code" type="code" use="required"/>
    <xs:attribute name="language" type="xs:language"/>
  </xs:complexType>
  <xs:complexType name="price">
    <xs:simpleContent>
      <xs:extension base="amount"><xs:attribute name="currency" type="currency" use="required"/></xs:extension>
    </xs:simpleContent>
  </xs:complexType>
  <xs:simpleType name="amount">
    <xs:restriction base="xs:decimal"><xs:minInclusive value="0"/><xs:fractionDigits value="2"/></xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="currency">
    <xs:restriction base="xs:string"><xs:enumeration value="EUR"/><xs:enumeration value="USD"/></xs:restriction>
  </xs:simpleType>
  <xs:simpleType name="code">
    <xs:restriction base="xs:string"><xs:pattern value="[A-Z]\d{7}"/></xs:restriction>
  </xs:simpleType>
</xs:schema>
"#;

/// Writes both; gives the size of the document.
pub(super) fn write(folder: &Path, bytes: u64) -> Result<u64> {
    std::fs::write(folder.join(SCHEMA), SCHEMA_TEXT)?;
    let path = folder.join(DOCUMENT);
    let mut out = BufWriter::new(std::fs::File::create(&path)?);
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<catalogue>")?;
    let mut written = 0;
    let mut number: u64 = 0;
    while written < bytes {
        // Numbers that look like chance and are the same every time.
        let chance = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let item = format!(
            "  <item code=\"P{number:07}\" language=\"en\">\n    <name>Part {number} of the catalogue</name>\n    \
             <price currency=\"EUR\">{}.{:02}</price>\n    <stock>{}</stock>\n    <added>2024-0{}-1{}</added>\n    \
             <note>Plain text that says something about the part, with an &amp;mpersand now and then</note>\n  </item>\n",
            chance % 1000,
            chance % 100,
            chance % 500,
            chance % 9 + 1,
            chance % 10,
        );
        out.write_all(item.as_bytes())?;
        written += item.len() as u64;
        number += 1;
    }
    writeln!(out, "</catalogue>")?;
    out.flush()?;
    Ok(std::fs::metadata(path)?.len())
}
