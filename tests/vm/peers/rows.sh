#!/bin/sh
# Measurements (rows) of a peer: one function for each. Each boot runs one row over the peer's block device.
# Prints `= FIGURE VALUE` for each figure in the table of `scripts/bench-peers`. The kernel's command line sets
# `peer`, `row`, `boot`, `quick`, and `run`, a number that differs from those of all earlier runs.
# shellcheck shell=dash source=tests/vm/lib.sh disable=SC1091
. /vm/lib.sh
: "${peer:?}" "${row:?}" "${boot:=1}" "${quick:=}" "${run:=1}"
data=$(disk data) cache=$(disk cache) ledger=$(disk ledger)
# shellcheck source=tests/vm/peers/peers.sh disable=SC1091
. /vm/peers.sh

figure() { echo "= $*"; }

# brief LONG SHORT: prints SHORT with `--quick`, else LONG.
brief() { if [ -n "$quick" ]; then echo "$2"; else echo "$1"; fi; }

now() { cut -d ' ' -f 1 /proc/uptime; }

uptime_s() { cut -d . -f 1 /proc/uptime; }

# timed FIGURE COMMAND…: records the run time of the command as a figure, in seconds. `told` prints the figure.
timed() {
    local what=$1 began
    shift
    began=$(now)
    "$@" || return 1
    echo "$began $(now)" | awk -v what="$what" '{ printf "= %s %.1f\n", what, $2 - $1 }' >>/tmp/figures
}

# Prints recorded figures, because `check` and `must` capture the output of their commands.
told() {
    [ ! -e /tmp/figures ] || cat /tmp/figures
    rm -f /tmp/figures
}

# Prints the memory that programs, the kernel and dirty pages use, in KiB.
used() {
    echo 3 >/proc/sys/vm/drop_caches
    awk '/^MemTotal/ { all = $2 } /^MemFree/ { free = $2 } END { print all - free }' /proc/meminfo
}

# Prints the data written to the data disk since boot, in KiB.
home() { awk '{ print $7 / 2 }' "/sys/block/${data##*/}/stat"; }

# random OPTION…: writes 4 KiB blocks at random offsets. Each call uses new offsets, and all peers get equal
# sequences. Leaves the results in /tmp/fio.
seed=0
random() {
    rm -f /tmp/fio /tmp/seconds_iops*
    seed=$((seed + 1))
    fio --randseed="$seed" --minimal --terse-version=3 --output=/tmp/fio --name=random --filename="$device" --direct=1 \
        --ioengine=libaio --rw=randwrite --bs=4k --size=1G --norandommap --thread --group_reporting "$@"
}

# Columns of fio's terse output, version 3, for writes: 47 is the written data in KiB, 49 the rate, 59 to 78 the
# latency percentiles in µs, and 80 the highest latency in µs.
rate() { awk -F ';' '$1 == 3 { printf "%.0f\n", $49 }' /tmp/fio; }
written() { awk -F ';' '$1 == 3 { print $47 }' /tmp/fio; }
longest() { awk -F ';' '$1 == 3 { printf "%.0f\n", $80 / 1000 }' /tmp/fio; }
p99() {
    awk -F ';' '$1 == 3 {
        for (i = 59; i <= 78; i++) if ($i ~ /^99\.0+%=/) { sub(/.*=/, "", $i); printf "%.0f\n", $i / 1000 }
    }' /tmp/fio
}

# Writes that fit into the cache, at full speed; then a drain.
burst() {
    must "the peer is set up" "$peer" up
    must "a burst" random --iodepth=32 --io_size="$(brief 48 24)M"
    figure burst "$(rate)"
    figure burst-longest "$(longest)"
    # A drain that does not end continues in the background.
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
    must "the peer is set up" "$peer" up
    for writers in 1 8; do
        must "$writers synchronous writers" random --iodepth=1 --fsync=1 --numjobs="$writers" \
            --time_based --runtime="$(brief 30 10)"
        figure "sync-$writers" "$(rate)"
    done
}

# Fills the cache for a limited time, and measures the memory that the peer needs for the cached data.
filled() {
    local before between after mib home written
    if cacheless; then
        must "the peer is set up" "$peer" up
        return
    fi
    # The first run of fio allocates memory that is never freed.
    device=$data
    must "the measurement warms up" random --iodepth=32 --io_size=128k
    before=$(used)
    must "the peer is set up" "$peer" up
    # Peers may allocate buffers at the first writes. The size of these does not depend on the cached data.
    must "the first writes are cached" random --iodepth=32 --io_size=16M
    between=$(used)
    home=$(home)
    must "the cache is half full" random --iodepth=32 --io_size=128M --runtime=90
    after=$(used)
    written=$(written)
    mib=$(((written - $(home) + home) / 1024))
    figure memory-begin "$(((between - before) / 1024))"
    # `mib` is the data not yet on the data disk. Below 64 MiB the figure is noise: the kernel's own memory varies by
    # some MiB.
    if [ "$mib" -ge 64 ]; then
        figure memory-gib "$(((after - between) / mib)) (by $mib MiB)"
    fi
    must "the cache is filled" random --iodepth=32 --io_size=128M --runtime=90
    figure full-before "$(((written + $(written)) / 1024))"
}

# Writes at full speed after the cache is full.
sustained() {
    local seconds
    seconds=$(brief 120 60)
    filled
    must "writes continue over a full cache" random --iodepth=32 --time_based --runtime="$seconds" \
        --write_iops_log=/tmp/seconds
    figure full-mean "$(rate)"
    figure full-p99 "$(p99)"
    figure full-longest "$(longest)"
    # The log contains one line for each write, which begins with the time of its completion in milliseconds.
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

# Number of 4 KiB blocks that `stamp` writes.
blocks=16384

stamp() { forebay-guest stamp "$1" "$ledger" --run "$run" --blocks "$blocks"; }

# The guest is reset during writes. Its disks keep all writes that they received.
crash() {
    case $boot in
    1)
        must "the peer is set up" "$peer" up
        must "the ledger is empty" new_ledger
        stamp "$device" >/tmp/stamp 2>&1 &
        sleep "$(brief 40 20)"
        must "the writer met no error" test ! -s /tmp/stamp
        reset_machine
        ;;
    2)
        must "the peer recovers" timed recovery recovered_now
        told
        must "the remaining data is read" left "$device" 0
        figure left "$(cat /tmp/left)"
        must "the peer is removed" "$peer" down
        must "the data disk alone is read" left "$data" 0
        if [ "$offset" -gt 0 ] && ! grep -q "prefix" /tmp/left; then
            must "the data disk alone is read beyond the superblock" left "$data" "$offset"
            figure alone "from byte $offset on: $(cat /tmp/left)"
        else
            figure alone "$(cat /tmp/left)"
        fi
        ;;
    esac
}

# Recovers the peer, and reads the first block.
recovered_now() { "$peer" again && dd if="$device" of=/dev/null bs=4k count=1 iflag=direct; }

# left DEVICE OFFSET: describes the stamped data that is present, in /tmp/left.
left() {
    forebay-guest stamped "$1" "$ledger" --run "$run" --blocks "$blocks" --offset "$2" >/tmp/stamped || return 1
    cat /tmp/stamped
    awk '{
        newest = $2; behind = $4; promised = $6; lost = $8; torn = $10; unreadable = $12
        if (newest == 0) said = "none of the writes"
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

# limited SECONDS COMMAND…: runs the command. After this time returns 124 and leaves the command running.
limited() {
    local until own
    until=$(($(uptime_s) + $1))
    shift
    "$@" >/tmp/limited 2>&1 &
    own=$!
    until ended "$own"; do
        if [ "$(uptime_s)" -ge "$until" ]; then
            echo "does not return" >/tmp/limited
            return 124
        fi
        sleep 0.1
    done
    wait "$own"
}

# The cache's disk is removed under a writer.
death() {
    local writer
    # Fewer blocks: around an unreadable block the checker reads single blocks, and the disk reads 150 in a second.
    blocks=2048
    must "the peer is set up" "$peer" up
    if cacheless; then
        return
    fi
    must "the ledger is empty" new_ledger
    stamp "$device" >/tmp/stamp 2>&1 &
    writer=$!
    sleep "$(brief 30 15)"
    check "the writer met no error" test ! -s /tmp/stamp
    # Kernel messages on the console would mix with the figures.
    dmesg -n 1
    echo 1 >"/sys/block/${cache##*/}/device/delete" &
    # 90 s should exceed the time limits that the peers have by default.
    if within 90 ended "$writer"; then
        figure death-writes "$(sed 's/^acknowledged [0-9]* flushed [0-9]* error //' /tmp/stamp)"
    elif advances; then
        figure death-writes "continue"
    else
        figure death-writes "wait forever"
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

# Succeeds if flushes still complete.
advances() {
    local before
    before=$(od -A n -t u8 -j 8 -N 8 "$ledger")
    sleep 5
    [ "$(od -A n -t u8 -j 8 -N 8 "$ledger")" != "$before" ]
}

figure kernel "$(uname -r)"
"$row"
