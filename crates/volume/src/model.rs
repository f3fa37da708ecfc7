//! The emulated disk of a path.

use std::fmt;
use std::str::FromStr;

use forebay_disk_model::disk;

/// An emulated disk as users name it: `NAME[,cache=CACHE][,queue=QUEUE][,phase=PART]`.
///
/// The model determines the time that requests take, never the data. A volume made over an emulated disk is the same
/// volume without the emulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiskModelSpec {
    name: String,
    cache: Option<DriveCacheMode>,
    queue: Option<DriveQueueOrder>,
    phase: Option<StartPhase>,
}

/// Mode of the drive's own cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DriveCacheMode {
    Off,
    Read,
    On,
    Own,
}

/// Order in which the drive serves its queued requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DriveQueueOrder {
    Fcfs,
    Elevator,
    Sptf,
}

/// Rotational position at the beginning, in millionths of a rotation: less than one rotation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct StartPhase(u32);

const TURN: u32 = 1_000_000;

impl StartPhase {
    fn parse(text: &str) -> Option<StartPhase> {
        let turns: f64 = text
            .parse()
            .ok()
            .filter(|turns| (0.0..1.0).contains(turns))?;
        Some(StartPhase(((turns * f64::from(TURN)) as u32).min(TURN - 1)))
    }

    fn turns(self) -> f64 {
        f64::from(self.0) / f64::from(TURN)
    }
}

const CACHES: [(&str, DriveCacheMode); 4] = [
    ("off", DriveCacheMode::Off),
    ("read", DriveCacheMode::Read),
    ("on", DriveCacheMode::On),
    ("own", DriveCacheMode::Own),
];
const QUEUES: [(&str, DriveQueueOrder); 3] = [
    ("fcfs", DriveQueueOrder::Fcfs),
    ("elevator", DriveQueueOrder::Elevator),
    ("sptf", DriveQueueOrder::Sptf),
];

/// Reason why a text is not the name of an emulated disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelSpecError {
    /// No disk model has this name.
    #[error("unknown disk model \"{}\"; known models: {}", .0.escape_debug(), model_names())]
    Unknown(String),
    /// An option is unknown, or its value is invalid.
    #[error(
        "\"{}\" is not an option of a disk model; use cache=off|read|on|own, queue=fcfs|elevator|sptf, or phase=0.25 \
         (a fraction of a rotation), each once", .0.escape_debug()
    )]
    Option(String),
}

fn model_names() -> String {
    let names: Vec<&str> = disk::names().map(|(name, _)| name).collect();
    names.join(", ")
}

fn text_of<T: Copy + PartialEq>(choices: &[(&'static str, T)], value: T) -> &'static str {
    let found = choices.iter().find(|(_, choice)| *choice == value);
    found.map_or("", |(text, _)| text)
}

fn set<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    if place.is_some() {
        return None;
    }
    *place = Some(value?);
    Some(())
}

fn choice<T: Copy>(choices: &[(&'static str, T)], text: &str) -> Option<T> {
    choices
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, choice)| *choice)
}

impl DiskModelSpec {
    /// Returns the name of the disk.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the disk's parameters.
    pub(crate) fn spec(&self) -> disk::DiskSpec {
        disk::named(&self.name).expect("looked up when it was read")
    }

    /// Returns the settings of the disk. By default the caches are off and the queue is first come, first served.
    pub(crate) fn options(&self) -> disk::DiskOptions {
        let explicit = |read_ahead, immediate_report| {
            disk::EnabledCaches::Explicit(disk::CacheChoice {
                immediate_report,
                read_ahead,
            })
        };
        disk::DiskOptions {
            caches: match self.cache {
                None | Some(DriveCacheMode::Off) => disk::EnabledCaches::Off,
                Some(DriveCacheMode::Read) => explicit(true, false),
                Some(DriveCacheMode::On) => explicit(true, true),
                Some(DriveCacheMode::Own) => disk::EnabledCaches::Own,
            },
            scheduling: match self.queue {
                None | Some(DriveQueueOrder::Fcfs) => disk::Scheduling::Fcfs,
                Some(DriveQueueOrder::Elevator) => disk::Scheduling::Elevator,
                Some(DriveQueueOrder::Sptf) => disk::Scheduling::Sptf,
            },
            phase: self.phase.map_or(0.0, StartPhase::turns),
        }
    }

    fn option(&mut self, text: &str) -> Option<()> {
        match text.split_once('=')? {
            ("cache", value) => set(&mut self.cache, choice(&CACHES, value)),
            ("queue", value) => set(&mut self.queue, choice(&QUEUES, value)),
            ("phase", value) => set(&mut self.phase, StartPhase::parse(value)),
            _ => None,
        }
    }
}

impl FromStr for DiskModelSpec {
    type Err = ModelSpecError;

    fn from_str(text: &str) -> Result<DiskModelSpec, ModelSpecError> {
        let mut parts = text.split(',');
        let name = parts.next().unwrap_or_default();
        if disk::named(name).is_none() {
            return Err(ModelSpecError::Unknown(name.into()));
        }
        let mut model = DiskModelSpec {
            name: name.into(),
            cache: None,
            queue: None,
            phase: None,
        };
        for part in parts {
            let known = model.option(part);
            known.ok_or_else(|| ModelSpecError::Option(part.into()))?;
        }
        Ok(model)
    }
}

impl fmt::Display for DiskModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(cache) = self.cache {
            write!(f, ",cache={}", text_of(&CACHES, cache))?;
        }
        if let Some(queue) = self.queue {
            write!(f, ",queue={}", text_of(&QUEUES, queue))?;
        }
        if let Some(phase) = self.phase {
            write!(f, ",phase={}", phase.turns())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_model_with_options_survives_print_and_parse() {
        for text in [
            "barracuda",
            "atlas10k,cache=own",
            "barracuda,cache=read,queue=sptf,phase=0.25",
            "barracuda,phase=0.1",
        ] {
            assert_eq!(text.parse::<DiskModelSpec>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn caches_are_off_and_the_queue_is_fifo_by_default() {
        let options = |text: &str| text.parse::<DiskModelSpec>().unwrap().options();
        assert_eq!(options("barracuda"), disk::DiskOptions::default());
        let set = options("barracuda,phase=0.5,queue=elevator,cache=on");
        assert_eq!(set.scheduling, disk::Scheduling::Elevator);
        assert!(
            matches!(set.caches, disk::EnabledCaches::Explicit(choice) if choice.immediate_report)
        );
        assert!((set.phase - 0.5).abs() < f64::EPSILON);
    }

    #[test]
    fn an_unknown_disk_is_refused_with_the_list_of_disks() {
        let error = "floppy".parse::<DiskModelSpec>().unwrap_err().to_string();
        assert!(error.contains("\"floppy\""), "{error}");
        for (name, _) in disk::names() {
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn an_invalid_model_option_is_named_in_the_error() {
        for option in [
            "cache",
            "cache=",
            "cache=big",
            "queue=lifo",
            "phase=1",
            "rpm=1",
            "",
        ] {
            let parsed = format!("barracuda,{option}").parse::<DiskModelSpec>();
            assert_eq!(parsed, Err(ModelSpecError::Option(option.into())));
        }
        assert!(
            "barracuda,cache=on,cache=off"
                .parse::<DiskModelSpec>()
                .is_err()
        );
    }
}
