//! The single-threaded executor that every volume runs on, and its clock.
//!
//! A volume's engine is plain data (`Rc`, `RefCell`) accessed by one thread; its requests interleave only at their
//! waits. The [`Driver`] defines waiting: a real driver waits in the kernel for I/O, a virtual driver ([`VirtualTime`])
//! moves its clock to the next timer. The engine does not see the difference, so the code that a simulation runs
//! through a million crashes is the code that ships.
//!
//! Invariants:
//! - Tasks are polled only on the thread that runs the executor, in the order they were woken. With equal behaviour of
//!   the driver, two runs are equal.
//! - Other threads may wake tasks, and do nothing else.
//! - Time comes from [`Rt::now`] alone, and never goes backwards.
//!
//! Reading order: [`Driver`] in `driver.rs`, [`Executor::block_on`] in `executor.rs`, then the tools for waiting:
//! [`Event`], [`Lock`], [`RangeLock`], [`CoopBudget`] and [`Budget`].

mod budget;
mod driver;
mod event;
mod executor;
mod lock;
mod portions;
mod range_lock;
mod time;

pub use budget::{Budget, BudgetAccount, BudgetLease};
pub use driver::{Driver, DriverTurn, Unpark, VirtualTime, WaitLimit};
pub use event::{Event, EventListener};
pub use executor::{Executor, Rt, SleepFuture, Task};
pub use lock::{Lock, LockGuard};
pub use portions::CoopBudget;
pub use range_lock::{RangeGuard, RangeLock};
pub use time::{Instant, TimeLimitError};
