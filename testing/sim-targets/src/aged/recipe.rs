//! Aged volumes as the beginning of scenarios: their properties and their ageing.

use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::disk::DiskImage;
use forebay_vsl::{PlacementKind, SpaceSettings};

use super::content::ExpectedContent;

/// The ageing of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Age {
    /// Written once, then overwritten in uniform order.
    Uniform,
    /// Written once. Most blocks have little garbage among them, and a few blocks are overwritten often.
    Cold,
    /// Written block by block, then in single sectors.
    Pieces,
    /// Blocks far apart: the map is large, and a trim detaches subtrees.
    Sparse,
    /// Written and trimmed in extents of many lengths.
    Files,
    /// A small volume with few blocks, so that the log wraps often.
    Small,
    /// A small full volume. Open segments and checkpoints take a large part of the volume.
    Tight,
    /// A volume of many segments that many writers concurrently overwrite in uniform order.
    Crowd,
}

/// A volume and its ageing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Recipe {
    pub(super) seed: u64,
    pub(super) age: Age,
    pub(super) placement: PlacementKind,
    pub(super) segments: u64,
    pub(super) segment_bytes: u64,
    pub(super) block: u32,
    /// Sectors from one block to the next.
    pub(super) stride: u64,
    /// Share of the mappable bytes that is written, in percent.
    pub(super) filled: u64,
    /// Share of the blocks that are hot, in percent.
    pub(super) hot: u64,
    /// Distance between cold blocks that are overwritten once.
    pub(super) every: u64,
    pub(super) fua: bool,
    pub(super) writers: usize,
    pub(super) map_bytes: Option<u64>,
    pub(super) max_delay: Duration,
    pub(super) huge_trim: u64,
    pub(super) discard: bool,
    pub(super) recovery_entries: u64,
    pub(super) spare_part: u64,
    /// True if the placement changes. Expectations that depend on one placement then do not apply to the volume.
    pub(super) changes: bool,
}

/// An aged volume: its disk and its expected content.
#[derive(Clone)]
pub(super) struct AgedVolume {
    pub(super) image: DiskImage,
    pub(super) content: ExpectedContent,
    /// Number of written blocks, from the first block on.
    pub(super) used: u64,
}

impl Recipe {
    pub(super) fn of_seed(seed: u64) -> Recipe {
        let rng = Rng::new(mix(seed, 0x0eec_19e5));
        let ages = [
            Age::Uniform,
            Age::Cold,
            Age::Sparse,
            Age::Pieces,
            Age::Small,
            Age::Sparse,
            Age::Cold,
            Age::Files,
            Age::Tight,
        ];
        // Round robin, so that a short exploration covers all ages.
        let count = ages.len() as u64;
        let age = match ages[(seed % count) as usize] {
            Age::Uniform if (seed / count).is_multiple_of(4) => Age::Crowd,
            age => age,
        };
        let placement = if rng.coin() {
            PlacementKind::Lfs
        } else {
            rng.pick(&PlacementKind::ALL)
        };
        let (segments, segment_bytes) = rng.pick(&[
            (256, 128 << 10),
            (256, 128 << 10),
            (512, 128 << 10),
            (256, 256 << 10),
            (192, 256 << 10),
            (1024, 128 << 10),
            (128, 1 << 20),
        ]);
        let common = Recipe {
            seed,
            age,
            placement,
            segments,
            segment_bytes,
            block: if rng.one_in(3) { 512 } else { 4096 },
            stride: 8,
            filled: rng.pick(&[50, 80, 90, 93, 96, 98, 99]),
            hot: 5 + rng.below(20),
            every: 40 << rng.below(4),
            fua: false,
            writers: 1 + rng.below(3) as usize,
            map_bytes: rng.one_in(3).then(|| rng.below(3) * (64 << 10)),
            max_delay: Duration::from_millis(1 << rng.below(9)),
            huge_trim: rng.pick(&[1 << 17, 1 << 17, 4096]),
            discard: rng.one_in(4),
            recovery_entries: rng.pick(&[1 << 20, 1 << 20, 1 << 13]),
            spare_part: rng.pick(&[16, 16, 16, 128, 512]),
            changes: false,
        };
        common.special(&rng)
    }

    /// Applies the settings of the age.
    fn special(self, rng: &Rng) -> Recipe {
        let (common, age, placement) = (self.clone(), self.age, self.placement);
        match age {
            Age::Files => common,
            // Only this age writes a whole volume and then overwrites blocks in place without a checkpoint between.
            Age::Uniform => Recipe {
                placement: rng.pick(&[
                    placement,
                    placement,
                    PlacementKind::Overwrite,
                    PlacementKind::HyLog,
                ]),
                ..common
            },
            Age::Cold => {
                let sizes = [(256, 128 << 10), (96, 1 << 20), (128, 1 << 20)];
                let (segments, segment_bytes) = rng.pick(&sizes);
                Recipe {
                    filled: rng.pick(&[90, 96, 98]),
                    segments,
                    segment_bytes,
                    hot: rng.pick(&[5, 10]),
                    every: segment_bytes / 4096 * rng.pick(&[1, 1, 4]),
                    writers: rng.pick(&[1, 1, 2]),
                    placement: rng.pick(&[PlacementKind::Lfs, PlacementKind::Lfs, placement]),
                    ..common
                }
            }
            Age::Pieces => Recipe {
                filled: rng.pick(&[90, 96, 96, 98]),
                fua: rng.below(4) < 3,
                placement: rng.pick(&[PlacementKind::Lfs, placement]),
                writers: 1,
                segments: 256,
                segment_bytes: 128 << 10,
                ..common
            },
            Age::Sparse => Recipe {
                stride: rng.pick(&[4096, 4096, 1 << 16]),
                filled: rng.pick(&[50, 70, 80, 93]),
                segments: rng.pick(&[384, 512]),
                segment_bytes: 128 << 10,
                writers: rng.pick(&[1, 1, 1, 2]),
                ..common
            },
            Age::Small => Recipe {
                segments: rng.pick(&[40, 64]),
                segment_bytes: 128 << 10,
                placement: if rng.one_in(6) {
                    placement
                } else {
                    PlacementKind::Overwrite
                },
                filled: rng.pick(&[10, 20, 50]),
                writers: 1,
                ..common
            }
            .roomy(),
            Age::Crowd => common.crowd(rng),
            Age::Tight => Recipe {
                segments: rng.pick(&[32, 40, 48, 64, 96]),
                segment_bytes: 128 << 10,
                placement: rng.pick(&PlacementKind::ALL),
                filled: rng.pick(&[96, 98, 99]),
                ..common
            }
            .roomy(),
        }
    }

    fn crowd(self, rng: &Rng) -> Recipe {
        Recipe {
            segments: 2048,
            segment_bytes: 128 << 10,
            placement: rng.pick(&PlacementKind::ALL),
            filled: rng.pick(&[80, 90]),
            hot: 100,
            writers: 32,
            map_bytes: None,
            recovery_entries: 1 << 20,
            spare_part: 16,
            ..self
        }
    }

    /// Increases the number of segments to the needs of the placement's streams.
    fn roomy(self) -> Recipe {
        let needs = match self.placement {
            PlacementKind::SepBit | PlacementKind::HyLogSepBit => 64,
            _ => 40,
        };
        Recipe {
            segments: self.segments.max(needs),
            ..self
        }
    }

    /// Returns true if the log wraps soon, and blocks are written in place.
    pub(super) fn goes_round(&self) -> bool {
        self.age == Age::Small && self.placement == PlacementKind::Overwrite
    }

    pub(super) fn medium_bytes(&self) -> u64 {
        (1 << 20) + self.segments * self.segment_bytes
    }

    /// Estimates the number of mappable blocks.
    pub(super) fn mappable_lines(&self) -> u64 {
        self.segments * self.segment_bytes / 4096 * 7 / 8
    }

    /// Returns the number of blocks in the model. The model has more blocks than are mappable, so a writer can write
    /// new blocks while old blocks stay.
    pub(super) fn lines(&self) -> u64 {
        2 * self.segments * self.segment_bytes / 4096
    }

    pub(super) fn space_sectors(&self) -> u64 {
        self.lines() * self.stride
    }

    pub(super) fn options(&self) -> SpaceSettings {
        let common = SpaceSettings::default();
        SpaceSettings {
            max_delay: self.max_delay,
            map_bytes: self.map_bytes.unwrap_or(common.map_bytes),
            huge_trim: self.huge_trim,
            discard: self.discard,
            recovery_entries: self.recovery_entries,
            spare_part: Some(self.spare_part),
            ..common
        }
    }
}
