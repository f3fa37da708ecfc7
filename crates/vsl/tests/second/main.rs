//! Faults that a second hostile review found in the engine, each as a test of the right behaviour.
//!
//! All times are of a virtual clock.

mod bare;
mod cold;
mod crowd;
mod cut_recovery;
mod dropped;
mod faults;
mod grown;
mod home_rot;
mod in_place;
mod last_record;
mod memory;
mod numbers;
mod outage;
mod pieces;
mod power;
mod preallocated;
mod recovery;
mod room;
mod scrub;
mod trims;
mod tune;
mod waits;
mod world;
