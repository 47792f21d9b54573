//! Variables that Kubernetes sets in a pod for each service of its namespace.
//!
//! A service named `hindcast` gives `HINDCAST_SERVICE_HOST`, `HINDCAST_PORT=tcp://10.0.0.1:7443`,
//! `HINDCAST_PORT_7443_TCP_ADDR` and others; one named `hindcast-server` gives `HINDCAST_SERVER_PORT`.

/// Whether this is such a variable, by its name and the form of its value.
pub(super) fn is_one(variable: &str, value: &str) -> bool {
    if variable.ends_with("_SERVICE_HOST") {
        return is_address(value);
    }
    if let Some((_, port_name)) = variable.split_once("_SERVICE_PORT") {
        return (port_name.is_empty() || port_name.starts_with('_')) && is_port(value);
    }
    variable.match_indices("_PORT").any(|(at, found)| is_port_variable(&variable[at + found.len()..], value))
}

/// `rest` is what follows `_PORT`: nothing, `_7443_TCP`, `_7443_TCP_ADDR` and so on.
fn is_port_variable(rest: &str, value: &str) -> bool {
    if rest.is_empty() {
        return is_endpoint(value);
    }
    let mut parts = rest.trim_start_matches('_').split('_');
    let (port, protocol, part) = (parts.next(), parts.next(), parts.next());
    if parts.next().is_some() || !port.is_some_and(is_port) || !protocol.is_some_and(is_protocol) {
        return false;
    }
    match part {
        None => is_endpoint(value),
        Some("PROTO") => is_protocol(value),
        Some("PORT") => is_port(value),
        Some("ADDR") => is_address(value),
        Some(_) => false,
    }
}

/// Such as `tcp://10.0.0.1:7443`.
fn is_endpoint(value: &str) -> bool {
    let Some((protocol, address)) = value.split_once("://") else { return false };
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    is_protocol(protocol) && is_address(host) && is_port(port)
}

fn is_protocol(text: &str) -> bool {
    ["tcp", "udp", "sctp"].iter().any(|protocol| text.eq_ignore_ascii_case(protocol))
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_address(text: &str) -> bool {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    bare.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::keys;

    fn check(variable: &str, value: &str, expected: bool) {
        assert_eq!(is_one(variable, value), expected, "{variable}={value}");
    }

    #[test]
    fn they_are_known_by_name_and_value() {
        for (variable, value) in [
            ("HINDCAST_SERVICE_HOST", "10.96.12.7"),
            ("HINDCAST_SERVICE_HOST", "fd00::7"),
            ("HINDCAST_SERVICE_PORT", "7443"),
            ("HINDCAST_SERVICE_PORT_HTTPS", "7443"),
            ("HINDCAST_PORT", "tcp://10.96.12.7:7443"),
            ("HINDCAST_PORT", "tcp://[fd00::7]:7443"),
            ("HINDCAST_SERVER_PORT", "tcp://10.96.12.7:7443"),
            ("HINDCAST_PORTAL_PORT", "tcp://10.96.12.7:7443"),
            ("HINDCAST_PORT_7443_TCP", "tcp://10.96.12.7:7443"),
            ("HINDCAST_PORT_7443_TCP_PROTO", "tcp"),
            ("HINDCAST_PORT_7443_TCP_PORT", "7443"),
            ("HINDCAST_PORT_7443_TCP_ADDR", "10.96.12.7"),
        ] {
            check(variable, value, true);
        }
        for (variable, value) in [
            ("HINDCAST_PORT", "7443"),
            ("HINDCAST_SERVER_LISEN", "127.0.0.1:1"),
            ("HINDCAST_PORT_HTTP", "tcp://10.96.12.7:7443"),
            ("HINDCAST_SERVICE_HOST", "debug.example.org"),
            ("HINDCAST_PORT_7443_TCP_ADDR", "somewhere"),
            ("HINDCAST_PORT_7443_TCP_OTHER_ADDR", "10.96.12.7"),
        ] {
            check(variable, value, false);
        }
    }

    /// A key named `server.port` could not be told from what a service named `hindcast-server` gives.
    #[test]
    fn no_key_has_a_variable_that_kubernetes_could_set() {
        for key in keys::known_keys() {
            let variable = &key.variable;
            let like_a_service = variable.contains("_SERVICE_HOST") || variable.contains("_SERVICE_PORT");
            assert!(!like_a_service && !variable.contains("_PORT"), "{variable}");
        }
    }
}
