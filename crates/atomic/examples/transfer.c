/* Moves money between accounts in one file and notes it in another, both or neither: transfer DIRECTORY. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "forebay_atomic.h"

#define PAGE 4096

static void must(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	struct forebay_features features;
	char page[2][PAGE] = {"90", "110"}, note[200000];
	uint64_t id;
	int accounts, journal, spare;

	must(argc == 2 ? chdir(argv[1]) : -1, "transfer DIRECTORY");
	accounts = open("accounts", O_RDWR | O_CREAT, 0600);
	journal = open("journal", O_RDWR | O_CREAT, 0600);
	spare = open("spare", O_RDWR | O_CREAT, 0600);
	must(accounts < 0 || journal < 0 || spare < 0 ? -1 : 0, "open");
	must(forebay_features(accounts, &features), "not on a Forebay filesystem");
	printf("%llu bytes in %u pieces at once\n", (unsigned long long)features.bytes_max, features.pieces_max);

	/* Places of one file. */
	struct forebay_update first[] = {
		{FOREBAY_WRITE, 0, 4, "100"},
		{FOREBAY_WRITE, 16 * PAGE, 4, "100"},
		{FOREBAY_PUNCH, PAGE, 15 * PAGE, NULL},
	};
	must(forebay_change(accounts, first, 3), "change");

	/* Two files, and more than one ioctl carries. */
	memset(note, 'n', sizeof note);
	struct forebay_update second[] = {{FOREBAY_WRITE, 0, PAGE, page[0]}, {FOREBAY_WRITE, 16 * PAGE, PAGE, page[1]}};
	struct forebay_update third = {FOREBAY_WRITE, 0, sizeof note, note};
	must(forebay_begin(accounts, &id), "begin");
	must(forebay_change_in(accounts, id, second, 2), "change");
	must(forebay_change_in(journal, id, &third, 1), "change");
	must(forebay_commit(accounts), "commit");

	/* What one has, for what the other has. */
	must(forebay_exchange(journal, spare), "exchange");
	must(fsync(accounts), "fsync");
	return 0;
}
