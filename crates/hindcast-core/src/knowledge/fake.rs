//! An embedder for tests that is honest about little: texts are near when they share words.

use super::{EmbedError, Embedder};

/// Counts words into a small vector.
pub struct WordEmbedder;

const DIMENSION: usize = 64;

impl Embedder for WordEmbedder {
    fn model(&self) -> &str {
        "words"
    }

    fn dimension(&self) -> usize {
        DIMENSION
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| vector(text)).collect())
    }
}

fn vector(text: &str) -> Vec<f32> {
    let mut numbers = vec![0.0_f32; DIMENSION];
    for word in
        text.to_lowercase().split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty())
    {
        let hash = word.bytes().fold(5381_usize, |hash, byte| hash.wrapping_mul(33) ^ usize::from(byte));
        numbers[hash % DIMENSION] += 1.0;
    }
    let length = numbers.iter().map(|number| number * number).sum::<f32>().sqrt().max(f32::MIN_POSITIVE);
    numbers.iter().map(|number| number / length).collect()
}
