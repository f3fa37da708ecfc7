/* Threads of a hostile caller: what each has, and numbers at random. */
#ifndef CALLER_H
#define CALLER_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

/* Open files that a thread keeps from one act to the next. */
#define KEPT 3
/* Directories that threads share. */
#define DIRECTORIES 12
/* Bytes of a thread's buffer. */
#define BUFFER (128 << 10)
#define PAGE 4096

/* A thread in the file of counters, which the watchdog reads. */
struct slot {
    uint64_t done; /* acts that ended */
    uint32_t tid;
    uint32_t act; /* the act under way: its place in `acts` */
};

struct caller {
    uint64_t state; /* of the random numbers */
    volatile struct slot *slot;
    char *buffer;
    int kept[KEPT];
    uint64_t transaction; /* the id of the last one begun */
    sigjmp_buf fault;
    volatile sig_atomic_t guarded; /* a fault of memory goes to `fault` */
};

extern __thread struct caller *me;

/* The generator of crates/rng: SplitMix64. */
static inline uint64_t random_number(void) {
    uint64_t z = me->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static inline uint64_t below(uint64_t n) { return random_number() % n; }
static inline int one_in(uint64_t n) { return below(n) == 0; }
#define PICK_INT(...) ((const int[]){__VA_ARGS__}[below(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))])

/* Runs statements that may meet SIGBUS or SIGSEGV, which end them. */
#define GUARDED(...)                          \
    do {                                      \
        if (sigsetjmp(me->fault, 0) == 0) {   \
            me->guarded = 1;                  \
            __VA_ARGS__;                      \
        }                                     \
        me->guarded = 0;                      \
    } while (0)

/* A name that other threads also use. */
static inline const char *some_name(char name[64]) {
    snprintf(name, 64, "d%d/f%d", (int)below(DIRECTORIES), (int)below(one_in(8) ? 64 : 8));
    return name;
}

/* An offset, mostly within the first megabyte, in any alignment. */
static inline off_t some_offset(void) {
    off_t at = below(1 << 20);
    if (one_in(200)) return at << below(24);
    return at & ~(off_t)(PICK_INT(4096, 4096, 512, 1) - 1);
}

static inline size_t some_length(void) {
    size_t length = 1 + below(one_in(4) ? BUFFER / 2 : 9000);
    return one_in(2) ? (length + 511) & ~511u : length;
}

/* A place in the thread's buffer, aligned in any way. */
static inline char *some_memory(void) { return me->buffer + PICK_INT(0, 0, 512, 4096, 1, 77); }

int some_file(void);
void release(int file);

typedef void act(void);
act act_write, act_read, act_vector, act_truncate, act_allocate, act_sync, act_seek, act_copy, act_status, act_advice, act_poll;
act act_names, act_rename, act_directory, act_list, act_attributes, act_access_list, act_owner, act_temporary;
act act_map, act_map_private, act_map_twice, act_own_mapping, act_truncate_under_mapping;
act act_lock, act_lock_record, act_aio, act_ring, act_child;
act act_change, act_garbage, act_transaction, act_join, act_commit, act_exchange, act_f2fs, act_features;

/* An act at random, and its name in `act_names_of`. */
uint32_t some_act(void);
void run_act(uint32_t act);

#endif
