//! Maps the arguments of the command line to the devices of a volume.

use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    AcceptedFaults, AttachContext, DeviceSpec, FailedLogRegistry, KindSpec, LayerTree, OpenContext,
    OpenVolume, OptionValues, SuperblockDevice, VolumeName, open, own_device,
};

use crate::args::TargetArgs;
use crate::clock::clock;
use crate::dirs::ProgramDirs;
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// A volume that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct VolumeTarget {
    pub(crate) name: VolumeName,
    /// The layers and devices of the volume.
    pub(crate) tree: LayerTree,
    /// Options of the service, from the configuration file.
    pub(crate) service: OptionValues,
    /// Warnings about the configuration file.
    pub(crate) warnings: Vec<String>,
    /// The expected volume id of the log, if the configuration file contains it.
    pub(crate) volume: Option<String>,
    /// True if the volume has a configuration file.
    pub(crate) described: bool,
}

impl VolumeTarget {
    /// Finds the volume by its configuration file, or by the superblock of its own device.
    pub(crate) async fn find(
        args: &TargetArgs,
        dirs: &ProgramDirs,
        rt: &Rt,
        ring: &Rc<IoRing>,
    ) -> CommandResult<VolumeTarget> {
        if let Some(name) = &args.name {
            let description = dirs.description(name)?;
            return Ok(VolumeTarget {
                name: description.name,
                tree: description.tree,
                service: description.service,
                warnings: description.warnings,
                volume: description.volume,
                described: true,
            });
        }
        let (kind, spec) = own(args)?;
        let options = DeviceOpenOptions::existing().for_reading();
        let own = SuperblockDevice::open(kind, spec, OpenContext { rt, ring, options })?;
        let (info, tree) = own.tree(&args.devices).await?;
        Ok(VolumeTarget {
            name: info.name.parse()?,
            tree,
            service: OptionValues::default(),
            warnings: Vec::new(),
            volume: Some(info.volume),
            described: false,
        })
    }

    /// Opens the devices, with default options: the volume is only worked on, not served.
    pub(crate) fn open_with_defaults(
        &self,
        rt: &Rt,
        ring: &Rc<IoRing>,
    ) -> CommandResult<OpenVolume> {
        let options = DeviceOpenOptions::existing();
        let mut opened = open(&self.tree, OpenContext { rt, ring, options })?;
        opened.reset_options();
        Ok(opened)
    }

    /// Returns the surroundings in which the volume is attached.
    pub(crate) fn attach_context(
        &self,
        rt: &Rt,
        failed_logs: Rc<dyn FailedLogRegistry>,
        accept: AcceptedFaults,
    ) -> AttachContext {
        AttachContext {
            rt: rt.clone(),
            name: self.name.to_string(),
            accept,
            failed_logs: Some(failed_logs),
            clock: clock(),
        }
    }

    /// Returns true if the configuration file of that name, if any, belongs to this volume.
    pub(crate) fn is_described(&self, dirs: &ProgramDirs) -> bool {
        self.described
            || dirs.description(&self.name).is_ok_and(|description| {
                let identities = (description.tree.own().identity(), self.own().identity());
                matches!(identities, (Ok(described), Ok(own)) if described == own)
            })
    }

    /// Returns the device with the superblock that describes the volume.
    pub(crate) fn own(&self) -> &DeviceSpec {
        self.tree.own()
    }
}

/// Returns the device that describes a volume, and the expected kind of that volume, if it is named by its devices.
pub(crate) fn own(args: &TargetArgs) -> CommandResult<(&'static KindSpec, &DeviceSpec)> {
    own_device(&args.devices).ok_or_else(|| {
        CommandFailure::usage(
            "no volume given: give its name, or --log PATH (or --data PATH of a volume without a log)",
        )
    })
}
