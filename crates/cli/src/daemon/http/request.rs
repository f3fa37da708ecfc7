//! Decodes the relevant parts of an HTTP request head.

use std::net::IpAddr;

/// A request head. Requests have no body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct HttpRequest {
    pub(super) method: String,
    /// The path without the query.
    pub(super) path: String,
    /// The host by which the client calls this server.
    host: Option<String>,
}

impl HttpRequest {
    /// Decodes a head up to the empty line; `None` if it is malformed.
    pub(super) fn parse(head: &[u8]) -> Option<HttpRequest> {
        let head = String::from_utf8_lossy(head);
        let (head, _) = head.split_once("\r\n\r\n")?;
        let mut lines = head.split("\r\n");
        let words: Vec<&str> = lines.next()?.split(' ').collect();
        let [method, target, version] = words[..] else {
            return None;
        };
        if !version.starts_with("HTTP/1.") {
            return None;
        }
        let mut host = None;
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let is_host = name.eq_ignore_ascii_case("host");
            if is_host && host.replace(value.trim().to_owned()).is_some() {
                // With two host headers, a proxy might have believed the other.
                return None;
            }
        }
        Some(HttpRequest {
            method: method.into(),
            path: target.split('?').next().unwrap_or_default().into(),
            host,
        })
    }

    /// Returns true if the client called this machine by a name or an address that always means the local machine.
    pub(super) fn is_for_this_machine(&self) -> bool {
        self.host.as_deref().is_some_and(names_this_machine)
    }
}

fn names_this_machine(host: &str) -> bool {
    let (name, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or(("", "")),
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let port_is_one = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    let address = name.parse::<IpAddr>();
    let is_loopback = address.is_ok_and(|address| address.to_canonical().is_loopback());
    port_is_one && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(head: &str) -> Option<HttpRequest> {
        HttpRequest::parse(head.as_bytes())
    }

    #[test]
    fn a_request_head_is_parsed_into_method_path_and_host() {
        let read = parse("GET /a?b=c HTTP/1.1\r\nAccept: */*\r\nhOST: localhost:1 \r\n\r\nrest");
        let expected = HttpRequest {
            method: "GET".into(),
            path: "/a".into(),
            host: Some("localhost:1".into()),
        };
        assert_eq!(read, Some(expected));
        assert_eq!(parse("GET / HTTP/1.0\r\n\r\n").unwrap().host, None);
        for head in [
            "",
            "\r\n\r\n",
            "nonsense\r\n\r\n",
            "GET / HTTP/1.1\r\n",
            "GET / HTTP/2\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno header\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
        ] {
            assert_eq!(parse(head), None, "{head:?}");
        }
        assert_eq!(HttpRequest::parse(b"\x16\x03\x01\xff\r\n\r\n"), None);
    }

    #[test]
    fn only_loopback_host_names_name_this_machine() {
        for host in [
            "localhost",
            "LocalHost:9420",
            "127.0.0.1",
            "127.8.8.8:80",
            "[::1]",
            "[::1]:9420",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(names_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:9420",
            "10.0.0.1:9420",
            "0.0.0.0",
            "[::2]:80",
            "[::1",
            "[::1]x",
            "localhost:",
            "localhost:x",
            "localhost:1:2",
            "user@localhost",
        ] {
            assert!(!names_this_machine(host), "{host}");
        }
    }
}
