//! Mapping of block numbers to places on the platters.
//!
//! A *slot* is a place for a block on a track. Within a zone, slots are counted along tracks and cylinders in the order
//! in which blocks use them. This count is the *physical* number of a block in its zone. Blocks are assigned to slots
//! in order. Defective slots (slips) are skipped, and so are the spare slots at the end of each part of the zone. So
//! the mapping is one-to-one and increasing.
//!
//! An angle is a fraction of a rotation, in units of 2⁻⁶⁴: it wraps at a full rotation.

use super::spec::{DiskLayout, SpareRegion, TrackOrder, ZoneSpec};

/// A fraction of a rotation, in units of 2⁻⁶⁴.
pub(crate) type Angle = u64;

/// Contiguous blocks on one track.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TrackExtent {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// Angle of the start of the first block.
    pub(crate) angle: Angle,
    /// Angle from the start of the first block to the end of the last one.
    pub(crate) span: Angle,
    /// Number of blocks, which may be lower than the number of slots in the span.
    pub(crate) blocks: u32,
    /// Angle of one slot.
    pub(crate) slot: Angle,
}

/// Places of all blocks of a disk.
pub(crate) struct DiskGeometry {
    zones: Vec<DiskZone>,
    surfaces: u64,
    blocks: u64,
    order: TrackOrder,
}

struct DiskZone {
    /// First block, by its number on the disk.
    first: u64,
    /// Number of blocks, without reserved ones.
    blocks: u64,
    first_cylinder: u32,
    sectors: u64,
    /// Angle of a slot, rounded down: the error is below a nanosecond.
    slot: Angle,
    offset: Angle,
    track_skew: Angle,
    cylinder_skew: Angle,
    reserved: u64,
    /// Slots of a part with its own spares, and blocks in this part.
    part_slots: u64,
    part_blocks: u64,
    slots: u64,
    slips: Vec<u64>,
}

impl DiskZone {
    fn new(spec: &ZoneSpec, layout: &DiskLayout, first: u64) -> Result<DiskZone, String> {
        let cylinders = u64::from(spec.last_cylinder - spec.first_cylinder) + 1;
        let sectors = u64::from(spec.sectors);
        let surfaces = u64::from(layout.surfaces);
        let slots = cylinders * surfaces * sectors;
        let (part_slots, spares) = match layout.spares {
            SpareRegion::Track => (sectors, spec.spares),
            SpareRegion::Cylinders(n) => (u64::from(n) * surfaces * sectors, spec.spares),
            SpareRegion::Zone => (slots, spec.spares),
            SpareRegion::Disk => (slots, spec.slips.len() as u64),
        };
        let name = format!("zone at cylinder {}", spec.first_cylinder);
        if part_slots == 0 || spares >= part_slots {
            return Err(format!("{name}: no space besides the spares"));
        }
        if spec.slips.last().is_some_and(|&last| last >= slots) {
            return Err(format!("{name}: a slip is outside the zone"));
        }
        for part in spec.slips.chunk_by(|a, b| a / part_slots == b / part_slots) {
            if part.len() as u64 > spares {
                return Err(format!("{name}: more slips than spares"));
            }
        }
        let slot = u64::MAX / sectors;
        let skew = |blocks: f64| ((blocks / sectors as f64).fract() * 2f64.powi(64)) as u64;
        let mut zone = DiskZone {
            first,
            blocks: 0,
            first_cylinder: spec.first_cylinder,
            sectors,
            slot,
            offset: skew(spec.offset),
            track_skew: skew(spec.track_skew),
            cylinder_skew: skew(spec.cylinder_skew),
            reserved: spec.reserved,
            part_slots,
            part_blocks: part_slots - spares,
            slots,
            slips: spec.slips.clone(),
        };
        zone.blocks = zone
            .blocks_before(slots)
            .checked_sub(spec.reserved)
            .ok_or(format!("{name}: more reserved than the disk has"))?;
        Ok(zone)
    }

    /// Returns the number of blocks, including reserved ones, in slots before `slot`.
    fn blocks_before(&self, slot: u64) -> u64 {
        let part = slot / self.part_slots;
        let begin = part * self.part_slots;
        let slips = self.slips_from(begin).partition_point(|&s| s < slot) as u64;
        // The end of the zone may cut the last part short; its spares are at its end nevertheless.
        let spares = self.part_slots - self.part_blocks;
        let in_part = self.part_slots.min(self.slots - begin.min(self.slots));
        let room = in_part.saturating_sub(spares);
        part * self.part_blocks + (slot - begin - slips).min(room)
    }

    fn slips_from(&self, slot: u64) -> &[u64] {
        &self.slips[self.slips.partition_point(|&s| s < slot)..]
    }

    /// Returns the slot of block `n` of the zone.
    fn slot_of(&self, n: u64) -> u64 {
        let n = n + self.reserved;
        let begin = n / self.part_blocks * self.part_slots;
        let mut slot = begin + n % self.part_blocks;
        if !self.slips.is_empty() {
            for &slip in self.slips_from(begin) {
                if slip > slot {
                    break;
                }
                slot += 1;
            }
        }
        slot
    }
}

impl DiskGeometry {
    /// Assigns all blocks to slots. Returns a reason if the layout is impossible.
    pub(crate) fn new(layout: &DiskLayout) -> Result<DiskGeometry, String> {
        check(layout)?;
        let mut zones = Vec::with_capacity(layout.zones.len());
        let mut first = 0;
        for spec in &layout.zones {
            let zone = DiskZone::new(spec, layout, first)?;
            first += zone.blocks;
            zones.push(zone);
        }
        if layout.blocks == 0 || first < layout.blocks {
            return Err(format!(
                "space for {first} blocks, but {} are claimed",
                layout.blocks
            ));
        }
        Ok(DiskGeometry {
            zones,
            surfaces: u64::from(layout.surfaces),
            blocks: layout.blocks,
            order: layout.order,
        })
    }

    /// Returns the blocks from `first` on, at most `blocks`, that lie on one track.
    ///
    /// # Panics
    /// If `first` is beyond the end or `blocks` is 0.
    pub(crate) fn piece(&self, first: u64, blocks: u64) -> TrackExtent {
        assert!(first < self.blocks && blocks > 0, "no such blocks");
        let index = self.zones.partition_point(|z| z.first <= first) - 1;
        let zone = &self.zones[index];
        let at = first - zone.first;
        let begin = zone.slot_of(at);
        let track = begin / zone.sectors;
        let sector = begin % zone.sectors;
        let here = zone.blocks_before((track + 1) * zone.sectors) - zone.reserved - at;
        let blocks = blocks.min(here);
        let slots = if zone.slips.is_empty() {
            blocks
        } else {
            zone.slot_of(at + blocks - 1) - begin + 1
        };
        let (cylinder, nth) = (track / self.surfaces, track % self.surfaces);
        let turns = cylinder * (self.surfaces - 1) + nth;
        let angle = zone
            .offset
            .wrapping_add(zone.track_skew.wrapping_mul(turns))
            .wrapping_add(zone.cylinder_skew.wrapping_mul(cylinder))
            .wrapping_add(zone.slot * sector);
        let cylinder = u64::from(zone.first_cylinder) + cylinder;
        let back = match self.order {
            TrackOrder::Cylinders => false,
            TrackOrder::Serpentine => (cylinder - u64::from(zone.first_cylinder)) % 2 == 1,
            TrackOrder::SerpentineOverZones => cylinder % 2 == 1,
        };
        TrackExtent {
            cylinder: cylinder as u32,
            head: (if back { self.surfaces - 1 - nth } else { nth }) as u32,
            angle,
            span: zone.slot * slots,
            blocks: blocks as u32,
            slot: zone.slot,
        }
    }

    /// Returns the numbers of the blocks on the track of `block`.
    pub(crate) fn track_of(&self, block: u64) -> std::ops::Range<u64> {
        let index = self.zones.partition_point(|z| z.first <= block) - 1;
        let zone = &self.zones[index];
        let begin = zone.slot_of(block - zone.first) / zone.sectors * zone.sectors;
        let number = |slot| zone.first + zone.blocks_before(slot).saturating_sub(zone.reserved);
        number(begin)..number(begin + zone.sectors).min(self.blocks)
    }

    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }
}

fn check(layout: &DiskLayout) -> Result<(), String> {
    if !(1..=256).contains(&layout.surfaces) || !(1..=10_000_000).contains(&layout.cylinders) {
        return Err("surfaces are 1 to 256, cylinders 1 to 10 million".into());
    }
    if layout.zones.is_empty() {
        return Err("no zones".into());
    }
    let mut free = 0;
    for zone in &layout.zones {
        let (first, last) = (zone.first_cylinder, zone.last_cylinder);
        if first < free || last < first || last >= layout.cylinders {
            return Err(format!(
                "zone {first} to {last} overlaps or leaves the disk"
            ));
        }
        free = last + 1;
        if !(1..=1_000_000).contains(&zone.sectors) {
            return Err(format!("zone {first}: 1 to 1 million blocks make a track"));
        }
        if [zone.offset, zone.track_skew, zone.cylinder_skew]
            .iter()
            .any(|&s| s > 1e7)
        {
            return Err(format!("zone {first}: a skew is out of range"));
        }
    }
    if layout.spares == SpareRegion::Cylinders(0) {
        return Err("spares in ranges of no cylinders".into());
    }
    Ok(())
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
