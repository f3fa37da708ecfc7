//! A volume's configuration file: the TOML file that `create` writes and an administrator may edit.
//!
//! The file is the table of the uppermost layer (`tree.rs`), and also holds the settings of the volume and its service.
//! A cache may omit `kind`, because files from before kinds existed do not have the key. The keys of options and devices
//! follow from the kinds' declarations. A key from an earlier version is understood, with a warning that names the
//! present key.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::kind_spec::{KindSpec, ServedAs};
use crate::name::VolumeName;
use crate::options::service::service_keys;
use crate::options::{OptionRow, OptionValues};
use crate::registry::{DEFAULT_KIND, kind_named, kind_specs};
use crate::spec::DeviceSpec;
use crate::tree::{DEPTH_MAX, DeviceOrLayer, LayerTree, NoSuchOption};

/// Columns of a comment in the file.
const COMMENT_COLUMNS: usize = 100;

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
    pub service: OptionValues,
    /// Warnings about keys from earlier versions, one sentence each.
    pub warnings: Vec<String>,
}

/// Reason why a file is not a valid configuration file. The text names the file, the line and the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The file is not TOML, or a key is unknown, missing or has a wrong value.
    #[error("{}, line {line}{}: {message}; correct the file", file.display(), named(key.as_deref()))]
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

fn named(key: Option<&str>) -> String {
    key.map(|key| format!(", key \"{key}\""))
        .unwrap_or_default()
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
        let table = DeTable::parse(content).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let source = FileSource { content, file };
            let text = content.lines().nth(source.line(at) - 1);
            let text = text.unwrap_or_default();
            let key = text.split_once('=').map(|(key, _)| key.trim());
            let key = key.filter(|key| !key.starts_with('#'));
            source.error(at, key, error.message())
        })?;
        let mut reader = ConfigReader {
            source: FileSource { content, file },
            service: OptionValues::default(),
            warnings: Vec::new(),
        };
        let table = table.into_inner();
        let name: VolumeName = match reader.text_at(&table, "name")? {
            Some((text, at)) => {
                let name = text.parse();
                name.map_err(|error| reader.source.error(at, Some("name"), error))?
            }
            None => return Err(reader.source.error(0, None, "missing field `name`")),
        };
        if name != *expected {
            return Err(ConfigFileError::OtherName {
                file: file.into(),
                name,
                expected: expected.clone(),
            });
        }
        let volume = reader.text_at(&table, "volume")?;
        let volume = volume.map(|(text, _)| text.to_owned());
        let tree = reader.layer(&table, 0, 1)?;
        must_be_absolute(&tree, file)?;
        Ok(ConfigFile {
            name,
            volume,
            tree,
            service: reader.service,
            warnings: reader.warnings,
        })
    }

    /// Returns the content of the file, with comments for administrators that edit the file.
    pub fn to_toml(&self) -> String {
        let kind = self.tree.kind();
        let volume = match &self.volume {
            Some(volume) => format!("volume = {}\n", quoted(volume)),
            None => String::new(),
        };
        let mut out = format!(
            "# Configuration of the Forebay volume \"{name}\", read by `forebay {verb} {name}`.\n\
             {}\n\n\
             name = {}\n{volume}kind = {}\n\n\
             {}\n",
            comment(kind.caution),
            quoted(self.name.as_str()),
            quoted(kind.name),
            comment(
                "The devices of the volume: block devices, regular files, or parts of them (PATH@OFFSET+LENGTH). Paths \
                 under /dev/disk/by-id stay the same when disks are numbered differently."
            ),
            name = self.name,
            verb = match kind.served_as {
                ServedAs::Files => "mount",
                ServedAs::BlockDevice => "attach",
            },
        );
        out.push_str(&device_lines(&self.tree));
        for row in kind.options {
            out.push_str(&option_lines(row, self.tree.options()));
        }
        for row in service_keys(kind.served_as) {
            out.push_str(&option_lines(row, &self.service));
        }
        for (key, layer) in self.tree.layers().into_iter().skip(1) {
            out.push_str(&format!(
                "\n[{key}]\nkind = {}\n{}",
                quoted(layer.kind().name),
                device_lines(layer)
            ));
            for key in layer.options().keys() {
                let value = layer.options().text(key).unwrap_or_default();
                out.push_str(&format!("{key} = {}\n", quoted(value)));
            }
        }
        out
    }
}

/// A file, for the position of errors.
#[derive(Clone, Copy)]
struct FileSource<'a> {
    content: &'a str,
    file: &'a Path,
}

impl FileSource<'_> {
    /// Returns the number of the line that contains the byte at `at`, from 1.
    fn line(&self, at: usize) -> usize {
        let before = &self.content.as_bytes()[..at.min(self.content.len())];
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    fn error(
        &self,
        at: usize,
        key: Option<&str>,
        message: impl std::fmt::Display,
    ) -> ConfigFileError {
        ConfigFileError::Syntax {
            file: self.file.into(),
            line: self.line(at),
            key: key.map(Into::into),
            message: message.to_string().trim().replace('\n', "; "),
        }
    }
}

/// Reads the tables of a file.
struct ConfigReader<'a> {
    source: FileSource<'a>,
    service: OptionValues,
    warnings: Vec<String>,
}

impl ConfigReader<'_> {
    /// Returns the text of a key and its position, if the table has the key.
    fn text_at<'t>(
        &self,
        table: &'t DeTable<'_>,
        name: &str,
    ) -> Result<Option<(&'t str, usize)>, ConfigFileError> {
        let found = table.iter().find(|(key, _)| key.get_ref() == name);
        match found {
            Some((_, value)) => Ok(Some((self.text(name, value)?, value.span().start))),
            None => Ok(None),
        }
    }

    fn text<'t>(
        &self,
        key: &str,
        value: &'t Spanned<DeValue<'_>>,
    ) -> Result<&'t str, ConfigFileError> {
        let text = value.get_ref().as_str();
        text.ok_or_else(|| {
            let at = value.span().start;
            self.source
                .error(at, Some(key), "invalid type, expected a string")
        })
    }

    /// Reads the layer of a table, whose first byte is at `at`. The uppermost layer has the depth 1.
    fn layer(
        &mut self,
        table: &DeTable<'_>,
        at: usize,
        depth: usize,
    ) -> Result<LayerTree, ConfigFileError> {
        if depth > DEPTH_MAX {
            let file = self.source.file.into();
            return Err(ConfigFileError::TooDeep { file, depth });
        }
        let kind = match self.text_at(table, "kind")? {
            Some((text, at)) => {
                kind_named(text).map_err(|error| self.source.error(at, Some("kind"), error))?
            }
            None if depth == 1 => DEFAULT_KIND,
            None => return Err(self.source.error(at, None, "missing field `kind`")),
        };
        let (mut children, mut options) = (BTreeMap::new(), OptionValues::default());
        for (name, value) in table {
            let key: &str = name.get_ref();
            let is_top = depth == 1;
            if key == "kind" || (is_top && ["name", "volume"].contains(&key)) {
                continue;
            }
            let role = kind.roles.iter().find(|role| role.name == key);
            if let Some(role) = role {
                let child = self.child(role.may_be_layer, name, value, depth)?;
                children.insert(role.name, child);
                continue;
            }
            let of_kind = find(kind.options.iter(), key);
            let of_service = find(service_keys(kind.served_as), key).filter(|_| is_top);
            match (of_kind, of_service) {
                (Some(row), _) => self.option(row, name, value, &mut options)?,
                (None, Some(row)) => {
                    let mut service = std::mem::take(&mut self.service);
                    self.option(row, name, value, &mut service)?;
                    self.service = service;
                }
                (None, None) => {
                    let at = name.span().start;
                    return Err(self.source.error(at, Some(key), unknown(kind, key, is_top)));
                }
            }
        }
        let tree = LayerTree::compose(kind, children, options);
        tree.map_err(|message| self.source.error(at, None, message))
    }

    /// Reads a device or a layer below.
    fn child(
        &mut self,
        may_be_layer: bool,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        depth: usize,
    ) -> Result<DeviceOrLayer, ConfigFileError> {
        let (key, at) = (&**name.get_ref(), name.span().start);
        match value.get_ref() {
            DeValue::String(text) => {
                let spec: Result<DeviceSpec, _> = text.parse();
                let spec = spec.map_err(|error| self.source.error(at, Some(key), error))?;
                Ok(DeviceOrLayer::Device(spec))
            }
            DeValue::Table(table) if may_be_layer => {
                let layer = self.layer(table, at, depth + 1)?;
                Ok(DeviceOrLayer::Layer(Box::new(layer)))
            }
            _ if may_be_layer => {
                let message = "expected a device as a string, or a layer as a table";
                Err(self.source.error(at, Some(key), message))
            }
            _ => Err(self.source.error(at, Some(key), "expected a string")),
        }
    }

    /// Reads the value of an option, and notes a warning if the file names it by its former key.
    fn option(
        &mut self,
        row: &OptionRow,
        name: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        into: &mut OptionValues,
    ) -> Result<(), ConfigFileError> {
        let (key, at) = (&**name.get_ref(), name.span().start);
        let text = self.text(key, value)?;
        let now = row.spec.value_by(key, text).unwrap_or(text);
        let present = row.spec.key;
        if key != present {
            let (file, line) = (self.source.file.display(), self.source.line(at));
            self.warnings.push(format!(
                "{file}, line {line}: the key \"{key}\" is now \"{present}\"; write {present} = {}",
                quoted(now)
            ));
            if into.text(present).is_some() {
                // The present key overrides the former one, in whichever order they stand.
                return Ok(());
            }
        }
        let set = into.set(row.spec, now);
        set.map_err(|error| self.source.error(at, Some(key), error.reason))
    }
}

/// Returns the row of the option with this present or former key.
fn find<'a>(rows: impl IntoIterator<Item = &'a OptionRow>, key: &str) -> Option<&'a OptionRow> {
    let has = |row: &&OptionRow| row.spec.value_by(key, "").is_some();
    rows.into_iter().find(has)
}

/// Describes a key that a layer of this kind does not have.
fn unknown(kind: &'static KindSpec, key: &str, is_top: bool) -> String {
    let of_kind = |other: &'static KindSpec| {
        let service = service_keys(other.served_as);
        find(other.options, key).is_some() || (is_top && find(service, key).is_some())
    };
    if kind_specs().any(of_kind) {
        return NoSuchOption::of(kind, key).to_string();
    }
    let roles: Vec<String> = kind
        .roles
        .iter()
        .map(|role| format!("`{}`", role.name))
        .collect();
    let is_role = kind_specs().any(|other| other.roles.iter().any(|role| role.name == key));
    if is_role {
        let roles = roles.join(" and ");
        return format!("unknown field `{key}`: a {kind} has {roles} only");
    }
    format!("unknown field `{key}`")
}

/// Returns the kind of a layer and its devices, as keys of the layer's table.
fn device_lines(tree: &LayerTree) -> String {
    let mut out = String::new();
    for (role, child) in tree.children() {
        if let DeviceOrLayer::Device(spec) = child {
            out.push_str(&format!("{} = {}\n", role.name, quoted(&spec.to_string())));
        }
    }
    out
}

/// Returns the comment and the line of an option.
fn option_lines(row: &OptionRow, values: &OptionValues) -> String {
    let key = row.spec.key;
    let line = match values.text(key) {
        Some(value) => format!("{key} = {}", quoted(value)),
        None => format!("#{key} = {}", quoted(row.example)),
    };
    let text = format!("{} Default: {}.", row.help(), row.default);
    format!("\n{}\n{line}\n", comment(&text))
}

/// Formats a text as comment lines.
fn comment(text: &str) -> String {
    let options = textwrap::Options::new(COMMENT_COLUMNS)
        .initial_indent("# ")
        .subsequent_indent("# ");
    textwrap::fill(text, options)
}

/// Quotes any text as a TOML string.
fn quoted(text: &str) -> String {
    toml::Value::String(text.into()).to_string()
}

/// Checks that the meaning of a tree does not depend on the working directory.
fn must_be_absolute(tree: &LayerTree, file: &Path) -> Result<(), ConfigFileError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(content: &str) -> Result<ConfigFile, ConfigFileError> {
        let name = "archive".parse().unwrap();
        ConfigFile::parse(content, Path::new("/etc/forebay/archive.toml"), &name)
    }

    const LEAST: &str = "name = 'archive'\ndata = '/dev/sdb'\nlog = '/dev/sdc'\n";

    /// Returns values of all options that a volume of this kind has: the examples.
    fn examples<'a>(rows: impl IntoIterator<Item = &'a OptionRow>) -> OptionValues {
        let mut values = OptionValues::default();
        for row in rows {
            values.set(row.spec, row.example).unwrap();
        }
        values
    }

    fn device(path: &str) -> DeviceOrLayer {
        DeviceOrLayer::Device(path.parse().unwrap())
    }

    fn described(tree: LayerTree, service: OptionValues) -> ConfigFile {
        ConfigFile {
            name: "archive".parse().unwrap(),
            volume: Some("00112233".into()),
            tree,
            service,
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_configuration_file_of_every_kind_reads_back_equal() {
        for kind in kind_specs() {
            let children = || {
                let roles = kind.roles.iter().enumerate();
                roles.map(|(n, role)| (role.name, device(&format!("/tmp/a \"{n}\"\\c@1MiB+1GiB"))))
            };
            let tree = LayerTree::new(kind, children());
            let plain = described(tree.clone(), OptionValues::default());
            assert_eq!(parse(&plain.to_toml()).unwrap(), plain);
            let tree = tree.with(&examples(kind.options)).unwrap();
            let service = examples(service_keys(kind.served_as));
            let full = described(tree, service);
            assert_eq!(parse(&full.to_toml()).unwrap(), full);
        }
    }

    #[test]
    fn stacked_layers_read_back_equal() {
        let options = examples(DEFAULT_KIND.options);
        let over = |data: DeviceOrLayer| {
            let children = [("data", data), ("log", device("/dev/sdc"))];
            LayerTree::new(DEFAULT_KIND, children)
                .with(&options)
                .unwrap()
        };
        let mut tree = over(device("/dev/sdb"));
        for _ in 1..DEPTH_MAX {
            tree = over(DeviceOrLayer::Layer(Box::new(tree)));
            let stacked = described(tree.clone(), OptionValues::default());
            assert_eq!(parse(&stacked.to_toml()).unwrap(), stacked);
        }
    }

    #[test]
    fn former_keys_are_understood_with_a_warning_that_names_the_present_key() {
        for (before, now) in [
            ("flush", "memory"),
            ("handover", "device"),
            ("write", "durable"),
        ] {
            let old = parse(&format!("{LEAST}durability = '{before}'\n")).unwrap();
            assert_eq!(old.tree.options().text("ack"), Some(now));
            let [warning] = &old.warnings[..] else {
                panic!("{:?}", old.warnings);
            };
            for part in [
                "archive.toml, line 4",
                "\"durability\"",
                &format!("ack = \"{now}\""),
            ] {
                assert!(warning.contains(part), "{warning}");
            }
        }
        for both in [
            "durability = 'write'\nack = 'memory'\n",
            "ack = 'memory'\ndurability = 'write'\n",
        ] {
            let both = parse(&format!("{LEAST}{both}")).unwrap();
            assert_eq!(both.tree.options().text("ack"), Some("memory"));
            assert_eq!(both.warnings.len(), 1);
        }
        let error = parse(&format!("{LEAST}durability = 'soon'\n"))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("key \"durability\"") && error.contains("not one of"),
            "{error}"
        );
    }

    #[test]
    fn a_configuration_file_without_a_kind_configures_a_cache() {
        let old = parse(LEAST).unwrap();
        assert_eq!(parse(&format!("kind = 'cache'\n{LEAST}")).unwrap(), old);
        assert_eq!(old.tree.to_string(), "(/dev/sdb < /dev/sdc)");
    }

    #[test]
    fn a_layer_over_a_layer_has_devices_with_roles() {
        let nested = parse(
            "name = 'archive'\nkind = 'cache'\nlog = '/a'\nack = 'durable'\n[data]\n\
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
        assert_eq!(nested.options().text("ack"), Some("durable"));
        let below = below(&nested);
        assert_eq!(below.options().text("ack"), None);
        assert_eq!(below.options().text("bypass"), Some("64KiB"));
    }

    fn below(tree: &LayerTree) -> &LayerTree {
        match tree.data() {
            DeviceOrLayer::Layer(layer) => layer,
            DeviceOrLayer::Device(spec) => panic!("{spec}"),
        }
    }

    #[test]
    fn an_explicit_acknowledgement_overrides_the_default_of_a_lower_layer() {
        let nested = "name = 'archive'\nlog = '/a'\n[data]\nkind = 'cache'\nlog = '/b'\n\
                      data = '/c'\nack = 'durable'\nmax-delay = '5ms'\n";
        let tree = parse(nested).unwrap().tree.surviving_kill();
        assert_eq!(tree.options().text("ack"), Some("device"));
        assert_eq!(below(&tree).options().text("ack"), Some("durable"));
        assert_eq!(below(&tree).options().text("max-delay"), Some("5ms"));
    }

    #[test]
    fn invalid_layer_trees_are_refused_with_the_reason() {
        let name = "name = 'archive'\n";
        let over = |below: &str| format!("{name}log = '/a'\n[data]\n{below}");
        for (content, parts) in [
            (
                format!("{LEAST}kind = 'raid'\n"),
                ["line 4", "key \"kind\"", "\"raid\" is not a kind"],
            ),
            (
                over("kind = 'raid'\n"),
                ["line 4", "key \"kind\"", "the kinds are cache, vsl, fs"],
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
        let text = parse(least).unwrap().to_toml();
        // The comment on the devices is directly above them.
        let above = text.lines().take_while(|line| !line.starts_with("data ="));
        assert!(
            above.last().is_some_and(|line| line.starts_with("# ")),
            "{text}"
        );
        assert!(
            text.contains("name = \"archive\"\nkind = \"vsl\"\n\n#"),
            "{text}"
        );
        // The comments of the options must not describe a cache either.
        for part in ["bypass", "written to the log", "map of the log"] {
            assert!(!text.contains(part), "{text}");
        }
        for (more, part) in [
            ("log = '/dev/sdc'\n", "`data` only"),
            ("bypass = '64KiB'\n", "no `bypass`"),
            ("patience = '1s'\n", "no `patience`"),
            ("mount = '/mnt'\n", "no `mount`"),
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
        let all = parse(&with_all).unwrap();
        let rows = service_keys(ServedAs::BlockDevice).into_iter();
        for row in rows.chain(DEFAULT_KIND.options) {
            let key = row.spec.key;
            let value = all.service.text(key).or(all.tree.options().text(key));
            assert_eq!(value, Some(row.example), "{key}");
        }
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
}
