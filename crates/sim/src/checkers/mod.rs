//! What must be true of a world. Each checker is a piece of its own and knows no other.
//!
//! Those that look at what devices are asked get every request of both disks by [`Checkers`]; the
//! others are asked by the world when they are due.

mod home;
pub mod lanes;
mod turns;

use crate::disk::{Disk, Request};

pub use lanes::{Lanes, Promise};

/// Something that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which checker says so.
    pub checker: &'static str,
    /// What it saw.
    pub what: String,
}

impl Violation {
    /// A violation.
    pub fn new(checker: &'static str, what: impl Into<String>) -> Violation {
        Violation {
            checker,
            what: what.into(),
        }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// The checkers that watch the disks.
#[derive(Default)]
pub struct Checkers {
    turns: turns::Turns,
}

impl Checkers {
    /// A disk is asked for something.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn issued(&self, lanes: &Lanes, disk: &Disk, request: &Request) -> Result<(), Violation> {
        if disk.name == "data" {
            self.turns.issued(request)?;
            home::issued(lanes, request)?;
        }
        Ok(())
    }

    /// A request of a disk ended.
    ///
    /// # Errors
    /// What is wrong with that.
    pub fn ended(&self, disk: &Disk, request: &Request, _failed: bool) -> Result<(), Violation> {
        if disk.name == "data" {
            self.turns.ended(request);
        }
        Ok(())
    }
}
