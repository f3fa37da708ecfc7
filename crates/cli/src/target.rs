//! From what was named on the command line to the devices of a volume.

use std::rc::Rc;

use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{Below, Name, Options, Spec, Tree, open_one};

use crate::args::TargetArgs;
use crate::dirs::Dirs;
use crate::failure::{Failure, Outcome};

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
        let log = args
            .log
            .clone()
            .ok_or_else(|| Failure::usage("say which volume: its name, or --log PATH"))?;
        let part = open_one(rt, ring, &log, OpenOptions::existing().for_reading())?;
        let info = forebay_stack::inspect(&part).await?;
        let data = match &args.data {
            Some(data) => data.clone(),
            None => info.data.path.parse().map_err(|error| {
                Failure::general(format!(
                    "the log {log} remembers its data device as {}, which is no path ({error}); \
                     say where it is with --data PATH",
                    info.data.path
                ))
            })?,
        };
        Ok(Target {
            name: info.name.parse()?,
            tree: Tree::cache(log, data),
            options: Options::default(),
            volume: Some(info.volume),
            described: false,
        })
    }

    /// The log device.
    pub(crate) fn log(&self) -> &Spec {
        self.tree.own()
    }

    /// What the data is on.
    pub(crate) fn data(&self) -> &Below {
        self.tree.data()
    }
}
