//! Mail: one message, or a mailbox of them.

use mail_parser::MessageParser;

use crate::{ExtractError, Extracted, outline::Outline};

/// So many messages of a mailbox are read.
const MOST_MESSAGES: usize = 20_000;

pub(crate) fn extract(bytes: &[u8], is_mailbox: bool) -> Result<Extracted, ExtractError> {
    let messages = if is_mailbox { split(bytes) } else { vec![bytes] };
    let mut outline = Outline::default();
    let mut title = None;
    for message in messages.iter().take(MOST_MESSAGES) {
        let Some(read) = MessageParser::default().parse(*message) else { continue };
        let subject = read.subject().unwrap_or("(no subject)");
        outline.heading(1, subject);
        if !is_mailbox {
            title = read.subject().map(str::to_owned);
        }
        let from = read.from().and_then(|from| from.first()).map(|from| {
            let name = from.name().unwrap_or_default();
            let address = from.address().unwrap_or_default();
            format!("From: {name} <{address}>")
        });
        let date = read.date().map(|date| format!("Date: {}", date.to_rfc3339()));
        let head: Vec<_> = from.into_iter().chain(date).collect();
        outline.body(&head.join("\n"));
        if let Some(body) = read.body_text(0) {
            for paragraph in body.replace("\r\n", "\n").split("\n\n") {
                outline.body(paragraph);
            }
        }
    }
    if outline.text.is_empty() {
        return Err(ExtractError::Broken { format: "mail", reason: "it has no message".into() });
    }
    Ok(outline.finish(title))
}

/// The messages of a mailbox: each begins with a line `From …` behind an empty one.
fn split(bytes: &[u8]) -> Vec<&[u8]> {
    let (mut starts, mut is_after_empty, mut at) = (Vec::new(), true, 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        if is_after_empty && line.starts_with(b"From ") {
            starts.push((at, at + line.len()));
        }
        is_after_empty = line.iter().all(u8::is_ascii_whitespace);
        at += line.len();
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([bytes.len()]);
    starts.iter().zip(ends).map(|((_, body), end)| &bytes[*body..end]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
