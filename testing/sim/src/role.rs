//! Roles of disks. The disks of a system under test have roles, and per-disk values are indexed by role.

use std::fmt::{Debug, Display, Formatter};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// Role of a disk, such as `Log` or `HduRange`.
pub trait DiskRole: Copy + Eq + Debug + Display + Send + Sync + 'static {
    /// All disks of a system under test, in the order in which their losses are decided.
    const ALL: &'static [Self];
}

/// A value for each disk.
#[derive(Clone, PartialEq, Eq)]
pub struct PerDisk<R, T> {
    things: Vec<T>,
    role: PhantomData<R>,
}

impl<R: DiskRole, T> PerDisk<R, T> {
    /// Creates the values with `make`.
    pub fn of(make: impl FnMut(R) -> T) -> PerDisk<R, T> {
        PerDisk {
            things: R::ALL.iter().copied().map(make).collect(),
            role: PhantomData,
        }
    }

    /// Returns all values with their roles.
    pub fn iter(&self) -> impl Iterator<Item = (R, &T)> {
        R::ALL.iter().copied().zip(&self.things)
    }

    /// Returns the results of `change` for all values.
    pub fn map<U>(&self, mut change: impl FnMut(R, &T) -> U) -> PerDisk<R, U> {
        PerDisk::of(|role| change(role, &self[role]))
    }

    fn place(role: R) -> usize {
        let place = R::ALL.iter().position(|one| *one == role);
        place.expect("a role is among all roles")
    }
}

impl<R: DiskRole, T> Index<R> for PerDisk<R, T> {
    type Output = T;

    fn index(&self, role: R) -> &T {
        &self.things[Self::place(role)]
    }
}

impl<R: DiskRole, T> IndexMut<R> for PerDisk<R, T> {
    fn index_mut(&mut self, role: R) -> &mut T {
        &mut self.things[Self::place(role)]
    }
}

impl<R, T: Debug> Debug for PerDisk<R, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut tuple = f.debug_tuple("");
        for thing in &self.things {
            tuple.field(thing);
        }
        tuple.finish()
    }
}
