#!/bin/sh
# Random 4 KiB at depth 32, by the front end (fuse_ram) and by a server that only copies memory
# (fuse_memcpy), on the FUSE file and on the loop device over it. Both are up all the time and take
# turns, because only figures taken side by side can be compared. Prints medians of requests a second
# and of the server's own processor time per request; the latter is the steadier on a busy machine.
# As root: compare.sh [ROUNDS [SECONDS]]
set -eu
rounds=${1:-7} seconds=${2:-2}
cd "$(dirname "$0")/../../.."
cargo build --quiet --release -p forebay-loopdev --example fuse_ram --example fuse_memcpy
bin=$(pwd)/target/release/examples
dir=$(mktemp -d)
memcpy= loop= ram=

stop() {
    # fuse_ram clears its own loop device and mount when told to end.
    if [ -n "$ram" ]; then kill "$ram"; wait "$ram" || true; fi
    if [ -n "$loop" ]; then losetup --detach "$loop"; fi
    if mountpoint -q "$dir/memcpy"; then until umount "$dir/memcpy"; do sleep 0.1; done; fi
    if [ -n "$memcpy" ]; then wait "$memcpy" || true; fi
    rm -rf --one-file-system "$dir"
}
trap stop EXIT

ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }

measure() { # name target server
    for rw in randwrite randread; do
        before=$(ticks "$3")
        ops=$(fio --name=x --filename="$2" --rw=$rw --bs=4k --iodepth=32 --ioengine=libaio \
            --direct=1 --size=1g --time_based --runtime="$seconds" --minimal |
            awk -F';' '{ print $8 + $49 }')
        echo "$ops" >> "$dir/$1.$rw"
        echo $((($(ticks "$3") - before) * 10000000 / (ops * seconds))) >> "$dir/$1.$rw.ns"
    done
}

median() { sort -n "$1" | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

mkdir "$dir/memcpy"
"$bin/fuse_memcpy" "$dir/memcpy" & memcpy=$!
until [ -f "$dir/memcpy/volume" ]; do sleep 0.1; done
loop=$(losetup --direct-io=on --sector-size 4096 --find --show "$dir/memcpy/volume")
: > "$dir/out"
"$bin/fuse_ram" $((1 << 30)) "$dir" > "$dir/out" & ram=$!
until [ "$(wc -l < "$dir/out")" = 2 ]; do sleep 0.1; done

for _ in $(seq "$rounds"); do
    measure memcpy.loop "$loop" "$memcpy"
    measure ram.loop "$(sed -n 1p "$dir/out")" "$ram"
    measure memcpy.file "$dir/memcpy/volume" "$memcpy"
    measure ram.file "$(sed -n 2p "$dir/out")" "$ram"
done
for on in file loop; do
    for rw in randwrite randread; do
        theirs=$(median "$dir/memcpy.$on.$rw") ours=$(median "$dir/ram.$on.$rw")
        printf '%-5s %-9s memcpy %7d/s %6d ns   forebay %7d/s %6d ns   %3d %%\n' \
            $on $rw "$theirs" "$(median "$dir/memcpy.$on.$rw.ns")" \
            "$ours" "$(median "$dir/ram.$on.$rw.ns")" $((100 * ours / theirs))
    done
done
