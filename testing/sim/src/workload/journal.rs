//! The request pattern of a journaling filesystem, and a check for corruption as such a filesystem defines it.
//!
//! A transaction writes file data, flushes, writes its commit record with FUA, and later writes the metadata in place
//! (the checkpoint). A commit record implies that the data exists. So after a crash, for each commit record found, all
//! writes of its transaction before it and all writes of earlier transactions must be found, or newer data.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_rng::Rng;

use super::{ScriptBounds, WriterScript};
use crate::history::ScriptAction;
use crate::stamp::{SECTOR, SectorContent, read_sector};
use crate::writers::WriterHistories;

/// Requirements of a commit record. Actions are counted from 0 in the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitRule {
    /// The action that writes the commit record.
    pub commit: usize,
    /// Sector of the commit record.
    pub sector: u64,
    /// Sectors, and the action that wrote the oldest permitted data of each.
    pub needs: Vec<(u64, usize)>,
}

fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR as u64..range.end / SECTOR as u64
}

/// Returns a script of about `len` actions. `None` if the region is too small for a journal.
pub fn script(rng: &Rng, bounds: &ScriptBounds, len: usize) -> Option<WriterScript> {
    let unit = bounds.block.max(SECTOR as u64 * 4);
    let start = bounds.region.start.next_multiple_of(bounds.block);
    let room = bounds.region.end.checked_sub(start)?;
    // One eighth is the journal, another eighth metadata, and the rest file data.
    let journal = start..start + room / 8 / unit * unit;
    let metadata = journal.end..journal.end + room / 8 / unit * unit;
    let files = metadata.end..bounds.region.end / bounds.block * bounds.block;
    let slots = (journal.end - journal.start) / unit;
    let homes = (metadata.end - metadata.start) / unit;
    if slots < 2 || homes < 1 || files.end - files.start < 8 * unit {
        return None;
    }
    let mut script = WriterScript::default();
    let mut written: BTreeMap<u64, usize> = BTreeMap::new();
    let mut slot = 0;
    while script.actions.len() < len {
        for _ in 0..1 + rng.below(5) {
            let len = bounds.block * (1 + rng.below(16));
            let len = len.min(files.end - files.start);
            let room = (files.end - files.start - len) / bounds.block;
            let at = files.start + rng.below(room + 1) * bounds.block;
            let range = at..at + len;
            written.extend(sectors(&range).map(|sector| (sector, script.actions.len())));
            script
                .actions
                .push(ScriptAction::Write { range, fua: false });
        }
        script.actions.push(ScriptAction::Flush);
        let at = journal.start + slot % slots * unit;
        slot += 1;
        script.rules.push(CommitRule {
            commit: script.actions.len(),
            sector: at / SECTOR as u64,
            needs: written
                .iter()
                .map(|(sector, action)| (*sector, *action))
                .collect(),
        });
        let range = at..at + bounds.block;
        script
            .actions
            .push(ScriptAction::Write { range, fua: true });
        if rng.coin() {
            let at = metadata.start + rng.below(homes) * unit;
            let range = at..at + bounds.block;
            written.extend(sectors(&range).map(|sector| (sector, script.actions.len())));
            script
                .actions
                .push(ScriptAction::Write { range, fua: false });
        }
        if rng.one_in(4) {
            let ms = rng.pick(&[1, 60, 250, 1100]);
            let pause = std::time::Duration::from_millis(ms);
            script.actions.push(ScriptAction::Pause(pause));
        }
    }
    Some(script)
}

/// Checks the content that a writer's filesystem finds after a crash in this incarnation.
///
/// # Errors
/// If a commit record exists and data that it requires is missing.
pub fn check(
    writers: &WriterHistories,
    writer: usize,
    script: &WriterScript,
    seen: &[u8],
) -> Result<(), String> {
    if script.rules.is_empty() {
        return Ok(());
    }
    let history = writers.history(writer);
    let found = |sector: u64| match read_sector(&seen[sector as usize * SECTOR..][..SECTOR]) {
        SectorContent::Stamp { id, sector: of } if of == sector => history.step_of(id),
        _ => None,
    };
    // Steps count the actions that change data.
    let mut steps = 0;
    let mut step_of = Vec::with_capacity(script.actions.len());
    for action in &script.actions {
        steps += usize::from(action.range().is_some());
        step_of.push(steps);
    }
    let committed = script
        .rules
        .iter()
        .rfind(|rule| found(rule.sector) == Some(step_of[rule.commit]));
    let Some(rule) = committed else {
        return Ok(());
    };
    for (sector, action) in &rule.needs {
        if found(*sector).is_none_or(|step| step < step_of[*action]) {
            return Err(format!(
                "the commit record of action {} is in sector {}, but sector {sector}, written by action \
                 {action} before it, holds {:?}",
                rule.commit,
                rule.sector,
                read_sector(&seen[*sector as usize * SECTOR..][..SECTOR])
            ));
        }
    }
    Ok(())
}
