//! A space in memory: what is told of it, read, and found at its far end.

mod places;
mod reads;
mod sparse;
mod world;
