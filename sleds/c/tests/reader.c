/* What sleds.h promises about readers, called from C. Takes a file of 2880 + 8000 + 3 bytes. */
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
        CHECK(what); \
        CHECK(errno == (code)); \
    } while (0)

static char content[2880 + 8000 + 3];

/* Reads everything, and checks each piece. Returns the number of bytes. */
static int64_t all(sleds_reader *reader)
{
    const void *data;
    int64_t nbytes, offset, sum = 0;
    int more;
    CHECK(reader != NULL);
    while ((more = sleds_reader_next(reader, &data, &nbytes, &offset)) == 1) {
        CHECK(nbytes > 0 && offset >= 0 && offset + nbytes <= (int64_t)sizeof content);
        CHECK(memcmp(data, content + offset, (size_t)nbytes) == 0);
        sum += nbytes;
    }
    CHECK(more == 0);
    CHECK(sleds_reader_next(reader, &data, &nbytes, &offset) == 0);
    return sum;
}

static void elements(int fd, int plan)
{
    const void *data;
    int64_t nbytes, offset, sum = 0;
    sleds_reader *reader = ff_sleds_reader_open(fd, plan, 2880, 8, 64);
    CHECK(reader != NULL);
    while (sleds_reader_next(reader, &data, &nbytes, &offset) == 1) {
        CHECK(offset >= 2880 && (offset - 2880) % 8 == 0);
        CHECK(nbytes % 8 == 0 || offset + nbytes == (int64_t)sizeof content);
        CHECK(memcmp(data, content + offset, (size_t)nbytes) == 0);
        sum += nbytes;
    }
    CHECK(sum == 8003);
    CHECK(sleds_reader_close(reader) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    const void *data;
    int64_t nbytes, offset;
    int fd = open(argv[1], O_RDONLY);
    CHECK(fd >= 0);
    CHECK(pread(fd, content, sizeof content, 0) == (ssize_t)sizeof content);

    FAILS(sleds_reader_open(-1, SLEDS_AUTO, 100, SLEDS_NO_RECORDS) == NULL, EBADF);
    FAILS(sleds_reader_open(fd, 7, 100, SLEDS_NO_RECORDS) == NULL, EINVAL);
    FAILS(sleds_reader_open(fd, SLEDS_AUTO, 0, SLEDS_NO_RECORDS) == NULL, EINVAL);
    FAILS(sleds_reader_open(fd, SLEDS_AUTO, -1, SLEDS_NO_RECORDS) == NULL, EINVAL);
    FAILS(sleds_reader_open(fd, SLEDS_AUTO, 100, 256) == NULL, EINVAL);
    FAILS(sleds_reader_open_path(NULL, SLEDS_AUTO, 100, '\n') == NULL, EFAULT);
    FAILS(sleds_reader_open_path("/no/such/file", SLEDS_AUTO, 100, '\n') == NULL, ENOENT);
    FAILS(ff_sleds_reader_open(fd, SLEDS_BEST, 0, 0, 64) == NULL, EINVAL);
    FAILS(ff_sleds_reader_open(fd, SLEDS_BEST, -1, 8, 64) == NULL, EINVAL);
    FAILS(sleds_reader_next(NULL, &data, &nbytes, &offset) < 0, EFAULT);
    FAILS(sleds_reader_plan(NULL) < 0, EFAULT);
    FAILS(sleds_reader_close(NULL) < 0, EFAULT);

    int plans[] = {SLEDS_LINEAR, SLEDS_BEST, SLEDS_AUTO};
    for (int i = 0; i < 3; i++) {
        sleds_reader *reader = sleds_reader_open_path(argv[1], plans[i], 1000, SLEDS_NO_RECORDS);
        CHECK(all(reader) == (int64_t)sizeof content);
        CHECK(plans[i] == SLEDS_AUTO || sleds_reader_plan(reader) == plans[i]);
        CHECK(sleds_reader_close(reader) == 0);
        elements(fd, plans[i]);
    }

    /* From the position of a descriptor on, which may be closed before the reader. */
    int other = open(argv[1], O_RDONLY);
    CHECK(lseek(other, 2880, SEEK_SET) == 2880);
    sleds_reader *reader = sleds_reader_open(other, SLEDS_BEST, 500, SLEDS_NO_RECORDS);
    close(other);
    CHECK(all(reader) == 8003);
    CHECK(sleds_reader_close(reader) == 0);

    /* Whole records, and a close before the end. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "one\ntwo\nend", 11) == 11);
    close(ends[1]);
    reader = sleds_reader_open(ends[0], SLEDS_BEST, 4, '\n');
    CHECK(reader != NULL && sleds_reader_plan(reader) == SLEDS_LINEAR);
    FAILS(sleds_reader_next(reader, NULL, &nbytes, &offset) < 0, EFAULT);
    CHECK(sleds_reader_next(reader, &data, &nbytes, &offset) == 1);
    CHECK(offset == 0 && nbytes >= 4 && ((const char *)data)[nbytes - 1] == '\n');
    CHECK(sleds_reader_close(reader) == 0);

    /* A failure stays a failure. */
    reader = sleds_reader_open_path(argv[2], SLEDS_AUTO, 4096, SLEDS_NO_RECORDS);
    CHECK(reader != NULL);
    FAILS(sleds_reader_next(reader, &data, &nbytes, &offset) < 0, EISDIR);
    FAILS(sleds_reader_next(reader, &data, &nbytes, &offset) < 0, EISDIR);
    CHECK(sleds_reader_close(reader) == 0);
    return 0;
}
