//! Tests of expressions.

mod arithmetic;
mod dotnet_results;
mod errors;
mod hostile;
mod show;
mod syntax;
