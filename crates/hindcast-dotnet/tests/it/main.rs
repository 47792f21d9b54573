//! The .NET engine and what it reads.

mod image;
