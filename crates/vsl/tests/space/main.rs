//! A space in memory: locations, reads, and sectors at its far end.

mod places;
mod reads;
mod sparse;
mod world;
