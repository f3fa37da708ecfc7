//! `forebay status --check`: the health of volumes as a plugin for Nagios and compatible monitoring systems. One line,
//! and an exit code from 0 to 3.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_volume::{HealthFinding, HealthSeverity, VolumeHealth, VolumeName};

use crate::client;
use crate::dirs::ProgramDirs;
use crate::health;
use crate::report::StatusReport;

/// Time for all daemons and devices to answer. Monitoring systems end plugins after 10 seconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a daemon to answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(3);
/// Directory with the enabled services of the system.
const ENABLED_SERVICES: &str = "/etc/systemd/system";

/// Prints the line, and returns the exit code.
pub(super) fn run(name: Option<&VolumeName>) -> u8 {
    let checked = ProgramDirs::new().and_then(|dirs| checked(&dirs, name));
    let (severity, line) = match checked {
        Ok(volumes) => line(&volumes),
        Err(failure) => (HealthSeverity::Unknown, failure.text),
    };
    let word = severity.name().to_uppercase();
    result_line!("FOREBAY {word} - {line}");
    severity as u8
}

/// A volume and its health.
struct CheckedVolume {
    name: VolumeName,
    severity: HealthSeverity,
    finding: HealthFinding,
    /// Dirty bytes, and the used share of the log or the capacity.
    figures: Option<VolumeFigures>,
}

struct VolumeFigures {
    dirty_bytes: u64,
    used_share: Option<f64>,
}

fn checked(dirs: &ProgramDirs, name: Option<&VolumeName>) -> CommandResult<Vec<CheckedVolume>> {
    let names: BTreeSet<VolumeName> = match name {
        Some(name) if !is_known(dirs, name) => {
            return Err(CommandFailure::not_found(format!(
                "no volume {name}: no attached volume and no configuration file has that name; see `forebay list`"
            )));
        }
        Some(name) => [name.clone()].into(),
        None => {
            let mut names: BTreeSet<VolumeName> = dirs.attached_names().into_iter().collect();
            names.extend(enabled_names(Path::new(ENABLED_SERVICES)));
            names
        }
    };
    if names.is_empty() {
        return Err(CommandFailure::not_found(
            "no volume is attached, and no service of a volume is enabled",
        ));
    }
    let (sender, receiver) = mpsc::channel();
    for name in &names {
        let (dirs, name, sender) = (dirs.clone(), name.clone(), sender.clone());
        // A thread that waits for a failed device is left behind.
        std::thread::spawn(move || sender.send(check(&dirs, name)));
    }
    drop(sender);
    let deadline = Instant::now() + PATIENCE;
    let mut volumes = Vec::new();
    let mut missing = names;
    while let Ok(volume) = receiver.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        missing.remove(&volume.name);
        volumes.push(volume);
    }
    volumes.extend(missing.into_iter().map(|name| CheckedVolume {
        name,
        severity: HealthSeverity::Critical,
        finding: HealthFinding::new(
            VolumeHealth::Unusable,
            format!("no answer within {PATIENCE:?}"),
        ),
        figures: None,
    }));
    volumes.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(volumes)
}

fn is_known(dirs: &ProgramDirs, name: &VolumeName) -> bool {
    dirs.description_file(name).exists() || dirs.attached_names().contains(name)
}

fn check(dirs: &ProgramDirs, name: VolumeName) -> CheckedVolume {
    let (finding, report) = match client::report_within(dirs, &name, ANSWER_PATIENCE) {
        Ok(report) => (health::of_report(&report), Some(report)),
        Err(absent) => (health::of_absence(dirs, &name, &absent), None),
    };
    // A volume that is checked is expected to be attached.
    let severity = match finding.health {
        VolumeHealth::Detached | VolumeHealth::Dirty => HealthSeverity::Critical,
        health => health.severity(),
    };
    CheckedVolume {
        name,
        severity,
        finding,
        figures: report.as_ref().map(figures),
    }
}

fn figures(report: &StatusReport) -> VolumeFigures {
    let summary = report.status.summary();
    VolumeFigures {
        dirty_bytes: summary.dirty_bytes,
        used_share: summary.used_share,
    }
}

/// Returns the names of volumes whose systemd service is enabled: links in the directories of targets.
fn enabled_names(services: &Path) -> BTreeSet<VolumeName> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let targets = entries(services).filter(|entry| {
        let name = entry.file_name().into_string().unwrap_or_default();
        [".wants", ".requires", ".upholds"]
            .iter()
            .any(|kind| name.ends_with(kind))
    });
    let links = targets.flat_map(|target| entries(&target.path()));
    let names = links.filter_map(|link| {
        let name = link.file_name().into_string().ok()?;
        let unit = name.strip_suffix(".service")?;
        let volume = unit
            .strip_prefix("forebay@")
            .or_else(|| unit.strip_prefix("forebay-mount@"));
        volume?.parse().ok()
    });
    names.collect()
}

/// Returns the worst severity, and the text with performance data.
fn line(volumes: &[CheckedVolume]) -> (HealthSeverity, String) {
    // An unknown state must not hide a fault that is known.
    let rank = |severity: HealthSeverity| match severity {
        HealthSeverity::Ok => 0,
        HealthSeverity::Unknown => 1,
        HealthSeverity::Warning => 2,
        HealthSeverity::Critical => 3,
    };
    let worst = volumes.iter().map(|volume| volume.severity);
    let worst = worst
        .max_by_key(|severity| rank(*severity))
        .unwrap_or(HealthSeverity::Unknown);
    let mut faulty: Vec<&CheckedVolume> = volumes
        .iter()
        .filter(|volume| volume.severity != HealthSeverity::Ok)
        .collect();
    faulty.sort_by_key(|volume| std::cmp::Reverse(rank(volume.severity)));
    let text = if faulty.is_empty() {
        let names: Vec<_> = volumes.iter().map(|volume| volume.name.as_str()).collect();
        format!("{} ok", names.join(", "))
    } else {
        let texts = faulty.iter().map(|volume| match &volume.finding.detail {
            Some(detail) => format!("{} {}: {detail}", volume.name, volume.finding.health),
            None => format!("{} {}", volume.name, volume.finding.health),
        });
        texts.collect::<Vec<_>>().join("; ")
    };
    // The bar separates the text from the performance data.
    let text = text.replace('|', "/").replace(['\n', '\r'], " ");
    let data: Vec<String> = volumes.iter().filter_map(performance_data).collect();
    if data.is_empty() {
        return (worst, text);
    }
    (worst, format!("{text}|{}", data.join(" ")))
}

fn performance_data(volume: &CheckedVolume) -> Option<String> {
    let (name, figures) = (&volume.name, volume.figures.as_ref()?);
    let mut data = format!("{name}_dirty={}B;;;0", figures.dirty_bytes);
    if let Some(share) = figures.used_share {
        data.push_str(&format!(" {name}_used={:.1}%;;;0;100", share * 100.0));
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(name: &str, health: VolumeHealth, detail: &str) -> CheckedVolume {
        CheckedVolume {
            name: name.parse().unwrap(),
            severity: health.severity(),
            finding: HealthFinding::new(health, detail),
            figures: Some(VolumeFigures {
                dirty_bytes: 4096,
                used_share: (name == "a").then_some(0.25),
            }),
        }
    }

    #[test]
    fn the_line_names_the_worst_volume_first_and_has_performance_data() {
        let well = [
            volume("a", VolumeHealth::Ok, ""),
            volume("b", VolumeHealth::Ok, ""),
        ];
        let data = "|a_dirty=4096B;;;0 a_used=25.0%;;;0;100 b_dirty=4096B;;;0";
        assert_eq!(line(&well), (HealthSeverity::Ok, format!("a, b ok{data}")));
        let ill = [
            volume("a", VolumeHealth::NearlyFull, "remove|files\nsoon"),
            volume("b", VolumeHealth::Degraded, "no log"),
            volume("c", VolumeHealth::Unknown, "no permission"),
        ];
        let (severity, text) = line(&ill);
        assert_eq!(severity, HealthSeverity::Critical);
        let expected = "b degraded: no log; a nearly_full: remove/files soon; c unknown: no permission|a_dirty";
        assert!(text.starts_with(expected), "{text}");
    }

    #[test]
    fn volumes_with_an_enabled_service_are_expected() {
        let dir = tempfile::tempdir().unwrap();
        for path in [
            "multi-user.target.wants/forebay@archive.service",
            "remote-fs.target.requires/forebay-mount@files.service",
            "multi-user.target.wants/ssh.service",
            "multi-user.target.wants/forebay@..service",
            "forebay@other.service",
        ] {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let names: Vec<String> = enabled_names(dir.path())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["archive", "files"]);
    }
}
