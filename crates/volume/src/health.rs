//! The health of a volume: one word, its severity, and the reason.
//!
//! This is the only definition of health. `list`, `status`, the metrics and the status page show it. A kind derives its
//! part from its mode and its counters ([`StatusSummary::health`](crate::StatusSummary)). [`LayerStatus::health`] adds
//! the layers below and the faults that the daemon found.

use std::fmt;

/// Severity of a volume's health, with the exit codes of monitoring plugins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HealthSeverity {
    /// No action is necessary.
    Ok = 0,
    /// Plan an action.
    Warning = 1,
    /// Act now.
    Critical = 2,
    /// The health cannot be determined.
    Unknown = 3,
}

impl HealthSeverity {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            HealthSeverity::Ok => "ok",
            HealthSeverity::Warning => "warning",
            HealthSeverity::Critical => "critical",
            HealthSeverity::Unknown => "unknown",
        }
    }
}

/// Health of a volume, from the least to the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum VolumeHealth {
    /// The volume works.
    Ok,
    /// No daemon serves the volume, and its data is in its final place.
    Detached,
    /// The volume is detached, and its log contains data that the data device lacks.
    Dirty,
    /// The block device, or the link to it, is missing.
    NoDevice,
    /// 90 % of the capacity is in use.
    NearlyFull,
    /// The data device refuses some blocks, which stay in the log.
    BlocksRefused,
    /// The capacity is used up, and writes to new places fail.
    Full,
    /// The log failed, and writes go to the data device.
    Degraded,
    /// Data in the log cannot be read now.
    LogFailing,
    /// The data device fails, and dirty data stays in the log.
    DataFailing,
    /// The device of the volume failed.
    Failed,
    /// Data of the volume is lost.
    Damaged,
    /// Another program has access to a device of the volume.
    ForeignUse,
    /// The daemon was killed.
    Dead,
    /// The daemon does not answer, or the configuration file has mistakes.
    Unusable,
    /// The user may not ask the daemon.
    Unknown,
}

impl VolumeHealth {
    /// All values.
    pub const ALL: [VolumeHealth; 16] = [
        VolumeHealth::Ok,
        VolumeHealth::Detached,
        VolumeHealth::Dirty,
        VolumeHealth::NoDevice,
        VolumeHealth::NearlyFull,
        VolumeHealth::BlocksRefused,
        VolumeHealth::Full,
        VolumeHealth::Degraded,
        VolumeHealth::LogFailing,
        VolumeHealth::DataFailing,
        VolumeHealth::Failed,
        VolumeHealth::Damaged,
        VolumeHealth::ForeignUse,
        VolumeHealth::Dead,
        VolumeHealth::Unusable,
        VolumeHealth::Unknown,
    ];

    /// Returns the values that an attached volume can have.
    pub fn of_attached() -> impl Iterator<Item = VolumeHealth> {
        VolumeHealth::ALL
            .into_iter()
            .filter(|health| !health.is_of_absence())
    }

    /// Returns true for the health of a volume whose daemon does not report.
    fn is_of_absence(self) -> bool {
        matches!(
            self,
            VolumeHealth::Detached
                | VolumeHealth::Dirty
                | VolumeHealth::Dead
                | VolumeHealth::Unusable
                | VolumeHealth::Unknown
        )
    }

    /// Returns the name, as in JSON and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            VolumeHealth::Ok => "ok",
            VolumeHealth::Detached => "detached",
            VolumeHealth::Dirty => "dirty",
            VolumeHealth::NoDevice => "no_device",
            VolumeHealth::NearlyFull => "nearly_full",
            VolumeHealth::BlocksRefused => "blocks_refused",
            VolumeHealth::Full => "full",
            VolumeHealth::Degraded => "degraded",
            VolumeHealth::LogFailing => "log_failing",
            VolumeHealth::DataFailing => "data_failing",
            VolumeHealth::Failed => "failed",
            VolumeHealth::Damaged => "damaged",
            VolumeHealth::ForeignUse => "foreign_use",
            VolumeHealth::Dead => "dead",
            VolumeHealth::Unusable => "unusable",
            VolumeHealth::Unknown => "unknown",
        }
    }

    /// Returns the severity.
    pub fn severity(self) -> HealthSeverity {
        match self {
            VolumeHealth::Ok | VolumeHealth::Detached => HealthSeverity::Ok,
            VolumeHealth::Dirty
            | VolumeHealth::NoDevice
            | VolumeHealth::NearlyFull
            | VolumeHealth::BlocksRefused => HealthSeverity::Warning,
            VolumeHealth::Full
            | VolumeHealth::Degraded
            | VolumeHealth::LogFailing
            | VolumeHealth::DataFailing
            | VolumeHealth::Failed
            | VolumeHealth::Damaged
            | VolumeHealth::ForeignUse
            | VolumeHealth::Dead
            | VolumeHealth::Unusable => HealthSeverity::Critical,
            VolumeHealth::Unknown => HealthSeverity::Unknown,
        }
    }
}

impl fmt::Display for VolumeHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Health of a volume, with its reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HealthFinding {
    /// The health.
    pub health: VolumeHealth,
    /// The reason. `None` if the volume works.
    pub detail: Option<String>,
}

impl HealthFinding {
    /// Returns a finding with its reason.
    pub fn new(health: VolumeHealth, detail: impl Into<String>) -> HealthFinding {
        HealthFinding {
            health,
            detail: Some(detail.into()),
        }
    }
}

/// Faults that the serving process found around the layers.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceFaults<'a> {
    /// Descriptions of other programs that have access to a device of the volume.
    pub foreign_loops: &'a [String],
    /// Descriptions of devices that became shorter.
    pub cut_short: &'a [String],
    /// Reason why the block device, or the link to it, is missing.
    pub no_device: Option<&'a str>,
    /// Description of the damage that the newest scrub found.
    pub scrub_damage: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{LOG_STRUCTURED, LayerStatus, SpaceMode, SpaceStatus};

    fn volume(mode: SpaceMode) -> LayerStatus {
        let kind = LOG_STRUCTURED;
        let status = SpaceStatus {
            mode,
            mode_detail: Some("the reason".into()),
            ..SpaceStatus::default()
        };
        LayerStatus::new(kind, status)
    }

    #[test]
    fn names_are_unique_and_the_order_is_that_of_the_list() {
        let names: BTreeSet<_> = VolumeHealth::ALL.map(VolumeHealth::name).into();
        assert_eq!(names.len(), VolumeHealth::ALL.len());
        assert!(VolumeHealth::ALL.is_sorted());
        assert!(VolumeHealth::ALL.map(VolumeHealth::severity).is_sorted());
    }

    #[test]
    fn the_most_urgent_finding_of_layers_and_service_is_the_health() {
        let none = ServiceFaults::default();
        let cases = [
            (SpaceMode::Serving, VolumeHealth::Ok),
            (SpaceMode::NearlyFull, VolumeHealth::NearlyFull),
            (SpaceMode::Full, VolumeHealth::Full),
            (SpaceMode::Failed, VolumeHealth::Failed),
        ];
        for (mode, expected) in cases {
            assert_eq!(volume(mode).health(none).health, expected);
        }
        let upper = volume(SpaceMode::NearlyFull).over(volume(SpaceMode::Failed));
        assert_eq!(
            upper.health(none),
            HealthFinding::new(VolumeHealth::Failed, "the reason")
        );
        let cut_short = ["the device is shorter".to_owned()];
        let faults = ServiceFaults {
            cut_short: &cut_short,
            no_device: Some("the link is missing"),
            ..none
        };
        let found = volume(SpaceMode::Failed).health(faults);
        assert_eq!(
            found,
            HealthFinding::new(VolumeHealth::Damaged, "the device is shorter")
        );
        let faults = ServiceFaults {
            scrub_damage: Some("a scrub found damage"),
            ..none
        };
        let found = volume(SpaceMode::Serving).health(faults);
        assert_eq!(
            found,
            HealthFinding::new(VolumeHealth::Damaged, "a scrub found damage")
        );
        let faults = ServiceFaults {
            no_device: Some("the link is missing"),
            ..none
        };
        let found = volume(SpaceMode::Serving).health(faults);
        assert_eq!(found.health.severity(), HealthSeverity::Warning);
    }
}
