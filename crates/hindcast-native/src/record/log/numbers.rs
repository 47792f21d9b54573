//! Numbers of few bytes: seven bits in each, the lowest first.

/// What is read is not what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

pub(super) fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// What has to be added to the one number to get the other. Few bytes where they are near each other.
pub(super) fn put_difference(from: u64, to: u64, bytes: &mut Vec<u8>) {
    let difference = to.wrapping_sub(from) as i64;
    put((difference << 1 ^ difference >> 63) as u64, bytes);
}

/// Bytes that are read from the front.
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn byte(&mut self) -> Result<u8, Malformed> {
        let (&first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(first)
    }

    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    pub(super) fn difference(&mut self, from: u64) -> Result<u64, Malformed> {
        let number = self.number()?;
        Ok(from.wrapping_add(number >> 1 ^ (number & 1).wrapping_neg()))
    }

    pub(super) fn take(&mut self, count: u64) -> Result<&'a [u8], Malformed> {
        let count = usize::try_from(count).map_err(|_| Malformed)?;
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_differences_come_back() {
        let numbers = [0, 1, 0x7f, 0x80, 0x3fff, 0x4000, u64::from(u32::MAX), i64::MAX as u64, u64::MAX];
        for (from, to) in numbers.into_iter().flat_map(|from| numbers.map(|to| (from, to))) {
            let mut bytes = Vec::new();
            put(to, &mut bytes);
            put_difference(from, to, &mut bytes);
            let mut read = Bytes(&bytes);
            assert_eq!((read.number(), read.difference(from)), (Ok(to), Ok(to)), "{from} {to}");
            assert!(read.0.is_empty());
        }
        let mut near = Vec::new();
        put_difference(0x7fff_f7a0_0000, 0x7fff_f79f_fff0, &mut near);
        assert_eq!(near.len(), 1);
    }

    #[test]
    fn numbers_that_are_too_long_or_cut_off_are_refused() {
        let one_more = [0xff; 9].into_iter().chain([2]).collect::<Vec<u8>>();
        for bytes in [vec![0xff; 10], vec![0x80; 11], vec![0x80], vec![], one_more] {
            assert_eq!(Bytes(&bytes).number(), Err(Malformed), "{bytes:x?}");
        }
        assert_eq!(Bytes(&[1, 2]).take(3), Err(Malformed));
        assert_eq!(Bytes(&[1, 2]).take(u64::MAX), Err(Malformed));
    }
}
