/* What sleds.h promises, called from C. Takes a file of 2880 + 8000 + 3 bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sleds.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s (errno %s)\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)
#define FAILS(what, code) \
    do { \
        errno = 0; \
        CHECK((what) < 0); \
        CHECK(errno == (code)); \
    } while (0)

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    int64_t offset, nbytes, sum = 0;
    double low, high;
    int fd = open(argv[1], O_RDONLY);
    CHECK(fd >= 0);

    FAILS(sleds_pick_init(-1, 100, SLEDS_NO_RECORDS), EBADF);
    FAILS(sleds_pick_init(999, 100, SLEDS_NO_RECORDS), EBADF);
    FAILS(sleds_pick_init(fd, 0, SLEDS_NO_RECORDS), EINVAL);
    FAILS(sleds_pick_init(fd, -5, SLEDS_NO_RECORDS), EINVAL);
    FAILS(sleds_pick_init(fd, 100, 256), EINVAL);
    FAILS(sleds_pick_init(fd, 100, -2), EINVAL);
    FAILS(sleds_pick_next_read(fd, &offset, &nbytes), EINVAL);
    FAILS(sleds_pick_finish(fd), EINVAL);
    FAILS(sleds_total_delivery_time(fd, 7), EINVAL);
    FAILS(sleds_get(fd, NULL, 1), EFAULT);
    FAILS(sleds_get(fd, NULL, -1), EINVAL);
    FAILS(ff_sleds_pick_next_read(fd, &offset, &nbytes), EINVAL);

    CHECK(sleds_pick_init(fd, 1000, SLEDS_NO_RECORDS) == 1000);
    FAILS(sleds_pick_next_read(fd, NULL, &nbytes), EFAULT);
    FAILS(ff_sleds_pick_next_read(fd, &offset, &nbytes), EINVAL);
    CHECK(sleds_pick_init(fd, 1000, SLEDS_NO_RECORDS) == 1000);
    while (sleds_pick_next_read(fd, &offset, &nbytes) == 1) {
        CHECK(nbytes > 0 && nbytes <= 1000);
        sum += nbytes;
        CHECK(sleds_pick_refresh(fd) == 0);
    }
    CHECK(sum == 2880 + 8000 + 3);
    CHECK(sleds_pick_next_read(fd, &offset, &nbytes) == 0);
    CHECK(sleds_pick_finish(fd) == 0);

    CHECK(ff_sleds_pick_init(fd, 2880, 8, 64) == 64);
    sum = 0;
    while (ff_sleds_pick_next_read(fd, &offset, &nbytes) == 1) {
        CHECK(offset >= 0 && nbytes > 0 && nbytes <= 64 && offset + nbytes <= 1000);
        sum += nbytes;
    }
    CHECK(sum == 1000);
    CHECK(ff_sleds_pick_finish(fd) == 0);
    FAILS(ff_sleds_pick_init(fd, -1, 8, 64), EINVAL);
    FAILS(ff_sleds_pick_init(fd, 0, 0, 64), EINVAL);

    sleds_sled one;
    CHECK(sleds_get(fd, NULL, 0) >= 1);
    CHECK(sleds_get(fd, &one, 1) >= 1);
    CHECK(one.offset == 0 && one.length > 0);
    CHECK(one.level == SLEDS_UNKNOWN || (one.latency > 0 && one.bandwidth > 0));
    CHECK(one.latency_low <= one.latency && one.latency <= one.latency_high);
    char name[4] = {'x', 'x', 'x', 'x'};
    CHECK(sleds_device_name(fd, name, 3) > 0);
    CHECK(strlen(name) <= 2 && name[3] == 'x');
    CHECK(sleds_total_delivery_time(fd, SLEDS_LINEAR) > 0);
    CHECK(sleds_delivery_range(fd, SLEDS_BEST, &low, &high) == 0 && low <= high);
    close(fd);

    int ends[2];
    CHECK(pipe(ends) == 0);
    FAILS(sleds_pick_init(ends[0], 100, '\n'), ESPIPE);
    FAILS(sleds_total_delivery_time(ends[0], SLEDS_BEST), ESPIPE);
    return 0;
}
