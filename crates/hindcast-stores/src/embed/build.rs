//! Putting a network together from its checkpoint.

use super::{
    attention::Turning,
    checkpoint::Checkpoint,
    description::{Bert, Description, Family, Modern, Pooling},
    network::{Head, Layer, Network, add},
};

impl Network {
    /// Reads a checkpoint in the safetensors format.
    pub(super) fn from_checkpoint(bytes: &[u8], description: Description) -> Result<Self, String> {
        let checkpoint = Checkpoint::read(bytes, description.epsilon)?;
        match description.family.clone() {
            Family::Bert(bert) => bert_network(&checkpoint, description, bert),
            Family::Modern(modern) => modern_network(&checkpoint, description, &modern),
        }
    }
}

fn bert_network(
    checkpoint: &Checkpoint<'_>,
    description: Description,
    bert: Bert,
) -> Result<Network, String> {
    let width = description.width;
    let name = |part: &str| checkpoint.of_encoder(part);
    let places = checkpoint.table(&name("embeddings.position_embeddings.weight"), width)?;
    let first = bert.first_place;
    let places = places.get(first * width..(first + description.window) * width);
    let mut places = places.ok_or("`embeddings.position_embeddings.weight` has too few places")?.to_vec();
    // Most texts have one segment, so its row is added beforehand.
    let segments = checkpoint.table(&name("embeddings.token_type_embeddings.weight"), width)?;
    places.chunks_exact_mut(width).for_each(|row| add(row, &segments[..width]));
    let second = segments.chunks_exact(width).nth(1).unwrap_or(&segments[..width]);
    let second = second.iter().zip(&segments).map(|(second, first)| second - first).collect();
    Ok(Network {
        words: checkpoint.table(&name("embeddings.word_embeddings.weight"), width)?,
        places,
        second,
        embedded: checkpoint.normalisation(&name("embeddings.LayerNorm"), width)?,
        layers: (0..description.layers)
            .map(|layer| bert_layer(checkpoint, &description, layer))
            .collect::<Result<_, _>>()?,
        last: None,
        turnings: None,
        head: bert_head(checkpoint, width, bert)?,
        description,
    })
}

fn bert_layer(
    checkpoint: &Checkpoint<'_>,
    description: &Description,
    number: usize,
) -> Result<Layer, String> {
    let Description { width, wide, .. } = *description;
    let name = |part: &str| checkpoint.of_encoder(&format!("encoder.layer.{number}.{part}"));
    // The usual division of the agreement by √width is put into the queries.
    let scale = (description.head_width() as f32).sqrt().recip();
    let (query, key, value) =
        (name("attention.self.query"), name("attention.self.key"), name("attention.self.value"));
    Ok(Layer {
        attention: checkpoint.dense(&[(&query, scale), (&key, 1.0), (&value, 1.0)], width)?,
        attended: checkpoint.dense(&[(&name("attention.output.dense"), 1.0)], width)?,
        around_attention: Some(checkpoint.normalisation(&name("attention.output.LayerNorm"), width)?),
        wide: checkpoint.dense(&[(&name("intermediate.dense"), 1.0)], width)?,
        narrow: checkpoint.dense(&[(&name("output.dense"), 1.0)], wide)?,
        around: checkpoint.normalisation(&name("output.LayerNorm"), width)?,
    })
}

/// What judges, where the checkpoint has it.
fn bert_head(checkpoint: &Checkpoint<'_>, width: usize, bert: Bert) -> Result<Option<Head>, String> {
    let pooler = checkpoint.of_encoder("pooler.dense");
    let (inner, outer) =
        if bert.is_roberta { ("classifier.dense", "classifier.out_proj") } else { (&*pooler, "classifier") };
    if !checkpoint.has(&format!("{outer}.weight")) {
        return Ok(None);
    }
    Ok(Some(Head {
        pooling: Pooling::First,
        inner: checkpoint.dense(&[(inner, 1.0)], width)?,
        activation: None,
        normalisation: None,
        outer: checkpoint.dense(&[(outer, 1.0)], width)?,
    }))
}

fn modern_network(
    checkpoint: &Checkpoint<'_>,
    description: Description,
    modern: &Modern,
) -> Result<Network, String> {
    let width = description.width;
    let name = |part: &str| checkpoint.of_encoder(part);
    let turning = |base: f32| Turning::new(description.window, description.head_width(), base);
    let head = if checkpoint.has("classifier.weight") {
        Some(Head {
            pooling: modern.judges_by,
            inner: checkpoint.dense(&[("head.dense", 1.0)], width)?,
            activation: Some(modern.judges_with),
            normalisation: Some(checkpoint.normalisation("head.norm", width)?),
            outer: checkpoint.dense(&[("classifier", 1.0)], width)?,
        })
    } else {
        None
    };
    Ok(Network {
        words: checkpoint.table(&name("embeddings.tok_embeddings.weight"), width)?,
        places: Vec::new(),
        second: Vec::new(),
        embedded: checkpoint.normalisation(&name("embeddings.norm"), width)?,
        layers: (0..description.layers)
            .map(|layer| modern_layer(checkpoint, &description, layer))
            .collect::<Result<_, _>>()?,
        last: Some(checkpoint.normalisation(&name("final_norm"), width)?),
        turnings: Some((turning(modern.turning.0), turning(modern.turning.1))),
        head,
        description,
    })
}

fn modern_layer(
    checkpoint: &Checkpoint<'_>,
    description: &Description,
    number: usize,
) -> Result<Layer, String> {
    let Description { width, wide, .. } = *description;
    let name = |part: &str| checkpoint.of_encoder(&format!("layers.{number}.{part}"));
    let scale = (description.head_width() as f32).sqrt().recip();
    let around_attention = match number {
        0 => None,
        _ => Some(checkpoint.normalisation(&name("attn_norm"), width)?),
    };
    Ok(Layer {
        attention: checkpoint.attention(&name("attn.Wqkv"), width, scale)?,
        attended: checkpoint.dense(&[(&name("attn.Wo"), 1.0)], width)?,
        around_attention,
        wide: checkpoint.dense(&[(&name("mlp.Wi"), 1.0)], width)?,
        narrow: checkpoint.dense(&[(&name("mlp.Wo"), 1.0)], wide)?,
        around: checkpoint.normalisation(&name("mlp_norm"), width)?,
    })
}
