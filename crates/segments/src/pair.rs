//! The two copies of a superblock: finding the one that counts, and keeping both.
//!
//! Both copies are written at every change, A first and B when A is durable, so that at any moment
//! one of them is whole. And both, not in turns: what a superblock lets be overwritten must be let so by
//! either one, or the loss of one copy would bring back a state whose segments have been reused.

use forebay_device::{BufMut, Device, DeviceError, Durability};

use crate::format::envelope::{FormatError, HEADER_BYTES, VolumeId};

/// Where superblock A lies.
pub const SUPERBLOCK_A_AT: u64 = 0;
/// Where superblock B lies: far from A, so that one scratch does not take both.
pub const SUPERBLOCK_B_AT: u64 = 512 << 10;
/// Where copy A lies, and copy B.
pub const PLACES: [u64; 2] = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT];

/// What a log says of itself in one block, of which there are two copies.
pub trait Superblock: Sized {
    /// Its bytes.
    fn encode(&self) -> [u8; HEADER_BYTES];

    /// The superblock in `bytes`.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself.
    fn decode(bytes: &[u8]) -> Result<Self, FormatError>;

    /// Whose log this is.
    fn volume(&self) -> VolumeId;

    /// Grows with every superblock written.
    fn generation(&self) -> u64;
}

/// Both copies of a superblock, as found.
#[derive(Clone, Debug)]
pub struct Copies<S> {
    /// What lies at [`SUPERBLOCK_A_AT`].
    pub a: Result<S, FormatError>,
    /// What lies at [`SUPERBLOCK_B_AT`].
    pub b: Result<S, FormatError>,
}

/// Why no copy of a superblock counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairError {
    /// The device is too short for them.
    #[error("the device has {have} bytes; the superblocks need {need}")]
    Truncated {
        /// The device's length.
        have: u64,
        /// The least that holds both copies.
        need: u64,
    },
    /// Neither copy can be used.
    #[error("there is no usable superblock: copy A: {a}; copy B: {b}")]
    NoSuperblock {
        /// What is wrong with A.
        a: FormatError,
        /// What is wrong with B.
        b: FormatError,
    },
    /// One copy cannot be read, and it may be the newer.
    #[error(
        "copy {copy} of the superblock cannot be read (a device error), and it may be newer than the \
         other; try again when the device works, or go on with the other copy by --accept-loss"
    )]
    Unreadable {
        /// Which: `A` or `B`.
        copy: char,
    },
    /// The two copies are of different volumes, both of them sound.
    #[error("the two superblocks belong to different volumes, {a} and {b}")]
    TwoVolumes {
        /// The volume of copy A.
        a: VolumeId,
        /// The volume of copy B.
        b: VolumeId,
    },
}

impl<S: Superblock> Copies<S> {
    /// The copy that counts: the newer of the sound ones. A copy that cannot be read may be the newer;
    /// one that is damaged was being written when the power went, or has rotted, and does not count.
    ///
    /// # Errors
    /// If there is none, one cannot be read, or the two contradict each other.
    pub fn newest(&self) -> Result<&S, PairError> {
        for (copy, found) in [('A', &self.a), ('B', &self.b)] {
            if matches!(found, Err(FormatError::Unreadable(_))) {
                return Err(PairError::Unreadable { copy });
            }
        }
        self.newest_readable()
    }

    /// As [`Copies::newest`], but takes the other copy where one cannot be read.
    ///
    /// # Errors
    /// If there is none, or the two contradict each other.
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

/// Reads both copies of the superblock.
///
/// # Errors
/// If the device is too short to hold them. What is wrong with a copy stands in its place.
pub async fn read_copies<S: Superblock>(device: &dyn Device) -> Result<Copies<S>, PairError> {
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
    Ok(Copies { a, b })
}

/// Writes both copies of a superblock, durably, A first.
///
/// # Errors
/// The device's: then one copy or both may say what they said.
pub async fn write_copies<S: Superblock>(
    device: &dyn Device,
    superblock: &S,
) -> Result<(), DeviceError> {
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    for at in PLACES {
        device.write(at, bytes.clone(), Durability::Fua).await?;
    }
    Ok(())
}
