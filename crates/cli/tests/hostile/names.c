/* Acts on names, attributes and owners. */
#include <dirent.h>
#include <sys/sysmacros.h>

#include "caller.h"

void act_names(void) {
    char name[64], other[64], target[PATH_MAX];
    some_name(name);
    some_name(other);
    switch (below(8)) {
    case 0: case 1: case 2: unlink(name); break;
    case 3: link(name, other); break;
    case 4: symlink(other, name); break;
    case 5: readlink(name, target, sizeof target); break;
    case 6: mknod(name, PICK_INT(S_IFREG, S_IFIFO, S_IFSOCK, S_IFCHR, 0) | 0644, makedev(1, 3)); break;
    default: memset(target, 'n', 300); target[300] = 0; open(target, O_CREAT | O_RDWR, 0600);
    }
}

void act_rename(void) {
    char name[64], other[64];
    int flags = one_in(2) ? 0 : (int)below(8);
    if (one_in(10)) {
        snprintf(name, sizeof name, "d%d", (int)below(DIRECTORIES));
        snprintf(other, sizeof other, "d%d/%s", (int)below(DIRECTORIES), one_in(2) ? "sub" : "f1");
        renameat2(AT_FDCWD, other, AT_FDCWD, name, flags);
        return;
    }
    some_name(name);
    some_name(other);
    int length = strcspn(name, "/");
    /* The kernel does renames across directories one by one: with many, all threads would wait for them. */
    if (!one_in(8)) snprintf(other, sizeof other, "%.*s/f%d", length, name, (int)below(16));
    renameat2(AT_FDCWD, name, AT_FDCWD, other, flags);
}

void act_directory(void) {
    char name[64];
    snprintf(name, sizeof name, "d%d%s", (int)below(DIRECTORIES), one_in(4) ? "" : one_in(2) ? "/sub" : "/sub/sub");
    switch (below(4)) {
    case 0: rmdir(name); break;
    case 1: case 2: mkdir(name, 0755); break;
    /* A file may have taken the directory's name, and an access list may have shut all out. */
    default: unlink(name); mkdir(name, 0755); chmod(name, 0755);
    }
    int file = open(name, O_RDONLY | O_DIRECTORY);
    if (file < 0) return;
    if (one_in(4)) fsync(file);
    release(file);
}

void act_list(void) {
    char name[64];
    snprintf(name, sizeof name, one_in(5) ? "." : "d%d", (int)below(DIRECTORIES));
    int file = open(name, O_RDONLY | O_DIRECTORY);
    if (file < 0) return;
    if (one_in(4)) lseek(file, one_in(2) ? (off_t)below(100) : (off_t)random_number(), SEEK_SET);
    for (int i = below(4); i >= 0; i--) syscall(SYS_getdents64, file, me->buffer, below(BUFFER));
    close(file);
}

void act_attributes(void) {
    char name[64], attribute[64];
    size_t length = one_in(10) ? below(70000) : below(300);
    const char *space = ((const char *[]){"user", "user", "user", "trusted", "security", "system", "x"})[below(7)];
    some_name(name);
    snprintf(attribute, sizeof attribute, "%s.a%d", space, (int)below(5));
    switch (below(4)) {
    case 0: setxattr(name, attribute, me->buffer, length, below(4)); break;
    case 1: getxattr(name, attribute, me->buffer, length); break;
    case 2: listxattr(name, me->buffer, length); break;
    default: removexattr(name, attribute);
    }
}

/* An access list of which some part may be wrong. */
void act_access_list(void) {
    struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entry[5];
    } list = {2, {{1, 7, ~0u}, {2, 7, 65534}, {4, 4, ~0u}, {16, 6, ~0u}, {32, 4, ~0u}}};
    char name[64];
    const char *of = one_in(3) ? "system.posix_acl_default" : "system.posix_acl_access";
    if (one_in(3)) ((char *)&list)[below(sizeof list)] ^= 1 << below(8);
    if (one_in(4))
        snprintf(name, sizeof name, "d%d", (int)below(DIRECTORIES));
    else
        some_name(name);
    switch (below(4)) {
    case 0: getxattr(name, of, me->buffer, BUFFER); break;
    case 1: removexattr(name, of); break;
    default: setxattr(name, of, &list, one_in(4) ? below(sizeof list) : sizeof list, 0);
    }
}

void act_owner(void) {
    char name[64];
    struct timespec times[2] = {{below(2) ? (time_t)below(1u << 31) : (time_t)random_number(), below(999999999)}, {0, UTIME_NOW}};
    some_name(name);
    switch (below(4)) {
    case 0: chmod(name, 0600 | below(07777)); break;
    case 1: chown(name, one_in(2) ? 65534 : below(3), 65534); break;
    case 2: utimensat(AT_FDCWD, name, times, AT_SYMLINK_NOFOLLOW); break;
    default: umask(below(2) ? 022 : 0);
    }
}

/* A file without a name, which may get one. */
void act_temporary(void) {
    char from[64], name[64];
    int file = open(one_in(2) ? "d1" : "d2", O_TMPFILE | O_RDWR, 0600);
    if (file < 0) return;
    pwrite(file, me->buffer, some_length(), some_offset());
    snprintf(from, sizeof from, "/proc/self/fd/%d", file);
    if (one_in(2)) linkat(AT_FDCWD, from, AT_FDCWD, some_name(name), AT_SYMLINK_FOLLOW);
    release(file);
}
