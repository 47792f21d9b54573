//! Tests of expressions.

mod arithmetic;
mod errors;
mod hostile;
mod show;
mod syntax;
