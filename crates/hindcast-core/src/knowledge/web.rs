//! The seam to whatever gets pages from the web.

/// What a server answered.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebAnswer {
    /// 200 where it is the page.
    pub status: u16,
    /// Where it is instead, as the server wrote it.
    pub location: Option<String>,
    /// What the page is written in, as the server says.
    pub mime_type: Option<String>,
    /// The page.
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WebError {
    /// The host is on this machine or in its network.
    #[error(
        "`{0}` is a host of a private network · hint: let the operator set `knowledge.web_private` if pages of it may be taken in"
    )]
    Private(String),
    /// It could not be asked, or broke off.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It is larger than was allowed.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
}

/// Gets pages. Redirects are answers like others.
pub trait Web: Send + Sync {
    /// Asks for an address, `http` or `https`. Reads at most `limit` bytes. Blocks.
    fn get(&self, url: &str, limit: u64) -> Result<WebAnswer, WebError>;
}
