//! The command line of `mount` and `umount`.

use std::path::PathBuf;

use clap::Args;

use super::{MountOptionSet, OptionArgs, completing};

#[derive(Args, Debug)]
pub(crate) struct MountArgs {
    /// The filesystem: its name, or its device if the argument contains a slash.
    #[arg(value_name = "NAME|PATH", add = completing::volume_names())]
    pub(crate) source: String,
    /// The directory to mount on (default: the directory in the configuration file).
    #[arg(value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Mount options, separated by commas, as with mount: ro, nosuid, nodev, noexec, noatime, strictatime, nodiratime,
    /// sync, dirsync, parallel_direct (direct writes of several threads to one file run in parallel; a file that is
    /// open with O_DIRECT can then not be mapped shared), allow_other (other users have access; the default for root),
    /// private (other users have no access), and the options below as KEY=VALUE. Options of fstab alone (defaults,
    /// nofail, _netdev, x-…) are ignored.
    #[expect(clippy::doc_markdown, reason = "a help text")]
    #[arg(long = "option", short = 'o', value_name = "OPTION,…")]
    pub(crate) options: Vec<String>,
    #[command(flatten)]
    pub(crate) serve: OptionArgs<MountOptionSet>,
    /// Print nothing on success.
    #[arg(long, short = 'q')]
    pub(crate) quiet: bool,
    /// Check the arguments and mount nothing (mount -f).
    #[arg(long, hide = true)]
    pub(crate) fake: bool,
    /// Mount although flushed data is missing. The filesystem returns to its state before the missing data: later
    /// writes are lost, too.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Do not go into the background (for systemd: Type=notify).
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Set for the daemon that `mount` starts: it runs in its own session and tells its parent when it is ready.
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) daemon: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UmountArgs {
    /// The directory where the filesystem is mounted, or its name.
    #[arg(value_name = "DIR|NAME", add = completing::attached_names())]
    pub(crate) what: PathBuf,
    /// Unmount even if the filesystem is in use or its daemon does not answer: its users get errors from then on. Data
    /// written before is kept. Needs root.
    #[arg(long)]
    pub(crate) force: bool,
}
