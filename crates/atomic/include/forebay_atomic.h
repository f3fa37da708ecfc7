/*
 * Atomic updates of files on a mounted Forebay filesystem. Many ranges of one or several files change together; after a
 * crash either all of them have changed or none.
 *
 * An atomic update is not durable by itself: a later fsync() of any of the files makes the update durable.
 * docs/atomic.md has the guarantees.
 *
 * This header needs no library. The functions return 0, or -1 with errno set.
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

/* Limits of an atomic update, in all files together. */
struct forebay_features {
	uint32_t version;    /* version of this interface: 1 */
	uint32_t pieces_max; /* non-adjacent extents, including metadata that changes with them */
	uint64_t bytes_max;  /* bytes of data, including metadata that changes with it */
};

/* A range of a file, in the argument of FOREBAY_IOC_CHANGE. */
struct forebay_part {
	uint64_t offset;
	uint64_t len;
	uint32_t kind;
	uint32_t reserved; /* 0 */
};

enum {
	FOREBAY_WRITE = 0, /* writes data; extends the file if it ends before the end of the data */
	FOREBAY_PUNCH = 1, /* makes a hole, which reads as zeroes and takes no space; keeps the file's size */
};

/* The head of the argument of FOREBAY_IOC_CHANGE. `count` ranges follow, then the data of all FOREBAY_WRITE ranges,
 * without gaps. */
struct forebay_change {
	uint64_t id; /* id of the transaction; 0 applies the change at once */
	uint32_t count;
	uint32_t reserved; /* 0 */
};

/* Maximum length of an argument in bytes: the number of an ioctl encodes the length in 14 bits, and the kernel passes
 * on no more bytes. */
#define FOREBAY_ARGUMENT_MAX 16383

#define FOREBAY_IOC_FEATURES _IOR(0xFB, 0, struct forebay_features)
/* Begins a transaction, and returns its id. The transaction ends at the latest when this open file is closed. */
#define FOREBAY_IOC_BEGIN _IOR(0xFB, 1, uint64_t)
/* Adds this open file to the transaction with this id: its later writes become part of the transaction. */
#define FOREBAY_IOC_JOIN _IOW(0xFB, 2, uint64_t)
/* Changes ranges of this file. `len` is the length of the argument in bytes. */
#define FOREBAY_IOC_CHANGE(len) _IOC(_IOC_WRITE, 0xFB, 3, len)
/* Commits the transaction that this open file began. */
#define FOREBAY_IOC_COMMIT _IO(0xFB, 4)
/* Aborts the transaction that this open file began. */
#define FOREBAY_IOC_ABORT _IO(0xFB, 5)
/* Exchanges data with the file whose open file began the transaction with this id. The exchange ends the
 * transaction. */
#define FOREBAY_IOC_EXCHANGE _IOW(0xFB, 6, uint64_t)

/* A change of a range of a file. */
struct forebay_update {
	uint32_t kind; /* FOREBAY_WRITE or FOREBAY_PUNCH */
	uint64_t offset;
	uint64_t len;
	const void *data; /* `len` bytes with FOREBAY_WRITE; otherwise unused */
};

/* Returns the limits of atomic updates on the filesystem of a file. ENOTTY: the file is not on a mounted Forebay
 * filesystem. */
static inline int forebay_features(int fd, struct forebay_features *features)
{
	return ioctl(fd, FOREBAY_IOC_FEATURES, features);
}

/* Passes as many updates as one argument holds to the filesystem; the argument may end inside the data of an update.
 * `done` counts the complete updates, and `part` the bytes of the next update. The function advances both. */
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

/* Begins a transaction, owned by an open file or directory that has not begun another transaction. With the id, other
 * open files of the same user can take part. EBUSY: the open file has begun another transaction. ENOMEM: too many
 * transactions are open. */
static inline int forebay_begin(int fd, uint64_t *id)
{
	return ioctl(fd, FOREBAY_IOC_BEGIN, id);
}

/* Adds changes of ranges of a file, which must be open for writing, to a transaction. The changes are invisible until
 * the commit. E2BIG: the transaction has too many bytes, extents or files. */
static inline int forebay_change_in(int fd, uint64_t id, const struct forebay_update *updates, size_t count)
{
	size_t done = 0;
	uint64_t part = 0;

	while (done < count)
		if (forebay_change_some(fd, id, updates, count, &done, &part) < 0)
			return -1;
	return 0;
}

/* Adds an open file to a transaction: its later writes take effect with the commit. */
static inline int forebay_join(int fd, uint64_t id)
{
	return ioctl(fd, FOREBAY_IOC_JOIN, &id);
}

/* Commits the transaction that the open file began. */
static inline int forebay_commit(int fd)
{
	return ioctl(fd, FOREBAY_IOC_COMMIT);
}

/* Aborts the transaction that the open file began: all its changes are dropped. */
static inline int forebay_abort(int fd)
{
	return ioctl(fd, FOREBAY_IOC_ABORT);
}

/* Changes ranges of a file, which must be open for writing, atomically. */
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

/* Exchanges the contents of two files atomically: data and size. Both must be open for reading and writing. */
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
