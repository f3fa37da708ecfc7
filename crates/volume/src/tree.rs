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

use forebay_dcd::AckMode;
use forebay_units::{ByteLen, TimeSpan};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::not_done::OperationError;
use crate::options::{BypassSize, CacheOptions, SegmentDiscard, choice};
use crate::space::{NoSuchOption, OF_A_SPACE, RequestedPlacement, SpaceOptions, SpareShare};
use crate::spec::DeviceSpec;
use crate::text::{optional, required};

/// Maximum number of stacked layers.
pub const DEPTH_MAX: usize = 8;

choice!(
    /// Kind of a layer.
    LayerKind {
        /// A write cache: a `log` in front of `data`.
        #[default]
        Cache = "cache",
        /// A log-structured volume on `data`.
        Space = "vsl",
        /// A filesystem on `data`.
        Files = "fs"
    }
    "a kind of layer: cache, vsl or fs"
);

/// A layer with all layers and devices below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LayerTree {
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
    pub log: DeviceSpec,
    /// The device or layer behind the cache.
    pub data: DeviceOrLayer,
    /// The cache's options.
    pub options: CacheOptions,
}

/// A log-structured volume, or the space of a filesystem, with its device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceTree {
    /// The device, which is divided into segments.
    pub data: DeviceSpec,
    /// The options of the volume.
    pub options: SpaceOptions,
}

/// The device or layer below a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceOrLayer {
    /// A device.
    Device(DeviceSpec),
    /// Another layer.
    Layer(Box<LayerTree>),
}

impl LayerTree {
    /// Returns a write cache over two devices, with default options.
    pub fn cache(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
        LayerTree::Cache(CacheTree {
            log,
            data: DeviceOrLayer::Device(data),
            options: CacheOptions::default(),
        })
    }

    /// Returns a log-structured volume on a device, with default options.
    pub fn space(data: DeviceSpec) -> LayerTree {
        LayerTree::Space(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// Returns a filesystem on a device, with default options.
    pub fn files(data: DeviceSpec) -> LayerTree {
        LayerTree::Files(SpaceTree {
            data,
            options: SpaceOptions::default(),
        })
    }

    /// Returns a write cache over a log-structured volume on a device, both with default options.
    pub fn over(log: DeviceSpec, data: DeviceSpec) -> LayerTree {
        LayerTree::Cache(CacheTree {
            log,
            data: DeviceOrLayer::Layer(Box::new(LayerTree::space(data))),
            options: CacheOptions::default(),
        })
    }

    /// Checks that a volume of this kind supports this placement.
    ///
    /// # Errors
    /// If it does not, the error of [`Layer::tune`](crate::Layer::tune).
    pub fn can_be_tuned(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> Result<(), OperationError> {
        match (self, placement) {
            (LayerTree::Space(_), _) => Ok(()),
            (LayerTree::Files(_), Some(RequestedPlacement::Auto)) => {
                Err(OperationError::does_not_choose())
            }
            (LayerTree::Files(_), _) => Ok(()),
            (LayerTree::Cache(cache), _) => match &cache.data {
                DeviceOrLayer::Device(_) => Err(OperationError::places_nothing()),
                DeviceOrLayer::Layer(below) => below.can_be_tuned(placement),
            },
        }
    }

    /// Returns the kind of the uppermost layer.
    pub fn kind(&self) -> LayerKind {
        match self {
            LayerTree::Cache(_) => LayerKind::Cache,
            LayerTree::Space(_) => LayerKind::Space,
            LayerTree::Files(_) => LayerKind::Files,
        }
    }

    /// Returns the device that the uppermost layer formatted and that identifies the volume: the log of a cache, or the
    /// only device of a log-structured volume or a filesystem.
    pub fn own(&self) -> &DeviceSpec {
        match self {
            LayerTree::Cache(cache) => &cache.log,
            LayerTree::Space(space) | LayerTree::Files(space) => &space.data,
        }
    }

    /// Returns the log of the uppermost layer, if it has a log beside its data.
    pub fn log(&self) -> Option<&DeviceSpec> {
        match self {
            LayerTree::Cache(cache) => Some(&cache.log),
            LayerTree::Space(_) | LayerTree::Files(_) => None,
        }
    }

    /// Returns the device or layer that finally holds the clients' data, as far as this layer knows.
    pub fn data(&self) -> DeviceOrLayer {
        match self {
            LayerTree::Cache(cache) => cache.data.clone(),
            LayerTree::Space(space) | LayerTree::Files(space) => {
                DeviceOrLayer::Device(space.data.clone())
            }
        }
    }

    /// Returns the tree with the given options set in its uppermost layer. Options that only log-structured volumes
    /// have are set in the log-structured volume below a cache.
    ///
    /// # Errors
    /// The key of an option that this layer does not have.
    pub fn with(self, options: CacheOptions) -> Result<LayerTree, NoSuchOption> {
        Ok(match self {
            LayerTree::Cache(cache) => {
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
                LayerTree::Cache(CacheTree {
                    options: options.or(cache.options),
                    data,
                    ..cache
                })
            }
            LayerTree::Space(space) => LayerTree::Space(SpaceTree {
                options: SpaceOptions::of(options)?.or(space.options),
                ..space
            }),
            LayerTree::Files(space) => LayerTree::Files(SpaceTree {
                options: SpaceOptions::of_files(options)?.or(space.options),
                ..space
            }),
        })
    }

    /// Returns the tree with options by which acknowledged data survives the death of the serving process
    /// ([`crate::Layer::survives_kill`]), unless the tree already sets the acknowledgement.
    #[must_use]
    pub fn surviving_kill(self) -> LayerTree {
        let survives = CacheOptions {
            durability: Some(AckMode::Handover),
            ..CacheOptions::default()
        };
        match self {
            LayerTree::Cache(cache) => LayerTree::Cache(CacheTree {
                log: cache.log,
                data: match cache.data {
                    DeviceOrLayer::Device(spec) => DeviceOrLayer::Device(spec),
                    DeviceOrLayer::Layer(layer) => {
                        DeviceOrLayer::Layer(Box::new(layer.surviving_kill()))
                    }
                },
                options: cache.options.or(survives),
            }),
            LayerTree::Space(mut space) => {
                space.options.durability.get_or_insert(AckMode::Handover);
                LayerTree::Space(space)
            }
            // A mounted filesystem ends with the process that serves it.
            LayerTree::Files(space) => LayerTree::Files(space),
        }
    }

    /// Returns the tree on other devices.
    ///
    /// # Errors
    /// The first error of `other`.
    pub fn on<E>(
        self,
        other: &mut dyn FnMut(&DeviceSpec) -> Result<DeviceSpec, E>,
    ) -> Result<LayerTree, E> {
        Ok(match self {
            LayerTree::Cache(cache) => LayerTree::Cache(CacheTree {
                log: other(&cache.log)?,
                data: match cache.data {
                    DeviceOrLayer::Device(spec) => DeviceOrLayer::Device(other(&spec)?),
                    DeviceOrLayer::Layer(layer) => DeviceOrLayer::Layer(Box::new(layer.on(other)?)),
                },
                options: cache.options,
            }),
            LayerTree::Space(space) => LayerTree::Space(SpaceTree {
                data: other(&space.data)?,
                options: space.options,
            }),
            LayerTree::Files(space) => LayerTree::Files(SpaceTree {
                data: other(&space.data)?,
                options: space.options,
            }),
        })
    }

    /// Returns the devices at the leaves, each with its role. Roles are written like keys of the configuration file:
    /// `data.log` is the log of the layer at `data`.
    pub fn devices(&self) -> Vec<(String, &DeviceSpec)> {
        let cache = match self {
            LayerTree::Cache(cache) => cache,
            LayerTree::Space(space) | LayerTree::Files(space) => {
                return vec![("data".into(), &space.data)];
            }
        };
        let mut devices = match &cache.data {
            DeviceOrLayer::Device(spec) => vec![("data".into(), spec)],
            DeviceOrLayer::Layer(layer) => {
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
            DeviceOrLayer::Device(_) => 1,
            DeviceOrLayer::Layer(layer) => 1 + layer.depth(),
        }
    }
}

/// Returns the layer below a cache, with the options set there that only log-structured volumes have.
fn space_with(below: DeviceOrLayer, options: CacheOptions) -> Result<DeviceOrLayer, NoSuchOption> {
    match (below, of_a_space(&options)) {
        (below, None) => Ok(below),
        (DeviceOrLayer::Layer(layer), Some(_)) => {
            Ok(DeviceOrLayer::Layer(Box::new(layer.with(options)?)))
        }
        (DeviceOrLayer::Device(_), Some(key)) => Err(NoSuchOption::of_a_cache(key)),
    }
}

/// Returns the first option set that only log-structured volumes have.
fn of_a_space(options: &CacheOptions) -> Option<&'static str> {
    let said = [options.discard.is_some(), options.spare.is_some()];
    let mut keys = OF_A_SPACE.into_iter().zip(said);
    keys.find_map(|(key, said)| said.then_some(key))
}

impl fmt::Display for LayerTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LayerTree::Cache(cache) => write!(f, "({} < {})", cache.data, cache.log),
            LayerTree::Space(space) | LayerTree::Files(space) => space.data.fmt(f),
        }
    }
}

impl fmt::Display for DeviceOrLayer {
    /// Writes a device as given, and a cache as its data and its log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceOrLayer::Device(spec) => spec.fmt(f),
            DeviceOrLayer::Layer(layer) => layer.fmt(f),
        }
    }
}

/// Composes a layer from its keys.
///
/// # Errors
/// The name of a missing child.
pub(crate) fn layer(
    kind: LayerKind,
    (data, log): (Option<DeviceOrLayer>, Option<DeviceSpec>),
    options: CacheOptions,
) -> Result<LayerTree, String> {
    let missing = |role: &str, has: &str| format!("missing field `{role}`: a {kind} has {has}");
    match kind {
        LayerKind::Cache => {
            let missing = |role| missing(role, "`data` and `log`");
            if let Some(key) = of_a_space(&options) {
                return Err(NoSuchOption::of_a_cache(key).to_string());
            }
            Ok(LayerTree::Cache(CacheTree {
                data: data.ok_or_else(|| missing("data"))?,
                log: log.ok_or_else(|| missing("log"))?,
                options,
            }))
        }
        LayerKind::Space | LayerKind::Files => {
            let data = match (data, log) {
                (_, Some(_)) => {
                    return Err(format!("unknown field `log`: a {kind} has `data` only"));
                }
                (Some(DeviceOrLayer::Layer(_)), _) => {
                    return Err(format!("the `data` of a {kind} is a device, as a string"));
                }
                (None, _) => return Err(missing("data", "`data`")),
                (Some(DeviceOrLayer::Device(data)), None) => data,
            };
            let (options, tree): (_, fn(SpaceTree) -> LayerTree) = match kind {
                LayerKind::Files => (SpaceOptions::of_files(options), LayerTree::Files),
                _ => (SpaceOptions::of(options), LayerTree::Space),
            };
            let options = options.map_err(|error| error.to_string())?;
            Ok(tree(SpaceTree { data, options }))
        }
    }
}

/// The keys of a layer that is a child.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct LayerKeys {
    #[serde(deserialize_with = "required")]
    kind: LayerKind,
    data: Option<DeviceOrLayer>,
    #[serde(default, deserialize_with = "optional")]
    log: Option<DeviceSpec>,
    #[serde(default, deserialize_with = "optional")]
    durability: Option<AckMode>,
    #[serde(default, deserialize_with = "optional")]
    max_delay: Option<TimeSpan>,
    #[serde(default, deserialize_with = "optional")]
    patience: Option<TimeSpan>,
    #[serde(default, deserialize_with = "optional")]
    bypass: Option<BypassSize>,
    #[serde(default, deserialize_with = "optional")]
    map_memory: Option<ByteLen>,
    #[serde(default, deserialize_with = "optional")]
    discard: Option<SegmentDiscard>,
    #[serde(default, deserialize_with = "optional")]
    spare: Option<SpareShare>,
}

impl<'de> Deserialize<'de> for DeviceOrLayer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<DeviceOrLayer, D::Error> {
        from.deserialize_any(ChildVisitor)
    }
}

struct ChildVisitor;

impl<'de> Visitor<'de> for ChildVisitor {
    type Value = DeviceOrLayer;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a device as a string, or a layer as a table")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<DeviceOrLayer, E> {
        text.parse().map(DeviceOrLayer::Device).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DeviceOrLayer, A::Error> {
        let keys = LayerKeys::deserialize(MapAccessDeserializer::new(map))?;
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
        Ok(DeviceOrLayer::Layer(Box::new(tree)))
    }
}
