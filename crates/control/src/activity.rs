//! The current activity of a volume, as its daemon reports it.

use serde::{Deserialize, Serialize};

/// The current activity of a volume. In JSON a word, and an unknown word is accepted: the daemon may be newer than its
/// client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VolumeActivity {
    /// Nothing is to be done, or destaging waits for clients to be idle.
    Resting,
    /// Reading data from the log.
    Reading,
    /// Zeroing ranges of the data device that clients zeroed or unmapped.
    Zeroing,
    /// Discarding ranges of the data device that clients discarded.
    Discarding,
    /// Writing data to the data device.
    Writing,
    /// Making destaged data durable, before the space in the log is freed.
    Flushing,
    /// Trying again to move data, since the data device fails.
    Retrying,
    /// Waiting until the kernel has written back its cached data.
    #[serde(rename = "writing back")]
    WritingBack,
    /// Making all data durable, and closing the volume.
    Closing,
    /// Adopting the length of the devices.
    Resizing,
    /// Changing the placement of data.
    #[serde(rename = "changing the placement")]
    ChangingPlacement,
    /// Replacing the log.
    #[serde(rename = "replacing the log")]
    ReplacingLog,
    /// The daemon has not reported the activity, or by a word that this program does not know.
    #[default]
    #[serde(rename = "", other)]
    Unknown,
}

impl VolumeActivity {
    /// Returns the word for the activity, as in JSON; an empty word if the activity is unknown.
    pub fn name(self) -> &'static str {
        match self {
            VolumeActivity::Resting => "resting",
            VolumeActivity::Reading => "reading",
            VolumeActivity::Zeroing => "zeroing",
            VolumeActivity::Discarding => "discarding",
            VolumeActivity::Writing => "writing",
            VolumeActivity::Flushing => "flushing",
            VolumeActivity::Retrying => "retrying",
            VolumeActivity::WritingBack => "writing back",
            VolumeActivity::Closing => "closing",
            VolumeActivity::Resizing => "resizing",
            VolumeActivity::ChangingPlacement => "changing the placement",
            VolumeActivity::ReplacingLog => "replacing the log",
            VolumeActivity::Unknown => "",
        }
    }

    /// Returns true if ranges of the data device are zeroed or discarded.
    pub fn is_at_marks(self) -> bool {
        matches!(self, VolumeActivity::Zeroing | VolumeActivity::Discarding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All activities.
    const ALL: [VolumeActivity; 13] = [
        VolumeActivity::Resting,
        VolumeActivity::Reading,
        VolumeActivity::Zeroing,
        VolumeActivity::Discarding,
        VolumeActivity::Writing,
        VolumeActivity::Flushing,
        VolumeActivity::Retrying,
        VolumeActivity::WritingBack,
        VolumeActivity::Closing,
        VolumeActivity::Resizing,
        VolumeActivity::ChangingPlacement,
        VolumeActivity::ReplacingLog,
        VolumeActivity::Unknown,
    ];

    #[test]
    fn names_are_those_of_json_and_an_unknown_word_is_accepted() {
        for activity in ALL {
            let json = format!("\"{}\"", activity.name());
            assert_eq!(serde_json::to_string(&activity).unwrap(), json);
            let read: VolumeActivity = serde_json::from_str(&json).unwrap();
            assert_eq!(read, activity);
        }
        let read: VolumeActivity = serde_json::from_str("\"rewinding\"").unwrap();
        assert_eq!(read, VolumeActivity::Unknown);
    }
}
