//! What must be true of a world. Each checker is a piece of its own and knows no other.
//!
//! Those that look at what devices are asked get every request of both disks by [`Checkers`]; the
//! others are asked by the world when they are due.

mod abandoned;
pub mod accounts;
mod copies;
pub mod epochs;
mod home;
pub mod lanes;
pub mod liveness;
mod segments;
pub mod smooth;
#[cfg(test)]
mod tests;
mod turns;

use std::rc::Rc;

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

    /// The violation without what differs from world to world: its numbers, and what lists hold. Two
    /// of one shape are likely to have one cause.
    pub fn shape(&self) -> String {
        let mut shape = format!("{}: ", self.checker);
        let (mut depth, mut last) = (0_u32, ' ');
        for char in self.what.chars() {
            depth += u32::from(char == '[');
            let shown = if char.is_ascii_digit() { '#' } else { char };
            // A number with its fraction is one mark.
            let goes_on = last == '#' && matches!(shown, '#' | '.');
            if !goes_on && (depth == 0 || depth == 1 && char == '[') {
                shape.push(shown);
                last = shown;
            }
            depth = depth.saturating_sub(u32::from(char == ']'));
        }
        shape
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.checker, self.what)
    }
}

/// The checkers that watch the disks of a life.
pub struct Checkers {
    turns: turns::Turns,
    abandoned: abandoned::Abandoned,
    copies: copies::Copies,
    segments: Option<segments::Segments>,
}

impl Checkers {
    /// Checkers for a life with this data device; `honest` if the disks keep what they say they keep.
    pub fn new(data: &Rc<Disk>, honest: bool) -> Checkers {
        Checkers {
            turns: turns::Turns::default(),
            abandoned: abandoned::Abandoned::default(),
            copies: copies::Copies::default(),
            segments: honest.then(|| segments::Segments::new(data)),
        }
    }

    /// A disk is asked for something.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn issued(&self, lanes: &Lanes, disk: &Disk, request: &Request) -> Result<(), Violation> {
        if disk.name == "data" {
            self.turns.issued(request)?;
            home::issued(lanes, request)
        } else {
            self.abandoned.issued(request)?;
            self.copies.issued(request)?;
            let segments = self.segments.as_ref();
            segments.map_or(Ok(()), |segments| segments.issued(request))
        }
    }

    /// A request of a disk ended.
    pub fn ended(&self, disk: &Disk, request: &Request, failed: bool) {
        if disk.name == "data" {
            self.turns.ended(request);
        } else {
            self.abandoned.ended(request, failed);
            self.copies.ended(request, failed);
            if let Some(segments) = &self.segments {
                segments.ended(request, failed);
            }
        }
    }
}
