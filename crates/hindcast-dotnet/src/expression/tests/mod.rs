//! Tests of expressions.

mod arithmetic;
mod dotnet_results;
mod errors;
mod fold;
mod hostile;
mod show;
mod syntax;
