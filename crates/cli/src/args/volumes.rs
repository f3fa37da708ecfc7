//! Arguments that follow from the kinds of volumes: their devices and their options.
//!
//! Each option is declared once, in `forebay-volume`. This module makes arguments of the declarations, with help texts
//! that name the default for each kind.

use std::marker::PhantomData;
use std::str::FromStr as _;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{Arg, ArgGroup, ArgMatches, Args, Command, Error, FromArgMatches};
use forebay_volume::{
    DeviceMap, DeviceRole, DeviceSpec, KindSpec, OptionRow, OptionSpec, OptionValues, ServedAs,
    VolumeName, kind_specs, service_options,
};

use super::completing;

/// The options of one command.
pub(crate) trait OptionSet {
    /// Returns the kinds that the command serves.
    fn kinds() -> Vec<&'static KindSpec>;

    /// Returns the options of a kind.
    fn of_kind(kind: &'static KindSpec) -> Vec<&'static OptionRow>;

    /// Returns the options that do not depend on the kind.
    fn of_service() -> &'static [OptionRow] {
        &[]
    }
}

/// Options for serving a block device.
#[derive(Debug)]
pub(crate) struct AttachOptionSet;
/// Options for serving a filesystem.
#[derive(Debug)]
pub(crate) struct MountOptionSet;
/// Options for creating a volume of any kind; options of an attached volume are recorded in its configuration file.
#[derive(Debug)]
pub(crate) struct CreateOptionSet;

fn served_as(served: ServedAs) -> Vec<&'static KindSpec> {
    kind_specs()
        .filter(|kind| kind.served_as == served)
        .collect()
}

impl OptionSet for AttachOptionSet {
    fn kinds() -> Vec<&'static KindSpec> {
        served_as(ServedAs::BlockDevice)
    }

    fn of_kind(kind: &'static KindSpec) -> Vec<&'static OptionRow> {
        kind.options.iter().collect()
    }

    fn of_service() -> &'static [OptionRow] {
        service_options(ServedAs::BlockDevice)
    }
}

impl OptionSet for MountOptionSet {
    fn kinds() -> Vec<&'static KindSpec> {
        served_as(ServedAs::Files)
    }

    fn of_kind(kind: &'static KindSpec) -> Vec<&'static OptionRow> {
        kind.options.iter().collect()
    }

    fn of_service() -> &'static [OptionRow] {
        service_options(ServedAs::Files)
    }
}

impl OptionSet for CreateOptionSet {
    fn kinds() -> Vec<&'static KindSpec> {
        kind_specs().collect()
    }

    fn of_kind(kind: &'static KindSpec) -> Vec<&'static OptionRow> {
        kind.create_options.iter().chain(kind.options).collect()
    }
}

/// An option of a command, with the kinds that have it. An option of the service has no kinds.
struct OptionArg {
    rows: Vec<(Option<&'static KindSpec>, &'static OptionRow)>,
}

impl OptionArg {
    /// Returns the options of a command, each once.
    fn all<S: OptionSet>() -> Vec<OptionArg> {
        let service = S::of_service().iter().map(|row| (None, row));
        let of_kinds = S::kinds().into_iter().flat_map(|kind| {
            let rows = S::of_kind(kind).into_iter();
            rows.map(move |row| (Some(kind), row))
        });
        let mut all: Vec<OptionArg> = Vec::new();
        for (kind, row) in service.chain(of_kinds) {
            let same = all.iter_mut().find(|arg| arg.spec().key == row.spec.key);
            match same {
                Some(arg) => arg.rows.push((kind, row)),
                None => all.push(OptionArg {
                    rows: vec![(kind, row)],
                }),
            }
        }
        all
    }

    fn spec(&self) -> &'static OptionSpec {
        self.rows[0].1.spec
    }

    /// Returns the help text: the meaning, the kinds that have the option unless all have it, and the defaults.
    fn help<S: OptionSet>(&self) -> String {
        let mut help = self.spec().help.to_owned();
        for (_, row) in &self.rows {
            if !row.note.is_empty() && !help.contains(row.note) {
                help = format!("{help} {}", row.note);
            }
        }
        // Kinds with the same default stand together.
        let mut defaults: Vec<(&str, Vec<&str>)> = Vec::new();
        for (kind, row) in &self.rows {
            let kind = kind.as_ref().map_or("", |kind| kind.name);
            match defaults
                .iter_mut()
                .find(|(default, _)| *default == row.default)
            {
                Some((_, kinds)) => kinds.push(kind),
                None => defaults.push((row.default, vec![kind])),
            }
        }
        let of_all = self.rows.len() == S::kinds().len() || self.rows[0].0.is_none();
        let texts = defaults
            .iter()
            .map(|(default, kinds)| match (defaults.len(), of_all) {
                (1, true) => (*default).to_owned(),
                _ => format!("{default} ({})", kinds.join(", ")),
            });
        let default = texts.collect::<Vec<_>>().join("; ");
        let help = help.trim_end_matches('.');
        match default.as_str() {
            "none" => help.to_owned(),
            default => format!("{help} [default: {default}]"),
        }
    }

    /// Returns the argument, and the hidden argument with the former name.
    fn args<S: OptionSet>(&self) -> impl Iterator<Item = Arg> {
        let spec = self.spec();
        let arg = |key: &'static str| {
            let arg = Arg::new(key)
                .long(key)
                .value_name(spec.value_name)
                .value_parser(value_parser(spec, key));
            match completing::choices(spec) {
                Some(choices) => arg.add(choices),
                None => arg,
            }
        };
        let former = spec.former.map(|former| arg(former.key).hide(true));
        [arg(spec.key).help(self.help::<S>())]
            .into_iter()
            .chain(former)
    }
}

/// Returns a parser that checks a value, and returns its present form.
fn value_parser(spec: &'static OptionSpec, key: &'static str) -> ValueParser {
    ValueParser::new(move |text: &str| -> Result<String, String> {
        let value = spec.value_by(key, text).unwrap_or(text);
        spec.check(value).map(|()| value.to_owned())
    })
}

/// The values of the options in a set.
#[derive(Debug)]
pub(crate) struct OptionArgs<S> {
    pub(crate) values: OptionValues,
    /// Warnings about options that were given by their former name.
    pub(crate) warnings: Vec<String>,
    set: PhantomData<S>,
}

impl<S> Default for OptionArgs<S> {
    fn default() -> OptionArgs<S> {
        OptionArgs {
            values: OptionValues::default(),
            warnings: Vec::new(),
            set: PhantomData,
        }
    }
}

impl<S: OptionSet> OptionArgs<S> {
    /// Sets the option with this key, if the set has it. Returns whether it has.
    ///
    /// # Errors
    /// If the text is not a value of the option.
    pub(crate) fn set(&mut self, key: &str, text: &str) -> Result<bool, String> {
        let all = OptionArg::all::<S>();
        let found = all.iter().find_map(|arg| {
            let spec = arg.spec();
            Some((spec, spec.value_by(key, text)?))
        });
        match found {
            Some((spec, value)) => {
                let set = self.values.set(spec, value);
                set.map(|()| true).map_err(|error| error.reason)
            }
            None => Ok(false),
        }
    }
}

impl<S: OptionSet> FromArgMatches for OptionArgs<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<OptionArgs<S>, Error> {
        let mut args = OptionArgs::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for arg in OptionArg::all::<S>() {
            let spec = arg.spec();
            let former = spec.former.map(|former| former.key);
            for key in former.into_iter().chain([spec.key]) {
                let Some(value) = matches.get_one::<String>(key) else {
                    continue;
                };
                let set = self.values.set(spec, value);
                set.map_err(|error| Error::raw(ErrorKind::ValueValidation, error))?;
                if key != spec.key {
                    let now = spec.key;
                    self.warnings.push(format!(
                        "the option --{key} is now --{now}; write --{now} {value}"
                    ));
                }
            }
        }
        Ok(())
    }
}

impl<S: OptionSet> Args for OptionArgs<S> {
    fn augment_args(command: Command) -> Command {
        let all = OptionArg::all::<S>();
        command.args(all.iter().flat_map(OptionArg::args::<S>))
    }

    fn augment_args_for_update(command: Command) -> Command {
        OptionArgs::<S>::augment_args(command)
    }
}

/// Prints warnings for the user.
pub(crate) fn warn(warnings: &[String]) {
    for warning in warnings {
        eprintln!("forebay: {warning}");
    }
}

/// Returns the devices of all kinds, each role once.
fn roles() -> Vec<&'static DeviceRole> {
    let mut all: Vec<&DeviceRole> = Vec::new();
    for role in kind_specs().flat_map(|kind| kind.roles) {
        if all.iter().all(|known| known.name != role.name) {
            all.push(role);
        }
    }
    all
}

fn device_arg(role: &DeviceRole) -> Arg {
    let arg = Arg::new(role.name).long(role.name).value_name("PATH");
    arg.value_parser(DeviceSpec::from_str)
        .add(completing::paths())
}

fn devices(matches: &ArgMatches) -> DeviceMap {
    let mut devices = DeviceMap::default();
    for role in roles() {
        if let Some(spec) = matches.get_one::<DeviceSpec>(role.name) {
            devices.set(role.name, spec.clone());
        }
    }
    devices
}

/// The devices of a volume to be created.
#[derive(Debug, Default)]
pub(crate) struct DeviceArgs {
    pub(crate) devices: DeviceMap,
}

impl FromArgMatches for DeviceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<DeviceArgs, Error> {
        let devices = devices(matches);
        Ok(DeviceArgs { devices })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.devices = devices(matches);
        Ok(())
    }
}

impl Args for DeviceArgs {
    fn augment_args(command: Command) -> Command {
        command.args(roles().into_iter().map(|role| {
            let arg = device_arg(role).help(role.create_help.trim_end_matches('.'));
            // Every volume has a data device.
            arg.required(role.name == "data")
        }))
    }

    fn augment_args_for_update(command: Command) -> Command {
        DeviceArgs::augment_args(command)
    }
}

/// The devices of a volume without a configuration file.
#[derive(Debug, Default)]
pub(crate) struct FoundDeviceArgs {
    pub(crate) devices: DeviceMap,
}

impl FromArgMatches for FoundDeviceArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FoundDeviceArgs, Error> {
        let devices = devices(matches);
        Ok(FoundDeviceArgs { devices })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.devices = devices(matches);
        Ok(())
    }
}

impl Args for FoundDeviceArgs {
    fn augment_args(command: Command) -> Command {
        let devices = roles().into_iter().map(|role| {
            let arg = device_arg(role);
            arg.help(role.target_help.trim_end_matches('.'))
        });
        let all = roles().into_iter().map(|role| role.name);
        let group = ArgGroup::new("found").required(true).multiple(true);
        command.args(devices).group(group.args(all))
    }

    fn augment_args_for_update(command: Command) -> Command {
        FoundDeviceArgs::augment_args(command)
    }
}

/// Selects a volume, by its name or by its devices.
#[derive(Debug, Default)]
pub(crate) struct TargetArgs {
    /// The name of the volume.
    pub(crate) name: Option<VolumeName>,
    /// Devices of a volume without a configuration file.
    pub(crate) devices: DeviceMap,
}

impl FromArgMatches for TargetArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TargetArgs, Error> {
        Ok(TargetArgs {
            name: matches.get_one("name").cloned(),
            devices: devices(matches),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = TargetArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for TargetArgs {
    fn augment_args(command: Command) -> Command {
        let name = Arg::new("name")
            .value_name("NAME")
            .help("The name of the volume")
            .value_parser(VolumeName::from_str)
            .add(completing::volume_names());
        let devices = roles().into_iter().map(|role| {
            let arg = device_arg(role).help(role.target_help.trim_end_matches('.'));
            arg.conflicts_with("name")
        });
        let all = roles().into_iter().map(|role| role.name);
        let group = ArgGroup::new("target").required(true).multiple(true);
        command
            .arg(name)
            .args(devices)
            .group(group.args(all.chain(["name"])))
    }

    fn augment_args_for_update(command: Command) -> Command {
        TargetArgs::augment_args(command)
    }
}

/// Returns the help for the option that selects the kind of a new volume.
pub(crate) fn kind_help() -> String {
    let texts: Vec<String> = kind_specs()
        .map(|kind| format!("{kind} ({})", kind.help))
        .collect();
    match texts.split_last() {
        Some((last, others)) if !others.is_empty() => {
            format!("The kind of volume: {} or {last}", others.join(", "))
        }
        _ => "The kind of volume".into(),
    }
}
