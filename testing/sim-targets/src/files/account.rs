//! The operations of a filesystem's clients, and their required state after a crash.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use super::model::{FilesModel, ModelId};

/// States of one client's directory, operation by operation, from the last durable state to the operation in progress.
#[derive(Clone, Debug)]
pub struct DirectoryHistory {
    /// The first state is durable. The operation of the last state may be in progress.
    states: VecDeque<FilesModel>,
    /// Number of the first state.
    first: u64,
    /// Number of the last completed state.
    done: u64,
}

/// The histories of all clients of a scenario.
pub type DirectoryHistories = Rc<RefCell<Vec<DirectoryHistory>>>;

impl DirectoryHistory {
    /// Creates the history of a directory without operations.
    pub fn new(model: FilesModel) -> DirectoryHistory {
        DirectoryHistory {
            states: [model].into(),
            first: 0,
            done: 0,
        }
    }

    /// Returns the current state of the directory.
    pub fn now(&self) -> &FilesModel {
        &self.states[(self.done - self.first) as usize]
    }

    /// Records an operation in progress that leads to `model`.
    pub fn begin(&mut self, model: FilesModel) {
        self.states.truncate((self.done - self.first) as usize + 1);
        self.states.push_back(model);
    }

    /// Records the end of the operation. `done` is false for a refused operation.
    pub fn end(&mut self, done: bool) {
        if done {
            self.done += 1;
        } else {
            drop(self.states.pop_back());
        }
    }

    /// Records concurrent operations in progress that lead to any of these states.
    pub fn begin_any(&mut self, models: impl IntoIterator<Item = FilesModel>) {
        self.states.truncate((self.done - self.first) as usize + 1);
        self.states.extend(models);
    }

    /// Records that the concurrent operations are complete. The last model is the current state, but a crash may leave
    /// any of the models.
    pub fn end_any(&mut self, models: impl IntoIterator<Item = FilesModel>) {
        self.begin_any(models);
        self.done = self.first + self.states.len() as u64 - 1;
    }

    /// Records that the client begins or ends the use of a file. The use does not change the named files.
    pub fn hold(&mut self, id: ModelId, held: bool) {
        let now = &mut self.states[(self.done - self.first) as usize];
        if held {
            now.held.insert(id);
        } else {
            now.held.remove(&id);
        }
        now.forget_unused();
    }

    /// Returns the number of the last completed state.
    pub fn done(&self) -> u64 {
        self.done
    }

    /// Records that all states up to number `done` are durable.
    pub fn durable(&mut self, done: u64) {
        while self.first < done {
            self.states.pop_front();
            self.first += 1;
        }
    }

    /// Returns the history that continues from the state found after a crash, or `None` if this state is not permitted.
    pub fn find(&self, digest: u64) -> Option<DirectoryHistory> {
        let mut found = self.states.iter().rev();
        let mut alike = found.by_ref().filter(|state| state.digest() == digest);
        let mut state = alike.next()?.clone();
        // No digest contains preallocation, so any of the states with this digest may have been found.
        alike.for_each(|other| state.limit_preallocated(other));
        state.held.clear();
        state.forget_unused();
        Some(DirectoryHistory::new(state))
    }
}
