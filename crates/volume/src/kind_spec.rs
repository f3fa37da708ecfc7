//! The facts about a kind of volume that are known without a device.

use std::fmt;

use crate::options::OptionRow;

/// Form in which a volume is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServedAs {
    /// A block device, and an NBD export.
    BlockDevice,
    /// A mounted filesystem.
    Files,
}

/// Placements that an administrator can choose for a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlacementChoice {
    /// None: the volume does not place data.
    None,
    /// A named placement.
    Named,
    /// A named placement, or the volume chooses.
    NamedOrAuto,
}

/// A device of a volume, as a kind declares it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRole {
    /// Key in the configuration file; with two dashes before it, the option of the command line.
    pub name: &'static str,
    /// Help for the option of `create`.
    pub create_help: &'static str,
    /// Help for the option that names an existing volume by its device.
    pub target_help: &'static str,
    /// True if the role may be filled by another layer instead of a device.
    pub may_be_layer: bool,
}

/// A kind of volume, as data: its names, devices and options.
pub struct KindSpec {
    /// Value of `kind` in a configuration file, and of `create --volume`.
    pub name: &'static str,
    /// Name in sentences, without an article.
    pub title: &'static str,
    /// Label of metrics, and the value of `layer` in reports.
    pub label: &'static str,
    /// Description for the help of `create --volume`.
    pub help: &'static str,
    /// Comment in a configuration file that warns of other uses of the devices.
    pub caution: &'static str,
    /// Form in which a volume is served.
    pub served_as: ServedAs,
    /// Devices, in the order of the configuration file.
    pub roles: &'static [DeviceRole],
    /// Role of the device that is formatted, and that identifies the volume.
    pub own_role: &'static str,
    /// Role of the device or layer that finally holds the data of clients.
    pub data_role: &'static str,
    /// True if data is at the same address on the data device as in the volume.
    pub keeps_addresses: bool,
    /// Placements that can be chosen.
    pub placements: PlacementChoice,
    /// Options of an attached volume, which are also keys of its configuration file.
    pub options: &'static [OptionRow],
    /// Options that only apply while a volume is created.
    pub create_options: &'static [OptionRow],
}

impl KindSpec {
    /// Returns true if a volume of this kind has a device in this role.
    pub fn has_role(&self, role: &str) -> bool {
        self.roles.iter().any(|known| known.name == role)
    }

    /// Returns true if an attached volume of this kind has the option.
    pub(crate) fn has_option(&self, key: &str) -> bool {
        self.options.iter().any(|row| row.spec.key == key)
    }

    /// Returns all options of this kind.
    pub(crate) fn all_options(&self) -> impl Iterator<Item = &'static OptionRow> {
        self.options.iter().chain(self.create_options)
    }
}

impl PartialEq for KindSpec {
    fn eq(&self, other: &KindSpec) -> bool {
        self.name == other.name
    }
}

impl Eq for KindSpec {}

impl fmt::Debug for KindSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for KindSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}
