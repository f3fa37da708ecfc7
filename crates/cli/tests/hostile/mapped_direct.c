/* Maps a file that is open with O_DIRECT again and again, while other threads write to it directly from memory that is not there
 * yet: FILE. With parallel direct writes, the kernel waited in mmap() for the writes, and in the writes for mmap(). Ends with 3 if
 * such a file cannot be mapped. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define WRITERS 4
#define ROUNDS 1500

static const char *path;
static _Atomic int refused;

static void *write_rounds(void *unused) {
    int file = open(path, O_RDWR | O_DIRECT);
    for (int i = 0; i < ROUNDS; i++) {
        char *fresh = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pwrite(file, fresh, 4 * PAGE, 0) != 4 * PAGE) perror("pwrite");
        munmap(fresh, 4 * PAGE);
    }
    close(file);
    return unused;
}

static void *map_rounds(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        int file = open(path, O_RDWR | O_DIRECT);
        void *mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (mapped != MAP_FAILED) {
            munmap(mapped, PAGE);
        } else if (errno == ENODEV) {
            refused = 1;
        } else {
            perror("mmap");
        }
        close(file);
    }
    return unused;
}

int main(int count, char **arguments) {
    pthread_t threads[WRITERS + 2];
    if (count != 2) return 2;
    path = arguments[1];
    for (int i = 0; i < WRITERS + 2; i++) pthread_create(&threads[i], NULL, i < WRITERS ? write_rounds : map_rounds, NULL);
    for (int i = 0; i < WRITERS + 2; i++) pthread_join(threads[i], NULL);
    return refused ? 3 : 0;
}
