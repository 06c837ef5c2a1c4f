// SPDX-License-Identifier: Apache-2.0
// From figures to keys and back: what the learning sees (effective batch), and which edits make a
// change true in a dialect. Most dialects have a micro-batch and an accumulation; the others have a
// function here, named by the table's "rule".
#include "records/config/dialect_int.h"

#include <math.h>

static int64_t known(const struct config_value *v) {
    return v->type == CONFIG_INT || v->assumed ? v->integer : 0;
}

static bool in_file(const struct config_value *v) {
    return v->line > 0;
}

// --- What it is now ------------------------------------------------------------------------------

// Each fills accumulation (and effective, where it is not the product) from micro-batch, ranks and
// the file. False: the file does not say.
static bool read_pair(const struct config_reading *r, struct config_batches *b) {
    const struct config_value *v = &r->values[CONFIG_ACCUMULATION];
    b->accumulation = known(v);
    if (!in_file(v) && b->accumulation == 0) b->accumulation = 1;
    return b->accumulation > 0;
}

// Ultralytics: accumulate = max(round(nbs / batch), 1), Python's round (half to even).
static int64_t nbs_accumulation(int64_t nbs, int64_t batch) {
    const double steps = nearbyint((double)nbs / (double)batch);
    return steps < 1 ? 1 : (int64_t)steps;
}

static bool read_nbs(const struct config_reading *r, struct config_batches *b) {
    const int64_t nbs = known(&r->values[CONFIG_EFFECTIVE]), batch = b->micro * b->ranks;
    if (nbs < 1) return false;
    b->accumulation = nbs_accumulation(nbs, batch);
    return true;
}

// The effective batch is a key; the micro-steps follow.
static bool read_target(const struct config_reading *r, struct config_batches *b) {
    const int64_t total = known(&r->values[CONFIG_EFFECTIVE]), step = b->micro * b->ranks;
    if (total < 1) return false;
    b->accumulation = total / step < 1 ? 1 : total / step;
    return true;
}

// torchtitan: -1, its default, is one micro-step of every rank.
static bool read_target_or_one(const struct config_reading *r, struct config_batches *b) {
    const struct config_value *v = &r->values[CONFIG_EFFECTIVE];
    b->accumulation = 1;
    if (known(v) > 0) return read_target(r, b);
    return !in_file(v) || str_is(v->text, "-1");
}

// Composer splits the batch of a device into microbatches and keeps the total exactly.
static bool read_target_up(const struct config_reading *r, struct config_batches *b) {
    const int64_t total = known(&r->values[CONFIG_EFFECTIVE]), step = b->micro * b->ranks;
    if (total < 1) return false;
    b->accumulation = (total + step - 1) / step;
    b->effective = total;
    return true;
}

static bool read_deepspeed(const struct config_reading *r, struct config_batches *b) {
    const struct config_value *accumulation = &r->values[CONFIG_ACCUMULATION];
    const int64_t total = known(&r->values[CONFIG_EFFECTIVE]);
    if (known(accumulation) > 0) {
        b->accumulation = known(accumulation);
        return true;
    }
    if (in_file(accumulation)) return false;
    if (total < 1) {
        b->accumulation = 1;
        return !in_file(&r->values[CONFIG_EFFECTIVE]);
    }
    return read_target(r, b);
}

// Axolotl's batch_size is micro x accumulation, without the ranks.
static bool read_axolotl(const struct config_reading *r, struct config_batches *b) {
    const int64_t total = known(&r->values[CONFIG_EFFECTIVE]);
    if (in_file(&r->values[CONFIG_ACCUMULATION]) || total < 1) return read_pair(r, b);
    b->accumulation = total / b->micro < 1 ? 1 : total / b->micro;
    return true;
}

// ms-swift: ceil(16 / (batch x ranks)) when it is not said.
static bool read_swift(const struct config_reading *r, struct config_batches *b) {
    const struct config_value *v = &r->values[CONFIG_ACCUMULATION];
    if (known(v) > 0) return read_pair(r, b);
    if (in_file(v) && v->type != CONFIG_NULL) return false;
    b->accumulation = (16 + b->micro * b->ranks - 1) / (b->micro * b->ranks);
    return true;
}

static bool read_global(const struct config_reading *r, struct config_batches *b) {
    (void)r;
    b->accumulation = 1;
    return true;
}

// --- Edits ---------------------------------------------------------------------------------------

struct wanted {
    struct arena *arena;
    const struct config *config;
    const struct config_reading *reading;
    const struct dialect *dialect;
    unsigned flags;
    struct config_edits *edits;
    struct fail *why;
};

static struct str map_of(struct str path) {
    return str_slice(path, 0, path.len - str_last(path, '.').len);
}

static void push(const struct wanted *w, struct config_edit e) {
    config_edits_add(w->arena, w->edits, e);
}

static int cannot_insert(const struct wanted *w, enum config_role role, struct str value) {
    struct str option = config_option(w->arena, w->reading, w->dialect, role, value);
    fail_set(w->why, FAIL_INPUT, "%.*s has no key here for %s = %.*s", STR_ARG(w->dialect->title),
             config_role_name(role), STR_ARG(value));
    if (option.len) return fail_hint(w->why, "give it on the command line: %.*s", STR_ARG(option));
    return fail_hint(w->why,
                     role == CONFIG_ACCUMULATION
                         ? "the effective batch cannot be kept in this file: --free-batch takes "
                           "the largest batch without accumulation; scale the learning "
                           "rate with it"
                         : "add the key by hand first");
}

static int set_text(const struct wanted *w, enum config_role role, struct str value, bool is_text) {
    const struct config_value *v = &w->reading->values[role];
    const struct role_row *row = &w->dialect->roles[role];
    struct config_edit e = {.path = v->path, .value = value, .is_text = is_text};
    if (in_file(v)) {
        if (v->refusal.len && !(w->flags & (CONFIG_REPLACE_SPECIAL | CONFIG_EDIT_ANCHOR))) {
            return fail_set(w->why, FAIL_INPUT, "%.*s", STR_ARG(v->refusal));
        }
        push(w, e);
        return 0;
    }
    if (v->assumed && role != CONFIG_CHECKPOINTING && str_equal(v->text, value)) return 0;
    if (!v->path.len) return cannot_insert(w, role, value);
    const struct str batch = w->reading->values[CONFIG_BATCH].path;
    e.insert = true;
    if (str_equal(map_of(batch), map_of(v->path))) e.after = str_last(batch, '.');
    // Beside _target_ only what the class is known to take has a path (roles.c).
    struct config_value target = {0};
    struct str beside = str_format(w->arena, "%.*s_target_", STR_ARG(map_of(v->path)));
    config_get(w->arena, w->config, beside, &target, NULL);
    if (row->insert == INSERT_WARN && target.line == 0) {
        e.is_unsure = true;
        e.note = str_format(
            w->arena, "%.*s is a new key: %s must read it, or the effective batch shrinks",
            STR_ARG(v->path),
            str_is(w->dialect->id, "timm") ? "timm of 2023 or later" : "your training code");
    }
    push(w, e);
    return 0;
}

static int set_number(const struct wanted *w, enum config_role role, int64_t value) {
    return set_text(w, role, str_format(w->arena, "%lld", (long long)value), false);
}

static int set_batch(const struct wanted *w, const struct config_batches *b) {
    const struct config_value *v = &w->reading->values[CONFIG_BATCH];
    if (v->unit == '?' && b->ranks > 1) {
        fail_set(w->why, FAIL_INPUT,
                 "%.*s: only your code knows whether %.*s counts one device or all of them",
                 STR_ARG(w->dialect->title), STR_ARG(v->path));
        return fail_hint(w->why, "with one device it makes no difference");
    }
    return set_number(w, CONFIG_BATCH, v->unit == 'G' ? b->micro * b->ranks : b->micro);
}

static int write_pair(const struct wanted *w, const struct config_batches *b) {
    const struct config_value *v = &w->reading->values[CONFIG_ACCUMULATION];
    int status = set_batch(w, b);
    bool is_default = !in_file(v) && b->accumulation == (known(v) > 0 ? known(v) : 1);
    if (status || is_default) return status;
    return set_number(w, CONFIG_ACCUMULATION, b->accumulation);
}

static int write_nbs(const struct wanted *w, const struct config_batches *b) {
    const int64_t batch = b->micro * b->ranks, effective = batch * b->accumulation;
    int status = set_batch(w, b);
    const int64_t now = known(&w->reading->values[CONFIG_EFFECTIVE]);
    if (status || (now > 0 && batch * nbs_accumulation(now, batch) == effective)) return status;
    return set_number(w, CONFIG_EFFECTIVE, effective);
}

static int write_target(const struct wanted *w, const struct config_batches *b) {
    int status = set_batch(w, b);
    const int64_t effective = b->micro * b->accumulation * b->ranks;
    if (status || known(&w->reading->values[CONFIG_EFFECTIVE]) == effective) return status;
    return set_number(w, CONFIG_EFFECTIVE, effective);
}

// The three numbers must multiply exactly; those that are in the file must all agree.
static int write_deepspeed(const struct wanted *w, const struct config_batches *b) {
    const struct config_value *total = &w->reading->values[CONFIG_EFFECTIVE];
    const struct config_value *accumulation = &w->reading->values[CONFIG_ACCUMULATION];
    struct config_reading with_total = *w->reading;
    struct wanted inner = *w;
    // Only the total is there: the micro-batch becomes a line beside it.
    if (!in_file(&w->reading->values[CONFIG_BATCH]) && in_file(total)) {
        with_total.values[CONFIG_BATCH].path = STR("train_micro_batch_size_per_gpu");
        inner.reading = &with_total;
    }
    int status = set_number(&inner, CONFIG_BATCH, b->micro);
    if (!status && inner.reading == &with_total)
        w->edits->items[w->edits->count - 1].after = total->path;
    if (!status && in_file(total))
        status = set_number(w, CONFIG_EFFECTIVE, b->micro * b->accumulation * b->ranks);
    const bool follows = !in_file(accumulation) && (in_file(total) || b->accumulation == 1);
    return status || follows ? status : set_number(w, CONFIG_ACCUMULATION, b->accumulation);
}

static int write_axolotl(const struct wanted *w, const struct config_batches *b) {
    const struct config_value *total = &w->reading->values[CONFIG_EFFECTIVE];
    if (!in_file(total) || in_file(&w->reading->values[CONFIG_ACCUMULATION]))
        return write_pair(w, b);
    int status = set_batch(w, b);
    return status ? status : set_number(w, CONFIG_EFFECTIVE, b->micro * b->accumulation);
}

static int write_swift(const struct wanted *w, const struct config_batches *b) {
    int status = set_batch(w, b);
    return status ? status : set_number(w, CONFIG_ACCUMULATION, b->accumulation);
}

static int write_global(const struct wanted *w, const struct config_batches *b) {
    if (b->accumulation == 1) return set_batch(w, b);
    fail_set(w->why, FAIL_INPUT,
             "%.*s has no accumulation: a smaller batch means a smaller effective batch",
             STR_ARG(w->dialect->title));
    return fail_hint(w->why, "choose another effective batch, or more devices");
}

static const struct rule_row {
    const char *name;
    bool (*read)(const struct config_reading *r, struct config_batches *b);
    int (*write)(const struct wanted *w, const struct config_batches *b);
    bool has_total; // the effective batch is a key, whatever the micro-batch is
} rules[] = {
    {"nbs", read_nbs, write_nbs, false},
    {"target", read_target, write_target, true},
    {"target_down", read_target, write_target, true},
    {"target_or_one", read_target_or_one, write_target, true},
    {"target_up", read_target_up, write_target, true},
    {"deepspeed", read_deepspeed, write_deepspeed, true},
    {"axolotl", read_axolotl, write_axolotl, false},
    {"swift", read_swift, write_swift, false},
    {"global", read_global, write_global, false},
    {"", read_pair, write_pair, false}, // all others
};

static const struct rule_row *rule_of(const struct dialect *d) {
    const struct rule_row *rule = rules;
    while (rule->name[0] && !str_is(d->rule, rule->name)) rule++;
    return rule;
}

static int no_batch(const struct config_reading *r, struct fail *why) {
    const struct config_value *v = &r->values[CONFIG_BATCH];
    if (in_file(v)) {
        fail_set(why, FAIL_INPUT, "%.*s:%d:%d: %.*s = %.*s is not a batch size", STR_ARG(r->name),
                 v->line, v->column, STR_ARG(v->path), STR_ARG(v->text));
    } else {
        fail_set(why, FAIL_INPUT, "%.*s: no batch size in the file", STR_ARG(r->name));
    }
    return fail_hint(why,
                     "name the key with --key batch=PATH, or give the batch on the command line");
}

// DeepSpeed with the total alone: micro-batch = total / ranks.
static int64_t written_batch(const struct config_reading *r, const struct dialect *d,
                             int64_t ranks) {
    const int64_t batch = known(&r->values[CONFIG_BATCH]);
    if (batch > 0 || !str_is(d->rule, "deepspeed") || in_file(&r->values[CONFIG_BATCH]))
        return batch;
    const int64_t steps = known(&r->values[CONFIG_ACCUMULATION]),
                  total = known(&r->values[CONFIG_EFFECTIVE]);
    return total / (ranks * (steps > 0 ? steps : 1));
}

// Kept where the micro-batch is left to the trainer; 0: the file does not say.
static int64_t said_total(const struct config_reading *r, const struct dialect *d) {
    const struct config_value *batch = &r->values[CONFIG_BATCH], *v = &r->values[CONFIG_EFFECTIVE];
    const bool is_open = known(batch) < 1 && rule_of(d)->has_total && in_file(v);
    return is_open && known(v) > 0 && known(v) <= INT32_MAX ? known(v) : 0;
}

int config_batches(struct arena *a, const struct config_reading *r, int64_t ranks,
                   struct config_batches *ret_batches, struct fail *why) {
    const struct dialect *d;
    struct fail unheard;
    if (!why) why = &unheard;
    int status = config_dialect_of(a, r, &d, why);
    if (status) return status;
    const int64_t in_config = known(&r->values[CONFIG_RANKS]);
    struct config_batches b = {.ranks = ranks > 0 ? ranks : in_config > 0 ? in_config : 1};
    const struct config_value *v = &r->values[CONFIG_BATCH];
    const int64_t batch = written_batch(r, d, b.ranks);
    ret_batches->ranks = b.ranks;
    ret_batches->effective = said_total(r, d);
    if (batch < 1 || batch > INT32_MAX || b.ranks > INT32_MAX) return no_batch(r, why);
    if (v->unit == '?' && b.ranks > 1) {
        return fail_set(why, FAIL_INPUT,
                        "only your code knows whether %.*s counts one device or all of them",
                        STR_ARG(v->path));
    }
    b.micro = v->unit == 'G' ? batch / b.ranks : batch;
    if (v->unit == 'G' && b.micro * b.ranks != batch) {
        return fail_set(why, FAIL_INPUT, "%.*s = %lld is not divisible by %lld devices",
                        STR_ARG(v->path), (long long)batch, (long long)b.ranks);
    }
    if (!rule_of(d)->read(r, &b) || b.accumulation > INT32_MAX) {
        const struct config_value *steps = &r->values[CONFIG_ACCUMULATION];
        if (steps->path.len == 0)
            return fail_set(why, FAIL_INPUT, "the file does not give the accumulation");
        return fail_set(why, FAIL_INPUT, "the file does not give the accumulation (%.*s = %.*s)",
                        STR_ARG(steps->path), STR_ARG(steps->text));
    }
    if (__builtin_mul_overflow(b.micro * b.ranks, b.accumulation, &ranks)) return no_batch(r, why);
    if (!b.effective) b.effective = ranks;
    *ret_batches = b;
    return 0;
}

// --- A requested change --------------------------------------------------------------------------

static int fit_batches(const struct wanted *w, const struct config_change *change) {
    if (!change->batch && !change->accumulation) return 0;
    struct config_batches b = {
        .micro = change->batch, .accumulation = change->accumulation, .ranks = change->ranks};
    struct config_batches now = {0};
    const bool readable = config_batches(w->arena, w->reading, change->ranks, &now, NULL) == 0;
    if (!b.ranks) b.ranks = now.ranks ? now.ranks : 1;
    if (!readable && (!b.micro || !b.accumulation)) {
        const struct str refusal = w->reading->values[CONFIG_BATCH].refusal;
        if (!refusal.len) return no_batch(w->reading, w->why);
        return fail_set(w->why, FAIL_INPUT, "%.*s", STR_ARG(refusal));
    }
    if (!b.micro) b.micro = now.micro;
    if (!b.accumulation) b.accumulation = now.accumulation;
    int status = rule_of(w->dialect)->write(w, &b);
    const bool scales =
        str_is(w->dialect->id, "timm") && w->reading->values[CONFIG_LR].type == CONFIG_NULL;
    if (!status && readable && scales && now.effective != b.micro * b.accumulation * b.ranks) {
        w->edits->items[0].note =
            STR("lr is null: timm derives it from the effective batch, which changes");
    }
    return status;
}

static bool has_path(const struct precision_keys *keys, struct str path) {
    for (ptrdiff_t i = 0; i < keys->count; i++) {
        if (str_equal(keys->items[i].match.path, path)) return true;
    }
    return false;
}

static int fit_precision(const struct wanted *w, const struct config *c, struct str wanted) {
    const struct config_value *v = &w->reading->values[CONFIG_PRECISION];
    if (!wanted.len || str_equal(v->word, wanted)) return 0;
    const struct role_row *row = &w->dialect->roles[CONFIG_PRECISION];
    struct scope scope = config_reading_scope(w->arena, c, w->reading);
    struct precision_keys keys = {0};
    config_precision_find(&scope, row->places, &keys);
    if (in_file(v) && !has_path(&keys, v->path)) {
        struct matches named = {0}; // by --key: the dialect's own keys do not count
        config_scope_find(&scope, v->path, &named);
        keys = (struct precision_keys){0};
        if (named.count) config_precision_guess(&scope, &named.items[0], &keys);
    }
    if (config_precision_edits(&scope, &keys, row,
                               str_last(w->reading->values[CONFIG_BATCH].path, '.'), wanted,
                               w->edits))
        return 0;
    fail_set(w->why, FAIL_INPUT, "%.*s: the file has no key for precision %.*s", STR_ARG(c->name),
             STR_ARG(wanted));
    return fail_hint(w->why, "set it by hand, or on the command line");
}

static int fit_checkpointing(const struct wanted *w, int change) {
    const struct config_value *v = &w->reading->values[CONFIG_CHECKPOINTING];
    if (!change || ((v->boolean == (change > 0)) && (in_file(v) || v->assumed))) return 0;
    const bool inverted = str_starts(w->dialect->roles[CONFIG_CHECKPOINTING].places, STR("!"));
    return set_text(w, CONFIG_CHECKPOINTING, (change > 0) != inverted ? STR("true") : STR("false"),
                    false);
}

static int fit_rest(const struct wanted *w, const struct config_change *change) {
    int status = 0;
    if (change->eval_batch) status = set_number(w, CONFIG_EVAL_BATCH, change->eval_batch);
    if (!status && change->image_size)
        status = set_number(w, CONFIG_IMAGE_SIZE, change->image_size);
    if (!status && change->sequence_length)
        status = set_number(w, CONFIG_SEQUENCE_LENGTH, change->sequence_length);
    if (!status && change->workers)
        status = set_number(w, CONFIG_WORKERS, change->workers < 0 ? 0 : change->workers);
    if (!status && change->optimizer.len)
        status = set_text(w, CONFIG_OPTIMIZER, change->optimizer, true);
    return status;
}

int config_fit(struct arena *a, const struct config *c, const struct config_reading *r,
               const struct config_change *change, struct config_edits *ret_edits,
               struct fail *why) {
    const struct dialect *d;
    struct fail unheard;
    struct config_edits edits = {0};
    if (!why) why = &unheard;
    if (!r->editable) {
        // A refusal that knows its place begins with it.
        bool has_place = str_starts(r->refusal, c->name);
        return fail_set(why, FAIL_INPUT, "%.*s%s%.*s", has_place ? 0 : (int)c->name.len, c->name.p,
                        has_place ? "" : ": not edited: ", STR_ARG(r->refusal));
    }
    int status = config_dialect_of(a, r, &d, why);
    if (status) return status;
    const struct wanted w = {a, c, r, d, change->flags, &edits, why};
    status = fit_batches(&w, change);
    if (!status) status = fit_precision(&w, c, change->precision);
    if (!status) status = fit_checkpointing(&w, change->checkpointing);
    if (!status) status = fit_rest(&w, change);
    if (!status) status = config_layer_edits(a, c, &edits, why);
    if (status) return status;
    *ret_edits = edits;
    return 0;
}
