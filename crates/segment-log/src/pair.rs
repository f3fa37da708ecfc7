//! The two copies of a superblock: finding the valid copy, and writing both.
//!
//! Both copies are written at every change, A first and B when A is durable, so one copy is whole at any moment. The
//! copies do not alternate: space that a superblock releases for reuse must be released by both copies. Otherwise the
//! loss of one copy would bring back a state whose segments have been reused.

use forebay_device::{BufMut, Device, DeviceError, Durability};

use crate::format::envelope::{FormatError, HEADER_BYTES, VolumeId};

/// The position of superblock A.
pub const SUPERBLOCK_A_AT: u64 = 0;
/// The position of superblock B, far from A, so that one scratch does not destroy both.
pub const SUPERBLOCK_B_AT: u64 = 512 << 10;
/// The positions of copy A and copy B.
pub const PLACES: [u64; 2] = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT];

/// The state of a log in one block, of which the device has two copies.
pub trait SuperblockFormat: Sized {
    /// Encodes the superblock.
    fn encode(&self) -> [u8; HEADER_BYTES];

    /// Decodes a superblock.
    ///
    /// # Errors
    /// If the bytes are not a superblock of this version, or are damaged or inconsistent.
    fn decode(bytes: &[u8]) -> Result<Self, FormatError>;

    /// Returns the volume's identity.
    fn volume(&self) -> VolumeId;

    /// Returns the generation, which grows with every superblock written.
    fn generation(&self) -> u64;
}

/// Both copies of a superblock, as they were read.
#[derive(Clone, Debug)]
pub struct SuperblockPair<S> {
    /// The copy at [`SUPERBLOCK_A_AT`].
    pub a: Result<S, FormatError>,
    /// The copy at [`SUPERBLOCK_B_AT`].
    pub b: Result<S, FormatError>,
}

/// An error if no copy of a superblock is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The device is too short for the copies.
    #[error("the device has {have} bytes; the superblocks need {need}")]
    Truncated {
        /// The device's length.
        have: u64,
        /// The shortest length for both copies.
        need: u64,
    },
    /// Neither copy can be used.
    #[error("no copy of the superblock is usable: copy A: {a}; copy B: {b}")]
    NoSuperblock {
        /// The error of copy A.
        a: FormatError,
        /// The error of copy B.
        b: FormatError,
    },
    /// One copy cannot be read, and might be newer than the other.
    #[error(
        "copy {copy} of the superblock cannot be read (a device error), and it may be newer than the \
         other; try again when the device works, or use the other copy with --accept-loss"
    )]
    Unreadable {
        /// The copy: `A` or `B`.
        copy: char,
    },
    /// The two copies are undamaged, but belong to different volumes.
    #[error("the two superblocks belong to different volumes, {a} and {b}")]
    TwoVolumes {
        /// The volume of copy A.
        a: VolumeId,
        /// The volume of copy B.
        b: VolumeId,
    },
}

impl<S: SuperblockFormat> SuperblockPair<S> {
    /// Returns the valid copy: the newer of the undamaged copies. A damaged copy was being written at a power failure,
    /// or has decayed, and is ignored. An unreadable copy might be the newer one, so it is an error.
    ///
    /// # Errors
    /// If both copies are damaged, one cannot be read, or the two contradict each other.
    pub fn newest(&self) -> Result<&S, PairError> {
        for (copy, found) in [('A', &self.a), ('B', &self.b)] {
            if matches!(found, Err(FormatError::Unreadable(_))) {
                return Err(PairError::Unreadable { copy });
            }
        }
        self.newest_readable()
    }

    /// Like [`SuperblockPair::newest`], but uses the other copy if one cannot be read.
    ///
    /// # Errors
    /// If neither copy can be used, or the two contradict each other.
    pub fn newest_readable(&self) -> Result<&S, PairError> {
        match (&self.a, &self.b) {
            (Ok(a), Ok(b)) if a.volume() != b.volume() => Err(PairError::TwoVolumes {
                a: a.volume(),
                b: b.volume(),
            }),
            (Ok(a), Ok(b)) => Ok(if a.generation() >= b.generation() {
                a
            } else {
                b
            }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(a), Err(b)) => Err(PairError::NoSuperblock { a: *a, b: *b }),
        }
    }
}

/// Reads both copies of the superblock. Errors of a copy are returned in its place.
///
/// # Errors
/// If the device is too short for a superblock.
pub async fn read_copies<S: SuperblockFormat>(
    device: &dyn Device,
) -> Result<SuperblockPair<S>, PairError> {
    let (have, need) = (device.geometry().len, SUPERBLOCK_B_AT + HEADER_BYTES as u64);
    if have < HEADER_BYTES as u64 {
        return Err(PairError::Truncated { have, need });
    }
    let copy = async |at: u64| {
        if at + HEADER_BYTES as u64 > have {
            return Err(FormatError::Magic("superblock"));
        }
        match device.read(at, BufMut::to_fill(HEADER_BYTES)).await {
            Ok(bytes) => S::decode(&bytes),
            Err(_) => Err(FormatError::Unreadable("superblock")),
        }
    };
    let (a, b) = (copy(SUPERBLOCK_A_AT).await, copy(SUPERBLOCK_B_AT).await);
    Ok(SuperblockPair { a, b })
}

/// Writes both copies of a superblock durably, A first.
///
/// # Errors
/// The device's error. Then one copy or both may still have the old content.
pub async fn write_copies<S: SuperblockFormat>(
    device: &dyn Device,
    superblock: &S,
) -> Result<(), DeviceError> {
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    for at in PLACES {
        device.write(at, bytes.clone(), Durability::Fua).await?;
    }
    Ok(())
}
