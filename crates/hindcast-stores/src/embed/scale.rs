//! Where the scale of a model's cosines begins.

/// Texts that have nothing to do with each other.
pub(crate) const UNRELATED: [&str; 8] = [
    "The heron stands in the shallow water and waits for a fish.",
    "Interest rates were raised by a quarter of a percent in March.",
    "def parse_header(line): return line.split(':', 1)",
    "Knead the dough for ten minutes and let it rise overnight.",
    "The treaty of 1648 ended thirty years of war.",
    "Photosynthesis turns light into chemical energy.",
    "She scored the winning goal in the last minute of the match.",
    "A violin has four strings, tuned in perfect fifths.",
];

/// The mean cosine of vectors of length one that are of [`UNRELATED`].
pub(crate) fn mean_cosine(vectors: &[Vec<f32>]) -> f32 {
    let mut cosines = Vec::new();
    for (number, one) in vectors.iter().enumerate() {
        for other in &vectors[..number] {
            cosines.push(one.iter().zip(other).map(|(one, other)| one * other).sum::<f32>());
        }
    }
    (cosines.iter().sum::<f32>() / cosines.len().max(1) as f32).clamp(0.0, 0.95)
}
