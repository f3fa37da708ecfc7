//! Maps the arguments of the command line to the devices of a volume.

use std::rc::Rc;

use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{Below, Kind, Name, Options, Own, Spec, Tree, named_by};

use crate::args::TargetArgs;
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};

/// A volume that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Name,
    /// The layers and devices of the volume.
    pub(crate) tree: Tree,
    pub(crate) options: Options,
    /// The expected volume id of the log, if the configuration file contains it.
    pub(crate) volume: Option<String>,
    /// True if the volume has a configuration file.
    pub(crate) described: bool,
}

impl Target {
    /// Finds the volume by its configuration file, or by the superblock of its own device.
    pub(crate) async fn find(
        args: &TargetArgs,
        dirs: &Dirs,
        rt: &Rt,
        ring: &Rc<Ring>,
    ) -> Outcome<Target> {
        if let Some(name) = &args.name {
            let description = dirs.description(name)?;
            return Ok(Target {
                name: description.name,
                tree: description.tree,
                options: description.options,
                volume: description.volume,
                described: true,
            });
        }
        let own = own(args)?;
        let existing = OpenOptions::existing().for_reading();
        let own = Own::open(rt, ring, own, existing)?;
        let (info, tree) = own.tree(args.data.as_ref()).await?;
        Ok(Target {
            name: info.name.parse()?,
            tree,
            options: Options::default(),
            volume: Some(info.volume),
            described: false,
        })
    }

    /// Returns the device with the superblock that describes the volume.
    pub(crate) fn own(&self) -> &Spec {
        self.tree.own()
    }

    /// Returns the device or layer that holds the data.
    pub(crate) fn data(&self) -> Below {
        self.tree.data()
    }
}

/// Returns the device that describes a volume, and the expected kind of that volume, if it is named by its devices.
pub(crate) fn own(args: &TargetArgs) -> Outcome<(Kind, &Spec)> {
    named_by(args.log.as_ref(), args.data.as_ref()).ok_or_else(|| {
        Failure::usage(
            "say which volume: its name, or --log PATH (or --data PATH of one without a log)",
        )
    })
}
