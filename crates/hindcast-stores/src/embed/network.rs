//! The network of all-MiniLM-L6-v2, a small BERT: from its checkpoint and lists of tokens to vectors.
//!
//! It is six times the same few lines, so it is said in those lines, over a library's matrix products and vector
//! functions, and not as a graph for an engine of all operators there are. The texts of a batch stand in one matrix, a row
//! a token, one text below the other: only attention has to know where one ends, and nothing is ever padded.

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_tensor::Matrix;
use rten_vecmath::{Gelu, Normalize, NormalizeOptions, Softmax, Sum, SumSquareSub};
use safetensors::SafeTensors;

/// Numbers in a vector, which is also the width of the layers.
pub(super) const DIMENSION: usize = 384;
/// Tokens that the model was trained to read at once; the rest of a text is cut off.
pub(super) const WINDOW: usize = 256;
const LAYERS: usize = 6;
const HEADS: usize = 12;
const HEAD_WIDTH: usize = DIMENSION / HEADS;
/// Queries, keys and values of a token stand beside each other.
const ATTENTION_WIDTH: usize = 3 * DIMENSION;
const NORMALISATION_EPSILON: f32 = 1e-12;

/// A loaded network.
pub(super) struct Network {
    words: Vec<f32>,
    positions: Vec<f32>,
    embedded: Normalisation,
    layers: Vec<Layer>,
}

struct Layer {
    attention: Dense,
    attended: Dense,
    after_attention: Normalisation,
    wide: Dense,
    narrow: Dense,
    after: Normalisation,
}

/// `input × weight + bias`.
struct Dense {
    weight: PackedBMatrix<f32>,
    bias: Vec<f32>,
}

struct Normalisation {
    scale: Vec<f32>,
    shift: Vec<f32>,
}

impl Network {
    /// Reads a checkpoint in the safetensors format.
    pub(super) fn from_checkpoint(bytes: &[u8]) -> Result<Self, String> {
        let checkpoint = Checkpoint {
            tensors: SafeTensors::deserialize(bytes).map_err(|error| error.to_string())?,
            product: GemmExecutor::new(),
        };
        let mut positions = checkpoint.floats("embeddings.position_embeddings.weight")?;
        positions.truncate(WINDOW * DIMENSION);
        // There is only ever one segment, so its row can be added beforehand.
        let segments = checkpoint.floats("embeddings.token_type_embeddings.weight")?;
        positions.chunks_exact_mut(DIMENSION).for_each(|row| add(row, &segments));
        Ok(Self {
            words: checkpoint.floats("embeddings.word_embeddings.weight")?,
            positions,
            embedded: checkpoint.normalisation("embeddings.LayerNorm")?,
            layers: (0..LAYERS).map(|layer| checkpoint.layer(layer)).collect::<Result<_, _>>()?,
        })
    }

    /// One vector of length one for each list of tokens.
    pub(super) fn run(&self, batch: &[&[u32]]) -> Result<Vec<Vec<f32>>, String> {
        let lengths: Vec<usize> = batch.iter().map(|tokens| tokens.len().min(WINDOW)).collect();
        // It is bound to its thread and costs next to nothing.
        let product = GemmExecutor::new();
        let mut state = self.look_up(batch)?;
        self.embedded.apply(&mut state);
        for layer in &self.layers {
            let projected = layer.attention.apply(&product, &state, None)?;
            let mixed = attend(&product, &projected, &lengths)?;
            state = layer.attended.apply(&product, &mixed, Some(state))?;
            layer.after_attention.apply(&mut state);
            let mut wide = layer.wide.apply(&product, &state, None)?;
            Gelu {}.map_mut(&mut wide);
            state = layer.narrow.apply(&product, &wide, Some(state))?;
            layer.after.apply(&mut state);
        }
        Ok(texts(&state, &lengths, DIMENSION).map(mean).collect())
    }

    /// What stands for a word and for its place, added, a row a token.
    fn look_up(&self, batch: &[&[u32]]) -> Result<Vec<f32>, String> {
        let mut rows = Vec::new();
        for tokens in batch {
            for (&token, position) in tokens.iter().zip(self.positions.chunks_exact(DIMENSION)) {
                let start = rows.len();
                let word = self.words.chunks_exact(DIMENSION).nth(token as usize);
                rows.extend_from_slice(word.ok_or("a token beyond the vocabulary")?);
                add(&mut rows[start..], position);
            }
        }
        Ok(rows)
    }
}

impl Dense {
    /// The result, added to `onto` where there is something.
    fn apply(
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

impl Normalisation {
    /// Brings each row to mean 0 and variance 1, then to the learned ones.
    fn apply(&self, state: &mut [f32]) {
        let width = self.scale.len();
        for row in state.chunks_exact_mut(width) {
            let mean = Sum::new(row).dispatch() / width as f32;
            let variance = SumSquareSub::new(row, mean).dispatch() / width as f32;
            let options = NormalizeOptions {
                pre_scale_bias: mean,
                scale: (variance + NORMALISATION_EPSILON).sqrt().recip(),
                element_scale: Some(&self.scale),
                element_bias: Some(&self.shift),
                ..NormalizeOptions::default()
            };
            Normalize::new_mut(row, options).dispatch();
        }
    }
}

/// Mixes the values of each text's tokens, in each head by how well queries and keys agree.
fn attend(product: &GemmExecutor, projected: &[f32], lengths: &[usize]) -> Result<Vec<f32>, String> {
    let mut mixed = vec![0.0; projected.len() / 3];
    let longest = lengths.iter().max().copied().unwrap_or(0);
    let (mut agreement, mut head_mixed) = (vec![0.0; longest * longest], vec![0.0; longest * HEAD_WIDTH]);
    let mut row = 0;
    for (text, &length) in texts(projected, lengths, ATTENTION_WIDTH).zip(lengths) {
        let part = |part: usize, head: usize, transposed: bool| {
            let (shape, strides) = match transposed {
                false => ([length, HEAD_WIDTH], [ATTENTION_WIDTH, 1]),
                true => ([HEAD_WIDTH, length], [1, ATTENTION_WIDTH]),
            };
            let start = part * DIMENSION + head * HEAD_WIDTH;
            Matrix::from_slice_with_strides(shape, text.get(start..).unwrap_or_default(), strides)
                .map_err(|error| error.to_string())
        };
        let agreement = &mut agreement[..length * length];
        let head_mixed = &mut head_mixed[..length * HEAD_WIDTH];
        for head in 0..HEADS {
            multiply(product, agreement, part(0, head, false)?, part(1, head, true)?)?;
            for shares in agreement.chunks_exact_mut(length) {
                Softmax::new_mut(shares).dispatch();
            }
            let shares = Matrix::from_data([length, length], &*agreement);
            multiply(product, head_mixed, shares, part(2, head, false)?)?;
            for (token, values) in head_mixed.chunks_exact(HEAD_WIDTH).enumerate() {
                let start = (row + token) * DIMENSION + head * HEAD_WIDTH;
                mixed[start..start + HEAD_WIDTH].copy_from_slice(values);
            }
        }
        row += length;
    }
    Ok(mixed)
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
fn texts<'a>(rows: &'a [f32], lengths: &'a [usize], width: usize) -> impl Iterator<Item = &'a [f32]> {
    let mut rest = rows;
    lengths.iter().map(move |length| {
        let (text, others) = rest.split_at(length * width);
        rest = others;
        text
    })
}

/// The mean over a text's tokens, scaled to length one.
fn mean(text: &[f32]) -> Vec<f32> {
    let mut mean = vec![0.0; DIMENSION];
    text.chunks_exact(DIMENSION).for_each(|token| add(&mut mean, token));
    let length = mean.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    mean.iter_mut().for_each(|value| *value /= length);
    mean
}

fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
}

/// The weights by their names.
struct Checkpoint<'a> {
    tensors: SafeTensors<'a>,
    product: GemmExecutor,
}

impl Checkpoint<'_> {
    fn layer(&self, number: usize) -> Result<Layer, String> {
        let name = |part: &str| format!("encoder.layer.{number}.{part}");
        // The usual division of the agreement by √width is put into the queries.
        let scale = (HEAD_WIDTH as f32).sqrt().recip();
        let (query, key, value) =
            (name("attention.self.query"), name("attention.self.key"), name("attention.self.value"));
        Ok(Layer {
            attention: self.dense(&[(&query, scale), (&key, 1.0), (&value, 1.0)], DIMENSION)?,
            attended: self.dense(&[(&name("attention.output.dense"), 1.0)], DIMENSION)?,
            after_attention: self.normalisation(&name("attention.output.LayerNorm"))?,
            wide: self.dense(&[(&name("intermediate.dense"), 1.0)], DIMENSION)?,
            narrow: self.dense(&[(&name("output.dense"), 1.0)], 4 * DIMENSION)?,
            after: self.normalisation(&name("output.LayerNorm"))?,
        })
    }

    /// Layers that read the same are one, their outputs beside each other, each scaled.
    fn dense(&self, parts: &[(&str, f32)], inputs: usize) -> Result<Dense, String> {
        let (mut weight, mut bias) = (Vec::new(), Vec::new());
        for (name, scale) in parts {
            weight.extend(self.floats(&format!("{name}.weight"))?.iter().map(|value| value * scale));
            bias.extend(self.floats(&format!("{name}.bias"))?.iter().map(|value| value * scale));
        }
        // The checkpoint has a row an output; the product wants a column.
        let weight = Matrix::from_slice_with_strides([inputs, bias.len()], &weight, [1, inputs])
            .map_err(|_| format!("`{}` has another shape", parts[0].0))?;
        Ok(Dense { weight: self.product.prepack_b(weight), bias })
    }

    fn normalisation(&self, name: &str) -> Result<Normalisation, String> {
        let scale = self.floats(&format!("{name}.weight"))?;
        let shift = self.floats(&format!("{name}.bias"))?;
        match (scale.len(), shift.len()) {
            (DIMENSION, DIMENSION) => Ok(Normalisation { scale, shift }),
            _ => Err(format!("`{name}` has another shape")),
        }
    }

    fn floats(&self, name: &str) -> Result<Vec<f32>, String> {
        let tensor = self.tensors.tensor(name).map_err(|_| format!("`{name}` is missing"))?;
        if tensor.dtype() != safetensors::Dtype::F32 {
            return Err(format!("`{name}` is not in 32-bit floats"));
        }
        Ok(tensor.data().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect())
    }
}
