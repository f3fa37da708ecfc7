//! Placement of a plain disk: all writes in place. Only data without a place is appended.

use super::{Kind, MovedPiece, MovedPlace, Needs, Order, Placed, Placement, UserPlace, UserWrite};

/// Policy without state.
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

    /// Only trimmed sectors leave holes. So cleaning is rare, and the order is kept.
    fn place_moved(&mut self, piece: &MovedPiece) -> Placed<MovedPlace> {
        Placed {
            place: MovedPlace::Append(0),
            sectors: piece.sectors,
        }
    }
}
