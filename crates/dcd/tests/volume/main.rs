//! Tests of whole volumes over simulated disks. They are one program, since each program takes long to link.

mod attach;
mod damage;
mod discards;
mod drop_in;
mod failures;
mod faults;
mod former;
mod fua;
mod grown;
mod invariants;
mod long_faults;
mod map_memory;
mod model;
mod noting;
mod one_disk;
mod pressure;
mod replacement;
mod salvage;
mod scrub;
mod slow_disk;
mod stamped;
mod still;
