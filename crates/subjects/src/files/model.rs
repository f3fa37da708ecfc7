//! A filesystem as it should be: maps in memory, and nothing that could go wrong.

use forebay_device::is_zero;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forebay_dfs::{Fallocate, FileFlags, Kind, Target};
use forebay_units::RangeSet;

use super::bytes::Bytes;
use super::remembered::Remembered;
pub(super) use super::wrong::Wrong;
use super::wrong::{may_change, may_grow};

/// A file's number here.
pub type Id = u64;

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// What kind.
    pub kind: Kind,
    /// Its permissions.
    pub permissions: u16,
    /// Whose it is.
    pub user: u32,
    /// Its flags.
    pub flags: FileFlags,
    /// Its data; of a symbolic link, where it leads to.
    pub bytes: Bytes,
    /// Its names, of a directory.
    pub names: BTreeMap<Vec<u8>, Id>,
    /// Extended attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many names it has; of a directory two and one for each in it.
    pub links: u32,
    /// The directory a directory is in.
    pub parent: Id,
    /// Bytes for which space is preallocated: a write there is not refused for lack of space.
    pub preallocated: RangeSet,
    /// The digest of its content, once that was asked for.
    pub(super) digest: Remembered,
}

/// A filesystem, or a part of one below a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    nodes: BTreeMap<Id, Rc<Node>>,
    next: Id,
    /// Files without a name that are still used.
    pub held: BTreeSet<Id>,
}

/// What a new file is.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// What kind.
    pub kind: Kind,
    /// Its permissions.
    pub permissions: u16,
    /// Where a symbolic link leads to.
    pub target: Vec<u8>,
    /// Extended attributes.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The number of the directory all is below.
pub const TOP: Id = 0;

impl Model {
    /// A directory with nothing in it.
    pub fn new() -> Model {
        let top = Node {
            links: 2,
            ..Node::of(Kind::Directory, 0o755)
        };
        Model {
            nodes: BTreeMap::from([(TOP, Rc::new(top))]),
            next: TOP + 1,
            held: BTreeSet::new(),
        }
    }

    /// A file; it is there.
    pub fn node(&self, id: Id) -> &Node {
        &self.nodes[&id]
    }

    pub(super) fn change(&mut self, id: Id) -> &mut Node {
        let node = Rc::make_mut(self.nodes.get_mut(&id).expect("it is there"));
        node.digest = Remembered::default();
        node
    }

    /// All files, with and without names.
    pub fn ids(&self) -> Vec<Id> {
        self.nodes.keys().copied().collect()
    }

    fn directory(&self, id: Id) -> Result<&Node, Wrong> {
        let node = self.node(id);
        match node.kind {
            Kind::Directory if node.links == 0 => Err(Wrong::NotFound),
            Kind::Directory => Ok(node),
            _ => Err(Wrong::NotDirectory),
        }
    }

    fn regular(&mut self, id: Id) -> Result<&mut Node, Wrong> {
        match self.node(id).kind {
            Kind::Regular => Ok(self.change(id)),
            Kind::Directory => Err(Wrong::IsDirectory),
            _ => Err(Wrong::Invalid),
        }
    }

    /// What a name is.
    pub fn named(&self, directory: Id, name: &[u8]) -> Option<Id> {
        self.node(directory).names.get(name).copied()
    }

    /// Makes a file.
    pub fn make(&mut self, directory: Id, name: &[u8], fresh: &Fresh) -> Result<Id, Wrong> {
        if self.directory(directory)?.names.contains_key(name) {
            return Err(Wrong::Exists);
        }
        self.may_grow(directory)?;
        let id = self.add(fresh);
        let is_directory = fresh.kind == Kind::Directory;
        let node = self.change(id);
        node.links = if is_directory { 2 } else { 1 };
        node.parent = directory;
        let parent = self.change(directory);
        parent.names.insert(name.to_vec(), id);
        parent.links += u32::from(is_directory);
        Ok(id)
    }

    /// Makes a file without a name.
    pub fn make_nameless(&mut self, fresh: &Fresh) -> Id {
        let id = self.add(fresh);
        self.held.insert(id);
        id
    }

    fn add(&mut self, fresh: &Fresh) -> Id {
        let mut node = Node::of(fresh.kind, fresh.permissions);
        node.bytes.write(0, &fresh.target);
        node.attributes = fresh.attributes.iter().cloned().collect();
        let id = self.next;
        self.next += 1;
        self.nodes.insert(id, Rc::new(node));
        id
    }

    /// Gives a file one more name.
    pub fn link(&mut self, id: Id, directory: Id, name: &[u8]) -> Result<(), Wrong> {
        if self.node(id).kind == Kind::Directory {
            return Err(Wrong::IsDirectory);
        }
        let parent = self.directory(directory)?;
        if parent.names.contains_key(name) {
            return Err(Wrong::Exists);
        }
        self.may_grow(directory)?;
        self.may_change(id)?;
        self.change(directory).names.insert(name.to_vec(), id);
        self.change(id).links += 1;
        Ok(())
    }

    /// Takes a name away.
    pub fn take_away(
        &mut self,
        directory: Id,
        name: &[u8],
        is_directory: bool,
    ) -> Result<(), Wrong> {
        self.directory(directory)?;
        let id = self.named(directory, name).ok_or(Wrong::NotFound)?;
        self.may_change(directory)?;
        self.may_change(id)?;
        let node = self.node(id);
        match (node.kind == Kind::Directory, is_directory) {
            (true, false) => return Err(Wrong::IsDirectory),
            (false, true) => return Err(Wrong::NotDirectory),
            (true, true) if !node.names.is_empty() => return Err(Wrong::NotEmpty),
            _ => {}
        }
        let parent = self.change(directory);
        parent.names.remove(name);
        parent.links -= u32::from(is_directory);
        self.lose_name(id);
        Ok(())
    }

    fn lose_name(&mut self, id: Id) {
        let node = self.change(id);
        node.links = match node.kind {
            Kind::Directory => 0,
            _ => node.links - 1,
        };
        self.forget_unused();
    }

    /// Files go that have no name and are not used.
    pub fn forget_unused(&mut self) {
        let held = &self.held;
        let stays = |id: &Id, node: &Rc<Node>| node.links > 0 || held.contains(id);
        self.nodes.retain(|id, node| stays(id, node));
    }

    /// Moves a name.
    pub fn rename(
        &mut self,
        from: (Id, &[u8]),
        to: (Id, &[u8]),
        target: Target,
    ) -> Result<(), Wrong> {
        self.directory(from.0)?;
        self.directory(to.0)?;
        let id = self.named(from.0, from.1).ok_or(Wrong::NotFound)?;
        let there = self.named(to.0, to.1);
        match (there, target) {
            (Some(_), Target::Free) => return Err(Wrong::Exists),
            (None, Target::Exchange) => return Err(Wrong::NotFound),
            (Some(there), _) if there == id => return Ok(()),
            _ => {}
        }
        if from.0 != to.0 && self.is_above(id, to.0) {
            return Err(Wrong::Invalid);
        }
        self.may_rename((from.0, id), (to.0, there))?;
        let is_directory = |model: &Model, id: Id| model.node(id).kind == Kind::Directory;
        let moves = is_directory(self, id);
        if let (Some(there), Target::Exchange) = (there, target) {
            if from.0 != to.0 && self.is_above(there, from.0) {
                return Err(Wrong::Invalid);
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
                (true, false) => return Err(Wrong::NotDirectory),
                (false, true) => return Err(Wrong::IsDirectory),
                (true, true) if !self.node(there).names.is_empty() => return Err(Wrong::NotEmpty),
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

    /// Whether a file is a directory that another is, or is somewhere below.
    pub fn is_above(&self, id: Id, mut below: Id) -> bool {
        while self.node(id).kind == Kind::Directory {
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
    pub fn write(&mut self, id: Id, offset: Option<u64>, data: &[u8]) -> Result<u64, Wrong> {
        let node = self.regular(id)?;
        may_grow(node.flags)?;
        let offset = offset.unwrap_or(node.bytes.size);
        if !data.is_empty() {
            node.bytes.write(offset, data);
        }
        Ok(offset)
    }

    /// Writes data, or, if that is all zeroes, makes a hole, as far as the file has something there.
    pub fn edit(&mut self, id: Id, offset: u64, data: &[u8]) -> Result<(), Wrong> {
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

    /// Gives two files each other's data.
    pub fn exchange_data(&mut self, one: Id, other: Id) -> Result<(), Wrong> {
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

    /// Ends a file elsewhere.
    pub fn resize(&mut self, id: Id, size: u64) -> Result<(), Wrong> {
        let node = self.regular(id)?;
        may_change(node.flags)?;
        if size <= node.bytes.size {
            node.preallocated.remove(size..u64::MAX);
        }
        node.bytes.resize(size);
        Ok(())
    }

    /// Does something to a range.
    pub fn fallocate(
        &mut self,
        id: Id,
        offset: u64,
        len: u64,
        what: Fallocate,
    ) -> Result<(), Wrong> {
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

    /// Whose a file is, and who may do what.
    pub fn set(&mut self, id: Id, permissions: u16, user: u32) -> Result<(), Wrong> {
        self.may_change(id)?;
        let node = self.change(id);
        (node.permissions, node.user) = (permissions, user);
        Ok(())
    }

    /// Sets an extended attribute, or takes it away.
    pub fn set_attribute(
        &mut self,
        id: Id,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), Wrong> {
        self.may_change(id)?;
        let attributes = &mut self.change(id).attributes;
        match value {
            Some(value) => drop(attributes.insert(name.to_vec(), value.to_vec())),
            None => drop(attributes.remove(name).ok_or(Wrong::NoAttribute)?),
        }
        Ok(())
    }

    /// Leaves preallocated what is so in another model, too.
    pub fn limit_preallocated(&mut self, other: &Model) {
        for (id, node) in &mut self.nodes {
            if node.preallocated.is_empty() {
                continue;
            }
            let mut both = RangeSet::default();
            let there = other.nodes.get(id).map(|node| &node.preallocated);
            for range in there.into_iter().flat_map(RangeSet::iter) {
                let parts = node.preallocated.parts(range);
                parts.into_iter().for_each(|part| both.insert(part));
            }
            Rc::make_mut(node).preallocated = both;
        }
    }

    /// Takes over what is preallocated in a model with the same files, which may have other numbers there.
    pub fn take_preallocated(&mut self, other: &Model) {
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

    /// Puts a file in, as it is.
    pub fn put(&mut self, id: Id, mut node: Node) {
        if let Some(known) = self.nodes.get(&id) {
            node.names.clone_from(&known.names);
        }
        self.nodes.insert(id, Rc::new(node));
        self.next = self.next.max(id + 1);
    }

    /// Puts a name in, as it is.
    pub fn put_name(&mut self, directory: Id, name: &[u8], id: Id) {
        self.change(directory).names.insert(name.to_vec(), id);
    }
}

impl Default for Model {
    fn default() -> Model {
        Model::new()
    }
}

impl Node {
    fn of(kind: Kind, permissions: u16) -> Node {
        Node {
            kind,
            permissions,
            user: 0,
            flags: FileFlags::default(),
            bytes: Bytes::default(),
            names: BTreeMap::new(),
            attributes: BTreeMap::new(),
            links: 0,
            parent: TOP,
            preallocated: RangeSet::default(),
            digest: Remembered::default(),
        }
    }
}
