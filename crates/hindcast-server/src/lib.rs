//! hindcast on the wire: MCP over standard input and output and over HTTPS.
//!
//! ```text
//! http::listener → http::front ─┐
//!                               ├→ mcp::handler → app → registry → services
//! stdio ────────────────────────┘
//! ```
//!
//! A tool or resource is declared once, in `tools` or `resources`; listing, dispatch, scope checks,
//! audit and the generated reference follow from that declaration.

mod app;
mod catalogue;
mod debug_views;
mod excerpt;
mod finishing;
pub mod http;
mod jsonrpc;
mod knowledge_views;
mod mcp;
mod overtime;
mod prompts;
mod reference;
mod registry;
mod resources;
mod stdio;
#[cfg(test)]
mod tests;
mod tools;
mod toolset;

pub use app::{App, AppParts};
pub use catalogue::{ErrorKind, TABLE as ERROR_TABLE};
pub use hindcast_services::ToolNames;
pub use reference::reference_pages;
pub use stdio::serve as serve_stdio;
pub use toolset::Toolset;
