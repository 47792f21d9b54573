//! Whole numbers of 384 bits, which hold every step of an operation on two decimals.

use std::cmp::Ordering;

const LIMBS: usize = 12;

/// A whole number without sign; the lowest limb first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wide([u32; LIMBS]);

impl From<u128> for Wide {
    fn from(value: u128) -> Self {
        let mut limbs = [0; LIMBS];
        for (index, limb) in limbs.iter_mut().take(4).enumerate() {
            *limb = (value >> (32 * index)) as u32;
        }
        Self(limbs)
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.iter().rev().cmp(other.0.iter().rev())
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Wide {
    pub(super) fn is_zero(self) -> bool {
        self.0 == [0; LIMBS]
    }

    /// The number if it has no more than 128 bits.
    pub(super) fn narrow(self) -> Option<u128> {
        let [one, two, three, four, rest @ ..] = self.0;
        let limbs = [one, two, three, four];
        let value = limbs.iter().rev().fold(0, |value, limb| value << 32 | u128::from(*limb));
        rest.iter().all(|limb| *limb == 0).then_some(value)
    }

    pub(super) fn plus(self, other: Self) -> Self {
        let mut sum = [0; LIMBS];
        let mut carry = 0;
        for ((limb, one), other) in sum.iter_mut().zip(self.0).zip(other.0) {
            carry += u64::from(one) + u64::from(other);
            *limb = carry as u32;
            carry >>= 32;
        }
        Self(sum)
    }

    /// `self` must not be less than `other`.
    pub(super) fn minus(self, other: Self) -> Self {
        let mut difference = [0; LIMBS];
        let mut borrow = false;
        for ((limb, one), other) in difference.iter_mut().zip(self.0).zip(other.0) {
            let (value, first) = one.overflowing_sub(other);
            let (value, second) = value.overflowing_sub(u32::from(borrow));
            *limb = value;
            borrow = first || second;
        }
        Self(difference)
    }

    pub(super) fn times_small(self, factor: u32) -> Self {
        let mut product = [0; LIMBS];
        let mut carry = 0;
        for (limb, one) in product.iter_mut().zip(self.0) {
            carry += u64::from(one) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        Self(product)
    }

    pub(super) fn times_power_of_ten(self, power: u32) -> Self {
        (0..power).fold(self, |value, _| value.times_small(10))
    }

    pub(super) fn times(self, other: Self) -> Self {
        let mut product = Self([0; LIMBS]);
        for limb in other.0.iter().rev() {
            product.0.copy_within(..LIMBS - 1, 1);
            product.0[0] = 0;
            product = product.plus(self.times_small(*limb));
        }
        product
    }

    /// The quotient and the remainder of a divisor that is not zero.
    pub(super) fn divided_by_small(self, divisor: u32) -> (Self, u32) {
        let mut quotient = self.0;
        let mut remainder = 0;
        for limb in quotient.iter_mut().rev() {
            let dividend = remainder << 32 | u64::from(*limb);
            *limb = (dividend / u64::from(divisor)) as u32;
            remainder = dividend % u64::from(divisor);
        }
        (Self(quotient), remainder as u32)
    }

    /// The quotient and the remainder of a divisor that is neither zero nor so large that doubling overflows.
    pub(super) fn divided_by(self, divisor: Self) -> (Self, Self) {
        let mut quotient = Self([0; LIMBS]);
        let mut remainder = Self([0; LIMBS]);
        let used = self.0.iter().rposition(|limb| *limb != 0).map_or(0, |last| last + 1);
        for bit in (0..used * 32).rev() {
            remainder = remainder.plus(remainder);
            remainder.0[0] |= self.0[bit / 32] >> (bit % 32) & 1;
            if remainder >= divisor {
                remainder = remainder.minus(divisor);
                quotient.0[bit / 32] |= 1 << (bit % 32);
            }
        }
        (quotient, remainder)
    }
}
