//! The state of a freeze, without waiting.

use forebay_rt::Instant;

/// Origin of a request that changes data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteClass {
    /// A client's request. It waits as soon as a freeze begins.
    Client,
    /// A request of the kernel that a client's request in progress may depend on: it writes back cached pages, or
    /// releases something. It waits only when no client's request is in progress.
    Kernel,
}

/// Phase of a freeze.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum FreezePhase {
    /// Writes pass.
    #[default]
    Thawed,
    /// New writes of clients wait; earlier writes are in progress.
    Closing,
    /// All writes wait, and none is in progress.
    Frozen,
}

/// The state of a freeze.
#[derive(Default)]
pub(super) struct FreezeState {
    phase: FreezePhase,
    until: Option<Instant>,
    /// Number of changes between a freeze and none.
    generation: u64,
    under_way: u64,
    held: u64,
}

impl FreezeState {
    /// Counts a write as in progress. Returns false if it must wait.
    pub(super) fn try_begin(&mut self, class: WriteClass) -> bool {
        let passes = match self.phase {
            FreezePhase::Thawed => true,
            FreezePhase::Closing => class == WriteClass::Kernel,
            FreezePhase::Frozen => false,
        };
        self.under_way += u64::from(passes);
        passes
    }

    /// Ends a write. Returns true if a freeze waits for it.
    pub(super) fn end_write(&mut self) -> bool {
        self.under_way -= 1;
        self.under_way == 0 && self.phase == FreezePhase::Closing
    }

    pub(super) fn begin_wait(&mut self) {
        self.held += 1;
    }

    pub(super) fn end_wait(&mut self) {
        self.held -= 1;
    }

    /// Begins a freeze. Returns false if there is one already.
    pub(super) fn begin(&mut self, until: Instant) -> bool {
        if self.phase != FreezePhase::Thawed {
            return false;
        }
        self.phase = FreezePhase::Closing;
        self.until = Some(until);
        self.generation += 1;
        true
    }

    /// Returns true when the freeze is complete, false when it has ended, and `None` while writes are in progress.
    pub(super) fn quiet(&mut self) -> Option<bool> {
        match self.phase {
            FreezePhase::Thawed => Some(false),
            FreezePhase::Closing if self.under_way > 0 => None,
            FreezePhase::Closing | FreezePhase::Frozen => {
                self.phase = FreezePhase::Frozen;
                Some(true)
            }
        }
    }

    /// Ends the freeze. Returns false without one.
    pub(super) fn thaw(&mut self) -> bool {
        let was = std::mem::take(&mut self.phase) != FreezePhase::Thawed;
        self.until = None;
        self.generation += u64::from(was);
        was
    }

    pub(super) fn phase(&self) -> FreezePhase {
        self.phase
    }

    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn held_writes(&self) -> u64 {
        self.held
    }
}
