# shellcheck shell=dash
# What the scenarios share, inside the guest.
#
# A scenario is a list of `must` and `check`: each runs a command and says `ok WHAT` or `FAILED WHAT`
# with what the command said. After a `must` that fails the scenario ends. The disks that its head asks
# for are found by name with `disk`; the volume is always `v`, its block device `$device`, mounted at
# /mnt. At the end comes one line with the result, which `scripts/test-vm` decides by.

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

# refused WORDS COMMAND…: the command fails, and says WORDS, a regular expression.
refused() {
    local words=$1
    shift
    if "$@" >/tmp/refused 2>&1; then
        cat /tmp/refused
        echo "this was not refused"
        return 1
    fi
    cat /tmp/refused
    grep -q -e "$words" /tmp/refused
}

# lacks WORDS COMMAND…: what the command says is without WORDS, however it ends.
lacks() {
    local words=$1
    shift
    "$@" >/tmp/lacks 2>&1 || true
    cat /tmp/lacks
    ! grep -q -e "$words" /tmp/lacks
}

# within SECONDS COMMAND…: waits until the command succeeds.
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

# Resets the machine at once, as a power button does: nothing is written back. The scenario goes on in
# the next boot, with the same disks.
reset_machine() {
    trap - EXIT
    finish ", again"
    [ "$failed" -eq 0 ] || poweroff -f
    # The console is slower than this shell.
    sleep 0.5
    echo b >/proc/sysrq-trigger
    sleep 60
}

serial() {
    cat "$1/serial" 2>/dev/null || tail -c +5 "$1/device/vpd_pg80" 2>/dev/null
}

# Prints the device of a disk of the scenario, or nothing.
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

# Prints the device of a disk of the scenario. SCSI disks take a moment to be found.
disk() {
    within 30 find_disk "$1" >/dev/null || echo "there is no disk $1" >&2
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

# Looks whether a filesystem that is not mounted is in order.
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

# attach [WHAT…]: the volume v unless told otherwise; sets $device.
attach() {
    [ $# -gt 0 ] || set -- v
    device=$(forebay attach "$@" --via "$via") && device=$(readlink -f "$device") && [ -b "$device" ]
}

# As `attach`, but the block device ends with its daemon, whatever makes it.
attach_mortal() { attach v --durability flush; }

detach() { forebay detach v "$@"; }

# says FIELD VALUE: `status` has this.
says() {
    forebay status v --json >/tmp/status && grep -q "\"$1\":$2[,}]" /tmp/status
}

daemon() { cat /run/forebay/v.lock; }

ended() {
    [ ! -e "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

# Ends the daemon as a crash would.
kill_daemon() {
    local pid
    pid=$(daemon)
    kill -KILL "$pid" && within 30 ended "$pid"
}

mount_fs() { mount "$1" /mnt; }

# The kernel lets go of what a killed process had a moment later.
umount_fs() { within 30 umount /mnt; }

# users COMMAND…: `write` or `verify`, at /mnt.
users() {
    local command=$1
    shift
    forebay-guest "$command" /mnt "$ledger" "$@"
}

new_ledger() { dd if=/dev/zero of="$ledger" bs=4096 count=1 conv=notrunc; }

# Starts users who go on for ever.
load() {
    forebay-guest write /mnt "$ledger" >/tmp/load 2>&1 &
    load=$!
}

# Waits until the users have come to an act, but for one that overwrites.
act_begun() { within 120 test -e "/mnt/writer0/file$1"; }

# Ends the users, who must not have ended by themselves.
end_load() {
    local status=0
    kill "$load"
    wait "$load" 2>/dev/null || status=$?
    cat /tmp/load
    # By the signal, and not by themselves before.
    [ "$status" -eq 143 ]
}

# recovered KIND [WHAT…]: after a crash: attaches, has the filesystem replay its own journal, looks at it,
# and leaves it mounted with all that was promised.
recovered() {
    local kind=$1
    shift
    must "$kind: attached again" attach "$@"
    must "$kind: mounts" mount_fs "$device"
    must "$kind: unmounts" umount_fs
    must "$kind: is in order" check_fs "$kind" "$device"
    must "$kind: mounts again" mount_fs "$device"
    must "$kind: what fsync promised is there" users verify
}

# alone KIND DEVICE [COMMAND…]: the data device without us, where the command succeeds, too.
alone() {
    local kind=$1 disk=$2
    shift 2
    must "$kind: the data device alone is in order" check_fs "$kind" "$disk"
    must "$kind: the data device alone mounts" mount_fs "$disk"
    must "$kind: what fsync promised is on the data device alone" users verify
    [ $# -eq 0 ] || must "$kind: and what was acknowledged" "$@"
    must "$kind: the data device is let go" umount_fs
}

# --- Block devices that outlive their daemon; the scenario needs fio ---

# Writes files below /mnt/fio and compares them, again and again until /tmp/enough is there.
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

# There is much to do for the device just now.
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

# same_device COMMAND…: afterwards the block device is the one it was.
same_device() {
    local before="$device"
    "$@" && echo "it was $before, and is $device" && [ "$device" = "$before" ]
}

# One that is still starting.
kill_starting() {
    local starting status=0
    forebay attach v --via "$via" --foreground >/tmp/starting 2>&1 &
    starting=$!
    sleep "$1"
    kill -KILL "$starting"
    wait "$starting" 2>/dev/null || status=$?
    cat /tmp/starting
    # By the signal, and not by itself before.
    [ "$status" -eq 137 ]
}

# As a service manager does: it waits for who has the device mounted, until it is told once more.
told_twice() {
    local pid
    pid=$(daemon)
    kill "$pid" && within 60 grep -q "waiting: .*mounted on" /run/forebay/v.log || return 1
    kill "$pid" && within 60 ended "$pid"
}

# Another version of the program is another file.
attach_next() {
    cp /vm/bin/forebay /tmp/next &&
        device=$(readlink -f "$(/tmp/next attach v --via "$via")") && [ "$(readlink "/proc/$(daemon)/exe")" = /tmp/next ]
}

# users_begin KIND: a fresh filesystem under users who note what was promised, and fio besides.
users_begin() {
    must "$1: a filesystem is made" make_fs "$1" "$device"
    must "$1: it mounts" mount_fs "$device"
    new_ledger 2>/dev/null
    load
    files
}

users_end() {
    check "$1: who wrote files found all as it was written" verified
    check "$1: no user met an error" end_load
    check "$1: nor did the kernel" no_errors
}

# killed KIND ROUND
killed() {
    must "$1, $2: the device is busy" within 120 busy
    must "$1, $2: the daemon is killed" kill_daemon
    check "$1, $2: the device waits" within 60 waits
    must "$1, $2: who writes waits, too" writes
}

# in_order KIND: with nobody else at /mnt.
in_order() {
    must "$1: it unmounts" umount_fs
    must "$1: it is in order" check_fs "$1" "$device"
    must "$1: it mounts again" mount_fs "$device"
    must "$1: what fsync promised is there" users verify
}

# Writes a file past the page cache: acknowledged, and never flushed.
unflushed() {
    dd if=/dev/urandom of=/tmp/direct bs=4k count=24 2>/dev/null &&
        dd if=/dev/zero of=/mnt/direct bs=4k count=24 conv=fsync 2>/dev/null &&
        dd if=/tmp/direct of=/mnt/direct bs=4k oflag=direct conv=notrunc
}

as_written() {
    dd if=/mnt/direct of=/tmp/found bs=4k iflag=direct && cmp /tmp/found /tmp/direct
}

# taken_up_and_over KIND SECONDS…: nobody has the device; who takes it up is killed while starting, after each
# of these times; then daemons that are told to go follow each other.
taken_up_and_over() {
    local kind=$1 delay
    shift
    for delay in "$@"; do
        check "$kind: one that takes it up is killed after $delay s" kill_starting "$delay"
    done
    must "$kind: yet another takes it up" same_device attach
    must "$kind: the device is busy" within 120 busy
    must "$kind: the daemon is told to go" detach --hand-over
    check "$kind: the device waits" within 60 waits
    must "$kind: who writes waits, too" writes
    must "$kind: another version takes it up" same_device attach_next
    must "$kind: and serves" within 120 busy
    must "$kind: one that waits for the mount is told again to end" told_twice
    check "$kind: the device waits" within 60 waits
    must "$kind: who writes waits, too" writes
    must "$kind: it is taken up once more" same_device attach
    must "$kind: the device is busy" within 120 busy
}

# unflushed_is_kept KIND: what a killed daemon had acknowledged and nobody had flushed. With the delay given here it
# would have stayed in memory, if it were for that.
unflushed_is_kept() {
    must "the daemon is told to go" detach --hand-over
    must "another flushes late" same_device attach v --max-delay 60s
    must "a file is written past the page cache" unflushed
    must "the daemon is killed at once" kill_daemon
    must "another takes it up" same_device attach
    check "what was acknowledged is there, unflushed" as_written
    in_order "$1"
}

# What a killed daemon leaves behind is not taken for something else, while it is mounted at /mnt. Leaves it
# unmounted, with nobody to serve it.
leftovers() {
    must "the daemon is killed" kill_daemon
    check "in another way it is not served while it is mounted" \
        refused "mounted on /mnt" forebay attach v --via none
    check "nor removed" refused "waits for it" forebay remove v
    check "nor taken up to lose what it acknowledges" \
        refused "would be lost" forebay attach v --via "$via" --durability flush
    must "it is taken up" same_device attach
    must "it unmounts" umount_fs
    must "the daemon is killed" kill_daemon
}
