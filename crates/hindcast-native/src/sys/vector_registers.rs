//! Floating point and vector registers.

use std::sync::LazyLock;

use super::processor_features;

/// Floating point and vector registers, as the processor saves them (XSAVE, uncompacted).
#[derive(Clone)]
pub(crate) struct VectorRegisters {
    area: Vec<u8>,
    layout: VectorLayout,
}

/// Where the processor that saved an area puts the parts that are not at one place on all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VectorLayout {
    masks: Option<usize>,
    /// The upper halves of `zmm0` to `zmm15`.
    zmm_high: Option<usize>,
    /// `zmm16` to `zmm31`.
    zmm_upper: Option<usize>,
}

/// Where the x87 registers are, sixteen bytes each of which ten count.
const X87: usize = 32;
const XMM: usize = 160;
/// Where the system says which parts there are.
const PARTS: usize = 464;
/// Where the processor says which parts are anything but zero.
const PARTS_IN_USE: usize = 512;
const YMM_HIGH: usize = 576;

/// Numbers of parts.
const SSE: u32 = 1;
const AVX: u32 = 2;
const MASKS: u32 = 5;
const ZMM_HIGH: u32 = 6;
const ZMM_UPPER: u32 = 7;

impl VectorLayout {
    /// Where this machine's processor has them.
    pub(crate) fn of_this_machine() -> Self {
        static HERE: LazyLock<VectorLayout> = LazyLock::new(|| {
            let place = |part| {
                let [size, offset, _, _] = processor_features(0xd, part);
                (size > 0).then_some(offset as usize)
            };
            VectorLayout::of_parts(place)
        });
        *HERE
    }

    /// As the system writes it into a core file: number, size, offset and flags of each part.
    pub(crate) fn of_note(record: &[u8]) -> Self {
        let (parts, _) = record.as_chunks::<16>();
        Self::of_parts(|wanted| {
            let word = |part: &[u8; 16], at: usize| {
                part[at..at + 4].try_into().map(u32::from_le_bytes).unwrap_or_default()
            };
            let part = parts.iter().find(|part| word(part, 0) == wanted)?;
            Some(word(part, 8) as usize)
        })
    }

    /// Where an area of this length has them: the two makers of processors make it of different lengths.
    /// Nothing where it is of neither's.
    pub(crate) fn of_length(length: usize) -> Self {
        let [_, length_here, _, _] = processor_features(0xd, 0);
        if length == length_here as usize {
            return Self::of_this_machine();
        }
        let [masks, zmm_high, zmm_upper] = match length {
            // Without and with protection keys.
            2432 | 2440 => [832, 896, 1408],
            // The same, and with the tiles that come behind.
            2688 | 2696 | 11008 => [1088, 1152, 1664],
            _ => return Self::default(),
        };
        Self { masks: Some(masks), zmm_high: Some(zmm_high), zmm_upper: Some(zmm_upper) }
    }

    fn of_parts(place: impl Fn(u32) -> Option<usize>) -> Self {
        Self { masks: place(MASKS), zmm_high: place(ZMM_HIGH), zmm_upper: place(ZMM_UPPER) }
    }
}

impl VectorRegisters {
    /// More than any processor's area without AMX tiles, which the system leaves out unless used.
    pub(super) const LARGEST: usize = 16 << 10;

    /// As this machine's processor saves them.
    pub(crate) fn new(area: Vec<u8>) -> Self {
        Self::with_layout(area, VectorLayout::of_this_machine())
    }

    pub(crate) fn with_layout(area: Vec<u8>, layout: VectorLayout) -> Self {
        Self { area, layout }
    }

    pub(crate) fn area(&self) -> &[u8] {
        &self.area
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.area
    }

    /// Which parts there are, and how long all of them are.
    pub(crate) fn layout(&self) -> (u64, u64) {
        let parts = self.bytes(PARTS).map_or(0, u64::from_le_bytes);
        (parts, self.area.len() as u64)
    }

    /// Whether the processor has `ymm` registers.
    pub(crate) fn has_ymm(&self) -> bool {
        self.has(AVX)
    }

    /// Whether the processor has `zmm` and `k` registers, and it is known where they are.
    pub(crate) fn has_zmm(&self) -> bool {
        let is_known = [self.layout.masks, self.layout.zmm_high, self.layout.zmm_upper]
            .iter()
            .all(|offset| offset.is_some());
        is_known && [AVX, MASKS, ZMM_HIGH, ZMM_UPPER].iter().all(|&part| self.has(part))
    }

    pub(crate) fn xmm(&self, number: usize) -> Option<[u8; 16]> {
        match number {
            0..16 => self.bytes(XMM + 16 * number),
            _ => self.zmm(number)?.first_chunk().copied(),
        }
    }

    pub(crate) fn ymm(&self, number: usize) -> Option<[u8; 32]> {
        match number {
            0..16 if self.has_ymm() => {
                Some(joined(self.xmm(number)?, self.part(AVX, Some(YMM_HIGH), number)?))
            }
            0..16 => None,
            _ => self.zmm(number)?.first_chunk().copied(),
        }
    }

    pub(crate) fn zmm(&self, number: usize) -> Option<[u8; 64]> {
        match number {
            _ if !self.has_zmm() => None,
            0..16 => {
                let high: [u8; 32] = self.part(ZMM_HIGH, self.layout.zmm_high, number)?;
                Some(joined(self.ymm(number)?, high))
            }
            16..32 => self.part(ZMM_UPPER, self.layout.zmm_upper, number - 16),
            _ => None,
        }
    }

    /// The widest register whose lowest part is `xmm` of this number.
    pub(crate) fn widest(&self, number: usize) -> Option<Vec<u8>> {
        let zmm = self.zmm(number).map(Vec::from);
        zmm.or_else(|| self.ymm(number).map(Vec::from)).or_else(|| self.xmm(number).map(Vec::from))
    }

    /// `k` of this number.
    pub(crate) fn mask(&self, number: usize) -> Option<[u8; 8]> {
        (number < 8 && self.has_zmm()).then(|| self.part(MASKS, self.layout.masks, number)).flatten()
    }

    /// `st(number)`.
    pub(crate) fn x87(&self, number: usize) -> Option<[u8; 10]> {
        (number < 8).then(|| self.bytes(X87 + 16 * number)).flatten()
    }

    /// False where there is no such register.
    pub(crate) fn set_xmm(&mut self, number: usize, value: &[u8]) -> bool {
        let start = XMM + 16 * number;
        if number >= 16 || value.len() > 16 || self.area.len() < start + 16 {
            return false;
        }
        self.area[start..start + value.len()].copy_from_slice(value);
        if let Some(in_use) = self.area.get_mut(PARTS_IN_USE) {
            *in_use |= 1 << SSE;
        }
        true
    }

    fn has(&self, part: u32) -> bool {
        self.layout().0 >> part & 1 == 1
    }

    /// Register `number` of a part that begins at `start`; zero where the part is not in use.
    fn part<const N: usize>(&self, part: u32, start: Option<usize>, number: usize) -> Option<[u8; N]> {
        let in_use = u64::from_le_bytes(self.bytes(PARTS_IN_USE)?);
        if in_use >> part & 1 == 0 {
            return Some([0; N]);
        }
        self.bytes(start?.checked_add(N * number)?)
    }

    fn bytes<const N: usize>(&self, start: usize) -> Option<[u8; N]> {
        self.area.get(start..)?.first_chunk().copied()
    }
}

/// Two halves, the lower one first.
fn joined<const HALF: usize, const WHOLE: usize>(low: [u8; HALF], high: [u8; HALF]) -> [u8; WHOLE] {
    std::array::from_fn(|index| if index < HALF { low[index] } else { high[index - HALF] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An area with parts 0 to 7, all in use, and a number of its own in each register.
    fn area(length: usize, layout: VectorLayout) -> VectorRegisters {
        let mut area = vec![0; length];
        area[PARTS] = 0xe7;
        area[PARTS_IN_USE] = 0xe7;
        let mut fill = |start: usize, size: usize, count: usize, first: u8| {
            for index in 0..count {
                area[start + size * index..][..size].fill(first + index as u8);
            }
        };
        fill(XMM, 16, 16, 0x10);
        fill(YMM_HIGH, 16, 16, 0x30);
        fill(layout.masks.unwrap(), 8, 8, 0x50);
        fill(layout.zmm_high.unwrap(), 32, 16, 0x60);
        fill(layout.zmm_upper.unwrap(), 64, 16, 0x80);
        VectorRegisters::with_layout(area, layout)
    }

    #[test]
    fn wide_registers_are_joined_from_their_parts_on_processors_of_both_makers() {
        for length in [2432, 2440, 2688, 2696, 11008] {
            let saved = area(length, VectorLayout::of_length(length));
            let zmm = saved.zmm(3).unwrap();
            assert_eq!((zmm[0], zmm[16], zmm[32], zmm[63]), (0x13, 0x33, 0x63, 0x63), "{length}");
            assert_eq!((saved.zmm(31).unwrap(), saved.ymm(31).unwrap()), ([0x8f; 64], [0x8f; 32]));
            assert_eq!((saved.xmm(16).unwrap(), saved.mask(7).unwrap()), ([0x80; 16], [0x57; 8]));
            assert_eq!((saved.zmm(32), saved.mask(8)), (None, None));
        }
    }

    #[test]
    fn a_part_that_is_not_in_use_is_zero_whatever_lies_there() {
        let mut saved = area(2696, VectorLayout::of_length(2696));
        saved.area[PARTS_IN_USE] = 1 << SSE;
        assert_eq!(saved.ymm(2).unwrap()[..17], [[0x12; 16].as_slice(), &[0]].concat());
        assert_eq!((saved.zmm(17), saved.mask(1)), (Some([0; 64]), Some([0; 8])));
    }

    #[test]
    fn what_the_processor_has_not_or_what_is_nobody_knows_where_is_not_shown() {
        let mut saved = area(2696, VectorLayout::of_length(2696));
        saved.area[PARTS] = 1 << SSE;
        assert_eq!((saved.ymm(0), saved.zmm(0), saved.mask(0)), (None, None, None));
        assert_eq!(VectorLayout::of_length(1000), VectorLayout::default());
        saved.area[PARTS] = 0xe7;
        saved.layout = VectorLayout::default();
        assert_eq!((saved.zmm(0), saved.mask(0)), (None, None));
        assert!(saved.ymm(0).is_some());
    }

    #[test]
    fn the_layout_of_a_core_file_is_believed() {
        let part = |number: u32, size: u32, offset: u32| [number, size, offset, 0].map(u32::to_le_bytes);
        let note = [part(2, 256, 576), part(5, 64, 832), part(6, 512, 896), part(7, 1024, 1408)];
        let layout = VectorLayout::of_note(note.as_flattened().as_flattened());
        assert_eq!(layout, VectorLayout::of_length(2432));
    }
}
