//! The health of volumes, attached or not, in the words of `forebay_volume::VolumeHealth`.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::{ConnectError, ControlError, DaemonStatus, ScrubStatus};
use forebay_linux::DeviceOpenOptions;
use forebay_volume::{
    ConfigFile, DeviceSpec, HealthFinding, KindSpec, LayerStatus, OpenContext, ServiceFaults,
    SuperblockDevice, VolumeHealth, VolumeName,
};

use crate::dirs::ProgramDirs;
use crate::report::StatusReport;
use crate::run::on_ring;
use crate::witness::{self, FailedLogDir};

/// Time for a device of a detached volume to answer.
const DEVICE_PATIENCE: Duration = Duration::from_secs(2);

/// Returns the health of an attached volume.
pub(crate) fn of_report(report: &StatusReport) -> HealthFinding {
    of_parts(&report.service, &report.scrub, &report.status)
}

/// Returns the health of an attached volume with this data of its daemon and its layers.
fn of_parts(service: &DaemonStatus, scrub: &ScrubStatus, status: &LayerStatus) -> HealthFinding {
    let damage = scrub_damage(scrub);
    status.health(ServiceFaults {
        foreign_loops: &service.foreign_loops,
        cut_short: &service.cut_short,
        no_device: service.no_device.as_deref(),
        scrub_damage: damage.as_deref(),
    })
}

/// Describes the damage that the newest scrub found.
fn scrub_damage(scrub: &ScrubStatus) -> Option<String> {
    let ranges = match scrub.scrub_damaged_ranges {
        1 => "1 range".to_owned(),
        ranges => format!("{ranges} ranges"),
    };
    let first = scrub.scrub_damage.first()?;
    Some(format!(
        "the newest scrub found damage, in all {ranges}, the first in {first}; restore this data from a backup, and \
         scrub again"
    ))
}

/// Completes the report of a daemon with the health of its volume.
pub(crate) fn filled_in(mut report: StatusReport) -> StatusReport {
    let found = of_report(&report);
    report.service.health = found.health.name().into();
    report.service.health_severity = found.health.severity().name().into();
    report.service.health_detail = found.detail;
    report
}

/// Returns the health of a volume whose daemon did not report.
pub(crate) fn of_absence(
    dirs: &ProgramDirs,
    name: &VolumeName,
    absent: &ConnectError,
) -> HealthFinding {
    if let ConnectError::Failed(error) = absent {
        return of_failure(error);
    }
    let description = match dirs.description(name) {
        Ok(description) => Some(description),
        Err(mistake) if dirs.description_file(name).exists() => {
            return HealthFinding::new(VolumeHealth::Unusable, mistake.text);
        }
        // Attached by its devices alone.
        Err(_) => None,
    };
    let unserved = || match absent {
        ConnectError::Dead => HealthFinding::new(
            VolumeHealth::Dead,
            format!("the daemon of {name} ended abruptly; recover it with: forebay attach {name}"),
        ),
        _ => HealthFinding {
            health: VolumeHealth::Detached,
            detail: None,
        },
    };
    let is_dead = matches!(absent, ConnectError::Dead);
    match description {
        Some(known) if !is_dead || witness::has_record(dirs, &known) => {
            of_log(dirs, &known).unwrap_or_else(unserved)
        }
        _ => unserved(),
    }
}

/// Returns the health of a volume whose daemon failed to answer.
fn of_failure(error: &ControlError) -> HealthFinding {
    let health = match error {
        ControlError::Unreachable { source, .. }
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            VolumeHealth::Unknown
        }
        _ => VolumeHealth::Unusable,
    };
    HealthFinding::new(health, error.to_string())
}

/// Content of the log of a volume that is not attached.
enum LogContent {
    /// All data is on the data device.
    Clean,
    /// Data that the data device lacks.
    Dirty,
    /// The log is marked as failed and abandoned.
    MarkedFailed,
    /// The log was abandoned, according to a failed-log record.
    RecordedFailed,
}

/// Returns the health of a volume that is not attached by the state of its log: data may be missing on the data device,
/// or the log may have failed. `None` if the log makes no difference.
fn of_log(dirs: &ProgramDirs, description: &ConfigFile) -> Option<HealthFinding> {
    let log = description.tree.log()?.clone();
    let (kind, name) = (description.tree.kind(), &description.name);
    let path = log.to_string();
    let state = dirs.state().ok().map(Path::to_path_buf);
    let (sender, receiver) = mpsc::channel();
    // A thread that waits for a failed device is left behind.
    std::thread::spawn(move || sender.send(inspect(kind, log, state)));
    let inspected = receiver.recv_timeout(DEVICE_PATIENCE).unwrap_or_else(|_| {
        Err(CommandFailure::io(format!(
            "{path} does not answer within {DEVICE_PATIENCE:?}; check the device"
        )))
    });
    let found = match inspected {
        Ok(LogContent::Clean) => return None,
        Ok(LogContent::Dirty) => HealthFinding::new(
            VolumeHealth::Dirty,
            format!(
                "the log {path} contains data that the data device lacks; write it there with: forebay attach {name}, \
                 then forebay detach {name}"
            ),
        ),
        Ok(LogContent::MarkedFailed) => HealthFinding::new(
            VolumeHealth::Degraded,
            format!("{path} failed in use and is marked as abandoned; see: forebay check {name}"),
        ),
        Ok(LogContent::RecordedFailed) => HealthFinding::new(
            VolumeHealth::Degraded,
            format!(
                "{path} failed in use, and a failed-log record names it; see: forebay check {name}"
            ),
        ),
        Err(failure) if witness::has_record(dirs, description) => HealthFinding::new(
            VolumeHealth::Degraded,
            format!(
                "a failed-log record names the log of {name}, which cannot be read: {}",
                failure.text
            ),
        ),
        // Without permission or with a missing device, only the state is known.
        Err(failure) => HealthFinding::new(VolumeHealth::Detached, failure.text),
    };
    Some(found)
}

/// Reads the state of a log from its own device, and from the failed-log records in the directory `records`.
fn inspect(
    kind: &'static KindSpec,
    own: DeviceSpec,
    records: Option<PathBuf>,
) -> CommandResult<LogContent> {
    on_ring(move |rt, ring| async move {
        let context = OpenContext {
            rt: &rt,
            ring: &ring,
            options: DeviceOpenOptions::existing().for_reading(),
        };
        let device = SuperblockDevice::open(kind, &own, context)?;
        let identity = device.inspect().await?;
        if identity.abandoned {
            return Ok(LogContent::MarkedFailed);
        }
        let records = records.map(|dir| FailedLogDir::new(&rt, &dir));
        if let Some(records) = records
            && records.is_abandoned(&identity).await?
        {
            return Ok(LogContent::RecordedFailed);
        }
        Ok(if identity.clean {
            LogContent::Clean
        } else {
            LogContent::Dirty
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_tests::{example, example_with};

    #[test]
    fn a_report_contains_its_health_severity_and_reason() {
        let lost = filled_in(example());
        let service = &lost.service;
        assert_eq!(
            (service.health.as_str(), service.health_severity.as_str()),
            ("damaged", "critical")
        );
        assert_eq!(
            service.health_detail.as_deref(),
            Some("12B of data are lost")
        );
        let refused = filled_in(example_with(&[(
            "\"damaged_bytes\": 12",
            "\"damaged_bytes\": 0",
        )]));
        assert_eq!(refused.service.health, "blocks_refused");
        let well = filled_in(example_with(&[
            ("\"damaged_bytes\": 12", "\"damaged_bytes\": 0"),
            ("\"refused_bytes\": 4096", "\"refused_bytes\": 0"),
        ]));
        assert_eq!(
            (well.service.health.as_str(), &well.service.health_detail),
            ("ok", &None)
        );
        let cut = example_with(&[(
            "\"cut_short\": []",
            "\"cut_short\": [\"/dev/sdb is shorter\"]",
        )]);
        let cut = of_report(&cut);
        assert_eq!(cut.health, VolumeHealth::Damaged);
    }
}
