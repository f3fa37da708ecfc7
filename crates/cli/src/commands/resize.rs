//! `forebay resize`: adopts the present length of the devices, for an attached or a detached volume.

use std::rc::Rc;

use forebay_control::{Request, ResizedTo};
use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{Accept, Name, Witness, open};
use forebay_units::ByteLen;

use crate::args::ResizeArgs;
use crate::clock::clock;
use crate::lock::NameLock;
use crate::target::Target;
use crate::witness::StateDir;
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

/// Recovers the volume, resizes it, and closes it.
async fn detached(
    args: ResizeArgs,
    dirs: Dirs,
    (rt, ring): (Rt, Rc<Ring>),
) -> Outcome<(Name, ResizedTo)> {
    let target = Target::find(&args.target, &dirs, &rt, &ring).await?;
    let lock = NameLock::take(&dirs, &target.name)?;
    let all = async || Ok(open(&rt, &ring, &target.tree, OpenOptions::existing())?.by_default());
    let opened = lock.patiently(&rt, all).await?;
    let witness: Option<Rc<dyn Witness>> = Some(Rc::new(StateDir::new(&rt, dirs.state()?)));
    let around = (witness, clock());
    let name = target.name.as_str();
    let attached = forebay_stack::attach(rt.clone(), opened, name, Accept::default(), around);
    let attached = attached.await?;
    let resized = attached.layer.resize(args.size).await;
    let closed = attached.layer.close().await;
    let resized = resized.map_err(|error| {
        Failure::new(
            Failure::code_of(error.cause),
            format!("cannot resize {name}: {error}"),
        )
    })?;
    closed.map_err(|error| Failure::io(format!("cannot close {name}: {error}")))?;
    let mut notes = attached.notes;
    notes.extend(resized.notes);
    let resized = ResizedTo {
        before: resized.before,
        len: resized.len,
        notes,
        device_stays: None,
    };
    Ok((target.name, resized))
}

fn tell(name: &Name, resized: &ResizedTo) {
    for note in &resized.notes {
        eprintln!("forebay: {note}");
    }
    let (before, len) = (ByteLen(resized.before), ByteLen(resized.len));
    match resized.len > resized.before {
        true => result_line!("{name} has {len} now, {before} before"),
        false => result_line!("{name} has {len}, which is what its devices have"),
    }
}
