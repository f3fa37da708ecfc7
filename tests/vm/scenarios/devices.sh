#!/bin/sh
# Data and log on dm-linear, on several disks in one device like LVM, on md, and on partitions.
# The scenario kills the daemon once on each.
#
# vm: disk a 256M
# vm: disk b 256M
# vm: disk c 64M
# vm: disk d 64M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe -a dm-mod raid1
a=$(disk a) b=$(disk b) c=$(disk c) d=$(disk d)

# life WHAT DATA LOG: creates a volume, kills its daemon under load, recovers, and checks the data device alone.
life() {
    must "$1: a volume is made" create "$2" "$3"
    must "$1: the volume is attached" attach_mortal
    check "$1: the data device is in exclusive use" refused busy mount -t ext4 "$2" /mnt
    must "$1: a filesystem is made" make_fs ext4 "$device"
    must "$1: the filesystem mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    load
    must "$1: clients write" act_begun 30
    must "$1: the daemon is killed" kill_daemon
    must "$1: the stale mount is unmounted" umount_fs
    recovered ext4
    must "$1: the filesystem unmounts" umount_fs
    must "$1: the volume is detached" detach
    alone ext4 "$2"
}

# dm NAME TABLE: creates a device-mapper device. Commas separate the lines of the table.
dm() {
    echo "$2" | tr ',' '\n' | dmsetup create "$1"
}

must "linear: devices are mapped" dm data "0 $(sectors "$a") linear $a 0"
must "linear: the log is mapped" dm log "0 $(sectors "$c") linear $c 0"
life linear /dev/mapper/data /dev/mapper/log
must "linear: devices are removed" dmsetup remove data log

# As in LVM with two physical volumes for each device, whose 4 MiB extents are not contiguous.
must "two disks: devices are mapped" dm data \
    "0 262144 linear $b 8192,262144 262144 linear $a 65536,524288 131072 linear $b 311296"
must "two disks: the log is mapped, striped" dm log "0 196608 striped 2 128 $c 2048 $d 10240"
life "two disks" /dev/mapper/data /dev/mapper/log
must "two disks: devices are removed" dmsetup remove data log

raid() {
    mdadm --create "$1" --run --metadata=1.2 --level=1 --raid-devices=2 --assume-clean \
        --bitmap=none "$2" "$3"
}
must "md: a mirror of two disks is made" raid /dev/md1 "$a" "$b"
must "md: a mirror for the log is made" raid /dev/md2 "$c" "$d"
life md /dev/md1 /dev/md2
must "md: devices are removed" mdadm --stop /dev/md1 /dev/md2

partition() {
    dd if=/dev/zero of="$a" bs=1M count=2 && printf 'size=64M\n,\n' | sfdisk --label gpt "$a" &&
        within 30 test -b "${a}2"
}
must "partitions: one disk is partitioned" partition
life partitions "${a}2" "${a}1"
