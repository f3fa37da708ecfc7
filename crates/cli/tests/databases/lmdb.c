/* Commits rows to LMDB until it is killed, or checks them: DIRECTORY write|writemap|check. */
#include <fcntl.h>
#include <lmdb.h>

#include "rows.h"

static void require(int error, const char *what) {
    if (error == MDB_SUCCESS) return;
    fprintf(stderr, "%s: %s\n", what, mdb_strerror(error));
    exit(1);
}

/* Returns the number of rows, and opens the table. */
static long count_rows(MDB_txn *transaction, MDB_dbi *table) {
    MDB_stat known;
    require(mdb_dbi_open(transaction, NULL, MDB_INTEGERKEY | MDB_CREATE, table), "open table");
    require(mdb_stat(transaction, *table, &known), "count");
    return (long)known.ms_entries;
}

static void put(MDB_txn *transaction, MDB_dbi table, size_t number, long commit) {
    char row[ROW_SIZE];
    MDB_val key = {sizeof number, &number}, value = {make_row(row, number, commit), row};
    require(mdb_put(transaction, table, &key, &value, 0), "put");
}

static void check(MDB_env *env, MDB_txn *transaction, MDB_dbi table, long last) {
    MDB_cursor *cursor;
    MDB_val key, value;
    require(mdb_cursor_open(transaction, table, &cursor), "cursor");
    for (long number = 1; number <= last; number++) {
        require(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), "next row");
        if (*(size_t *)key.mv_data != (size_t)number) require(MDB_NOTFOUND, "number");
        expect_row(value.mv_data, value.mv_size, number, last);
    }
    /* A compact copy reads all pages, and finds leaked ones. */
    require(mdb_env_copyfd2(env, open("/dev/null", O_WRONLY), MDB_CP_COMPACT), "copy");
    print_row(last);
}

int main(int count, char **arguments) {
    const char *task = count == 3 ? arguments[2] : "";
    unsigned flags = strcmp(task, "writemap") == 0 ? MDB_WRITEMAP : 0;
    MDB_env *env;
    MDB_txn *transaction;
    MDB_dbi table;
    int stale;
    require(mdb_env_create(&env), "create");
    require(mdb_env_set_mapsize(env, 256 << 20), "size");
    require(mdb_env_open(env, arguments[1], flags, 0600), "open");
    require(mdb_reader_check(env, &stale), "readers");
    require(mdb_txn_begin(env, NULL, 0, &transaction), "begin");
    long last = count_rows(transaction, &table);
    if (strcmp(task, "check") == 0) {
        check(env, transaction, table, last);
        return 0;
    }
    require(mdb_txn_commit(transaction), "commit");
    for (long next = last + 1;; next++) {
        require(mdb_txn_begin(env, NULL, 0, &transaction), "begin");
        put(transaction, table, next, next);
        if (next / 2 > 0) put(transaction, table, next / 2, next);
        require(mdb_txn_commit(transaction), "commit");
        print_row(next);
    }
}
