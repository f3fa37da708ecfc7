//! Check that a log and a data device belong together, and the length of their volume.
//!
//! A volume is as long as its data device. A device that grew is the same device, whether its log is empty or not: no
//! record concerns sectors behind the recorded length, and nothing else of them was stored. So an attach takes the new
//! length. It must: with an empty log the data device alone is the volume, and its filesystem may have grown already. A
//! device that shrank is rejected.

use forebay_device::Device;
use forebay_units::{ByteLen, LINE_BYTES, round_down};

use crate::error::DcdAttachError;
use crate::format::{DataIdentity, SuperblockPayload};
use crate::table::LINES_MAX;

/// Maximum length of a volume, in bytes: 4 PiB.
pub(crate) const LEN_MAX: u64 = LINES_MAX * LINE_BYTES;

/// A data device that belongs to the log.
pub(crate) struct PairedDevice {
    /// Length of the volume on the device as it is now, in bytes: the recorded length or more.
    pub(crate) len: u64,
    /// Notes for the administrator.
    pub(crate) notes: Vec<String>,
}

/// Returns the length of a volume on a data device of `have` bytes, which may have grown. The length is a multiple of
/// the volume's block size, up to the longest volume.
pub(crate) fn len_on(have: u64, payload: &SuperblockPayload) -> u64 {
    let len = round_down(have.min(LEN_MAX), payload.block_size.into());
    len.max(payload.data.len)
}

/// Decides whether `data` is the device that the log belongs to, in the state that the log recorded. The device may
/// have grown.
///
/// # Errors
/// If the device is another one or was changed, or if it fails.
pub(crate) async fn judge(
    payload: &SuperblockPayload,
    clean: bool,
    data: &dyn Device,
    identity: &DataIdentity,
    accept_changed: bool,
) -> Result<PairedDevice, DcdAttachError> {
    let geometry = data.geometry();
    let (have, want) = (geometry.len, payload.data.len);
    if have < want {
        return Err(DcdAttachError::Shrunk {
            have: ByteLen(have),
            want: ByteLen(want),
            path: payload.data.path.clone(),
            clean,
        });
    }
    // A smaller block size is sufficient: the volume keeps its own block size.
    if !payload.block_size.is_multiple_of(geometry.block_size) {
        let (have, want) = (geometry.block_size, payload.block_size);
        return Err(DcdAttachError::OtherBlockSize { have, want });
    }
    let mut notes = Vec::new();
    let known = &payload.data.names;
    let mismatch = payload.fingerprint.mismatch(data, want).await?;
    if !known.is_empty() && !identity.shares_name(&payload.data) {
        // An equal length was evidence. Without it and without a matching name, equal ends do not suffice, since two
        // blank devices have equal ends. With an empty log they suffice, since attaching writes nothing to the device.
        let is_other = have > want && (!clean || mismatch.is_some());
        if is_other && !accept_changed {
            return Err(DcdAttachError::LongerAndOther {
                have: ByteLen(have),
                want: ByteLen(want),
                path: payload.data.path.clone(),
                names: known.clone(),
            });
        }
        notes.push(format!(
            "the data device was known as {} before",
            known.join(", ")
        ));
    }
    if let Some(at) = mismatch {
        if clean {
            notes
                .push("the data device was used without its cache, and the cache was empty".into());
        } else if accept_changed {
            notes.push(format!(
                "the data device differs at byte {at}; its present content is accepted, as requested"
            ));
        } else {
            return Err(DcdAttachError::Changed { at });
        }
    }
    let len = len_on(have, payload);
    Ok(PairedDevice { len, notes })
}

/// Returns notes for the administrator on a volume that had `before` bytes and has `len` bytes now, on a data device of
/// `have` bytes.
pub(crate) fn grown(before: u64, len: u64, have: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if len > before {
        notes.push(format!(
            "the data device grew, and the volume with it: {} instead of {}",
            ByteLen(len),
            ByteLen(before)
        ));
    }
    notes.extend(unused(len, have));
    notes
}

/// Returns a note on bytes of a data device that no volume can use. Less than a block is not worth a note.
fn unused(len: u64, have: u64) -> Option<String> {
    let bytes = have - len;
    (bytes >= LINE_BYTES).then(|| {
        format!(
            "{} at the end of the data device are unused: a cached volume has {} at most",
            ByteLen(bytes),
            ByteLen(LEN_MAX)
        )
    })
}
