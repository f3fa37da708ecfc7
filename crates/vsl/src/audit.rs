//! Counts live sectors by a walk over the whole map, to check or to repair the table of segments.

use std::rc::Rc;

use forebay_extent_map::{LogPlace, MapVisit, NODE_BYTES, NODE_SECTORS};

use crate::counted::MapCounts;
use crate::error::SpaceError;
use crate::space::{Space, SpaceInner};
use crate::store::read_checked;
use crate::weight::units_of;

/// Bytes of memory for nodes during a walk over the map.
const WALK_BYTES: u64 = 1 << 20;

impl Space {
    /// Compares the table of segments with the states of the segments and with a walk over the whole map. For tests:
    /// clients must not change the volume meanwhile. The walk starts again if the cleaner has changed the map.
    ///
    /// # Errors
    /// A text that describes the first difference, or an error of the device.
    pub async fn audit(&self) -> Result<(), String> {
        let inner = &self.inner;
        let _turn = inner.checkpoint_turn.lock().await;
        loop {
            let before = inner.signature();
            let counted = inner.count_live().await;
            if inner.signature() == before {
                let counted = counted.map_err(|error| error.to_string())?;
                return self.compare(&counted);
            }
        }
    }

    fn compare(&self, counted: &MapCounts) -> Result<(), String> {
        let inner = &self.inner;
        inner.commit.composer().table.check()?;
        let streams = inner.commit.composer();
        let (table, layout) = (&streams.table, streams.layout);
        let demand = |holds: bool, what: String| if holds { Ok(()) } else { Err(what) };
        for (number, slot) in table.numbers() {
            let (live, units) = counted.segments.get(&number).copied().unwrap_or_default();
            let known = table.get(slot);
            let same = (known.live.into(), known.units.into()) == (live, units);
            let what = || {
                format!(
                    "{number} in {slot:?}: {live} sectors are live, {units} units; recorded is {known:?}"
                )
            };
            demand(same, what())?;
        }
        for number in counted.segments.keys() {
            let known = table.slot_of(*number).is_some();
            demand(
                known,
                format!("the map points at {number}, which is retired"),
            )?;
        }
        for (stream, slot, _) in streams.open_segments() {
            let what = format!("{stream:?} is not in use, and {slot:?} is open in it");
            demand(streams.counts.has(stream), what)?;
        }
        let meta = inner.meta.borrow().places(layout.segment_count as usize);
        let sectors: u64 = meta.iter().map(|(_, sectors)| sectors).sum();
        let known = table.meta_sectors();
        demand(
            known == sectors,
            format!("checkpoints take {sectors} sectors; recorded are {known}"),
        )?;
        let map = inner.map.borrow();
        let totals = (map.mapped_sectors(), map.entries(), map.nodes());
        let what = format!("the map has {:?}; recorded is {totals:?}", counted.totals);
        demand(!map.is_exact() || totals == counted.totals, what)
    }
}

impl SpaceInner {
    /// Returns counters that differ after any change of the live data.
    fn signature(&self) -> (u64, u64, u64, usize) {
        let map = self.map.borrow();
        let stats = self.stats.borrow();
        let written = stats.batches + stats.bytes_moved + stats.bytes_in_place;
        (
            self.entries_since.get(),
            written,
            map.mapped_sectors(),
            map.detached(),
        )
    }

    /// Counts live sectors.
    ///
    /// # Errors
    /// A node cannot be read. Damaged nodes of detached subtrees are skipped, with all nodes below them.
    async fn count_live(&self) -> Result<MapCounts, SpaceError> {
        let mut counted = MapCounts::default();
        let layout = self.store.layout();
        let mut walk = self.map.borrow().walk();
        let add = |counted: &mut MapCounts, place: LogPlace, sectors: u64, units: u64| {
            let number = layout.segment_of(place);
            let segment = counted.segments.entry(number).or_default();
            segment.0 += sectors;
            segment.1 += units;
        };
        loop {
            let next = walk.next(&self.map.borrow());
            match next {
                Ok(None) => return Ok(counted),
                Ok(Some(MapVisit::Node { place, .. })) => {
                    counted.totals.2 += 1;
                    if let Some(place) = place {
                        counted.nodes += NODE_SECTORS;
                        add(&mut counted, place, NODE_SECTORS, 0);
                    }
                }
                Ok(Some(MapVisit::Dropped(place))) => {
                    counted.nodes += NODE_SECTORS;
                    add(&mut counted, place, NODE_SECTORS, 0);
                }
                Ok(Some(visit @ (MapVisit::Extent(one) | MapVisit::Detached(one)))) => {
                    let extent = one.extent;
                    counted.totals.0 += extent.sectors;
                    counted.totals.1 += 1;
                    // Recovery detaches a subtree again even if the reaper freed it before the crash. Other data may
                    // use its segments now.
                    let table = &self.commit.composer().table;
                    let is_gone = matches!(visit, MapVisit::Detached(_))
                        && table.slot_at(extent.place).is_none();
                    if !is_gone {
                        add(&mut counted, extent.place, extent.sectors, units_of(&one));
                    }
                }
                Err(need) => {
                    let slot = self.commit.composer().table.slot_at(need.place);
                    let stale =
                        SpaceError::Node(need.place, forebay_extent_map::NodeLoadError::Stale);
                    let Some(slot) = slot else {
                        if walk.skip(&need) {
                            continue;
                        }
                        return Err(stale);
                    };
                    let offset = u64::from(layout.offset_of(need.place));
                    let range = offset..offset + NODE_BYTES as u64;
                    let load = |bytes: &[u8]| walk.load(&mut self.map.borrow_mut(), &need, bytes);
                    let loaded = read_checked(&*self.store, slot, range, load).await?;
                    if let Err(error) = loaded
                        && !walk.skip(&need)
                    {
                        return Err(SpaceError::Node(need.place, error));
                    }
                    // The path to a leaf must stay in memory, even if the configured memory is smaller.
                    let limit = self.options.map_bytes.max(WALK_BYTES) as usize;
                    self.map.borrow_mut().shrink(limit);
                }
            }
        }
    }

    /// Counts the live sectors again if the current counts are doubtful. The volume must not change meanwhile.
    pub(crate) async fn recount(self: &Rc<Self>, doubtful: bool) -> Result<(), SpaceError> {
        let known = {
            let streams = self.commit.composer();
            streams.table.is_doubtful() || !self.map.borrow().is_exact()
        };
        if !known && !doubtful {
            return Ok(());
        }
        let counted = self.count_live().await?;
        let (sectors, entries, nodes) = counted.totals;
        self.map.borrow_mut().set_totals(sectors, entries, nodes);
        self.commit.composer_mut().table.set_counts(&counted);
        Ok(())
    }
}
