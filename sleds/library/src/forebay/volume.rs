//! A volume that serves a block device, asked on its control socket (`docs/control.md`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::ReportedDevice;
use super::runtime_dir::runtime_dir;
use super::socket::VolumeSocket;

/// Time limit of one answer.
const PATIENCE: Duration = Duration::from_millis(500);
/// Time limit of all answers about one file.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(2);
/// Time for which a volume that missed a deadline is not asked again.
const SULK: Duration = Duration::from_secs(10);
/// Maximum number of volumes that are asked about one device.
const VOLUMES_MAX: usize = 64;

/// Reported tier of a part of a volume's block device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ReportedTier {
    Home,
    Log,
    Memory,
    Nowhere,
    /// Lost, or a word of a newer program.
    #[serde(other)]
    Unknown,
}

/// A part of a volume's block device.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub(super) struct TierExtent {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) place: ReportedTier,
}

/// The fields of an answer that are used here.
#[derive(Debug, Deserialize)]
struct PlacesAnswer {
    reply: String,
    device: Option<String>,
    end: u64,
    parts: Vec<TierExtent>,
    home: Option<DeviceAnswer>,
    log: Option<DeviceAnswer>,
}

/// A device or file below a volume.
#[derive(Debug, Deserialize)]
struct DeviceAnswer {
    path: PathBuf,
    major: u32,
    minor: u32,
    inode: Option<u64>,
    start: Option<u64>,
}

impl From<DeviceAnswer> for ReportedDevice {
    fn from(on: DeviceAnswer) -> ReportedDevice {
        ReportedDevice {
            path: on.path,
            device: (on.major, on.minor),
            inode: on.inode,
            start: on.start,
        }
    }
}

/// A volume in use. Clones share its state.
#[derive(Clone, Debug)]
pub(crate) struct VolumeClient {
    socket: Arc<Path>,
    /// Time since which the volume has been silent.
    silent: Arc<Mutex<Option<Instant>>>,
}

/// A volume, and the devices below it.
pub(super) struct LocatedVolume {
    pub(super) volume: VolumeClient,
    pub(super) home: Option<ReportedDevice>,
    pub(super) log: Option<ReportedDevice>,
}

impl VolumeClient {
    /// Finds the volume that serves this block device, among the volumes whose sockets the caller may use.
    pub(super) fn find(device: &str) -> Option<LocatedVolume> {
        let device = format!("/dev/{device}");
        let deadline = Instant::now() + PATIENCE_IN_ALL;
        sockets().into_iter().take(VOLUMES_MAX).find_map(|socket| {
            let mut connection = VolumeSocket::connect(&socket).ok()?;
            let answer = ask(&mut connection, 0, 0, deadline)?;
            (answer.device.as_deref() == Some(&device)).then(|| LocatedVolume {
                volume: VolumeClient::at(&socket),
                home: answer.home.map(ReportedDevice::from),
                log: answer.log.map(ReportedDevice::from),
            })
        })
    }

    fn at(socket: &Path) -> VolumeClient {
        VolumeClient {
            socket: socket.into(),
            silent: Arc::default(),
        }
    }

    /// Returns the volume's name.
    pub(super) fn name(&self) -> &str {
        let name = self.socket.file_stem().and_then(|name| name.to_str());
        name.unwrap_or_default()
    }

    /// Returns true if the volume answers.
    pub(super) fn is_there(&self) -> bool {
        self.ask().places(0, 0).is_some()
    }

    /// Begins the questions about one file.
    pub(super) fn ask(&self) -> PlaceQuery<'_> {
        let silent = *lock(&self.silent);
        let sulks = silent.is_some_and(|since| since.elapsed() < SULK);
        PlaceQuery {
            volume: self,
            connection: if sulks {
                None
            } else {
                VolumeSocket::connect(&self.socket).ok()
            },
            deadline: Instant::now() + PATIENCE_IN_ALL,
        }
    }
}

/// Questions about one file.
pub(super) struct PlaceQuery<'v> {
    volume: &'v VolumeClient,
    connection: Option<VolumeSocket>,
    deadline: Instant,
}

impl PlaceQuery<'_> {
    /// Returns the places of bytes `start` to `end` of the block device: parts, and the end of the reported range.
    /// `None` without an answer; all further questions are then not answered either.
    pub(super) fn places(&mut self, start: u64, end: u64) -> Option<(Vec<TierExtent>, u64)> {
        let connection = self.connection.as_mut()?;
        let answer = ask(connection, start, end, self.deadline);
        if answer.is_none() {
            self.connection = None;
            *lock(&self.volume.silent) = Some(Instant::now());
        }
        answer.map(|answer| (answer.parts, answer.end))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(socket: &mut VolumeSocket, start: u64, end: u64, deadline: Instant) -> Option<PlacesAnswer> {
    let question = format!("{{\"command\":\"place\",\"start\":{start},\"end\":{end}}}\n");
    let deadline = deadline.min(Instant::now() + PATIENCE);
    let answer = socket.ask(&question, deadline).ok()?;
    decode(&answer)
}

fn decode(answer: &[u8]) -> Option<PlacesAnswer> {
    let answer: PlacesAnswer = serde_json::from_slice(answer).ok()?;
    (answer.reply == "places").then_some(answer)
}

/// Decodes the parts of an answer, and the end of the reported range.
pub(super) fn parts(answer: &[u8]) -> Option<(Vec<TierExtent>, u64)> {
    decode(answer).map(|answer| (answer.parts, answer.end))
}

/// Returns the control sockets of volumes in use, sorted by name. Looks in the directories that Forebay's programs use.
fn sockets() -> Vec<PathBuf> {
    let entries = runtime_dir().and_then(|dir| fs::read_dir(dir).ok());
    let files = entries.into_iter().flatten().flatten();
    let mut sockets: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    sockets.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.ends_with(".sock") && !name.ends_with(".nbd.sock"))
    });
    sockets.sort();
    sockets
}

#[cfg(test)]
#[path = "volume_tests.rs"]
mod tests;
