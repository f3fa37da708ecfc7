//! The command line of `mount` and `umount`.

use std::path::PathBuf;

use clap::Args;
use forebay_stack::{Discard, Http, Memory, Metrics};
use forebay_units::{ByteLen, TimeSpan};

#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    /// The filesystem: its name, or its device if there is a slash in it.
    #[arg(value_name = "NAME|PATH")]
    pub(crate) source: String,
    /// Where: a directory. If it is left out, the description says where.
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// How: words with commas between them, as with mount: ro, nosuid, nodev, noexec, noatime, strictatime, nodiratime, sync,
    /// dirsync, parallel_direct (direct writes of several threads to one file go in parallel; a file that is open with O_DIRECT
    /// cannot be mapped shared then), allow_other (others than you may use it; they may if you are root), private (they may not), and the options
    /// below as KEY=VALUE. What is of fstab alone (defaults, nofail, _netdev, x-…) is passed over.
    #[arg(long = "option", short = 'o', value_name = "OPTION,…")]
    pub(crate) options: Vec<String>,
    /// How long data that nobody flushed may wait before it is written [default: 50 to 250ms, by the device].
    #[arg(long, value_name = "TIME")]
    pub(crate) max_delay: Option<TimeSpan>,
    /// How much memory the map of the space may take [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) map_memory: Option<ByteLen>,
    /// Whether segments are discarded before they are used again: on or off [default: on for a block device that can
    /// discard; off for files].
    #[arg(long, value_name = "on|off")]
    pub(crate) discard: Option<Discard>,
    /// How much memory the data of requests may take up: 64MiB or more [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Memory>,
    /// Give out Prometheus metrics over HTTP at ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<Metrics>,
    /// Give out a page that shows how it is doing over HTTP: at PORT of this machine, or at ADDRESS:PORT.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) http: Option<Http>,
    /// Say nothing where all goes well.
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Look at the arguments and mount nothing (mount -f).
    #[arg(long, hide = true)]
    pub(crate) fake: bool,
    /// Mount although flushed data is missing. The filesystem is then as it was before what is missing: what came after
    /// that is lost, too.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Do not go into the background (for systemd: Type=notify).
    #[arg(long)]
    pub(crate) foreground: bool,
    /// The daemon that `mount` starts: in its own session, tells its parent when it is ready.
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) daemon: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// The directory where it is mounted, or its name.
    #[arg(value_name = "DIR|NAME")]
    pub(crate) what: PathBuf,
    /// Unmount it even if it is in use, or its daemon does not answer: who uses it gets errors from then on. What was
    /// written before is kept. Needs root.
    #[arg(long)]
    pub(crate) force: bool,
}
