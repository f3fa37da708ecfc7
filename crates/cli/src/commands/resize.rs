//! `forebay resize`: adopts the present length of the devices, for an attached or a detached volume.

use std::rc::Rc;

use forebay_control::{Request, ResizedTo};
use forebay_os::Ring;
use forebay_rt::Rt;
use forebay_stack::{Layer, Name};
use forebay_units::ByteLen;

use super::detached::on_volume;
use crate::args::ResizeArgs;
use crate::target::Target;
use forebay_program::client::{Absent, Client};
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_program::report::Reply;
use forebay_program::result_line;
use forebay_program::run::on_ring;

pub(crate) fn run(args: ResizeArgs) -> Outcome {
    let dirs = Dirs::new()?;
    if let Some(name) = &args.target.name {
        match Client::try_connect(&dirs, name) {
            Ok(mut client) => return attached(&mut client, name, args.size),
            Err(Absent::Failed(failure)) => return Err(failure),
            Err(Absent::NotAttached | Absent::Dead) => {}
        }
    }
    let (name, resized) = on_ring(|rt, ring| detached(args, dirs, (rt, ring)))?;
    tell(&name, &resized);
    Ok(())
}

/// Sends the request to the daemon that serves the volume.
fn attached(client: &mut Client, name: &Name, size: Option<ByteLen>) -> Outcome {
    let size = size.map(|size| size.0);
    let resized = match client.ask(&Request::Resize { size }, |_| {})? {
        Reply::Resized(resized) => resized,
        reply => return Err(Failure::general(format!("an unknown answer: {reply:?}"))),
    };
    tell(name, &resized);
    match resized.device_stays {
        None => Ok(()),
        Some(why) => Err(Failure::io(format!(
            "{name} is resized, and its block device keeps the length that it had: {why}"
        ))),
    }
}

/// Resizes a volume that no daemon serves.
async fn detached(
    args: ResizeArgs,
    dirs: Dirs,
    (rt, ring): (Rt, Rc<Ring>),
) -> Outcome<(Name, ResizedTo)> {
    let target = Target::find(&args.target, &dirs, &rt, &ring).await?;
    let name = target.name.clone();
    let resize = async |layer: &dyn Layer| {
        let resized = layer.resize(args.size).await;
        resized.map_err(|error| {
            Failure::new(
                Failure::code_of(error.cause),
                format!("cannot resize {name}: {error}"),
            )
        })
    };
    let worked = on_volume(target, &dirs, (&rt, &ring), resize).await?;
    let mut notes = worked.notes;
    notes.extend(worked.result.notes);
    let resized = ResizedTo {
        before: worked.result.before,
        len: worked.result.len,
        notes,
        device_stays: None,
    };
    Ok((worked.name, resized))
}

fn tell(name: &Name, resized: &ResizedTo) {
    for note in &resized.notes {
        eprintln!("forebay: {note}");
    }
    let (before, len) = (ByteLen(resized.before), ByteLen(resized.len));
    if resized.len > resized.before {
        result_line!("{name} has {len} now, {before} before")
    } else {
        result_line!("{name} has {len}, which is what its devices have")
    }
}
