/*
 * Atomic updates of files on a mounted Forebay filesystem: many ranges of one file or of several are changed together,
 * or, at a crash, not at all. That something is done at once does not make it durable: fsync() of any of the files does,
 * afterwards. What is promised is in docs/atomic.md.
 *
 * There is nothing to link. Functions return 0, or -1 with errno set.
 */
#ifndef FOREBAY_ATOMIC_H
#define FOREBAY_ATOMIC_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What can be done at once, in all files together. */
struct forebay_features {
	uint32_t version;    /* of this interface: 1 */
	uint32_t pieces_max; /* pieces that are not neighbours; whatever else changes with them counts, too */
	uint64_t bytes_max;  /* bytes of data; the same */
};

/* A part of a file, in the argument of FOREBAY_IOC_CHANGE. */
struct forebay_part {
	uint64_t offset;
	uint64_t len;
	uint32_t kind;
	uint32_t reserved; /* 0 */
};

enum {
	FOREBAY_WRITE = 0, /* data is there; the file ends no sooner than it */
	FOREBAY_PUNCH = 1, /* zeroes are there that take no room; the size stays */
};

/* That argument: this, `count` parts, and then the data of all that have some, without gaps. */
struct forebay_change {
	uint64_t id; /* of the transaction, or 0: at once */
	uint32_t count;
	uint32_t reserved; /* 0 */
};

/* The most bytes of an argument: what the number of an ioctl can say. */
#define FOREBAY_ARGUMENT_MAX 16383

#define FOREBAY_IOC_FEATURES _IOR(0xFB, 0, struct forebay_features)
/* Begins a transaction, and gives its id. It ends when this descriptor's open file is closed, at the latest. */
#define FOREBAY_IOC_BEGIN _IOR(0xFB, 1, uint64_t)
/* What is written to this open file from now on is done with the transaction of this id. */
#define FOREBAY_IOC_JOIN _IOW(0xFB, 2, uint64_t)
/* Changes parts of this file, with an argument of so many bytes. */
#define FOREBAY_IOC_CHANGE(len) _IOC(_IOC_WRITE, 0xFB, 3, len)
/* Does the transaction that this open file began, or forgets it. */
#define FOREBAY_IOC_COMMIT _IO(0xFB, 4)
#define FOREBAY_IOC_ABORT _IO(0xFB, 5)
/* Exchanges data with the file whose open file began the transaction of this id, which ends by that. */
#define FOREBAY_IOC_EXCHANGE _IOW(0xFB, 6, uint64_t)

/* What is to become of a part of a file. */
struct forebay_update {
	uint32_t kind;
	uint64_t offset;
	uint64_t len;
	const void *data; /* of FOREBAY_WRITE */
};

static inline int forebay_features(int fd, struct forebay_features *features)
{
	return ioctl(fd, FOREBAY_IOC_FEATURES, features);
}

/* Gives as many updates as one argument takes; the first may be taken in part. How much was taken is added to `done`
 * (whole updates) and `part` (bytes of the next). */
static inline int forebay_change_some(int fd, uint64_t id, const struct forebay_update *updates, size_t count,
				      size_t *done, uint64_t *part)
{
	struct forebay_change head = {id, 0, 0};
	size_t n = *done, len = sizeof head;
	uint64_t skip = *part;
	char *argument, *data;
	int result;

	while (n < count && len + sizeof(struct forebay_part) < FOREBAY_ARGUMENT_MAX) {
		size_t room = FOREBAY_ARGUMENT_MAX - len - sizeof(struct forebay_part);
		uint64_t left = updates[n].kind == FOREBAY_WRITE ? updates[n].len - skip : 0;

		head.count++;
		len += sizeof(struct forebay_part) + (left < room ? left : room);
		if (left > room)
			break;
		n++;
		skip = 0;
	}
	argument = (char *)calloc(1, len);
	if (!argument)
		return -1;
	memcpy(argument, &head, sizeof head);
	data = argument + sizeof head + head.count * sizeof(struct forebay_part);
	for (size_t at = 0; at < head.count; at++) {
		const struct forebay_update *update = &updates[*done];
		struct forebay_part one = {update->offset + *part, update->len - *part, update->kind, 0};
		size_t room = (size_t)(argument + len - data);

		if (update->kind == FOREBAY_WRITE) {
			int whole = one.len <= room;

			one.len = whole ? one.len : room;
			memcpy(data, (const char *)update->data + *part, one.len);
			data += one.len;
			*part = whole ? 0 : *part + one.len;
			*done += whole;
		} else {
			(*done)++;
		}
		memcpy(argument + sizeof head + at * sizeof one, &one, sizeof one);
	}
	result = ioctl(fd, FOREBAY_IOC_CHANGE(len), argument);
	free(argument);
	return result < 0 ? -1 : 0;
}

/* Begins a transaction by an open file or directory. Another of the same user may take part by its id. */
static inline int forebay_begin(int fd, uint64_t *id)
{
	return ioctl(fd, FOREBAY_IOC_BEGIN, id);
}

/* Parts of a file are changed when the transaction is done. Nobody sees it before. E2BIG: more than can be done at once. */
static inline int forebay_change_in(int fd, uint64_t id, const struct forebay_update *updates, size_t count)
{
	size_t done = 0;
	uint64_t part = 0;

	while (done < count)
		if (forebay_change_some(fd, id, updates, count, &done, &part) < 0)
			return -1;
	return 0;
}

/* What is written to the open file is done when the transaction is. */
static inline int forebay_join(int fd, uint64_t id)
{
	return ioctl(fd, FOREBAY_IOC_JOIN, &id);
}

/* Does all of the transaction that the open file began. */
static inline int forebay_commit(int fd)
{
	return ioctl(fd, FOREBAY_IOC_COMMIT);
}

/* Forgets it. */
static inline int forebay_abort(int fd)
{
	return ioctl(fd, FOREBAY_IOC_ABORT);
}

/* Changes parts of a file, which is open for writing, all at once. */
static inline int forebay_change(int fd, const struct forebay_update *updates, size_t count)
{
	uint64_t id;

	if (forebay_begin(fd, &id) < 0)
		return -1;
	if (forebay_change_in(fd, id, updates, count) < 0) {
		int error = errno;

		forebay_abort(fd);
		errno = error;
		return -1;
	}
	return forebay_commit(fd);
}

/* Exchanges what two files have in them: data and size. Both are open for reading and writing. */
static inline int forebay_exchange(int one, int other)
{
	uint64_t id;

	if (forebay_begin(one, &id) < 0)
		return -1;
	if (ioctl(other, FOREBAY_IOC_EXCHANGE, &id) < 0) {
		int error = errno;

		forebay_abort(one);
		errno = error;
		return -1;
	}
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif
