//! Two directories that a client moves concurrently, each below the other.

use forebay_dfs::{FileKind, RenameTarget};

use super::act::FileOperation;
use super::expected::ViolationText;
use super::model::{FilesModel, ModelId, NewModelNode};
use super::user::{FilesUser, name};

/// A directory with its place.
#[derive(Clone)]
struct NamedDirectory {
    parent: ModelId,
    name: Vec<u8>,
    id: ModelId,
}

impl FilesUser {
    /// Returns two moves of directories, each to a place below the other directory, or `None` if the model has no such
    /// directories.
    ///
    /// Both moves together would put each directory into itself. The moves have no directory in common, so only the
    /// lock for all moves separates them.
    pub(super) fn crossing(&self, model: &FilesModel) -> Option<[FileOperation; 2]> {
        let directories: Vec<ModelId> = directories(model);
        let below = |id| {
            let strictly = |at: &&ModelId| **at != id && model.is_above(id, **at);
            let all: Vec<ModelId> = directories.iter().filter(strictly).copied().collect();
            (!all.is_empty()).then(|| self.rng.pick(&all))
        };
        let mut named = named(model, &directories);
        named.retain(|one| below(one.id).is_some());
        let pick = |some: &[NamedDirectory]| (!some.is_empty()).then(|| self.rng.pick(some));
        let one = pick(&named)?;
        let are_apart = |other: &NamedDirectory| {
            let is_beside = !model.is_above(one.id, other.id) && !model.is_above(other.id, one.id);
            is_beside && one.parent != other.parent
        };
        named.retain(are_apart);
        let other = pick(&named)?;
        let moved = |what: &NamedDirectory, into| {
            Some(FileOperation::Rename {
                from: (what.parent, what.name.clone()),
                to: (below(into)?, name(&self.rng)),
                target: RenameTarget::Any,
            })
        };
        Some([moved(&one, other.id)?, moved(&other, one.id)?])
    }

    /// Makes nested directories, so that a client can move them.
    pub(super) async fn deepen(&mut self) -> Result<(), ViolationText> {
        let mut at = Some(self.directory(&self.model()).0);
        for _ in 0..3 {
            let Some(directory) = at else { break };
            let fresh = NewModelNode {
                kind: FileKind::Directory,
                permissions: 0o755,
                target: Vec::new(),
                attributes: Vec::new(),
            };
            at = self.make_in(directory, &fresh).await?;
        }
        Ok(())
    }
}

/// Returns all directories that have a name.
fn directories(model: &FilesModel) -> Vec<ModelId> {
    let is_one =
        |id: &ModelId| model.node(*id).kind == FileKind::Directory && model.node(*id).links > 0;
    model.ids().into_iter().filter(is_one).collect()
}

/// Returns all named directories with their places.
fn named(model: &FilesModel, directories: &[ModelId]) -> Vec<NamedDirectory> {
    let within = |parent: &ModelId| {
        let parent = *parent;
        let names = model.node(parent).names.iter();
        names.map(move |(name, id)| NamedDirectory {
            parent,
            name: name.clone(),
            id: *id,
        })
    };
    let all = directories.iter().flat_map(within);
    all.filter(|named| model.node(named.id).kind == FileKind::Directory)
        .collect()
}
