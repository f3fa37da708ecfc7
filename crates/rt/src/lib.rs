//! The single-threaded executor that every volume runs on, and the clock it runs by.
//!
//! A volume's engine is plain data (`Rc`, `RefCell`) touched by one thread; its requests interleave
//! only where they wait. What "waiting" means is the [`Driver`]'s business: a real one waits in the
//! kernel for I/O, a virtual one ([`VirtualTime`]) moves its clock to the next timer. The engine
//! cannot tell, so what a simulation runs through a million crashes is what ships.
//!
//! Invariants:
//! - Tasks are polled only on the thread that runs the executor, in the order they were woken. Given
//!   the same driver behaviour, two runs are the same.
//! - Waking is allowed from any thread; that is the only thing other threads may do.
//! - Time comes from [`Rt::now`] alone, and never goes backwards.
//!
//! Reading order: [`Driver`] in `driver.rs`, [`Executor::block_on`] in `executor.rs`, then the
//! waiting tools [`Event`], [`Lock`], [`RangeLock`], [`Portions`] and [`Budget`].

mod budget;
mod driver;
mod event;
mod executor;
mod lock;
mod portions;
mod range_lock;
mod time;

pub use budget::{Account, Budget, Lease};
pub use driver::{Driver, Turn, Unpark, VirtualTime, Wait};
pub use event::{Event, Listener};
pub use executor::{Executor, Rt, Sleep, Task};
pub use lock::{Lock, LockGuard};
pub use portions::Portions;
pub use range_lock::{RangeGuard, RangeLock};
pub use time::{Elapsed, Instant};
