/* Acts on mapped files. */
#include "caller.h"

#define MAPPED (16 * PAGE)

static char *map(int file, int protection, int flags) {
    char *mapped = mmap(NULL, MAPPED, protection, flags, file, some_offset() & ~(off_t)(PAGE - 1));
    return mapped == MAP_FAILED ? NULL : mapped;
}

/* Stores to pages, or reads them, in any order. */
static void touch(char *mapped, int stores) {
    volatile char *bytes = mapped;
    GUARDED(for (int i = 0; i < 12; i++) {
        size_t at = below(MAPPED);
        if (stores && one_in(2))
            bytes[at] = at;
        else
            (void)bytes[at];
    });
}

void act_map(void) {
    int file = some_file();
    char *mapped = map(file, PROT_READ | PROT_WRITE, MAP_SHARED | (one_in(4) ? MAP_POPULATE : 0));
    if (mapped) {
        touch(mapped, 1);
        if (one_in(2)) msync(mapped, MAPPED, PICK_INT(MS_SYNC, MS_ASYNC, MS_INVALIDATE | MS_SYNC));
        if (one_in(3)) madvise(mapped, MAPPED, PICK_INT(MADV_DONTNEED, MADV_REMOVE, MADV_WILLNEED, MADV_PAGEOUT, MADV_COLD));
        if (one_in(8)) mlock(mapped, PAGE);
        touch(mapped, 1);
        munmap(mapped, MAPPED);
    }
    release(file);
}

void act_map_private(void) {
    int file = some_file();
    char *mapped = map(file, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    if (mapped) {
        touch(mapped, 1);
        munmap(mapped, MAPPED);
    }
    release(file);
}

/* Two mappings of a file, with an atomic change or a write between the stores. */
void act_map_twice(void) {
    int file = some_file();
    char *one = map(file, PROT_READ | PROT_WRITE, MAP_SHARED), *other = map(file, PROT_READ, MAP_SHARED);
    if (one) touch(one, 1);
    act_change();
    pwrite(file, me->buffer, some_length(), some_offset());
    if (other) {
        touch(other, 0);
        munmap(other, MAPPED);
    }
    if (one) {
        touch(one, 1);
        munmap(one, MAPPED);
    }
    release(file);
}

/* Reads and writes whose memory is a mapping of the same file, or of another one. */
void act_own_mapping(void) {
    int file = some_file(), other = one_in(2) ? file : some_file();
    char *mapped = map(file, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (mapped) {
        size_t at = one_in(2) ? below(MAPPED / 2) : 0, length = 1 + below(MAPPED / 2);
        if (one_in(2))
            pwrite(other, mapped + at, length, some_offset());
        else
            pread(other, mapped + at, length, some_offset());
        if (one_in(4)) ioctl(other, _IOC(_IOC_WRITE, 0xFB, 3, 1 + below(16383)), mapped);
        munmap(mapped, MAPPED);
    }
    release(file);
    if (other != file) release(other);
}

void act_truncate_under_mapping(void) {
    int file = some_file();
    char *mapped = map(file, PROT_READ | PROT_WRITE, MAP_SHARED);
    if (mapped) {
        touch(mapped, 1);
        ftruncate(file, some_offset() / 8);
        touch(mapped, 1);
        if (one_in(2)) ftruncate(file, some_offset());
        touch(mapped, 1);
        munmap(mapped, MAPPED);
    }
    release(file);
}
