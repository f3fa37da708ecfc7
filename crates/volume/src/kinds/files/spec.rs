//! The facts about filesystems.

use super::options;
use crate::kind_spec::{KindSpec, PlacementChoice, ServedAs};
use crate::kinds::space::ROLES;

/// The filesystem as a kind of volume. The best placement for it does not follow from costs alone, so it does not choose
/// the placement itself.
pub(crate) static SPEC: KindSpec = KindSpec {
    name: "fs",
    title: "filesystem",
    label: "filesystem",
    help: "a filesystem on the data device, which is overwritten",
    caution: "The data device holds a Forebay filesystem: do not mount or change it except with `forebay mount`.",
    served_as: ServedAs::Files,
    roles: &ROLES,
    own_role: "data",
    data_role: "data",
    keeps_addresses: false,
    placements: PlacementChoice::Named,
    options: &options::ROWS,
    create_options: &options::CREATE_ROWS,
};
