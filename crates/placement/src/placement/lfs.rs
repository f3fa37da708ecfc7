//! Placement of a log-structured file system: one stream of client writes, and one of moved data, sorted by age
//! (Rosenblum and Ousterhout, "The design and implementation of a log-structured file system", TOCS 1992).

use super::{Kind, MovedPiece, MovedPlace, Needs, Order, Placed, Placement, UserPlace, UserWrite};

/// Policy without state.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lfs;

impl Placement for Lfs {
    fn kind(&self) -> Kind {
        Kind::Lfs
    }

    fn needs(&self) -> Needs {
        Needs {
            user: 1,
            moved: 1,
            in_place: false,
            order: Order::Age,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> Placed<UserPlace> {
        Placed {
            place: UserPlace::Append(0),
            sectors: write.sectors,
        }
    }

    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace> {
        Placed {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }
}
