//! Placement of a log-structured file system: one stream of client writes, and one of moved data, sorted by age
//! (Rosenblum and Ousterhout, "The design and implementation of a log-structured file system", TOCS 1992).

use super::{
    MoveOrder, MovedExtent, MovedPlace, Placement, PlacementAnswer, PlacementKind, PolicyNeeds,
    UserPlace, UserWrite,
};

/// Policy without state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lfs;

impl Placement for Lfs {
    fn kind(&self) -> PlacementKind {
        PlacementKind::Lfs
    }

    fn needs(&self) -> PolicyNeeds {
        PolicyNeeds {
            user: 1,
            moved: 1,
            in_place: false,
            order: MoveOrder::Age,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> PlacementAnswer<UserPlace> {
        PlacementAnswer {
            place: UserPlace::Append(0),
            sectors: write.sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedExtent) -> PlacementAnswer<MovedPlace> {
        PlacementAnswer {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }
}
