//! The memory of a program, wherever it is kept.

/// Memory that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot read memory at {0:#x}")]
pub struct Unreadable(pub u64);

/// The memory of a program, without any breakpoints that are in it.
pub trait Memory {
    /// Fills `buffer` from `address` on, or tells the first address that cannot be read.
    fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Unreadable>;

    /// An unsigned number of up to eight bytes, little-endian.
    fn read_uint(&self, address: u64, size: usize) -> Result<u64, Unreadable> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size.min(8)])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A pointer.
    fn read_pointer(&self, address: u64) -> Result<u64, Unreadable> {
        self.read_uint(address, 8)
    }
}
