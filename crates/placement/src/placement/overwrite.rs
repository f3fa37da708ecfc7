//! The plain disk's: everything in place. Only what has no place yet is appended.

use super::{Kind, MovedPiece, MovedPlace, Needs, Order, Placed, Placement, UserPlace, UserWrite};

/// Has nothing to remember.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overwrite;

impl Placement for Overwrite {
    fn kind(&self) -> Kind {
        Kind::Overwrite
    }

    fn needs(&self) -> Needs {
        Needs {
            user: 1,
            moved: 1,
            in_place: true,
            order: Order::AsFound,
        }
    }

    fn place_user(&mut self, write: &UserWrite) -> Placed<UserPlace> {
        Placed {
            place: UserPlace::InPlace(0),
            sectors: write.sectors,
        }
    }

    /// Only what was trimmed leaves holes, so there is little to be cleaned, and order is kept.
    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace> {
        Placed {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }
}
