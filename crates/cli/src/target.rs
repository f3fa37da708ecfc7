//! From what was named on the command line to the devices of a volume.

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
    /// What it is made of.
    pub(crate) tree: Tree,
    pub(crate) options: Options,
    /// The id its log must have, if the description says so.
    pub(crate) volume: Option<String>,
    /// Whether there is a description.
    pub(crate) described: bool,
}

impl Target {
    /// By description, or by what the log says of itself.
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

    /// The device that says what the volume is.
    pub(crate) fn own(&self) -> &Spec {
        self.tree.own()
    }

    /// What the data is on.
    pub(crate) fn data(&self) -> Below {
        self.tree.data()
    }
}

/// The device that says what a volume is that is named by its devices, and what is expected there.
pub(crate) fn own(args: &TargetArgs) -> Outcome<(Kind, &Spec)> {
    named_by(args.log.as_ref(), args.data.as_ref()).ok_or_else(|| {
        Failure::usage(
            "say which volume: its name, or --log PATH (or --data PATH of one without a log)",
        )
    })
}
