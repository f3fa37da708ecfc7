//! How changed nodes get to the medium.
//!
//! A *freeze* takes what the tree is at that moment. Which places a checkpoint supersedes is settled then,
//! too: those of the copies that the checkpoint before can reach and this one cannot. These are the old
//! copies of the nodes that this one writes, and those of nodes that left the tree between the two
//! freezes. What happens to the tree while a checkpoint is being written belongs to the next one, even if a
//! node leaves the tree before its copy is complete: that copy is live until the next root counts. So
//! after each checkpoint the live nodes are exactly those that its root reaches, and the roots of what is
//! detached, as a recovery finds them.

use super::nodes::{Body, Inner, Node, NodeId, Slot};
use super::{Map, Root};
use crate::format::{Child, Content, DetachedRef, NODE_BYTES, Node as Block, RootRef, VolumeId};
use crate::map::Need;
use crate::place::Place;

/// A node that a checkpoint writes.
struct Frozen {
    body: Body,
    level: u8,
    /// Where its older copy lies, if the checkpoint before has one.
    home: Option<Place>,
    /// Which of its children are in the snapshot, and where in it.
    children: Vec<(u16, u32)>,
    crc: Option<u32>,
    place: Option<Place>,
}

/// The nodes that a checkpoint has to write, children before their parents, as they were at the freeze.
///
/// For each in turn: [`Snapshot::encode`], write the bytes somewhere, [`Snapshot::placed`]. When all are
/// durable, the root that [`Map::complete`] returns may be written.
#[must_use = "a map can be frozen once at a time: complete or abandon it"]
pub struct Snapshot {
    volume: VolumeId,
    nodes: Vec<Frozen>,
    /// Places of nodes that left the tree before the freeze.
    dropped: Vec<Place>,
    /// The root if there is one, and where in `nodes` it is unless it is as it is on the medium.
    root: Option<RootRef>,
    root_at: Option<u32>,
    /// What is detached, in the same way.
    detached: Vec<(DetachedRef, Option<u32>)>,
}

/// A checkpoint that was written, to be made to count.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Completed {
    /// The root of the map at the freeze; nothing if nothing was mapped.
    pub root: Option<RootRef>,
    /// What was detached then. There is none without a root.
    pub detached: Vec<DetachedRef>,
    /// The places of the nodes that the roots of the checkpoint before reach and these roots do not.
    pub superseded: Vec<Place>,
}

impl Snapshot {
    /// How many nodes there are to write.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is nothing to write. A new root may have to be written all the same.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// By what a node is known in the tree: its level and a sector that it covers, for
    /// [`Map::redirty`].
    pub fn name(&self, node: usize) -> (u8, u64) {
        let node = &self.nodes[node];
        (node.level, node.body.key())
    }

    /// The bytes of a node.
    ///
    /// # Panics
    /// If one of its children, which come before it, was not encoded and placed.
    pub fn encode(&mut self, node: usize) -> [u8; NODE_BYTES] {
        let frozen = &self.nodes[node];
        let content = match &frozen.body {
            Body::Inner(inner) => Content::Inner(self.children(frozen, inner)),
            Body::Leaf(leaf) => Content::Leaf(leaf.extents().collect()),
            Body::Free(_) => unreachable!("a free place is no node"),
        };
        let block = Block {
            volume: self.volume,
            level: frozen.level,
            base: frozen.body.key(),
            content,
        };
        let bytes = block.encode();
        self.nodes[node].crc = Block::crc(&bytes);
        bytes
    }

    fn children(&self, frozen: &Frozen, inner: &Inner) -> Vec<Child> {
        let mut written = frozen.children.iter().peekable();
        let slots = inner.slots.iter().enumerate();
        let homes =
            slots.map(
                |(at, slot)| match written.next_if(|(child, _)| usize::from(*child) == at) {
                    Some(&(_, child)) => self.nodes[child as usize].written(),
                    None => slot.home().expect("what is not changed is on the medium"),
                },
            );
        let keys = inner.keys.iter().zip(homes);
        keys.map(|(&first, (place, crc))| Child { first, place, crc })
            .collect()
    }

    /// The places that this checkpoint supersedes: those of nodes that the roots of the checkpoint before reach
    /// and these do not. Known from the freeze on.
    pub fn superseded(&self) -> impl Iterator<Item = Place> {
        let homes = self.nodes.iter().filter_map(|node| node.home);
        self.dropped.iter().copied().chain(homes)
    }

    /// The root of the map at the freeze; nothing if nothing was mapped.
    ///
    /// # Panics
    /// If it is among the nodes to be written, and was not encoded and placed.
    pub fn root(&self) -> Option<RootRef> {
        let mut root = self.root?;
        if let Some(at) = self.root_at {
            (root.place, root.crc) = self.nodes[at as usize].written();
        }
        Some(root)
    }

    /// What was detached then.
    ///
    /// # Panics
    /// As [`Snapshot::root`].
    pub fn detached(&self) -> Vec<DetachedRef> {
        let written = |(cut, at): &(DetachedRef, Option<u32>)| {
            let mut cut = *cut;
            if let Some(at) = at {
                (cut.place, cut.crc) = self.nodes[*at as usize].written();
            }
            cut
        };
        self.detached.iter().map(written).collect()
    }

    /// Where a node was written, or is being written, [`NODE_BYTES`] long.
    pub fn placed(&mut self, node: usize, place: Place) {
        self.nodes[node].place = Some(place);
    }
}

impl Frozen {
    fn written(&self) -> (Place, u32) {
        let both = self.place.zip(self.crc);
        both.expect("a node is encoded and placed before its parent and the end")
    }
}

impl Map {
    /// The map as it is now, to be written by a checkpoint, while the map goes on being changed.
    ///
    /// # Panics
    /// If there is a snapshot already that was neither completed nor abandoned.
    pub fn freeze(&mut self) -> Snapshot {
        assert!(!self.frozen, "one checkpoint at a time");
        self.frozen = true;
        self.drop_hollow();
        match self.detached.is_empty() {
            // It was there for the counts.
            true => self.settle_root(),
            // The counts stand with the root, so there has to be one.
            false if self.root.is_none() => self.plant(),
            false => {}
        }
        let mut snapshot = Snapshot {
            volume: self.volume,
            nodes: Vec::with_capacity(self.changed),
            dropped: std::mem::take(&mut self.dropped),
            root: None,
            root_at: None,
            detached: Vec::new(),
        };
        for at in 0..self.detached.len() {
            let Root { slot, level } = self.detached[at];
            let (place, crc) = slot.home().unwrap_or((Place(0), 0));
            let held = self.hold(slot, &mut snapshot.nodes);
            let cut = DetachedRef { place, level, crc };
            snapshot.detached.push((cut, held));
        }
        if let Some(Root { slot, level }) = self.root {
            let (place, crc) = slot.home().unwrap_or((Place(0), 0));
            snapshot.root = Some(RootRef {
                place,
                crc,
                level,
                sectors: self.totals.sectors,
                entries: self.totals.entries,
                nodes: self.totals.nodes,
            });
            snapshot.root_at = self.hold(slot, &mut snapshot.nodes);
        }
        self.epoch += 1;
        self.changed = 0;
        snapshot
    }

    /// Takes the changed nodes from this one down into a snapshot. Says where this one is in it.
    fn hold(&mut self, slot: Slot, nodes: &mut Vec<Frozen>) -> Option<u32> {
        let id = slot.id()?;
        let node = self.nodes.get(id);
        if node.epoch == 0 {
            return None;
        }
        let (body, level) = (node.body.clone(), node.level);
        let mut children = Vec::new();
        if let Body::Inner(inner) = &body {
            for (at, slot) in inner.slots.iter().enumerate() {
                let held = self.hold(*slot, nodes);
                children.extend(held.map(|held| (at as u16, held)));
            }
        }
        let held = nodes.len() as u32;
        nodes.push(Frozen {
            body,
            level,
            home: slot.home().map(|(place, _)| place),
            children,
            crc: None,
            place: None,
        });
        self.nodes.set_held(id, held);
        Some(held)
    }

    /// The checkpoint is on the medium: nodes that have not changed since the freeze are as they are there.
    ///
    /// # Panics
    /// If a node was not encoded and placed.
    pub fn complete(&mut self, snapshot: Snapshot) -> Completed {
        let mut superseded = snapshot.dropped;
        superseded.extend(snapshot.nodes.iter().filter_map(|node| node.home));
        let written: Vec<(Place, u32)> = snapshot.nodes.iter().map(Frozen::written).collect();
        // Before nodes are edited: what is shared would be copied.
        drop(snapshot.nodes);
        let mut root = snapshot.root;
        if let (Some(root), Some(at)) = (&mut root, snapshot.root_at) {
            (root.place, root.crc) = written[at as usize];
        }
        let detached = snapshot.detached.into_iter().map(|(mut cut, at)| {
            (cut.place, cut.crc) = at.map_or((cut.place, cut.crc), |at| written[at as usize]);
            cut
        });
        let detached = detached.collect();
        let orphans = self.orphans.drain(..);
        self.dropped
            .extend(orphans.map(|held| written[held as usize].0));
        self.let_go(&mut |map, id, held| {
            if map.nodes.get(id).epoch != map.epoch {
                map.nodes.set_epoch(id, 0);
            }
            Some(written[held as usize])
        });
        Completed {
            root,
            detached,
            superseded,
        }
    }

    /// The checkpoint failed: its nodes are to be written by the next one.
    pub fn abandon(&mut self, snapshot: Snapshot) {
        let orphans = self.orphans.drain(..);
        let homes = orphans.filter_map(|held| snapshot.nodes[held as usize].home);
        self.dropped.extend(homes);
        self.dropped.extend(snapshot.dropped);
        drop(snapshot.nodes);
        self.let_go(&mut |map, id, _| {
            map.mark_node(id);
            None
        });
    }

    /// Ends the snapshot: asks `of` for each of its nodes that the tree still has, by its place in it,
    /// where it was written.
    fn let_go(&mut self, of: &mut impl FnMut(&mut Map, NodeId, u32) -> Option<(Place, u32)>) {
        self.frozen = false;
        self.nodes.snapshot_gone();
        if let Some(Root { mut slot, level }) = self.root {
            self.let_go_at(&mut slot, of);
            self.root = Some(Root { slot, level });
        }
        for at in 0..self.detached.len() {
            let mut slot = self.detached[at].slot;
            self.let_go_at(&mut slot, of);
            self.detached[at].slot = slot;
        }
    }

    fn let_go_at(
        &mut self,
        slot: &mut Slot,
        of: &mut impl FnMut(&mut Map, NodeId, u32) -> Option<(Place, u32)>,
    ) {
        let written = slot.id().and_then(|id| self.let_go_below(id, of));
        if let Some((place, crc)) = written {
            slot.written(place, crc);
        }
    }

    /// As [`Map::let_go`], from this node down; nodes of a snapshot have only changed ones above them.
    fn let_go_below(
        &mut self,
        id: NodeId,
        of: &mut impl FnMut(&mut Map, NodeId, u32) -> Option<(Place, u32)>,
    ) -> Option<(Place, u32)> {
        let node = self.nodes.get(id);
        let held = node.held;
        if node.epoch == 0 {
            return None;
        }
        if node.level > 0 {
            let children: Vec<(usize, NodeId)> = self.nodes.inner(id).loaded().collect();
            let mut written = Vec::new();
            for (at, child) in children {
                let home = self.let_go_below(child, of);
                written.extend(home.map(|home| (at, home)));
            }
            self.nodes.edit_inner(id, |inner| {
                for (at, (place, crc)) in written {
                    inner.slots[at].written(place, crc);
                }
            });
        }
        if held == Node::NOT_HELD {
            return None;
        }
        self.nodes.set_held(id, Node::NOT_HELD);
        of(self, id, held)
    }

    /// If the tree's node of this level that covers `key` lies at this place, the next checkpoint writes
    /// it elsewhere: so a segment of nodes can be emptied. Says whether it lies there; if a checkpoint is
    /// writing it elsewhere already, that is left to it. What is detached is not looked at: its nodes stay where
    /// they are until they are reaped, so whether a segment is free is told by counts alone.
    ///
    /// # Errors
    /// [`Need`] if a node is not in memory; nothing is changed.
    pub fn redirty(&mut self, level: u8, key: u64, place: Place) -> Result<bool, Need> {
        let hook = self.hook(key, level)?;
        let home = hook.and_then(|hook| hook.slot.home());
        if home.is_none_or(|(home, _)| home != place) {
            return Ok(false);
        }
        if let Some(path) = self.find(key, level)?
            && self.nodes.get(path.leaf()).epoch == 0
        {
            self.mark(&path);
        }
        Ok(true)
    }
}
