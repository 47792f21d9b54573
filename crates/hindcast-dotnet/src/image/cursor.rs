//! Reading numbers from bytes that nobody has checked.

use super::ImageError;

/// A position in a slice. Every read is checked; none moves past the end.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    pub(crate) fn at(data: &'a [u8], at: usize) -> Self {
        Self { data, at }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn remaining(&self) -> usize {
        self.data.len().saturating_sub(self.at)
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.remaining() == 0
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], ImageError> {
        let end = self.at.checked_add(count).ok_or(TRUNCATED)?;
        let bytes = self.data.get(self.at..end).ok_or(TRUNCATED)?;
        self.at = end;
        Ok(bytes)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<(), ImageError> {
        self.bytes(count).map(drop)
    }

    /// Moves to the next multiple of four, counted from the beginning of the slice.
    pub(crate) fn align4(&mut self) {
        self.at = self.at.saturating_add(3) & !3;
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ImageError> {
        self.bytes(N)?.try_into().map_err(|_| TRUNCATED)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ImageError> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ImageError> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ImageError> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ImageError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn guid(&mut self) -> Result<[u8; 16], ImageError> {
        self.array()
    }

    /// An unsigned number of one, two or four bytes (ECMA-335 II.23.2).
    pub(crate) fn compressed(&mut self) -> Result<u32, ImageError> {
        let first = u32::from(self.u8()?);
        if first & 0x80 == 0 {
            return Ok(first);
        }
        let second = u32::from(self.u8()?);
        if first & 0x40 == 0 {
            return Ok((first & 0x3f) << 8 | second);
        }
        if first & 0x20 != 0 {
            return Err(ImageError::Malformed { what: "a compressed number" });
        }
        let [third, fourth] = self.array()?;
        Ok((first & 0x1f) << 24 | second << 16 | u32::from(third) << 8 | u32::from(fourth))
    }

    /// A signed number of one, two or four bytes: the sign is the lowest bit, and the others are rotated.
    pub(crate) fn compressed_signed(&mut self) -> Result<i32, ImageError> {
        let before = self.at;
        let rotated = self.compressed()?;
        let bits = match self.at - before {
            1 => 6,
            2 => 13,
            _ => 28,
        };
        let value = (rotated >> 1) as i32;
        Ok(if rotated & 1 == 0 { value } else { value - (1 << bits) })
    }

    /// A string with its length in front, or none where the length is the byte `0xff`.
    pub(crate) fn serialized_string(&mut self) -> Result<Option<&'a str>, ImageError> {
        if self.peek() == Some(0xff) {
            self.at += 1;
            return Ok(None);
        }
        let length = self.compressed()?;
        let bytes = self.bytes(length as usize)?;
        std::str::from_utf8(bytes).map(Some).map_err(|_| ImageError::Malformed { what: "a string" })
    }
}

const TRUNCATED: ImageError = ImageError::Truncated { what: "a value" };

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_numbers_are_read_as_the_standard_shows_them() {
        let cases: [(&[u8], u32); 6] = [
            (&[0x03], 0x03),
            (&[0x7f], 0x7f),
            (&[0x80, 0x80], 0x80),
            (&[0xae, 0x57], 0x2e57),
            (&[0xc0, 0x00, 0x40, 0x00], 0x4000),
            (&[0xdf, 0xff, 0xff, 0xff], 0x1fff_ffff),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Cursor::new(bytes).compressed(), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn compressed_signed_numbers_are_read_as_the_standard_shows_them() {
        let cases: [(&[u8], i32); 8] = [
            (&[0x06], 3),
            (&[0x7b], -3),
            (&[0x80, 0x80], 64),
            (&[0x01], -64),
            (&[0xc0, 0x00, 0x40, 0x00], 8192),
            (&[0x80, 0x01], -8192),
            (&[0xdf, 0xff, 0xff, 0xfe], 268_435_455),
            (&[0xc0, 0x00, 0x00, 0x01], -268_435_456),
        ];
        for (bytes, expected) in cases {
            assert_eq!(Cursor::new(bytes).compressed_signed(), Ok(expected), "{bytes:x?}");
        }
    }

    #[test]
    fn a_number_that_is_cut_off_is_an_error() {
        for bytes in [&[][..], &[0x80], &[0xc0, 0, 0], &[0xff]] {
            assert!(Cursor::new(bytes).compressed().is_err(), "{bytes:x?}");
        }
        assert!(Cursor::at(&[1, 2], usize::MAX).u16().is_err());
    }
}
