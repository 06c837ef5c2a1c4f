// SPDX-License-Identifier: Apache-2.0
// record --from-snapshot: the history in a memory snapshot as a tape. From two snapshots at two
// batches each size becomes c + k·B, where both tell the same story.
#include "base/os.h"
#include "base/out.h"
#include "predict/snapshot/snapshot.h"
#include "verbs/record/record.h"

#include <stdio.h>

enum { SNAPSHOTS = 2 };

static int batches_of(struct arena *a, const struct record_snapshots *o, int files,
                      int64_t **ret_batches, struct fail *why) {
    struct str rest = str_of(o->batches);
    int64_t *batches = arena_new(a, int64_t, SNAPSHOTS);
    int count = 0;
    while (rest.len > 0) {
        int64_t n;
        struct str word = str_cut(&rest, ',');
        if (count == files || !str_to_i64(word, &n) || n < 1 || n > 1 << 24)
            return fail_set(why, FAIL_USAGE, "--batches: give one batch per --from-snapshot");
        batches[count++] = n;
    }
    if (count == 0 && files == 1) batches[count++] = 1;
    if (count < files || (files == 2 && batches[0] == batches[1])) {
        fail_set(why, FAIL_USAGE, "two snapshots need their two batches");
        return fail_hint(why, "--from-snapshot a.pickle --from-snapshot b.pickle --batches 8,16");
    }
    *ret_batches = batches;
    return 0;
}

// The first GPU that has a history, whole.
static int tape_of(struct arena *a, struct str file, struct tape *ret, struct fail *why) {
    struct snapshot *s = arena_new(a, struct snapshot, 1);
    struct snapshot_history *h = arena_new(a, struct snapshot_history, 1);
    int64_t fixed_bytes;
    struct snapshot_tape_options whole = {.whole = true};
    int rc = snapshot_read(a, str_z(a, file), s, why), gpu = 0;
    if (rc < 0) return rc;
    while (gpu + 1 < s->trace_count && s->traces[gpu].count == 0) gpu++;
    snapshot_look(a, s, gpu, h);
    rc = snapshot_tape(a, h, &whole, ret, &fixed_bytes, why);
    if (rc == 0 && s->trace_count > gpu + 1)
        out_say(stderr, "batchfit: %.*s: several GPUs; the tape is of GPU %d\n", STR_ARG(file),
                gpu);
    if (rc == 0 && h->before_count > 0)
        out_say(stderr,
                "batchfit: %.*s: %lld allocations existed before the history begins; the tape "
                "begins with them\n",
                STR_ARG(file), (long long)h->before_count);
    if (rc == 0 && h->is_oom)
        out_say(stderr,
                "batchfit: %.*s: the history ends with an out-of-memory, and so does the tape\n",
                STR_ARG(file));
    return rc;
}

static int differ(const struct tape *a, const struct tape *b, int32_t at, struct fail *why) {
    fail_set(why, FAIL_INPUT,
             "%.*s and %.*s are not of the same program: they differ from event %d of the tape on",
             STR_ARG(a->name), STR_ARG(b->name), at);
    return fail_hint(why,
                     "record both from the program's start, with the same number of steps, "
                     "differing only in the batch; or use one snapshot, for a tape of that batch");
}

static int join(struct tape *t, const struct tape *other, const int64_t *batches,
                struct fail *why) {
    int64_t run = batches[1] - batches[0];
    if (t->event_count != other->event_count) {
        int32_t shorter = t->event_count < other->event_count ? t->event_count : other->event_count;
        return differ(t, other, shorter, why);
    }
    for (int32_t i = 0; i < t->event_count; i++) {
        const struct tape_event *x = &t->events[i], *y = &other->events[i];
        if (x->kind != y->kind || x->phase != y->phase || x->index != y->index)
            return differ(t, other, i, why);
        if (x->kind != TAPE_ALLOC) continue;
        struct tape_alloc *m = &t->allocs[x->index];
        int64_t rise = other->allocs[x->index].c - m->c;
        if (rise % run || m->stream != other->allocs[x->index].stream)
            return differ(t, other, i, why);
        m->k = rise / run;
        m->c -= m->k * batches[0];
        if (m->c + m->k < 0) return differ(t, other, i, why);
    }
    return 0;
}

static struct str header_name(struct arena *a, const struct record_snapshots *o, struct str file) {
    if (o->name) return str_of(o->name);
    return str_format(a, "snapshot:%.*s", STR_ARG(str_last(file, '/')));
}

int record_from_snapshot(struct arena *a, const struct record_snapshots *o, const char *output,
                         struct fail *why) {
    struct str rest = str_of(o->files), files[SNAPSHOTS];
    struct tape tapes[SNAPSHOTS];
    int64_t *batches = NULL;
    int count = 0, rc = 0;
    while (rest.len > 0) {
        if (count == SNAPSHOTS)
            return fail_set(why, FAIL_USAGE, "--from-snapshot: give one, or two at two batches");
        files[count++] = str_cut(&rest, '\n');
    }
    rc = batches_of(a, o, count, &batches, why);
    for (int i = 0; i < count && rc == 0; i++) rc = tape_of(a, files[i], &tapes[i], why);
    if (rc == 0 && count == 2) rc = join(&tapes[0], &tapes[1], batches, why);
    if (rc < 0) return rc;
    struct tape *t = &tapes[0];
    t->header.model = header_name(a, o, files[0]);
    t->header.mode = STR("train");
    t->header.recorder = STR("snapshot");
    t->header.batches = batches;
    t->header.batch_count = count;
    struct buf text = buf_new(a);
    tape_write(t, &text);
    if (str_is(str_of(output), "-")) {
        out_data(stdout, buf_str(&text));
        return 0;
    }
    return os_replace(a, output, buf_str(&text), NULL, why);
}
