//! Which hosts and web pages may be talked to: the defence against DNS rebinding.

use http::{HeaderMap, Uri, header, uri::Authority};

use super::HttpPolicy;

/// Names and origins that are let through.
pub(super) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Guard {
    pub(super) fn new(policy: &HttpPolicy) -> Self {
        let mut hosts = vec!["localhost".into(), "127.0.0.1".into(), "::1".into()];
        if !policy.listen.ip().is_unspecified() {
            hosts.push(policy.listen.ip().to_string());
        }
        hosts.extend(policy.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()));
        let origins = policy.allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        Self { hosts, origins }
    }

    /// Says what is wrong with where the request says it comes from or goes to.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), String> {
        if headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err("there is more than one Host header".into());
        }
        let host = match headers.get(header::HOST) {
            Some(host) => host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()),
            None => uri.authority().cloned(),
        };
        let host = host.ok_or("the Host header is missing or malformed")?;
        // A target in absolute form names the host a second time, and proxies go by that one.
        for host in [Some(&host), uri.authority()].into_iter().flatten() {
            if !self.knows_host(host) {
                return Err(format!("this server does not answer to the host `{host}`"));
            }
        }
        for origin in headers.get_all(header::ORIGIN) {
            let allowed =
                origin.to_str().is_ok_and(|origin| self.allows_origin(&origin.to_ascii_lowercase()));
            if !allowed {
                return Err(format!(
                    "web pages of `{}` may not call this server",
                    String::from_utf8_lossy(origin.as_bytes())
                ));
            }
        }
        Ok(())
    }

    fn knows_host(&self, authority: &Authority) -> bool {
        let name = authority.host().trim_start_matches('[').trim_end_matches(']');
        self.hosts
            .iter()
            .any(|known| known.eq_ignore_ascii_case(name) || known.eq_ignore_ascii_case(authority.as_str()))
    }

    /// An origin is allowed when it is configured, or is a page that one of our own names served.
    fn allows_origin(&self, origin: &str) -> bool {
        let own = origin
            .strip_prefix("https://")
            .or_else(|| origin.strip_prefix("http://"))
            .and_then(|rest| rest.parse::<Authority>().ok())
            .is_some_and(|authority| self.knows_host(&authority));
        own || self.origins.iter().any(|known| known == origin)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn check(host: &str, origin: Option<&str>) -> Result<(), String> {
        check_target("/mcp", host, origin)
    }

    fn check_target(target: &'static str, host: &str, origin: Option<&str>) -> Result<(), String> {
        let guard = Guard::new(&HttpPolicy {
            listen: "127.0.0.1:7443".parse().unwrap(),
            allowed_hosts: vec!["debug.example.com".into()],
            allowed_origins: vec!["https://app.example.com".into()],
            max_body_bytes: 0,
            max_connections: 0,
            connection_timeout: Duration::ZERO,
            request_timeout: Duration::ZERO,
            drain_timeout: Duration::ZERO,
            is_encrypted: false,
            tickets: None,
            open_metrics: false,
        });
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        guard.check(&Uri::from_static(target), &headers)
    }

    #[test]
    fn loopback_and_configured_hosts_are_known_on_any_port() {
        for host in ["localhost", "LOCALHOST:7443", "127.0.0.1:1", "[::1]:7443", "debug.example.com"] {
            assert_eq!(check(host, None), Ok(()), "{host}");
        }
        for host in ["evil.example.com", "localhost.evil.example.com", "debug.example.com.evil", "10.0.0.1"] {
            assert!(check(host, None).is_err(), "{host}");
        }
    }

    #[test]
    fn a_target_in_absolute_form_must_name_a_known_host_too() {
        assert_eq!(check_target("http://localhost:7443/mcp", "localhost", None), Ok(()));
        assert!(check_target("http://evil.example.com/mcp", "localhost", None).is_err());
        assert!(check_target("http://localhost/mcp", "evil.example.com", None).is_err());
    }

    #[test]
    fn only_own_and_configured_pages_may_call() {
        for origin in ["https://localhost:7443", "http://127.0.0.1:5173", "https://app.example.com"] {
            assert_eq!(check("localhost", Some(origin)), Ok(()), "{origin}");
        }
        for origin in
            ["https://evil.example.com", "null", "http://app.example.com", "https://app.example.com:8443"]
        {
            assert!(check("localhost", Some(origin)).is_err(), "{origin}");
        }
    }
}
