//! Maps the arguments of the command line to the devices of a volume.

use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    DeviceOrLayer, DeviceSpec, LayerKind, LayerTree, ServiceOptions, SuperblockDevice, VolumeName,
    named_by,
};

use crate::args::TargetArgs;
use forebay_program::dirs::ProgramDirs;
use forebay_program::failure::{CommandFailure, CommandResult};

/// A volume that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct VolumeTarget {
    pub(crate) name: VolumeName,
    /// The layers and devices of the volume.
    pub(crate) tree: LayerTree,
    pub(crate) options: ServiceOptions,
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
                options: description.options,
                volume: description.volume,
                described: true,
            });
        }
        let own = own(args)?;
        let existing = DeviceOpenOptions::existing().for_reading();
        let own = SuperblockDevice::open(rt, ring, own, existing)?;
        let (info, tree) = own.tree(args.data.as_ref()).await?;
        Ok(VolumeTarget {
            name: info.name.parse()?,
            tree,
            options: ServiceOptions::default(),
            volume: Some(info.volume),
            described: false,
        })
    }

    /// Returns the device with the superblock that describes the volume.
    pub(crate) fn own(&self) -> &DeviceSpec {
        self.tree.own()
    }

    /// Returns the device or layer that holds the data.
    pub(crate) fn data(&self) -> DeviceOrLayer {
        self.tree.data()
    }
}

/// Returns the device that describes a volume, and the expected kind of that volume, if it is named by its devices.
pub(crate) fn own(args: &TargetArgs) -> CommandResult<(LayerKind, &DeviceSpec)> {
    named_by(args.log.as_ref(), args.data.as_ref()).ok_or_else(|| {
        CommandFailure::usage(
            "no volume given: give its name, or --log PATH (or --data PATH of a volume without a log)",
        )
    })
}
