//! The address of a database: what it says, and what is refused before anything is sent or logged.

use std::{error::Error as _, net::IpAddr};

use hindcast_core::store::StoreError;
use tokio_postgres::{
    Config, Error,
    config::{Host, SslMode},
};

use super::database::PostgresSettings;

const HOW: &str = "write `postgres://USER@HOST:PORT/DATABASE`";

/// What the address says, with the password of the settings and encryption wherever it leaves the machine.
pub(super) fn config_of(settings: &PostgresSettings) -> Result<Config, StoreError> {
    check_at_signs(&settings.url)?;
    let (url, asked) = split_sslmode(&settings.url);
    let mut config: Config = url.parse().map_err(|error: Error| {
        // The address may hold a password: tell only what is wrong with it.
        let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
        let how = if reason.contains("sslrootcert") { "name that file in `store.tls_ca`" } else { HOW };
        refused(&reason, how)
    })?;
    if let Some(password) = &settings.password {
        config.password(password);
    }
    if config.get_application_name().is_none() {
        config.application_name("hindcast");
    }
    config.ssl_mode(match asked {
        Some(asked) => ssl_mode(asked)?,
        None if is_local(&config) => SslMode::Disable,
        None => SslMode::Require,
    });
    Ok(config)
}

/// Whether what is sent there does not leave this machine.
pub(super) fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(is_here) && config.get_hostaddrs().iter().all(IpAddr::is_loopback)
}

/// Host, port and database, without user and password.
pub(super) fn name_of(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(place, host)| {
        let ports = config.get_ports();
        let port = ports.get(place).or(ports.first()).copied().unwrap_or(5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        }
    });
    let hosts = hosts.collect::<Vec<_>>().join(",");
    match config.get_dbname() {
        Some(database) => format!("{hosts}/{database}"),
        None => hosts,
    }
}

fn refused(reason: &str, how: &str) -> StoreError {
    StoreError::Unavailable(format!("`store.url` is not an address of PostgreSQL: {reason} · hint: {how}"))
}

/// An `@` ends the password. With a second one the rest of the password would be read as the host, and be logged.
fn check_at_signs(url: &str) -> Result<(), StoreError> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let Some((credentials, place)) = rest.split_once('@') else { return Ok(()) };
    let user = credentials.split_once(':').map_or(credentials, |(user, _)| user);
    if place.contains('@') || user.contains(['/', '?']) {
        return Err(refused(
            "it has an `@` that does not stand between user and host",
            "write each `@` of a password as `%40`, or keep the password in `store.password_file`",
        ));
    }
    Ok(())
}

/// The address without its `sslmode`, which the parser knows too few values of, and that value.
fn split_sslmode(url: &str) -> (String, Option<&str>) {
    let begin = url.find('@').unwrap_or_default();
    let Some(query) = url[begin..].find('?').map(|place| begin + place + 1) else {
        return (url.to_owned(), None);
    };
    let is_mode = |parameter: &&str| parameter.starts_with("sslmode=");
    let parameters = || url[query..].split('&');
    let asked = parameters().rfind(is_mode).and_then(|mode| mode.split_once('=')).map(|(_, value)| value);
    let others: Vec<_> = parameters().filter(|parameter| !is_mode(parameter)).collect();
    (format!("{}{}", &url[..query], others.join("&")), asked)
}

/// Where encryption is asked for, the certificate is checked in full, also where libpq would check less.
fn ssl_mode(asked: &str) -> Result<SslMode, StoreError> {
    match asked {
        "disable" => Ok(SslMode::Disable),
        "require" | "verify-ca" | "verify-full" => Ok(SslMode::Require),
        "allow" | "prefer" => Err(refused(
            &format!("`sslmode={asked}` would go on without encryption when the server offers none"),
            "write `sslmode=require`, or `sslmode=disable` if nothing needs to be encrypted",
        )),
        _ => Err(refused(
            "`sslmode` has an unknown value",
            "write `disable`, `require`, `verify-ca` or `verify-full`",
        )),
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(url: &str) -> Result<Config, StoreError> {
        config_of(&PostgresSettings { url: url.into(), ..Default::default() })
    }

    #[test]
    fn what_leaves_the_machine_is_encrypted_unless_somebody_says_otherwise() {
        for (url, expected) in [
            ("postgres://ada@db.example.org/hindcast", SslMode::Require),
            ("postgres://ada@10.0.0.7/hindcast", SslMode::Require),
            ("postgres://ada@localhost,db.example.org/hindcast", SslMode::Require),
            ("postgres://ada@localhost/hindcast?hostaddr=10.0.0.7", SslMode::Require),
            ("postgres:///hindcast?hostaddr=10.0.0.7", SslMode::Require),
            ("postgres://ada:sslmode=disable@db.example.org/hindcast", SslMode::Require),
            ("postgres://ada:?sslmode=disable@db.example.org/hindcast", SslMode::Require),
            ("postgres://ada@localhost/hindcast", SslMode::Disable),
            ("postgres://ada@[::1]/hindcast", SslMode::Disable),
            ("postgres:///hindcast?host=/run/postgresql&user=ada", SslMode::Disable),
            ("postgres://ada@localhost/hindcast?sslmode=require", SslMode::Require),
            ("postgres://ada@localhost/hindcast?sslmode=verify-ca", SslMode::Require),
            ("postgres://ada@db.example.org/h?sslmode=verify-full&connect_timeout=3", SslMode::Require),
            ("postgres://ada@db.example.org/hindcast?sslmode=disable", SslMode::Disable),
            ("postgres://ada@db.example.org/h?connect_timeout=3&sslmode=disable", SslMode::Disable),
        ] {
            assert_eq!(read(url).unwrap().get_ssl_mode(), expected, "{url}");
        }
    }

    #[test]
    fn the_name_of_a_database_has_no_password() {
        for (url, expected) in [
            ("postgres://ada:s3cret@db.example.org/hindcast", "db.example.org:5432/hindcast"),
            ("postgres://ada:s3c%40ret@db.example.org/hindcast", "db.example.org:5432/hindcast"),
            ("postgres://ada:s3cret@a:1,b:2/hindcast", "a:1,b:2/hindcast"),
            ("postgres://ada:s3cret@/h?host=/run/postgresql", "/run/postgresql:5432/h"),
        ] {
            assert_eq!(name_of(&read(url).unwrap()), expected);
        }
    }

    #[test]
    fn an_address_that_makes_no_sense_is_refused_without_repeating_it() {
        for (url, told) in [
            ("postgres://ada:s3cret@host:port/db", "port"),
            ("postgres://ada:s3cret@host/db?sslmode=maybe", "verify-full"),
            (
                "postgres://ada:s3cret@host/db?sslmode=prefer",
                "`sslmode=prefer` would go on without encryption",
            ),
            ("postgres://ada:s3cret@host/db?sslmode=allow", "`sslmode=allow` would go on without encryption"),
            ("postgres://ada:s3cret@host/db?sslrootcert=/a.pem", "store.tls_ca"),
            ("postgres://ada:a@s3cret@host/db", "%40"),
            ("postgres://ada:a@s3cret/b@host/db", "%40"),
            ("postgres://host/db?user=ada&password=a@s3cret", "%40"),
            ("s3cret", "store.url"),
        ] {
            let refused = read(url).err().unwrap().to_string();
            assert!(refused.contains("store.url") && refused.contains("hint: "), "{refused}");
            assert!(refused.contains(told), "{url}: {refused}");
            assert!(!refused.contains("s3cret"), "{refused}");
        }
    }
}
