//! Recorded traces as workloads: disk requests of real systems, in their order and with their pauses, folded into a
//! small volume.

use std::time::Duration;

use forebay_rng::Rng;

use super::{ScriptBounds, WriterScript};
use crate::history::ScriptAction;
use crate::trace::TraceRequest;

const SECTOR: u64 = 512;
/// Maximum pause: long enough for any work that waits for idle time.
const PAUSE_MAX: Duration = Duration::from_millis(1500);
/// Maximum length of requests, in bytes.
const LEN_MAX: u64 = 256 << 10;

/// Returns a script of `len` requests from a random place in a trace. Traces contain no flushes, so the script adds a
/// flush once in a random number of writes.
pub fn script(
    rng: &Rng,
    bounds: &ScriptBounds,
    trace: &[TraceRequest],
    len: usize,
) -> WriterScript {
    let mut script = WriterScript::default();
    if trace.is_empty() {
        return script;
    }
    let from = rng.below(trace.len().saturating_sub(len).max(1) as u64) as usize;
    let flushes = 2 + rng.below(12);
    let mut before = trace[from].at;
    for traced in trace[from..].iter().take(len) {
        let gap = traced.at.saturating_sub(before).min(PAUSE_MAX);
        before = traced.at;
        if gap > Duration::from_micros(100) {
            script.actions.push(ScriptAction::Pause(gap));
        }
        let region = if traced.write {
            bounds.region.clone()
        } else {
            0..bounds.volume
        };
        let room = region.end - region.start;
        let len = (traced.sectors.max(1) * SECTOR).min(LEN_MAX).min(room);
        let at = region.start + traced.sector % ((room - len) / SECTOR + 1) * SECTOR;
        let range = at..at + len;
        if !traced.write {
            let whole = ScriptBounds {
                region: 0..bounds.volume,
                ..bounds.clone()
            };
            script.actions.push(ScriptAction::Read(whole.align(range)));
            continue;
        }
        script.actions.push(ScriptAction::Write {
            range: bounds.align(range),
            fua: false,
        });
        if rng.one_in(flushes) {
            script.actions.push(ScriptAction::Flush);
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_from_a_trace_stays_in_its_region_and_keeps_the_pauses() {
        let trace: Vec<TraceRequest> = (0..50)
            .map(|n| TraceRequest {
                at: Duration::from_millis(n * 40),
                write: n % 3 != 0,
                sector: n * 991,
                sectors: n * 17,
            })
            .collect();
        let bounds = ScriptBounds {
            region: 8192..40960,
            volume: 65536,
            block: 4096,
        };
        let script = script(&Rng::new(1), &bounds, &trace, 30);
        let pauses = script
            .actions
            .iter()
            .filter(|action| matches!(action, ScriptAction::Pause(_)));
        assert_eq!(pauses.count(), 29);
        for range in script.actions.iter().filter_map(ScriptAction::range) {
            assert!(
                bounds.region.start <= range.start && range.end <= bounds.region.end,
                "{range:?}"
            );
            assert!(range.start < range.end && range.start % 4096 == 0 && range.end % 4096 == 0);
        }
    }
}
