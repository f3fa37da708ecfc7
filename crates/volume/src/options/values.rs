//! Types of the values of options.

use std::fmt;
use std::str::FromStr;

use forebay_linux::SocketAddress;
use forebay_units::ByteLen;

use crate::exact::exact;

/// Reason why a text is not a valid choice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not one of {choices}")]
pub struct ParseChoiceError {
    pub(crate) text: String,
    pub(crate) choices: &'static str,
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal),+ } $choices:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub enum $name { $($(#[$item_doc])* $item),+ }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($name::$item => $text),+ })
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::ParseChoiceError;

            fn from_str(text: &str) -> Result<$name, $crate::ParseChoiceError> {
                match text {
                    $($text => Ok($name::$item),)+
                    _ => Err($crate::ParseChoiceError { text: text.into(), choices: $choices }),
                }
            }
        }
    };
}

choice!(
    /// Front end that makes a block device of the volume.
    FrontEndKind {
        /// The best front end available on this system.
        #[default]
        Auto = "auto",
        /// The kernel's userspace block driver.
        Ublk = "ublk",
        /// The kernel's NBD client.
        Nbd = "nbd",
        /// A FUSE file under a loop device.
        Loop = "loop",
        /// No block device: only NBD clients can use the volume.
        None = "none"
    }
    "auto, ublk, nbd, loop, none"
);

choice!(
    /// Attaching of a volume from the initramfs.
    BootAttach {
        /// The initramfs attaches the volume.
        On = "on",
        /// A unit or an administrator attaches the volume.
        #[default]
        Off = "off"
    }
    "on, off"
);

choice!(
    /// Discarding of segments of a log-structured volume before they are reused.
    SegmentDiscard {
        /// Free segments are discarded.
        #[default]
        On = "on",
        /// Free segments are not discarded.
        Off = "off"
    }
    "on, off"
);

/// Requests that bypass the cache and go to the data device directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BypassSize {
    /// No requests.
    Off,
    /// Writes of at least this size.
    From(ByteLen),
}

/// Reason why a text is not a bypass size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseBypassError {
    /// The text is not a size.
    #[error("{0}, or write off")]
    Size(#[from] forebay_units::ParseByteLenError),
    /// Everything would bypass the cache.
    #[error("a bypass size below 4KiB would leave nothing to cache; write off, or 64KiB")]
    TooSmall,
}

impl FromStr for BypassSize {
    type Err = ParseBypassError;

    fn from_str(text: &str) -> Result<BypassSize, ParseBypassError> {
        if text == "off" {
            return Ok(BypassSize::Off);
        }
        let size: ByteLen = text.parse()?;
        if size < ByteLen::kib(4) {
            return Err(ParseBypassError::TooSmall);
        }
        Ok(BypassSize::From(size))
    }
}

impl fmt::Display for BypassSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BypassSize::Off => f.write_str("off"),
            // Exact to the byte, because configuration files are written in this format and read again.
            BypassSize::From(size) => f.write_str(&exact(size.0)),
        }
    }
}

/// Listening address of the NBD server, written `unix:PATH` or `tcp:ADDRESS:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListenAddress(pub SocketAddress);

/// Reason why a text is not a listening address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not an address to listen at (write {forms})")]
pub struct ListenAddressError {
    text: String,
    /// Valid forms.
    forms: &'static str,
}

impl ListenAddressError {
    fn new(text: &str, forms: &'static str) -> ListenAddressError {
        ListenAddressError {
            text: text.into(),
            forms,
        }
    }
}

impl FromStr for ListenAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<ListenAddress, ListenAddressError> {
        let forms = "unix:PATH with an absolute path, or tcp:ADDRESS:PORT with a port up to 65535";
        let error = || ListenAddressError::new(text, forms);
        let address = match text.strip_prefix("tcp:") {
            Some(address) if !address.starts_with(['/', '.']) => address,
            Some(_) => return Err(error()),
            None if text.starts_with("unix:/") => text,
            None => return Err(error()),
        };
        match address.parse().map_err(|_| error())? {
            SocketAddress::Unix(_) if text.starts_with("tcp:") => Err(error()),
            address => Ok(ListenAddress(address)),
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SocketAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            SocketAddress::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// Listening address for metrics: a TCP address, written `ADDRESS:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MetricsAddress(pub SocketAddress);

impl FromStr for MetricsAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<MetricsAddress, ListenAddressError> {
        match text.parse() {
            Ok(address @ SocketAddress::Tcp(_)) => Ok(MetricsAddress(address)),
            _ => Err(ListenAddressError::new(
                text,
                "ADDRESS:PORT with a port up to 65535",
            )),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Listening address for the HTML page: a TCP address, written `ADDRESS:PORT`, or `PORT` for an address that only this
/// machine reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAddress(pub SocketAddress);

impl FromStr for HttpAddress {
    type Err = ListenAddressError;

    fn from_str(text: &str) -> Result<HttpAddress, ListenAddressError> {
        let MetricsAddress(address) = match text.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}").parse(),
            Err(_) => text.parse(),
        }
        .map_err(|_: ListenAddressError| {
            ListenAddressError::new(text, "PORT or ADDRESS:PORT with a port up to 65535")
        })?;
        Ok(HttpAddress(address))
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Memory limit for the data of requests, over all clients and the block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLimit(pub ByteLen);

/// Reason why a text is not an amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMemoryError {
    /// The text is not a size.
    #[error(transparent)]
    Size(#[from] forebay_units::ParseByteLenError),
    /// The largest request would not fit beside others.
    #[error("requests need at least {} of memory", MemoryLimit::LEAST)]
    TooSmall,
}

impl MemoryLimit {
    /// The minimum: enough for front ends to serve a request of the largest size and some connections.
    pub const LEAST: ByteLen = ByteLen::mib(64);
}

impl FromStr for MemoryLimit {
    type Err = ParseMemoryError;

    fn from_str(text: &str) -> Result<MemoryLimit, ParseMemoryError> {
        let size: ByteLen = text.parse()?;
        if size < MemoryLimit::LEAST {
            Err(ParseMemoryError::TooSmall)
        } else {
            Ok(MemoryLimit(size))
        }
    }
}

impl fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&exact(self.0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_ends_survive_print_and_parse_and_others_are_refused_with_the_list() {
        for text in ["auto", "ublk", "nbd", "loop", "none"] {
            assert_eq!(text.parse::<FrontEndKind>().unwrap().to_string(), text);
        }
        let error = "iscsi".parse::<FrontEndKind>().unwrap_err().to_string();
        assert_eq!(error, "\"iscsi\" is not one of auto, ublk, nbd, loop, none");
    }

    #[test]
    fn listen_addresses_survive_print_and_parse_and_others_are_refused() {
        for text in ["unix:/run/a.sock", "tcp:localhost:10809", "tcp:[::1]:80"] {
            assert_eq!(text.parse::<ListenAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "a.sock",
            "unix:a.sock",
            "tcp:",
            "tcp:/x",
            "tcp:unix:/x",
            "tcp:host",
        ] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_http_address_is_local_by_default() {
        for (text, address) in [
            ("9420", "127.0.0.1:9420"),
            ("0", "127.0.0.1:0"),
            ("[::]:80", "[::]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            let http = text.parse::<HttpAddress>().unwrap();
            assert_eq!(http.to_string(), address);
            assert_eq!(address.parse(), Ok(http));
        }
        for text in ["", "page", "70000", "unix:/x", ":80"] {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bypass_is_off_or_at_least_the_minimum_size() {
        assert_eq!("off".parse(), Ok(BypassSize::Off));
        assert_eq!("64KiB".parse(), Ok(BypassSize::From(ByteLen::kib(64))));
        // Found by fuzzing: sizes that are not round numbers were written rounded to configuration files. The files
        // then contained another size or could not be read.
        for text in ["641100", "6100", "5KiB"] {
            assert_eq!(text.parse::<BypassSize>().unwrap().to_string(), text);
        }
        assert_eq!("1".parse::<BypassSize>(), Err(ParseBypassError::TooSmall));
        assert!("big".parse::<BypassSize>().is_err());
    }

    #[test]
    fn the_memory_limit_must_fit_the_largest_request() {
        for text in ["64MiB", "1GiB", "100000001"] {
            assert_eq!(text.parse::<MemoryLimit>().unwrap().to_string(), text);
        }
        assert_eq!(
            "63MiB".parse::<MemoryLimit>(),
            Err(ParseMemoryError::TooSmall)
        );
        assert!("much".parse::<MemoryLimit>().is_err());
    }
}
