#!/bin/sh
# The data device grows under clients, then the volume, then its mounted filesystem, for each kind of volume.
#
# vm: disk data 768M
# vm: disk log 64M
# vm: program resize2fs
# vm: program xfs_growfs
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

via=nbd
modprobe -a dm-mod nbd ublk_drv
data=$(disk data) log=$(disk log)

# Sets the length of the data device, in sectors, while it is in use. This is what `lvextend` does.
set_length() {
    echo "0 $1 linear $data 0" | dmsetup load data && dmsetup resume data
}

# Makes the data device of 384 MiB. Overwrites the beginning of the disk, which contains an earlier volume.
small_device() {
    dd if=/dev/zero of="$data" bs=1M count=8 && echo "0 786432 linear $data 0" | dmsetup create data
}

grow_fs() {
    case $1 in
    ext4) resize2fs "$device" ;;
    xfs) xfs_growfs /mnt ;;
    btrfs) btrfs filesystem resize max /mnt ;;
    esac
}

# Prints the length of the mounted filesystem in KiB.
length_of_fs() { df -k /mnt | awk 'END { print $2 }'; }

is_longer_than() { [ "$(length_of_fs)" -gt "$1" ]; }

# fill_beyond KIB: writes a file that needs more room than this length.
fill_beyond() {
    dd if=/dev/zero of=/mnt/large bs=1M count=$(($1 / 1024 + 8)) conv=fsync && rm /mnt/large
}

# grown WHAT KIND RESIZE…: grows device, volume and filesystem under clients, and checks the result. RESIZE are the
# arguments of the command `resize`.
grown() {
    what=$1 kind=$2
    shift 2
    must "$what: a filesystem is made" make_fs "$kind" "$device"
    must "$what: the filesystem mounts" mount_fs "$device"
    before=$(length_of_fs)
    new_ledger 2>/dev/null
    load
    must "$what: clients write" act_begun 3
    must "$what: the data device grows" set_length "$(sectors "$data")"
    must "$what: the volume grows" forebay resize "$@"
    must "$what: the filesystem grows" grow_fs "$kind"
    must "$what: the filesystem is longer" is_longer_than $((before + 100000))
    must "$what: clients meet no error" end_load
    must "$what: the new room accepts data" fill_beyond "$before"
    must "$what: fsynced data is present" users verify --least 3
    must "$what: the filesystem unmounts" umount_fs
    must "$what: the filesystem passes its check" check_fs "$kind" "$device"
    must "$what: the volume is detached" detach
}

for kind in ext4 xfs btrfs; do
    must "$kind: the device is small" small_device
    must "$kind: a volume is made" create /dev/mapper/data "$log"
    must "$kind: the volume is attached via $via" attach
    grown "$kind" "$kind" v
    alone "$kind" /dev/mapper/data
    must "$kind: the device is removed" dmsetup remove data
done

must "thin: the device is small" small_device
must "thin: a log-structured volume is made" \
    forebay create --force --name v --volume vsl --data /dev/mapper/data --size 256MiB
must "thin: the volume is attached via $via" attach
grown thin ext4 v --size 512MiB
must "thin: the volume is attached again" attach
must "thin: the filesystem mounts again" mount_fs "$device"
must "thin: fsynced data is present after the attach" users verify --least 3
must "thin: the filesystem unmounts again" umount_fs
must "thin: the volume is detached again" detach

# Linux before 6.16 cannot change the length of a ublk device. The next attach uses the new length.
via=ublk
is_long() { [ "$(sectors "$device")" -eq "$1" ]; }
grown_or_told() {
    forebay resize v --size 640MiB >/tmp/resize 2>&1 || grep -q 'Linux 6.16' /tmp/resize
}
must "ublk: the volume is attached" attach
must "ublk: the filesystem mounts" mount_fs "$device"
must "ublk: the volume grows, or says which kernel it needs" grown_or_told
must "ublk: fsynced data is present" users verify --least 3
must "ublk: the filesystem unmounts" umount_fs
must "ublk: the volume is detached" detach
must "ublk: the volume is attached again" attach
must "ublk: the device has the new length" is_long 1310720
must "ublk: the filesystem mounts again" mount_fs "$device"
must "ublk: the filesystem grows" grow_fs ext4
must "ublk: fsynced data is present after the attach" users verify --least 3
must "ublk: the filesystem unmounts again" umount_fs
