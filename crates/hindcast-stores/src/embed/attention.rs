//! Attention: how the tokens of a text look at each other.

use rten_gemm::{GemmExecutor, GemmInputA, GemmInputB, GemmOptions};
use rten_simd::SimdOp;
use rten_tensor::Matrix;
use rten_vecmath::Softmax;

/// How heads share the width of a layer.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub(super) count: usize,
    pub(super) width: usize,
}

impl Heads {
    fn total(self) -> usize {
        self.count * self.width
    }
}

/// Tells places by turning pairs of numbers: for each place and pair the cosine and the sine.
pub(super) struct Turning {
    cosines: Vec<f32>,
    sines: Vec<f32>,
}

impl Turning {
    /// For so many places, with the base of the angles.
    pub(super) fn new(places: usize, head_width: usize, base: f32) -> Self {
        let pairs = head_width / 2;
        let angle = |number: usize| {
            let (place, pair) = (number / pairs, number % pairs);
            place as f32 / base.powf((2 * pair) as f32 / head_width as f32)
        };
        let angles = (0..places * pairs).map(angle);
        let (cosines, sines) = angles.map(|angle| (angle.cos(), angle.sin())).unzip();
        Self { cosines, sines }
    }

    /// Turns the queries and keys of all texts.
    pub(super) fn apply(&self, projected: &mut [f32], lengths: &[usize], heads: Heads) {
        let (total, pairs) = (heads.total(), heads.width / 2);
        let mut rows = projected.chunks_exact_mut(3 * total);
        for &length in lengths {
            for (place, row) in rows.by_ref().take(length).enumerate() {
                let turns = place * pairs..(place + 1) * pairs;
                let (cosines, sines) = (&self.cosines[turns.clone()], &self.sines[turns]);
                for head in row[..2 * total].chunks_exact_mut(heads.width) {
                    let (first, second) = head.split_at_mut(pairs);
                    for (pair, (one, other)) in first.iter_mut().zip(second).enumerate() {
                        let (cosine, sine) = (cosines[pair], sines[pair]);
                        (*one, *other) = (*one * cosine - *other * sine, *other * cosine + *one * sine);
                    }
                }
            }
        }
    }
}

/// Mixes the values of each text's tokens, in each head by how well queries and keys agree. With `near`, a token sees only so
/// many on each side.
pub(super) fn attend(
    product: &GemmExecutor,
    projected: &[f32],
    lengths: &[usize],
    heads: Heads,
    near: Option<usize>,
) -> Result<Vec<f32>, String> {
    let (total, projected_width) = (heads.total(), 3 * heads.total());
    let mut mixed = vec![0.0; projected.len() / 3];
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let (mut agreement, mut head_mixed) = (vec![0.0; longest * longest], vec![0.0; longest * heads.width]);
    let mut row = 0;
    for (text, &length) in texts(projected, lengths, projected_width).zip(lengths) {
        let part = |part: usize, head: usize, transposed: bool| {
            let (shape, strides) = match transposed {
                false => ([length, heads.width], [projected_width, 1]),
                true => ([heads.width, length], [1, projected_width]),
            };
            let start = part * total + head * heads.width;
            Matrix::from_slice_with_strides(shape, text.get(start..).unwrap_or_default(), strides)
                .map_err(|error| error.to_string())
        };
        let agreement = &mut agreement[..length * length];
        let head_mixed = &mut head_mixed[..length * heads.width];
        for head in 0..heads.count {
            multiply(product, agreement, part(0, head, false)?, part(1, head, true)?)?;
            share_out(agreement, length, near);
            let shares = Matrix::from_data([length, length], &*agreement);
            multiply(product, head_mixed, shares, part(2, head, false)?)?;
            for (token, values) in head_mixed.chunks_exact(heads.width).enumerate() {
                let start = (row + token) * total + head * heads.width;
                mixed[start..start + heads.width].copy_from_slice(values);
            }
        }
        row += length;
    }
    Ok(mixed)
}

/// Makes shares of each row, which add up to one.
fn share_out(agreement: &mut [f32], length: usize, near: Option<usize>) {
    for (token, shares) in agreement.chunks_exact_mut(length).enumerate() {
        match near {
            Some(near) if near < length => {
                let seen = token.saturating_sub(near)..(token + near + 1).min(length);
                shares[..seen.start].fill(0.0);
                shares[seen.end..].fill(0.0);
                Softmax::new_mut(&mut shares[seen]).dispatch();
            }
            _ => {
                Softmax::new_mut(shares).dispatch();
            }
        }
    }
}

fn multiply(
    product: &GemmExecutor,
    result: &mut [f32],
    left: Matrix<'_>,
    right: Matrix<'_>,
) -> Result<(), String> {
    let (left, right) = (GemmInputA::Unpacked(left), GemmInputB::Unpacked(right));
    product.gemm(result, left, right, GemmOptions::default()).map_err(|error| error.to_string())
}

/// The rows of each text.
pub(super) fn texts<'a>(
    rows: &'a [f32],
    lengths: &'a [usize],
    width: usize,
) -> impl Iterator<Item = &'a [f32]> {
    let mut rest = rows;
    lengths.iter().map(move |length| {
        let (text, others) = rest.split_at(length * width);
        rest = others;
        text
    })
}
