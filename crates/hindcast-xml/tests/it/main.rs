//! Documents, queries and schemas, held against libxml2's `xmllint` where that is right.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, reason = "these are tests")]

mod hostile;
mod oracle;
mod reading;
mod schema;
mod schema_cases;
mod xpath;
mod xpath_cases;
