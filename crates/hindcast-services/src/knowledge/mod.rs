//! What the product does with knowledge.

pub mod fusion;
pub mod quality;
