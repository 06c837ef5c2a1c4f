// SPDX-License-Identifier: Apache-2.0
// One of the writers of tests/store/run: stores runs, and says the number of each that was reported
// as stored.
//
// writer PLACE WRITER COUNT PAUSE_MS
#include "records/store/store.h"

#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    ARENA_AUTO a = {0};
    struct store *s;
    struct fail why = {0};
    int64_t writer, count, pause_ms;
    if (argc != 5 || !str_to_i64(str_of(argv[2]), &writer) ||
        !str_to_i64(str_of(argv[3]), &count) || !str_to_i64(str_of(argv[4]), &pause_ms)) {
        return 2;
    }
    if (store_open(&a, str_of(argv[1]), &s, &why) < 0) {
        fprintf(stderr, "writer %lld: %s\n", (long long)writer, why.message);
        return 4;
    }
    for (int64_t i = 1; i <= count; i++) {
        struct store_run run = store_run_unknown();
        run.kind = STR("trial");
        run.at_ms = i;
        run.workers = writer;
        run.plan.batch = i;
        if (store_add(s, &run, NULL, &why) < 0) {
            fprintf(stderr, "writer %lld: %s\n", (long long)writer, why.message);
            return 4;
        }
        printf("%lld\n", (long long)i);
        fflush(stdout);
        usleep((useconds_t)(pause_ms * 1000));
    }
    store_close(s);
    return 0;
}
