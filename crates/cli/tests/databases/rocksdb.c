/* Commits rows to RocksDB until it is killed, or checks them: DIRECTORY write|direct|check. */
#include <rocksdb/c.h>

#include "rows.h"

static void require(char *error, const char *what) {
    if (error == NULL) return;
    fprintf(stderr, "%s: %s\n", what, error);
    exit(1);
}

/* Small buffers and files, for flushes and compactions to happen all the time. */
static rocksdb_t *open_rows(const char *path, int direct) {
    rocksdb_options_t *options = rocksdb_options_create();
    char *error = NULL;
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_use_fsync(options, 1);
    rocksdb_options_set_write_buffer_size(options, 64 << 10);
    rocksdb_options_set_target_file_size_base(options, 128 << 10);
    rocksdb_options_set_level0_file_num_compaction_trigger(options, 2);
    rocksdb_options_set_use_direct_reads(options, direct);
    rocksdb_options_set_use_direct_io_for_flush_and_compaction(options, direct);
    rocksdb_t *rows = rocksdb_open(options, path, &error);
    require(error, "open");
    return rows;
}

/* Keys sort by number. */
static void make_key(char key[24], long number) { snprintf(key, 24, "%020ld", number); }

static rocksdb_iterator_t *iterate(rocksdb_t *rows) {
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_verify_checksums(options, 1);
    return rocksdb_create_iterator(rows, options);
}

static long key_of(rocksdb_iterator_t *at) {
    size_t length;
    char key[24] = "";
    const char *found = rocksdb_iter_key(at, &length);
    memcpy(key, found, length < 23 ? length : 23);
    return atol(key);
}

static long last_row(rocksdb_t *rows) {
    rocksdb_iterator_t *at = iterate(rows);
    rocksdb_iter_seek_to_last(at);
    long last = rocksdb_iter_valid(at) ? key_of(at) : 0;
    rocksdb_iter_destroy(at);
    return last;
}

static void check(rocksdb_t *rows, long last) {
    rocksdb_iterator_t *at = iterate(rows);
    char *error = NULL;
    size_t length;
    rocksdb_iter_seek_to_first(at);
    for (long number = 1; number <= last; number++, rocksdb_iter_next(at)) {
        rocksdb_iter_get_error(at, &error);
        require(error, "read");
        require(rocksdb_iter_valid(at) && key_of(at) == number ? NULL : "missing", "row");
        const char *value = rocksdb_iter_value(at, &length);
        expect_row(value, length, number, last);
    }
    rocksdb_iter_destroy(at);
    print_row(last);
}

static void put(rocksdb_writebatch_t *batch, long number, long commit) {
    char key[24], row[ROW_SIZE];
    make_key(key, number);
    rocksdb_writebatch_put(batch, key, strlen(key), row, make_row(row, number, commit));
}

int main(int count, char **arguments) {
    const char *task = count == 3 ? arguments[2] : "";
    char *error = NULL;
    rocksdb_t *rows = open_rows(arguments[1], strcmp(task, "direct") == 0);
    rocksdb_writeoptions_t *options = rocksdb_writeoptions_create();
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    long last = last_row(rows);
    if (strcmp(task, "check") == 0) {
        check(rows, last);
        rocksdb_close(rows);
        return 0;
    }
    rocksdb_writeoptions_set_sync(options, 1);
    for (long next = last + 1;; next++) {
        rocksdb_writebatch_clear(batch);
        put(batch, next, next);
        if (next / 2 > 0) put(batch, next / 2, next);
        rocksdb_write(rows, options, batch, &error);
        require(error, "write");
        print_row(next);
    }
}
