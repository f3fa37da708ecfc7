//! Placement of a plain disk: all writes in place. Only data without a place is appended.

use super::{
    MoveOrder, MovedExtent, MovedPlace, Placement, PlacementAnswer, PlacementKind, PolicyNeeds,
    UserPlace, UserWrite,
};

/// Policy without state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwrite;

impl Placement for Overwrite {
    fn kind(&self) -> PlacementKind {
        PlacementKind::Overwrite
    }

    fn needs(&self) -> PolicyNeeds {
        PolicyNeeds {
            user: 1,
            moved: 1,
            in_place: true,
            order: MoveOrder::AsFound,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace> {
        PlacementAnswer {
            place: UserPlace::InPlace(0),
            sectors: write.sectors,
        }
    }

    /// Only trimmed sectors leave holes. So cleaning is rare, and the order is kept.
    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace> {
        PlacementAnswer {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }
}
