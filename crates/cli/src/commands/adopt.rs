//! `forebay adopt`: writes the lost configuration file of a volume, from the superblock of its own device.

use std::rc::Rc;

use forebay_linux::IoRing;
use forebay_rt::Rt;
use forebay_volume::{ConfigFile, OptionValues};

use crate::args::{AdoptArgs, TargetArgs};
use crate::dirs::ProgramDirs;
use crate::lock::NameLock;
use crate::new_volume::{next_step, refuse_taken};
use crate::run::on_ring;
use crate::stable_path::stable;
use crate::target::VolumeTarget;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

pub(crate) fn run(args: AdoptArgs) -> CommandResult {
    on_ring(move |rt, ring| adopt(args, rt, ring))
}

async fn adopt(args: AdoptArgs, rt: Rt, ring: Rc<IoRing>) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let devices = TargetArgs {
        name: None,
        devices: args.devices.devices,
    };
    let found = VolumeTarget::find(&devices, &dirs, &rt, &ring).await?;
    let name = args.name.unwrap_or_else(|| found.name.clone());
    // A second file for one volume would offer the volume under two names.
    for described in dirs.described_names() {
        let same = dirs.description(&described);
        if same.is_ok_and(|same| same.volume.is_some() && same.volume == found.volume) {
            return Err(CommandFailure::refused(format!(
                "{} is a device of the volume {described} already ({}); nothing is missing",
                found.own(),
                dirs.description_file(&described).display()
            )));
        }
    }
    let _lock = NameLock::take(&dirs, &name)?;
    refuse_taken(&dirs, &name, "")?;
    let next = next_step(found.tree.kind().served_as, &name);
    let description = ConfigFile {
        name: name.clone(),
        volume: found.volume.clone(),
        tree: found.tree.on(&mut stable)?,
        service: OptionValues::default(),
        warnings: Vec::new(),
    };
    let file = dirs.new_description(&name)?.write(&description)?;
    result_line!(
        "wrote the configuration file {} of volume {name}, with default options\n{next}",
        file.display()
    );
    Ok(())
}
