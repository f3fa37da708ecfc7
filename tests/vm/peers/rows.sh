#!/bin/sh
# What is measured of each peer: a function over a block device each, one of which runs in a boot of its own.
# Says `= FIGURE VALUE` for what `scripts/bench-peers` puts into its table. The kernel's command line says
# `peer`, `row`, `boot`, `quick`, and `run`, a number that no earlier run had.
# shellcheck shell=dash source=tests/vm/lib.sh disable=SC1091
. /vm/lib.sh
: "${peer:?}" "${row:?}" "${boot:=1}" "${quick:=}" "${run:=1}"
data=$(disk data) cache=$(disk cache) ledger=$(disk ledger)
# shellcheck source=tests/vm/peers/peers.sh disable=SC1091
. /vm/peers.sh

figure() { echo "= $*"; }

# brief LONG SHORT: seconds, or whatever else is less with `--quick`.
brief() { if [ -n "$quick" ]; then echo "$2"; else echo "$1"; fi; }

now() { cut -d ' ' -f 1 /proc/uptime; }

uptime_s() { cut -d . -f 1 /proc/uptime; }

# timed FIGURE COMMAND…: says how many seconds it took.
timed() {
    local what=$1 began
    shift
    began=$(now)
    "$@" || return 1
    echo "$began $(now)" | awk -v what="$what" '{ printf "= %s %.1f\n", what, $2 - $1 }' >>/tmp/figures
}

# `check` and `must` keep what a command says to themselves.
told() {
    [ ! -e /tmp/figures ] || cat /tmp/figures
    rm -f /tmp/figures
}

# In KiB, what programs and the kernel have, and of the page cache what is not on a disk yet.
used() {
    echo 3 >/proc/sys/vm/drop_caches
    awk '/^MemTotal/ { all = $2 } /^MemFree/ { free = $2 } END { print all - free }' /proc/meminfo
}

# Has been written to the data disk since it is there, in KiB.
home() { awk '{ print $7 / 2 }' "/sys/block/${data##*/}/stat"; }

# random OPTION…: 4 KiB writes at random places, other ones each time, but the same for every peer; the
# results stay in /tmp/fio.
seed=0
random() {
    rm -f /tmp/fio /tmp/seconds_iops*
    seed=$((seed + 1))
    fio --randseed="$seed" --minimal --terse-version=3 --output=/tmp/fio --name=random --filename="$device" --direct=1 \
        --ioengine=libaio --rw=randwrite --bs=4k --size=1G --norandommap --thread --group_reporting "$@"
}

# Terse output, version 3: what was written is in column 47, in KiB, the writes' rate in column 49, their
# percentiles from 59 to 78, in µs, and the longest of them in column 80.
rate() { awk -F ';' '$1 == 3 { printf "%.0f\n", $49 }' /tmp/fio; }
written() { awk -F ';' '$1 == 3 { print $47 }' /tmp/fio; }
longest() { awk -F ';' '$1 == 3 { printf "%.0f\n", $80 / 1000 }' /tmp/fio; }
p99() {
    awk -F ';' '$1 == 3 {
        for (i = 59; i <= 78; i++) if ($i ~ /^99\.0+%=/) { sub(/.*=/, "", $i); printf "%.0f\n", $i / 1000 }
    }' /tmp/fio
}

# Writes that fit, as fast as they are taken; then their way home.
burst() {
    must "it is set up" "$peer" up
    must "a burst" random --iodepth=32 --io_size="$(brief 48 24)M"
    figure burst "$(rate)"
    figure burst-longest "$(longest)"
    # One that does not end is left behind.
    local status=0
    limited 180 timed drain "$peer" drain || status=$?
    case $status in
    0) told ;;
    124) figure drain "does not end" ;;
    *) figure drain "fails: $(tail -n 1 /tmp/limited)" ;;
    esac
}

synchronous() {
    local writers
    must "it is set up" "$peer" up
    for writers in 1 8; do
        must "$writers synchronous writers" random --iodepth=1 --fsync=1 --numjobs="$writers" \
            --time_based --runtime="$(brief 30 10)"
        figure "sync-$writers" "$(rate)"
    done
}

# Fills the cache for as long as it is let, and says what memory goes with that.
filled() {
    local before between after mib home written
    if cacheless; then
        must "it is set up" "$peer" up
        return
    fi
    # The first run of fio takes memory that nothing gives back.
    device=$data
    must "the measurement warms up" random --iodepth=32 --io_size=128k
    before=$(used)
    must "it is set up" "$peer" up
    # Buffers may be there from the first writes on, and are no matter of how much is cached.
    must "it has begun" random --iodepth=32 --io_size=16M
    between=$(used)
    home=$(home)
    must "it is half full" random --iodepth=32 --io_size=128M --runtime=90
    after=$(used)
    written=$(written)
    mib=$(((written - $(home) + home) / 1024))
    figure memory-begin "$(((between - before) / 1024))"
    # What is not at home yet. Less tells nothing: what the kernel has for itself goes up and down by some MiB.
    if [ "$mib" -ge 64 ]; then
        figure memory-gib "$(((after - between) / mib)) (by $mib MiB)"
    fi
    must "it is filled" random --iodepth=32 --io_size=128M --runtime=90
    figure full-before "$(((written + $(written)) / 1024))"
}

# Writers flat out after as much as the cache has room for.
sustained() {
    local seconds
    seconds=$(brief 120 60)
    filled
    must "writers go on" random --iodepth=32 --time_based --runtime="$seconds" \
        --write_iops_log=/tmp/seconds
    figure full-mean "$(rate)"
    figure full-p99 "$(p99)"
    figure full-longest "$(longest)"
    # A line for each write, with the milliseconds after which it was done.
    awk -F ', *' -v seconds="$seconds" '
        { rate[int($1 / 1000)]++ }
        END {
            worst = -1
            for (at = 0; at < seconds; at++) {
                if (worst < 0 || rate[at] < worst) worst = rate[at] + 0
                if (rate[at] + 0 == 0) still++
                if (at >= seconds / 2) { late += rate[at]; counted++ }
            }
            printf "= full-late %.0f\n= full-worst %d\n= full-still %d\n", late / counted, worst, still
        }' /tmp/seconds_iops*.log
}

# Are written to by who stamps them.
blocks=16384

stamp() { forebay-guest stamp "$1" "$ledger" --run "$run" --blocks "$blocks"; }

# The power goes in the middle of writes: this machine's, while its disks keep what they were given.
crash() {
    case $boot in
    1)
        must "it is set up" "$peer" up
        must "nothing is promised yet" new_ledger
        stamp "$device" >/tmp/stamp 2>&1 &
        sleep "$(brief 40 20)"
        must "nobody met an error" test ! -s /tmp/stamp
        reset_machine
        ;;
    2)
        must "it is recovered" timed recovery recovered_now
        told
        must "what is left is read" left "$device" 0
        figure left "$(cat /tmp/left)"
        must "it is taken away" "$peer" down
        must "what is on the data disk is read" left "$data" 0
        if [ "$offset" -gt 0 ] && ! grep -q "prefix" /tmp/left; then
            must "and beyond a superblock" left "$data" "$offset"
            figure alone "from byte $offset on: $(cat /tmp/left)"
        else
            figure alone "$(cat /tmp/left)"
        fi
        ;;
    esac
}

# Up to the first byte.
recovered_now() { "$peer" again && dd if="$device" of=/dev/null bs=4k count=1 iflag=direct; }

# left DEVICE OFFSET: says in words what is there of what was stamped.
left() {
    forebay-guest stamped "$1" "$ledger" --run "$run" --blocks "$blocks" --offset "$2" >/tmp/stamped || return 1
    cat /tmp/stamped
    awk '{
        newest = $2; behind = $4; promised = $6; lost = $8; torn = $10; unreadable = $12
        if (newest == 0) said = "nothing of it"
        else if (behind + torn == 0) said = "the first " newest " writes, a prefix"
        else said = "no prefix: " behind " blocks older than the newest write, " newest
        if (torn > 0) said = said ", " torn " torn"
        if (unreadable > 0) said = said " but for " unreadable " blocks that cannot be read"
        if (lost > 0) said = said "; " lost " blocks lost that were flushed"
        else if (unreadable > 0) said = said "; nothing that can be read is older than its flush"
        else said = said "; of " promised " flushed none lost"
        print said
    }' /tmp/stamped >/tmp/left
}

# limited SECONDS COMMAND…: what may never come back is left behind.
limited() {
    local until own
    until=$(($(uptime_s) + $1))
    shift
    "$@" >/tmp/limited 2>&1 &
    own=$!
    until ended "$own"; do
        if [ "$(uptime_s)" -ge "$until" ]; then
            echo "does not come back" >/tmp/limited
            return 124
        fi
        sleep 0.1
    done
    wait "$own"
}

# The cache's disk goes away under a writer.
death() {
    local writer
    # Where one cannot be read, all around it are read one by one, from a disk that does 150 a second.
    blocks=2048
    must "it is set up" "$peer" up
    if cacheless; then
        return
    fi
    must "nothing is promised yet" new_ledger
    stamp "$device" >/tmp/stamp 2>&1 &
    writer=$!
    sleep "$(brief 30 15)"
    check "nobody met an error" test ! -s /tmp/stamp
    # What the kernel says of it would come between the figures.
    dmesg -n 1
    echo 1 >"/sys/block/${cache##*/}/device/delete" &
    # For longer than anybody has patience by default.
    if within 90 ended "$writer"; then
        figure death-writes "$(sed 's/^acknowledged [0-9]* flushed [0-9]* error //' /tmp/stamp)"
    elif advances; then
        figure death-writes "go on"
    else
        figure death-writes "wait for ever"
    fi
    kill -KILL "$writer" 2>/dev/null
    if limited 60 left "$device" 0; then
        figure death-reads "$(cat /tmp/left)"
    else
        figure death-reads "fail: $(tail -n 1 /tmp/limited)"
    fi
    if limited 60 left "$data" "$offset"; then
        figure death-data "$(cat /tmp/left)"
    else
        figure death-data "fail: $(tail -n 1 /tmp/limited)"
    fi
}

# Flushes still succeed.
advances() {
    local before
    before=$(od -A n -t u8 -j 8 -N 8 "$ledger")
    sleep 5
    [ "$(od -A n -t u8 -j 8 -N 8 "$ledger")" != "$before" ]
}

figure kernel "$(uname -r)"
"$row"
