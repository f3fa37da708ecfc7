//! Examples of the commands, for their helps and their manual pages.

/// Examples of the whole program.
pub(super) const PROGRAM: &str = "\
Examples:
  A write cache in front of an existing disk:

    # forebay create --data /dev/sdb1 --log /dev/nvme0n1p4 --name archive
    # forebay attach archive
    # mount /dev/forebay/archive /mnt

  The end of the cache; the disk alone then has all data:

    # umount /mnt
    # forebay detach archive
    # mount /dev/sdb1 /mnt

  What it does, on scratch images:

    $ forebay try";

pub(super) const TRY: &str = "\
Examples:
  $ forebay try
  $ forebay try --disk none
  $ forebay try --fs
  $ forebay try --volume vsl --placement lfs,hylog --filled 80";

pub(super) const CREATE: &str = "\
Examples:
  A write cache; the filesystem on /dev/sdb1 stays as it is:
    # forebay create --data /dev/sdb1 --log /dev/nvme0n1p4 --name archive

  The log as a file of 8 GiB on a fast filesystem:
    # forebay create --data /dev/sdb1 --log /ssd/archive.log --log-size 8GiB

  A thin log-structured volume of 4 TiB, which overwrites /dev/sdb1:
    # forebay create --volume vsl --data /dev/sdb1 --size 4TiB --name thin

  A filesystem, which overwrites /dev/sdb1:
    # forebay create --fs --data /dev/sdb1 --name files";

pub(super) const ATTACH: &str = "\
Examples:
  # forebay attach archive
  # forebay attach archive --ack durable --metrics 127.0.0.1:9420
  # forebay attach --log /dev/nvme0n1p4
  $ forebay attach archive --via none --listen unix:/tmp/archive.sock";

pub(super) const MOUNT: &str = "\
Examples:
  # forebay mount files /srv/files
  # forebay mount files /srv/files -o noatime,nosuid
  # mount -t forebay files /srv/files";

pub(super) const UMOUNT: &str = "\
Examples:
  # forebay umount /srv/files
  # forebay umount files --force";

pub(super) const LIST: &str = "\
Examples:
  $ forebay list
  $ forebay list --json";

pub(super) const STATUS: &str = "\
Examples:
  $ forebay status archive
  $ forebay status archive --watch
  $ forebay status --json";

pub(super) const DRAIN: &str = "\
Examples:
  # forebay drain archive
  # forebay drain archive --timeout 5min";

pub(super) const FREEZE: &str = "\
Examples:
  A copy of the data device by an LVM snapshot:
    # forebay freeze archive --timeout 30s
    # lvcreate --snapshot --name copy --size 10G vg/data
    # forebay thaw archive";

pub(super) const THAW: &str = "\
Examples:
  # forebay thaw archive";

pub(super) const DISCARD_UNREADABLE: &str = "\
Examples:
  # forebay discard-unreadable archive
  # forebay discard-unreadable archive --lose-unreadable";

pub(super) const RESIZE: &str = "\
Examples:
  # lvextend -L +100G vg/data
  # forebay resize archive
  # resize2fs /dev/forebay/archive

  # forebay resize thin --size 8TiB";

pub(super) const TUNE: &str = "\
Examples:
  $ forebay tune thin
  # forebay tune thin --placement hylog";

pub(super) const REPLACE_LOG: &str = "\
Examples:
  # forebay replace-log archive --log /dev/nvme1n1p1
  # forebay replace-log archive --log /ssd/archive.log --log-size 8GiB";

pub(super) const SCRUB: &str = "\
Examples:
  # forebay scrub archive
  # forebay scrub archive --rate 100MiB --wait
  # forebay scrub archive --stop

";

pub(super) const DETACH: &str = "\
Examples:
  # forebay detach archive
  # forebay detach archive --keep-dirty

  Another version of the program takes over, while the volume is mounted:
    # forebay detach archive --hand-over && forebay attach archive";

pub(super) const CHECK: &str = "\
Examples:
  # forebay check archive
  # forebay check --log /dev/nvme0n1p4 --json

";

pub(super) const DUMP: &str = "\
Examples:
  # forebay dump archive
  # forebay dump --log /dev/nvme0n1p4 --json";

pub(super) const ADOPT: &str = "\
Examples:
  # forebay adopt --log /dev/nvme0n1p4
  # forebay adopt --data /dev/sdb1 --name thin";

pub(super) const CLONE_ID: &str = "\
Examples:
  # forebay clone-id --data /dev/vg/snapshot --name copy
  # forebay clone-id --log /dev/sdd --data /dev/sde --name copy";

pub(super) const REMOVE: &str = "\
Examples:
  # forebay remove archive
  # forebay remove --data /dev/sdb1 --force";

pub(super) const COMPLETIONS: &str = "\
Examples:
  $ source <(forebay completions bash)
  $ source <(forebay completions zsh)
  $ forebay completions fish | source";

pub(super) const MAN: &str = "\
Examples:
  $ forebay man | man -l -
  $ forebay man --out man1";
