//! Mail: one message, or a mailbox of them.

use std::{collections::HashSet, ops::Range};

use jiff::Timestamp;
use mail_parser::{
    Address, Encoding, Message, MessageParser, MessagePart, MimeHeaders, PartType,
    decoders::html::html_to_text,
};

use crate::{ExtractError, Extracted, outline::Outline};

/// So many messages of a mailbox are read.
const MOST_MESSAGES: usize = 20_000;

/// Messages in messages are read so deep.
const DEEPEST: u8 = 5;

/// So many of those who a message went to are told.
const MOST_ADDRESSES: usize = 30;

pub(crate) fn extract(bytes: &[u8], is_mailbox: bool) -> Result<Extracted, ExtractError> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let messages = if is_mailbox { split(bytes) } else { std::iter::once(0..bytes.len()).collect() };
    let mut outline = Outline::default();
    let (mut title, mut newest) = (None, None);
    let (mut line, mut counted) = (1, 0);
    for place in messages.iter().take(MOST_MESSAGES) {
        line += ends(&bytes[counted..place.start]);
        counted = place.start;
        let bytes = &bytes[place.clone()];
        let Some(read) = MessageParser::default().parse(bytes) else { continue };
        if !is_mailbox {
            title = read.subject().map(str::to_owned);
        }
        newest = newest.max(read.date().and_then(|date| Timestamp::from_second(date.to_timestamp()).ok()));
        message(&read, &Source::new(bytes, line), 1, &mut outline);
    }
    if messages.len() > MOST_MESSAGES {
        outline.notice(&format!("[left out of this mailbox: {} messages]", messages.len() - MOST_MESSAGES));
    }
    if outline.text.is_empty() {
        return Err(ExtractError::Broken { format: "mail", reason: "it has no message".into() });
    }
    Ok(Extracted { dated: newest, ..outline.finish(title) })
}

fn ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

/// The bytes of a message, and on which lines of the file they stand.
struct Source<'a> {
    bytes: &'a [u8],
    ends: Vec<usize>,
    first: u64,
    /// The last line of a message that is in another one as Base64: of its parts only these lines are known.
    coded_until: Option<u64>,
}

impl<'a> Source<'a> {
    fn new(bytes: &'a [u8], first: u64) -> Self {
        let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at).collect();
        Self { bytes, ends, first, coded_until: None }
    }

    fn line_at(&self, byte: usize) -> u64 {
        self.first + self.ends.partition_point(|end| *end < byte) as u64
    }

    /// A message that is in this one, as a part that is coded.
    fn coded(&self, part: &MessagePart<'_>, bytes: &'a [u8]) -> Self {
        let (first, last) = (self.line_at(part.offset_body as usize), self.line_at(part.offset_end as usize));
        Self { bytes, ends: Vec::new(), first, coded_until: Some(self.coded_until.unwrap_or(last)) }
    }
}

/// A message with the messages in it, whose sections are `level` deep.
fn message(read: &Message<'_>, source: &Source<'_>, level: u8, outline: &mut Outline) {
    let start = read.parts.first().map_or(0, |part| part.offset_header as usize);
    let line = source.line_at(start);
    outline.on_line(line);
    outline.heading(level, read.subject().unwrap_or("(no subject)"));
    let addresses = [("From", read.from()), ("To", read.to()), ("Cc", read.cc())];
    let told =
        addresses.iter().filter_map(|(name, address)| Some(format!("{name}: {}", people((*address)?)?)));
    let date = read.date().map(|date| format!("Date: {}", date.to_rfc3339()));
    let head: Vec<_> = told.chain(date).collect();
    outline.body_on(&head.join("\n"), &[(0, line)]);
    let said: HashSet<_> = read.text_body.iter().copied().collect();
    let attached: HashSet<_> = read.attachments.iter().copied().collect();
    for (number, part) in (0..).zip(&read.parts) {
        if said.contains(&number) {
            paragraphs(part, source, outline);
        } else if attached.contains(&number) {
            attachment(part, source, level, outline);
        }
    }
}

fn people(address: &Address<'_>) -> Option<String> {
    let mut told: Vec<_> = address
        .iter()
        .take(MOST_ADDRESSES)
        .map(|one| match (one.name(), one.address()) {
            (Some(name), Some(address)) => format!("{name} <{address}>"),
            (name, address) => name.or(address).unwrap_or_default().to_owned(),
        })
        .collect();
    let more = address.iter().skip(MOST_ADDRESSES).count();
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    (!told.is_empty()).then(|| told.join(", "))
}

/// What is with a message: texts and messages are read, the rest is named.
fn attachment(part: &MessagePart<'_>, source: &Source<'_>, level: u8, outline: &mut Outline) {
    let line = source.line_at(part.offset_header as usize);
    let is_read = match &part.body {
        PartType::Message(_) => level < DEEPEST,
        PartType::Text(_) | PartType::Html(_) => true,
        _ => false,
    };
    let not_read = if is_read { "" } else { ", not read" };
    outline.body_on(&format!("attachment: {}{not_read}", name_of(part)), &[(0, line)]);
    match &part.body {
        PartType::Message(inner) if is_read => match part.encoding {
            Encoding::None => message(inner, source, level + 1, outline),
            _ => message(inner, &source.coded(part, &inner.raw_message), level + 1, outline),
        },
        PartType::Text(_) | PartType::Html(_) => paragraphs(part, source, outline),
        _ => {}
    }
}

/// The name of an attachment, else its type.
fn name_of(part: &MessagePart<'_>) -> String {
    let of_type = || {
        let kind = part.content_type()?;
        Some(format!("{}/{}", kind.ctype(), kind.subtype().unwrap_or("*")))
    };
    let name =
        part.attachment_name().map(str::to_owned).or_else(of_type).unwrap_or_else(|| "without a name".into());
    name.chars().filter(|char| !char.is_control()).take(200).collect()
}

/// The text of a part, paragraph by paragraph.
fn paragraphs(part: &MessagePart<'_>, source: &Source<'_>, outline: &mut Outline) {
    let text = match &part.body {
        PartType::Text(text) => text.replace("\r\n", "\n"),
        PartType::Html(html) => html_to_text(html).replace("\r\n", "\n"),
        _ => return,
    };
    let (start, end) = (part.offset_body as usize, part.offset_end as usize);
    let raw = source.bytes.get(start..end).unwrap_or_default();
    let first = source.line_at(start);
    let sources = match (&part.body, part.encoding) {
        _ if source.coded_until.is_some() => None,
        (PartType::Text(_), Encoding::None) => Some((first..=first + ends(raw)).collect()),
        (PartType::Text(_), Encoding::QuotedPrintable) => Some(quoted_lines(raw, first)),
        _ => None,
    };
    let last = source.coded_until.unwrap_or_else(|| first + ends(raw.trim_ascii_end()));
    let mut number = 0;
    for paragraph in text.split("\n\n") {
        let lines: Vec<(usize, u64)> = match &sources {
            Some(sources) => {
                let starts = std::iter::once(0).chain(paragraph.match_indices('\n').map(|(at, _)| at + 1));
                let on = |number: usize| sources.get(number).copied().unwrap_or(last).min(last);
                starts.zip(number..).map(|(at, number)| (at, on(number))).collect()
            }
            // Which line of Base64 or HTML became which of the text is not known, only among which it is.
            None => vec![(0, first), (paragraph.trim_end().len().saturating_sub(1), last)],
        };
        outline.body_on(paragraph, &lines);
        number += paragraph.matches('\n').count() + 2;
    }
}

/// On which line each line of a text stands that is written as quoted-printable.
fn quoted_lines(raw: &[u8], first: u64) -> Vec<u64> {
    let mut lines = vec![first];
    for (number, line) in (first..).zip(raw.split(|byte| *byte == b'\n')) {
        let written = line.trim_ascii_end();
        // Ends of lines may be written as what they are made of.
        let within = written.windows(3).filter(|code| code.eq_ignore_ascii_case(b"=0A")).count();
        lines.extend(std::iter::repeat_n(number, within));
        if !written.ends_with(b"=") {
            lines.push(number + 1);
        }
    }
    lines
}

/// The messages of a mailbox: each begins with a line `From …` behind an empty one.
fn split(bytes: &[u8]) -> Vec<Range<usize>> {
    let (mut starts, mut is_after_empty, mut at) = (Vec::new(), true, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_after_empty && line.starts_with(b"From ") {
            starts.push((at, at + line.len()));
        }
        is_after_empty = line.iter().all(u8::is_ascii_whitespace);
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([bytes.len()]);
    starts.iter().zip(ends).map(|((_, body), end)| *body..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Format;

    const MAILBOX: &str = "From a@b Mon Jan  1 00:00:00 2024\nFrom: Ada <ada@example.org>\nSubject: =?utf-8?q?K=C3=A4hne?=\n\
        Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\nDer Flu=C3=9F =\ntr=C3=A4gt.\n\
        >From now on.\n\nFrom b@c Mon Jan  1 00:00:00 2024\nSubject: Two\nContent-Type: text/html\n\n<p>Some <b>words</b></p>\n";

    #[test]
    fn messages_are_sections_with_their_subjects() {
        let text = extract(MAILBOX.as_bytes(), true).unwrap().text.unwrap();
        assert!(text.starts_with("# Kähne\n\nFrom: Ada <ada@example.org>\n\nDer Fluß trägt."), "{text}");
        assert!(text.contains("# Two") && text.contains("Some words") && !text.contains("<b>"), "{text}");
        assert!(extract(b"no mailbox", true).is_err());
    }

    /// Each passage with the lines of the file that it says it stands on.
    fn told(format: Format, source: &str) -> Vec<(String, String)> {
        let extracted = crate::extract(format, source.as_bytes()).unwrap();
        let text = extracted.text.clone().unwrap();
        let lines: Vec<_> = source.lines().collect();
        let found = crate::chunk_within(format, &text, &extracted, Some(40)).unwrap().into_iter();
        let place = |(first, last): (u64, u64)| lines[first as usize - 1..last as usize].join("\n");
        found.map(|chunk| (text[chunk.range.clone()].to_owned(), place(chunk.lines))).collect()
    }

    #[test]
    fn passages_stand_on_the_lines_of_the_file() {
        let passages = told(Format::Mbox, MAILBOX);
        let of = |words: &str| {
            passages.iter().find(|(text, _)| text.contains(words)).map(|(_, lines)| lines.as_str()).unwrap()
        };
        assert!(of("Kähne").starts_with("From: Ada"), "{passages:?}");
        assert_eq!(of("Der Fluß"), "Der Flu=C3=9F =\ntr=C3=A4gt.\n>From now on.");
        assert!(of("Some words").ends_with("<p>Some <b>words</b></p>"), "{passages:?}");
        let plain = "Subject: Lines\r\nContent-Type: text/plain\r\n\r\nFirst paragraph that is long enough\r\n\r\n\r\nSecond one of\r\n\
                     two lines, also long.\r\n\r\nThird.\r\n";
        for (text, lines) in told(Format::Mail, plain).iter().skip(1) {
            assert_eq!(text.replace('\n', ""), lines.replace(['\r', '\n'], ""), "{text}");
        }
    }

    const WITH_ATTACHMENTS: &str = "From: Ada <ada@example.org>\nTo: Ben <ben@example.org>, cem@example.org\n\
        Cc: Dot <dot@example.org>\nSubject: Plans\nContent-Type: multipart/mixed; boundary=\"one\"\n\n\
        --one\nContent-Type: multipart/alternative; boundary=\"two\"\n\n\
        --two\nContent-Type: text/plain\n\nSee below.\n--two\nContent-Type: text/html\n\n<p>See <b>below</b>.</p>\n--two--\n\
        --one\nContent-Type: text/plain\n\nThe footer of the list.\n\
        --one\nContent-Type: text/plain; name=\"notes.txt\"\nContent-Disposition: attachment; filename=\"notes.txt\"\n\n\
        Buy a glockenspiel.\n\
        --one\nContent-Type: application/vnd.ms-word; name=\"report.docx\"\nContent-Transfer-Encoding: base64\n\nAAAA\n\
        --one\nContent-Type: message/rfc822\n\nFrom: Eve <eve@example.org>\nSubject: Forwarded\n\nThe hurdy-gurdy is sold.\n--one--\n";

    #[test]
    fn attachments_and_forwarded_messages_are_read_or_named() {
        let read = extract(WITH_ATTACHMENTS.as_bytes(), false).unwrap();
        assert_eq!(read.title.as_deref(), Some("Plans"));
        assert_eq!(
            read.text.as_deref(),
            Some(
                "# Plans\n\nFrom: Ada <ada@example.org>\nTo: Ben <ben@example.org>, cem@example.org\nCc: Dot <dot@example.org>\n\n\
                 See below.\n\nThe footer of the list.\n\nattachment: notes.txt\n\nBuy a glockenspiel.\n\n\
                 attachment: report.docx, not read\n\nattachment: message/rfc822\n\n## Forwarded\n\n\
                 From: Eve <eve@example.org>\n\nThe hurdy-gurdy is sold."
            )
        );
        for (words, line) in
            [("Buy a glockenspiel.", "Buy a glockenspiel."), ("sold", "The hurdy-gurdy is sold.")]
        {
            let passages = told(Format::Mail, WITH_ATTACHMENTS);
            let found = passages.iter().find(|(text, _)| text.contains(words)).unwrap();
            assert!(found.1.contains(line), "{passages:?}");
        }
        // Deeper ones are named.
        let mut deep = "Subject: Innermost\n\nquince\n".to_owned();
        for number in 0..10 {
            deep = format!("Subject: Level {number}\nContent-Type: message/rfc822\n\n{deep}");
        }
        let text = extract(deep.as_bytes(), false).unwrap().text.unwrap();
        assert!(text.contains("Level 5") && text.ends_with("attachment: message/rfc822, not read"), "{text}");
    }

    #[test]
    fn a_message_that_is_attached_as_base64_is_read_and_stands_on_its_lines() {
        // "Subject: Inner\n\nThe mandolin is here.\n\nAnd the lute.\n"
        let inner = "U3ViamVjdDogSW5uZXIKClRoZSBtYW5kb2xpbiBpcyBoZXJlLgoKQW5kIHRoZSBsdXRlLgo=";
        let mail = format!(
            "Subject: Outer\nContent-Type: multipart/mixed; boundary=\"one\"\n\n--one\nContent-Type: message/rfc822\n\
             Content-Transfer-Encoding: base64\n\n{inner}\n--one--\n"
        );
        let passages = told(Format::Mail, &mail);
        let (_, lines) = passages.iter().find(|(text, _)| text.contains("lute")).unwrap();
        assert!(lines.contains(inner), "{passages:?}");
    }

    #[test]
    fn letters_are_read_in_the_encoding_that_a_mail_names() {
        for (charset, subject, body, text) in [
            ("Shift_JIS", "=?Shift_JIS?B?k/qWew==?=", &b"\x83e\x83X\x83g"[..], "テスト"),
            ("GB18030", "=?GB18030?B?yNWxvg==?=", b"\xb2\xe2\xca\xd4", "测试"),
            ("EUC-KR", "=?EUC-KR?B?7O3c4g==?=", b"\xc5\xd7\xbd\xba\xc6\xae", "테스트"),
            ("ISO-2022-JP", "=?ISO-2022-JP?B?GyRCRnxLXBsoQg==?=", b"\x1b$B%F%9%H\x1b(B", "テスト"),
        ] {
            let head = format!("Subject: {subject}\nContent-Type: text/plain; charset={charset}\n\n");
            let mail = [head.as_bytes(), body].concat();
            let read = extract(&mail, false).unwrap().text.unwrap();
            assert!(read.starts_with("# 日本") && read.contains(text), "{charset}: {read}");
        }
    }

    #[test]
    fn a_mailbox_is_as_new_as_its_newest_message() {
        let message = |date: &str| format!("From a@b\nSubject: One\nDate: {date}\n\nText\n\n");
        let mailbox = message("Fri, 3 May 2024 10:00:00 +0200") + &message("Mon, 1 Jan 2024 00:00:00 +0000");
        let dated = extract(mailbox.as_bytes(), true).unwrap().dated;
        assert_eq!(dated.unwrap().to_string(), "2024-05-03T08:00:00Z");
    }
}
