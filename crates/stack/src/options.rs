//! How a volume is to be served, and how its layers are set: the options of `attach`, which are also
//! keys of a description.

use std::fmt;
use std::str::FromStr;

use forebay_dcd::Acknowledge;
use forebay_os::Address;
use forebay_units::{ByteLen, TimeSpan};

use crate::mounting::{MountDir, MountOptions};
use crate::space::SpareShare;
use crate::text::exact;

/// Why a text is none of the choices there are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is none of {choices}")]
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

pub(crate) use choice;

choice!(
    /// What makes a block device of the volume.
    Via {
        /// The best there is on this system.
        #[default]
        Auto = "auto",
        /// The kernel's userspace block driver.
        Ublk = "ublk",
        /// The kernel's NBD client.
        Nbd = "nbd",
        /// A FUSE file under a loop device.
        Loop = "loop",
        /// Nothing: the volume is there for NBD clients only.
        None = "none"
    }
    "auto, ublk, nbd, loop, none"
);

choice!(
    /// Whether segments of a log-structured volume are discarded before they are used again.
    Discard {
        /// They are.
        #[default]
        On = "on",
        /// They are not.
        Off = "off"
    }
    "on, off"
);

/// Which requests go to the data device directly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bypass {
    /// None.
    Off,
    /// Writes of at least this size.
    From(ByteLen),
}

/// Why a text is no bypass size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseBypassError {
    /// Not a size.
    #[error("{0}, or write off")]
    Size(#[from] forebay_units::ParseByteLenError),
    /// Everything would bypass the cache.
    #[error("a bypass size below 4KiB would leave nothing to cache; write off, or 64KiB")]
    TooSmall,
}

impl FromStr for Bypass {
    type Err = ParseBypassError;

    fn from_str(text: &str) -> Result<Bypass, ParseBypassError> {
        if text == "off" {
            return Ok(Bypass::Off);
        }
        let size: ByteLen = text.parse()?;
        if size < ByteLen::kib(4) {
            return Err(ParseBypassError::TooSmall);
        }
        Ok(Bypass::From(size))
    }
}

impl fmt::Display for Bypass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bypass::Off => f.write_str("off"),
            // To the byte: a description is written with this, and read again.
            Bypass::From(size) => f.write_str(&exact(size.0)),
        }
    }
}

/// Where the NBD server listens, written `unix:PATH` or `tcp:ADDRESS:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen(pub Address);

/// Why a text says not where to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is no place to listen (write {forms})")]
pub struct ListenError {
    text: String,
    /// What can be written there.
    forms: &'static str,
}

impl ListenError {
    fn new(text: &str, forms: &'static str) -> ListenError {
        ListenError {
            text: text.into(),
            forms,
        }
    }
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Listen, ListenError> {
        let forms = "unix:PATH with an absolute path, or tcp:ADDRESS:PORT with a port up to 65535";
        let error = || ListenError::new(text, forms);
        let address = match text.strip_prefix("tcp:") {
            Some(address) if !address.starts_with(['/', '.']) => address,
            Some(_) => return Err(error()),
            None if text.starts_with("unix:/") => text,
            None => return Err(error()),
        };
        match address.parse().map_err(|_| error())? {
            Address::Unix(_) if text.starts_with("tcp:") => Err(error()),
            address => Ok(Listen(address)),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

/// The options of `attach`; what is `None` has its default.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// What makes a block device of the volume.
    pub via: Option<Via>,
    /// Where NBD clients may connect besides the socket in the runtime directory.
    pub listen: Option<Listen>,
    /// Where metrics are given out over HTTP, as `ADDRESS:PORT`.
    pub metrics: Option<Metrics>,
    /// Where a page for people is given out over HTTP, and the metrics.
    pub http: Option<Http>,
    /// How much memory requests may take up.
    pub memory: Option<Memory>,
    /// Of a filesystem: where it is mounted.
    pub mount: Option<MountDir>,
    /// Of a filesystem: how.
    pub mount_options: Option<MountOptions>,
}

/// Where metrics are given out: a TCP address, written `ADDRESS:PORT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Metrics(pub Address);

impl FromStr for Metrics {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Metrics, ListenError> {
        match text.parse() {
            Ok(address @ Address::Tcp(_)) => Ok(Metrics(address)),
            _ => Err(ListenError::new(
                text,
                "ADDRESS:PORT with a port up to 65535",
            )),
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a page for people is given out: a TCP address, written `ADDRESS:PORT`, or `PORT` for one that only
/// this machine reaches.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Http(pub Address);

impl FromStr for Http {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Http, ListenError> {
        let Metrics(address) = match text.parse::<u16>() {
            Ok(port) => format!("127.0.0.1:{port}").parse(),
            Err(_) => text.parse(),
        }
        .map_err(|_: ListenError| {
            ListenError::new(text, "PORT or ADDRESS:PORT with a port up to 65535")
        })?;
        Ok(Http(address))
    }
}

impl fmt::Display for Http {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How much memory the data of requests may take up, over all clients and the block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory(pub ByteLen);

/// Why a text is no amount of memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseMemoryError {
    /// Not a size.
    #[error(transparent)]
    Size(#[from] forebay_units::ParseByteLenError),
    /// The largest request would not fit beside others.
    #[error("requests need at least {} of memory", Memory::LEAST)]
    TooSmall,
}

impl Memory {
    /// The least there can be: what front ends need to serve a request of the largest size and some
    /// connections.
    pub const LEAST: ByteLen = ByteLen::mib(64);
}

impl FromStr for Memory {
    type Err = ParseMemoryError;

    fn from_str(text: &str) -> Result<Memory, ParseMemoryError> {
        let size: ByteLen = text.parse()?;
        match size < Memory::LEAST {
            true => Err(ParseMemoryError::TooSmall),
            false => Ok(Memory(size)),
        }
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&exact(self.0.0))
    }
}

impl Options {
    /// These options, with what they leave open taken from `others`.
    #[must_use]
    pub fn or(self, others: Options) -> Options {
        Options {
            via: self.via.or(others.via),
            listen: self.listen.or(others.listen),
            metrics: self.metrics.or(others.metrics),
            http: self.http.or(others.http),
            memory: self.memory.or(others.memory),
            mount: self.mount.or(others.mount),
            mount_options: self.mount_options.or(others.mount_options),
        }
    }
}

/// How a write cache is set. What is not said is left to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CacheOptions {
    /// When writes are acknowledged.
    pub durability: Option<Acknowledge>,
    /// How long data that nobody flushed may wait for the log.
    pub max_delay: Option<TimeSpan>,
    /// How long requests wait for a device that fails before they fail too.
    pub patience: Option<TimeSpan>,
    /// Which writes go to the data device directly.
    pub bypass: Option<Bypass>,
    /// How much memory the map may take.
    pub map_memory: Option<ByteLen>,
    /// Of a log-structured volume alone: whether what is free is discarded.
    pub discard: Option<Discard>,
    /// Of a log-structured volume alone: the share that is kept free.
    pub spare: Option<SpareShare>,
}

impl CacheOptions {
    /// These options, with what they leave open taken from `others`.
    #[must_use]
    pub fn or(self, others: CacheOptions) -> CacheOptions {
        CacheOptions {
            durability: self.durability.or(others.durability),
            max_delay: self.max_delay.or(others.max_delay),
            patience: self.patience.or(others.patience),
            bypass: self.bypass.or(others.bypass),
            map_memory: self.map_memory.or(others.map_memory),
            discard: self.discard.or(others.discard),
            spare: self.spare.or(others.spare),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_print_as_they_read_and_others_are_refused_with_the_list() {
        for text in ["auto", "ublk", "nbd", "loop", "none"] {
            assert_eq!(text.parse::<Via>().unwrap().to_string(), text);
        }
        let error = "iscsi".parse::<Via>().unwrap_err().to_string();
        assert_eq!(error, "\"iscsi\" is none of auto, ublk, nbd, loop, none");
    }

    #[test]
    fn places_to_listen_print_as_they_read_and_others_are_refused() {
        for text in ["unix:/run/a.sock", "tcp:localhost:10809", "tcp:[::1]:80"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
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
            assert!(text.parse::<Listen>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_page_is_for_this_machine_unless_told_otherwise() {
        for (text, address) in [
            ("9420", "127.0.0.1:9420"),
            ("0", "127.0.0.1:0"),
            ("[::]:80", "[::]:80"),
            ("0.0.0.0:80", "0.0.0.0:80"),
        ] {
            let http = text.parse::<Http>().unwrap();
            assert_eq!(http.to_string(), address);
            assert_eq!(address.parse(), Ok(http));
        }
        for text in ["", "page", "70000", "unix:/x", ":80"] {
            assert!(text.parse::<Http>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bypass_is_off_or_a_size_worth_it() {
        assert_eq!("off".parse(), Ok(Bypass::Off));
        assert_eq!("64KiB".parse(), Ok(Bypass::From(ByteLen::kib(64))));
        // Found by fuzzing: sizes that are no round number were written to descriptions rounded, which
        // then said another size or could not be read.
        for text in ["641100", "6100", "5KiB"] {
            assert_eq!(text.parse::<Bypass>().unwrap().to_string(), text);
        }
        assert_eq!("1".parse::<Bypass>(), Err(ParseBypassError::TooSmall));
        assert!("big".parse::<Bypass>().is_err());
    }

    #[test]
    fn memory_is_a_size_that_the_largest_request_fits_into() {
        for text in ["64MiB", "1GiB", "100000001"] {
            assert_eq!(text.parse::<Memory>().unwrap().to_string(), text);
        }
        assert_eq!("63MiB".parse::<Memory>(), Err(ParseMemoryError::TooSmall));
        assert!("much".parse::<Memory>().is_err());
    }

    #[test]
    fn options_of_the_command_line_win_over_those_of_the_description() {
        let line = Options {
            via: Some(Via::None),
            ..Options::default()
        };
        let file = Options {
            via: Some(Via::Loop),
            memory: Some(Memory(Memory::LEAST)),
            ..Options::default()
        };
        let both = line.or(file);
        assert_eq!(both.via, Some(Via::None));
        assert_eq!(both.memory, Some(Memory(Memory::LEAST)));
        let line = CacheOptions {
            bypass: Some(Bypass::Off),
            ..CacheOptions::default()
        };
        let file = CacheOptions {
            bypass: Some(Bypass::From(ByteLen::kib(64))),
            durability: Some(Acknowledge::Write),
            ..CacheOptions::default()
        };
        let both = line.or(file);
        assert_eq!(both.bypass, Some(Bypass::Off));
        assert_eq!(both.durability, Some(Acknowledge::Write));
    }
}
