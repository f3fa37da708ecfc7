/* Forebay's ioctls, with arguments that are right, and with others. */
#include "caller.h"
#include "forebay_atomic.h"

/* Changes a few places, at once or for a transaction, whose id may be another thread's. */
static void change(int file, uint64_t id) {
    char argument[4096];
    struct forebay_change head = {id, 1 + below(8), 0};
    size_t length = sizeof head + head.count * sizeof(struct forebay_part);
    for (unsigned i = 0; i < head.count; i++) {
        struct forebay_part part = {some_offset(), 1 + below(300), one_in(4) ? FOREBAY_PUNCH : FOREBAY_WRITE, 0};
        memcpy(argument + sizeof head + i * sizeof part, &part, sizeof part);
        if (part.kind != FOREBAY_WRITE) continue;
        memset(argument + length, 'c', part.len);
        length += part.len;
    }
    memcpy(argument, &head, sizeof head);
    if (one_in(10)) argument[below(length)] ^= 1 << below(8);
    if (one_in(10)) length = below(sizeof argument);
    ioctl(file, FOREBAY_IOC_CHANGE(length), argument);
}

static uint64_t some_id(void) {
    if (one_in(10)) return random_number();
    return one_in(4) ? me->transaction + below(8) - 4 : me->transaction;
}

void act_change(void) {
    int file = some_file();
    change(file, one_in(3) ? some_id() : 0);
    if (one_in(8)) fdatasync(file);
    release(file);
}

void act_garbage(void) {
    int file = some_file();
    unsigned type = PICK_INT(0xFB, 0xFB, 0xf5, 0x95, 'f', 'v', 'X', 0);
    size_t length = one_in(2) ? below(64) : below(16384);
    char *memory = one_in(10) ? (char *)random_number() : some_memory();
    ioctl(file, _IOC(below(4), type, below(one_in(2) ? 16 : 256), length), memory);
    release(file);
}

void act_features(void) {
    struct forebay_features features;
    int file = some_file();
    ioctl(file, FOREBAY_IOC_FEATURES, &features);
    release(file);
}

/* A whole transaction, or one that is left as it is when its file is closed. */
void act_transaction(void) {
    int owner = some_file(), file = some_file();
    uint64_t id;
    if (ioctl(owner, FOREBAY_IOC_BEGIN, &id) == 0) {
        me->transaction = id;
        if (one_in(2)) ioctl(file, FOREBAY_IOC_JOIN, &id);
        for (int i = below(5); i > 0; i--) {
            if (one_in(2))
                change(file, id);
            else
                pwrite(file, some_memory(), some_length(), some_offset());
        }
        if (one_in(6)) act_read();
        if (!one_in(6)) ioctl(owner, one_in(3) ? FOREBAY_IOC_ABORT : FOREBAY_IOC_COMMIT, 0);
    }
    release(owner);
    if (file != owner) release(file);
}

void act_join(void) {
    int file = some_file();
    uint64_t id = some_id();
    ioctl(file, FOREBAY_IOC_JOIN, &id);
    write(file, some_memory(), some_length());
    release(file);
}

void act_commit(void) {
    int file = some_file();
    ioctl(file, one_in(2) ? FOREBAY_IOC_COMMIT : FOREBAY_IOC_ABORT, 0);
    release(file);
}

void act_exchange(void) {
    int one = some_file(), other = some_file();
    uint64_t id = some_id();
    if (one_in(3) || ioctl(one, FOREBAY_IOC_BEGIN, &id) == 0) ioctl(other, FOREBAY_IOC_EXCHANGE, &id);
    release(one);
    if (one != other) release(other);
}

/* F2FS's ioctls: start, commit, the refused volatile writes, and abort. */
void act_f2fs(void) {
    int file = some_file();
    uint32_t features;
    if (one_in(4)) ioctl(file, _IOR(0xf5, 12, uint32_t), &features);
    ioctl(file, _IO(0xf5, 1));
    for (int i = below(4); i > 0; i--) pwrite(file, some_memory(), some_length(), some_offset());
    if (!one_in(4)) ioctl(file, _IO(0xf5, PICK_INT(2, 2, 2, 5, 3, 4)));
    release(file);
}
