/* A caller that does whatever an unprivileged process may do to a filesystem, in many threads.
 *
 *     caller DIRECTORY SEED THREADS COUNTERS FIRST     threads write their counters from slot FIRST on
 *     caller DIRECTORY probe COUNTERS FIRST            one thread that uses a file of its own, as a bystander does
 *
 * It ends when the first byte of the file COUNTERS is 1. */
#include <sys/prctl.h>

#include "caller.h"

__thread struct caller *me;

static const struct {
    act *run;
    const char *name;
} acts[] = {
#define ACT(name) {act_##name, #name}
    ACT(write), ACT(write), ACT(read), ACT(vector), ACT(truncate), ACT(allocate), ACT(sync), ACT(seek), ACT(copy), ACT(status),
    ACT(advice), ACT(poll), ACT(names), ACT(rename), ACT(directory), ACT(list), ACT(attributes), ACT(access_list), ACT(owner),
    ACT(temporary), ACT(map), ACT(map_private), ACT(map_twice), ACT(own_mapping), ACT(truncate_under_mapping), ACT(lock),
    ACT(lock_record), ACT(aio), ACT(ring), ACT(child), ACT(change), ACT(change), ACT(garbage), ACT(transaction), ACT(join),
    ACT(commit), ACT(exchange), ACT(f2fs), ACT(features),
};
#define ACTS (sizeof acts / sizeof *acts)

uint32_t some_act(void) { return below(ACTS); }
void run_act(uint32_t act) { acts[act].run(); }

/* The file of counters: a header of 16 bytes, then slots. */
static volatile char *counters;
static int threads, first_slot;
static uint64_t seed;
static pthread_t *running;

static int is_over(void) { return counters[0] != 0; }

static volatile struct slot *slot_of(int n) { return (volatile struct slot *)(counters + 16) + first_slot + n; }

static void on_alarm(int signal) { (void)signal; }

static void on_fault(int signal) {
    if (me && me->guarded) siglongjmp(me->fault, 1);
    _exit(100 + signal);
}

/* SIGALRM interrupts calls: it does not restart them. */
static void handle_signals(void) {
    struct sigaction alarm = {.sa_handler = on_alarm};
    struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &alarm, NULL);
    sigaction(SIGBUS, &fault, NULL);
    sigaction(SIGSEGV, &fault, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    signal(SIGIO, SIG_IGN);
}

static void *act_until_over(void *argument) {
    int n = (int)(intptr_t)argument;
    struct caller own = {.state = seed + (uint64_t)n * 0x632be59bd9b4e019u, .slot = slot_of(n), .kept = {-1, -1, -1}};
    me = &own;
    me->slot->tid = syscall(SYS_gettid);
    me->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (me->buffer == MAP_FAILED) return NULL;
    memset(me->buffer, 'a' + n % 26, BUFFER);
    while (!is_over()) {
        me->slot->act = some_act();
        run_act(me->slot->act);
        me->slot->done++;
    }
    for (int i = 0; i < KEPT; i++) release(me->kept[i]);
    me->slot->tid = 0;
    return NULL;
}

/* Interrupts threads one after the other at random, also those that wait for locks. */
static void interrupt_until_over(int started) {
    struct caller own = {.state = seed};
    struct timespec while_ = {0, 2000000};
    me = &own;
    while (!is_over()) {
        nanosleep(&while_, NULL);
        pthread_kill(running[below(started)], SIGALRM);
    }
    /* Threads that wait for a lock are interrupted until they see the end; a thread that is joined is not. */
    for (int n = 0; n < started; n++)
        while (pthread_tryjoin_np(running[n], NULL) == EBUSY) {
            pthread_kill(running[n], SIGALRM);
            nanosleep(&while_, NULL);
        }
}

static void probe(void) {
    volatile struct slot *slot = slot_of(0);
    struct timespec while_ = {0, 50000000};
    char bytes[100];
    slot->tid = syscall(SYS_gettid);
    while (!is_over()) {
        struct stat status;
        struct statvfs space;
        int file = open("probe", O_RDWR | O_CREAT, 0600);
        int failed = file < 0 || fstat(file, &status) || statvfs(".", &space) || pread(file, bytes, sizeof bytes, 0) < 0 ||
                     pwrite(file, bytes, sizeof bytes, 0) < 0 || unlink("probe");
        /* A full filesystem may refuse. */
        if (failed && errno != ENOSPC) {
            perror("probe");
            _exit(9);
        }
        if (file >= 0) close(file);
        slot->done++;
        nanosleep(&while_, NULL);
    }
    slot->tid = 0;
}

static void map_counters(const char *path, int first, int slots) {
    size_t length = 16 + (first + slots) * sizeof(struct slot);
    int file = open(path, O_RDWR);
    char *all = file < 0 ? MAP_FAILED : mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (all == MAP_FAILED) {
        perror(path);
        exit(2);
    }
    counters = all;
}

int main(int count, char **arguments) {
    struct rlimit files;
    if (count == 2 && strcmp(arguments[1], "acts") == 0) {
        for (size_t n = 0; n < ACTS; n++) puts(acts[n].name);
        return 0;
    }
    if (count < 5) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    handle_signals();
    if (strcmp(arguments[2], "probe") == 0) {
        map_counters(arguments[3], atoi(arguments[4]), 1);
        first_slot = atoi(arguments[4]);
        if (chdir(arguments[1])) return 3;
        probe();
        return 0;
    }
    seed = strtoull(arguments[2], NULL, 10);
    threads = atoi(arguments[3]);
    first_slot = atoi(arguments[5]);
    map_counters(arguments[4], first_slot, threads);
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (chdir(arguments[1])) return 3;
    running = calloc(threads, sizeof *running);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    int started = 0;
    for (; started < threads; started++)
        if (pthread_create(&running[started], &small, act_until_over, (void *)(intptr_t)started)) break;
    if (started == 0) return 4;
    interrupt_until_over(started);
    return 0;
}
