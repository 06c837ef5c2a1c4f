// SPDX-License-Identifier: Apache-2.0
// doctor FILE.pickle: reads a memory snapshot, judges each of its GPUs, and says so as causes.
#include "verbs/doctor/doctor.h"

#include "base/os.h"
#include "base/unit.h"

bool doctor_is_snapshot(struct doctor *d, const char *path) {
    struct str name = str_of(path), head;
    if (str_ends(name, STR(".pickle")) || str_ends(name, STR(".pkl"))) return true;
    return os_read_head(d->arena, path, 2, &head, NULL) == 0 && snapshot_is_pickle(head);
}

static struct str bytes(const struct doctor *d, int64_t n) {
    return n < 0 ? STR("an unknown amount") : unit_bytes(d->arena, n);
}

static struct str of_gpu(struct doctor *d, const struct death *x) {
    if (d->snapshot->count < 2) return (struct str){0};
    return str_format(d->arena, "GPU %d: ", x->history->gpu);
}

static struct str figures(struct doctor *d, const struct death *x) {
    const struct snapshot_history *h = x->history;
    struct buf b = buf_new(d->arena);
    buf_add(&b, of_gpu(d, x));
    buf_format(&b, "%.*s requested", STR_ARG(bytes(d, h->asked)));
    if (h->device_free >= 0)
        buf_format(&b, ", %.*s free on the GPU", STR_ARG(bytes(d, h->device_free)));
    buf_format(&b, "; PyTorch held %.*s, %.*s of it in use", STR_ARG(bytes(d, h->reserved)),
               STR_ARG(bytes(d, h->allocated)));
    if (h->holes >= 0)
        buf_format(&b, ", %.*s free in pieces of at most %.*s", STR_ARG(bytes(d, h->holes)),
                   STR_ARG(bytes(d, h->largest_hole)));
    return buf_str(&b);
}

static struct str leak_evidence(struct doctor *d, const struct death *x) {
    struct str place = snapshot_place_text(d->arena, x->history->of, x->leak.stack);
    return str_format(d->arena,
                      "%.*s%.*s remain from earlier steps, %.*s were missing; %.*s of it allocated "
                      "at %.*s in %d steps, %.*s per step",
                      STR_ARG(of_gpu(d, x)), STR_ARG(bytes(d, x->leak_bytes)),
                      STR_ARG(bytes(d, x->missing)), STR_ARG(bytes(d, x->leak.bytes)),
                      STR_ARG(place.len ? place : STR("unknown places (no stack)")), x->leak.steps,
                      STR_ARG(bytes(d, x->leak.bytes / x->leak.steps)));
}

// Which settings of those that were replayed let it run.
static struct str settings_that_run(struct doctor *d, const struct death *x) {
    struct buf b = buf_new(d->arena);
    if (x->replay == DEATH_LATER) return (struct str){0};
    for (int i = 0; i < x->case_count; i++) {
        const struct death_case *c = &x->cases[i];
        if (!c->runs) continue;
        buf_format(&b, "%s%s", b.count ? ", or with " : "with ", c->conf);
        buf_add(&b, STR(" it would have fit"));
        if (c->needed >= 0 && c->spare >= 0)
            buf_format(&b, ", with %.*s to spare", STR_ARG(bytes(d, c->spare)));
        break;
    }
    return buf_str(&b);
}

// Settings put a leak off, they do not mend it.
static struct str put_off(struct doctor *d, const struct death *x) {
    for (int i = 0; i < x->case_count && x->replay != DEATH_LATER; i++) {
        const struct death_case *c = &x->cases[i];
        if (!c->runs || c->needed < 0 || x->leak_per_step <= 0) continue;
        return str_format(d->arena, "%s would have delayed it by about %lld steps (simulated); ",
                          c->conf, (long long)(c->spare / x->leak_per_step) + 1);
    }
    return (struct str){0};
}

static struct str batches_that_run(struct doctor *d, const struct death *x) {
    struct buf b = buf_new(d->arena);
    for (int i = 0; i < x->batch_count; i++) {
        const struct death_batch *y = &x->batches[i];
        buf_format(&b, "%s", b.count ? "; " : "");
        if (y->batch > 0)
            buf_format(&b, "a batch of %lld would have got past this point%s%s",
                       (long long)y->batch, y->conf[0] ? " with " : "", y->conf);
        else
            buf_format(&b, "no batch would have got past this point%s%s",
                       y->conf[0] ? " with " : "", y->conf);
    }
    return buf_str(&b);
}

static const struct verdict {
    const char *id, *what;
    const char *remedy;
    unsigned actions;
} verdicts[DEATH_VERDICTS] = {
    [DEATH_LIMIT] = {"memory.limit",
                     "the GPU had enough free memory, but the program was not allowed to use it",
                     "look for set_per_process_memory_fraction, per_process_memory_fraction in "
                     "PYTORCH_CUDA_ALLOC_CONF, or a limit set by the launcher",
                     0},
    [DEATH_LEAK] = {"memory.leak", "memory leak: it grows from step to step",
                    "at the line above, look for losses or outputs kept with their graph (use "
                    ".item() or .detach()) and for growing lists",
                    0},
    [DEATH_FRAGMENTED] = {"memory.fragmentation",
                          "the GPU's memory is fragmented: enough is reserved, but in pieces",
                          "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; the same shapes in "
                          "every step (drop_last, padding to buckets); a smaller batch",
                          CAUSE_SMALLER_BATCH},
    [DEATH_PEAK] = {"memory.oom", "the GPU's memory ran out",
                    "a smaller batch with more accumulation keeps the effective batch; mixed "
                    "precision; checkpointing; shorter sequences or smaller images; batchfit fit "
                    "finds the batch",
                    CAUSE_SMALLER_BATCH | CAUSE_MIXED_PRECISION},
};

static void add_cause(struct doctor *d, const struct death *x, enum death_verdict v) {
    struct arena *a = d->arena;
    const struct verdict *row = &verdicts[v];
    struct buf remedy = buf_new(a);
    struct str settings = settings_that_run(d, x), batches = batches_that_run(d, x);
    if (v == DEATH_LEAK) buf_add(&remedy, put_off(d, x));
    if (settings.len > 0 && !x->holds[DEATH_LEAK] && v != DEATH_LIMIT)
        buf_format(&remedy, "%.*s (simulated); ", STR_ARG(settings));
    if (batches.len > 0 && v != DEATH_LIMIT && v != DEATH_LEAK)
        buf_format(&remedy, "%.*s (simulated); ", STR_ARG(batches));
    buf_add(&remedy, str_of(row->remedy));
    *arena_push(a, &d->causes.items, &d->causes.count, &d->causes.capacity) =
        (struct cause){.id = row->id,
                       .what = row->what,
                       .strength = CAUSE_COUNTED,
                       .evidence = v == DEATH_LEAK ? leak_evidence(d, x) : figures(d, x),
                       .remedy = buf_str(&remedy),
                       .actions = row->actions};
}

static void note_history(struct doctor *d, const struct death *x) {
    const struct snapshot_history *h = x->history;
    struct str gpu = of_gpu(d, x);
    if (h->event_count == 0) {
        str_list_format(d->arena, &d->notes,
                        "%.*sthe file has no history, only the final state: call "
                        "torch.cuda.memory._record_memory_history() before the training",
                        STR_ARG(gpu));
        return;
    }
    if (h->before_count > 0)
        str_list_format(d->arena, &d->notes,
                        "%.*sthe history does not begin with the program: %lld allocations "
                        "of %.*s existed before it. Recording began late, or its ring "
                        "buffer (max_entries) has lost the beginning",
                        STR_ARG(gpu), (long long)h->before_count,
                        STR_ARG(bytes(d, h->before_bytes)));
    if (!h->has_stacks)
        str_list_format(d->arena, &d->notes,
                        "%.*sno stacks were recorded (context=None), so the owners of the "
                        "memory are unknown",
                        STR_ARG(gpu));
    if (h->ooms > 1)
        str_list_format(d->arena, &d->notes, "%.*smemory ran out %d times; this is the last",
                        STR_ARG(gpu), (int)h->ooms);
}

static const char *const replays[] = {
    [DEATH_SAME] = NULL,
    [DEATH_EARLIER] = "the simulator runs out before the program did: its results for other "
                      "settings are on the safe side",
    [DEATH_LATER] =
        "the replay does not run out in the simulator, since the file does not show how memory was "
        "divided before the history began; so other settings are not simulated",
    [DEATH_NOT_PLAYED] = NULL,
};

static void note_replay(struct doctor *d, const struct death *x) {
    if (replays[x->replay])
        str_list_format(d->arena, &d->notes, "%.*s%s", STR_ARG(of_gpu(d, x)), replays[x->replay]);
    if (x->conf_unread.len > 0)
        str_list_format(d->arena, &d->notes,
                        "the simulator does not support all of the file's settings (%.*s)",
                        STR_ARG(x->conf_unread));
    if (x->batch > 0 && x->fixed_bytes > 0)
        str_list_format(d->arena, &d->notes,
                        "%.*s of activations have sizes that %lld does not divide: they "
                        "count as constant for other batches",
                        STR_ARG(bytes(d, x->fixed_bytes)), (long long)x->batch);
    if (x->batch_count > 0)
        str_list_format(d->arena, &d->notes,
                        "a smaller batch is only known to get past this point: the file does not "
                        "show what the rest of the step would have needed");
}

static void judge(struct doctor *d, const struct snapshot *s, int gpu) {
    struct doctor_snapshot *all = d->snapshot;
    struct snapshot_history *h = arena_new(d->arena, struct snapshot_history, 1);
    snapshot_look(d->arena, s, gpu, h);
    death_judge(d->arena, h, d->options->q.batch, &all->gpus[all->count++]);
}

int doctor_read_snapshot(struct doctor *d, const char *path, struct fail *why) {
    struct doctor_snapshot *all = arena_new(d->arena, struct doctor_snapshot, 1);
    int rc = snapshot_read(d->arena, path, &all->file, why);
    if (rc < 0) return rc;
    d->snapshot = all;
    d->source = str_of(path);
    d->kind = STR("snapshot");
    all->gpus = arena_new(d->arena, struct death, SNAPSHOT_GPUS);
    int64_t events = 0;
    for (int gpu = 0; gpu < SNAPSHOT_GPUS; gpu++) {
        if (gpu < all->file.trace_count) events += all->file.traces[gpu].count;
        if (snapshot_has(&all->file, gpu)) judge(d, &all->file, gpu);
    }
    for (int v = 0; v < DEATH_VERDICTS; v++) {
        for (int i = 0; i < all->count; i++) {
            if (all->gpus[i].holds[v]) add_cause(d, &all->gpus[i], (enum death_verdict)v);
        }
    }
    for (int i = 0; i < all->count; i++) {
        note_history(d, &all->gpus[i]);
        note_replay(d, &all->gpus[i]);
    }
    d->read = str_format(d->arena, "%lld events, %d GPU%s", (long long)events, all->count,
                         all->count == 1 ? "" : "s");
    return 0;
}
