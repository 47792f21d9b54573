//! Encoders of the families BERT and ModernBERT: from lists of tokens to vectors and judgements.
//!
//! It is some times the same few lines, so it is said in those lines, over a library's matrix products and vector
//! functions, and not as a graph for an engine of all operators there are. The texts of a batch stand in one matrix, a row
//! a token, one text below the other: only attention has to know where one ends, and nothing is ever padded.

use rten_gemm::GemmExecutor;
use rten_simd::SimdUnaryOp;
use rten_vecmath::{ApproxGelu, Gelu, Tanh};

use super::{
    attention::{Heads, Turning, attend, texts},
    checkpoint::{Dense, Normalisation},
    description::{Activation, Description, Family, Modern, Pooling},
    tokens::Text,
};

/// A loaded network.
pub(super) struct Network {
    pub(super) description: Description,
    pub(super) words: Vec<f32>,
    /// What stands for a place, with that of the first segment; empty where places are told by turning.
    pub(super) places: Vec<f32>,
    /// What the second segment adds to the first.
    pub(super) second: Vec<f32>,
    pub(super) embedded: Normalisation,
    pub(super) layers: Vec<Layer>,
    /// After all layers, in ModernBERT.
    pub(super) last: Option<Normalisation>,
    /// Of layers that see everything, and of the others.
    pub(super) turnings: Option<(Turning, Turning)>,
    pub(super) head: Option<Head>,
}

pub(super) struct Layer {
    pub(super) attention: Dense,
    pub(super) attended: Dense,
    /// BERT's after attention, ModernBERT's before; the first layer there has none.
    pub(super) around_attention: Option<Normalisation>,
    pub(super) wide: Dense,
    pub(super) narrow: Dense,
    /// After or before the two dense ones.
    pub(super) around: Normalisation,
}

/// Judges a text, as a cross-encoder does.
pub(super) struct Head {
    pub(super) pooling: Pooling,
    pub(super) inner: Dense,
    /// BERT's is a hyperbolic tangent.
    pub(super) activation: Option<Activation>,
    pub(super) normalisation: Option<Normalisation>,
    pub(super) outer: Dense,
}

impl Network {
    /// One vector of length one for each text.
    pub(super) fn vectors(&self, batch: &[&Text]) -> Result<Vec<Vec<f32>>, String> {
        let lengths = self.lengths(batch);
        let state = self.encode(batch, &lengths)?;
        let width = self.description.width;
        Ok(texts(&state, &lengths, width)
            .map(|text| unit(pool(text, self.description.pooling, width)))
            .collect())
    }

    /// How well the two parts of each text belong together, as the model was trained to say; none for a model without that.
    pub(super) fn judgements(&self, batch: &[&Text]) -> Result<Option<Vec<f32>>, String> {
        let Some(head) = &self.head else { return Ok(None) };
        let lengths = self.lengths(batch);
        let state = self.encode(batch, &lengths)?;
        let product = GemmExecutor::new();
        let width = self.description.width;
        let pooled = texts(&state, &lengths, width).flat_map(|text| pool(text, head.pooling, width));
        let mut inner = head.inner.apply(&product, &pooled.collect::<Vec<_>>(), None)?;
        match head.activation {
            Some(activation) => activate(activation, &mut inner),
            None => Tanh {}.map_mut(&mut inner),
        }
        if let Some(normalisation) = &head.normalisation {
            normalisation.apply(&mut inner);
        }
        head.outer.apply(&product, &inner, None).map(Some)
    }

    fn lengths(&self, batch: &[&Text]) -> Vec<usize> {
        batch.iter().map(|text| text.tokens.len().min(self.description.window)).collect()
    }

    /// The last layer's numbers, a row a token.
    fn encode(&self, batch: &[&Text], lengths: &[usize]) -> Result<Vec<f32>, String> {
        // It is bound to its thread and costs next to nothing.
        let product = GemmExecutor::new();
        let mut state = self.look_up(batch)?;
        self.embedded.apply(&mut state);
        match &self.description.family {
            Family::Bert(_) => self.run_bert(&product, state, lengths),
            Family::Modern(modern) => self.run_modern(&product, state, lengths, modern),
        }
    }

    fn heads(&self) -> Heads {
        Heads { count: self.description.heads, width: self.description.head_width() }
    }

    fn run_bert(
        &self,
        product: &GemmExecutor,
        mut state: Vec<f32>,
        lengths: &[usize],
    ) -> Result<Vec<f32>, String> {
        for layer in &self.layers {
            let projected = layer.attention.apply(product, &state, None)?;
            let mixed = attend(product, &projected, lengths, self.heads(), None)?;
            state = layer.attended.apply(product, &mixed, Some(state))?;
            if let Some(normalisation) = &layer.around_attention {
                normalisation.apply(&mut state);
            }
            let mut wide = layer.wide.apply(product, &state, None)?;
            activate(self.description.activation, &mut wide);
            state = layer.narrow.apply(product, &wide, Some(state))?;
            layer.around.apply(&mut state);
        }
        Ok(state)
    }

    fn run_modern(
        &self,
        product: &GemmExecutor,
        mut state: Vec<f32>,
        lengths: &[usize],
        modern: &Modern,
    ) -> Result<Vec<f32>, String> {
        let (everywhere, nearby) = self.turnings.as_ref().ok_or("it has no turning")?;
        for (layer, &sees_all) in self.layers.iter().zip(&modern.sees_all) {
            let mut projected = match &layer.around_attention {
                Some(normalisation) => {
                    let mut normal = state.clone();
                    normalisation.apply(&mut normal);
                    layer.attention.apply(product, &normal, None)?
                }
                None => layer.attention.apply(product, &state, None)?,
            };
            let (turning, near) = if sees_all { (everywhere, None) } else { (nearby, Some(modern.near)) };
            turning.apply(&mut projected, lengths, self.heads());
            let mixed = attend(product, &projected, lengths, self.heads(), near)?;
            state = layer.attended.apply(product, &mixed, Some(state))?;
            let mut normal = state.clone();
            layer.around.apply(&mut normal);
            let wide = layer.wide.apply(product, &normal, None)?;
            let gated = gate(self.description.activation, &wide, layer.wide.outputs());
            state = layer.narrow.apply(product, &gated, Some(state))?;
        }
        if let Some(last) = &self.last {
            last.apply(&mut state);
        }
        Ok(state)
    }

    /// What stands for a word, its place and its segment, added, a row a token.
    fn look_up(&self, batch: &[&Text]) -> Result<Vec<f32>, String> {
        let width = self.description.width;
        let mut rows = Vec::new();
        for text in batch {
            for (place, &token) in text.tokens.iter().take(self.description.window).enumerate() {
                let start = rows.len();
                let word = token as usize * width;
                let word = self.words.get(word..word + width);
                rows.extend_from_slice(word.ok_or("a token beyond the vocabulary")?);
                if let Some(place) = self.places.get(place * width..(place + 1) * width) {
                    add(&mut rows[start..], place);
                }
                if place >= text.second {
                    add(&mut rows[start..], &self.second);
                }
            }
        }
        Ok(rows)
    }
}

fn activate(activation: Activation, values: &mut [f32]) {
    match activation {
        Activation::Gelu => Gelu {}.map_mut(values),
        Activation::ApproximateGelu => ApproxGelu {}.map_mut(values),
        Activation::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
    }
}

/// The first half of each row, activated, times the second.
fn gate(activation: Activation, wide: &[f32], width: usize) -> Vec<f32> {
    let half = width / 2;
    let mut gated: Vec<f32> = wide.chunks_exact(width).flat_map(|row| &row[..half]).copied().collect();
    activate(activation, &mut gated);
    for (values, row) in gated.chunks_exact_mut(half).zip(wide.chunks_exact(width)) {
        values.iter_mut().zip(&row[half..]).for_each(|(value, gate)| *value *= gate);
    }
    gated
}

/// One row out of a text's.
fn pool(text: &[f32], pooling: Pooling, width: usize) -> Vec<f32> {
    match pooling {
        Pooling::First => text[..width].to_vec(),
        Pooling::Mean => {
            let mut mean = vec![0.0; width];
            text.chunks_exact(width).for_each(|token| add(&mut mean, token));
            let tokens = (text.len() / width).max(1) as f32;
            mean.iter_mut().for_each(|value| *value /= tokens);
            mean
        }
    }
}

/// Scaled to length one.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    vector.iter_mut().for_each(|value| *value /= length);
    vector
}

pub(super) fn add(to: &mut [f32], values: &[f32]) {
    to.iter_mut().zip(values).for_each(|(to, value)| *to += value);
}
