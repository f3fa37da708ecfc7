//! Rings of nodes: circular lists in which a node is linked and unlinked in constant time.

use super::{NodeIndex, NodeTable};

/// A ring. The links are in the nodes, so a node is in at most one ring.
#[derive(Clone, Copy)]
pub(in crate::map) struct NodeRing {
    /// The first node; [`NodeIndex::NONE`] if the ring is empty.
    head: NodeIndex,
    len: usize,
}

impl Default for NodeRing {
    fn default() -> NodeRing {
        NodeRing {
            head: NodeIndex::NONE,
            len: 0,
        }
    }
}

impl NodeRing {
    pub(in crate::map) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first node.
    pub(in crate::map) fn head(&self) -> Option<NodeIndex> {
        (self.len > 0).then_some(self.head)
    }

    /// Links a node at the end.
    pub(in crate::map) fn link(mut self, nodes: &mut NodeTable, id: NodeIndex) -> NodeRing {
        if self.len == 0 {
            (nodes.get_mut(id).next, nodes.get_mut(id).previous) = (id, id);
            self.head = id;
        } else {
            let last = nodes.get(self.head).previous;
            join(nodes, last, id);
            join(nodes, id, self.head);
        }
        self.len += 1;
        self
    }

    pub(in crate::map) fn unlink(mut self, nodes: &mut NodeTable, id: NodeIndex) -> NodeRing {
        let (previous, next) = (nodes.get(id).previous, nodes.get(id).next);
        self.len -= 1;
        if self.len == 0 {
            return NodeRing::default();
        }
        join(nodes, previous, next);
        if self.head == id {
            self.head = next;
        }
        self
    }

    /// Appends all nodes of `other` to this ring.
    pub(in crate::map) fn append(mut self, nodes: &mut NodeTable, other: NodeRing) -> NodeRing {
        if self.len == 0 || other.len == 0 {
            return if self.len == 0 { other } else { self };
        }
        let (last, other_last) = (
            nodes.get(self.head).previous,
            nodes.get(other.head).previous,
        );
        join(nodes, last, other.head);
        join(nodes, other_last, self.head);
        self.len += other.len;
        self
    }

    /// Returns the first node, and moves it to the end.
    pub(in crate::map) fn turn(&mut self, nodes: &NodeTable) -> Option<NodeIndex> {
        let id = self.head()?;
        self.head = nodes.get(id).next;
        Some(id)
    }
}

fn join(nodes: &mut NodeTable, before: NodeIndex, behind: NodeIndex) {
    nodes.get_mut(before).next = behind;
    nodes.get_mut(behind).previous = before;
}
