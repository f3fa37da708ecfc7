/* Rows of the writers in C. Commit N stores row N, and stores row N / 2 again in the same transaction, so a check tells a
 * transaction that was kept in part. A row holds the number of the commit that stored it last, and filler. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_SIZE 4096

/* Fills in row `number` as commit `commit` stores it. Returns its length. */
static size_t make_row(char *row, long number, long commit) {
    size_t length = 32 + number * 7919 % 4000;
    memset(row, 'a' + number % 26, length);
    snprintf(row, 32, "%ld %ld", number, commit);
    return length;
}

/* Returns the commit that stored row `number` last, if `last` is the last commit. */
static long stored_by(long number, long last) {
    if (2 * number + 1 <= last) return 2 * number + 1;
    return 2 * number <= last ? 2 * number : number;
}

/* Ends the program unless a row found is the one that commits up to `last` left. */
static void expect_row(const void *found, size_t length, long number, long last) {
    char row[ROW_SIZE];
    size_t expected = make_row(row, number, stored_by(number, last));
    if (length == expected && memcmp(found, row, length) == 0) return;
    fprintf(stderr, "row %ld of %ld has %zu bytes: %.32s\n", number, last, length, length < 32 ? "" : (const char *)found);
    exit(1);
}

/* Tells the test about a commit, or about the last commit found. */
static void print_row(long number) {
    printf("row %ld\n", number);
    fflush(stdout);
}
