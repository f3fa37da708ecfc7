//! Reduction of a scenario to a smaller one with the same violation.
//!
//! The cheap reductions come first: actions that had not begun at the violation, and checks at other moments, are
//! irrelevant. Then it removes incarnations, writers, and sequences of actions of all writers together, long ones
//! first. Finally it simplifies the rest. A change is kept if the same checker still reports a violation.

use std::ops::Range;
use std::time::{Duration, Instant};

use crate::disk::DiskFaults;
use crate::history::ScriptAction;
use crate::plan::{CheckSchedule, ScenarioPlan, ScenarioSettings};
use crate::role::DiskRole;
use crate::scenario::{self, ScenarioLimits, ViolationMoment};
use crate::system::TestedSystem;
use crate::workload::WriterScript;

/// No checks.
const NONE: CheckSchedule = CheckSchedule::OneIn(u64::MAX);
/// A check at every request, with several cuts.
const ALL: CheckSchedule = CheckSchedule::Each {
    combinations: 0,
    recoveries: 0,
};

/// Reduces a plan while the same checker is violated and time is left. A scenario that is running at the end of the
/// time is abandoned. The result depends on the available time; the original scenario does not.
pub fn shrink<S: TestedSystem>(plan: &ScenarioPlan<S>, time: Duration) -> ScenarioPlan<S> {
    let until = Instant::now() + time;
    let limits = ScenarioLimits {
        requests: None,
        until: Some(until),
    };
    let whole = scenario::run_within(plan, false, limits);
    let (Some(violation), Some(moment)) = (whole.violation, whole.moment) else {
        return plan.clone();
    };
    let mut shrinking = ScenarioShrinker {
        best: plan.clone(),
        checker: violation.checker,
        moment,
        // A change may also make a scenario longer. Such a change is rejected.
        limits: ScenarioLimits {
            requests: Some(whole.tally.requests * 2 + 10_000),
            until: Some(until),
        },
    };
    shrinking.cut_off();
    shrinking.looks();
    loop {
        let before = shrinking.size();
        shrinking.incarnations();
        shrinking.writers();
        shrinking.options();
        shrinking.actions();
        if shrinking.size() == before || shrinking.is_over() {
            break;
        }
    }
    shrinking.simpler();
    shrinking.best
}

struct ScenarioShrinker<S: TestedSystem> {
    best: ScenarioPlan<S>,
    checker: &'static str,
    /// Moment of the violation in the best plan so far.
    moment: ViolationMoment,
    limits: ScenarioLimits,
}

impl<S: TestedSystem> ScenarioShrinker<S> {
    fn is_over(&self) -> bool {
        self.limits
            .until
            .is_some_and(|until| Instant::now() >= until)
    }

    fn size(&self) -> usize {
        let incarnations = self.best.incarnations.iter();
        incarnations
            .flat_map(|incarnation| &incarnation.scripts)
            .map(|script| script.actions.len() + 1)
            .sum()
    }

    /// Keeps a change if the same checker still reports a violation.
    fn attempt(&mut self, change: impl FnOnce(&mut ScenarioPlan<S>)) -> bool {
        if self.is_over() {
            return false;
        }
        let mut plan = self.best.clone();
        change(&mut plan);
        let outcome = scenario::run_within(&plan, false, self.limits);
        let (Some(violation), Some(moment)) = (outcome.violation, outcome.moment) else {
            return false;
        };
        let same = violation.checker == self.checker;
        if same {
            (self.best, self.moment) = (plan, moment);
            self.cut_off();
        }
        same
    }

    /// Removes actions that had not begun at the violation, since they cannot influence it.
    fn cut_off(&mut self) {
        let ViolationMoment {
            incarnation, begun, ..
        } = &self.moment;
        self.best.incarnations.truncate(incarnation + 1);
        for (script, begun) in self.best.incarnations[*incarnation]
            .scripts
            .iter_mut()
            .zip(begun)
        {
            script.actions.truncate(*begun);
            script.rules.retain(|rule| rule.commit < *begun);
        }
    }

    /// Reduces the number of checks. The checked requests depend on request numbers, which will change. So the plan
    /// needs enough checks to find the violation, but no more, since checks take most of the time.
    fn looks(&mut self) {
        let last = self.moment.incarnation;
        self.attempt(|plan| {
            for incarnation in &mut plan.incarnations[..last] {
                incarnation.looks = NONE;
            }
        });
        for looks in [
            NONE,
            CheckSchedule::OneIn(16),
            CheckSchedule::OneIn(4),
            CheckSchedule::OneIn(1),
            ALL,
        ] {
            if self.attempt(|plan| plan.incarnations[last].looks = looks) {
                return;
            }
        }
    }

    /// Removes earlier incarnations: half of them, and smaller parts.
    fn incarnations(&mut self) {
        let mut count = self.best.incarnations.len() - 1;
        while count > 0 {
            let mut at = 0;
            while at + count < self.best.incarnations.len() {
                let gone = self.attempt(|plan| {
                    plan.incarnations.drain(at..at + count);
                });
                at += if gone { 0 } else { count };
            }
            count /= 2;
        }
    }

    /// Removes writers from all incarnations, and from single ones.
    fn writers(&mut self) {
        for writer in 0..self.best.regions.len() {
            let has = |plan: &ScenarioPlan<S>, incarnation: usize| {
                !plan.incarnations[incarnation].scripts[writer]
                    .actions
                    .is_empty()
            };
            let incarnations: Vec<usize> = (0..self.best.incarnations.len())
                .filter(|incarnation| has(&self.best, *incarnation))
                .collect();
            let gone = incarnations.is_empty()
                || self.attempt(|plan| {
                    for incarnation in &mut plan.incarnations {
                        incarnation.scripts[writer] = WriterScript::default();
                    }
                });
            if gone || incarnations.len() < 2 {
                continue;
            }
            for incarnation in incarnations {
                self.attempt(|plan| {
                    plan.incarnations[incarnation].scripts[writer] = WriterScript::default();
                });
            }
        }
    }

    fn options(&mut self) {
        self.attempt(|plan| plan.clock_leaps = None);
        self.attempt(|plan| plan.resends = None);
        for plainer in S::plainer() {
            self.attempt(|plan| plainer(&mut plan.volume));
        }
        for incarnation in 0..self.best.incarnations.len() {
            for role in S::Role::ALL {
                self.disk(incarnation, *role);
            }
            self.attempt(|plan| plan.incarnations[incarnation].stop_at = None);
            self.attempt(|plan| plan.incarnations[incarnation].abandons_at = None);
            self.attempt(|plan| plan.incarnations[incarnation].freeze = None);
            self.attempt(|plan| plan.incarnations[incarnation].replaces_at = None);
            self.attempt(|plan| plan.incarnations[incarnation].killed = false);
            for role in S::Role::ALL {
                self.attempt(|plan| plan.incarnations[incarnation].disks[*role].block = plan.block);
                self.troubles(incarnation, *role);
            }
        }
    }

    /// Removes the faults of a disk: all of them, and then single ones.
    fn disk(&mut self, incarnation: usize, role: S::Role) {
        self.attempt(|plan| {
            plan.incarnations[incarnation].disks[role].faults = DiskFaults::default();
        });
        self.attempt(|plan| plan.incarnations[incarnation].disks[role].faults.slow = None);
        self.attempt(|plan| plan.incarnations[incarnation].disks[role].faults.slow_reads = None);
        self.attempt(|plan| plan.incarnations[incarnation].disks[role].flush_takes = None);
    }

    /// Removes timed faults of a disk one by one, and changed bytes one by one.
    fn troubles(&mut self, incarnation: usize, role: S::Role) {
        let count = self.best.incarnations[incarnation].disks[role]
            .faults
            .troubles
            .len();
        for n in (0..count).rev() {
            self.attempt(|plan| {
                plan.incarnations[incarnation].disks[role]
                    .faults
                    .troubles
                    .remove(n);
            });
        }
        let count = self.best.incarnations[incarnation].disks[role]
            .faults
            .decayed
            .len();
        for n in (0..count).rev() {
            self.attempt(|plan| {
                plan.incarnations[incarnation].disks[role]
                    .faults
                    .decayed
                    .remove(n);
            });
        }
    }

    /// Removes sequences of actions, with all incarnations and writers as one list: halves first, then shorter
    /// sequences.
    fn actions(&mut self) {
        let mut run = count(&self.best).div_ceil(2);
        while run > 0 && !self.is_over() {
            let mut at = 0;
            while at < count(&self.best) && !self.is_over() {
                let rules = self.checker == "journal";
                let gone = self.attempt(|plan| drain(plan, at..at + run, rules));
                at += if gone { 0 } else { run };
            }
            run /= 2;
        }
    }

    /// Makes the plan easier to read: shorter writes, no pauses, equal latencies.
    fn simpler(&mut self) {
        for most in [2, 16, 128] {
            let fewer = |plan: &mut ScenarioPlan<S>| {
                each(plan, |action| {
                    if let ScriptAction::Batch(ranges) = action {
                        ranges.truncate(most);
                    }
                });
            };
            if self.attempt(fewer) {
                break;
            }
        }
        for most in [512, 4096, 64 << 10] {
            let most = most.max(u64::from(self.best.block));
            if self.attempt(|plan| each(plan, |action| shorten(action, most))) {
                break;
            }
        }
        self.attempt(|plan| {
            each(plan, |action| {
                if let ScriptAction::Write { fua, .. } = action {
                    *fua = false;
                }
            });
        });
        for incarnation in 0..self.best.incarnations.len() {
            self.attempt(|plan| {
                for role in S::Role::ALL {
                    plan.incarnations[incarnation].disks[*role].slowest = Duration::from_micros(50);
                }
            });
        }
    }
}

fn count<S: ScenarioSettings>(plan: &ScenarioPlan<S>) -> usize {
    let scripts = plan
        .incarnations
        .iter()
        .flat_map(|incarnation| &incarnation.scripts);
    scripts.map(|script| script.actions.len()).sum()
}

/// Removes these actions, counted over all incarnations and writers. If rules are relevant (`rules`), scripts with
/// rules stay unchanged, since rules refer to actions by number.
fn drain<S: ScenarioSettings>(plan: &mut ScenarioPlan<S>, range: Range<usize>, rules: bool) {
    let mut first = 0;
    for script in plan
        .incarnations
        .iter_mut()
        .flat_map(|incarnation| &mut incarnation.scripts)
    {
        let len = script.actions.len();
        let from = range.start.clamp(first, first + len) - first;
        let to = range.end.clamp(first, first + len) - first;
        first += len;
        let is_kept = rules && !script.rules.is_empty();
        if from < to && !is_kept {
            script.actions.drain(from..to);
            script.rules.clear();
        }
    }
}

fn each<S: ScenarioSettings>(plan: &mut ScenarioPlan<S>, change: impl Fn(&mut ScriptAction)) {
    let scripts = plan
        .incarnations
        .iter_mut()
        .flat_map(|incarnation| &mut incarnation.scripts);
    scripts
        .flat_map(|script| &mut script.actions)
        .for_each(change);
}

fn shorten(action: &mut ScriptAction, most: u64) {
    if let ScriptAction::Write { range, .. }
    | ScriptAction::Zero(range)
    | ScriptAction::Discard(range) = action
    {
        range.end = range.end.min(range.start + most);
    }
}
