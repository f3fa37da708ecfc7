//! The facts about log-structured volumes.

use super::options;
use crate::kind_spec::{DeviceRole, KindSpec, PlacementChoice, ServedAs};

/// The only device of a log-structured volume or a filesystem.
pub(crate) const ROLES: [DeviceRole; 1] = [DeviceRole {
    name: "data",
    create_help: "The data device, which is overwritten.",
    target_help: "The device of the volume.",
    may_be_layer: false,
}];

/// The log-structured volume as a kind.
pub(crate) static SPEC: KindSpec = KindSpec {
    name: "vsl",
    title: "log-structured volume",
    label: "volume",
    help: "a log-structured volume on the data device, which is overwritten; with --log, a write cache in front of it",
    caution: "The data device holds a log-structured volume: do not mount or change it except through Forebay.",
    served_as: ServedAs::BlockDevice,
    roles: &ROLES,
    own_role: "data",
    data_role: "data",
    keeps_addresses: false,
    placements: PlacementChoice::NamedOrAuto,
    options: &options::ROWS,
    create_options: &options::CREATE_ROWS,
};
