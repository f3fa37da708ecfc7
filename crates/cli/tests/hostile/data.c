/* Acts on the data of files. */
#include <linux/falloc.h>

#include "caller.h"

/* Opens a file in some way, or gives one that the thread keeps. Never waits for a FIFO. */
int some_file(void) {
    char name[64];
    if (one_in(3)) {
        int kept = me->kept[below(KEPT)];
        if (kept >= 0) return kept;
    }
    int flags = PICK_INT(O_RDWR, O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY) | O_NONBLOCK | O_CLOEXEC;
    if (!one_in(4)) flags |= O_CREAT;
    if (one_in(4)) flags |= O_DIRECT;
    if (one_in(30)) flags |= O_TRUNC;
    if (one_in(10)) flags |= O_APPEND;
    if (one_in(10)) flags |= PICK_INT(O_DSYNC, O_SYNC);
    if (one_in(40)) flags |= PICK_INT(O_EXCL, O_NOFOLLOW, O_PATH, O_DIRECTORY, O_NOATIME);
    return open(some_name(name), flags, 0644);
}

/* Closes a file, or keeps it in the place of another one. */
void release(int file) {
    if (file < 0) return;
    for (int i = 0; i < KEPT; i++)
        if (me->kept[i] == file) {
            if (one_in(4) && close(file) == 0) me->kept[i] = -1;
            return;
        }
    int place = below(KEPT);
    if (!one_in(4)) {
        close(file);
        return;
    }
    if (me->kept[place] >= 0) close(me->kept[place]);
    me->kept[place] = file;
}

void act_write(void) {
    int file = some_file();
    if (one_in(3))
        write(file, some_memory(), some_length());
    else
        pwrite(file, some_memory(), some_length(), some_offset());
    if (one_in(8)) fsync(file);
    release(file);
}

void act_read(void) {
    int file = some_file();
    pread(file, some_memory(), some_length(), some_offset());
    release(file);
}

void act_vector(void) {
    int file = some_file();
    struct iovec parts[3];
    for (int i = 0; i < 3; i++) parts[i] = (struct iovec){some_memory(), some_length() / 3};
    int flags = one_in(3) ? PICK_INT(RWF_DSYNC, RWF_SYNC, RWF_HIPRI, RWF_NOWAIT, RWF_APPEND) : 0;
    if (one_in(2))
        pwritev2(file, parts, 3, some_offset(), flags);
    else
        preadv2(file, parts, 3, some_offset(), flags);
    release(file);
}

void act_truncate(void) {
    char name[64];
    off_t length = one_in(100) ? (off_t)random_number() : some_offset();
    if (one_in(2)) {
        truncate(some_name(name), length);
        return;
    }
    int file = some_file();
    ftruncate(file, length);
    release(file);
}

void act_allocate(void) {
    int file = some_file();
    int mode = PICK_INT(0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE, FALLOC_FL_ZERO_RANGE,
                        FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE, (int)below(256));
    off_t length = one_in(50) ? (off_t)random_number() : (off_t)some_length();
    fallocate(file, mode, some_offset(), length);
    release(file);
}

void act_sync(void) {
    int file = some_file();
    switch (below(10)) {
    case 0: syncfs(file); break;
    case 1: sync_file_range(file, some_offset(), some_length(), below(8)); break;
    case 2: case 3: case 4: fdatasync(file); break;
    default: fsync(file);
    }
    release(file);
}

void act_seek(void) {
    int file = some_file();
    lseek(file, one_in(20) ? (off_t)random_number() : some_offset(), PICK_INT(SEEK_DATA, SEEK_HOLE, SEEK_SET, SEEK_END, 99));
    release(file);
}

void act_copy(void) {
    int from = some_file(), to = some_file(), pipes[2];
    off_t at = some_offset(), other = some_offset();
    switch (below(3)) {
    case 0: copy_file_range(from, &at, to, &other, some_length(), 0); break;
    case 1: sendfile(to, from, &at, some_length()); break;
    default:
        if (pipe2(pipes, O_NONBLOCK)) break;
        splice(from, &at, pipes[1], NULL, some_length(), SPLICE_F_NONBLOCK);
        splice(pipes[0], NULL, to, &other, some_length(), SPLICE_F_NONBLOCK);
        close(pipes[0]);
        close(pipes[1]);
    }
    release(from);
    if (to != from) release(to);
}

void act_status(void) {
    char name[64];
    struct stat status;
    struct statx more;
    struct statvfs space;
    stat(some_name(name), &status);
    statx(AT_FDCWD, some_name(name), PICK_INT(0, AT_STATX_FORCE_SYNC, AT_STATX_DONT_SYNC), STATX_ALL, &more);
    if (one_in(10)) statvfs(name, &space);
    access(some_name(name), below(8));
}

void act_advice(void) {
    int file = some_file();
    if (one_in(2))
        readahead(file, some_offset(), some_length());
    else
        posix_fadvise(file, some_offset(), some_length(), below(6));
    release(file);
}

void act_poll(void) {
    int file = some_file();
    struct pollfd one = {file, POLLIN | POLLOUT, 0};
    poll(&one, 1, 0);
    release(file);
}
