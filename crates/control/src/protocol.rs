//! What is said on a control socket: one JSON object a line, both ways.
//!
//! A client sends a [`Request`]; the daemon answers with any number of [`Reply::Progress`] and then
//! exactly one other [`Reply`]. Then the client may send the next. docs/control.md has examples.

use serde::{Deserialize, Serialize};

use crate::report::Report;

/// The longest request, in bytes, with its newline.
pub const REQUEST_BYTES_MAX: usize = 4096;
/// The longest reply a client takes.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// What a client may ask of a volume's daemon.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Are you there?
    Ping {},
    /// How is it going?
    Status {},
    /// Where do bytes of the block device lie?
    Place {
        /// The first.
        start: u64,
        /// The one after the last.
        end: u64,
    },
    /// Move everything to the data device.
    Drain {
        /// Give up after so many milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
    },
    /// Count as lost what cannot be read from the log.
    GiveUp {},
    /// Take the length that the devices have now.
    Resize {
        /// Of a log-structured volume: its new length, in bytes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
    },
    /// Place data otherwise, or say how it is placed and what is known for that choice.
    Tune {
        /// A placement, or `auto`: as the volume finds best. Without it, nothing is changed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        placement: Option<String>,
    },
    /// Drain, then stop.
    Detach {
        /// Stop without draining.
        #[serde(default)]
        keep_dirty: bool,
    },
    /// Stop without draining, and leave the block device, with whoever uses it, to the next daemon.
    HandOver {},
}

/// What the daemon says.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply<S> {
    /// To a ping.
    Pong {
        /// The volume.
        name: String,
        /// The daemon.
        pid: u32,
    },
    /// To a status request.
    Status(Box<Report<S>>),
    /// Where bytes of the block device lie.
    Places(Box<Places>),
    /// While it works on a drain, give-up or detach.
    Progress(Left),
    /// It is done.
    Done {
        /// What is left in the log, in bytes: 0 but for a detach that keeps it.
        dirty_bytes: u64,
        /// What to know before the devices are used otherwise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<String>,
        /// Devices of the volume that were cut short, one sentence each: what was drained is not all there.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        incomplete: Vec<String>,
    },
    /// The volume has the length of its devices.
    Resized(ResizedTo),
    /// How the volume places data.
    Tuned(TunedTo),
    /// It is not done.
    Failed {
        /// What kind of failure.
        code: Code,
        /// What, why, and what to do.
        message: String,
    },
}

/// What became of a volume that was to take the length of its devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ResizedTo {
    /// Its length before, in bytes; of a filesystem, what fitted into it.
    pub before: u64,
    /// The same now.
    pub len: u64,
    /// What an administrator should know.
    pub notes: Vec<String>,
    /// Why the block device has not got the new length; none if it has, or there is none.
    pub device_stays: Option<String>,
}

/// How a volume places data, and what is known for that choice.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TunedTo {
    /// The placement before.
    pub before: String,
    /// The placement now.
    pub placement: String,
    /// Whether the volume changes it where another is expected to cost less.
    pub auto: bool,
    /// What is expected to cost least by what users write, and why; none before enough was written.
    pub reason: Option<String>,
    /// Looks at what users write.
    pub looks: u64,
    /// The placement that the newest looks found better by enough to change, if there is one.
    pub leaning: Option<String>,
}

/// The most parts in one answer to [`Request::Place`].
pub const PARTS_MAX: usize = 4096;

/// Where bytes of a block device lie: parts in order. What no part has is not known.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    /// The path of the block device; none if there is none.
    pub device: Option<String>,
    /// What was asked for is answered up to here; for the rest, ask again.
    pub end: u64,
    /// The parts, at most [`PARTS_MAX`].
    pub parts: Vec<Placed>,
    /// What data is on that is at home, as far as that is known.
    pub home: Option<MediumOf>,
    /// What the log is on, as far as that is known; none without a log.
    pub log: Option<MediumOf>,
}

/// A part of a block device that lies in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Placed {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Where it lies.
    pub place: PlaceOf,
}

/// Where a part of a block device lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlaceOf {
    /// On the data device.
    Home,
    /// On the log device.
    Log,
    /// In the daemon's memory.
    Memory,
    /// Nowhere: it reads as zeroes.
    Nowhere,
    /// It is lost.
    Damaged,
}

/// A device or file that a volume is on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MediumOf {
    /// Its path.
    pub path: String,
    /// Of a block device, its number; of a file, that of the filesystem's it is on.
    pub major: u32,
    /// The same.
    pub minor: u32,
    /// The file's; none of a block device.
    pub inode: Option<u64>,
    /// Where on it byte 0 of the volume lies, if all bytes lie one after the other from there on.
    pub start: Option<u64>,
}

/// What is left to do until everything is where it is to stay, and what is being done.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Left {
    /// Data that is not on the data device yet, in bytes.
    pub dirty_bytes: u64,
    /// The part of it that was written there, and is not durable there yet, in bytes.
    #[serde(default)]
    pub homeward_bytes: u64,
    /// What is still to be zeroed or discarded there, in bytes.
    #[serde(default)]
    pub marked_bytes: u64,
    /// What is being done, in a word; empty if that is not known.
    #[serde(default)]
    pub doing: String,
}

impl Left {
    /// Data that is still to be written, in bytes.
    pub fn unwritten_bytes(&self) -> u64 {
        self.dirty_bytes.saturating_sub(self.homeward_bytes)
    }

    /// All that is left to be done, in bytes.
    pub fn bytes(&self) -> u64 {
        self.unwritten_bytes() + self.marked_bytes
    }
}

/// How something failed; as numbers, the program's exit codes. Those of `check` are its own. `--help`
/// documents them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// Anything that is none of the others.
    General = 1,
    /// Wrong usage: options, sizes, names, a description with mistakes.
    Usage = 2,
    /// There is no such volume, path or log; the volume is not attached.
    NotFound = 3,
    /// Going on could lose or mix up data, or it is in use.
    Refused = 4,
    /// A device, or the system, failed.
    Io = 5,
}

/// What a daemon tells the process that started it, as one line of JSON on its standard output.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// It serves.
    Ready {
        /// The block device, or the NBD URI where there is none.
        endpoint: String,
        /// What the user should know.
        notes: Vec<String>,
    },
    /// It does not, and ends.
    Failed {
        /// The exit code.
        code: Code,
        /// Why.
        message: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_without_a_warning_is_as_it_was_before_there_were_warnings() {
        let plain = r#"{"reply":"done","dirty_bytes":0}"#;
        let done = |warning: Option<&str>| Reply::<()>::Done {
            dirty_bytes: 0,
            warning: warning.map(str::to_owned),
            incomplete: Vec::new(),
        };
        assert_eq!(
            serde_json::from_str::<Reply<()>>(plain).unwrap(),
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
    fn progress_reads_back_and_that_of_daemons_that_only_told_of_data_is_read_too() {
        let left = Left {
            dirty_bytes: 1 << 20,
            homeward_bytes: 4096,
            marked_bytes: 1 << 30,
            doing: "zeroing".into(),
        };
        assert_eq!(left.bytes(), (1 << 20) - 4096 + (1 << 30));
        let reply = Reply::<()>::Progress(left);
        let text = serde_json::to_string(&reply).unwrap();
        let documented = r#"{"reply":"progress","dirty_bytes":1048576,"homeward_bytes":4096,"marked_bytes":1073741824,"doing":"zeroing"}"#;
        assert_eq!(text, documented);
        assert_eq!(serde_json::from_str::<Reply<()>>(&text).unwrap(), reply);
        let old = r#"{"reply":"progress","dirty_bytes":7}"#;
        let read = serde_json::from_str::<Reply<()>>(old).unwrap();
        let data = Left {
            dirty_bytes: 7,
            ..Left::default()
        };
        assert_eq!(read, Reply::Progress(data));
    }

    #[test]
    fn places_read_back_and_as_many_as_there_may_be_are_no_longer_than_a_client_takes() {
        let place = |place| Placed {
            start: u64::MAX,
            end: u64::MAX,
            place,
        };
        let medium = MediumOf {
            path: "\"".repeat(4095),
            major: u32::MAX,
            minor: u32::MAX,
            inode: Some(u64::MAX),
            start: Some(u64::MAX),
        };
        let places = Places {
            device: Some("/dev/loop0".into()),
            end: u64::MAX,
            parts: vec![place(PlaceOf::Nowhere); PARTS_MAX],
            home: Some(medium.clone()),
            log: Some(medium),
        };
        let reply = Reply::<()>::Places(Box::new(places));
        let text = serde_json::to_string(&reply).unwrap();
        assert!(text.len() < REPLY_BYTES_MAX);
        assert_eq!(serde_json::from_str::<Reply<()>>(&text).unwrap(), reply);
    }

    #[test]
    fn requests_are_read_as_documented() {
        let read = |text: &str| serde_json::from_str::<Request>(text);
        assert_eq!(read(r#"{"command":"ping"}"#).unwrap(), Request::Ping {});
        assert_eq!(
            read(r#"{"command":"place","start":0,"end":4096}"#).unwrap(),
            Request::Place {
                start: 0,
                end: 4096
            }
        );
        assert_eq!(
            read(r#"{"command":"drain"}"#).unwrap(),
            Request::Drain { timeout_ms: None }
        );
        assert_eq!(
            read(r#"{"command":"give-up"}"#).unwrap(),
            Request::GiveUp {}
        );
        assert_eq!(
            read(r#"{"command":"detach","keep_dirty":true}"#).unwrap(),
            Request::Detach { keep_dirty: true }
        );
        assert_eq!(
            read(r#"{"command":"hand-over"}"#).unwrap(),
            Request::HandOver {}
        );
        assert_eq!(
            read(r#"{"command":"resize","size":1048576}"#).unwrap(),
            Request::Resize {
                size: Some(1 << 20)
            }
        );
        assert_eq!(
            read(r#"{"command":"tune","placement":"auto"}"#).unwrap(),
            Request::Tune {
                placement: Some("auto".into())
            }
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
