//! The structures on the device of a log-structured volume.

use std::rc::Rc;

use forebay_device::{BufMut, Device, Durability, RamDevice};
use forebay_extent_map::{DetachedRef, RootRef, StoredNode};
use forebay_rt::{Executor, VirtualTime};
use forebay_segment_log::SuperblockFormat as _;
use forebay_units::{ByteLen, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SegmentLayout, SpaceSettings, SpaceSpec, SpaceSuperblock, VolumeId,
    again, create, open,
};

use super::fair;
use super::log::{each_way, short};
use crate::cap;
use crate::seal::seal;

/// Checks that a superblock describes segments that lie on the device, and reads back as an equal superblock.
pub fn superblock(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        let Ok(read) = cap::within(fair(bytes), || SpaceSuperblock::decode(bytes)) else {
            return;
        };
        let segments = u64::from(read.segment_bytes) * u64::from(read.segment_count);
        assert!(segments < read.len);
        assert!(read.checkpoint * 512 < segments);
        assert_eq!(SpaceSuperblock::decode(&read.encode()), Ok(read));
    });
}

/// Checks that a decoded structure is encoded to bytes that decode to an equal structure.
fn twice(bytes: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    if let Some(once) = cap::within(fair(bytes), || again(bytes)) {
        let twice = again(&once);
        assert!(twice.is_some_and(|twice| twice == once));
    }
}

/// Checks a record's header; or a summary, of any number of blocks.
pub fn record(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        twice(bytes, |bytes| {
            let (again, sectors) = again::record(bytes)?;
            assert!(u32::try_from(sectors * 512).is_ok());
            Some(again)
        });
        twice(bytes, again::summary);
    });
    let mut whole = bytes.to_vec();
    seal(&mut whole);
    twice(&whole, again::summary);
}

/// Checks the parts of a checkpoint beside the nodes. Their checksums are elsewhere.
pub fn checkpoint(bytes: &[u8]) {
    twice(bytes, again::checkpoint);
    twice(bytes, again::queue);
    twice(bytes, again::index);
    for segments in [1, 40, 512] {
        twice(bytes, |bytes| again::table(bytes, segments));
    }
}

/// Checks a node of the map, and a reference to a node. An extent may take 4 bytes on the device, and 40 in memory,
/// twice while the list grows.
pub fn node(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        let most = fair(bytes) + 20 * bytes.len();
        let Ok(read) = cap::within(most, || StoredNode::decode(bytes)) else {
            return;
        };
        assert_eq!(StoredNode::decode(&read.encode()), Ok(read));
    });
    if let Some(read) = RootRef::decode(bytes) {
        assert_eq!(RootRef::decode(&read.encode()), Some(read));
    }
    if let Some(read) = DetachedRef::decode(bytes) {
        assert_eq!(DetachedRef::decode(&read.encode()), Some(read));
    }
}

const SEGMENT: u64 = 128 << 10;
const MEDIUM: u64 = (1 << 20) + 64 * SEGMENT;

/// Returns the content of a used device.
fn medium() -> Vec<u8> {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    let ram = Rc::new(RamDevice::new(MEDIUM, 512));
    let device = Rc::clone(&ram) as Rc<dyn Device>;
    let making = SpaceSpec {
        volume: VolumeId([5; 16]),
        layout: SegmentLayout::for_device(&device.geometry(), Some(ByteLen(SEGMENT)))
            .expect("fits"),
        space_sectors: 1 << 30,
        placement: PlacementKind::HyLogSepBit,
        auto: false,
        page_sectors: 16,
        disk: None,
    };
    executor.block_on(async move {
        create(rt.clone(), Rc::clone(&device), &making)
            .await
            .expect("made");
        let opened = open(rt, device, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("taken up");
        for round in 0..3 {
            for n in 0..200 {
                let mut batch = Batch::new();
                let at = Sector(n * 37 % 199 * 10_000);
                batch.write(at, BufMut::zeroed(512 * (1 + n as usize % 9)).freeze());
                if n % 7 == 0 {
                    batch.trim(Sector(at.0 + 2), 3);
                }
                let durability = match n % 20 {
                    0 => Durability::Fua,
                    _ => Durability::Flush,
                };
                space.apply(&batch, durability).await.expect("done");
            }
            if round < 2 {
                space.checkpoint().await.expect("made");
            }
        }
        space.flush().await.expect("flushed");
    });
    drop(executor);
    let mut bytes = vec![0; MEDIUM as usize];
    ram.peek(0, &mut bytes);
    bytes
}

/// Returns some of the blocks that begin with one of these magics, each with another name.
fn found(magics: &[(&[u8; 8], &[&'static str])]) -> Vec<(&'static str, Vec<u8>)> {
    let medium = medium();
    let mut seeds = Vec::new();
    for (magic, names) in magics {
        let at = (0..medium.len() - 4096).step_by(512);
        let blocks: Vec<&[u8]> = at
            .map(|at| &medium[at..at + 4096])
            .filter(|block| block.starts_with(*magic))
            .collect();
        assert!(!blocks.is_empty(), "{} is not of this version", names[0]);
        // The longest block, and some from all over the device.
        let step = (blocks.len() / names.len()).max(1);
        let longest = blocks.iter().max_by_key(|block| short(block).len());
        let chosen = longest.into_iter().chain(blocks.iter().step_by(step));
        let one = |(name, block): (&&'static str, &&[u8])| (*name, short(block));
        seeds.extend(names.iter().zip(chosen).map(one));
    }
    seeds
}

pub(super) fn superblock_seeds() -> Vec<(&'static str, Vec<u8>)> {
    found(&[(b"FOREVSL\x01", &["used"])])
}

pub(super) fn record_seeds() -> Vec<(&'static str, Vec<u8>)> {
    found(&[
        (b"FOREVRC\x02", &["longest", "first", "other", "late"]),
        (b"FOREVSU\x02", &["summary"]),
    ])
}

pub(super) fn checkpoint_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut seeds = found(&[
        (b"FOREVCP\x02", &["longest", "first"]),
        (b"FOREVCI\x02", &["index"]),
    ]);
    let runway: Vec<u8> = [3u32, 7, 8, 60]
        .iter()
        .flat_map(|n| n.to_le_bytes())
        .collect();
    seeds.push(("runway", runway));
    // A closed segment of stream 1, with nine live sectors.
    let mut segment = vec![3, 1, 9, 0, 0, 2, 0, 0, 4];
    segment.resize(32, 0);
    seeds.push(("table", segment.repeat(40)));
    seeds
}

pub(super) fn node_seeds() -> Vec<(&'static str, Vec<u8>)> {
    found(&[(b"FOREMAP\x03", &["longest", "first", "other", "late"])])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus;
    use crate::seal::block;

    /// Counts the inputs of a target's corpus that a decoder accepts, unchanged or as blocks with corrected checksums.
    fn accepted(target: &str, accepts: impl Fn(&[u8]) -> bool) -> usize {
        let inputs = corpus::load(target).expect("a corpus");
        let sound = inputs.iter().filter(|(_, bytes)| {
            let mut whole = block(bytes);
            seal(&mut whole);
            accepts(bytes) || accepts(&whole)
        });
        sound.count()
    }

    /// A decoder refuses inputs of an older version, so mutations of such inputs test nothing else.
    #[test]
    fn the_corpus_has_every_structure_in_its_current_version() {
        let superblocks = accepted("vsl_superblock", |bytes| {
            SpaceSuperblock::decode(bytes).is_ok()
        });
        let records = accepted("vsl_record", |bytes| again::record(bytes).is_some());
        let summaries = accepted("vsl_record", |bytes| again::summary(bytes).is_some());
        let checkpoints = accepted("vsl_checkpoint", |bytes| again::checkpoint(bytes).is_some());
        let indexes = accepted("vsl_checkpoint", |bytes| again::index(bytes).is_some());
        let nodes = accepted("vsl_node", |bytes| StoredNode::decode(bytes).is_ok());
        let found = [superblocks, records, summaries, checkpoints, indexes, nodes];
        assert!(found.iter().all(|count| *count > 0), "{found:?}");
    }
}
