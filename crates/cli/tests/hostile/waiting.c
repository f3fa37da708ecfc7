/* Acts that wait for locks, for completions and for children. */
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/prctl.h>

#include "caller.h"

void act_lock(void) {
    int file = some_file();
    if (flock(file, PICK_INT(LOCK_SH, LOCK_EX) | (one_in(2) ? LOCK_NB : 0)) == 0) {
        act_write();
        if (one_in(2)) flock(file, LOCK_UN);
    }
    release(file);
}

void act_lock_record(void) {
    int file = some_file();
    struct flock record = {.l_type = PICK_INT(F_RDLCK, F_WRLCK), .l_whence = SEEK_SET, .l_start = below(8), .l_len = 1 + below(4)};
    int how = PICK_INT(F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, F_GETLK, F_OFD_GETLK);
    if (fcntl(file, how, &record) == 0) {
        act_read();
        record.l_type = F_UNLCK;
        if (one_in(2)) fcntl(file, how, &record);
    }
    release(file);
}

void act_aio(void) {
    aio_context_t context = 0;
    struct iocb requests[4], *pointers[4];
    struct io_event events[4];
    struct timespec soon = {0, 1000000};
    int file = some_file(), count = 1 + below(4);
    if (syscall(SYS_io_setup, 4, &context)) {
        release(file);
        return;
    }
    for (int i = 0; i < count; i++) {
        requests[i] = (struct iocb){.aio_fildes = file, .aio_lio_opcode = below(4), .aio_buf = (uintptr_t)some_memory(),
                                    .aio_nbytes = some_length(), .aio_offset = some_offset()};
        pointers[i] = &requests[i];
    }
    syscall(SYS_io_submit, context, count, pointers);
    if (one_in(2)) syscall(SYS_io_getevents, context, 1, 4, events, &soon);
    if (one_in(2)) release(file), file = -1;
    syscall(SYS_io_destroy, context);
    release(file);
}

/* Puts requests into a ring, and may leave before they are done. */
static void submit(int ring, const struct io_uring_params *known, int file) {
    size_t length = known->sq_off.array + known->sq_entries * 4;
    char *queue = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
    struct io_uring_sqe *entries = mmap(NULL, known->sq_entries * sizeof *entries, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
                                        IORING_OFF_SQES);
    if (queue == MAP_FAILED || entries == MAP_FAILED) return;
    int count = 1 + below(4);
    for (int i = 0; i < count; i++) {
        struct io_uring_sqe *entry = &entries[i];
        memset(entry, 0, sizeof *entry);
        entry->opcode = PICK_INT(IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_FALLOCATE, IORING_OP_SYNC_FILE_RANGE);
        entry->fd = file;
        entry->off = some_offset();
        entry->addr = (uintptr_t)some_memory();
        entry->len = entry->opcode == IORING_OP_FSYNC ? 0 : some_length();
        entry->flags = one_in(4) ? PICK_INT(IOSQE_IO_LINK, IOSQE_ASYNC, IOSQE_IO_DRAIN) : 0;
        ((unsigned *)(queue + known->sq_off.array))[i] = i;
    }
    __atomic_store_n((unsigned *)(queue + known->sq_off.tail), count, __ATOMIC_RELEASE);
    int waits = !one_in(20), submitted = count;
    while (syscall(SYS_io_uring_enter, ring, submitted, waits ? count : 0, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno == EINTR)
        submitted = 0;
    munmap(entries, known->sq_entries * sizeof *entries);
    munmap(queue, length);
}

/* Seldom, since the kernel ends 64 rings at a time, also those of other users, and each waits for the thread that had it. */
void act_ring(void) {
    if (!one_in(20)) return;
    struct io_uring_params known = {0};
    int ring = syscall(SYS_io_uring_setup, 4, &known), file = some_file();
    if (ring >= 0) {
        submit(ring, &known, file);
        close(ring);
    }
    release(file);
}

/* A child acts until it is killed in the middle of a call. It ends with the thread that started it. */
void act_child(void) {
    static int is_child;
    if (is_child || !one_in(20)) return;
    pid_t child = fork();
    if (child == 0) {
        struct slot unwatched = {0};
        is_child = 1;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        me->slot = &unwatched;
        for (int i = 0; i < 1000; i++) run_act(some_act());
        _exit(0);
    }
    if (child < 0) return;
    struct timespec while_ = {0, below(5000000)};
    nanosleep(&while_, NULL);
    if (one_in(4)) kill(child, SIGSTOP);
    kill(child, SIGKILL);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}
