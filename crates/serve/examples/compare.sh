#!/bin/sh
# Random 4 KiB at depth 32, by the front end (fuse_ram) and by a server that only copies memory
# (fuse_memcpy), on the FUSE file and on the loop device over it. Turn and turn about, because only
# figures of one run can be compared. As root: compare.sh [ROUNDS [SECONDS]]
set -eu
rounds=${1:-3} seconds=${2:-3}
cd "$(dirname "$0")/../../.."
cargo build --quiet --release -p forebay-serve --example fuse_ram --example fuse_memcpy
bin=$(pwd)/target/release/examples
dir=$(mktemp -d)
server= loop=

stop() {
    # fuse_ram clears its own loop device and mount when told to end.
    if [ -n "$loop" ]; then losetup --detach "$loop"; loop=; fi
    if [ -d "$dir/memcpy" ] && mountpoint -q "$dir/memcpy"; then
        until umount "$dir/memcpy"; do sleep 0.1; done
    fi
    if [ -n "$server" ]; then kill "$server" 2>/dev/null || true; wait "$server" || true; server=; fi
}
trap 'stop; rm -rf --one-file-system "$dir"' EXIT

measure() { # name target
    for rw in randwrite randread; do
        ops=$(fio --name=x --filename="$2" --rw=$rw --bs=4k --iodepth=32 --ioengine=libaio --direct=1 \
            --size=1g --time_based --runtime="$seconds" --minimal |
            awk -F';' '{ print $8 + $49 }')
        printf '%-12s %-9s %8d/s\n' "$1" $rw "$ops"
    done
}

for _ in $(seq "$rounds"); do
    mkdir -p "$dir/memcpy"
    "$bin/fuse_memcpy" "$dir/memcpy" & server=$!
    until [ -f "$dir/memcpy/volume" ]; do sleep 0.1; done
    loop=$(losetup --direct-io=on --sector-size 4096 --find --show "$dir/memcpy/volume")
    measure memcpy:file "$dir/memcpy/volume"
    measure memcpy:loop "$loop"
    stop

    "$bin/fuse_ram" $((1 << 30)) "$dir" > "$dir/out" & server=$!
    until [ "$(wc -l < "$dir/out")" = 2 ]; do sleep 0.1; done
    measure ram:file "$(sed -n 2p "$dir/out")"
    measure ram:loop "$(sed -n 1p "$dir/out")"
    stop
done
