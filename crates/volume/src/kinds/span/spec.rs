//! The facts about spans.

use crate::kind_spec::{DeviceRole, KindSpec, PlacementChoice, ServedAs};

/// Role of the device with the first bytes of the volume.
pub(super) const FIRST: &str = "data";
/// Role of the device with the other bytes.
pub(super) const SECOND: &str = "second";

const ROLES: [DeviceRole; 2] = [
    DeviceRole {
        name: FIRST,
        create_help: "The device with the first bytes of the volume, which is overwritten.",
        target_help: "The device with the first bytes of the volume.",
        may_be_layer: false,
    },
    DeviceRole {
        name: SECOND,
        create_help: "With --volume span: the device with the other bytes of the volume, which is overwritten.",
        target_help: "With --data: the second device of a span, if it is not at the recorded path.",
        may_be_layer: false,
    },
];

/// The span as a kind of volume.
pub(super) static SPEC: KindSpec = KindSpec {
    name: "span",
    title: "span",
    label: "span",
    help: "two devices, one after the other, as one volume; both are overwritten",
    caution: "Both devices hold parts of one volume: do not mount or change them except through Forebay.",
    served_as: ServedAs::BlockDevice,
    roles: &ROLES,
    own_role: FIRST,
    data_role: FIRST,
    keeps_addresses: false,
    placements: PlacementChoice::None,
    options: &[],
    create_options: &[],
};
