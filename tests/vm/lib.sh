# shellcheck shell=dash
# Functions that the scenarios share, inside the guest.
#
# A scenario is a list of `must` and `check`: each runs a command and prints `ok WHAT`, or `FAILED WHAT`
# with the command's output. A failed `must` ends the scenario. `disk` finds the disks that the scenario's
# head declares, by name. The volume is always `v`, its block device is `$device`, and the mount point is
# /mnt. The last line contains the result, which `scripts/test-vm` reads.

set -u
passed=0
failed=0
device=
ledger=/tmp/ledger
# From the kernel's command line.
: "${via:=nbd}" "${boot:=1}"

check() {
    local what=$1 status=0
    shift
    "$@" >/tmp/said 2>&1 || status=$?
    if [ "$status" -eq 0 ]; then
        passed=$((passed + 1))
        echo "ok $what"
    else
        failed=$((failed + 1))
        echo "FAILED $what: status $status of: $*"
        tail -n 40 /tmp/said | sed 's/^/    /'
    fi
    return "$status"
}

must() {
    check "$@" || exit 1
}

# refused WORDS COMMAND…: succeeds if the command fails and its output matches the regular expression WORDS.
refused() {
    local words=$1
    shift
    if "$@" >/tmp/refused 2>&1; then
        cat /tmp/refused
        echo "the command succeeded, but must fail"
        return 1
    fi
    cat /tmp/refused
    grep -q -e "$words" /tmp/refused
}

# lacks WORDS COMMAND…: succeeds if the command's output does not match WORDS. Ignores the exit code.
lacks() {
    local words=$1
    shift
    "$@" >/tmp/lacks 2>&1 || true
    cat /tmp/lacks
    ! grep -q -e "$words" /tmp/lacks
}

# within SECONDS COMMAND…: repeats the command until it succeeds; fails after at least this time.
within() {
    local tries=$(($1 * 10))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

finish() {
    local status=$? log
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        failed=1
        echo "FAILED the scenario ended with status $status"
    fi
    if [ "$failed" -ne 0 ]; then
        for log in /run/forebay/*.log; do
            tail -n 30 "$log" 2>/dev/null | sed 's/^/    /'
        done
        dmesg | tail -n 30 | sed 's/^/    /'
    fi
    [ "$failed" -eq 0 ] || set -- ""
    echo "vm: $passed passed, $failed failed$1"
}
trap 'finish ""' EXIT

# Resets the machine immediately, like a reset button: the kernel writes nothing back. The scenario continues
# in the next boot, with the same disks.
reset_machine() {
    trap - EXIT
    finish ", again"
    [ "$failed" -eq 0 ] || poweroff -f
    # Gives the console time to print the result before the reset.
    sleep 0.5
    echo b >/proc/sysrq-trigger
    sleep 60
}

serial() {
    cat "$1/serial" 2>/dev/null || tail -c +5 "$1/device/vpd_pg80" 2>/dev/null
}

# Prints the device of a disk of the scenario. Fails if the disk is missing.
find_disk() {
    local dir
    for dir in /sys/block/vd* /sys/block/sd*; do
        if [ "$(serial "$dir")" = "$1" ]; then
            echo "/dev/${dir##*/}"
            return
        fi
    done
    return 1
}

# Prints the device of a disk of the scenario. Waits, because the kernel finds SCSI disks with a delay.
disk() {
    within 30 find_disk "$1" >/dev/null || echo "disk $1 is missing" >&2
    find_disk "$1"
}

sectors() { blockdev --getsz "$1"; }

make_fs() {
    case $1 in
    ext4) mkfs.ext4 -q -F "$2" ;;
    xfs) mkfs.xfs -q -f "$2" ;;
    btrfs) mkfs.btrfs -q -f "$2" ;;
    esac
}

# Checks an unmounted filesystem, without repairs.
check_fs() {
    case $1 in
    ext4) e2fsck -f -n "$2" ;;
    xfs) xfs_repair -n "$2" ;;
    btrfs) btrfs check --readonly --check-data-csum "$2" ;;
    esac
}

# create DATA LOG [OPTION…]
create() {
    local data=$1 log=$2
    shift 2
    forebay create --force --name v --data "$data" --log "$log" "$@"
}

# attach [ARGUMENT…]: attaches the volume v, or as the arguments specify; sets $device.
attach() {
    [ $# -gt 0 ] || set -- v
    device=$(forebay attach "$@" --via "$via") && device=$(readlink -f "$device") && [ -b "$device" ]
}

# Attaches v so that the block device disappears with its daemon, with every front end.
attach_mortal() { attach v --ack memory; }

detach() { forebay detach v "$@"; }

# says FIELD VALUE: succeeds if `status` reports this value.
says() {
    forebay status v --json >/tmp/status && grep -q "\"$1\":$2[,}]" /tmp/status
}

daemon() { cat /run/forebay/v.lock; }

ended() {
    [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

# Kills the daemon without a shutdown, like a crash.
kill_daemon() {
    local pid
    pid=$(daemon)
    kill -KILL "$pid" && within 30 ended "$pid"
}

mount_fs() { mount "$1" /mnt; }

# Retries, because the kernel releases the files of a killed process with a delay.
umount_fs() { within 30 umount /mnt; }

# users COMMAND…: runs `write` or `verify` of `forebay-guest` at /mnt.
users() {
    local command=$1
    shift
    forebay-guest "$command" /mnt "$ledger" "$@"
}

new_ledger() { dd if=/dev/zero of="$ledger" bs=4096 count=1 conv=notrunc; }

# Starts clients that write until a signal ends them.
load() {
    forebay-guest write /mnt "$ledger" >/tmp/load 2>&1 &
    load=$!
}

# act_begun ACT: waits until the clients have begun this act. Not for every third act, which creates no file.
act_begun() { within 120 test -e "/mnt/writer0/file$1"; }

# Ends the clients. Fails if they ended before the signal.
end_load() {
    local status=0
    kill "$load"
    wait "$load" 2>/dev/null || status=$?
    cat /tmp/load
    # 143: ended by SIGTERM.
    [ "$status" -eq 143 ]
}

# recovered KIND [ARGUMENT…]: attaches after a crash, mounts the filesystem so that it replays its own journal,
# and checks it. Leaves the filesystem mounted, with all fsynced data verified.
recovered() {
    local kind=$1
    shift
    must "$kind: the volume is attached again" attach "$@"
    must "$kind: the filesystem mounts" mount_fs "$device"
    must "$kind: the filesystem unmounts" umount_fs
    must "$kind: the filesystem passes its check" check_fs "$kind" "$device"
    must "$kind: the filesystem mounts again" mount_fs "$device"
    must "$kind: fsynced data is present" users verify
}

# alone KIND DEVICE [COMMAND…]: checks the data device without Forebay; the command must succeed there, too.
alone() {
    local kind=$1 disk=$2
    shift 2
    must "$kind: the filesystem on the data device alone passes its check" check_fs "$kind" "$disk"
    must "$kind: the filesystem on the data device alone mounts" mount_fs "$disk"
    must "$kind: fsynced data is on the data device alone" users verify
    [ $# -eq 0 ] || must "$kind: acknowledged data is on the data device alone" "$@"
    must "$kind: the data device is unmounted" umount_fs
}

# --- Block devices that outlive their daemon; the scenario needs fio ---

# Writes files below /mnt/fio and verifies them, repeatedly until /tmp/enough exists.
write_files() {
    while [ ! -e /tmp/enough ]; do
        fio --name=files --directory=/mnt/fio --nrfiles=4 --size=16m --direct=1 --ioengine=libaio \
            --iodepth=16 --rw=randwrite --bsrange=4k-64k --verify=crc32c --verify_fatal=1 \
            --verify_state_save=0 --fallocate=none || return 1
    done
}

files() {
    rm -f /tmp/enough
    mkdir -p /mnt/fio
    write_files >/tmp/files 2>&1 &
    files=$!
}

verified() {
    local status=0
    touch /tmp/enough
    wait "$files" || status=$?
    tail -n 40 /tmp/files
    return "$status"
}

writes_done() { awk '{ print $5 }' "/sys/block/${device##*/}/stat"; }

# Succeeds if the device completes more than 20 writes in 0.2 s.
busy() {
    local before
    before=$(writes_done)
    sleep 0.2
    [ "$(writes_done)" -gt "$((before + 20))" ]
}

writes() { ! ended "$files" && ! ended "$load"; }

waits() { forebay list >/tmp/list && cat /tmp/list && grep -q "$device waits for" /tmp/list; }

no_errors() {
    lacks 'I/O error\|EXT4-fs error\|EXT4-fs warning\|XFS.*error\|XFS.*orrupt\|BTRFS error\|BTRFS critical' \
        dmesg
}

# same_device COMMAND…: succeeds if the command succeeds and does not change $device.
same_device() {
    local before="$device"
    "$@" && echo "the device was $before, and is now $device" && [ "$device" = "$before" ]
}

# kill_starting SECONDS: kills a daemon this long after its start. Fails if the daemon ended earlier.
kill_starting() {
    local starting status=0
    forebay attach v --via "$via" --foreground >/tmp/starting 2>&1 &
    starting=$!
    sleep "$1"
    kill -KILL "$starting"
    wait "$starting" 2>/dev/null || status=$?
    cat /tmp/starting
    # 137: ended by SIGKILL.
    [ "$status" -eq 137 ]
}

# Sends SIGTERM twice, as a service manager does. After the first signal the daemon waits for the unmount; the
# second ends it.
told_twice() {
    local pid
    pid=$(daemon)
    kill "$pid" && within 60 grep -q "waiting: .*mounted on" /run/forebay/v.log || return 1
    kill "$pid" && within 60 ended "$pid"
}

# Attaches with a copy of the program, which stands for another version.
attach_next() {
    cp /vm/bin/forebay /tmp/next &&
        device=$(readlink -f "$(/tmp/next attach v --via "$via")") && [ "$(readlink "/proc/$(daemon)/exe")" = /tmp/next ]
}

# users_begin KIND: makes a filesystem, and starts fio and the clients, which record fsynced data in the ledger.
users_begin() {
    must "$1: a filesystem is made" make_fs "$1" "$device"
    must "$1: the filesystem mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    load
    files
}

users_end() {
    check "$1: fio verified all files" verified
    check "$1: no client met an error" end_load
    check "$1: the kernel reported no error" no_errors
}

# killed KIND ROUND: kills the daemon under load. The device and its writers must wait.
killed() {
    must "$1, $2: the device is busy" within 120 busy
    must "$1, $2: the daemon is killed" kill_daemon
    check "$1, $2: the device waits" within 60 waits
    must "$1, $2: writers wait, too" writes
}

# in_order KIND: checks the filesystem. No other process may use /mnt.
in_order() {
    must "$1: the filesystem unmounts" umount_fs
    must "$1: the filesystem passes its check" check_fs "$1" "$device"
    must "$1: the filesystem mounts again" mount_fs "$device"
    must "$1: fsynced data is present" users verify
}

# Writes a file past the page cache. The device acknowledges the writes, and no flush follows.
unflushed() {
    dd if=/dev/urandom of=/tmp/direct bs=4k count=24 2>/dev/null &&
        dd if=/dev/zero of=/mnt/direct bs=4k count=24 conv=fsync 2>/dev/null &&
        dd if=/tmp/direct of=/mnt/direct bs=4k oflag=direct conv=notrunc
}

as_written() {
    dd if=/mnt/direct of=/tmp/found bs=4k iflag=direct && cmp /tmp/found /tmp/direct
}

# taken_up_and_over KIND SECONDS…: begins with a device without a daemon. Kills a starting daemon after each of
# these times. Then daemons take over from each other, by hand-off or signals.
taken_up_and_over() {
    local kind=$1 delay
    shift
    for delay in "$@"; do
        check "$kind: a starting daemon is killed after $delay s" kill_starting "$delay"
    done
    must "$kind: another daemon recovers the device" same_device attach
    must "$kind: the device is busy" within 120 busy
    must "$kind: the daemon hands the device off" detach --hand-over
    check "$kind: the device waits" within 60 waits
    must "$kind: writers wait, too" writes
    must "$kind: another version recovers the device" same_device attach_next
    must "$kind: the device is busy again" within 120 busy
    must "$kind: a daemon that waits for the unmount gets a second signal" told_twice
    check "$kind: the device waits" within 60 waits
    must "$kind: writers wait, too" writes
    must "$kind: another daemon recovers the device again" same_device attach
    must "$kind: the device is busy" within 120 busy
}

# unflushed_is_kept KIND: checks data that a killed daemon had acknowledged and no client had flushed. The long
# delay given here would otherwise keep this data in the daemon's memory.
unflushed_is_kept() {
    must "the daemon hands the device off" detach --hand-over
    must "another daemon attaches with a long delay" same_device attach v --max-delay 60s
    must "a file is written past the page cache" unflushed
    must "the daemon is killed immediately" kill_daemon
    must "another daemon recovers the device" same_device attach
    check "acknowledged data without a flush is present" as_written
    in_order "$1"
}

# Checks that the program refuses other uses of the device of a killed daemon while it is mounted at /mnt. Leaves
# the device unmounted and without a daemon.
leftovers() {
    must "the daemon is killed" kill_daemon
    check "another front end is refused while the device is mounted" \
        refused "mounted on /mnt" forebay attach v --via none
    check "the removal of the volume is refused" refused "waits for it" forebay remove v
    check "--ack memory is refused" \
        refused "would be lost" forebay attach v --via "$via" --ack memory
    must "another daemon recovers the device" same_device attach
    must "the filesystem unmounts" umount_fs
    must "the daemon is killed" kill_daemon
}
