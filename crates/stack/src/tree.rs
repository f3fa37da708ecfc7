//! What a volume is made of: layers, with children, down to devices.
//!
//! In a description a layer is a table with a `kind`, its children under their roles, and its options; the
//! uppermost one is the file itself. A child that is a device is a string, as on the command line:
//!
//! ```toml
//! kind = "cache"
//! log = "/dev/sdc"
//! [data]
//! kind = "cache"
//! log = "/dev/sdb@0+1GiB"
//! data = "/dev/sdb@1GiB+100GiB"
//! ```
//!
//! A log-structured volume (`kind = "vsl"`) has `data` only, which is a device. A cache may be over one. A filesystem
//! (`kind = "fs"`) has `data` only, too: it is on a log-structured space of its own, and nothing is over it.

use std::fmt;

use forebay_dcd::Acknowledge;
use forebay_units::{ByteLen, TimeSpan};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::not_done::NotDone;
use crate::options::{Bypass, CacheOptions, Discard, choice};
use crate::space::{NoSuchOption, OF_A_SPACE, Placing, SpaceOptions, SpareShare};
use crate::spec::Spec;
use crate::text::{optional, required};

/// How many layers may be above each other.
pub const DEPTH_MAX: usize = 8;

choice!(
    /// What a layer does.
    Kind {
        /// A write cache: a `log` in front of `data`.
        #[default]
        Cache = "cache",
        /// A log-structured volume on `data`.
        Space = "vsl",
        /// A filesystem on `data`.
        Files = "fs"
    }
    "the kinds of layers there are: cache, vsl, fs"
);

/// A layer with all below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tree {
    /// A write cache.
    Cache(CacheTree),
    /// A log-structured volume.
    Space(SpaceTree),
    /// A filesystem, on a log-structured space.
    Files(SpaceTree),
}

/// A write cache, and what it is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheTree {
    /// The device where it keeps what is not on `data` yet.
    pub log: Spec,
    /// What it is in front of.
    pub data: Below,
    /// How it is set.
    pub options: CacheOptions,
}

/// A log-structured volume, or the space of a filesystem, and what it is on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceTree {
    /// The device that it is divided into segments.
    pub data: Spec,
    /// How it is set.
    pub options: SpaceOptions,
}

/// What a layer is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Below {
    /// A device.
    Device(Spec),
    /// Another layer.
    Layer(Box<Tree>),
}

impl Tree {
    /// A write cache over two devices, as it is set by default.
    pub fn cache(log: Spec, data: Spec) -> Tree {
        Tree::Cache(CacheTree {
            log,
            data: Below::Device(data),
            options: CacheOptions::default(),
        })
    }

    /// A log-structured volume on a device, as it is set by default.
    pub fn space(data: Spec) -> Tree {
        Tree::Space(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// A filesystem on a device, as it is set by default.
    pub fn files(data: Spec) -> Tree {
        Tree::Files(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// A write cache over a log-structured volume on a device, both as they are set by default.
    pub fn over(log: Spec, data: Spec) -> Tree {
        Tree::Cache(CacheTree {
            log,
            data: Below::Layer(Box::new(Tree::space(data))),
            options: CacheOptions::default(),
        })
    }

    /// Whether such a volume can be told to place data like this.
    ///
    /// # Errors
    /// If it cannot, as [`Layer::tune`](crate::Layer::tune) says it.
    pub fn can_be_tuned(&self, placement: Option<Placing>) -> Result<(), NotDone> {
        match (self, placement) {
            (Tree::Space(_), _) => Ok(()),
            (Tree::Files(_), Some(Placing::Auto)) => Err(NotDone::does_not_choose()),
            (Tree::Files(_), _) => Ok(()),
            (Tree::Cache(cache), _) => match &cache.data {
                Below::Device(_) => Err(NotDone::places_nothing()),
                Below::Layer(below) => below.can_be_tuned(placement),
            },
        }
    }

    /// What the uppermost layer does.
    pub fn kind(&self) -> Kind {
        match self {
            Tree::Cache(_) => Kind::Cache,
            Tree::Space(_) => Kind::Space,
            Tree::Files(_) => Kind::Files,
        }
    }

    /// The device that the uppermost layer formatted, and that says what the volume is: a cache's log, a
    /// log-structured volume's or a filesystem's only one.
    pub fn own(&self) -> &Spec {
        match self {
            Tree::Cache(cache) => &cache.log,
            Tree::Space(space) | Tree::Files(space) => &space.data,
        }
    }

    /// The log of the uppermost layer, if it has one beside its data.
    pub fn log(&self) -> Option<&Spec> {
        match self {
            Tree::Cache(cache) => Some(&cache.log),
            Tree::Space(_) | Tree::Files(_) => None,
        }
    }

    /// What users' data is on in the end, as far as this layer knows.
    pub fn data(&self) -> Below {
        match self {
            Tree::Cache(cache) => cache.data.clone(),
            Tree::Space(space) | Tree::Files(space) => Below::Device(space.data.clone()),
        }
    }

    /// The same with the uppermost layer set as `options` say, as far as they say it; what log-structured volumes
    /// alone have is for the one that a cache is over.
    ///
    /// # Errors
    /// With the key of an option that this layer has not.
    pub fn with(self, options: CacheOptions) -> Result<Tree, NoSuchOption> {
        Ok(match self {
            Tree::Cache(cache) => {
                let below = CacheOptions {
                    discard: options.discard,
                    spare: options.spare,
                    ..CacheOptions::default()
                };
                let options = CacheOptions {
                    discard: None,
                    spare: None,
                    ..options
                };
                let data = space_with(cache.data, below)?;
                Tree::Cache(CacheTree {
                    options: options.or(cache.options),
                    data,
                    ..cache
                })
            }
            Tree::Space(space) => Tree::Space(SpaceTree {
                options: SpaceOptions::of(options)?.or(space.options),
                ..space
            }),
            Tree::Files(space) => Tree::Files(SpaceTree {
                options: SpaceOptions::of_files(options)?.or(space.options),
                ..space
            }),
        })
    }

    /// The same, so that what is acknowledged survives the death of the process that serves it
    /// ([`crate::Layer::survives_kill`]), where nothing is said of when that is.
    #[must_use]
    pub fn surviving_kill(self) -> Tree {
        let survives = CacheOptions {
            durability: Some(Acknowledge::Handover),
            ..CacheOptions::default()
        };
        match self {
            Tree::Cache(cache) => Tree::Cache(CacheTree {
                log: cache.log,
                data: match cache.data {
                    Below::Device(spec) => Below::Device(spec),
                    Below::Layer(layer) => Below::Layer(Box::new(layer.surviving_kill())),
                },
                options: cache.options.or(survives),
            }),
            Tree::Space(mut space) => {
                space
                    .options
                    .durability
                    .get_or_insert(Acknowledge::Handover);
                Tree::Space(space)
            }
            // A mounted filesystem ends with the process that serves it.
            Tree::Files(space) => Tree::Files(space),
        }
    }

    /// The same on other devices.
    ///
    /// # Errors
    /// The first that `other` gives.
    pub fn on<E>(self, other: &mut dyn FnMut(&Spec) -> Result<Spec, E>) -> Result<Tree, E> {
        Ok(match self {
            Tree::Cache(cache) => Tree::Cache(CacheTree {
                log: other(&cache.log)?,
                data: match cache.data {
                    Below::Device(spec) => Below::Device(other(&spec)?),
                    Below::Layer(layer) => Below::Layer(Box::new(layer.on(other)?)),
                },
                options: cache.options,
            }),
            Tree::Space(space) => Tree::Space(SpaceTree {
                data: other(&space.data)?,
                options: space.options,
            }),
            Tree::Files(space) => Tree::Files(SpaceTree {
                data: other(&space.data)?,
                options: space.options,
            }),
        })
    }

    /// The devices that it ends in, each with its role, written as keys of the description are:
    /// `data.log` is the log of what is the data.
    pub fn devices(&self) -> Vec<(String, &Spec)> {
        let cache = match self {
            Tree::Cache(cache) => cache,
            Tree::Space(space) | Tree::Files(space) => {
                return vec![("data".into(), &space.data)];
            }
        };
        let mut devices = match &cache.data {
            Below::Device(spec) => vec![("data".into(), spec)],
            Below::Layer(layer) => {
                let below = layer.devices().into_iter();
                below
                    .map(|(role, spec)| (format!("data.{role}"), spec))
                    .collect()
            }
        };
        devices.push(("log".into(), &cache.log));
        devices
    }

    /// How many layers are above each other.
    pub(crate) fn depth(&self) -> usize {
        match self.data() {
            Below::Device(_) => 1,
            Below::Layer(layer) => 1 + layer.depth(),
        }
    }
}

/// The layer below a cache, with the options set there that only log-structured volumes have.
fn space_with(below: Below, options: CacheOptions) -> Result<Below, NoSuchOption> {
    match (below, of_a_space(&options)) {
        (below, None) => Ok(below),
        (Below::Layer(layer), Some(_)) => Ok(Below::Layer(Box::new(layer.with(options)?))),
        (Below::Device(_), Some(key)) => Err(NoSuchOption::of_a_cache(key)),
    }
}

/// The first of the options set that log-structured volumes alone have.
fn of_a_space(options: &CacheOptions) -> Option<&'static str> {
    let said = [options.discard.is_some(), options.spare.is_some()];
    let mut keys = OF_A_SPACE.into_iter().zip(said);
    keys.find_map(|(key, said)| said.then_some(key))
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Cache(cache) => write!(f, "({} < {})", cache.data, cache.log),
            Tree::Space(space) | Tree::Files(space) => space.data.fmt(f),
        }
    }
}

impl fmt::Display for Below {
    /// A device as it was named, a cache as its data and its log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Below::Device(spec) => spec.fmt(f),
            Below::Layer(layer) => layer.fmt(f),
        }
    }
}

/// Puts a layer together from its keys.
///
/// # Errors
/// With the name of a child that is missing.
pub(crate) fn layer(
    kind: Kind,
    (data, log): (Option<Below>, Option<Spec>),
    options: CacheOptions,
) -> Result<Tree, String> {
    let missing = |role: &str, has: &str| format!("missing field `{role}`: a {kind} has {has}");
    match kind {
        Kind::Cache => {
            let missing = |role| missing(role, "`data` and `log`");
            if let Some(key) = of_a_space(&options) {
                return Err(NoSuchOption::of_a_cache(key).to_string());
            }
            Ok(Tree::Cache(CacheTree {
                data: data.ok_or_else(|| missing("data"))?,
                log: log.ok_or_else(|| missing("log"))?,
                options,
            }))
        }
        Kind::Space | Kind::Files => {
            let data = match (data, log) {
                (_, Some(_)) => {
                    return Err(format!("unknown field `log`: a {kind} has `data` only"));
                }
                (Some(Below::Layer(_)), _) => {
                    return Err(format!("the `data` of a {kind} is a device, as a string"));
                }
                (None, _) => return Err(missing("data", "`data`")),
                (Some(Below::Device(data)), None) => data,
            };
            let (options, tree): (_, fn(SpaceTree) -> Tree) = match kind {
                Kind::Files => (SpaceOptions::of_files(options), Tree::Files),
                _ => (SpaceOptions::of(options), Tree::Space),
            };
            let options = options.map_err(|error| error.to_string())?;
            Ok(tree(SpaceTree { data, options }))
        }
    }
}

/// The keys of a layer that is a child.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Keys {
    #[serde(deserialize_with = "required")]
    kind: Kind,
    data: Option<Below>,
    #[serde(default, deserialize_with = "optional")]
    log: Option<Spec>,
    #[serde(default, deserialize_with = "optional")]
    durability: Option<Acknowledge>,
    #[serde(default, deserialize_with = "optional")]
    max_delay: Option<TimeSpan>,
    #[serde(default, deserialize_with = "optional")]
    patience: Option<TimeSpan>,
    #[serde(default, deserialize_with = "optional")]
    bypass: Option<Bypass>,
    #[serde(default, deserialize_with = "optional")]
    map_memory: Option<ByteLen>,
    #[serde(default, deserialize_with = "optional")]
    discard: Option<Discard>,
    #[serde(default, deserialize_with = "optional")]
    spare: Option<SpareShare>,
}

impl<'de> Deserialize<'de> for Below {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Below, D::Error> {
        from.deserialize_any(Child)
    }
}

struct Child;

impl<'de> Visitor<'de> for Child {
    type Value = Below;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a device as a string, or a layer as a table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Below, E> {
        text.parse().map(Below::Device).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Below, A::Error> {
        let keys = Keys::deserialize(MapAccessDeserializer::new(map))?;
        let options = CacheOptions {
            durability: keys.durability,
            max_delay: keys.max_delay,
            patience: keys.patience,
            bypass: keys.bypass,
            map_memory: keys.map_memory,
            discard: keys.discard,
            spare: keys.spare,
        };
        let tree = layer(keys.kind, (keys.data, keys.log), options);
        let tree = tree.map_err(A::Error::custom)?;
        Ok(Below::Layer(Box::new(tree)))
    }
}
