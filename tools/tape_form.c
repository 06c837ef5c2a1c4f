// SPDX-License-Identifier: Apache-2.0
// A tape on stdin, in any form, packed on stdout (doc/formats/tape.md, "Packed"); with --text as
// text. tools/tapes.py makes the shipped bundles with it.
#include "base/str.h"
#include "predict/tape/tape.h"

#include <stdio.h>
#include <string.h>

static struct str read_all(struct arena *a) {
    struct buf in = buf_new(a);
    static char piece[1 << 16];
    for (size_t n; (n = fread(piece, 1, sizeof piece, stdin)) > 0;)
        buf_add(&in, (struct str){piece, (ptrdiff_t)n});
    return buf_str(&in);
}

int main(int argc, char **argv) {
    ARENA_AUTO a = {0};
    struct tape t;
    struct fail why = {0};
    struct buf out = buf_new(&a);
    if (tape_read(&a, STR("stdin"), read_all(&a), &t, &why) < 0) {
        fprintf(stderr, "tape_form: %s\n", why.message);
        return 3;
    }
    if (argc > 1 && strcmp(argv[1], "--text") == 0)
        tape_write(&t, &out);
    else if (!tape_pack(&t, &out))
        tape_write(&t, &out); // as text it is read, too
    return fwrite(out.items, 1, (size_t)out.count, stdout) != (size_t)out.count || fflush(stdout);
}
