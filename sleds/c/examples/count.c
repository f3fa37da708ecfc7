/* Counts the lines and bytes of files, and reads the cheapest parts first (the paper's figure 5). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sleds.h>

static int count(const char *path)
{
    int fd = open(path, O_RDONLY);
    int64_t size = fd < 0 ? -1 : sleds_pick_init(fd, 1 << 16, '\n');
    char *buffer = size < 0 ? NULL : malloc((size_t)size);
    if (buffer == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    long long lines = 0, bytes = 0;
    int64_t offset, nbytes;
    int more;
    while ((more = sleds_pick_next_read(fd, &offset, &nbytes)) > 0) {
        ssize_t n = pread(fd, buffer, (size_t)nbytes, offset);
        if (n < 0)
            break;
        bytes += n;
        for (ssize_t i = 0; i < n; i++)
            lines += buffer[i] == '\n';
    }
    sleds_pick_finish(fd);
    printf("%lld %lld %s\n", lines, bytes, path);
    free(buffer);
    close(fd);
    return more < 0;
}

static void show(const char *path)
{
    int fd = open(path, O_RDONLY);
    sleds_sled sleds[64];
    char name[64];
    int64_t n = sleds_get(fd, sleds, 64);
    sleds_device_name(fd, name, sizeof name);
    for (int64_t i = 0; i < n && i < 64; i++)
        fprintf(stderr, "%lld +%lld %s %g s %g B/s\n", (long long)sleds[i].offset,
                (long long)sleds[i].length, sleds[i].level == SLEDS_MEMORY ? "memory" : name,
                sleds[i].latency, sleds[i].bandwidth);
    fprintf(stderr, "linear %g s, best %g s\n", sleds_total_delivery_time(fd, SLEDS_LINEAR),
            sleds_total_delivery_time(fd, SLEDS_BEST));
    close(fd);
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        failed |= count(argv[i]);
        if (!failed)
            show(argv[i]);
    }
    return failed;
}
