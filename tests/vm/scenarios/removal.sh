#!/bin/sh
# Removed disks: the log after a drain, the log under load, and the data device under load.
# docs/design/dcd.md contains the guarantees for these cases.
#
# vm: disk data 256M scsi
# vm: disk log 64M scsi
# vm: minutes 10
# shellcheck shell=dash source=tests/vm/lib.sh
. /vm/lib.sh

pull() { echo 1 >"/sys/block/${1##*/}/device/delete"; }

push() {
    for host in /sys/class/scsi_host/host*; do
        echo "- - -" >"$host/scan"
    done
}

# Finds both disks again: a reinserted disk may get another device name.
find_both() { data=$(disk data) log=$(disk log); }

begin() {
    must "$1: a volume is made" create "$data" "$log"
    must "$1: the volume is attached" attach v --patience 5s
    must "$1: a filesystem is made" make_fs ext4 "$device"
    must "$1: the filesystem mounts" mount_fs "$device"
    new_ledger 2>/dev/null
}

# Ends the clients, which may have met an error.
stop_load() {
    kill "$load" 2>/dev/null
    wait "$load" 2>/dev/null
    cat /tmp/load
}

# Detaches without a drain. A failed detach is repeated once; the daemon must end after the second command.
leave() {
    local pid
    pid=$(daemon)
    detach --keep-dirty || detach --keep-dirty
    within 30 ended "$pid"
}

# After I/O errors a filesystem continues with its state in memory, so it may need a repair.
repaired() {
    local status=0
    e2fsck -f -y "$device" || status=$?
    [ "$status" -le 1 ]
}

# back WHAT [OPTION…]: reinserts the disk, attaches with the options, and verifies all fsynced data.
back() {
    local what=$1
    shift
    must "$what: the disk is reinserted" push
    find_both
    must "$what: the volume is attached again" attach --log "$log" --data "$data" "$@"
    must "$what: the filesystem mounts" mount_fs "$device"
    must "$what: the filesystem unmounts" umount_fs
    must "$what: the filesystem can be repaired" repaired
    must "$what: the filesystem mounts again" mount_fs "$device"
    must "$what: fsynced data is present" users verify
    must "$what: the filesystem unmounts" umount_fs
    must "$what: the volume is detached" detach
    alone ext4 "$data"
}

find_both
begin "idle log"
must "idle log: the volume is drained" forebay drain v
must "idle log: the disk is removed" pull "$log"
load
must "idle log: clients write" act_begun 30
must "idle log: status reports the failure" within 30 says mode '"degraded"'
must "idle log: clients continue" act_begun 60
must "idle log: clients met no error" end_load
must "idle log: fsynced data is present" users verify
must "idle log: the filesystem unmounts" umount_fs
must "idle log: the volume is detached" detach
alone ext4 "$data"
must "idle log: the disk is reinserted" push
find_both
check "idle log: an abandoned log is refused" \
    refused abandoned attach --log "$log" --data "$data"

# Fsynced data exists only in the removed log. Commands must report failure, not success.
begin "busy log"
load
must "busy log: clients write" act_begun 45
must "busy log: the disk is removed" pull "$log"
must "busy log: status reports the failure" within 30 says mode '"degraded"'
stop_load
umount_fs
check "busy log: a drain reports its failure" refused "not drained" forebay drain v --timeout 5s
must "busy log: the volume is detached without a drain" leave
back "busy log" --accept-changed

begin "data device"
load
must "data device: clients write" act_begun 30
must "data device: the disk is removed" pull "$data"
must "data device: status reports the failure" within 60 says mode '"data_failing"'
stop_load
umount_fs
check "data device: a drain reports its failure" refused "not drained" forebay drain v --timeout 5s
must "data device: the volume is detached without a drain" leave
back "data device"
