//! Pages of the web, from public hosts only unless the operator allows others.

use std::{
    io::Read,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs},
    sync::{Arc, OnceLock},
    time::Duration,
};

use hindcast_core::knowledge::{Web, WebAnswer, WebError};
use reqwest::{
    blocking::{Client, Response},
    dns::{Addrs, Name, Resolve, Resolving},
    header::{CONTENT_TYPE, HeaderName, LOCATION},
    redirect::Policy,
};

use crate::tls;

/// For a connection to be there.
const PATIENCE: Duration = Duration::from_secs(15);
/// For a whole page.
const LONGEST: Duration = Duration::from_secs(60);

/// Gets pages over HTTP and HTTPS, without cookies and without a proxy: a proxy would look names up itself, past the check.
pub struct WebClient {
    /// Made when it is needed first: that waits for a thread, which is not allowed everywhere.
    client: OnceLock<Client>,
    allows_private: bool,
}

impl WebClient {
    /// Gets pages of private networks only where that is allowed.
    pub fn new(allows_private: bool) -> Self {
        Self { client: OnceLock::new(), allows_private }
    }

    fn client(&self) -> Result<&Client, WebError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        tls::ensure_provider();
        let client = Client::builder()
            .user_agent(concat!("hindcast/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(PATIENCE)
            .timeout(LONGEST)
            .redirect(Policy::none())
            .no_proxy()
            .dns_resolver(Arc::new(Names { allows_private: self.allows_private }))
            .build()
            .map_err(|error| WebError::Unreachable(error.to_string()))?;
        Ok(self.client.get_or_init(|| client))
    }
}

impl Web for WebClient {
    fn get(&self, url: &str, limit: u64) -> Result<WebAnswer, WebError> {
        let unreachable = |error: reqwest::Error| WebError::Unreachable(whole_story(&error.without_url()));
        let client = self.client()?;
        let request = client.get(url).build().map_err(unreachable)?;
        // An address that is written as numbers is not looked up.
        let host = request.url().host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if let Ok(address) = host.parse::<IpAddr>()
            && !self.allows_private
            && !is_public(address)
        {
            return Err(WebError::Private(host));
        }
        let mut response = client.execute(request).map_err(|error| match is_refused(&error) {
            true => WebError::Private(host),
            false => unreachable(error),
        })?;
        let header = |name: HeaderName, response: &Response| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let (location, mime_type) = (header(LOCATION, &response), header(CONTENT_TYPE, &response));
        let mut body = Vec::new();
        let read = response.by_ref().take(limit + 1).read_to_end(&mut body);
        read.map_err(|error| WebError::Unreachable(format!("it broke off: {error}")))?;
        if body.len() as u64 > limit {
            return Err(WebError::TooLarge(limit));
        }
        Ok(WebAnswer { status: response.status().as_u16(), location, mime_type, body })
    }
}

/// Looks names up, and does not find hosts of private networks. The connection is made to what is found here, so a name cannot
/// lead elsewhere the second time.
struct Names {
    allows_private: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the host is in a private network")]
struct Refused;

impl Resolve for Names {
    fn resolve(&self, name: Name) -> Resolving {
        let allows_private = self.allows_private;
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found = tokio::task::spawn_blocking(move || (host.as_str(), 0).to_socket_addrs());
            let found: Vec<SocketAddr> = found.await??.collect();
            if !allows_private && found.iter().any(|address| !is_public(address.ip())) {
                return Err(Refused.into());
            }
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<Refused>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// An error with its causes, which reqwest keeps to itself.
fn whole_story(error: &dyn std::error::Error) -> String {
    let mut story = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        story = format!("{story}: {error}");
        cause = error.source();
    }
    story
}

/// Whether an address is one of the whole internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            Some(address) => is_public_v4(address),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [first, second, third, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_broadcast()
        || address.is_documentation()
        || address.is_multicast()
        || first == 0
        || first >= 240
        || (first == 100 && (64..128).contains(&second))
        || (first == 192 && second == 0 && third == 0)
        || (first == 198 && (18..20).contains(&second));
    !is_special
}

/// Global unicast, without the ranges that carry an IPv4 address, which could be a private one.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let is_global = (0x2000..0x4000).contains(&first);
    let is_carrier = first == 0x2002 || (first == 0x2001 && second == 0);
    let is_documentation = first == 0x2001 && second == 0xdb8;
    is_global && !is_carrier && !is_documentation
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_private_networks_are_told_from_public_ones() {
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "::1",
            "::",
            "fe80::1",
            "fd00::1",
            "::ffff:127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:db8::1",
            "ff02::1",
        ] {
            assert!(!is_public(private.parse().unwrap()), "{private}");
        }
        for public in ["1.1.1.1", "93.184.216.34", "172.32.0.1", "2606:4700::1111", "::ffff:1.1.1.1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn hosts_of_this_machine_are_refused_by_address_and_by_name() {
        let client = WebClient::new(false);
        for url in [
            "http://127.0.0.1:9/",
            "http://localhost:9/",
            "http://[::1]:9/",
            "http://2130706433:9/",
            "http://0x7f.1:9/",
        ] {
            let refused = client.get(url, 10);
            assert!(matches!(refused, Err(WebError::Private(_))), "{url}: {refused:?}");
        }
        let allowed = WebClient::new(true).get("http://127.0.0.1:9/", 10);
        assert!(matches!(allowed, Err(WebError::Unreachable(_))), "{allowed:?}");
    }
}
