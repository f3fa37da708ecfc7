//! What a device is to be, and what to do about one that is there.

use forebay_device::Geometry;

use crate::Unfit;
use crate::format::{ANY_DEVICE, DeviceInfo, Params, SECTOR_BYTES, State, feature};

/// What every device of ours has to be able to do.
const NEEDED: u64 = feature::CMD_IOCTL_ENCODE | feature::USER_COPY;
/// And what it takes to outlive its server.
const OUTLIVES: u64 = feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
/// Discards and ranges to be zeroed come in pieces of so many bytes, so that they do not keep writes
/// waiting for long.
const RANGE_BYTES_MAX: u64 = 64 << 20;

/// Whether a driver with these features can do all that is needed.
pub fn is_sufficient(features: u64) -> bool {
    features & (NEEDED | OUTLIVES) == NEEDED | OUTLIVES
}

/// What a device is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// Which volume it is.
    pub volume: u64,
    /// It outlives its server.
    pub recoverable: bool,
    /// How many requests the kernel may have under way.
    pub depth: u16,
    /// The largest read or write that is served, in bytes: a multiple of the page size.
    pub io_bytes_max: u32,
    /// What the device behind it is like.
    pub geometry: Geometry,
}

impl Wish {
    /// As it is asked of the driver.
    pub fn info(&self) -> DeviceInfo {
        DeviceInfo {
            queues: 1,
            depth: self.depth,
            state: State::Dead,
            io_bytes_max: self.io_bytes_max,
            id: ANY_DEVICE,
            server_pid: 0,
            flags: NEEDED | if self.recoverable { OUTLIVES } else { 0 },
            volume: self.volume,
        }
    }

    /// What the block device is to be like.
    pub fn params(&self) -> Params {
        let geometry = &self.geometry;
        let range_sectors = (RANGE_BYTES_MAX / SECTOR_BYTES) as u32;
        let physical = geometry.physical_block_size;
        Params {
            volatile: geometry.volatile,
            logical_shift: shift(geometry.block_size),
            physical_shift: shift(physical),
            optimal_shift: shift(geometry.preferred_io.max(physical)),
            sectors_max: (u64::from(self.io_bytes_max) / SECTOR_BYTES) as u32,
            sectors: geometry.len / SECTOR_BYTES,
            // The driver wants a unit also where there are no discards.
            discard_granularity: geometry.discard_granularity.max(geometry.block_size),
            discard_sectors_max: match geometry.discard_granularity {
                0 => 0,
                _ => range_sectors,
            },
            zero_sectors_max: range_sectors,
        }
    }

    /// Whether this can be behind a device that another server left, and to which its users have got
    /// used as it is.
    ///
    /// # Errors
    /// What does not fit.
    pub fn accepts(&self, left: &DeviceInfo, as_made: &Params) -> Result<(), Unfit> {
        let all = NEEDED | OUTLIVES;
        let foreign = left.flags & all != all || left.queues != 1;
        if foreign || left.io_bytes_max > self.io_bytes_max {
            return Err(Unfit::Foreign);
        }
        if !self.recoverable {
            return Err(Unfit::Loses);
        }
        self.fits(as_made)
    }

    fn fits(&self, as_made: &Params) -> Result<(), Unfit> {
        let now = self.params();
        // A volume that grew serves a device of its old length, which may get the new one later.
        if as_made.sectors > now.sectors {
            let bytes = |params: &Params| params.sectors.saturating_mul(SECTOR_BYTES);
            let (was, is) = (bytes(as_made), bytes(&now));
            return Err(Unfit::Length { was, is });
        }
        if as_made.logical_shift != now.logical_shift {
            let size = |params: &Params| 1 << params.logical_shift.min(63);
            let (was, is) = (size(as_made), size(&now));
            return Err(Unfit::Blocks { was, is });
        }
        if as_made.sectors_max > now.sectors_max {
            let sectors = as_made.sectors_max;
            return Err(Unfit::Requests { sectors });
        }
        if now.volatile && !as_made.volatile {
            return Err(Unfit::NoFlushes);
        }
        Ok(())
    }
}

/// The power of two that is nearest below.
fn shift(bytes: u32) -> u8 {
    bytes.max(1).ilog2() as u8
}

/// What to do about a device of the volume that is there before there is a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It has no block device any more, or had none yet.
    Remove,
    /// Its server is dying, or alive.
    Wait,
    /// It waits for a server.
    TakeUp,
}

/// What to do about a device that stands like this. The server's number tells nothing: some kernels
/// keep it, others forget it.
pub fn verdict(state: State) -> Verdict {
    match state {
        State::Dead => Verdict::Remove,
        State::Quiesced | State::Failing => Verdict::TakeUp,
        // Nothing is done about what is not understood.
        State::Live | State::Unknown(_) => Verdict::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: Wish = Wish {
        volume: 7,
        recoverable: true,
        depth: 128,
        io_bytes_max: 1 << 20,
        geometry: Geometry {
            len: 1 << 30,
            block_size: 512,
            physical_block_size: 4096,
            preferred_io: 65_536,
            volatile: true,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        },
    };

    fn like(change: impl FnOnce(&mut Geometry)) -> Wish {
        let mut wish = WISH;
        change(&mut wish.geometry);
        wish
    }

    #[test]
    fn a_driver_that_cannot_do_all_that_is_needed_is_told_apart() {
        // What Linux 6.12 and 7.3 say.
        assert!(is_sufficient(0x1fe) && is_sufficient(0x1f_ffff));
        // Before data could be copied.
        assert!(!is_sufficient(0x7e));
    }

    #[test]
    fn a_device_outlives_its_server_only_if_that_is_wished() {
        assert_eq!(WISH.info().flags, 0b1101_1000);
        let ends = Wish {
            recoverable: false,
            ..WISH
        };
        assert_eq!(ends.info().flags, 0b1100_0000);
    }

    #[test]
    fn a_block_device_has_the_blocks_and_limits_of_what_is_behind_it() {
        let params = WISH.params();
        assert!(params.volatile);
        assert_eq!((params.logical_shift, params.physical_shift), (9, 12));
        assert_eq!((params.optimal_shift, params.sectors), (16, 1 << 21));
        // What is read and written at once fits into one buffer.
        assert_eq!(params.sectors_max, 2048);
        assert_eq!(params.discard_granularity, 4096);
        assert_eq!(params.discard_sectors_max, 131_072);
        assert_eq!(params.zero_sectors_max, 131_072);
    }

    #[test]
    fn where_discards_do_nothing_there_are_none_and_zeroes_still_are() {
        let params = like(|geometry| {
            geometry.block_size = 4096;
            geometry.discard_granularity = 0;
            geometry.zeroes_by_unmapping = false;
            geometry.preferred_io = 0;
            geometry.volatile = false;
        })
        .params();
        let discards = (params.discard_sectors_max, params.discard_granularity);
        assert_eq!(discards, (0, 4096));
        assert_eq!((params.zero_sectors_max, params.volatile), (131_072, false));
        // Never less than a block.
        assert_eq!((params.logical_shift, params.optimal_shift), (12, 12));
    }

    #[test]
    fn a_device_that_was_left_is_taken_up_only_by_what_is_like_it() {
        let (left, made) = (WISH.info(), WISH.params());
        assert_eq!(WISH.accepts(&left, &made), Ok(()));
        let grown = like(|geometry| geometry.len = 2 << 30);
        assert_eq!(grown.accepts(&left, &made), Ok(()));
        let shorter = like(|geometry| geometry.len = 1 << 29);
        let length = Unfit::Length {
            was: 1 << 30,
            is: 1 << 29,
        };
        assert_eq!(shorter.accepts(&left, &made), Err(length));
        let coarser = like(|geometry| geometry.block_size = 4096);
        let blocks = Unfit::Blocks { was: 512, is: 4096 };
        assert_eq!(coarser.accepts(&left, &made), Err(blocks));
        let longer_requests = Params {
            sectors_max: 4096,
            ..made
        };
        let requests = Unfit::Requests { sectors: 4096 };
        assert_eq!(WISH.accepts(&left, &longer_requests), Err(requests));
        // What sends flushes needlessly does no harm; what sends none to a cache loses data.
        let durable = like(|geometry| geometry.volatile = false);
        assert_eq!(durable.accepts(&left, &made), Ok(()));
        let sends_none = durable.params();
        assert_eq!(WISH.accepts(&left, &sends_none), Err(Unfit::NoFlushes));
    }

    #[test]
    fn a_device_that_was_left_is_taken_up_by_those_who_would_not_lose_what_they_acknowledge() {
        let (left, made) = (WISH.info(), WISH.params());
        let loses = Wish {
            recoverable: false,
            ..WISH
        };
        assert_eq!(loses.accepts(&left, &made), Err(Unfit::Loses));
        for foreign in [
            DeviceInfo { flags: 0, ..left },
            // Requests that had no answer would fail.
            DeviceInfo {
                flags: left.flags & !feature::USER_RECOVERY_REISSUE,
                ..left
            },
            DeviceInfo { queues: 2, ..left },
            DeviceInfo {
                io_bytes_max: 8 << 20,
                ..left
            },
        ] {
            assert_eq!(WISH.accepts(&foreign, &made), Err(Unfit::Foreign));
        }
    }

    #[test]
    fn what_is_there_of_a_device_says_what_to_do_about_it() {
        for (state, what) in [
            (State::Dead, Verdict::Remove),
            (State::Live, Verdict::Wait),
            (State::Quiesced, Verdict::TakeUp),
            (State::Failing, Verdict::TakeUp),
            (State::Unknown(9), Verdict::Wait),
        ] {
            assert_eq!(verdict(state), what, "{state:?}");
        }
    }
}
