#!/bin/sh
# dm-log-writes records all that we do to our devices. At points where something was made durable, and
# at what users were promised, the devices are made again as a power cut right then would have left
# them: each time the volume attaches, the filesystem mounts and is in order, and what was promised is
# there. One device under both, so that the order among them is known; two slices of it for us.
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
# How many of the flushes are looked at, besides the marks.
flushes=${flushes:-12}

# slices NAME DEVICE: NAME-log and NAME-data.
slices() {
    dmsetup create "$1-log" --table "0 $log_sectors linear $2 0" &&
        dmsetup create "$1-data" --table "0 $data_sectors linear $2 $log_sectors"
}

must "writes are recorded" dmsetup create seen --table "0 $all_sectors log-writes $under $record"
must "slices are made" slices v /dev/mapper/seen
must "a volume is made" create /dev/mapper/v-data /dev/mapper/v-log
must "it is attached" attach
must "a filesystem is made" make_fs ext4 "$device"
must "it mounts" mount_fs "$device"
must "it is all durable" sync
acts=0
while [ "$acts" -lt 40 ]; do
    dmsetup message seen 0 "mark $acts"
    acts=$((acts + 10))
    must "users write to act $acts" users write --acts "$acts"
done
dmsetup message seen 0 "mark $acts"
must "it unmounts" umount_fs
must "it is drained and detached" detach
must "slices are let go" dmsetup remove v-log v-data
must "recording ends" dmsetup remove seen

# Every mark, and flushes between them, evenly.
forebay-guest points "$record" >/tmp/points
sed -n '/mark 0$/,$p' /tmp/points >/tmp/mounted
every=$(($(wc -l </tmp/mounted) / flushes + 1))
awk -v every="$every" '/mark [0-9]/ || NR % every == 0' /tmp/mounted >/tmp/chosen
echo "    $(wc -l </tmp/points) points, $(wc -l </tmp/chosen) of them looked at"
check "there are points to look at" test "$(wc -l </tmp/chosen)" -ge "$flushes"

# What a power cut left is taken up, without changing it.
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
    must "point $point ($what $mark) is taken up, mounts and is in order" take_up
    must "point $point has what was promised" users verify --promised "$promised" --open 10 --least 0
    must "point $point is let go" let_go
done 3</tmp/chosen
