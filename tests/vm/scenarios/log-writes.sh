#!/bin/sh
# Simulated power cuts: dm-log-writes records all writes of Forebay to its devices.
# The scenario chooses flushes, and marks at which clients have fsynced data. For each it restores the devices to
# their state after a power cut at this point. Each time the volume must attach, the filesystem must mount and pass
# its check, and all fsynced data must be present. Data and log are slices of one device, so that the record
# contains the order of writes to both.
#
# vm: disk under 320M
# vm: disk record 2G
# vm: disk again 320M
# vm: disk changes 320M
# vm: minutes 10
# shellcheck source=tests/vm/lib.sh
. /vm/lib.sh

modprobe -a dm-mod dm-log-writes dm-snapshot
under=$(disk under) record=$(disk record) again=$(disk again) changes=$(disk changes)
log_sectors=131072
all_sectors=$(sectors "$under")
data_sectors=$((all_sectors - log_sectors))
# Examined points: at most this many flushes besides the marks, and at least this many points in total.
flushes=${flushes:-12}

# slices NAME DEVICE: maps NAME-log and NAME-data on the device.
slices() {
    dmsetup create "$1-log" --table "0 $log_sectors linear $2 0" &&
        dmsetup create "$1-data" --table "0 $data_sectors linear $2 $log_sectors"
}

must "writes are recorded" dmsetup create seen --table "0 $all_sectors log-writes $under $record"
must "slices are made" slices v /dev/mapper/seen
must "a volume is made" create /dev/mapper/v-data /dev/mapper/v-log
must "the volume is attached" attach
must "a filesystem is made" make_fs ext4 "$device"
must "the filesystem mounts" mount_fs "$device"
must "all data is durable" sync
acts=0
while [ "$acts" -lt 40 ]; do
    dmsetup message seen 0 "mark $acts"
    acts=$((acts + 10))
    must "clients write to act $acts" users write --acts "$acts"
done
dmsetup message seen 0 "mark $acts"
must "the filesystem unmounts" umount_fs
must "the volume is drained and detached" detach
must "slices are removed" dmsetup remove v-log v-data
must "recording ends" dmsetup remove seen

# Chooses all marks, and flushes at even distances.
forebay-guest points "$record" >/tmp/points
sed -n '/mark 0$/,$p' /tmp/points >/tmp/mounted
every=$(($(wc -l </tmp/mounted) / flushes + 1))
awk -v every="$every" '/mark [0-9]/ || NR % every == 0' /tmp/mounted >/tmp/chosen
echo "    $(wc -l </tmp/points) points, $(wc -l </tmp/chosen) of them examined"
check "enough points are chosen" test "$(wc -l </tmp/chosen)" -ge "$flushes"

# Attaches the restored devices through a snapshot, which keeps them unchanged.
take_up() {
    dmsetup create cut --table "0 $all_sectors snapshot $again $changes N 8" &&
        slices cut /dev/mapper/cut &&
        attach --log /dev/mapper/cut-log --data /dev/mapper/cut-data &&
        mount_fs "$device" && umount_fs && check_fs ext4 "$device" && mount_fs "$device"
}

let_go() {
    umount_fs && detach --keep-dirty && dmsetup remove cut-log cut-data && dmsetup remove cut
}

from=0
promised=0
while read -r point what mark <&3; do
    must "to point $point" forebay-guest replay "$record" "$again" --from "$from" --to "$point"
    from=$((point + 1))
    case "$what $mark" in
    "mark "[0-9]*) promised=$mark ;;
    esac
    must "point $point ($what $mark) attaches, mounts and passes the check" take_up
    must "point $point has all fsynced data" users verify --promised "$promised" --open 10 --least 0
    must "point $point is detached" let_go
done 3</tmp/chosen
