//! Options of a log-structured volume.

use std::fmt;
use std::str::FromStr;

use forebay_dcd::AckMode;
use forebay_placement::placement::{PlacementKind, UnknownPlacement};
use forebay_units::{ByteLen, TimeSpan};

use super::SpareShare;
use crate::{CacheOptions, SegmentDiscard};

/// Options of a cache that a log-structured volume does not have.
pub(crate) const NOT_OF_A_SPACE: [&str; 2] = ["patience", "bypass"];
/// Options of a log-structured volume that a filesystem does not have. Its clients decide by `fsync` when data becomes
/// durable, and it has no length beside which space is kept free.
pub(crate) const NOT_OF_FILES: [&str; 2] = ["durability", "spare"];

/// Error: the layer does not have this option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {what} has no `{key}`: leave it out")]
pub struct NoSuchOption {
    what: &'static str,
    key: &'static str,
}

impl NoSuchOption {
    pub(crate) fn of_a_cache(key: &'static str) -> NoSuchOption {
        let what = "write cache";
        NoSuchOption { what, key }
    }
}

/// Options of a log-structured volume that a cache does not have.
pub(crate) const OF_A_SPACE: [&str; 2] = ["discard", "spare"];

/// Options of a log-structured volume. Unset options have the volume's defaults.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpaceOptions {
    /// The point at which writes are acknowledged.
    pub durability: Option<AckMode>,
    /// Longest time that unflushed data may wait before it is written.
    pub max_delay: Option<TimeSpan>,
    /// Memory limit of the map.
    pub map_memory: Option<ByteLen>,
    /// Discarding of segments before they are reused.
    pub discard: Option<SegmentDiscard>,
    /// Share that is kept free.
    pub spare: Option<SpareShare>,
}

impl SpaceOptions {
    /// Converts a cache's options to those of a log-structured volume.
    ///
    /// # Errors
    /// If an option is set that a log-structured volume does not have.
    pub fn of(options: CacheOptions) -> Result<SpaceOptions, NoSuchOption> {
        SpaceOptions::among(options, "log-structured volume")
    }

    /// Converts a cache's options to those of a filesystem.
    ///
    /// # Errors
    /// If an option is set that a filesystem does not have.
    pub fn of_files(options: CacheOptions) -> Result<SpaceOptions, NoSuchOption> {
        let what = "filesystem";
        let [durability, spare] = NOT_OF_FILES;
        let others = [
            (durability, options.durability.is_some()),
            (spare, options.spare.is_some()),
        ];
        match others.into_iter().find(|(_, said)| *said) {
            Some((key, _)) => Err(NoSuchOption { what, key }),
            None => SpaceOptions::among(options, what),
        }
    }

    fn among(options: CacheOptions, what: &'static str) -> Result<SpaceOptions, NoSuchOption> {
        let [patience, bypass] = NOT_OF_A_SPACE;
        let others = [
            (patience, options.patience.is_some()),
            (bypass, options.bypass.is_some()),
        ];
        if let Some((key, _)) = others.into_iter().find(|(_, said)| *said) {
            return Err(NoSuchOption { what, key });
        }
        Ok(SpaceOptions {
            durability: options.durability,
            max_delay: options.max_delay,
            map_memory: options.map_memory,
            discard: options.discard,
            spare: options.spare,
        })
    }

    /// Returns these options; unset options are taken from `others`.
    #[must_use]
    pub fn or(self, others: SpaceOptions) -> SpaceOptions {
        SpaceOptions {
            durability: self.durability.or(others.durability),
            max_delay: self.max_delay.or(others.max_delay),
            map_memory: self.map_memory.or(others.map_memory),
            discard: self.discard.or(others.discard),
            spare: self.spare.or(others.spare),
        }
    }
}

impl From<SpaceOptions> for CacheOptions {
    fn from(options: SpaceOptions) -> CacheOptions {
        CacheOptions {
            durability: options.durability,
            max_delay: options.max_delay,
            map_memory: options.map_memory,
            discard: options.discard,
            spare: options.spare,
            ..CacheOptions::default()
        }
    }
}

/// Requested placement of data in a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RequestedPlacement {
    /// The placement with the lowest expected cost on the device.
    #[default]
    Auto,
    /// This placement.
    As(PlacementKind),
}

impl FromStr for RequestedPlacement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<RequestedPlacement, UnknownPlacement> {
        match text {
            "auto" => Ok(RequestedPlacement::Auto),
            kind => kind.parse().map(RequestedPlacement::As),
        }
    }
}

impl RequestedPlacement {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            RequestedPlacement::Auto => "auto",
            RequestedPlacement::As(kind) => kind.name(),
        }
    }
}

impl fmt::Display for RequestedPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
