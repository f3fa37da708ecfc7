//! A model of a filesystem: maps in memory, without faults.

use forebay_device::is_zero;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_dfs::{Fallocate, FileFlags, FileKind, RenameTarget};
use forebay_units::RangeSet;

use super::bytes::SparseBytes;
use super::remembered::CachedDigest;
pub(super) use super::wrong::ExpectedError;
use super::wrong::{may_change, may_grow};

/// The number of a file in the model.
pub type ModelId = u64;

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelNode {
    /// Kind of the file.
    pub kind: FileKind,
    /// Permissions.
    pub permissions: u16,
    /// Owner.
    pub user: u32,
    /// Flags.
    pub flags: FileFlags,
    /// Data. For a symbolic link, its target.
    pub bytes: SparseBytes,
    /// Entries of a directory.
    pub names: BTreeMap<Vec<u8>, ModelId>,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Number of names. For a directory, two plus the number of its subdirectories.
    pub links: u32,
    /// Parent of a directory.
    pub parent: ModelId,
    /// Bytes with preallocated space. A write to these bytes does not fail for lack of space.
    pub preallocated: RangeSet,
    /// Digest of the content, if it was computed.
    pub(super) digest: CachedDigest,
}

/// A filesystem, or the part of a filesystem below a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesModel {
    nodes: BTreeMap<ModelId, Rc<ModelNode>>,
    next: ModelId,
    /// Files without a name that are still in use.
    pub held: BTreeSet<ModelId>,
}

/// Properties of a new file.
#[derive(Clone, Debug)]
pub struct NewModelNode {
    /// Kind of the file.
    pub kind: FileKind,
    /// Permissions.
    pub permissions: u16,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The number of the top directory.
pub const TOP: ModelId = 0;

impl FilesModel {
    /// Creates an empty directory.
    pub fn new() -> FilesModel {
        let top = ModelNode {
            links: 2,
            ..ModelNode::of(FileKind::Directory, 0o755)
        };
        FilesModel {
            nodes: BTreeMap::from([(TOP, Rc::new(top))]),
            next: TOP + 1,
            held: BTreeSet::new(),
        }
    }

    /// Returns a file that exists.
    pub fn node(&self, id: ModelId) -> &ModelNode {
        &self.nodes[&id]
    }

    pub(super) fn change(&mut self, id: ModelId) -> &mut ModelNode {
        let node = Rc::make_mut(self.nodes.get_mut(&id).expect("it is there"));
        node.digest = CachedDigest::default();
        node
    }

    /// Returns all files, with and without names.
    pub fn ids(&self) -> Vec<ModelId> {
        self.nodes.keys().copied().collect()
    }

    fn directory(&self, id: ModelId) -> Result<&ModelNode, ExpectedError> {
        let node = self.node(id);
        match node.kind {
            FileKind::Directory if node.links == 0 => Err(ExpectedError::NotFound),
            FileKind::Directory => Ok(node),
            _ => Err(ExpectedError::NotDirectory),
        }
    }

    fn regular(&mut self, id: ModelId) -> Result<&mut ModelNode, ExpectedError> {
        match self.node(id).kind {
            FileKind::Regular => Ok(self.change(id)),
            FileKind::Directory => Err(ExpectedError::IsDirectory),
            _ => Err(ExpectedError::Invalid),
        }
    }

    /// Returns the file with this name.
    pub fn named(&self, directory: ModelId, name: &[u8]) -> Option<ModelId> {
        self.node(directory).names.get(name).copied()
    }

    /// Makes a file.
    ///
    /// # Errors
    /// If the name exists, the parent is not a directory, or its flags forbid the change.
    pub fn make(
        &mut self,
        directory: ModelId,
        name: &[u8],
        fresh: &NewModelNode,
    ) -> Result<ModelId, ExpectedError> {
        if self.directory(directory)?.names.contains_key(name) {
            return Err(ExpectedError::Exists);
        }
        self.may_grow(directory)?;
        let id = self.add(fresh);
        let is_directory = fresh.kind == FileKind::Directory;
        let node = self.change(id);
        node.links = if is_directory { 2 } else { 1 };
        node.parent = directory;
        let parent = self.change(directory);
        parent.names.insert(name.to_vec(), id);
        parent.links += u32::from(is_directory);
        Ok(id)
    }

    /// Makes a file without a name.
    pub fn make_nameless(&mut self, fresh: &NewModelNode) -> ModelId {
        let id = self.add(fresh);
        self.held.insert(id);
        id
    }

    fn add(&mut self, fresh: &NewModelNode) -> ModelId {
        let mut node = ModelNode::of(fresh.kind, fresh.permissions);
        node.bytes.write(0, &fresh.target);
        node.attributes = fresh.attributes.iter().cloned().collect();
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Rc::new(node));
        id
    }

    /// Adds a name to a file.
    ///
    /// # Errors
    /// If the file is a directory, the name exists, or flags forbid the change.
    pub fn link(
        &mut self,
        id: ModelId,
        directory: ModelId,
        name: &[u8],
    ) -> Result<(), ExpectedError> {
        if self.node(id).kind == FileKind::Directory {
            return Err(ExpectedError::IsDirectory);
        }
        let parent = self.directory(directory)?;
        if parent.names.contains_key(name) {
            return Err(ExpectedError::Exists);
        }
        self.may_grow(directory)?;
        self.may_change(id)?;
        self.change(directory).names.insert(name.to_vec(), id);
        self.change(id).links += 1;
        Ok(())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// If the name is missing, the file is of the other type or a full directory, or flags forbid the change.
    pub fn take_away(
        &mut self,
        directory: ModelId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), ExpectedError> {
        self.directory(directory)?;
        let id = self.named(directory, name).ok_or(ExpectedError::NotFound)?;
        self.may_change(directory)?;
        self.may_change(id)?;
        let node = self.node(id);
        match (node.kind == FileKind::Directory, is_directory) {
            (true, false) => return Err(ExpectedError::IsDirectory),
            (false, true) => return Err(ExpectedError::NotDirectory),
            (true, true) if !node.names.is_empty() => return Err(ExpectedError::NotEmpty),
            _ => {}
        }
        let parent = self.change(directory);
        parent.names.remove(name);
        parent.links -= u32::from(is_directory);
        self.lose_name(id);
        Ok(())
    }

    fn lose_name(&mut self, id: ModelId) {
        let node = self.change(id);
        node.links = match node.kind {
            FileKind::Directory => 0,
            _ => node.links - 1,
        };
        self.forget_unused();
    }

    /// Removes files that have no name and are not in use.
    pub fn forget_unused(&mut self) {
        let held = &self.held;
        let stays = |id: &ModelId, node: &Rc<ModelNode>| node.links > 0 || held.contains(id);
        self.nodes.retain(|id, node| stays(id, node));
    }

    /// Moves a name.
    ///
    /// # Errors
    /// If a name does not fit `target`, the two files do not go together, or flags forbid the change.
    pub fn rename(
        &mut self,
        from: (ModelId, &[u8]),
        to: (ModelId, &[u8]),
        target: RenameTarget,
    ) -> Result<(), ExpectedError> {
        self.directory(from.0)?;
        self.directory(to.0)?;
        let id = self.named(from.0, from.1).ok_or(ExpectedError::NotFound)?;
        let there = self.named(to.0, to.1);
        match (there, target) {
            (Some(_), RenameTarget::Free) => return Err(ExpectedError::Exists),
            (None, RenameTarget::Exchange) => return Err(ExpectedError::NotFound),
            (Some(there), _) if there == id => return Ok(()),
            _ => {}
        }
        if from.0 != to.0 && self.is_above(id, to.0) {
            return Err(ExpectedError::Invalid);
        }
        self.may_rename((from.0, id), (to.0, there))?;
        let is_directory =
            |model: &FilesModel, id: ModelId| model.node(id).kind == FileKind::Directory;
        let moves = is_directory(self, id);
        if let (Some(there), RenameTarget::Exchange) = (there, target) {
            if from.0 != to.0 && self.is_above(there, from.0) {
                return Err(ExpectedError::Invalid);
            }
            self.change(from.0).names.insert(from.1.to_vec(), there);
            self.change(to.0).names.insert(to.1.to_vec(), id);
            for (moved, old, new) in [(id, from.0, to.0), (there, to.0, from.0)] {
                if is_directory(self, moved) {
                    self.change(moved).parent = new;
                    self.change(new).links += 1;
                    self.change(old).links -= 1;
                }
            }
            return Ok(());
        }
        if let Some(there) = there {
            match (moves, is_directory(self, there)) {
                (true, false) => return Err(ExpectedError::NotDirectory),
                (false, true) => return Err(ExpectedError::IsDirectory),
                (true, true) if !self.node(there).names.is_empty() => {
                    return Err(ExpectedError::NotEmpty);
                }
                _ => {}
            }
            self.change(to.0).links -= u32::from(is_directory(self, there));
        }
        self.change(from.0).names.remove(from.1);
        self.change(to.0).names.insert(to.1.to_vec(), id);
        if moves {
            self.change(id).parent = to.0;
            self.change(from.0).links -= 1;
            self.change(to.0).links += 1;
        }
        if let Some(there) = there {
            self.lose_name(there);
        }
        Ok(())
    }

    /// Returns true if `id` is a directory, and `below` is this directory or is below it.
    pub fn is_above(&self, id: ModelId, mut below: ModelId) -> bool {
        while self.node(id).kind == FileKind::Directory {
            if below == id {
                return true;
            }
            if below == TOP {
                break;
            }
            below = self.node(below).parent;
        }
        false
    }

    /// Writes data.
    ///
    /// # Errors
    /// If the file is not regular, or its flags forbid the change.
    pub fn write(
        &mut self,
        id: ModelId,
        offset: Option<u64>,
        data: &[u8],
    ) -> Result<u64, ExpectedError> {
        let node = self.regular(id)?;
        may_grow(node.flags)?;
        let offset = offset.unwrap_or(node.bytes.size);
        if !data.is_empty() {
            node.bytes.write(offset, data);
        }
        Ok(offset)
    }

    /// Writes data. Data of zeroes makes a hole instead, up to the end of the file.
    ///
    /// # Errors
    /// Those of [`FilesModel::write`].
    pub fn edit(&mut self, id: ModelId, offset: u64, data: &[u8]) -> Result<(), ExpectedError> {
        let node = self.regular(id)?;
        may_change(node.flags)?;
        let end = offset + data.len() as u64;
        if is_zero(data) {
            node.bytes.punch(offset, end);
            node.preallocated.remove(offset..end);
        } else {
            node.bytes.write(offset, data);
        }
        Ok(())
    }

    /// Exchanges the data of two files.
    ///
    /// # Errors
    /// Those of [`FilesModel::write`], for either file.
    pub fn exchange_data(&mut self, one: ModelId, other: ModelId) -> Result<(), ExpectedError> {
        self.regular(one)?;
        self.regular(other)?;
        if one != other {
            self.may_change(one)?;
            self.may_change(other)?;
        }
        let first = self.regular(one)?.bytes.clone();
        let second = std::mem::replace(&mut self.regular(other)?.bytes, first);
        if one != other {
            self.regular(one)?.bytes = second;
            self.change(one).preallocated = RangeSet::default();
            self.change(other).preallocated = RangeSet::default();
        }
        Ok(())
    }

    /// Changes the length of a file.
    ///
    /// # Errors
    /// Those of [`FilesModel::write`].
    pub fn resize(&mut self, id: ModelId, size: u64) -> Result<(), ExpectedError> {
        let node = self.regular(id)?;
        may_change(node.flags)?;
        if size <= node.bytes.size {
            node.preallocated.remove(size..u64::MAX);
        }
        node.bytes.resize(size);
        Ok(())
    }

    /// Changes the allocation of a range.
    ///
    /// # Errors
    /// Those of [`FilesModel::write`].
    pub fn fallocate(
        &mut self,
        id: ModelId,
        offset: u64,
        len: u64,
        what: Fallocate,
    ) -> Result<(), ExpectedError> {
        let node = self.regular(id)?;
        match what {
            Fallocate::Reserve { .. } => may_grow(node.flags)?,
            _ => may_change(node.flags)?,
        }
        let bytes = &mut node.bytes;
        let end = offset + len;
        let keeps = match what {
            Fallocate::Punch => true,
            Fallocate::Reserve { keep_size } | Fallocate::Zero { keep_size } => keep_size,
        };
        if !matches!(what, Fallocate::Reserve { .. }) {
            bytes.punch(offset, end);
        }
        if !keeps {
            bytes.size = bytes.size.max(end);
        }
        let preallocated = &mut self.change(id).preallocated;
        if what == Fallocate::Punch {
            preallocated.remove(offset..end);
        } else {
            preallocated.insert(offset..end);
        }
        Ok(())
    }

    /// Keeps only the preallocated ranges that are also preallocated in `other`.
    pub fn limit_preallocated(&mut self, other: &FilesModel) {
        for (id, node) in &mut self.nodes {
            if node.preallocated.is_empty() {
                continue;
            }
            let mut both = RangeSet::default();
            let there = other.nodes.get(id).map(|node| &node.preallocated);
            for range in there.into_iter().flat_map(RangeSet::iter) {
                let parts = node.preallocated.parts(range);
                for part in parts {
                    both.insert(part);
                }
            }
            Rc::make_mut(node).preallocated = both;
        }
    }

    /// Copies the preallocated ranges of a model with the same files, whose numbers may differ.
    pub fn take_preallocated(&mut self, other: &FilesModel) {
        let mut same = vec![(TOP, TOP)];
        let mut seen = BTreeSet::new();
        while let Some((id, from)) = same.pop() {
            if !seen.insert(id) {
                continue;
            }
            let (node, known) = (self.node(id), other.node(from));
            let below = node.names.iter();
            same.extend(below.filter_map(|(name, id)| Some((*id, *known.names.get(name)?))));
            if !known.preallocated.is_empty() {
                let preallocated = known.preallocated.clone();
                self.change(id).preallocated = preallocated;
            }
        }
    }

    /// Inserts a file without checks.
    pub fn put(&mut self, id: ModelId, mut node: ModelNode) {
        if let Some(known) = self.nodes.get(&id) {
            node.names.clone_from(&known.names);
        }
        self.nodes.insert(id, Rc::new(node));
        self.next = self.next.max(id + 1);
    }

    /// Inserts a name without checks.
    pub fn put_name(&mut self, directory: ModelId, name: &[u8], id: ModelId) {
        self.change(directory).names.insert(name.to_vec(), id);
    }
}

impl Default for FilesModel {
    fn default() -> FilesModel {
        FilesModel::new()
    }
}

impl ModelNode {
    fn of(kind: FileKind, permissions: u16) -> ModelNode {
        ModelNode {
            kind,
            permissions,
            user: 0,
            flags: FileFlags::default(),
            bytes: SparseBytes::default(),
            names: BTreeMap::new(),
            attributes: BTreeMap::new(),
            links: 0,
            parent: TOP,
            preallocated: RangeSet::default(),
            digest: CachedDigest::default(),
        }
    }
}
