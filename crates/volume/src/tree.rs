//! Structure of a volume: layers, with children, down to devices.
//!
//! In a configuration file, a layer is a table with a `kind`, its children under their roles, and its options. The
//! uppermost layer is the file itself. A child that is a device is a string, as on the command line:
//!
//! ```toml
//! kind = "cache"
//! log = "/dev/sdc"
//! [data]
//! kind = "vsl"
//! data = "/dev/sdb"
//! ```
//!
//! Each kind declares its roles and its options ([`KindSpec`]); the tree knows neither.

use std::collections::BTreeMap;
use std::fmt;

use crate::kind_spec::{DeviceRole, KindSpec, PlacementChoice};
use crate::operation_error::OperationError;
use crate::options::OptionValues;
use crate::options::shared::ACK;
use crate::placement::RequestedPlacement;
use crate::spec::DeviceSpec;

/// Maximum number of stacked layers.
pub const DEPTH_MAX: usize = 8;

/// A layer with all layers and devices below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LayerTree {
    kind: &'static KindSpec,
    /// Each child with its role, in the order of [`KindSpec::roles`].
    children: Vec<(&'static str, DeviceOrLayer)>,
    options: OptionValues,
}

/// The device or layer below a layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceOrLayer {
    /// A device.
    Device(DeviceSpec),
    /// Another layer.
    Layer(Box<LayerTree>),
}

/// Devices by their roles.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceMap(BTreeMap<&'static str, DeviceSpec>);

impl DeviceMap {
    /// Returns the device in a role.
    pub fn get(&self, role: &str) -> Option<&DeviceSpec> {
        self.0.get(role)
    }

    /// Puts a device in a role.
    pub fn set(&mut self, role: &'static str, spec: DeviceSpec) {
        self.0.insert(role, spec);
    }

    /// Returns the roles that are filled.
    pub fn roles(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.0.keys().copied()
    }

    /// Returns true if no role is filled.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Error: the layer does not have this option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {what} has no `{key}`: leave it out")]
pub struct NoSuchOption {
    what: &'static str,
    key: String,
}

impl NoSuchOption {
    pub(crate) fn of(kind: &'static KindSpec, key: &str) -> NoSuchOption {
        NoSuchOption {
            what: kind.title,
            key: key.into(),
        }
    }
}

impl LayerTree {
    /// Composes a layer of children and options.
    ///
    /// # Errors
    /// If a child is missing or unknown, is a layer where a device is necessary, or an option is unknown.
    pub(crate) fn compose(
        kind: &'static KindSpec,
        mut given: BTreeMap<&'static str, DeviceOrLayer>,
        options: OptionValues,
    ) -> Result<LayerTree, String> {
        let roles = kind.roles;
        let names = || {
            let names: Vec<String> = roles
                .iter()
                .map(|role| format!("`{}`", role.name))
                .collect();
            names.join(" and ")
        };
        let mut children = Vec::new();
        for role in roles {
            let child = given.remove(role.name).ok_or_else(|| {
                let (name, has) = (role.name, names());
                format!("missing field `{name}`: a {kind} has {has}")
            })?;
            if matches!(child, DeviceOrLayer::Layer(_)) && !role.may_be_layer {
                let name = role.name;
                return Err(format!("the `{name}` of a {kind} is a device, as a string"));
            }
            children.push((role.name, child));
        }
        if let Some(role) = given.keys().next() {
            return Err(format!(
                "unknown field `{role}`: a {kind} has {} only",
                names()
            ));
        }
        if let Some(key) = options.keys().find(|key| !kind.has_option(key)) {
            return Err(NoSuchOption::of(kind, key).to_string());
        }
        Ok(LayerTree {
            kind,
            children,
            options,
        })
    }

    /// Returns a layer over devices and layers, with default options. `children` has a child for each role of the kind.
    pub(crate) fn new(
        kind: &'static KindSpec,
        children: impl IntoIterator<Item = (&'static str, DeviceOrLayer)>,
    ) -> LayerTree {
        LayerTree {
            kind,
            children: children.into_iter().collect(),
            options: OptionValues::default(),
        }
    }

    /// Returns the kind of the uppermost layer.
    pub fn kind(&self) -> &'static KindSpec {
        self.kind
    }

    /// Returns the options of the uppermost layer.
    pub fn options(&self) -> &OptionValues {
        &self.options
    }

    /// Returns the device or layer in a role.
    pub fn child(&self, role: &str) -> Option<&DeviceOrLayer> {
        let found = self.children.iter().find(|(name, _)| *name == role);
        found.map(|(_, child)| child)
    }

    /// Returns the device in a role.
    pub fn device(&self, role: &str) -> Option<&DeviceSpec> {
        match self.child(role)? {
            DeviceOrLayer::Device(spec) => Some(spec),
            DeviceOrLayer::Layer(_) => None,
        }
    }

    /// Returns the device in a role that is always a device.
    pub(crate) fn must_have(&self, role: &str) -> &DeviceSpec {
        self.device(role).expect("the kind declares the role")
    }

    /// Returns the device that the uppermost layer formatted and that identifies the volume.
    pub fn own(&self) -> &DeviceSpec {
        self.must_have(self.kind.own_role)
    }

    /// Returns the log of the uppermost layer, if it has a log beside its data.
    pub fn log(&self) -> Option<&DeviceSpec> {
        self.device("log")
    }

    /// Returns the device or layer that finally holds the clients' data, as far as this layer knows.
    pub fn data(&self) -> &DeviceOrLayer {
        let data = self.child(self.kind.data_role);
        data.expect("the kind declares the role")
    }

    /// Returns the layer among the children, with its role.
    fn layer_below(&self) -> Option<(&'static str, &LayerTree)> {
        self.children.iter().find_map(|(role, child)| match child {
            DeviceOrLayer::Device(_) => None,
            DeviceOrLayer::Layer(layer) => Some((*role, &**layer)),
        })
    }

    /// Returns the layers, from top to bottom, each with its key in the configuration file.
    pub(crate) fn layers(&self) -> Vec<(String, &LayerTree)> {
        let mut layers = vec![(String::new(), self)];
        let mut at = self;
        while let Some((role, below)) = at.layer_below() {
            let key = match layers.last() {
                Some((key, _)) if !key.is_empty() => format!("{key}.{role}"),
                _ => role.to_owned(),
            };
            layers.push((key, below));
            at = below;
        }
        layers
    }

    /// Returns each role of the uppermost layer with its child.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&'static DeviceRole, &DeviceOrLayer)> {
        let roles = self.kind.roles.iter();
        roles.filter_map(|role| Some((role, self.child(role.name)?)))
    }

    /// Checks that a volume of this kind supports this placement.
    ///
    /// # Errors
    /// If it does not, the error of [`Layer::tune`](crate::Layer::tune).
    pub fn can_be_tuned(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> Result<(), OperationError> {
        let is_auto = placement == Some(RequestedPlacement::Auto);
        match (self.kind.placements, self.layer_below()) {
            (PlacementChoice::None, Some((_, below))) => below.can_be_tuned(placement),
            (PlacementChoice::None, None) => Err(OperationError::places_nothing()),
            (PlacementChoice::Named, _) if is_auto => Err(OperationError::does_not_choose()),
            (PlacementChoice::Named | PlacementChoice::NamedOrAuto, _) => Ok(()),
        }
    }

    /// Returns the tree with the given options set, each in the uppermost layer that has it.
    ///
    /// # Errors
    /// The key of an option that no layer has.
    pub fn with(mut self, options: &OptionValues) -> Result<LayerTree, NoSuchOption> {
        let rows = self.kind.options;
        let own = options.only(rows);
        let rest = options.keys().find(|key| !self.kind.has_option(key));
        self.options = own.or(&self.options);
        let Some(key) = rest else {
            return Ok(self);
        };
        let layer = self.children.iter_mut().find_map(|(_, child)| match child {
            DeviceOrLayer::Device(_) => None,
            DeviceOrLayer::Layer(layer) => Some(layer),
        });
        let layer = layer.ok_or_else(|| NoSuchOption::of(self.kind, key))?;
        **layer = layer.clone().with(&options.without(rows))?;
        Ok(self)
    }

    /// Returns the tree with options by which acknowledged data survives the death of the serving process
    /// ([`crate::Layer::survives_kill`]), unless a layer already sets the acknowledgement. A kind without the option
    /// keeps its options.
    #[must_use]
    pub fn surviving_kill(self) -> LayerTree {
        let has_ack = self.kind.has_option(ACK.spec().key);
        let surviving = |child| match child {
            DeviceOrLayer::Device(spec) => DeviceOrLayer::Device(spec),
            DeviceOrLayer::Layer(layer) => DeviceOrLayer::Layer(Box::new(layer.surviving_kill())),
        };
        let children = self.children.into_iter();
        LayerTree {
            kind: self.kind,
            children: children
                .map(|(role, child)| (role, surviving(child)))
                .collect(),
            options: if has_ack {
                self.options.or_set(&ACK, "device")
            } else {
                self.options
            },
        }
    }

    /// Returns the tree on other devices.
    ///
    /// # Errors
    /// The first error of `other`.
    pub fn on<E>(
        mut self,
        other: &mut dyn FnMut(&DeviceSpec) -> Result<DeviceSpec, E>,
    ) -> Result<LayerTree, E> {
        for (_, child) in &mut self.children {
            *child = match child {
                DeviceOrLayer::Device(spec) => DeviceOrLayer::Device(other(spec)?),
                DeviceOrLayer::Layer(layer) => {
                    DeviceOrLayer::Layer(Box::new(layer.clone().on(other)?))
                }
            };
        }
        Ok(self)
    }

    /// Returns the devices at the leaves, each with its role. Roles are written like keys of the configuration file:
    /// `data.log` is the log of the layer at `data`.
    pub fn devices(&self) -> Vec<(String, &DeviceSpec)> {
        let mut devices = Vec::new();
        for (role, child) in &self.children {
            match child {
                DeviceOrLayer::Device(spec) => devices.push(((*role).to_owned(), spec)),
                DeviceOrLayer::Layer(layer) => {
                    let below = layer.devices().into_iter();
                    devices.extend(below.map(|(below, spec)| (format!("{role}.{below}"), spec)));
                }
            }
        }
        devices
    }
}

impl fmt::Display for LayerTree {
    /// Writes the only device of a layer as given, and several as the data and the others: `(DATA < LOG)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.children[..] {
            [(_, only)] => only.fmt(f),
            children => {
                let texts: Vec<String> = children
                    .iter()
                    .map(|(_, child)| child.to_string())
                    .collect();
                write!(f, "({})", texts.join(" < "))
            }
        }
    }
}

impl fmt::Display for DeviceOrLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceOrLayer::Device(spec) => spec.fmt(f),
            DeviceOrLayer::Layer(layer) => layer.fmt(f),
        }
    }
}
