//! How a log-structured volume is set.

use std::fmt;
use std::str::FromStr;

use forebay_dcd::Acknowledge;
use forebay_placement::placement::{Kind, UnknownKind};
use forebay_units::{ByteLen, TimeSpan};

use super::SpareShare;
use crate::{CacheOptions, Discard};

/// Options of a cache that a log-structured volume has not.
pub(crate) const NOT_OF_A_SPACE: [&str; 2] = ["patience", "bypass"];
/// And options of that that a filesystem has not: its users say by `fsync` what is to be durable, and it has no length that room is
/// kept beside.
pub(crate) const NOT_OF_FILES: [&str; 2] = ["durability", "spare"];

/// An option was given to a layer that has none of that name.
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

/// The options of a log-structured volume that a cache has not.
pub(crate) const OF_A_SPACE: [&str; 2] = ["discard", "spare"];

/// How a log-structured volume is set. What is not said is left to it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SpaceOptions {
    /// When writes are acknowledged.
    pub durability: Option<Acknowledge>,
    /// How long data that nobody flushed may wait before it is written.
    pub max_delay: Option<TimeSpan>,
    /// How much memory the map may take.
    pub map_memory: Option<ByteLen>,
    /// Whether segments are discarded before they are used again.
    pub discard: Option<Discard>,
    /// The share that is kept free.
    pub spare: Option<SpareShare>,
}

impl SpaceOptions {
    /// Those among a cache's that a log-structured volume has, too.
    ///
    /// # Errors
    /// If others are said.
    pub fn of(options: CacheOptions) -> Result<SpaceOptions, NoSuchOption> {
        SpaceOptions::among(options, "log-structured volume")
    }

    /// Those among a cache's that a filesystem has, too.
    ///
    /// # Errors
    /// If others are said.
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

    /// These options, with what they leave open taken from `others`.
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

/// How a new volume is to place data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placing {
    /// As is expected to cost least on the device.
    #[default]
    Auto,
    /// Like this.
    As(Kind),
}

impl FromStr for Placing {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Placing, UnknownKind> {
        match text {
            "auto" => Ok(Placing::Auto),
            kind => kind.parse().map(Placing::As),
        }
    }
}

impl Placing {
    /// The name that users know it by.
    pub fn name(self) -> &'static str {
        match self {
            Placing::Auto => "auto",
            Placing::As(kind) => kind.name(),
        }
    }
}

impl fmt::Display for Placing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
