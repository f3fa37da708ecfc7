//! `forebay list`: lists the volumes that are attached or have a configuration file.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_units::ByteLen;
use forebay_volume::{VolumeHealth, VolumeName};
use serde::Serialize;

use crate::args::JsonArgs;
use crate::client;
use crate::dirs::ProgramDirs;
use crate::health;
use crate::link;
use crate::report::StatusReport;
use crate::waiting;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_control::ConnectError;

/// One volume, as `--json` prints it; docs/status.md describes the fields.
#[derive(Serialize, Debug)]
struct ListedVolume {
    name: String,
    state: &'static str,
    health: &'static str,
    health_severity: &'static str,
    health_detail: Option<String>,
    detail: Option<String>,
    device: Option<String>,
    nbd_uri: Option<String>,
    mounted: Option<String>,
    data: Option<String>,
    log: Option<String>,
    dirty_bytes: Option<u64>,
}

/// Time for a daemon to answer. A status request never waits for a device.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) fn run(args: &JsonArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    link::remove_stale(&dirs);
    let mut names: BTreeSet<VolumeName> = dirs.described_names().into_iter().collect();
    names.extend(dirs.attached_names());
    // One thread per volume, so that the timeouts of unresponsive daemons run in parallel.
    let items: Vec<ListedVolume> = std::thread::scope(|scope| {
        let dirs = &dirs;
        let asked: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || item(dirs, name)))
            .collect();
        let items = asked.into_iter().map(std::thread::ScopedJoinHandle::join);
        items.map(|item| item.expect("no panic")).collect()
    });
    if args.json {
        let json = serde_json::to_string_pretty(&items).map_err(CommandFailure::general)?;
        result_line!("{json}");
        return Ok(());
    }
    if items.is_empty() {
        result_line!("no volumes; make one with `forebay create`");
        return Ok(());
    }
    let width = items
        .iter()
        .map(|item| item.name.len())
        .max()
        .unwrap_or(0)
        .max(4);
    let endpoint = |item: &ListedVolume| {
        let nbd = item.nbd_uri.as_ref().map(|_| "nbd".to_owned());
        let device = item.device.clone().or(item.mounted.clone()).or(nbd);
        device.unwrap_or_else(|| "-".into())
    };
    let endpoint_width = items.iter().map(|item| endpoint(item).chars().count());
    let endpoint_width = endpoint_width.max().unwrap_or(0).max(12);
    result_line!(
        "{:width$}  {:8}  {:14}  {:endpoint_width$}  {:>9}  DATA < LOG",
        "NAME",
        "STATE",
        "HEALTH",
        "DEVICE",
        "DIRTY"
    );
    for item in items {
        let dirty = item.dirty_bytes.map(|n| ByteLen(n).to_string());
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        let endpoint = endpoint(&item);
        let detail = match item.detail {
            Some(detail) => detail,
            None => match item.log {
                Some(log) => format!("{} < {log}", or_dash(item.data)),
                None => or_dash(item.data),
            },
        };
        result_line!(
            "{:width$}  {:8}  {:14}  {endpoint:endpoint_width$}  {:>9}  {detail}",
            item.name,
            item.state,
            item.health,
            or_dash(dirty),
        );
    }
    Ok(())
}

fn item(dirs: &ProgramDirs, name: &VolumeName) -> ListedVolume {
    let mut item = ListedVolume {
        name: name.to_string(),
        state: "detached",
        health: "",
        health_severity: "",
        health_detail: None,
        detail: None,
        device: None,
        nbd_uri: None,
        mounted: None,
        data: None,
        log: None,
        dirty_bytes: None,
    };
    let mut description = None;
    match dirs.description(name) {
        Ok(known) => {
            item.data = Some(known.tree.data().to_string());
            item.log = known.tree.log().map(ToString::to_string);
            description = Some(known);
        }
        Err(failure) if dirs.description_file(name).exists() => {
            item.state = "unusable";
            item.detail = Some(failure.text);
        }
        // Attached by its log device alone.
        Err(_) => {}
    }
    let found = match client::report_within(dirs, name, PATIENCE) {
        Ok(report) => {
            let found = health::of_report(&report);
            item.attached(report);
            found
        }
        Err(absent) => {
            let found = health::of_absence(dirs, name, &absent);
            match absent {
                ConnectError::NotAttached => {}
                ConnectError::Dead => item.state = "dead",
                ConnectError::Failed(failure) => {
                    item.state = "unusable";
                    item.detail = Some(CommandFailure::from(failure).text);
                }
            }
            found
        }
    };
    item.health = found.health.name();
    item.health_severity = found.health.severity().name();
    item.health_detail = found.detail;
    if !matches!(item.state, "detached" | "dead") {
        return item;
    }
    if found.health == VolumeHealth::Degraded {
        item.detail.clone_from(&item.health_detail);
    }
    let volume = description.and_then(|known| known.volume);
    if let Some(device) = volume.as_deref().and_then(waiting::device) {
        let waits = device.display();
        item.detail = Some(format!("{waits} waits for: forebay attach {name}"));
        let named = link::of(dirs, name, &device).unwrap_or(device);
        item.device = Some(named.display().to_string());
    }
    item
}

impl ListedVolume {
    fn attached(&mut self, report: StatusReport) {
        self.state = "attached";
        self.detail = None;
        self.dirty_bytes = Some(report.status.summary().dirty_bytes);
        self.data = Some(report.service.data);
        self.log = report.service.log;
        self.device = report.service.device;
        self.nbd_uri = report.service.nbd_uri;
        self.mounted = report.service.mounted;
    }
}
