/* Copies a file with a reader, the cheapest parts first: copy [best|linear] FROM TO. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <sleds.h>

static int failed(const char *path)
{
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 1;
}

static int write_all(int fd, const char *data, int64_t nbytes, int64_t offset)
{
    while (nbytes > 0) {
        ssize_t n = pwrite(fd, data, (size_t)nbytes, offset);
        if (n < 0)
            return -1;
        data += n;
        nbytes -= n;
        offset += n;
    }
    return 0;
}

int main(int argc, char **argv)
{
    int plan = SLEDS_AUTO;
    if (argc == 4)
        plan = strcmp(argv[1], "best") == 0 ? SLEDS_BEST : SLEDS_LINEAR;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: copy [best|linear] FROM TO\n");
        return 2;
    }
    const char *from = argv[argc - 2], *to = argv[argc - 1];
    sleds_reader *reader = sleds_reader_open_path(from, plan, 1 << 18, SLEDS_NO_RECORDS);
    if (reader == NULL)
        return failed(from);
    int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0)
        return failed(to);
    const void *data;
    int64_t nbytes, offset;
    long pieces = 0;
    int more;
    while ((more = sleds_reader_next(reader, &data, &nbytes, &offset)) > 0) {
        if (write_all(fd, data, nbytes, offset) < 0)
            return failed(to);
        pieces++;
    }
    if (more < 0)
        return failed(from);
    fprintf(stderr, "%ld pieces, %s\n", pieces,
            sleds_reader_plan(reader) == SLEDS_BEST ? "cheapest first" : "in file order");
    sleds_reader_close(reader);
    return close(fd) < 0 ? failed(to) : 0;
}
