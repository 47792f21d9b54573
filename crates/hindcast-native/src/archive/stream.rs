//! Numbers and bytes in compressed pieces, none of which is large.

use std::{collections::VecDeque, fs::File, io, ops::Range, os::unix::fs::FileExt};

use hindcast_core::debug::TraceWriter;

use super::ArchiveError;

/// So much is compressed at once.
const PIECE: usize = 1 << 20;
/// More than any piece is when compressed.
const LARGEST_PIECE: u64 = PIECE as u64 + (PIECE as u64 >> 4) + 64;
/// More than any recording holds; a small file could be made to unfold to more.
const MOST: u64 = 64 << 30;

/// Writes.
pub(super) struct Sink<'a, 'b> {
    name: &'static str,
    writer: &'a mut TraceWriter<'b>,
    piece: Vec<u8>,
}

impl<'a, 'b> Sink<'a, 'b> {
    pub(super) fn new(name: &'static str, writer: &'a mut TraceWriter<'b>) -> Self {
        Self { name, writer, piece: Vec::with_capacity(PIECE) }
    }

    pub(super) fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (now, rest) = bytes.split_at(bytes.len().min(PIECE - self.piece.len()));
            self.piece.extend_from_slice(now);
            bytes = rest;
            if self.piece.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    pub(super) fn number(&mut self, number: u64) -> io::Result<()> {
        self.put(&number.to_le_bytes())
    }

    pub(super) fn numbers(&mut self, numbers: &[u64]) -> io::Result<()> {
        numbers.iter().try_for_each(|&number| self.number(number))
    }

    /// Bytes with their length before them.
    pub(super) fn block(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.number(bytes.len() as u64)?;
        self.put(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            return Ok(());
        }
        let mut packed = (self.piece.len() as u32).to_le_bytes().to_vec();
        packed.extend(lz4_flex::block::compress(&self.piece));
        self.piece.clear();
        self.writer.engine_log(self.name, &packed)
    }

    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Reads what a [`Sink`] wrote, piece by piece. Whatever is in it, no more is kept than a piece.
pub(super) struct Source {
    file: File,
    pieces: VecDeque<Range<u64>>,
    piece: Vec<u8>,
    at: usize,
    total: u64,
}

impl Source {
    pub(super) fn new(file: File, pieces: &[Range<u64>]) -> Self {
        Self { file, pieces: pieces.iter().cloned().collect(), piece: Vec::new(), at: 0, total: 0 }
    }

    pub(super) fn take(&mut self, mut bytes: &mut [u8]) -> Result<(), ArchiveError> {
        while !bytes.is_empty() {
            if self.at == self.piece.len() {
                self.next_piece()?;
            }
            let count = bytes.len().min(self.piece.len() - self.at);
            let (now, rest) = bytes.split_at_mut(count);
            now.copy_from_slice(&self.piece[self.at..self.at + count]);
            self.at += count;
            bytes = rest;
        }
        Ok(())
    }

    fn next_piece(&mut self) -> Result<(), ArchiveError> {
        let range = self.pieces.pop_front().ok_or(ArchiveError::Malformed("its log ends too early"))?;
        let length = range.end.saturating_sub(range.start);
        if !(4..=LARGEST_PIECE).contains(&length) {
            return Err(ArchiveError::Malformed("a piece of its log has an impossible length"));
        }
        let mut packed = vec![0; length as usize];
        self.file.read_exact_at(&mut packed, range.start)?;
        let (size, packed) = packed.split_at(4);
        let size = size.iter().rev().fold(0, |size, &byte| size << 8 | usize::from(byte));
        if size == 0 || size > PIECE {
            return Err(ArchiveError::Malformed("a piece of its log has an impossible size"));
        }
        self.total += size as u64;
        if self.total > MOST {
            return Err(ArchiveError::Malformed("its log is longer than any can be"));
        }
        self.piece = lz4_flex::block::decompress(packed, size)
            .ok()
            .filter(|piece| piece.len() == size)
            .ok_or(ArchiveError::Malformed("a piece of its log cannot be unpacked"))?;
        self.at = 0;
        Ok(())
    }

    pub(super) fn number(&mut self) -> Result<u64, ArchiveError> {
        let mut bytes = [0; 8];
        self.take(&mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    pub(super) fn numbers<const N: usize>(&mut self) -> Result<[u64; N], ArchiveError> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.number()?;
        }
        Ok(numbers)
    }

    /// A number that is not more than `most`.
    pub(super) fn count(&mut self, most: u64) -> Result<u64, ArchiveError> {
        let count = self.number()?;
        if count > most {
            return Err(ArchiveError::Malformed("a number in its log is larger than it can be"));
        }
        Ok(count)
    }

    /// Bytes with their length before them. Memory is taken as they come.
    pub(super) fn block(&mut self, most: u64) -> Result<Vec<u8>, ArchiveError> {
        let mut left = self.count(most)? as usize;
        let mut bytes = Vec::new();
        while left > 0 {
            let now = left.min(PIECE);
            let start = bytes.len();
            bytes.resize(start + now, 0);
            self.take(&mut bytes[start..])?;
            left -= now;
        }
        Ok(bytes)
    }

    pub(super) fn text(&mut self, most: u64) -> Result<String, ArchiveError> {
        String::from_utf8(self.block(most)?).map_err(|_| ArchiveError::Malformed("a name is not a text"))
    }
}
