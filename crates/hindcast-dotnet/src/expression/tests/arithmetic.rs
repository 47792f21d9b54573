//! Operators, conversions and how values are written.
