//! The weights of a network, by their names.

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::SimdOp;
use rten_tensor::Matrix;
use rten_vecmath::{Normalize, NormalizeOptions, Sum, SumSquareSub};
use safetensors::{Dtype, SafeTensors};

/// `input × weight + bias`.
pub(super) struct Dense {
    weight: PackedBMatrix<f32>,
    bias: Vec<f32>,
}

impl Dense {
    /// How many numbers come out.
    pub(super) fn outputs(&self) -> usize {
        self.bias.len()
    }

    /// The result, added to `onto` where there is something.
    pub(super) fn apply(
        &self,
        product: &GemmExecutor,
        input: &[f32],
        onto: Option<Vec<f32>>,
    ) -> Result<Vec<f32>, String> {
        let rows = input.len() / self.weight.rows();
        let beta = if onto.is_some() { 1.0 } else { 0.0 };
        let mut output = onto.unwrap_or_else(|| vec![0.0; rows * self.bias.len()]);
        let input = GemmInputA::Unpacked(Matrix::from_data([rows, self.weight.rows()], input));
        let options = GemmOptions { beta, bias: Some(BiasVector::Row(&self.bias)), ..GemmOptions::default() };
        product
            .gemm(&mut output, input, GemmInputB::Packed(&self.weight), options)
            .map_err(|error| error.to_string())?;
        Ok(output)
    }
}

/// Brings rows to a learned mean and variance.
pub(super) struct Normalisation {
    scale: Vec<f32>,
    shift: Vec<f32>,
    epsilon: f32,
}

impl Normalisation {
    /// Brings each row to mean 0 and variance 1, then to the learned ones.
    pub(super) fn apply(&self, state: &mut [f32]) {
        let width = self.scale.len();
        for row in state.chunks_exact_mut(width) {
            let mean = Sum::new(row).dispatch() / width as f32;
            let variance = SumSquareSub::new(row, mean).dispatch() / width as f32;
            let options = NormalizeOptions {
                pre_scale_bias: mean,
                scale: (variance + self.epsilon).sqrt().recip(),
                element_scale: Some(&self.scale),
                element_bias: Some(&self.shift),
                ..NormalizeOptions::default()
            };
            Normalize::new_mut(row, options).dispatch();
        }
    }
}

/// The weights by their names.
pub(super) struct Checkpoint<'a> {
    tensors: SafeTensors<'a>,
    product: GemmExecutor,
    /// Stands before the names of the encoder's weights where there is a head besides.
    prefix: &'static str,
    epsilon: f32,
}

impl<'a> Checkpoint<'a> {
    /// Reads a file in the safetensors format.
    pub(super) fn read(bytes: &'a [u8], epsilon: f32) -> Result<Self, String> {
        let tensors = SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?;
        let names = tensors.names();
        let is_there =
            |prefix: &&&str| names.iter().any(|name| name.starts_with(&format!("{prefix}embeddings.")));
        let prefix = ["", "bert.", "roberta.", "model."].iter().find(is_there).copied().unwrap_or_default();
        Ok(Self { tensors, product: GemmExecutor::new(), prefix, epsilon })
    }

    /// The name of one of the encoder's weights.
    pub(super) fn of_encoder(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.tensors.tensor(name).is_ok()
    }

    /// Layers that read the same are one, their outputs beside each other, each scaled. Those without a bias have zeros.
    pub(super) fn dense(&self, parts: &[(&str, f32)], inputs: usize) -> Result<Dense, String> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for (name, scale) in parts {
            let rows = self.floats(&format!("{name}.weight"))?;
            let outputs = rows.len() / inputs.max(1);
            weight.extend(rows.iter().map(|value| value * scale));
            bias.extend(self.bias(name, outputs)?.iter().map(|value| value * scale));
        }
        self.packed(&weight, bias, inputs, parts.first().map_or("", |(name, _)| name))
    }

    /// Queries, keys and values that stand in one matrix, the queries scaled.
    pub(super) fn attention(&self, name: &str, inputs: usize, scale: f32) -> Result<Dense, String> {
        let mut weight = self.floats(&format!("{name}.weight"))?;
        let mut bias = self.bias(name, 3 * inputs)?;
        let (weights, biases) = (weight.len() / 3, bias.len() / 3);
        weight[..weights].iter_mut().chain(&mut bias[..biases]).for_each(|value| *value *= scale);
        self.packed(&weight, bias, inputs, name)
    }

    /// The checkpoint has a row an output; the product wants a column.
    fn packed(&self, weight: &[f32], bias: Vec<f32>, inputs: usize, name: &str) -> Result<Dense, String> {
        if weight.len() != inputs * bias.len() {
            return Err(format!("`{name}` has another shape"));
        }
        let weight = Matrix::from_slice_with_strides([inputs, bias.len()], weight, [1, inputs])
            .map_err(|_| format!("`{name}` has another shape"))?;
        Ok(Dense { weight: self.product.prepack_b(weight), bias })
    }

    fn bias(&self, name: &str, outputs: usize) -> Result<Vec<f32>, String> {
        let name = format!("{name}.bias");
        if self.has(&name) { self.floats(&name) } else { Ok(vec![0.0; outputs]) }
    }

    pub(super) fn normalisation(&self, name: &str, width: usize) -> Result<Normalisation, String> {
        let scale = self.floats(&format!("{name}.weight"))?;
        let shift = self.bias(name, width)?;
        if (scale.len(), shift.len()) != (width, width) {
            return Err(format!("`{name}` has another shape"));
        }
        Ok(Normalisation { scale, shift, epsilon: self.epsilon })
    }

    /// A table with rows of `width` numbers.
    pub(super) fn table(&self, name: &str, width: usize) -> Result<Vec<f32>, String> {
        let table = self.floats(name)?;
        if table.is_empty() || table.len() % width != 0 {
            return Err(format!("`{name}` has another shape"));
        }
        Ok(table)
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>, String> {
        let tensor = self.tensors.tensor(name).map_err(|_| format!("`{name}` is missing"))?;
        let halves = || tensor.data().as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes));
        Ok(match tensor.dtype() {
            Dtype::F32 => {
                tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
            }
            Dtype::BF16 => halves().map(|half| f32::from_bits(u32::from(half) << 16)).collect(),
            Dtype::F16 => halves().map(of_half).collect(),
            other => return Err(format!("`{name}` is in {other:?} and not in floats of 16 or 32 bits")),
        })
    }
}

/// A number of 16 bits: sign, five bits of exponent, ten of fraction.
fn of_half(half: u16) -> f32 {
    let (sign, exponent, fraction) = (half >> 15, half >> 10 & 0x1f, half & 0x3ff);
    let magnitude = match (exponent, fraction) {
        (0, fraction) => f32::from(fraction) * 2_f32.powi(-24),
        (0x1f, 0) => f32::INFINITY,
        (0x1f, _) => f32::NAN,
        (exponent, fraction) => (1.0 + f32::from(fraction) / 1024.0) * 2_f32.powi(i32::from(exponent) - 15),
    };
    if sign == 1 { -magnitude } else { magnitude }
}

#[cfg(test)]
mod tests {
    use super::of_half;

    #[test]
    fn half_precision_is_read_exactly() {
        let known = [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_95),
            (0x0001, 5.960_464_5e-8),
            (0x7bff, 65504.0),
        ];
        for (half, value) in known {
            assert_eq!(of_half(half), value);
        }
        assert!(of_half(0x7c01).is_nan());
    }
}
