//! Socket addresses.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen at or connect to. Parsed and printed as `unix:/run/forebay.sock` or `localhost:10809`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SocketAddress {
    /// The path of a unix socket.
    Unix(PathBuf),
    /// A host (name or number; IPv6 in brackets) and a port.
    Tcp(String),
}

/// Error: the text is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not an address (write for example unix:/run/forebay.sock or localhost:10809)")]
pub struct SocketAddressError(String);

impl SocketAddress {
    /// Resolves a TCP address to numeric addresses. Queries the name service, and may block.
    ///
    /// # Errors
    /// If the host is unknown.
    pub(super) fn resolve(host_and_port: &str) -> io::Result<Vec<SocketAddr>> {
        let addresses: Vec<_> = host_and_port.to_socket_addrs()?.collect();
        if addresses.is_empty() {
            let text = format!("{host_and_port} has no address");
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        Ok(addresses)
    }
}

impl FromStr for SocketAddress {
    type Err = SocketAddressError;

    fn from_str(text: &str) -> Result<SocketAddress, SocketAddressError> {
        let error = || SocketAddressError(text.into());
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err(error()),
                path => Ok(SocketAddress::Unix(path.into())),
            };
        }
        if text.starts_with('/') {
            return Ok(SocketAddress::Unix(text.into()));
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
        port.parse::<u16>().map_err(|_| error())?;
        if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
            return Err(error());
        }
        Ok(SocketAddress::Tcp(text.into()))
    }
}

impl fmt::Display for SocketAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SocketAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            SocketAddress::Tcp(host_and_port) => f.write_str(host_and_port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_addresses_survive_parse_and_print() {
        for text in [
            "unix:/run/a.sock",
            "localhost:10809",
            "[::1]:80",
            "0.0.0.0:0",
        ] {
            assert_eq!(text.parse::<SocketAddress>().unwrap().to_string(), text);
        }
        assert_eq!("/x".parse(), Ok(SocketAddress::Unix("/x".into())));
    }

    #[test]
    fn invalid_socket_addresses_are_refused() {
        for text in [
            "",
            "unix:",
            "localhost",
            "localhost:http",
            "::1:80",
            ":80",
            "a:70000",
        ] {
            assert!(text.parse::<SocketAddress>().is_err(), "{text}");
        }
    }
}
