//! Requests of programs to files on a mounted filesystem.

use forebay_atomic::FileChange;
use forebay_atomic::ioctls::{decode_parts, encode_parts};

use crate::cap;

/// Decodes the argument that lists changes of a file.
pub fn parts(bytes: &[u8]) {
    let decoded = cap::within(4 * bytes.len(), || decode_parts(bytes));
    if let Some((id, parts)) = decoded {
        assert_eq!(encode_parts(id, &parts), bytes);
        for part in parts {
            let end = match part {
                FileChange::Write(offset, data) => offset.checked_add(data.len() as u64),
                FileChange::Punch(range) => Some(range.end),
            };
            assert!(end.is_some_and(|end| i64::try_from(end).is_ok()));
        }
    }
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let both = [
        FileChange::Write(7, b"data"),
        FileChange::Punch(4096..9000),
        FileChange::Write(1 << 40, b"more"),
    ];
    vec![
        ("both", encode_parts(9, &both)),
        ("one", encode_parts(0, &both[..1])),
        ("none", encode_parts(1, &[])),
    ]
}
