//! The mechanical disk.
//!
//! A [`Disk`] is plain state on a clock it is told: [`Disk::submit`] hands it a request and the
//! instant; [`Disk::next_event`] says when something will happen of itself; [`Disk::advance`]
//! moves it to an instant and hands out what has completed until then. It keeps no data, only
//! where data would be and when.
//!
//! Inside: [`geometry`](self) maps blocks to places; `mechanics` knows where the heads are and how
//! long a transfer takes; `queue` chooses the next request. Parameters come as a [`Spec`], by name
//! ([`named`]) or from a table ([`Spec::parse`]).

mod ahead;
mod cache;
mod drive;
mod geometry;
mod mechanics;
mod named;
mod options;
mod queue;
mod spec;
mod table;
mod times;

pub use drive::Disk;
pub use named::{named, names};
pub use options::{CacheChoice, Caches, Completion, Op, Options, Scheduling, Service};
pub use spec::Spec;
pub use table::TableError;
