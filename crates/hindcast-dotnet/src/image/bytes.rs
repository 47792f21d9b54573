//! The bytes of a file, shared by whoever reads them.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The bytes of a file: a buffer, or memory that a file is mapped into. Cloning copies nothing.
#[derive(Clone)]
pub struct ImageBytes(Arc<dyn AsRef<[u8]> + Send + Sync>);

impl ImageBytes {
    /// Shares whatever holds the bytes, such as a mapped file.
    pub fn new(holder: impl AsRef<[u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holder))
    }

    pub(crate) fn all(&self) -> &[u8] {
        (*self.0).as_ref()
    }

    /// The bytes of a range; empty where the range does not lie in the file.
    pub(crate) fn range(&self, range: &Range<usize>) -> &[u8] {
        self.all().get(range.clone()).unwrap_or_default()
    }
}

impl From<Vec<u8>> for ImageBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl From<Arc<[u8]>> for ImageBytes {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::new(bytes)
    }
}

impl From<&[u8]> for ImageBytes {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes.to_vec())
    }
}

impl fmt::Debug for ImageBytes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes", self.all().len())
    }
}

/// A globally unique identifier, in the order that files keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Guid(pub [u8; 16]);

impl Guid {
    /// The identifier whose text is `11111111-2222-3333-4444-555555555555`, as five numbers.
    pub(crate) const fn new(a: u32, b: u16, c: u16, d: u16, e: u64) -> Self {
        let (a, b, c, d, e) =
            (a.to_le_bytes(), b.to_le_bytes(), c.to_le_bytes(), d.to_be_bytes(), e.to_be_bytes());
        Self([a[0], a[1], a[2], a[3], b[0], b[1], c[0], c[1], d[0], d[1], e[2], e[3], e[4], e[5], e[6], e[7]])
    }
}

impl fmt::Display for Guid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.0;
        write!(
            formatter,
            "{:08x}-{:04x}-{:04x}-",
            u32::from_le_bytes([a, b, c, d]),
            u16::from_le_bytes([e, f]),
            u16::from_le_bytes([g, h])
        )?;
        for (index, byte) in rest.iter().enumerate() {
            write!(formatter, "{}{byte:02x}", if index == 2 { "-" } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guid_is_written_as_it_is_declared() {
        let csharp = Guid::new(0x3f51_62f8, 0x07c6, 0x11d3, 0x9053, 0x00c0_4fa3_02a1);
        assert_eq!(csharp.to_string(), "3f5162f8-07c6-11d3-9053-00c04fa302a1");
        assert_eq!(csharp.0[..4], [0xf8, 0x62, 0x51, 0x3f]);
    }
}
