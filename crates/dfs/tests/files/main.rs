//! Tests of the filesystem on a volume in memory: a full volume, concurrent operations, and large files.

mod atomic;
mod counts;
mod full;
mod hostile;
mod large;
mod places;
mod preallocated;
mod races;
mod world;
