//! The command line. The help, the manual pages and the completions are all generated from this module.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use forebay_scratch::TryArgs;
use forebay_units::{ByteLen, TimeSpan};
use forebay_volume::{DEFAULT_KIND, KindSpec, RequestedPlacement, VolumeName, kind_named};

mod completing;
mod devices;
mod examples;
mod mounting;
mod volumes;

pub(crate) use devices::{CloneIdArgs, ReplaceLogArgs};
pub(crate) use mounting::{MountArgs, UmountArgs};
pub(crate) use volumes::{
    AttachOptionSet, CreateOptionSet, DeviceArgs, FoundDeviceArgs, MountOptionSet, OptionArgs,
    TargetArgs, kind_help, warn,
};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for another reason
  2  wrong usage: options, sizes, names, mistakes in a configuration file
  3  not found, or not attached
  4  refused: in use, or continuing could lose or mix up data
  5  a device or the system failed
  (`forebay check` has its own codes: see its help)

Environment:
  FOREBAY_CONFIG_DIR   configuration files of volumes (default: /etc/forebay as root, else
                       $XDG_CONFIG_HOME/forebay)
  FOREBAY_RUNTIME_DIR  sockets, locks and logs of attached volumes (default: /run/forebay as root,
                       else $XDG_RUNTIME_DIR/forebay, /run/user/UID/forebay or
                       /tmp/forebay-UID)
  FOREBAY_STATE_DIR    records of logs that failed and must not be attached again (default:
                       /var/lib/forebay as root, else $XDG_STATE_HOME/forebay or
                       ~/.local/state/forebay)
  FOREBAY_DEV_DIR      links to the block devices of attached volumes (default: /dev/forebay)
  FOREBAY_GROUP        group whose members may see the status of root's volumes (default: forebay)
  RUST_LOG             what to log, for example forebay=debug";

/// Returns the text below the help of the whole program.
fn after_help() -> String {
    let models: Vec<&str> = forebay_disk_model::disk::names()
        .map(|(name, _)| name)
        .collect();
    let examples = examples::PROGRAM;
    format!(
        "\
{examples}

Devices (PATH):
  PATH                   a block device or a regular file
  PATH@OFFSET+LENGTH     a part of it, for example disk.img@64MiB+1GiB
  model:MODEL:PATH       (also with a part) the device at PATH, with the timing of an old disk:
                         {}
    MODEL may be followed by ,cache=off|read|on|own (the drive's own cache; off)
                             ,queue=fcfs|elevator|sptf (the order of its requests; fcfs)
                             ,phase=0.25 (its angle at the start, in rotations; 0)

{EXIT_CODES}",
        models.join(", ")
    )
}

const CHECK_HELP: &str = "\
A failed log that was abandoned is never applied again. If its unreadable data was declared lost, check
shows how much of that data can be read now, and --salvage writes it to the data device. Those sectors
may have been written since, through the data device alone, or in a session that ended in a crash:
salvage REPLACES such newer data with the lost data. So unmount and detach the data device first, look
at the output of `check` without --salvage, and check the filesystem afterwards.

Exit codes with --salvage: 0, no data is lost any longer; 2, some data is still lost; 3, refused
Exit codes:
  0  clean: everything is on the data device
  1  dirty: attaching will recover what the log holds
  2  damaged: flushed data cannot be read; or abandoned: the log failed and is never applied
  3  not a Forebay log, or unusable: missing, not permitted, in use, failing";

const SCRUB_HELP: &str = "\
Exit codes with --wait:
  0  whole: everything was read, and no fault was found
  1  the scrub was stopped before its end, or the volume was detached
  2  damaged: some content does not match its checksum (or wrong usage)
  3  the volume is not attached
  5  a device returned errors, also at a second attempt: this is not damage";

/// A write cache for block devices. It gathers small writes, appends them to a log device in large requests, and
/// destages them to the data device when the devices are idle. Also: log-structured volumes, and a filesystem on such a
/// volume.
#[derive(Parser, Debug)]
#[command(name = "forebay", version, after_help = after_help(), max_term_width = 100)]
pub(crate) struct Cli {
    /// Log more; repeat the option for still more. `RUST_LOG` overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum CliCommand {
    /// Show what Forebay does, end to end, on scratch images.
    ///
    /// Makes images that behave like an old disk. Runs users on ext4 on such a disk alone, on a write cache whose log is
    /// a part of the same disk, and on one whose log is a second disk. Kills the daemon during writes, recovers, and
    /// checks everything. Prints a table for ext4 with its journal, which most machines have, and one for the setting of
    /// the paper, where a cache gains much more. Takes about four minutes. Without root, does the same at block level
    /// over NBD.
    #[command(after_long_help = examples::TRY)]
    Try(TryArgs),
    /// Make a volume of a data device and a log device, or a log-structured volume of a data device alone.
    ///
    /// For a write cache, formats the log device only; nothing is written to the data device. A log-structured volume
    /// (--volume vsl) overwrites its data device. Writes the configuration file of the volume, which `attach` reads and
    /// an administrator may edit.
    #[command(after_long_help = examples::CREATE)]
    Create(CreateArgs),
    /// Recover a volume if necessary, and serve it.
    ///
    /// Prints the block device, /dev/forebay/NAME, or the NBD URI with --via none.
    #[command(after_long_help = examples::ATTACH)]
    Attach(AttachArgs),
    /// Mount a filesystem that was made with `create --fs`; recover it if necessary.
    ///
    /// Prints the directory. Without root, it needs fusermount3. `mount -t forebay` and fstab run this command as
    /// /sbin/mount.forebay.
    #[command(after_long_help = examples::MOUNT)]
    Mount(MountArgs),
    /// Unmount a filesystem, and wait until all its data is durable.
    #[command(after_long_help = examples::UMOUNT)]
    Umount(UmountArgs),
    /// List the volumes that are attached or have a configuration file.
    #[command(after_long_help = examples::LIST)]
    List(JsonArgs),
    /// Show the state of attached volumes.
    #[command(after_long_help = examples::STATUS)]
    Status(StatusArgs),
    /// Move all data to the data device; the volume stays attached.
    #[command(after_long_help = examples::DRAIN)]
    Drain(DrainArgs),
    /// Hold back writes for a limited time, so that the devices can be copied.
    ///
    /// Moves all data to its final place, then lets new writes, discards and zeroes wait; they do not fail. Reads
    /// continue. The data device alone is the volume until `thaw`, or until the time limit lets the writes continue, so
    /// it can be copied or snapshotted without the log. Data that the kernel or a program has not written yet is not in
    /// the copy: run `sync`, or freeze the filesystem above with `fsfreeze`, before.
    #[command(after_long_help = examples::FREEZE)]
    Freeze(FreezeArgs),
    /// Let the writes of a frozen volume continue.
    ///
    /// Refuses with exit code 4 if the volume is no longer frozen: a copy made meanwhile may then be incomplete.
    #[command(after_long_help = examples::THAW)]
    Thaw(ThawArgs),
    /// Abandon data that can no longer be read from the log.
    ///
    /// Data that cannot be read from a failing log device is not lost: the daemon retries without a time limit. With
    /// this command the administrator declares that the data will not come back. The data is read once more. Whatever
    /// is still unreadable is LOST: its sectors give errors until they are written again. If the log has failed
    /// completely, the administrator also guarantees that the log device will not be attached again. Without
    /// --lose-unreadable, the command only shows which data would be lost.
    #[command(alias = "give-up", after_long_help = examples::DISCARD_UNREADABLE)]
    DiscardUnreadable(DiscardUnreadableArgs),
    /// Adopt the present length of the devices, after `lvextend` or `truncate` made them longer.
    ///
    /// A cached volume becomes as long as its data device: at once if it is attached, else at its next attach, without
    /// this command. The block device of an attached volume gets the new length while it is in use. Then grow the
    /// filesystem on it (`resize2fs`, `xfs_growfs`). NBD clients see the new length at their next connection. No volume
    /// becomes shorter.
    #[command(after_long_help = examples::RESIZE)]
    Resize(ResizeArgs),
    /// Show how a log-structured volume or a filesystem places data, and the cost of the alternatives; or change the
    /// placement.
    ///
    /// An attached volume measures how often each page is written, and the cost of its cleaner. With `--placement
    /// auto`, the default of `create`, the volume changes its placement when another is expected to cost less. Existing
    /// data stays where it is until it is overwritten or cleaned.
    #[command(after_long_help = examples::TUNE)]
    Tune(TuneArgs),
    /// Give a write cache another log, while it is in use.
    ///
    /// Replaces a log that failed, is too small, or must move to another device. Moves all data to the data device, marks
    /// the present log as abandoned, names the new log in the configuration file, and continues with it. Clients wait
    /// only for the last step. Between these steps, writes go directly to the data device. If the command fails there,
    /// the volume continues without a log: repeat it. Works for a volume that is not attached, too.
    #[command(after_long_help = examples::REPLACE_LOG)]
    ReplaceLog(ReplaceLogArgs),
    /// Read all data of an attached volume in the background, and compare it with its checksums.
    ///
    /// The volume stays in use. Data of a log-structured volume, of a filesystem and in the log of a cache has checksums.
    /// The data device of a cache and the devices of a span have none, and are only read. Clients go first. `status`
    /// shows the progress, and the result until the next scrub. A detach stops a running scrub. If a scrub is running
    /// already, --rate changes its rate, and --wait waits for its end.
    #[command(after_help = SCRUB_HELP, after_long_help = format!("{}{SCRUB_HELP}", examples::SCRUB))]
    Scrub(ScrubArgs),
    /// Move all data to the data device, then stop serving the volume.
    ///
    /// Refuses while the block device is mounted or open, or NBD clients are connected. With --hand-over only the
    /// daemon stops. A ublk or nbd device then stays, even mounted, and its clients wait until `attach` takes it over,
    /// for example with another version of this program.
    #[command(after_long_help = examples::DETACH)]
    Detach(DetachArgs),
    /// Show what recovery would find in a log. Changes nothing without --salvage.
    #[command(after_help = CHECK_HELP, after_long_help = format!("{}{CHECK_HELP}", examples::CHECK))]
    Check(CheckArgs),
    /// Print every structure of a log.
    #[command(after_long_help = examples::DUMP)]
    Dump(DumpArgs),
    /// Write the configuration file of a volume again, after the file was lost.
    ///
    /// The devices are not changed. The log, or the data device of a volume without a log, records the name, the id and
    /// the other device of the volume. The options of the former file have their defaults.
    #[command(after_long_help = examples::ADOPT)]
    Adopt(AdoptArgs),
    /// Make copied devices a volume of their own, with another id and another name.
    ///
    /// A copy has the id of the original, so both cannot be attached to one machine. Name all devices of the copy. The log
    /// of a write cache must be empty: freeze or detach the original while its devices are copied. Writes the configuration
    /// file of the copy, with default options. Changes only the superblocks of a log-structured volume or a filesystem,
    /// and only the log of a write cache.
    #[command(after_long_help = examples::CLONE_ID)]
    CloneId(CloneIdArgs),
    /// Drain a volume that is not attached, then erase its log and its configuration file.
    ///
    /// The data of a log-structured volume exists nowhere else: removing the volume loses the data, and needs --force.
    /// So does removing a volume that can no longer be drained. If its data device is gone, the data in the log is
    /// lost. If its own device is gone or wiped, only the configuration file is removed.
    #[command(after_long_help = examples::REMOVE)]
    Remove(RemoveArgs),
    /// Print completions for a shell, which also complete the names of volumes and the values of options.
    #[command(after_long_help = examples::COMPLETIONS)]
    Completions {
        /// The shell: bash, zsh, fish, elvish or powershell.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands to a directory.
    #[command(after_long_help = examples::MAN)]
    Man {
        /// Write forebay.1, forebay-create.1, forebay.toml.5, mount.forebay.8 and so on into this directory.
        #[arg(long, value_name = "DIR")]
        out: Option<std::path::PathBuf>,
    },
    /// Attach the volumes whose configuration files have boot = "on". For the scripts of the initramfs.
    #[command(hide = true)]
    Boot(BootArgs),
    /// Work on files for a daemon, and print the result. For daemons.
    #[command(hide = true)]
    OwnFile {
        /// The work, as JSON.
        request: String,
    },
    /// Print the volume that the block device DEVICE belongs to, for the udev rule in packaging/udev.
    #[command(hide = true)]
    Udev {
        /// The device as the kernel names it: loop0.
        device: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) devices: DeviceArgs,
    #[arg(long, value_name = "KIND", default_value = DEFAULT_KIND.name, value_parser = kind_named, add = completing::kinds(), help = kind_help())]
    pub(crate) volume: &'static KindSpec,
    /// Make a filesystem: an abbreviation of --volume fs.
    #[arg(long, conflicts_with = "volume")]
    pub(crate) fs: bool,
    /// The name of the volume (default: made from the name of the data device).
    #[arg(long)]
    pub(crate) name: Option<VolumeName>,
    /// Create the log as a file of this size if it does not exist.
    #[arg(long, value_name = "SIZE")]
    pub(crate) log_size: Option<ByteLen>,
    /// Leave a log file sparse. Faster now; later slower, and able to run out of space.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Overwrite the contents of the log device (for a vsl volume: the data device) and an existing configuration file.
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) options: OptionArgs<CreateOptionSet>,
}

/// Risks to accept when attaching.
#[derive(Args, Debug, Default, Clone, Copy)]
pub(crate) struct AcceptArgs {
    /// Attach although flushed data is missing from the log. The volume returns to its state before the missing data:
    /// later writes are lost, too.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Attach although the data device differs from the record in the log. Applying the log to another or a changed
    /// device can destroy the data on it.
    #[arg(long)]
    pub(crate) accept_changed: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) options: OptionArgs<AttachOptionSet>,
    #[command(flatten)]
    pub(crate) accept: AcceptArgs,
    /// Do not go into the background (for systemd: Type=notify).
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Set for the daemon that `attach` starts: it runs in its own session and tells its parent when it is ready.
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) daemon: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BootArgs {
    /// Print these volumes, their configuration files and their devices, and attach nothing.
    #[arg(long)]
    pub(crate) list: bool,
    /// Set for the process that prepares the surroundings of a daemon.
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) enter: Option<VolumeName>,
    /// Set for the process that starts a daemon, and starts it again if it fails.
    #[arg(long, hide = true, value_name = "NAME")]
    pub(crate) keep: Option<VolumeName>,
}

#[derive(Args, Debug)]
pub(crate) struct JsonArgs {
    /// Print JSON; docs/status.md describes it.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The volume (default: all attached volumes).
    #[arg(add = completing::attached_names())]
    pub(crate) name: Option<VolumeName>,
    /// Print JSON, one object per volume; docs/status.md describes it.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show the state on the whole screen as it changes, with the last minutes; q ends it. If the output is not a
    /// terminal: print the state again each second, until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
    /// Print one line with the health, and exit as a monitoring plugin does: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.
    /// Without a name: all volumes that are attached, whose daemon was killed, or whose systemd service is enabled.
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub(crate) check: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
    /// Stop after this time; data moved by then stays moved.
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<TimeSpan>,
}

#[derive(Args, Debug)]
pub(crate) struct FreezeArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
    /// Let writes continue after this time, at most 1h [default: 60s].
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<TimeSpan>,
}

#[derive(Args, Debug)]
pub(crate) struct ThawArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
}

#[derive(Args, Debug)]
pub(crate) struct DiscardUnreadableArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
    /// Confirm: unreadable data is lost from then on.
    #[arg(long)]
    pub(crate) lose_unreadable: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// For a log-structured volume: its new length, which may exceed its capacity. Without this option, a volume
    /// shorter than the default for its device gets that default length.
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<ByteLen>,
}

#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// New placement: lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite; auto: the volume selects the best placement,
    /// beginning with the present one.
    #[arg(long, value_name = "HOW")]
    pub(crate) placement: Option<RequestedPlacement>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ScrubArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
    /// Read at most this many bytes per second; 0: no limit (default: 32MiB).
    #[arg(long, value_name = "SIZE", conflicts_with = "stop")]
    pub(crate) rate: Option<ByteLen>,
    /// Wait for the end of the scrub, and return its result.
    #[arg(long, conflicts_with = "stop")]
    pub(crate) wait: bool,
    /// Stop the running scrub.
    #[arg(long)]
    pub(crate) stop: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DetachArgs {
    /// The volume.
    #[arg(add = completing::attached_names())]
    pub(crate) name: VolumeName,
    /// Leave dirty data in the log. The data device alone is then not the volume: do not mount it.
    #[arg(long)]
    pub(crate) keep_dirty: bool,
    /// Leave the block device (--via ublk or nbd) to the next `attach`. The device may be in use; its requests wait for
    /// that attach. Dirty data stays in the log.
    #[arg(long, conflicts_with = "keep_dirty")]
    pub(crate) hand_over: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// For an abandoned log: write the data that was lost with it, and can be read now, to the data device. Replaces
    /// data written there since; see below.
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AdoptArgs {
    #[command(flatten)]
    pub(crate) devices: FoundDeviceArgs,
    /// The name of the volume (default: the name that the log records, or one made from the name of the data device).
    #[arg(long)]
    pub(crate) name: Option<VolumeName>,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) accept: AcceptArgs,
    /// Lose the data of a log-structured volume, or of a log that cannot be drained; or remove the configuration file
    /// of a volume whose devices are gone.
    #[arg(long)]
    pub(crate) force: bool,
}
