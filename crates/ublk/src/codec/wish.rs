//! The parameters of a new device, and the handling of an existing device.

use forebay_device::DeviceGeometry;

use super::LeftoverMismatch;
use super::format::{
    ANY_DEVICE, SECTOR_BYTES, UblkDeviceInfo, UblkDeviceState, UblkParams, feature,
};

/// Features that all devices need.
const NEEDED: u64 = feature::CMD_IOCTL_ENCODE | feature::USER_COPY;
/// Features that a device needs to outlive its server.
const OUTLIVES: u64 = feature::USER_RECOVERY | feature::USER_RECOVERY_REISSUE;
/// Limit on a discard or zeroing request, in bytes, so that such requests do not delay writes for long.
const RANGE_BYTES_MAX: u64 = 64 << 20;

/// Returns true if a driver with these features supports all needed features.
pub fn is_sufficient(features: u64) -> bool {
    features & (NEEDED | OUTLIVES) == NEEDED | OUTLIVES
}

/// The properties of a device to create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkDeviceSpec {
    /// Id of the volume.
    pub volume: u64,
    /// The device outlives its server.
    pub recoverable: bool,
    /// Limit on the kernel's requests under way.
    pub depth: u16,
    /// Largest read or write that is served, in bytes: a multiple of the page size.
    pub io_bytes_max: u32,
    /// Geometry of the device behind the block device.
    pub geometry: DeviceGeometry,
}

impl UblkDeviceSpec {
    /// Returns the structure for creating the device.
    pub fn info(&self) -> UblkDeviceInfo {
        UblkDeviceInfo {
            queues: 1,
            depth: self.depth,
            state: UblkDeviceState::Dead,
            io_bytes_max: self.io_bytes_max,
            id: ANY_DEVICE,
            server_pid: 0,
            flags: NEEDED | if self.recoverable { OUTLIVES } else { 0 },
            volume: self.volume,
        }
    }

    /// Returns the parameters of the block device.
    pub fn params(&self) -> UblkParams {
        let geometry = &self.geometry;
        let range_sectors = (RANGE_BYTES_MAX / SECTOR_BYTES) as u32;
        let physical = geometry.physical_block_size;
        UblkParams {
            volatile: geometry.volatile,
            logical_shift: shift(geometry.block_size),
            physical_shift: shift(physical),
            optimal_shift: shift(geometry.preferred_io.max(physical)),
            sectors_max: (u64::from(self.io_bytes_max) / SECTOR_BYTES) as u32,
            sectors: geometry.len / SECTOR_BYTES,
            // The driver needs a unit even if the device does not support discards.
            discard_granularity: geometry.discard_granularity.max(geometry.block_size),
            discard_sectors_max: match geometry.discard_granularity {
                0 => 0,
                _ => range_sectors,
            },
            zero_sectors_max: range_sectors,
        }
    }

    /// Checks that this wish fits a device that another server left behind, whose parameters its users rely on.
    ///
    /// # Errors
    /// The mismatch.
    pub fn accepts(
        &self,
        left: &UblkDeviceInfo,
        as_made: &UblkParams,
    ) -> Result<(), LeftoverMismatch> {
        let all = NEEDED | OUTLIVES;
        let foreign = left.flags & all != all || left.queues != 1;
        if foreign || left.io_bytes_max > self.io_bytes_max {
            return Err(LeftoverMismatch::Foreign);
        }
        if !self.recoverable {
            return Err(LeftoverMismatch::Loses);
        }
        self.fits(as_made)
    }

    fn fits(&self, as_made: &UblkParams) -> Result<(), LeftoverMismatch> {
        let now = self.params();
        // A volume that grew may serve a device of the old length; the device may get the new length later.
        if as_made.sectors > now.sectors {
            let bytes = |params: &UblkParams| params.sectors.saturating_mul(SECTOR_BYTES);
            let (was, is) = (bytes(as_made), bytes(&now));
            return Err(LeftoverMismatch::Length { was, is });
        }
        if as_made.logical_shift != now.logical_shift {
            let size = |params: &UblkParams| 1 << params.logical_shift.min(63);
            let (was, is) = (size(as_made), size(&now));
            return Err(LeftoverMismatch::Blocks { was, is });
        }
        if as_made.sectors_max > now.sectors_max {
            let sectors = as_made.sectors_max;
            return Err(LeftoverMismatch::Requests { sectors });
        }
        if now.volatile && !as_made.volatile {
            return Err(LeftoverMismatch::NoFlushes);
        }
        Ok(())
    }
}

/// Returns the exponent of the largest power of two that is not above `bytes`.
fn shift(bytes: u32) -> u8 {
    bytes.max(1).ilog2() as u8
}

/// Handling of an existing device of the volume, before a server is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftoverAction {
    /// Remove the device: its block device is stopped, or not started yet.
    Remove,
    /// Wait: its server is dying, or alive.
    Wait,
    /// Recover the device: it waits for a server.
    TakeUp,
}

/// Returns the handling of a device in this state. The recorded server's process id is no evidence: some kernels keep
/// it, others reset it.
pub fn verdict(state: UblkDeviceState) -> LeftoverAction {
    match state {
        UblkDeviceState::Dead => LeftoverAction::Remove,
        UblkDeviceState::Quiesced | UblkDeviceState::Failing => LeftoverAction::TakeUp,
        // Leave a device in an unknown state alone.
        UblkDeviceState::Live | UblkDeviceState::Unknown(_) => LeftoverAction::Wait,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WISH: UblkDeviceSpec = UblkDeviceSpec {
        volume: 7,
        recoverable: true,
        depth: 128,
        io_bytes_max: 1 << 20,
        geometry: DeviceGeometry {
            len: 1 << 30,
            block_size: 512,
            physical_block_size: 4096,
            preferred_io: 65_536,
            volatile: true,
            discard_granularity: 4096,
            zeroes_by_unmapping: true,
        },
    };

    fn like(change: impl FnOnce(&mut DeviceGeometry)) -> UblkDeviceSpec {
        let mut wish = WISH;
        change(&mut wish.geometry);
        wish
    }

    #[test]
    fn a_driver_without_the_required_features_is_insufficient() {
        // The features of Linux 6.12 and 7.3.
        assert!(is_sufficient(0x1fe) && is_sufficient(0x1f_ffff));
        // The features of a driver that cannot copy data yet.
        assert!(!is_sufficient(0x7e));
    }

    #[test]
    fn a_device_outlives_its_server_only_if_recoverable() {
        assert_eq!(WISH.info().flags, 0b1101_1000);
        let ends = UblkDeviceSpec {
            recoverable: false,
            ..WISH
        };
        assert_eq!(ends.info().flags, 0b1100_0000);
    }

    #[test]
    fn a_block_device_has_the_block_sizes_and_limits_of_its_volume() {
        let params = WISH.params();
        assert!(params.volatile);
        assert_eq!((params.logical_shift, params.physical_shift), (9, 12));
        assert_eq!((params.optimal_shift, params.sectors), (16, 1 << 21));
        // The largest read or write fits into one buffer.
        assert_eq!(params.sectors_max, 2048);
        assert_eq!(params.discard_granularity, 4096);
        assert_eq!(params.discard_sectors_max, 131_072);
        assert_eq!(params.zero_sectors_max, 131_072);
    }

    #[test]
    fn a_volume_without_discard_offers_no_discards_and_still_offers_zeroes() {
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
        // The sizes are never less than a block.
        assert_eq!((params.logical_shift, params.optimal_shift), (12, 12));
    }

    #[test]
    fn a_leftover_ublk_device_is_recovered_only_with_matching_parameters() {
        let (left, made) = (WISH.info(), WISH.params());
        assert_eq!(WISH.accepts(&left, &made), Ok(()));
        let grown = like(|geometry| geometry.len = 2 << 30);
        assert_eq!(grown.accepts(&left, &made), Ok(()));
        let shorter = like(|geometry| geometry.len = 1 << 29);
        let length = LeftoverMismatch::Length {
            was: 1 << 30,
            is: 1 << 29,
        };
        assert_eq!(shorter.accepts(&left, &made), Err(length));
        let coarser = like(|geometry| geometry.block_size = 4096);
        let blocks = LeftoverMismatch::Blocks { was: 512, is: 4096 };
        assert_eq!(coarser.accepts(&left, &made), Err(blocks));
        let longer_requests = UblkParams {
            sectors_max: 4096,
            ..made
        };
        let requests = LeftoverMismatch::Requests { sectors: 4096 };
        assert_eq!(WISH.accepts(&left, &longer_requests), Err(requests));
        // Needless flushes do no harm, but without flushes a volatile cache loses data.
        let durable = like(|geometry| geometry.volatile = false);
        assert_eq!(durable.accepts(&left, &made), Ok(()));
        let sends_none = durable.params();
        assert_eq!(
            WISH.accepts(&left, &sends_none),
            Err(LeftoverMismatch::NoFlushes)
        );
    }

    #[test]
    fn a_leftover_ublk_device_is_recovered_only_by_a_volume_that_keeps_acknowledged_data() {
        let (left, made) = (WISH.info(), WISH.params());
        let loses = UblkDeviceSpec {
            recoverable: false,
            ..WISH
        };
        assert_eq!(loses.accepts(&left, &made), Err(LeftoverMismatch::Loses));
        for foreign in [
            UblkDeviceInfo { flags: 0, ..left },
            // Unanswered requests would fail.
            UblkDeviceInfo {
                flags: left.flags & !feature::USER_RECOVERY_REISSUE,
                ..left
            },
            UblkDeviceInfo { queues: 2, ..left },
            UblkDeviceInfo {
                io_bytes_max: 8 << 20,
                ..left
            },
        ] {
            assert_eq!(
                WISH.accepts(&foreign, &made),
                Err(LeftoverMismatch::Foreign)
            );
        }
    }

    #[test]
    fn the_state_of_a_leftover_device_determines_the_action() {
        for (state, what) in [
            (UblkDeviceState::Dead, LeftoverAction::Remove),
            (UblkDeviceState::Live, LeftoverAction::Wait),
            (UblkDeviceState::Quiesced, LeftoverAction::TakeUp),
            (UblkDeviceState::Failing, LeftoverAction::TakeUp),
            (UblkDeviceState::Unknown(9), LeftoverAction::Wait),
        ] {
            assert_eq!(verdict(state), what, "{state:?}");
        }
    }
}
