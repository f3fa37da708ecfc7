//! The facts about write caches.

use super::options;
use crate::kind_spec::{DeviceRole, KindSpec, PlacementChoice, ServedAs};

const ROLES: [DeviceRole; 2] = [
    DeviceRole {
        name: "data",
        create_help: "The data device: a block device, a regular file, or a part of either (PATH@OFFSET+LENGTH). With \
                      model:MODEL: in front, as slow as that disk.",
        target_help: "With --log: the data device, if it is not at the path recorded in the log. Alone: the device of a \
                      log-structured volume or a filesystem.",
        may_be_layer: true,
    },
    DeviceRole {
        name: "log",
        create_help: "The log device, which is overwritten. With --volume vsl: the log of a write cache in front of the \
                      volume. Without --volume, if the data device holds a vsl volume, the cache is in front of that \
                      volume, which keeps its data.",
        target_help: "The log device of a volume without a configuration file.",
        may_be_layer: false,
    },
];

/// The write cache as a kind of volume.
pub(crate) static SPEC: KindSpec = KindSpec {
    name: "cache",
    title: "write cache",
    label: "cache",
    help: "a write cache: the log in front of the data device",
    caution: "Only the log device was formatted. While the log is dirty, do not mount or change the data device except \
              through Forebay.",
    served_as: ServedAs::BlockDevice,
    roles: &ROLES,
    own_role: "log",
    data_role: "data",
    keeps_addresses: true,
    placements: PlacementChoice::None,
    options: &options::ROWS,
    create_options: &options::CREATE_ROWS,
};
