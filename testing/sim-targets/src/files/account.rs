//! What users of a filesystem have done, and what of it must be there after a crash.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::model::{FilesModel, ModelId};

/// What one user's directory was like, operation by operation: from what is durable for certain, to what is being done.
#[derive(Clone, Debug)]
pub struct DirectoryHistory {
    /// The first is durable; the last may be under way.
    states: VecDeque<FilesModel>,
    /// The number of the first.
    first: u64,
    /// The number of the last that is done.
    done: u64,
}

/// The accounts of all users of a world.
pub type DirectoryHistories = Rc<RefCell<Vec<DirectoryHistory>>>;

impl DirectoryHistory {
    /// One in which nothing has been done to a directory.
    pub fn new(model: FilesModel) -> DirectoryHistory {
        DirectoryHistory {
            states: [model].into(),
            first: 0,
            done: 0,
        }
    }

    /// What the directory is like as far as is known to its user.
    pub fn now(&self) -> &FilesModel {
        &self.states[(self.done - self.first) as usize]
    }

    /// Something is being done that leads to this.
    pub fn begin(&mut self, model: FilesModel) {
        self.states.truncate((self.done - self.first) as usize + 1);
        self.states.push_back(model);
    }

    /// It is done, or it was refused.
    pub fn end(&mut self, done: bool) {
        if done {
            self.done += 1
        } else {
            drop(self.states.pop_back())
        }
    }

    /// Several things are being done at once, which lead to any of these.
    pub fn begin_any(&mut self, models: impl IntoIterator<Item = FilesModel>) {
        self.states.truncate((self.done - self.first) as usize + 1);
        self.states.extend(models);
    }

    /// They are done. The last of these is what came of it; a crash may leave any of them, for all that is known.
    pub fn end_any(&mut self, models: impl IntoIterator<Item = FilesModel>) {
        self.begin_any(models);
        self.done = self.first + self.states.len() as u64 - 1;
    }

    /// A file is used by its user, or not any more: of what is in the space nothing changes that names lead to.
    pub fn hold(&mut self, id: ModelId, held: bool) {
        let now = &mut self.states[(self.done - self.first) as usize];
        if held {
            now.held.insert(id);
        } else {
            now.held.remove(&id);
        }
        now.forget_unused();
    }

    /// The number of what is done.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// What was done up to a number is durable.
    pub fn durable(&mut self, done: u64) {
        while self.first < done {
            self.states.pop_front();
            self.first += 1;
        }
    }

    /// What is found after a crash, if it is what it may be: then all goes on from there.
    pub fn find(&self, digest: u64) -> Option<DirectoryHistory> {
        let mut found = self.states.iter().rev();
        let mut alike = found.by_ref().filter(|state| state.digest() == digest);
        let mut state = alike.next()?.clone();
        // What is preallocated shows in no digest: it may have been any of these.
        alike.for_each(|other| state.limit_preallocated(other));
        state.held.clear();
        state.forget_unused();
        Some(DirectoryHistory::new(state))
    }
}
