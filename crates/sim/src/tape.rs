//! What happened in a world: a digest of it always, and readable lines if somebody wants them.

use std::cell::{Cell, RefCell};

use forebay_rt::Instant;

use forebay_rng::mix;

/// A world's tape.
pub struct Tape {
    digest: Cell<u64>,
    lines: Option<RefCell<Vec<String>>>,
}

impl Tape {
    /// An empty tape; `readable` if it is to keep lines, too.
    pub fn new(readable: bool) -> Tape {
        Tape {
            digest: Cell::new(0),
            lines: readable.then(RefCell::default),
        }
    }

    /// Takes something into the digest.
    pub fn note(&self, key: u64) {
        self.digest.set(mix(self.digest.get(), key));
    }

    /// Keeps a line, if lines are kept.
    pub fn say(&self, now: Instant, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            let ms = now.as_nanos() as f64 / 1e6;
            lines
                .borrow_mut()
                .push(format!("{ms:>12.3} ms  {}", line()));
        }
    }

    /// Keeps a heading, if lines are kept.
    pub fn head(&self, line: impl FnOnce() -> String) {
        if let Some(lines) = &self.lines {
            lines.borrow_mut().push(line());
        }
    }

    /// The digest so far.
    pub fn digest(&self) -> u64 {
        self.digest.get()
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.lines
            .as_ref()
            .map_or_else(Vec::new, |lines| lines.borrow().clone())
    }
}
