//! The filesystem on a volume in memory: where it is full, where many do something at once, where things are large.

mod atomic;
mod counts;
mod full;
mod hostile;
mod large;
mod places;
mod preallocated;
mod races;
mod world;
