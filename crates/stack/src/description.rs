//! A volume's description: the TOML file that `create` writes and an administrator may edit.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_units::{ByteLen, TimeSpan};
use serde::Deserialize;

use crate::text::{self, exact};
use crate::{Bypass, Durability, Listen, Memory, Metrics, Options, Spec, Via};

/// A volume's name: 1 to 64 letters, digits, `_`, `.` and `-`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name(String);

/// Why a text is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Empty, too long, or with other characters.
    #[error("\"{}\" cannot be a volume's name: use 1 to 64 of the characters A-Z a-z 0-9 _ . -", .0.escape_debug())]
    Characters(String),
    /// Its control socket would be where another volume's NBD socket is.
    #[error("\"{0}\" cannot be a volume's name: the ending .nbd is taken by sockets")]
    Reserved(String),
}

const NAME_LEN_MAX: usize = 64;

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name made from the last part of a path, for those who give none.
    pub fn from_path(path: &Path) -> Option<Name> {
        let stem = path.file_stem()?.to_str()?;
        stem.parse().ok()
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        let fits = (1..=NAME_LEN_MAX).contains(&text.len());
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !fits || !text.bytes().all(good) {
            return Err(NameError::Characters(text.into()));
        }
        if text.ends_with(".nbd") {
            return Err(NameError::Reserved(text.into()));
        }
        Ok(Name(text.into()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// What there is to know of a volume to attach it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Description {
    /// The name, which is also that of the file.
    pub name: Name,
    /// The volume's id, as the log has it; the log is refused if it has another.
    pub volume: Option<String>,
    /// The data device.
    pub data: Spec,
    /// The log device.
    pub log: Spec,
    /// How to serve it.
    pub options: Options,
}

/// Why a file is no description. The text names the file, the line and the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DescriptionError {
    /// It is not TOML, or a key is unknown, missing or has a wrong value.
    #[error("{}, line {line}{}: {message}; correct the file", file.display(), named(key))]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key, if one is concerned.
        key: Option<String>,
        /// What is wrong.
        message: String,
    },
    /// The file's name and the name in it differ.
    #[error(
        "{}, key \"name\": the file describes \"{name}\", but its own name says \"{expected}\"; \
         rename one of them", file.display()
    )]
    OtherName {
        /// The file.
        file: PathBuf,
        /// The name in it.
        name: Name,
        /// The name it was opened by.
        expected: Name,
    },
    /// A path depends on where the program is started.
    #[error("{}, key \"{key}\": \"{path}\" is not an absolute path; write it from the root", file.display())]
    RelativePath {
        /// The file.
        file: PathBuf,
        /// The key.
        key: &'static str,
        /// Its value.
        path: String,
    },
}

fn named(key: &Option<String>) -> String {
    key.as_ref()
        .map(|key| format!(", key \"{key}\""))
        .unwrap_or_default()
}

/// The keys of the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Keys {
    #[serde(deserialize_with = "text::required")]
    name: Name,
    volume: Option<String>,
    #[serde(deserialize_with = "text::required")]
    data: Spec,
    #[serde(deserialize_with = "text::required")]
    log: Spec,
    #[serde(default, deserialize_with = "text::optional")]
    via: Option<Via>,
    #[serde(default, deserialize_with = "text::optional")]
    listen: Option<Listen>,
    #[serde(default, deserialize_with = "text::optional")]
    durability: Option<Durability>,
    #[serde(default, deserialize_with = "text::optional")]
    max_delay: Option<TimeSpan>,
    #[serde(default, deserialize_with = "text::optional")]
    patience: Option<TimeSpan>,
    #[serde(default, deserialize_with = "text::optional")]
    bypass: Option<Bypass>,
    #[serde(default, deserialize_with = "text::optional")]
    map_memory: Option<ByteLen>,
    #[serde(default, deserialize_with = "text::optional")]
    metrics: Option<Metrics>,
    #[serde(default, deserialize_with = "text::optional")]
    memory: Option<Memory>,
}

impl Description {
    /// Reads the content of `file`, which is named after the volume `expected`.
    ///
    /// # Errors
    /// If it is not a description of that volume.
    pub fn parse(
        content: &str,
        file: &Path,
        expected: &Name,
    ) -> Result<Description, DescriptionError> {
        let keys: Keys =
            toml::from_str(content).map_err(|error| syntax_error(content, file, &error))?;
        if keys.name != *expected {
            return Err(DescriptionError::OtherName {
                file: file.into(),
                name: keys.name,
                expected: expected.clone(),
            });
        }
        for (key, spec) in [("data", &keys.data), ("log", &keys.log)] {
            if !spec.path().is_absolute() {
                return Err(DescriptionError::RelativePath {
                    file: file.into(),
                    key,
                    path: spec.to_string(),
                });
            }
        }
        Ok(Description {
            name: keys.name,
            volume: keys.volume,
            data: keys.data,
            log: keys.log,
            options: Options {
                via: keys.via,
                listen: keys.listen,
                durability: keys.durability,
                max_delay: keys.max_delay,
                patience: keys.patience,
                bypass: keys.bypass,
                map_memory: keys.map_memory,
                metrics: keys.metrics,
                memory: keys.memory,
            },
        })
    }

    /// The content of the file, with comments for whoever edits it.
    pub fn to_toml(&self) -> String {
        let volume = match &self.volume {
            Some(volume) => format!("volume = {}\n", quoted(volume)),
            None => String::new(),
        };
        let mut out = format!(
            "# The volume \"{name}\" of Forebay: read by `forebay attach {name}`.\n\
             # Only the log device was formatted. While the log is dirty, do not mount or change the\n\
             # data device other than through Forebay.\n\n\
             name = {}\n{volume}\n\
             # Block devices, regular files, or parts of them (PATH@OFFSET+LENGTH). Paths under\n\
             # /dev/disk/by-id stay the same when disks are numbered differently.\n\
             data = {}\nlog = {}\n",
            quoted(self.name.as_str()),
            quoted(&self.data.to_string()),
            quoted(&self.log.to_string()),
            name = self.name,
        );
        for (key, value, default, comment) in option_lines(&self.options) {
            let line = match value {
                Some(value) => format!("{key} = {}", quoted(&value)),
                None => format!("#{key} = {}", quoted(default)),
            };
            out.push_str(&format!("\n{comment}\n{line}\n"));
        }
        out
    }
}

/// What a description says of an option: its key, what to show where there is no value, a comment.
const OPTIONS: [(&str, &str, &str); 9] = [
    (
        "via",
        "auto",
        "# What makes a block device of it: auto, ublk, nbd, loop, or none (NBD clients only).",
    ),
    (
        "listen",
        "tcp:127.0.0.1:10809",
        "# Where NBD clients may connect besides the socket in the runtime directory: unix:PATH\n\
         # or tcp:ADDRESS:PORT. There is no authentication on TCP.",
    ),
    (
        "durability",
        "flush",
        "# When a write is acknowledged: \"flush\": at once, a flush makes it durable, as with any\n\
         # disk that has a write cache; \"write\": when it is durable.",
    ),
    (
        "max-delay",
        "50ms",
        "# How long data that nobody flushed may wait before it goes to the log.",
    ),
    (
        "patience",
        "60s",
        "# How long requests wait for a device that fails before they fail too. It is tried again\n\
         # for as long as it takes, whatever this is.",
    ),
    (
        "bypass",
        "off",
        "# Writes of this size and more go to the data device directly: \"off\", or a size such as\n\
         # \"64KiB\". Default: 64KiB where log and data are parts of one device, else off.",
    ),
    (
        "map-memory",
        "1GiB",
        "# How much memory the map of what is in the log may take; then writes wait as for room in\n\
         # the log. 1GiB is enough for 200 GiB in pieces of 4 KiB, and for 25 GiB in pieces of 512 bytes.",
    ),
    (
        "metrics",
        "127.0.0.1:9420",
        "# Where Prometheus metrics are given out over HTTP (ADDRESS:PORT, path /metrics).",
    ),
    (
        "memory",
        "256MiB",
        "# How much memory the data of requests may take up, over all clients and the block device:\n\
         # 64MiB or more.",
    ),
];

/// Of each option: key, value, what to show where there is none, comment.
fn option_lines(
    options: &Options,
) -> impl Iterator<Item = (&'static str, Option<String>, &'static str, &'static str)> {
    let Options {
        via,
        listen,
        durability,
        max_delay,
        patience,
        bypass,
        map_memory,
        metrics,
        memory,
    } = options;
    let values = [
        text_of(via),
        text_of(listen),
        text_of(durability),
        text_of(max_delay),
        text_of(patience),
        text_of(bypass),
        map_memory.map(|size| exact(size.0)),
        text_of(metrics),
        text_of(memory),
    ];
    let rows = OPTIONS.into_iter().zip(values);
    rows.map(|((key, shown, comment), value)| (key, value, shown, comment))
}

fn text_of<T: fmt::Display>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

/// A TOML string, whatever is in it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn syntax_error(content: &str, file: &Path, error: &toml::de::Error) -> DescriptionError {
    let at = error.span().map_or(0, |span| span.start.min(content.len()));
    let line = content[..at].matches('\n').count() + 1;
    let text = content.lines().nth(line - 1).unwrap_or_default();
    let key = text.split_once('=').map(|(key, _)| key.trim());
    let message = error.message().trim();
    DescriptionError::Syntax {
        file: file.into(),
        line,
        // A missing key is named by the message; the line is then only where the file begins.
        key: key
            .filter(|key| !key.starts_with('#') && !message.starts_with("missing"))
            .map(Into::into),
        message: message.replace('\n', "; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<Description, DescriptionError> {
        let name = "archive".parse().unwrap();
        Description::parse(content, Path::new("/etc/forebay/archive.toml"), &name)
    }

    const LEAST: &str = "name = 'archive'\ndata = '/dev/sdb'\nlog = '/dev/sdc'\n";

    #[test]
    fn what_create_writes_reads_back_as_itself() {
        let mut description = parse(LEAST).unwrap();
        assert_eq!(parse(&description.to_toml()).unwrap(), description);
        description.volume = Some("00112233".into());
        description.data = "/tmp/a \"b\"\\c@1MiB+1GiB".parse().unwrap();
        description.options = Options {
            via: Some(Via::Loop),
            listen: Some("unix:/run/x y".parse().unwrap()),
            durability: Some(Durability::Write),
            max_delay: Some("5ms".parse().unwrap()),
            patience: Some("90s".parse().unwrap()),
            bypass: Some(Bypass::Off),
            map_memory: Some(ByteLen((1 << 30) + 1)),
            metrics: Some("127.0.0.1:9420".parse().unwrap()),
            memory: Some("100MiB".parse().unwrap()),
        };
        assert_eq!(parse(&description.to_toml()).unwrap(), description);
    }

    #[test]
    fn the_defaults_shown_as_comments_are_valid() {
        let shown = parse(LEAST).unwrap().to_toml();
        let with_all: String = shown
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
                _ => format!("{line}\n"),
            })
            .collect();
        let options = parse(&with_all).unwrap().options;
        assert!(options.via.is_some() && options.metrics.is_some() && options.listen.is_some());
        assert!(options.memory.is_some());
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (content, parts) in [
            (
                format!("{LEAST}via = 'iscsi'\n"),
                ["line 4", "key \"via\"", "none of auto"],
            ),
            (
                format!("{LEAST}\ncolour = 'red'\n"),
                ["line 5", "key \"colour\"", "unknown field"],
            ),
            (
                format!("{LEAST}max-delay = 5\n"),
                ["line 4", "key \"max-delay\"", "expected a string"],
            ),
            (
                format!("{LEAST}bypass = 'x'\n"),
                ["line 4", "key \"bypass\"", "or write off"],
            ),
            (
                "name = 'archive'\ndata = '/a'\n".into(),
                ["line 1", "missing field", "`log`"],
            ),
            (
                format!("{LEAST}via = \n"),
                ["line 4", "key \"via\"", "correct the file"],
            ),
            (
                LEAST.replace("/dev/sdb", "sdb"),
                ["key \"data\"", "absolute", "sdb"],
            ),
            (
                LEAST.replace("archive", "other"),
                ["key \"name\"", "other", "archive"],
            ),
            (
                LEAST.replace("archive", "a/b"),
                ["line 1", "key \"name\"", "characters"],
            ),
        ] {
            let error = parse(&content).unwrap_err().to_string();
            assert!(error.starts_with("/etc/forebay/archive.toml"), "{error}");
            for part in parts {
                assert!(error.contains(part), "{error}: {part}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn names_are_short_and_plain() {
        for name in ["a", "A_b.c-9", &"x".repeat(64)] {
            assert_eq!(name.parse::<Name>().unwrap().as_str(), name);
        }
        for name in ["", "a/b", "a b", "ä", "a\n", &"x".repeat(65), "a.nbd"] {
            assert!(name.parse::<Name>().is_err(), "{name}");
        }
        assert_eq!(
            Name::from_path(Path::new("/dev/sdb1")).unwrap().as_str(),
            "sdb1"
        );
        assert_eq!(Name::from_path(Path::new("/x/disk 1.img")), None);
    }
}
