//! Answers that `sleds` receives from Forebay, or from a program in its place.

use std::ops::Range;

use ::sleds::answers::{MEDIUM_BYTES, PLACES_BYTES, of_filesystem, of_medium, of_volume};

use super::fair;
use crate::cap;

/// Length of the queried file.
const END: u64 = 1 << 40;

/// Decodes answers to the ioctls of a mounted filesystem: of the kernel's length, with any content.
pub fn ioctls(bytes: &[u8]) {
    let mut places = [0; PLACES_BYTES];
    let mut medium = [0; MEDIUM_BYTES];
    for all in [&mut places[..], &mut medium[..]] {
        let given = bytes.len().min(all.len());
        all[..given].copy_from_slice(&bytes[..given]);
    }
    let room = fair(&places);
    for from in [0, 4096] {
        let parts = cap::within(room, || of_filesystem(&places, from..END));
        follow_each_other(&parts, from);
    }
    assert!(cap::within(room, || of_medium(&medium)) < MEDIUM_BYTES);
}

/// Decodes an answer on a volume's control socket.
pub fn reply(bytes: &[u8]) {
    for (at, length) in [(0, END), (1 << 20, 1 << 20), (END, 1)] {
        let parts = of_volume(bytes, at, length);
        follow_each_other(&parts, 0);
        assert_eq!(parts.last().map(|last| last.end), Some(length));
    }
}

fn follow_each_other(parts: &[Range<u64>], from: u64) {
    let mut at = from;
    for part in parts {
        assert!(
            part.start == at && part.end > at && part.end <= END,
            "{part:?}"
        );
        at = part.end;
    }
}

pub(super) fn ioctls_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let mut told = Vec::new();
    for (field, bytes) in [(0, 8), (END, 8), (3, 4), (0, 4), (0, 8)] {
        told.extend(&u64::to_ne_bytes(field)[..bytes]);
    }
    for (start, end, at, place) in [(0, 4096, 0, 2), (4096, 9000, 12345, 3), (9000, END, 0, 1)] {
        for field in [start, end, at, place] {
            told.extend(u64::to_ne_bytes(field));
        }
    }
    let mut on = Vec::new();
    for field in [2_u32, 8, 17, 0] {
        on.extend(field.to_ne_bytes());
    }
    on.extend([99_u64, 4096].map(u64::to_ne_bytes).concat());
    on.extend(b"/srv/disk.img");
    vec![("places", told), ("medium", on)]
}

pub(super) fn reply_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let told = r#"{"reply":"places","device":"/dev/loop1","start":0,"end":2097152,"parts":[{"start":0,"end":4096,"place":"home"},{"start":4096,"end":9216,"place":"log"},{"start":9216,"end":2097152,"place":"nowhere"}],"home":{"path":"/dev/sdb","major":8,"minor":16,"start":0},"log":null}"#;
    let little = r#"{"reply":"places","end":1,"parts":[]}"#;
    vec![
        ("told", told.into()),
        ("little", little.into()),
        (
            "refused",
            br#"{"reply":"failed","code":1,"message":""}"#.into(),
        ),
    ]
}
