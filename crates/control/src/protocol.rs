//! The protocol of a control socket: one JSON object per line, in both directions.
//!
//! A client sends a [`ControlRequest`]; the daemon answers with any number of [`ControlReply::Progress`] and then exactly one other
//! [`ControlReply`]. Then the client may send the next request. docs/control.md has examples.

use std::time::Duration;

use forebay_device::DataLocation;
use serde::{Deserialize, Serialize};

use crate::activity::VolumeActivity;
use crate::report::VolumeReport;
use crate::scrub::ScrubStatus;

/// The longest request, in bytes, with its newline.
pub const REQUEST_BYTES_MAX: usize = 4096;
/// The longest reply that a client accepts, in bytes.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// A request of a client to the daemon of a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ControlRequest {
    /// Requests a sign of life.
    Ping {},
    /// Requests a report.
    Status {},
    /// Requests the places of bytes of the block device.
    Place {
        /// The first byte.
        start: u64,
        /// The byte after the last.
        end: u64,
    },
    /// Moves all data to the data device.
    Drain {
        /// Time limit in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Moves all data to the data device, and holds back writes, so that the devices can be copied.
    Freeze {
        /// Time in milliseconds after which writes continue by themselves.
        #[serde(default = "freeze_ms")]
        timeout_ms: u64,
    },
    /// Lets writes continue.
    Thaw {},
    /// Declares the unreadable data in the log lost.
    #[serde(alias = "give-up")]
    DiscardUnreadable {},
    /// Adopts the present length of the devices.
    Resize {
        /// For a log-structured volume: its new length, in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// Changes the placement of data, or requests the placement and the reason for it.
    Tune {
        /// A placement, or `auto`: the volume selects the best one. Without this field, nothing changes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placement: Option<String>,
    },
    /// Replaces the log of a write cache.
    ReplaceLog(NewLogRequest),
    /// Starts a scrub, or changes the rate of the running scrub. The answer does not wait for its end.
    Scrub {
        /// Limit in bytes per second; 0 for no limit. Without this field, a new scrub has the default limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rate: Option<u64>,
    },
    /// Stops the running scrub.
    StopScrub {},
    /// Drains, then stops.
    Detach {
        /// Stop without draining.
        #[serde(default)]
        keep_dirty: bool,
    },
    /// Stops without draining, and leaves the block device and its users to the next daemon.
    HandOver {},
}

/// The log that a write cache gets.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewLogRequest {
    /// The device, as an absolute path or a part of it.
    pub log: String,
    /// Bytes in a segment of the log. Without this field, the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segment: Option<u64>,
    /// Leaves a log file sparse.
    #[serde(default)]
    pub sparse: bool,
    /// Overwrites a device whose content is recognised.
    #[serde(default)]
    pub force: bool,
}

/// Time limit of a freeze without another limit.
pub const FREEZE_LIMIT: Duration = Duration::from_secs(60);

fn freeze_ms() -> u64 {
    FREEZE_LIMIT.as_millis() as u64
}

/// A reply of the daemon.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum ControlReply<S> {
    /// Answers a ping.
    Pong {
        /// The name of the volume.
        name: String,
        /// The process id of the daemon.
        pid: u32,
    },
    /// Answers a status request.
    Status(Box<VolumeReport<S>>),
    /// The places of bytes of the block device.
    Places(Box<PlaceReply>),
    /// Progress of a drain, freeze, discard-unreadable, resize, tune, replace-log, detach or hand-over.
    Progress(RemainingWork),
    /// The request has succeeded.
    Done {
        /// Bytes left in the log: 0 except after a detach that keeps them.
        dirty_bytes: u64,
        /// A warning about other uses of the devices.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
        /// Devices of the volume that were truncated, as one sentence each: the drained data is not complete.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        incomplete: Vec<String>,
    },
    /// The volume has the length of its devices.
    Resized(ResizeReply),
    /// The placement of the volume.
    Tuned(TuneReply),
    /// The log of the volume was replaced.
    LogReplaced(LogReplacedReply),
    /// The state of the newest scrub.
    Scrub(Box<ScrubStatus>),
    /// The request has failed.
    Failed {
        /// The kind of failure.
        code: FailureCode,
        /// The event, its reason, and a remedy.
        message: String,
    },
}

impl<S> ControlReply<S> {
    /// Returns the name of the reply, as in JSON.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            ControlReply::Pong { .. } => "pong",
            ControlReply::Status(_) => "status",
            ControlReply::Places(_) => "places",
            ControlReply::Progress(_) => "progress",
            ControlReply::Done { .. } => "done",
            ControlReply::Resized(_) => "resized",
            ControlReply::Tuned(_) => "tuned",
            ControlReply::LogReplaced(_) => "log-replaced",
            ControlReply::Scrub(_) => "scrub",
            ControlReply::Failed { .. } => "failed",
        }
    }
}

/// Result of adopting the length of the devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResizeReply {
    /// The former length, in bytes; for a filesystem, its former capacity.
    pub before: u64,
    /// The present length or capacity, in bytes.
    pub len: u64,
    /// Notes for the administrator.
    pub notes: Vec<String>,
    /// The reason why the block device keeps its former length. `None` if it has the new length, or the volume has no
    /// block device.
    pub device_stays: Option<String>,
}

/// The placement of a volume, and the reason for it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TuneReply {
    /// The former placement.
    pub before: String,
    /// The present placement.
    pub placement: String,
    /// True if the volume changes the placement when another is expected to cost less.
    pub auto: bool,
    /// The placement expected to cost least for the clients' writes, and the reason. `None` before enough was written.
    pub reason: Option<String>,
    /// Number of evaluations of the clients' writes.
    pub looks: u64,
    /// The placement that the last evaluations found better by a sufficient margin, if any.
    pub leaning: Option<String>,
}

/// Result of replacing a log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogReplacedReply {
    /// The former log device, as given.
    pub former: String,
    /// The present log device, as the configuration file names it.
    pub log: String,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

/// Maximum number of extents in an answer to [`ControlRequest::Place`].
pub const PARTS_MAX: usize = 4096;

/// The places of bytes of a block device, as extents in order. The place of bytes outside the extents is unknown.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PlaceReply {
    /// The path of the block device; `None` if the volume has no block device.
    pub device: Option<String>,
    /// End of the answered range. Request the rest separately.
    pub end: u64,
    /// The extents, at most [`PARTS_MAX`].
    pub parts: Vec<PlacedExtent>,
    /// The data device, if known.
    pub home: Option<BackingDevice>,
    /// The log device, if known; `None` for a volume without a log.
    pub log: Option<BackingDevice>,
}

/// An extent of a block device in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlacedExtent {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// The place of the extent.
    pub place: DataLocation,
}

/// A device or file that holds a volume.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct BackingDevice {
    /// The path.
    pub path: String,
    /// The major number of the block device, or of the filesystem's device for a file.
    pub major: u32,
    /// The minor number of the block device, or of the filesystem's device for a file.
    pub minor: u32,
    /// The inode number of the file; `None` for a block device.
    pub inode: Option<u64>,
    /// The offset of the volume's byte 0, if all bytes of the volume follow in order from there on.
    pub start: Option<u64>,
}

/// The remaining work until all data is in its final place, and the current activity.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct RemainingWork {
    /// Data that is not yet durable on the data device, in bytes.
    pub dirty_bytes: u64,
    /// The part of the dirty data that was written to the data device and is not yet durable there, in bytes.
    #[serde(default)]
    pub destage_unflushed_bytes: u64,
    /// Ranges of the data device that must still be zeroed or discarded, in bytes.
    #[serde(default)]
    pub pending_discard_bytes: u64,
    /// The current activity.
    #[serde(default)]
    pub doing: VolumeActivity,
}

impl RemainingWork {
    /// Returns the data that is still to be written, in bytes.
    pub fn unwritten_bytes(&self) -> u64 {
        self.dirty_bytes
            .saturating_sub(self.destage_unflushed_bytes)
    }

    /// Returns all remaining work, in bytes.
    pub fn bytes(&self) -> u64 {
        self.unwritten_bytes() + self.pending_discard_bytes
    }
}

/// The kinds of failures; as numbers, the exit codes of the program. `check` has its own exit codes. `--help` documents
/// them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailureCode {
    /// Any other failure.
    General = 1,
    /// Wrong usage: options, sizes, names, mistakes in a configuration file.
    Usage = 2,
    /// The volume, path or log does not exist, or the volume is not attached.
    NotFound = 3,
    /// The volume or device is in use, or the command could lose or mix up data.
    Refused = 4,
    /// A device, or the system, failed.
    Io = 5,
}

/// The message of a daemon to its parent process, as one line of JSON on its standard output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DaemonReadiness {
    /// The daemon serves the volume.
    Ready {
        /// The block device, or the NBD URI of a volume without one.
        endpoint: String,
        /// Notes for the user.
        notes: Vec<String>,
    },
    /// The daemon has failed, and exits.
    Failed {
        /// The exit code.
        code: FailureCode,
        /// The reason.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_a_warning_has_the_older_format() {
        let plain = r#"{"reply":"done","dirty_bytes":0}"#;
        let done = |warning: Option<&str>| ControlReply::<()>::Done {
            dirty_bytes: 0,
            warning: warning.map(str::to_owned),
            incomplete: Vec::new(),
        };
        assert_eq!(
            serde_json::from_str::<ControlReply<()>>(plain).unwrap(),
            done(None)
        );
        assert_eq!(serde_json::to_string(&done(None)).unwrap(), plain);
        let warned = r#"{"reply":"done","dirty_bytes":0,"warning":"erase it"}"#;
        assert_eq!(
            serde_json::to_string(&done(Some("erase it"))).unwrap(),
            warned
        );
    }

    #[test]
    fn the_name_of_a_reply_is_that_in_json() {
        for text in [
            r#"{"reply":"pong","name":"v","pid":7}"#,
            r#"{"reply":"progress","dirty_bytes":7}"#,
            r#"{"reply":"done","dirty_bytes":0}"#,
            r#"{"reply":"resized","before":1,"len":2,"notes":[],"device_stays":null}"#,
            r#"{"reply":"failed","code":"io","message":"no"}"#,
        ] {
            let reply: ControlReply<()> = serde_json::from_str(text).unwrap();
            let begin = format!("{{\"reply\":\"{}\",", reply.name());
            assert!(text.starts_with(&begin), "{text}: {begin}");
        }
    }

    #[test]
    fn progress_parses_back_and_the_older_format_with_data_only_is_accepted() {
        let left = RemainingWork {
            dirty_bytes: 65536,
            destage_unflushed_bytes: 4096,
            pending_discard_bytes: 4096,
            doing: VolumeActivity::Zeroing,
        };
        assert_eq!(left.bytes(), 65536 - 4096 + 4096);
        let reply = ControlReply::<()>::Progress(left);
        let text = serde_json::to_string(&reply).unwrap();
        let documented = r#"{"reply":"progress","dirty_bytes":65536,"destage_unflushed_bytes":4096,"pending_discard_bytes":4096,"doing":"zeroing"}"#;
        assert_eq!(text, documented);
        assert_eq!(
            serde_json::from_str::<ControlReply<()>>(&text).unwrap(),
            reply
        );
        let old = r#"{"reply":"progress","dirty_bytes":7}"#;
        let read = serde_json::from_str::<ControlReply<()>>(old).unwrap();
        let data = RemainingWork {
            dirty_bytes: 7,
            ..RemainingWork::default()
        };
        assert_eq!(read, ControlReply::Progress(data));
    }

    #[test]
    fn place_replies_parse_back_and_the_longest_fits_the_limit_of_clients() {
        let place = |place| PlacedExtent {
            start: u64::MAX,
            end: u64::MAX,
            place,
        };
        let medium = BackingDevice {
            path: "\"".repeat(4095),
            major: u32::MAX,
            minor: u32::MAX,
            inode: Some(u64::MAX),
            start: Some(u64::MAX),
        };
        let places = PlaceReply {
            device: Some("/dev/loop0".into()),
            end: u64::MAX,
            parts: vec![place(DataLocation::Zero); PARTS_MAX],
            home: Some(medium.clone()),
            log: Some(medium),
        };
        let reply = ControlReply::<()>::Places(Box::new(places));
        let text = serde_json::to_string(&reply).unwrap();
        assert!(text.len() < REPLY_BYTES_MAX);
        assert_eq!(
            serde_json::from_str::<ControlReply<()>>(&text).unwrap(),
            reply
        );
    }

    #[test]
    fn requests_parse_as_documented() {
        let read = |text: &str| serde_json::from_str::<ControlRequest>(text);
        assert_eq!(
            read(r#"{"command":"ping"}"#).unwrap(),
            ControlRequest::Ping {}
        );
        assert_eq!(
            read(r#"{"command":"place","start":0,"end":4096}"#).unwrap(),
            ControlRequest::Place {
                start: 0,
                end: 4096
            }
        );
        assert_eq!(
            read(r#"{"command":"drain"}"#).unwrap(),
            ControlRequest::Drain { timeout_ms: None }
        );
        assert_eq!(
            read(r#"{"command":"freeze"}"#).unwrap(),
            ControlRequest::Freeze { timeout_ms: 60_000 }
        );
        assert_eq!(
            read(r#"{"command":"thaw"}"#).unwrap(),
            ControlRequest::Thaw {}
        );
        assert_eq!(
            read(r#"{"command":"discard-unreadable"}"#).unwrap(),
            ControlRequest::DiscardUnreadable {}
        );
        assert_eq!(
            read(r#"{"command":"give-up"}"#).unwrap(),
            ControlRequest::DiscardUnreadable {},
            "the former name"
        );
        assert_eq!(
            read(r#"{"command":"detach","keep_dirty":true}"#).unwrap(),
            ControlRequest::Detach { keep_dirty: true }
        );
        assert_eq!(
            read(r#"{"command":"hand-over"}"#).unwrap(),
            ControlRequest::HandOver {}
        );
        assert_eq!(
            read(r#"{"command":"resize","size":1048576}"#).unwrap(),
            ControlRequest::Resize {
                size: Some(1 << 20)
            }
        );
        assert_eq!(
            read(r#"{"command":"tune","placement":"auto"}"#).unwrap(),
            ControlRequest::Tune {
                placement: Some("auto".into())
            }
        );
        assert_eq!(
            read(r#"{"command":"replace-log","log":"/dev/sdd"}"#).unwrap(),
            ControlRequest::ReplaceLog(NewLogRequest {
                log: "/dev/sdd".into(),
                segment: None,
                sparse: false,
                force: false
            })
        );
        assert_eq!(
            read(r#"{"command":"scrub","rate":0}"#).unwrap(),
            ControlRequest::Scrub { rate: Some(0) }
        );
        for text in [
            "",
            "{}",
            "[]",
            r#"{"command":"format"}"#,
            r#"{"command":"ping","extra":1}"#,
            r#"{"command":"drain","timeout_ms":-1}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
