//! `forebay tune`: shows or changes the placement of an attached or detached volume.

use std::rc::Rc;

use forebay_control::{Request, TunedTo};
use forebay_os::Ring;
use forebay_rt::Rt;
use forebay_stack::{Layer, Name};

use super::detached::on_volume;
use crate::args::TuneArgs;
use crate::target::Target;
use crate::tuned::{not_tuned, told};
use forebay_program::client::{Absent, Client};
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_program::report::Reply;
use forebay_program::result_line;
use forebay_program::run::on_ring;

pub(crate) fn run(args: TuneArgs) -> Outcome {
    let dirs = Dirs::new()?;
    let json = args.json;
    if let Some(name) = &args.target.name {
        match Client::try_connect(&dirs, name) {
            Ok(mut client) => {
                let tuned = attached(&mut client, &args)?;
                return tell(name, &tuned, json);
            }
            Err(Absent::Failed(failure)) => return Err(failure),
            Err(Absent::NotAttached | Absent::Dead) => {}
        }
    }
    let (name, tuned) = on_ring(|rt, ring| detached(args, dirs, (rt, ring)))?;
    tell(&name, &tuned, json)
}

/// Sends the request to the daemon that serves the volume.
fn attached(client: &mut Client, args: &TuneArgs) -> Outcome<TunedTo> {
    let placement = args.placement.map(|placement| placement.to_string());
    match client.ask(&Request::Tune { placement }, |_| {})? {
        Reply::Tuned(tuned) => Ok(tuned),
        reply => Err(Failure::general(format!("an unknown answer: {reply:?}"))),
    }
}

/// Tunes a volume that no daemon serves.
async fn detached(
    args: TuneArgs,
    dirs: Dirs,
    (rt, ring): (Rt, Rc<Ring>),
) -> Outcome<(Name, TunedTo)> {
    let target = Target::find(&args.target, &dirs, &rt, &ring).await?;
    let name = target.name.clone();
    let possible = target.tree.can_be_tuned(args.placement);
    possible.map_err(|error| not_tuned(&name, &error))?;
    let tune = async |layer: &dyn Layer| {
        let tuned = layer.tune(args.placement).await;
        tuned.map_err(|error| not_tuned(&name, &error))
    };
    let worked = on_volume(target, &dirs, (&rt, &ring), tune).await?;
    for note in &worked.notes {
        eprintln!("forebay: {note}");
    }
    Ok((worked.name, told(worked.result)))
}

fn tell(name: &Name, tuned: &TunedTo, json: bool) -> Outcome {
    if json {
        let text = serde_json::to_string_pretty(tuned)
            .map_err(|error| Failure::general(error.to_string()))?;
        result_line!("{text}");
        return Ok(());
    }
    let by = if tuned.auto {
        ", and changes that where another placement is expected to cost less"
    } else {
        ""
    };
    if tuned.before == tuned.placement {
        result_line!("{name} places data by {}{by}", tuned.placement)
    } else {
        result_line!(
            "{name} places data by {} now, by {} before{by}",
            tuned.placement,
            tuned.before
        )
    }
    match &tuned.reason {
        Some(reason) => result_line!("by {} looks at what is written: {reason}", tuned.looks),
        None => result_line!(
            "too little was overwritten since it was attached to tell what another placement would cost"
        ),
    }
    if let Some(better) = &tuned.leaning
        && !tuned.auto
    {
        result_line!("it would cost less with --placement {better}");
    }
    Ok(())
}
