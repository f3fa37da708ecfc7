//! A volume's configuration file: the TOML file that `create` writes and an administrator may edit.
//!
//! The file is the table of the uppermost layer (`tree.rs`), and also holds the settings of the volume and its service.
//! A cache may omit `kind`, because files from before kinds existed do not have the key.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use forebay_units::{ByteLen, TimeSpan};
use serde::Deserialize;

use crate::option_texts::{IN_A_SPACE, OPTIONS};
use crate::space::{NOT_OF_A_SPACE, NOT_OF_FILES, OF_A_SPACE, SpareShare};
use crate::text::{self, exact};
use crate::tree::{self, DEPTH_MAX, DeviceOrLayer, LayerKind, LayerTree};
use crate::{
    AckMode, BypassSize, CacheOptions, DeviceSpec, FrontEndKind, HttpAddress, ListenAddress,
    MemoryLimit, MetricsAddress, MountDir, MountOptions, SegmentDiscard, ServiceOptions,
};

/// A volume's name: 1 to 64 letters, digits, `_`, `.` and `-`, not beginning with a dot.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct VolumeName(String);

/// Reason why a text is not a valid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VolumeNameError {
    /// The name is empty, too long, or has other characters.
    #[error("\"{}\" cannot be a volume's name: use 1 to 64 of the characters A-Z a-z 0-9 _ . -", .0.escape_debug())]
    Characters(String),
    /// The name begins with a dot. In the directory with the links to block devices it would be hidden, or be a
    /// directory (`.`, `..`).
    #[error("\"{0}\" cannot be a volume's name: it begins with a dot")]
    Hidden(String),
    /// The control socket would have the path of another volume's NBD socket.
    #[error("\"{0}\" cannot be a volume's name: the ending .nbd is reserved for sockets")]
    Reserved(String),
}

const NAME_LEN_MAX: usize = 64;

impl VolumeName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Makes a name from the last part of a path, for callers that have no name.
    pub fn from_path(path: &Path) -> Option<VolumeName> {
        let stem = path.file_stem()?.to_str()?;
        stem.parse().ok()
    }
}

impl FromStr for VolumeName {
    type Err = VolumeNameError;

    fn from_str(text: &str) -> Result<VolumeName, VolumeNameError> {
        let fits = (1..=NAME_LEN_MAX).contains(&text.len());
        let good = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        if !fits || !text.bytes().all(good) {
            return Err(VolumeNameError::Characters(text.into()));
        }
        if text.starts_with('.') {
            return Err(VolumeNameError::Hidden(text.into()));
        }
        if text.ends_with(".nbd") {
            return Err(VolumeNameError::Reserved(text.into()));
        }
        Ok(VolumeName(text.into()))
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// Everything needed to attach a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFile {
    /// Name of the volume, and of the file.
    pub name: VolumeName,
    /// Volume id as the log records it. A log with another id is refused.
    pub volume: Option<String>,
    /// Layers and devices of the volume.
    pub tree: LayerTree,
    /// Options of the service.
    pub options: ServiceOptions,
}

/// Reason why a file is not a valid configuration file. The text names the file, the line and the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The file is not TOML, or a key is unknown, missing or has a wrong value.
    #[error("{}, line {line}{}: {message}; correct the file", file.display(), named(key))]
    Syntax {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The key, if the error concerns a key.
        key: Option<String>,
        /// Description of the error.
        message: String,
    },
    /// The file's name and the name in it differ.
    #[error(
        "{}, key \"name\": the name in the file is \"{name}\", but the file is named for \"{expected}\"; \
         rename one of them", file.display()
    )]
    OtherName {
        /// The file.
        file: PathBuf,
        /// The name in the file.
        name: VolumeName,
        /// The name that the file was opened by.
        expected: VolumeName,
    },
    /// A path is relative, so it depends on the directory where the program is started.
    #[error("{}, key \"{key}\": \"{path}\" is not an absolute path; write it from the root", file.display())]
    RelativePath {
        /// The file.
        file: PathBuf,
        /// The key.
        key: String,
        /// The value of the key.
        path: String,
    },
    /// Too many layers are stacked.
    #[error("{}: {depth} layers are stacked; {DEPTH_MAX} at most are supported", file.display())]
    TooDeep {
        /// The file.
        file: PathBuf,
        /// Number of layers.
        depth: usize,
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
struct ConfigFileKeys {
    #[serde(deserialize_with = "text::required")]
    name: VolumeName,
    volume: Option<String>,
    #[serde(default, deserialize_with = "text::optional")]
    kind: Option<LayerKind>,
    data: Option<DeviceOrLayer>,
    #[serde(default, deserialize_with = "text::optional")]
    log: Option<DeviceSpec>,
    #[serde(default, deserialize_with = "text::optional")]
    via: Option<FrontEndKind>,
    #[serde(default, deserialize_with = "text::optional")]
    listen: Option<ListenAddress>,
    #[serde(default, deserialize_with = "text::optional")]
    durability: Option<AckMode>,
    #[serde(default, deserialize_with = "text::optional")]
    max_delay: Option<TimeSpan>,
    #[serde(default, deserialize_with = "text::optional")]
    patience: Option<TimeSpan>,
    #[serde(default, deserialize_with = "text::optional")]
    bypass: Option<BypassSize>,
    #[serde(default, deserialize_with = "text::optional")]
    map_memory: Option<ByteLen>,
    #[serde(default, deserialize_with = "text::optional")]
    discard: Option<SegmentDiscard>,
    #[serde(default, deserialize_with = "text::optional")]
    spare: Option<SpareShare>,
    #[serde(default, deserialize_with = "text::optional")]
    metrics: Option<MetricsAddress>,
    #[serde(default, deserialize_with = "text::optional")]
    http: Option<HttpAddress>,
    #[serde(default, deserialize_with = "text::optional")]
    memory: Option<MemoryLimit>,
    #[serde(default, deserialize_with = "text::optional")]
    mount: Option<MountDir>,
    #[serde(default, deserialize_with = "text::optional")]
    mount_options: Option<MountOptions>,
}

impl ConfigFile {
    /// Parses the content of `file`, which is named after the volume `expected`.
    ///
    /// # Errors
    /// If the content is not a configuration file of that volume.
    pub fn parse(
        content: &str,
        file: &Path,
        expected: &VolumeName,
    ) -> Result<ConfigFile, ConfigFileError> {
        let keys: ConfigFileKeys =
            toml::from_str(content).map_err(|error| syntax_error(content, file, &error))?;
        if keys.name != *expected {
            return Err(ConfigFileError::OtherName {
                file: file.into(),
                name: keys.name,
                expected: expected.clone(),
            });
        }
        let options = CacheOptions {
            durability: keys.durability,
            max_delay: keys.max_delay,
            patience: keys.patience,
            bypass: keys.bypass,
            map_memory: keys.map_memory,
            discard: keys.discard,
            spare: keys.spare,
        };
        let children = (keys.data, keys.log);
        let tree = tree::layer(keys.kind.unwrap_or_default(), children, options);
        let tree = tree.map_err(|message| ConfigFileError::Syntax {
            file: file.into(),
            line: 1,
            key: None,
            message,
        })?;
        usable(&tree, file)?;
        Ok(ConfigFile {
            name: keys.name,
            volume: keys.volume,
            tree,
            options: ServiceOptions {
                via: keys.via,
                listen: keys.listen,
                metrics: keys.metrics,
                http: keys.http,
                memory: keys.memory,
                mount: keys.mount,
                mount_options: keys.mount_options,
            },
        })
    }

    /// Returns the content of the file, with comments for administrators that edit the file.
    pub fn to_toml(&self) -> String {
        let volume = match &self.volume {
            Some(volume) => format!("volume = {}\n", quoted(volume)),
            None => String::new(),
        };
        let mut out = format!(
            "# Configuration of the Forebay volume \"{name}\", read by `forebay {verb} {name}`.\n\
             {}\n\
             name = {}\n{volume}\n\
             # The devices of the volume: block devices, regular files, or parts of them\n\
             # (PATH@OFFSET+LENGTH). Paths under /dev/disk/by-id stay the same when disks are numbered\n\
             # differently.\n",
            caution(&self.tree),
            quoted(self.name.as_str()),
            name = self.name,
            verb = match self.tree.kind() {
                LayerKind::Files => "mount",
                LayerKind::Cache | LayerKind::Space => "attach",
            },
        );
        out.push_str(&children(&self.tree));
        let known = |key: &str| match self.tree.kind() {
            LayerKind::Cache => !OF_A_SPACE.contains(&key) && !OF_FILES.contains(&key),
            LayerKind::Space => !NOT_OF_A_SPACE.contains(&key) && !OF_FILES.contains(&key),
            LayerKind::Files => {
                let blocks = [&NOT_OF_A_SPACE, &NOT_OF_FILES, &OF_BLOCKS];
                !blocks.iter().any(|keys| keys.contains(&key))
            }
        };
        let set = set(&self.tree);
        let lines = option_lines(&self.options, &set);
        for (key, value, mut default, mut comment) in lines.filter(|(key, ..)| known(key)) {
            let others = IN_A_SPACE.iter().find(|(of, ..)| *of == key);
            if let Some(others) = others.filter(|_| self.tree.kind() != LayerKind::Cache) {
                (_, default, comment) = *others;
            }
            let line = match value {
                Some(value) => format!("{key} = {}", quoted(&value)),
                None => format!("#{key} = {}", quoted(default)),
            };
            out.push_str(&format!("\n{comment}\n{line}\n"));
        }
        tables(&self.tree, "data", &mut out);
        out
    }
}

/// Returns the warning about the devices of a volume.
fn caution(tree: &LayerTree) -> &'static str {
    match tree {
        LayerTree::Cache(_) => {
            "# Only the log device was formatted. While the log is dirty, do not mount or change the\n\
             # data device except through Forebay.\n"
        }
        LayerTree::Space(_) => {
            "# The data device holds a log-structured volume: do not mount or change it except\n\
             # through Forebay.\n"
        }
        LayerTree::Files(_) => {
            "# The data device holds a Forebay filesystem: do not mount or change it except with\n\
             # `forebay mount`.\n"
        }
    }
}

/// Returns the options of the uppermost layer of a tree.
fn set(tree: &LayerTree) -> CacheOptions {
    match tree {
        LayerTree::Cache(cache) => cache.options.clone(),
        LayerTree::Space(space) | LayerTree::Files(space) => space.options.clone().into(),
    }
}

/// Returns the kind of a layer and its devices, as keys of the layer's table.
fn children(tree: &LayerTree) -> String {
    let kind = quoted(&tree.kind().to_string());
    let data = match tree.data() {
        DeviceOrLayer::Device(spec) => format!("data = {}\n", quoted(&spec.to_string())),
        DeviceOrLayer::Layer(_) => String::new(),
    };
    let log = match tree.log() {
        Some(log) => format!("log = {}\n", quoted(&log.to_string())),
        None => String::new(),
    };
    format!("kind = {kind}\n{data}{log}")
}

/// Appends the tables of the layers below; the first table is that of `key`.
fn tables(tree: &LayerTree, key: &str, out: &mut String) {
    let DeviceOrLayer::Layer(layer) = tree.data() else {
        return;
    };
    out.push_str(&format!("\n[{key}]\n{}", children(&layer)));
    for (key, value, ..) in option_lines(&ServiceOptions::default(), &set(&layer)) {
        if let Some(value) = value {
            out.push_str(&format!("{key} = {}\n", quoted(&value)));
        }
    }
    tables(&layer, &format!("{key}.data"), out);
}

/// Checks that the meaning of a tree does not depend on the working directory, and that the tree is supported.
fn usable(tree: &LayerTree, file: &Path) -> Result<(), ConfigFileError> {
    let depth = tree.depth();
    if depth > DEPTH_MAX {
        let file = file.into();
        return Err(ConfigFileError::TooDeep { file, depth });
    }
    let mut devices = tree.devices().into_iter();
    let relative = devices.find(|(_, spec)| !spec.path().is_absolute());
    match relative {
        None => Ok(()),
        Some((key, spec)) => Err(ConfigFileError::RelativePath {
            file: file.into(),
            key,
            path: spec.to_string(),
        }),
    }
}

/// Options of filesystems only.
const OF_FILES: [&str; 2] = ["mount", "mount-options"];
/// Options of block devices only.
const OF_BLOCKS: [&str; 2] = ["via", "listen"];

/// Returns for each option its key, its value, the text shown if it has no value, and a comment.
fn option_lines(
    options: &ServiceOptions,
    cache: &CacheOptions,
) -> impl Iterator<Item = (&'static str, Option<String>, &'static str, &'static str)> {
    let ServiceOptions {
        via,
        listen,
        metrics,
        http,
        memory,
        mount,
        mount_options,
    } = options;
    let CacheOptions {
        durability,
        max_delay,
        patience,
        bypass,
        map_memory,
        discard,
        spare,
    } = cache;
    let values = [
        text_of(via),
        text_of(listen),
        text_of(durability),
        text_of(max_delay),
        text_of(patience),
        text_of(bypass),
        map_memory.map(|size| exact(size.0)),
        text_of(discard),
        text_of(spare),
        text_of(metrics),
        text_of(http),
        text_of(memory),
        text_of(mount),
        text_of(mount_options),
    ];
    let rows = OPTIONS.into_iter().zip(values);
    rows.map(|((key, shown, comment), value)| (key, value, shown, comment))
}

fn text_of<T: fmt::Display>(value: &Option<T>) -> Option<String> {
    value.as_ref().map(ToString::to_string)
}

/// Quotes any text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

fn syntax_error(content: &str, file: &Path, error: &toml::de::Error) -> ConfigFileError {
    let at = error.span().map_or(0, |span| span.start.min(content.len()));
    let line = content[..at].matches('\n').count() + 1;
    let text = content.lines().nth(line - 1).unwrap_or_default();
    let key = text.split_once('=').map(|(key, _)| key.trim());
    let message = error.message().trim();
    ConfigFileError::Syntax {
        file: file.into(),
        line,
        // For a missing key the message names the key, and the line is only the first line of the file.
        key: key
            .filter(|key| !key.starts_with('#') && !message.starts_with("missing"))
            .map(Into::into),
        message: message.replace('\n', "; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<ConfigFile, ConfigFileError> {
        let name = "archive".parse().unwrap();
        ConfigFile::parse(content, Path::new("/etc/forebay/archive.toml"), &name)
    }

    const LEAST: &str = "name = 'archive'\ndata = '/dev/sdb'\nlog = '/dev/sdc'\n";

    #[test]
    fn the_configuration_file_written_by_create_reads_back_equal() {
        let mut description = parse(LEAST).unwrap();
        assert_eq!(parse(&description.to_toml()).unwrap(), description);
        description.volume = Some("00112233".into());
        let options = CacheOptions {
            durability: Some(AckMode::Write),
            max_delay: Some("5ms".parse().unwrap()),
            patience: Some("90s".parse().unwrap()),
            bypass: Some(BypassSize::Off),
            map_memory: Some(ByteLen((1 << 30) + 1)),
            discard: None,
            spare: None,
        };
        let LayerTree::Cache(cache) = &mut description.tree else {
            panic!("{:?}", description.tree);
        };
        cache.data = DeviceOrLayer::Device("/tmp/a \"b\"\\c@1MiB+1GiB".parse().unwrap());
        cache.options = options.clone();
        description.options = ServiceOptions {
            via: Some(FrontEndKind::Loop),
            listen: Some("unix:/run/x y".parse().unwrap()),
            metrics: Some("127.0.0.1:9420".parse().unwrap()),
            http: Some("9421".parse().unwrap()),
            memory: Some("100MiB".parse().unwrap()),
            ..ServiceOptions::default()
        };
        assert_eq!(parse(&description.to_toml()).unwrap(), description);
        // Layers below must survive the round trip, too.
        for _ in 1..DEPTH_MAX {
            let below = Box::new(description.tree.clone());
            let mut tree =
                LayerTree::cache("/dev/sdc".parse().unwrap(), "/dev/sdb".parse().unwrap());
            let LayerTree::Cache(cache) = &mut tree else {
                panic!("{tree:?}");
            };
            cache.data = DeviceOrLayer::Layer(below);
            cache.options = options.clone();
            description.tree = tree;
            assert_eq!(parse(&description.to_toml()).unwrap(), description);
        }
    }

    #[test]
    fn a_configuration_file_without_a_kind_configures_a_cache() {
        let old = parse(LEAST).unwrap();
        assert_eq!(parse(&format!("kind = 'cache'\n{LEAST}")).unwrap(), old);
        let [data, log] = ["/dev/sdb", "/dev/sdc"].map(|path| path.parse().unwrap());
        assert_eq!(old.tree, LayerTree::cache(log, data));
    }

    #[test]
    fn a_layer_over_a_layer_has_devices_with_roles() {
        let nested = parse(
            "name = 'archive'\nkind = 'cache'\nlog = '/a'\ndurability = 'write'\n[data]\n\
             kind = 'cache'\nlog = '/b@0+1GiB'\ndata = '/b@1GiB+9GiB'\nbypass = '64KiB'\n",
        );
        let nested = nested.unwrap().tree;
        let devices = nested.devices().into_iter();
        let devices: Vec<String> = devices
            .map(|(role, spec)| format!("{role} {spec}"))
            .collect();
        assert_eq!(
            devices,
            ["data.data /b@1GiB+9GiB", "data.log /b@0+1GiB", "log /a"]
        );
        assert_eq!(nested.to_string(), "((/b@1GiB+9GiB < /b@0+1GiB) < /a)");
        let LayerTree::Cache(cache) = nested else {
            panic!("{nested:?}");
        };
        assert_eq!(cache.options.durability, Some(AckMode::Write));
        let DeviceOrLayer::Layer(below) = cache.data else {
            panic!("{:?}", cache.data);
        };
        let LayerTree::Cache(below) = *below else {
            panic!("{below:?}");
        };
        assert_eq!(below.options.durability, None);
        assert_eq!(
            below.options.bypass,
            Some(BypassSize::From(ByteLen::kib(64)))
        );
    }

    #[test]
    fn an_explicit_durability_overrides_the_default_of_a_lower_layer() {
        let nested = "name = 'archive'\nlog = '/a'\n[data]\nkind = 'cache'\nlog = '/b'\n\
                      data = '/c'\ndurability = 'write'\nmax-delay = '5ms'\n";
        let LayerTree::Cache(cache) = parse(nested).unwrap().tree.surviving_kill() else {
            panic!("{nested}");
        };
        assert_eq!(cache.options.durability, Some(AckMode::Handover));
        let DeviceOrLayer::Layer(below) = cache.data else {
            panic!("{:?}", cache.data);
        };
        let LayerTree::Cache(below) = *below else {
            panic!("{below:?}");
        };
        assert_eq!(below.options.durability, Some(AckMode::Write));
        assert!(below.options.max_delay.is_some());
    }

    #[test]
    fn invalid_layer_trees_are_refused_with_the_reason() {
        let name = "name = 'archive'\n";
        let over = |below: &str| format!("{name}log = '/a'\n[data]\n{below}");
        for (content, parts) in [
            (
                format!("{LEAST}kind = 'raid'\n"),
                ["line 4", "key \"kind\"", "\"raid\" is not one of"],
            ),
            (
                over("kind = 'raid'\n"),
                [
                    "line 4",
                    "key \"kind\"",
                    "a kind of layer: cache, vsl or fs",
                ],
            ),
            (
                over("log = '/b'\ndata = '/c'\n"),
                ["line 3", "missing field", "`kind`"],
            ),
            (
                over("kind = 'cache'\nlog = '/b'\n"),
                ["line 3", "missing field", "`data`"],
            ),
            (
                over("kind = 'cache'\ndata = '/b'\n"),
                ["line 3", "missing field", "`log`"],
            ),
            (
                over("kind = 'cache'\nlog = '/b'\ndata = 'c'\n"),
                ["key \"data.data\"", "absolute", "\"c\""],
            ),
            (
                over("kind = 'cache'\nvia = 'loop'\n"),
                ["line 5", "key \"via\"", "unknown field"],
            ),
            (
                format!("{name}log = '/a'\ndata = 5\n"),
                ["line 3", "key \"data\"", "a device as a string"],
            ),
            (
                format!("{name}log = '/a'\ndata = ['/b']\n"),
                ["line 3", "key \"data\"", "a layer as a table"],
            ),
            (
                format!("{name}data = '/a'\n[log]\nkind = 'cache'\n"),
                ["line 3", "expected a string", "correct"],
            ),
        ] {
            let error = parse(&content).unwrap_err().to_string();
            for part in parts {
                assert!(error.contains(part), "{error}: {part}");
            }
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_log_structured_volume_has_one_device_and_no_cache_options() {
        let least = "name = 'archive'\nkind = 'vsl'\ndata = '/dev/sdb'\n";
        let mut description = parse(least).unwrap();
        assert_eq!(
            description.tree,
            LayerTree::space("/dev/sdb".parse().unwrap())
        );
        let options = CacheOptions {
            durability: Some(AckMode::Write),
            max_delay: Some("5ms".parse().unwrap()),
            map_memory: Some(ByteLen::mib(64)),
            ..CacheOptions::default()
        };
        description.tree = description.tree.with(options).unwrap();
        let text = description.to_toml();
        assert!(!text.contains("bypass"), "{text}");
        // The comments of the other options must not describe a cache either.
        for part in ["written to the log", "map of the log"] {
            assert!(!text.contains(part), "{text}");
        }
        assert_eq!(parse(&text).unwrap(), description);
        for (more, part) in [
            ("log = '/dev/sdc'\n", "`data` only"),
            ("bypass = '64KiB'\n", "no `bypass`"),
            ("patience = '1s'\n", "no `patience`"),
        ] {
            let error = parse(&format!("{least}{more}")).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        let below = format!("name = 'archive'\nlog = '/a'\n[data]\n{}", &least[17..]);
        let below = parse(&below).unwrap();
        assert_eq!(below.tree.to_string(), "(/dev/sdb < /a)");
        assert_eq!(parse(&below.to_toml()).unwrap(), below);
    }

    #[test]
    fn the_depth_of_layers_is_limited() {
        let nested = |layers: usize| {
            let mut text = "name = 'archive'\nlog = '/0'\n".to_owned();
            for n in 1..layers {
                let key = vec!["data"; n].join(".");
                text.push_str(&format!("[{key}]\nkind = 'cache'\nlog = '/{n}'\n"));
            }
            text + "data = '/x'\n"
        };
        assert!(parse(&nested(DEPTH_MAX)).is_ok());
        let error = parse(&nested(DEPTH_MAX + 1)).unwrap_err().to_string();
        assert!(
            error.contains("9 layers") && error.contains("8 at most"),
            "{error}"
        );
        // Deeper nesting must be refused before it can overflow the stack.
        let key = vec!["data"; 20_000].join(".");
        let deep = format!("name = 'archive'\n[{key}]\nkind = 'cache'\n");
        assert!(parse(&deep).is_err());
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
        assert!(options.memory.is_some() && options.http.is_some());
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (content, parts) in [
            (
                format!("{LEAST}via = 'iscsi'\n"),
                ["line 4", "key \"via\"", "not one of auto"],
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
    fn volume_names_are_short_and_have_only_plain_characters() {
        for name in ["a", "A_b.c-9", &"x".repeat(64)] {
            assert_eq!(name.parse::<VolumeName>().unwrap().as_str(), name);
        }
        for name in ["", "a/b", "a b", "ä", "a\n", &"x".repeat(65), "a.nbd"] {
            assert!(name.parse::<VolumeName>().is_err(), "{name}");
        }
        assert_eq!(
            VolumeName::from_path(Path::new("/dev/sdb1"))
                .unwrap()
                .as_str(),
            "sdb1"
        );
        assert_eq!(VolumeName::from_path(Path::new("/x/disk 1.img")), None);
    }
}
