//! Structure of a volume: layers, with children, down to devices.
//!
//! In a configuration file, a layer is a table with a `kind`, its children under their roles, and its options. The
//! uppermost layer is the file itself. A child that is a device is a string, as on the command line:
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
//! A log-structured volume (`kind = "vsl"`) has only `data`, which is a device. A cache may be over a log-structured
//! volume. A filesystem (`kind = "fs"`) has only `data`, too: it is on a log-structured space of its own, and no layer
//! can be over it.

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

/// Maximum number of stacked layers.
pub const DEPTH_MAX: usize = 8;

choice!(
    /// Kind of a layer.
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

/// A layer with all layers and devices below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tree {
    /// A write cache.
    Cache(CacheTree),
    /// A log-structured volume.
    Space(SpaceTree),
    /// A filesystem, on a log-structured space.
    Files(SpaceTree),
}

/// A write cache with its log and data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CacheTree {
    /// The log device, which keeps data that is not on `data` yet.
    pub log: Spec,
    /// The device or layer behind the cache.
    pub data: Below,
    /// The cache's options.
    pub options: CacheOptions,
}

/// A log-structured volume, or the space of a filesystem, with its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceTree {
    /// The device, which is divided into segments.
    pub data: Spec,
    /// The options of the volume.
    pub options: SpaceOptions,
}

/// The device or layer below a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Below {
    /// A device.
    Device(Spec),
    /// Another layer.
    Layer(Box<Tree>),
}

impl Tree {
    /// Returns a write cache over two devices, with default options.
    pub fn cache(log: Spec, data: Spec) -> Tree {
        Tree::Cache(CacheTree {
            log,
            data: Below::Device(data),
            options: CacheOptions::default(),
        })
    }

    /// Returns a log-structured volume on a device, with default options.
    pub fn space(data: Spec) -> Tree {
        Tree::Space(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// Returns a filesystem on a device, with default options.
    pub fn files(data: Spec) -> Tree {
        Tree::Files(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// Returns a write cache over a log-structured volume on a device, both with default options.
    pub fn over(log: Spec, data: Spec) -> Tree {
        Tree::Cache(CacheTree {
            log,
            data: Below::Layer(Box::new(Tree::space(data))),
            options: CacheOptions::default(),
        })
    }

    /// Checks that a volume of this kind supports this placement.
    ///
    /// # Errors
    /// If it does not, the error of [`Layer::tune`](crate::Layer::tune).
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

    /// Returns the kind of the uppermost layer.
    pub fn kind(&self) -> Kind {
        match self {
            Tree::Cache(_) => Kind::Cache,
            Tree::Space(_) => Kind::Space,
            Tree::Files(_) => Kind::Files,
        }
    }

    /// Returns the device that the uppermost layer formatted and that identifies the volume: the log of a cache, or the
    /// only device of a log-structured volume or a filesystem.
    pub fn own(&self) -> &Spec {
        match self {
            Tree::Cache(cache) => &cache.log,
            Tree::Space(space) | Tree::Files(space) => &space.data,
        }
    }

    /// Returns the log of the uppermost layer, if it has a log beside its data.
    pub fn log(&self) -> Option<&Spec> {
        match self {
            Tree::Cache(cache) => Some(&cache.log),
            Tree::Space(_) | Tree::Files(_) => None,
        }
    }

    /// Returns the device or layer that finally holds the clients' data, as far as this layer knows.
    pub fn data(&self) -> Below {
        match self {
            Tree::Cache(cache) => cache.data.clone(),
            Tree::Space(space) | Tree::Files(space) => Below::Device(space.data.clone()),
        }
    }

    /// Returns the tree with the given options set in its uppermost layer. Options that only log-structured volumes
    /// have are set in the log-structured volume below a cache.
    ///
    /// # Errors
    /// The key of an option that this layer does not have.
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

    /// Returns the tree with options by which acknowledged data survives the death of the serving process
    /// ([`crate::Layer::survives_kill`]), unless the tree already sets the acknowledgement.
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

    /// Returns the tree on other devices.
    ///
    /// # Errors
    /// The first error of `other`.
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

    /// Returns the devices at the leaves, each with its role. Roles are written like keys of the configuration file:
    /// `data.log` is the log of the layer at `data`.
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

    /// Returns the number of stacked layers.
    pub(crate) fn depth(&self) -> usize {
        match self.data() {
            Below::Device(_) => 1,
            Below::Layer(layer) => 1 + layer.depth(),
        }
    }
}

/// Returns the layer below a cache, with the options set there that only log-structured volumes have.
fn space_with(below: Below, options: CacheOptions) -> Result<Below, NoSuchOption> {
    match (below, of_a_space(&options)) {
        (below, None) => Ok(below),
        (Below::Layer(layer), Some(_)) => Ok(Below::Layer(Box::new(layer.with(options)?))),
        (Below::Device(_), Some(key)) => Err(NoSuchOption::of_a_cache(key)),
    }
}

/// Returns the first option set that only log-structured volumes have.
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
    /// Writes a device as given, and a cache as its data and its log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Below::Device(spec) => spec.fmt(f),
            Below::Layer(layer) => layer.fmt(f),
        }
    }
}

/// Composes a layer from its keys.
///
/// # Errors
/// The name of a missing child.
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
