#!/bin/sh
# Disks are taken away as if they were pulled out: the log with nothing only in it, then the log and the
# data device under load. What happens is what docs/design/dcd.md promises.
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

# Looks for both again: what is pushed in may come as another device.
find_both() { data=$(disk data) log=$(disk log); }

begin() {
    must "$1: a volume is made" create "$data" "$log"
    must "$1: it is attached" attach v --patience 5s
    must "$1: a filesystem is made" make_fs ext4 "$device"
    must "$1: it mounts" mount_fs "$device"
    new_ledger 2>/dev/null
}

# Ends users who may have met an error.
stop_load() {
    kill "$load" 2>/dev/null
    wait "$load" 2>/dev/null
    cat /tmp/load
}

# Says what could not be written or made durable, and ends all the same, at the second word at the latest.
leave() {
    local pid
    pid=$(daemon)
    detach --keep-dirty || detach --keep-dirty
    within 30 ended "$pid"
}

# A filesystem that met errors goes on with what it has in memory, and may need its own repair.
repaired() {
    local status=0
    e2fsck -f -y "$device" || status=$?
    [ "$status" -le 1 ]
}

# back WHAT [OPTION…]: both are there again, with all that was promised.
back() {
    local what=$1
    shift
    must "$what: it is pushed in" push
    find_both
    must "$what: it is attached again" attach --log "$log" --data "$data" "$@"
    must "$what: mounts" mount_fs "$device"
    must "$what: unmounts" umount_fs
    must "$what: can be repaired" repaired
    must "$what: mounts again" mount_fs "$device"
    must "$what: what fsync promised is there" users verify
    must "$what: it unmounts" umount_fs
    must "$what: it is detached" detach
    alone ext4 "$data"
}

find_both
begin "idle log"
must "idle log: all goes home" forebay drain v
must "idle log: it is pulled out" pull "$log"
load
must "idle log: users write" act_begun 30
must "idle log: status says so" within 30 says mode '"degraded"'
must "idle log: users go on" act_begun 60
must "idle log: without an error" end_load
must "idle log: what fsync promised is there" users verify
must "idle log: it unmounts" umount_fs
must "idle log: it is detached" detach
alone ext4 "$data"
must "idle log: it is pushed in" push
find_both
check "idle log: one that was given up is not believed" \
    refused abandoned attach --log "$log" --data "$data"

# Only the log has what users were promised, and it is gone. Nobody is told that it is not.
begin "busy log"
load
must "busy log: users write" act_begun 45
must "busy log: it is pulled out" pull "$log"
must "busy log: status says so" within 30 says mode '"degraded"'
stop_load
umount_fs
check "busy log: a drain says that it cannot" refused "not drained" forebay drain v --timeout 5s
must "busy log: it is detached as it is" leave
back "busy log" --accept-changed

begin "data device"
load
must "data device: users write" act_begun 30
must "data device: it is pulled out" pull "$data"
must "data device: status says so" within 60 says mode '"data_failing"'
stop_load
umount_fs
check "data device: a drain says that it cannot" refused "not drained" forebay drain v --timeout 5s
must "data device: it is detached as it is" leave
back "data device"
