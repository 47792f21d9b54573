//! Texts: how far they reach, and how they are quoted.

use super::{
    layout::Layout,
    place::{Absence, Placed, Storage},
};

/// A text in the program.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    /// Its first character.
    pub(crate) start: Placed,
    /// Bytes of a character: 1, 2 or 4.
    pub(crate) unit: u64,
    /// How many characters there are.
    pub(crate) length: Length,
    /// What is to be said of it.
    pub(crate) note: Option<String>,
}

/// How the end of a text is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Length {
    /// There are this many characters.
    Known(u64),
    /// It ends at a NUL, or after this many.
    AtMost(u64),
    /// It ends at a NUL.
    Terminated,
}

impl Length {
    /// How many characters there is room for.
    pub(crate) fn known(self) -> Option<u64> {
        match self {
            Self::Known(count) | Self::AtMost(count) => Some(count),
            Self::Terminated => None,
        }
    }
}

/// What was read of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// As UTF-8, with whatever is not in it.
    pub(crate) bytes: Vec<u8>,
    /// How many bytes or wider characters it has in all, where something was left out and it is known.
    pub(crate) left_out: Option<Option<u64>>,
    /// Where reading had to stop.
    pub(crate) broken: Option<Absence>,
}

impl Layout<'_> {
    /// The beginning of a text, of at most `most` characters.
    pub(crate) fn excerpt(&self, text: &Text, most: u64) -> Excerpt {
        let (available, ends_at_nul) = match text.length {
            Length::Known(count) => (count, false),
            Length::AtMost(count) => (count, true),
            Length::Terminated => (u64::MAX, true),
        };
        let wanted = available.min(most);
        let (mut units, broken) = self.units(text, wanted, ends_at_nul);
        let ended = ends_at_nul && units.last() == Some(&0);
        if ended {
            units.pop();
        }
        let cut = broken.is_none() && !ended && wanted < available;
        // One more character tells whether there is anything behind the limit.
        let more = cut && (!ends_at_nul || self.unit_at(text, wanted).is_some_and(|unit| unit != 0));
        let known = match text.length {
            Length::Known(count) => Some(count),
            _ => None,
        };
        let mut bytes = decode(&units, text.unit);
        if more {
            trim_half_a_character(&mut bytes);
        }
        Excerpt { bytes, left_out: more.then_some(known), broken }
    }

    fn unit_at(&self, text: &Text, index: u64) -> Option<u32> {
        let at = text.start.part(index.checked_mul(text.unit)?, text.start.type_ref, None);
        let bytes = self.bytes(&at, text.unit).ok()?;
        Some(super::layout::unsigned_of(&bytes) as u32)
    }

    /// Reads in steps that end where pages do: what is behind the end of a text may be unmapped.
    fn units(&self, text: &Text, wanted: u64, ends_at_nul: bool) -> (Vec<u32>, Option<Absence>) {
        let mut units = Vec::new();
        while (units.len() as u64) < wanted {
            let done = units.len() as u64;
            let at = text.start.part(done * text.unit, text.start.type_ref, None);
            let step = match &at.storage {
                Storage::Memory(address) => {
                    let in_page = (4096 - address % 4096) / text.unit;
                    in_page.clamp(1, 256).min(wanted - done)
                }
                Storage::Bytes(bytes) | Storage::Patchy { bytes, .. } => {
                    (bytes.len() as u64 / text.unit).min(wanted - done)
                }
                Storage::Implied(_) => return (units, Some(Absence::OptimisedOut)),
                Storage::Gone(absence) => return (units, Some(*absence)),
            };
            if step == 0 {
                break;
            }
            // Recordings may have less than whole pages: then one by one.
            let bytes = match self.bytes(&at, step * text.unit).or_else(|_| self.bytes(&at, text.unit)) {
                Ok(bytes) => bytes,
                Err(absence) => return (units, Some(absence)),
            };
            for unit in bytes.chunks_exact(text.unit as usize) {
                let unit = super::layout::unsigned_of(unit) as u32;
                units.push(unit);
                if ends_at_nul && unit == 0 {
                    return (units, None);
                }
            }
        }
        (units, None)
    }
}

fn decode(units: &[u32], unit: u64) -> Vec<u8> {
    match unit {
        1 => units.iter().map(|&unit| unit as u8).collect(),
        2 => {
            let units = units.iter().map(|&unit| unit as u16);
            let text: String = char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect();
            text.into_bytes()
        }
        _ => {
            let text: String = units.iter().map(|&unit| char::from_u32(unit).unwrap_or('\u{fffd}')).collect();
            text.into_bytes()
        }
    }
}

/// A cut at a number of bytes may be in the middle of a character.
fn trim_half_a_character(bytes: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(bytes)
        && error.error_len().is_none()
    {
        bytes.truncate(error.valid_up_to());
    }
}

/// Writes bytes that should be UTF-8 as they stand between `quote`s; what is not UTF-8 as `\x..`.
pub(crate) fn escape_into(out: &mut String, bytes: &[u8], quote: char) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\0' => out.push_str("\\0"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\\' => out.push_str("\\\\"),
                _ if character == quote => {
                    out.push('\\');
                    out.push(quote);
                }
                // The other quote needs no escape; accents that combine with the quote do.
                '\'' | '"' => out.push(character),
                _ => out.extend(character.escape_debug()),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_as_rust_does_and_bytes_outside_utf8_stay_visible() {
        let mut out = String::new();
        escape_into(&mut out, "a\"b'\n\0é\u{7}\\".as_bytes(), '"');
        escape_into(&mut out, b"\xff\xfe", '"');
        assert_eq!(out, "a\\\"b'\\n\\0é\\u{7}\\\\\\xff\\xfe");
    }

    #[test]
    fn a_cut_does_not_leave_half_a_character() {
        let mut bytes = "aé".as_bytes()[..2].to_vec();
        trim_half_a_character(&mut bytes);
        assert_eq!(bytes, b"a");
    }
}
