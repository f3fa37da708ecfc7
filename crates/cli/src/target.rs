//! From what was named on the command line to the devices of a volume.

use std::rc::Rc;

use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{Name, Options, Spec, cache, open_one};

use crate::args::TargetArgs;
use crate::dirs::Dirs;
use crate::failure::{Failure, Outcome};

/// A volume that can be opened.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Name,
    pub(crate) log: Spec,
    pub(crate) data: Spec,
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
                log: description.log,
                data: description.data,
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
        let info = cache::inspect(&part).await?;
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
            log,
            data,
            options: Options::default(),
            volume: Some(info.volume),
            described: false,
        })
    }
}
