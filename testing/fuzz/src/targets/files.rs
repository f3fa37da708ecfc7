//! The structures of a filesystem, each in its sector.

use forebay_dfs::{
    DirectoryEntry, FileKind, FileTime, FsGeometry, FsSuperblock, Inode, VolumeId, again,
};

use super::fair;
use super::log::{each_way, short};
use crate::cap;
use crate::seal::seal_sector;

/// Decodes `bytes` unchanged, as a sector, and as a sector with a corrected checksum.
fn as_sector(bytes: &[u8], again: impl Fn(&[u8]) -> Option<Vec<u8>>) {
    let look = |bytes: &[u8]| {
        if let Some(written) = cap::within(fair(bytes), || again(bytes)) {
            assert_eq!(written, bytes);
        }
    };
    look(bytes);
    let mut sector = bytes[..bytes.len().min(512)].to_vec();
    sector.resize(512, 0);
    look(&sector);
    seal_sector(&mut sector);
    look(&sector);
}

/// Decodes a superblock, an i-node, an entry, an orphan record and a record of preallocated ranges.
pub fn structures(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        let Ok(read) = cap::within(fair(bytes), || FsSuperblock::decode(bytes)) else {
            return;
        };
        assert!(read.geometry.is_possible());
        assert_eq!(FsSuperblock::decode(&read.encode()), Ok(read));
    });
    as_sector(bytes, |bytes| {
        Some(Inode::decode(bytes).ok()??.encode().to_vec())
    });
    as_sector(bytes, |bytes| {
        Some(DirectoryEntry::decode(bytes).ok()??.encode().to_vec())
    });
    as_sector(bytes, again::mark);
    as_sector(bytes, again::preallocation);
}

/// Decodes extended attributes of the input's length.
pub fn attributes(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    seal_sector(&mut sealed);
    for bytes in [bytes, &sealed] {
        let again = |bytes: &[u8]| again::extended_attributes(7, bytes);
        if let Some(written) = cap::within(fair(bytes), || again(bytes)) {
            assert_eq!(written, bytes);
        }
    }
}

pub(super) fn structures_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let now = FileTime {
        seconds: 1_700_000_000,
        nanos: 5,
    };
    let superblock = FsSuperblock {
        volume: VolumeId([3; 16]),
        mounts: 9,
        hash_key: [4; 16],
        geometry: FsGeometry::default(),
    };
    let inode = |kind| Inode {
        generation: 1 << 40,
        links: 2,
        ..Inode::new(7, kind, 0o644, now)
    };
    let small = Inode {
        size: 20,
        inline: vec![9; 20],
        ..inode(FileKind::Regular)
    };
    let directory = Inode {
        base: 1 << 40,
        parent: 1,
        ..inode(FileKind::Directory)
    };
    let entry = DirectoryEntry {
        file: 7,
        generation: 1 << 40,
        kind: FileKind::Regular,
        name: b"a name".to_vec(),
    };
    let mut mark = b"FBOR\0\0\0\0\x07".to_vec();
    mark.resize(512, 0);
    seal_sector(&mut mark);
    let mut preallocation = b"FBPA\0\0\0\0\x07".to_vec();
    preallocation.resize(512, 0);
    for (at, value) in [(24, 2), (32, 3), (40, 5), (48, 9), (56, 1)] {
        preallocation[at] = value;
    }
    seal_sector(&mut preallocation);
    vec![
        ("preallocation", short(&preallocation)),
        ("superblock", short(&superblock.encode())),
        ("small", short(&small.encode())),
        ("directory", short(&directory.encode())),
        ("entry", short(&entry.encode())),
        ("mark", short(&mark)),
    ]
}

pub(super) fn attributes_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut bytes = b"FBXA\0\0\0\0\x07\0\0\0\0\0\0\0".to_vec();
    let none = bytes.clone();
    for (name, value) in [(&b"user.a"[..], &[5; 40][..]), (b"system.b", b"")] {
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(value);
    }
    let mut both = vec![("none", none), ("two", bytes)];
    for (_, bytes) in &mut both {
        seal_sector(bytes);
    }
    both
}
