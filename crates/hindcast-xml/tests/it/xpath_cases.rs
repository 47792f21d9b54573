//! Three documents, and what is asked of them.

pub(crate) const SHOP: &str = r#"<?xml version="1.0"?>
<shop xml:lang="en">
  <!-- stock -->
  <item id="a1" qty="3"><name>Anvil</name><price>12.50</price></item>
  <item id="b2" qty="10"><name>Bolt</name><price>0.10</price></item>
  <item id="c3"><name xml:lang="de-AT">Dübel</name><price>2</price><note/></item>
  <group><item id="d4" qty="0"><name>Drill</name><price>99.99</price></item></group>
  <?print now?>
  <total>-1.5</total>
</shop>
"#;

pub(crate) const SHOP_QUERIES: &[&str] = &[
    "/",
    "/shop",
    "//item",
    "/shop/item",
    "//item[1]",
    "//item[last()]",
    "(//item)[last()]",
    "//item[@qty]",
    "//item[not(@qty)]",
    "//item[@qty > 2]",
    "//item[@qty = '10']/name",
    "//item/@id",
    "//@*",
    "//item[price < 5]",
    "//item[price * @qty > 1]",
    "//name[. = 'Bolt']/..",
    "//item[name='Drill']/ancestor::*",
    "//item[2]/following::item",
    "//item[2]/preceding::*",
    "//item[2]/following-sibling::*[1]",
    "//item[3]/preceding-sibling::item[1]",
    "//price/parent::item/@id",
    "//group/descendant-or-self::*",
    "//note/self::note",
    "//*[self::name or self::price]",
    "//comment()",
    "//processing-instruction()",
    "//processing-instruction('print')",
    "//processing-instruction('x')",
    "//text()[normalize-space()]",
    "count(//item)",
    "count(//item | //name | //item)",
    "sum(//price)",
    "sum(//@qty)",
    "sum(//name)",
    "string(//item[2])",
    "number(//total)",
    "number('12x')",
    "floor(-1.5)",
    "ceiling(-1.5)",
    "round(-1.5)",
    "round(2.5)",
    "round(-2.5)",
    "5 mod 2",
    "5 mod -2",
    "-5 mod 2",
    "1.5 mod 0.5",
    "7 div 2",
    "1 div 0",
    "-1 div 0",
    "0 div 0",
    "concat('a', 1, true())",
    "starts-with('abc', 'ab')",
    "contains('abc', '')",
    "substring-before('1999/04/01', '/')",
    "substring-after('1999/04/01', '/')",
    "substring('12345', 2, 3)",
    "substring('12345', 1.5, 2.6)",
    "substring('12345', 0 div 0, 3)",
    "substring('12345', -42, 1 div 0)",
    "substring('12345', 0)",
    "string-length('Dübel')",
    "normalize-space('  a  b ')",
    "translate('bar', 'abc', 'AB')",
    "translate('--aaa--', 'abc-', 'ABC')",
    "boolean(//none)",
    "boolean('false')",
    "not(//item)",
    "lang('en')",
    "boolean(//name[lang('de')])",
    "//item[lang('en')]",
    "'a' = 'a' and 1 < 2 or false()",
    "//price = 2",
    "//price != 2",
    "//price > //@qty",
    "//item[position() mod 2 = 1]",
    "//item[position() = last()]/@id",
    "//*[local-name() = 'item'][2]",
    "name(//item[1]/@id)",
    "//item[name and note]",
    "true() = 1",
    "'1' = 1",
    "//none = false()",
    "count(//item[1]/namespace::*)",
    "//item/name/text()",
    "-(-3)",
    "- - 3",
    "2 * 3 - 1",
    "//item[starts-with(@id, 'c')]//text()",
    "count(//node())",
    "string(12)",
    "string(-0.5)",
    "string(0.1 + 0.2 = 0.3)",
    "//div | //mod | //and",
    "//item[count(*) = 3]",
    "id('a1')",
    "count(//item[price][1])",
];

pub(crate) const FEED_NAMESPACES: &[(&str, &str)] =
    &[("f", "urn:feed"), ("m", "urn:media"), ("other", "urn:none")];

pub(crate) const FEED: &str = r#"<?xml version="1.0"?>
<feed xmlns="urn:feed" xmlns:med="urn:media">
  <entry med:rank="1" rank="9"><title>One</title><med:thumb w="10"/></entry>
  <entry><title xmlns="">Two</title><med:thumb w="20"><med:alt>x</med:alt></med:thumb></entry>
  <e:entry xmlns:e="urn:feed"><e:title>Three</e:title></e:entry>
</feed>
"#;

pub(crate) const FEED_QUERIES: &[&str] = &[
    "//f:entry",
    "//entry",
    "//title",
    "//f:title",
    "//m:*",
    "//f:*",
    "//other:*",
    "//m:thumb/@w",
    "//@m:rank",
    "//@rank",
    "//@m:*",
    "//*[namespace-uri() = 'urn:media']",
    "namespace-uri(//m:thumb)",
    "local-name(//m:thumb)",
    "name(//m:thumb)",
    "name(//f:entry[3])",
    "count(//f:entry[m:thumb])",
    "//f:entry[@m:rank = 1]/f:title",
    "count(//f:feed/namespace::*)",
    "//f:entry[3]/namespace::*[name() = 'e']",
    "sum(//m:thumb/@w)",
    "//f:entry[m:thumb/@w > 15]//text()",
    "count(//*[namespace-uri() = ''])",
    "//f:feed/*[last()]/f:title",
];

pub(crate) const PROSE: &str = r#"<!DOCTYPE book [
  <!ENTITY who "Grace <b>Hopper</b>">
  <!ATTLIST chapter kind CDATA "plain" key ID #IMPLIED>
]>
<book><chapter key="one"><p>It was &who; who &lt;found&gt; it.</p><p>Then<br/>came
another<!-- note --> day.</p></chapter><chapter key="two" kind="end"><p><![CDATA[a < b]]></p></chapter></book>
"#;

pub(crate) const PROSE_QUERIES: &[&str] = &[
    "//p",
    "//p[1]",
    "//b",
    "//p/text()",
    "//p[b]",
    "string(//p[1])",
    "string-length(//p[1])",
    "//chapter/@kind",
    "//chapter[@kind='plain']/@key",
    "id('two')",
    "id('two one')/@key",
    "id('none')",
    "//br/following-sibling::text()[1]",
    "//br/preceding-sibling::node()",
    "//comment()/following::text()",
    "contains(//p[1], '<found>')",
    "normalize-space(//p[2])",
    "//p[contains(., 'a < b')]",
    "count(//p//text())",
    "//text()[contains(., 'Hopper')]/ancestor::p",
];

/// Where libxml2 2.9 leaves the standard: the query, our answer, its answer, the clause.
pub(crate) const DIFFERENT: &[(&str, &str, &str, &str)] = &[
    (
        "1 div 3",
        "0.3333333333333333",
        "0.333333333333333",
        "XPath 1.0, 4.2: as many digits as needed to tell the number from all others",
    ),
    ("100000000000", "100000000000", "1e+11", "XPath 1.0, 4.2: no exponent"),
    ("123456789012", "123456789012", "1.23456789012e+11", "XPath 1.0, 4.2: no exponent"),
    (
        "0.1 + 0.2",
        "0.30000000000000004",
        "0.3",
        "XPath 1.0, 4.2: as many digits as needed to tell the number from all others",
    ),
    (
        "sum(//price)",
        "114.58999999999999",
        "114.59",
        "XPath 1.0, 4.2: as many digits as needed to tell the number from all others",
    ),
    ("0.0000001", "0.0000001", "1e-07", "XPath 1.0, 4.2: no exponent"),
];
