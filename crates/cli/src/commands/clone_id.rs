//! `forebay clone-id`: makes copied devices a volume of their own, with another id and name.

use std::rc::Rc;

use forebay_linux::{DeviceOpenOptions, IoRing};
use forebay_rt::Rt;
use forebay_volume::{
    ConfigFile, LayerTree, NewIdentity, OpenContext, OptionValues, SuperblockDevice, open,
};

use crate::args::{CloneIdArgs, TargetArgs};
use crate::dirs::ProgramDirs;
use crate::lock::NameLock;
use crate::new_volume::{next_step, refuse_taken};
use crate::run::on_ring;
use crate::stable_path::stable;
use crate::target::VolumeTarget;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

pub(crate) fn run(args: CloneIdArgs) -> CommandResult {
    on_ring(move |rt, ring| clone_id(args, rt, ring))
}

async fn clone_id(args: CloneIdArgs, rt: Rt, ring: Rc<IoRing>) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    let name = args.name;
    let devices = TargetArgs {
        name: None,
        devices: args.devices.devices,
    };
    let found = VolumeTarget::find(&devices, &dirs, &rt, &ring).await?;
    let mut roles = found.tree.kind().roles.iter();
    // Another device would be that of the original.
    if let Some(missing) = roles.find(|role| devices.devices.get(role.name).is_none()) {
        let role = missing.name;
        return Err(CommandFailure::usage(format!(
            "name the copy of the {role} device, too: --{role} PATH"
        )));
    }
    refuse_devices_in_use(&found.tree, &dirs)?;
    let _lock = NameLock::take(&dirs, &name)?;
    refuse_taken(&dirs, &name, "")?;
    let description = dirs.new_description(&name)?;
    let mut id = [0; 16];
    getrandom::fill(&mut id)
        .map_err(|error| CommandFailure::io(format!("no random numbers: {error}")))?;
    let options = DeviceOpenOptions::existing();
    let context = OpenContext {
        rt: &rt,
        ring: &ring,
        options,
    };
    let opened = open(&found.tree, context)?;
    let identity = NewIdentity {
        name: name.clone(),
        id,
    };
    opened.renew_identity(identity).await?;
    let own: SuperblockDevice = opened.own();
    let volume = own.inspect().await?.volume;
    let next = next_step(found.tree.kind().served_as, &name);
    let file = description.write(&ConfigFile {
        name: name.clone(),
        volume: Some(volume.clone()),
        tree: found.tree.on(&mut stable)?,
        service: OptionValues::default(),
        warnings: Vec::new(),
    })?;
    let before = found.volume.unwrap_or_default();
    result_line!(
        "the copy is the volume {name} now, with the id {volume} instead of {before}; configuration file {}\n{next}",
        file.display()
    );
    Ok(())
}

/// Refuses devices of a volume that has a configuration file: they are an original and not a copy.
fn refuse_devices_in_use(tree: &LayerTree, dirs: &ProgramDirs) -> CommandResult {
    for name in dirs.described_names() {
        let Ok(described) = dirs.description(&name) else {
            continue;
        };
        for (_, used) in described.tree.devices() {
            let identity = used.identity().ok();
            let overlaps = |(_, spec): &(String, &forebay_volume::DeviceSpec)| {
                let pair = spec.identity().ok().zip(identity.as_ref());
                pair.is_some_and(|(own, other)| own.overlaps(other))
            };
            if let Some((_, spec)) = tree.devices().into_iter().find(overlaps) {
                return Err(CommandFailure::refused(format!(
                    "{spec} is a device of the volume {name} ({}), not a copy; name the devices of the copy",
                    dirs.description_file(&name).display()
                )));
            }
        }
    }
    Ok(())
}
