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
    device=$(forebay attach "$@" --via "$via") && [ -b "$device" ]
}

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
    kill "$load" || {
        cat /tmp/load
        return 1
    }
    wait "$load" 2>/dev/null || true
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

# alone KIND DEVICE: the data device without us.
alone() {
    must "$1: the data device alone is in order" check_fs "$1" "$2"
    must "$1: the data device alone mounts" mount_fs "$2"
    must "$1: what fsync promised is on the data device alone" users verify
    must "$1: the data device is let go" umount_fs
}
