//! Work on a volume that no daemon serves: the command recovers the volume, works on it, and closes it.

use std::rc::Rc;

use forebay_os::{OpenOptions, Ring};
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_rt::Rt;
use forebay_stack::{Accept, Layer, Name, Witness, open};

use crate::clock::clock;
use crate::lock::NameLock;
use crate::target::Target;
use crate::witness::StateDir;

/// Result of work on a volume.
pub(super) struct Worked<T> {
    /// The volume's name.
    pub(super) name: Name,
    /// Notes of the recovery for the administrator.
    pub(super) notes: Vec<String>,
    /// Result of `work`.
    pub(super) result: T,
}

/// Recovers the volume, runs `work` on it, and closes it. The name is locked in between.
///
/// # Errors
/// The volume is in use or cannot be recovered, `work` fails, or the volume cannot be closed. A failure of `work` takes
/// precedence.
pub(super) async fn on_volume<T>(
    target: Target,
    dirs: &Dirs,
    (rt, ring): (&Rt, &Rc<Ring>),
    work: impl AsyncFnOnce(&dyn Layer) -> Outcome<T>,
) -> Outcome<Worked<T>> {
    let lock = NameLock::take(dirs, &target.name)?;
    let all = async || Ok(open(rt, ring, &target.tree, OpenOptions::existing())?.by_default());
    let opened = lock.patiently(rt, all).await?;
    let witness: Option<Rc<dyn Witness>> = Some(Rc::new(StateDir::new(rt, dirs.state()?)));
    let around = (witness, clock());
    let name = target.name.as_str();
    let attached = forebay_stack::attach(rt.clone(), opened, name, Accept::default(), around);
    let attached = attached.await?;
    let result = work(&*attached.layer).await;
    let closed = attached.layer.close().await;
    let result = result?;
    closed.map_err(|error| Failure::io(format!("cannot close {name}: {error}")))?;
    Ok(Worked {
        name: target.name,
        notes: attached.notes,
        result,
    })
}
