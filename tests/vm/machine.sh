# shellcheck shell=bash
# Virtual machine of `scripts/test-vm`, `scripts/bench-peers` and `scripts/bench-fs`: Debian's own kernel in QEMU,
# with a filesystem in memory. These scripts source this file, which boots nothing by itself.
#
# This file sets `root`, `target`, `work` and `cache`, and changes to the directory `root`. The sourcing script
# may add to `programs` and `modules` before `pack`. It must fill `disks` with `add_disk` before `boot`.

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$root"
exec </dev/null
export PATH="$PATH:/usr/sbin:/sbin"

target=${CARGO_TARGET_DIR:-$root/target}
work=$target/vm
cache=${FOREBAY_VM_CACHE:-$work/cache}
accel=${FOREBAY_VM_ACCEL:-tcg}
# Debian release of the host.
codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
# Oldest kernel with all tested and measured features, such as ublk with recovery.
kernel_min=6.12
possible=
verbose=
disks=()

say() { printf '\n==> %s\n' "$*"; }

# lacks WHY…: ends the script because a requirement is missing; successfully if `possible` is set.
lacks() {
    if [ -n "$possible" ]; then
        echo "SKIPPED: scripts/${0##*/}: $*"
        exit 0
    fi
    echo "scripts/${0##*/}: $*" >&2
    exit 1
}

# Host programs that are copied into the guest, besides busybox. `dash` is needed because busybox's shell would run
# its own built-in versions of them.
programs=(
    dash mkfs.ext4 e2fsck mkfs.xfs xfs_repair mkfs.btrfs btrfs dmsetup sfdisk mount umount losetup blockdev
)

# Kernel modules that are copied into the guest, with their dependencies.
modules=(
    virtio_pci virtio_blk virtio_scsi sd_mod nbd ublk_drv loop ext4 xfs btrfs
    dm-mod dm-log-writes dm-snapshot raid1 crc32c_generic crc32c_intel
)

# check_programs PROGRAM…: checks that the programs of this file and the given programs are installed.
check_programs() {
    local program
    [ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || lacks "this is not a Debian system of amd64"
    for program in qemu-system-x86_64 busybox modprobe depmod strip apt-get "${programs[@]}" "$@"; do
        command -v "$program" >/dev/null || lacks "$program is not installed"
    done
}

# configure_apt SUITE…: makes a separate configuration of apt, with these suites of the host's archive.
configure_apt() {
    local suite uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg signed=
    # Removes the setting of an earlier call.
    unset APT_CONFIG
    # shellcheck disable=SC2016  # apt fills these in
    uri=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        sed -n "s/^$codename main //p" | head -n 1)
    [ -n "$uri" ] || lacks "apt's sources do not name Debian's archive for $codename"
    [ ! -f "$keyring" ] || signed="[signed-by=$keyring] "
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
    : >"$cache/apt/status"
    for suite in "$@"; do
        echo "deb $signed$uri $suite main"
    done >"$cache/apt/sources.list"
    cat >"$cache/apt/apt.conf" <<END
Dir::State "$cache/apt";
Dir::State::status "$cache/apt/status";
Dir::Cache "$cache/apt";
Dir::Etc::sourcelist "$cache/apt/sources.list";
Dir::Etc::sourceparts "-";
APT::Sandbox::User "$(id -un)";
Acquire::Languages "none";
Acquire::Retries "3";
END
    export APT_CONFIG=$cache/apt/apt.conf
}

# Prints the oldest available kernel package of version `kernel_min` or later.
choose_kernel() {
    local version suite
    while read -r version suite; do
        if dpkg --compare-versions "$version" ge "$kernel_min"; then
            apt-cache depends "linux-image-amd64/$suite" |
                sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
            return
        fi
    done < <(apt-cache madison linux-image-amd64 |
        sed -n 's/^[^|]*| *\([^ ]*\) | [^ ]* \([^/]*\)\/.* Packages$/\1 \2/p' | sort -V)
}

# Prints the directory of the kernel's modules below a directory. Its name is the kernel's version.
modules_in() { dirname "$(find "$1" -name modules.builtin)"; }

index_modules() {
    local in
    in=$(modules_in "$1")
    depmod -b "${in%/lib/modules/*}" "$(basename "$in")"
}

# Downloads and unpacks the guest's packages that the host may lack: kernel and mdadm. If `$cache/guest` exists,
# it is complete.
fetch() {
    [ ! -d "$cache/guest" ] || return 0
    local kernel package
    say "fetching the guest's kernel"
    rm -rf "$cache/guest.new" "$cache/debs"
    mkdir -p "$cache/guest.new" "$cache/debs"
    configure_apt "$codename" "$codename-backports"
    apt-get -q update || echo "apt-get update failed for some sources" >&2
    kernel=$(choose_kernel)
    [ -n "$kernel" ] || lacks "the archive has no kernel of $kernel_min or later"
    (cd "$cache/debs" && apt-get -q download "$kernel" mdadm) || lacks "$kernel cannot be downloaded"
    for package in "$cache"/debs/*.deb; do
        dpkg-deb -x "$package" "$cache/guest.new"
    done
    index_modules "$cache/guest.new"
    rm -rf "$cache/debs" "$cache/apt"
    mv "$cache/guest.new" "$cache/guest"
}

# libraries PROGRAM…: copies the libraries of these programs into the guest.
libraries() {
    local program
    for program in "$@"; do
        { ldd "$program" 2>/dev/null || true; } | grep -o '/[^ ]*' || true
    done | sort -u | xargs -r cp -L --parents -t "$guest"
}

# put PROGRAM…: copies these programs and their libraries into the guest.
put() {
    cp -L "$@" "$guest/vm/bin/"
    libraries "$@"
}

# put_modules MODULE…: copies these modules and their dependencies into the guest.
put_modules() {
    local in base version
    in=$(modules_in "$cache/guest")
    base=${in%/lib/modules/*}
    version=$(basename "$in")
    mkdir -p "$guest/lib/modules/$version"
    cp "$in"/modules.{builtin,builtin.modinfo,order} "$guest/lib/modules/$version"
    modprobe -d "$base" -S "$version" --show-depends -a "$@" | sed -n 's/^insmod \([^ ]*\).*/\1/p' |
        sort -u | (cd "$in" && sed "s|^.*/lib/modules/$version/||" |
        xargs cp --parents -t "$guest/lib/modules/$version")
    find "$guest/lib/modules" -name '*.ko.xz' -exec xz -d {} +
    depmod -b "$guest" "$version"
}

# Prints a directory as the kind of archive that the kernel unpacks as its first filesystem.
archive() { (cd "$1" && find . | busybox cpio -o -H newc 2>/dev/null); }

# pack PROGRAM…: makes the guest's root filesystem, which is in memory, with Forebay's programs at these paths.
# Sets `initrd` to the archive.
pack() {
    local program where
    say "packing the guest"
    guest=$work/guest
    rm -rf "$guest"
    mkdir -p "$guest/bin" "$guest/etc" "$guest/vm/bin" "$guest/vm/scenarios"
    cp -L "$(command -v busybox)" "$guest/bin/busybox"
    put "$guest/bin/busybox" "$(find "$cache/guest" -path '*/sbin/mdadm')"
    for program in "${programs[@]}"; do
        where=$(command -v "$program")
        put "$where"
    done
    put "$@"
    for program in "$@"; do
        strip --strip-debug "$guest/vm/bin/${program##*/}"
    done
    [ ! -f /etc/mke2fs.conf ] || cp /etc/mke2fs.conf "$guest/etc/"
    put_modules "${modules[@]}"
    cp tests/vm/lib.sh "$guest/vm/"
    cp tests/vm/scenarios/*.sh "$guest/vm/scenarios/"
    cp tests/vm/init "$guest/init"
    initrd=$work/initrd
    archive "$guest" >"$initrd"
}

# filled IMAGE MIB: makes an image with all its blocks, so that no write allocates space during a measurement.
filled() {
    [ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -eq $(($2 * 1048576)) ] ||
        dd if=/dev/zero of="$1" bs=1M count="$2" oflag=direct status=none
}

# add_disk NAME IMAGE [OPTION…]: adds a disk to the machine. Options: `direct` bypasses the host's page cache,
# executes flushes, and keeps the image's blocks on a discard. `scsi` allows removal while the machine runs.
# `sector=4096` sets the sector size in bytes. `iops=N` and `bytes=N` limit the rate per second.
add_disk() {
    local name=$1 image=$2 option device=virtio-blk-pci drive
    shift 2
    # QEMU may ignore flushes: acknowledged writes survive the guest in the host's page cache, and QEMU is not under
    # test.
    local how=unsafe discard=unmap sectors=
    drive="file=$image,format=raw,if=none,id=$name"
    for option in "$@"; do
        case $option in
        direct) how=none discard=ignore ;;
        scsi)
            [[ " ${disks[*]} " == *" virtio-scsi-pci,id=scsi "* ]] ||
                disks+=(-device "virtio-scsi-pci,id=scsi")
            device=scsi-hd,bus=scsi.0
            ;;
        sector=4096) sectors=,logical_block_size=4096,physical_block_size=4096 ;;
        iops=*) drive+=,throttling.iops-total=${option#*=} ;;
        bytes=*) drive+=,throttling.bps-total=${option#*=} ;;
        esac
    done
    disks+=(-drive "$drive,cache=$how,discard=$discard" -device "$device,drive=$name,serial=$name$sectors")
}

# boot CONSOLE SECONDS MEMORY SHOWN WORD…: runs the machine until it ends. Appends the console to the file CONSOLE,
# and prints new lines that match the regular expression SHOWN. The words are added to the kernel's command line.
boot() {
    local console=$1 seconds=$2 memory=$3 which=$4 kernel shown show status=0
    shift 4
    kernel=$(find "$cache/guest/boot" -name 'vmlinuz-*')
    : >>"$console"
    shown=$(stat -c %s "$console")
    timeout --kill-after=10 "$seconds" qemu-system-x86_64 -nodefaults -no-user-config -display none \
        -no-reboot -accel "$accel" -cpu max,la57=off -smp 2 -m "$memory" "${disks[@]}" \
        -chardev "file,id=console,path=$console,append=on" -serial chardev:console \
        -kernel "$kernel" -initrd "$initrd" \
        -append "rdinit=/init console=ttyS0 quiet panic=-1 oops=panic nowatchdog no_timer_check \
tsc=reliable mitigations=off $*" >"$work/qemu.err" 2>&1 &
    machine=$!
    tail -c "+$((shown + 1))" -f -s 0.2 --pid="$machine" "$console" | sed -u 's/\r$//' |
        if [ -n "$verbose" ]; then cat; else grep -aE --line-buffered "$which"; fi &
    show=$!
    wait "$machine" || status=$?
    machine=
    wait "$show" || true
    sed -i 's/\r$//' "$console"
    return "$status"
}

# Process id of `timeout`, which runs QEMU and forwards signals; empty while no machine runs.
machine=
stop() {
    [ -z "$machine" ] || kill "$machine" 2>/dev/null || true
}
trap 'stop; exit 130' INT TERM HUP
