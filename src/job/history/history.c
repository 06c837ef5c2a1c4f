// SPDX-License-Identifier: Apache-2.0
#include "job/history/history.h"

#include "machine/device/device.h"

#include <string.h>
#include <time.h>

static int64_t now_ms(void) {
    return os_wall_ns() / 1000000;
}

struct str history_date(struct arena *a, int64_t at_ms) {
    char text[32];
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm utc;
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &utc);
    return str_copy(a, str_of(text));
}

static void note_once(struct history *h, bool *is_noted, const char *what, const struct fail *why) {
    if (*is_noted) return;
    *is_noted = true;
    str_list_format(h->arena, &h->notes, "%s: %s%s%s", what, why->message, why->hint[0] ? "; " : "",
                    why->hint);
}
static void not_stored(struct history *h, const struct fail *why) {
    note_once(h, &h->failed, "nothing was stored in the history", why);
}
static void not_read(struct history *h, const struct fail *why) {
    note_once(h, &h->unread, "the history could not be read", why);
}

void history_open(struct arena *a, const struct history_options *o, struct history *ret_history) {
    struct fail why = {0};
    *ret_history = (struct history){.arena = a, .fresh = o->fresh, .base = store_run_unknown()};
    ret_history->base.began_ms = now_ms();
    ret_history->base.version = STR(BATCHFIT_VERSION);
    ret_history->base.is_standin = 0;
    if (o->is_off) return;
    if (store_open(a, store_place(a, o->store), &ret_history->store, &why) < 0) {
        not_stored(ret_history, &why);
    }
}

void history_close(struct history *h) {
    if (!h->store) return;
    struct str note = store_note(h->store);
    if (note.len > 0) str_list_add(h->arena, &h->notes, note);
    store_close(h->store);
    h->store = NULL;
}

int history_run(struct arena *a, struct store *store, int64_t id, struct store_run *ret_run,
                struct fail *why) {
    const struct store_filter filter = {.id = id, .limit = 1};
    struct store_run *runs;
    ptrdiff_t count;
    int rc = store_find(store, a, &filter, &runs, &count, why);
    if (rc < 0) return rc;
    if (count > 0) {
        *ret_run = runs[0];
        return 0;
    }
    struct str note = store_note(store);
    fail_set(why, FAIL_INPUT, "run %lld is not in the history", (long long)id);
    if (note.len == 0) return fail_hint(why, "batchfit list runs lists them");
    return fail_hint(why, "%.*s", STR_ARG(note)); // it was damaged, and is a new one
}

// --- What identifies a row -----------------------------------------------------------------------

static struct str hash_text(struct arena *a, struct str text) {
    return str_format(a, "%016llx", (unsigned long long)str_hash(text));
}

void history_place(struct history *h, const struct launch *l, const char *machine) {
    const struct launch_place *place = &l->place;
    struct device_list devices = {0};
    bool is_card = place->kind == LAUNCH_CUDA;
    if (!h->store) return;
    h->base.device = is_card ? STR("cuda") : STR("cpu");
    h->base.gpu = place->name;
    h->base.capacity_bytes = place->capacity_bytes;
    h->base.is_standin = place->standin.len > 0 || machine;
    if (!is_card || device_list(h->arena, machine, &devices, NULL) < 0) return;
    h->base.driver = devices.driver_version;
    if (place->card >= devices.count) return;
    struct str uuid = devices.items[place->card].uuid;
    if (uuid.len > 0) h->base.gpu_hash = hash_text(h->arena, uuid);
}

// Batch and accumulation are what the trials find, and the config gets them afterwards: the text
// without them is the question.
static void add_config(struct arena *a, struct buf *id, const struct question *q) {
    static const enum config_role roles[] = {CONFIG_BATCH, CONFIG_ACCUMULATION};
    struct str rest = q->config.text;
    struct buf kept = buf_new(a);
    for (int line = 1; rest.len > 0; line++) {
        struct str text = str_line(&rest);
        for (int i = 0; i < 2; i++) {
            const struct config_value *v = &q->reading.values[roles[i]];
            if (v->line != line || v->column < 1 || v->text.len == 0) continue;
            struct str tail = str_slice(text, v->column - 1, text.len);
            if (!str_starts(tail, v->text)) continue;
            buf_add(&kept, str_slice(text, 0, v->column - 1));
            text = str_slice(tail, v->text.len, tail.len);
        }
        buf_add(&kept, text);
        buf_byte(&kept, '\n');
    }
    history_identity_line(id, "config", hash_text(a, buf_str(&kept)));
    history_identity_files(a, id, &q->config);
}

static void add_plan(struct buf *id, const struct plan *p) {
    buf_format(id, "plan %.*s %lld %lld %lld %lld %lld %d %.*s %.*s %d %d %d\n", STR_ARG(p->model),
               (long long)p->image_size, (long long)p->sequence_length, (long long)p->target_length,
               (long long)p->ranks, (long long)p->classes, (int)p->precision, STR_ARG(p->optimizer),
               STR_ARG(p->layout), p->checkpointing, p->ema, p->inference);
}

void history_question(struct history *h, const struct question *q, char *const *command,
                      const struct launch *l, const struct launch_options *o) {
    struct arena *a = h->arena;
    struct buf id = buf_new(a);
    if (!h->store) return;
    history_identity_launch(a, &id, command, l, o);
    history_identity_sources(a, &id, command);
    history_identity_line(&id, "driver", h->base.driver);
    history_identity_line(&id, "gpu", h->base.gpu_hash);
    history_identity_line(&id, "cards", str_of(o->cards));
    history_identity_line(&id, "machine", str_of(o->machine));
    if (q->has_config) add_config(a, &id, q);
    add_plan(&id, &q->plan);
    h->base.question = hash_text(a, buf_str(&id));
    history_command(h, command);
}

void history_command(struct history *h, char *const *command) {
    h->base.command_hash = hash_text(h->arena, trial_command_text(h->arena, command));
}

// --- Rows ----------------------------------------------------------------------------------------

struct store_run history_row(const struct history *h, const char *kind, const struct plan *p) {
    struct store_run run = h->base;
    run.kind = str_of(kind);
    run.plan = *p;
    return run;
}

// "2.6.0+cu124": the CUDA it was built for.
static void read_torch(struct arena *a, const struct steps *steps, struct store_run *run) {
    if (steps->rank_count == 0) return;
    run->torch = steps->ranks[0].framework_version;
    ptrdiff_t at = str_find(run->torch, STR("+cu"));
    struct str digits = at < 0 ? (struct str){0} : str_slice(run->torch, at + 3, run->torch.len);
    if (digits.len < 2) return;
    run->cuda = str_format(a, "%.*s.%c", (int)(digits.len - 1), digits.p, digits.p[digits.len - 1]);
}

static struct str numbers_text(struct arena *a, const double *values, ptrdiff_t count) {
    struct buf text = buf_new(a);
    for (ptrdiff_t i = 0; i < count; i++) buf_format(&text, "%s%.6g", i ? " " : "", values[i]);
    return buf_str(&text);
}

// The numbers of a result, with the columns that hold them.
static const struct {
    size_t in_result, in_run, size;
} figures[] = {
#define FIGURE(a, b)                                                      \
    {                                                                     \
        offsetof(struct launch_result, a), offsetof(struct store_run, b), \
            sizeof(((struct store_run *)NULL)->b)                         \
    }
    FIGURE(seen_batch, seen_batch),
    FIGURE(made, made),
    FIGURE(steps, steps),
    FIGURE(peak_bytes, peak_bytes),
    FIGURE(charged_bytes, charged_bytes),
    FIGURE(torch_allocated_bytes, allocated_bytes),
    FIGURE(torch_reserved_bytes, reserved_bytes),
    FIGURE(alloc_retries, alloc_retries),
    FIGURE(times, times),
    FIGURE(samples_per_s, samples_per_s),
    FIGURE(samples_per_s_ci.low, samples_per_s_low),
    FIGURE(samples_per_s_ci.high, samples_per_s_high),
    FIGURE(device_share, device_share),
    FIGURE(wanted_bytes, wanted_bytes),
    FIGURE(energy_joules, energy_joules),
    FIGURE(trial.seconds, seconds),
#undef FIGURE
};
enum { FIGURES = sizeof figures / sizeof *figures };

void history_result(struct history *h, const struct launch_result *r, struct store_run *run) {
    for (int i = 0; i < FIGURES; i++) {
        const char *from = (const char *)r + figures[i].in_result;
        char *to = (char *)run + figures[i].in_run;
        memcpy(to, from, figures[i].size);
    }
    const struct failure *ending = &r->trial.ending;
    run->status = str_of(launch_status_name(r->status));
    run->reason = r->reason;
    run->hint = r->hint;
    run->ending = ending->signature ? str_of(ending->signature->id) : (struct str){0};
    run->exit_status = ending->exit_status;
    run->signal = ending->signal > 0 ? ending->signal : -1;
    run->covered = r->covered;
    run->each_s = numbers_text(h->arena, r->seconds_per_sample, r->sample_count);
    run->device = r->is_on_cpu ? STR("cpu") : STR("cuda"); // what the program says of itself
    if (r->trial.is_standin) run->is_standin = 1;
    read_torch(h->arena, &r->trial.steps, run);
}

void history_predicted(const struct forecast_peak *peak, struct store_run *run) {
    run->predicted_bytes = peak->reserved_bytes + peak->overhead_bytes;
    run->predicted_reserved_bytes = peak->reserved_bytes;
    run->predicted_upper_bytes = peak->upper_bytes;
}

void history_add(struct history *h, struct store_run *run) {
    struct fail why = {0};
    run->at_ms = now_ms();
    if (h->store && store_add(h->store, run, &run->id, &why) < 0) not_stored(h, &why);
}

void history_answers(struct history *h, const struct answer *answers, ptrdiff_t count) {
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct answer *answer = &answers[i];
        struct store_run run = history_row(h, "fit", &answer->plan);
        run.plan.model = answer->forecast.model.name;
        run.device = STR("cuda");
        run.gpu = answer->card.gpu.name;
        run.capacity_bytes = answer->card.gpu.usable_bytes;
        run.limit_bytes = answer->budget_bytes > 0 ? answer->budget_bytes : -1;
        run.status = str_of(forecast_verdict_name(answer->peak.verdict));
        history_predicted(&answer->peak, &run);
        history_add(h, &run);
    }
}

// --- Recall --------------------------------------------------------------------------------------

// What ran needs what it needed; what ran out of memory does so again where there is no more of it.
static bool still_holds(const struct store_run *run, enum launch_status status,
                        int64_t budget_bytes) {
    if (status == LAUNCH_OK) return run->charged_bytes > 0 && run->charged_bytes <= budget_bytes;
    if (status == LAUNCH_OOM) return run->limit_bytes > 0 && budget_bytes <= run->limit_bytes;
    return run->limit_bytes == budget_bytes;
}

static ptrdiff_t read_numbers(struct arena *a, struct str text, const double **ret_values) {
    double *values = arena_new(a, double, text.len / 2 + 2), value;
    ptrdiff_t count = 0;
    while (text.len > 0) {
        if (str_to_double(str_cut(&text, ' '), &value)) values[count++] = value;
    }
    *ret_values = values;
    return count;
}

static const struct failure_signature *find_signature(struct str id) {
    const struct failure_signature *found = failure_signature_named(id);
    return found ? found : failure_signature_named(STR("clean"));
}

static struct launch_result result_of(struct arena *a, const struct store_run *run,
                                      enum launch_status status) {
    struct launch_result r = {.status = status, .batch = run->plan.batch};
    for (int i = 0; i < FIGURES; i++) {
        char *to = (char *)&r + figures[i].in_result;
        const char *from = (const char *)run + figures[i].in_run;
        memcpy(to, from, figures[i].size);
    }
    r.reason = run->reason;
    r.hint = run->hint;
    r.covered = run->covered > 0 ? (unsigned)run->covered : 0;
    r.is_on_cpu = str_is(run->device, "cpu");
    r.sample_count = read_numbers(a, run->each_s, &r.seconds_per_sample);
    r.trial.is_standin = run->is_standin == 1;
    r.trial.ending.signature = find_signature(run->ending);
    r.trial.ending.exit_status = (int)run->exit_status;
    r.trial.ending.signal = run->signal > 0 ? (int)run->signal : 0;
    return r;
}

bool history_recall(struct history *h, const struct plan *p, int64_t budget_bytes,
                    struct launch_result *ret_result) {
    struct store_filter filter = {.kind = STR("trial"), .question = h->base.question};
    struct store_run *runs;
    struct fail why = {0};
    ptrdiff_t count;
    if (!h->store || h->fresh || h->base.question.len == 0) return false;
    if (store_find(h->store, h->arena, &filter, &runs, &count, &why) < 0) {
        not_read(h, &why);
        return false;
    }
    for (ptrdiff_t i = 0; i < count; i++) { // the newest first
        enum launch_status status;
        if (runs[i].plan.batch != p->batch || runs[i].plan.accumulation != p->accumulation)
            continue;
        if (!launch_status_find(runs[i].status, &status) ||
            !still_holds(&runs[i], status, budget_bytes)) {
            continue;
        }
        *ret_result = result_of(h->arena, &runs[i], status);
        if (runs[i].at_ms > h->recalled_ms) h->recalled_ms = runs[i].at_ms;
        h->recalled++;
        return true;
    }
    return false;
}

void history_note_recalled(struct history *h, ptrdiff_t trials) {
    if (h->recalled == 0) return;
    str_list_format(h->arena, &h->notes,
                    "%lld of %td trials were not run: the history has them for the same command, "
                    "files and machine, the last from %.*s UTC; --fresh reruns them",
                    (long long)h->recalled, trials,
                    STR_ARG(history_date(h->arena, h->recalled_ms)));
}

// --- Correction ----------------------------------------------------------------------------------

enum { RESIDUALS_MOST = 500 };

// "2.6" of "2.6.0+cu124".
static struct str major_minor(struct str version) {
    ptrdiff_t dots = 0;
    for (ptrdiff_t i = 0; i < version.len; i++) {
        if (version.p[i] == '.' && ++dots == 2) return str_slice(version, 0, i);
    }
    return version;
}

static double ratio_of(const struct store_run *run) {
    return (double)run->reserved_bytes / (double)run->predicted_reserved_bytes;
}

// The median of each model's ratios, one a model: ten batches of one model are no ten models.
static ptrdiff_t by_model(struct arena *a, const struct store_run *runs, ptrdiff_t count,
                          double *ret_ratios) {
    ptrdiff_t models = 0;
    double *own = arena_new(a, double, count + 1);
    for (ptrdiff_t i = 0; i < count; i++) {
        ptrdiff_t n = 0;
        bool is_first = true;
        for (ptrdiff_t k = 0; k < i; k++)
            is_first &= !str_equal(runs[k].plan.model, runs[i].plan.model);
        for (ptrdiff_t k = i; is_first && k < count; k++) {
            if (str_equal(runs[k].plan.model, runs[i].plan.model)) own[n++] = ratio_of(&runs[k]);
        }
        if (is_first) ret_ratios[models++] = stats_median(own, n);
    }
    return models;
}

static ptrdiff_t of_model(const struct store_run *runs, ptrdiff_t count, struct str model,
                          double *ret_ratios) {
    ptrdiff_t n = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (str_equal(runs[i].plan.model, model)) ret_ratios[n++] = ratio_of(&runs[i]);
    }
    return n;
}

// Of the newest PyTorch that was seen on the GPU: another one allocates otherwise.
static ptrdiff_t same_torch(struct store_run *runs, ptrdiff_t count) {
    ptrdiff_t kept = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        if (str_equal(major_minor(runs[i].torch), major_minor(runs[0].torch))) {
            runs[kept++] = runs[i];
        }
    }
    return kept;
}

struct str history_correct(struct history *h, const struct tape_store *tapes, struct str model,
                           struct forecast_card *card) {
    struct store_filter filter = {
        .gpu = card->gpu.name, .only_predicted = true, .limit = RESIDUALS_MOST};
    struct forecast_model m;
    struct store_run *runs = NULL;
    ptrdiff_t count = 0;
    if (!h->store || filter.gpu.len == 0) return (struct str){0};
    if (store_find(h->store, h->arena, &filter, &runs, &count, NULL) < 0) return (struct str){0};
    bool is_known = count > 0 && forecast_find_model(h->arena, tapes, model, &m, NULL) == 0;
    if (!is_known) return (struct str){0};
    double *ratios = arena_new(h->arena, double, count + 1);
    count = same_torch(runs, count);
    ptrdiff_t own = of_model(runs, count, m.name, ratios);
    ptrdiff_t n = own >= STATS_CORRECTION_LEAST ? own : by_model(h->arena, runs, count, ratios);
    struct stats_correction c = stats_find_correction(ratios, n);
    if (c.count == 0) return (struct str){0};
    bool is_own = own >= STATS_CORRECTION_LEAST;
    card->correction = (struct forecast_correction){is_own ? own : count, is_own ? 1 : n, c.factor,
                                                    c.fit_factor, c.upper_factor};
    struct str torch = major_minor(runs[0].torch);
    struct str whose = is_own ? STR(" of this model") : str_format(h->arena, " of %td models", n);
    return str_format(
        h->arena,
        "corrected by %lld measured runs%.*s on this GPU%s%.*s: %+.1f %%, at most %+.1f %%%s "
        "(--no-history leaves it out)",
        (long long)card->correction.runs, STR_ARG(whose), torch.len > 0 ? ", PyTorch " : "",
        STR_ARG(torch), 100 * (c.factor - 1), 100 * (c.upper_factor - 1),
        c.factor < 1 && !(c.fit_factor < 1) ? "; too few runs to allow a larger batch" : "");
}
