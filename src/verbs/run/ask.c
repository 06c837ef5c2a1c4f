// SPDX-License-Identifier: Apache-2.0
// What a run is asked: the command line wins over the config. What cannot be followed is refused
// before anything is started: nobody wants to hear of it when memory has run out in the night.
#include "verbs/run/run.h"

#include "base/os.h"
#include "job/question/question.h"

#include <glob.h>
#include <math.h>
#include <string.h>

// The command or a variable of --env: a flag in the one, its path in the other.
static bool mentions(const struct run *r, const char *name) {
    const char *variables[] = {r->o->l.environment ? r->o->l.environment : "", NULL};
    return trial_command_mentions(r->o->base.command, str_of(name)) ||
           trial_command_mentions((char *const *)(uintptr_t)variables, str_of(name));
}

// --- The config ----------------------------------------------------------------------------------

static int read_config(struct run *r, struct fail *why) {
    const struct run_options *o = r->o;
    struct config_options options = {.dialect = str_of(o->dialect), .section = str_of(o->section)};
    struct str text;
    int rc = os_read_file(r->arena, o->config, CONFIG_MAX_BYTES, &text, NULL, why);
    if (rc == 0) rc = question_parse(r->arena, o->config, text, &r->config, why);
    if (rc == 0) rc = config_read_roles(r->arena, &r->config, &options, &r->reading, why);
    r->has_config = rc == 0;
    return rc;
}

static int64_t whole(const struct run *r, enum config_role role) {
    const struct config_value *v = &r->reading.values[role];
    return r->has_config && v->integer > 0 && v->type != CONFIG_NESTED ? v->integer : 0;
}

static void read_plan(struct run *r) {
    const struct config_value *values = r->reading.values;
    struct str model =
        values[CONFIG_MODEL].type == CONFIG_TEXT ? values[CONFIG_MODEL].text : (struct str){0};
    r->plan = (struct plan){
        .model = r->o->model ? str_of(r->o->model) : model,
        .image_size = whole(r, CONFIG_IMAGE_SIZE),
        .sequence_length = whole(r, CONFIG_SEQUENCE_LENGTH),
        .precision = plan_precision_find(values[CONFIG_PRECISION].word),
    };
}

// --- Rules ---------------------------------------------------------------------------------------

static int64_t first_of(int64_t a, int64_t b) {
    return a > 0 ? a : b;
}

static double number_or(double value, double usual) {
    return isnan(value) ? usual : value;
}

// The batch of one rank, its accumulation, and the ranks: what is kept.
static int read_size(struct run *r, struct fail *why) {
    struct config_batches of_config = {0};
    struct fail unclear = {0};
    const struct run_options *o = r->o;
    if (r->has_config && o->batch <= 0) {
        int rc = config_batches(r->arena, &r->reading, o->l.ranks, &of_config, &unclear);
        if (rc < 0 && o->recover) {
            *why = unclear;
            if (!strstr(why->hint, "--key")) return rc;
            return fail_hint(why, "give it with --batch-size N, and its place with {batch} in the "
                                  "command or --config-key batch=PATH");
        }
    }
    r->rules.batch = first_of(o->batch, of_config.micro);
    r->has_batch = r->rules.batch > 0;
    r->rules.batch = first_of(r->rules.batch, 1);
    r->rules.accumulation = first_of(o->accumulation, first_of(of_config.accumulation, 1));
    r->rules.ranks = first_of(o->l.ranks, first_of(of_config.ranks, 1));
    return 0;
}

static int check_share(const struct run_options *o, struct fail *why) {
    if (isnan(o->share) || o->share > 0) return 0;
    fail_set(why, FAIL_USAGE, "--max-memory-usage 0: no training runs without memory");
    return fail_hint(why,
                     "give a share such as 0.9 or 90%%, or leave the option out to use all of it");
}

static int read_lr(struct run *r, struct fail *why) {
    const struct run_options *o = r->o;
    const struct config_value *v = &r->reading.values[CONFIG_LR];
    bool is_said = r->has_config && (v->type == CONFIG_FLOAT || v->type == CONFIG_INT);
    double from_config = is_said ? v->number : (double)NAN;
    const char *word = o->lr_rule ? o->lr_rule : "linear";
    r->rules.lr = isnan(o->lr) ? from_config : o->lr;
    if (strcmp(word, "linear") != 0 && strcmp(word, "sqrt") != 0) {
        fail_set(why, FAIL_USAGE, "--lr-rule %s: no such rule", word);
        return fail_hint(why, "use linear or sqrt");
    }
    if (o->auto_scale_lr || o->lr_rule) {
        r->rules.lr_rule = strcmp(word, "sqrt") == 0 ? RECOVER_LR_SQRT : RECOVER_LR_LINEAR;
    }
    return 0;
}

static void read_rules(struct run *r) {
    const struct run_options *o = r->o;
    struct recover_rules *rules = &r->rules;
    rules->recover = o->recover;
    rules->least_batch = first_of(o->least, 1);
    rules->max_restarts = (int64_t)number_or(o->max_restarts, (double)rules->max_restarts);
    rules->backoff_s = number_or(o->backoff, rules->backoff_s);
    if (rules->most_backoff_s < rules->backoff_s) rules->most_backoff_s = rules->backoff_s;
    rules->from_scratch = o->from_scratch;
    rules->resumes_itself = o->resumes_itself || (o->checkpoint && !r->takes_checkpoint);
    rules->adaptive = o->adaptive;
    rules->initial_batch = first_of(o->initial, 0);
    rules->most_batch = first_of(o->most, 0);
    rules->threshold = number_or(o->threshold, rules->threshold);
    rules->factor = number_or(o->factor, rules->factor);
}

// --- Checks --------------------------------------------------------------------------------------

static int check_checkpoint(struct run *r, struct fail *why) {
    glob_t found = {0};
    bool is_named = mentions(r, "checkpoint"); // else a flag makes it take its newest
    r->takes_checkpoint = is_named || mentions(r, "resume");
    r->rules.takes_newest = r->takes_checkpoint && !is_named;
    r->wants_checkpoints = r->takes_checkpoint || r->o->checkpoint;
    if (!r->o->checkpoint) return 0;
    int code = glob(r->o->checkpoint, GLOB_NOSORT, NULL, &found);
    if (code == 0) globfree(&found);
    if (code == 0 || code == GLOB_NOMATCH) return 0;
    return fail_set(why, FAIL_INPUT, "--checkpoint %s: cannot read the folder", r->o->checkpoint);
}

static int check_command(struct run *r, char *const *command, struct fail *why) {
    if (!command || !command[0]) {
        fail_set(why, FAIL_USAGE, "no command given");
        return fail_hint(why, "give it after --: batchfit run --batch-size 64 --recover -- python "
                              "train.py --batch-size {batch} --accumulate {accumulate}");
    }
    if (!mentions(r, "config") || r->o->config) return 0;
    fail_set(why, FAIL_USAGE, "the command has {config}, but no config is given");
    return fail_hint(why, "use --config FILE");
}

int run_ask(struct run *r, char *const *command, struct fail *why) {
    r->rules = recover_rules_default();
    r->l = r->o->l;
    int rc = check_command(r, command, why);
    if (rc == 0) rc = check_checkpoint(r, why);
    if (rc == 0 && r->o->config) rc = read_config(r, why);
    if (rc == 0) rc = read_size(r, why);
    if (rc == 0) rc = read_lr(r, why);
    if (rc == 0) rc = check_share(r->o, why);
    if (rc < 0) return rc;
    read_plan(r);
    read_rules(r);
    return 0;
}

// --- What the command takes ----------------------------------------------------------------------

// A config by its roles takes an accumulation where its dialect has words for it.
static bool takes_accumulation(struct run *r) {
    struct config_edits edits = {0};
    struct config_change change = {.batch = 1,
                                   .accumulation = 2,
                                   .ranks = r->rules.ranks,
                                   .flags = CONFIG_EDIT_ANCHOR | CONFIG_REPLACE_SPECIAL};
    if (!launch_takes(&r->launch, STR("accumulate"))) return false;
    if (mentions(r, "accumulate") || r->l.config_keys || !r->has_config) return true;
    return config_fit(r->arena, &r->config, &r->reading, &change, &edits, NULL) == 0;
}

static int check_changing(struct run *r, struct fail *why) {
    bool is_changing = r->rules.recover || r->rules.adaptive;
    if (r->takes_batch && !r->has_batch) {
        fail_set(why, FAIL_USAGE, "the command has {batch}, but no batch size is given");
        return fail_hint(why, "use --batch-size N or --config FILE");
    }
    if (launch_takes(&r->launch, STR("lr")) && isnan(r->rules.lr)) {
        fail_set(why, FAIL_USAGE, "the command has {lr}, but no learning rate is given");
        return fail_hint(why, "use --lr X or --config FILE");
    }
    if (!is_changing) return 0;
    if (!r->takes_batch) {
        if (!r->rules.adaptive) { // other ends than memory are recovered from still
            r->rules.can_accumulate = true;
            r->rules.least_batch = r->rules.batch;
            return 0;
        }
        fail_set(why, FAIL_USAGE, "the command does not take the batch");
        return fail_hint(
            why, "put {batch} where it takes the number, or {config} where it takes the config");
    }
    bool takes_lr = launch_takes(&r->launch, STR("lr"));
    if (r->rules.can_accumulate || r->rules.lr_rule == RECOVER_LR_KEEP || takes_lr) return 0;
    fail_set(why, FAIL_USAGE, "--auto-scale-lr: the command does not take the learning rate");
    return fail_hint(why, "put {lr} where it takes the number");
}

// The share is of what the device has, whatever others hold of it now.
static void read_memory(struct run *r) {
    const struct launch_place *place = &r->launch.place;
    if (!isnan(r->o->share)) {
        r->limit_bytes = (int64_t)((double)place->capacity_bytes * r->o->share);
    } else if (place->is_capped) {
        r->limit_bytes = place->capacity_bytes;
    }
    r->rules.capacity_bytes = r->limit_bytes > 0 ? r->limit_bytes : launch_budget(place, 0);
}

int run_ask_device(struct run *r, struct fail *why) {
    r->launch.config = r->has_config ? &r->config : NULL;
    r->launch.reading = r->has_config ? &r->reading : NULL;
    r->takes_batch = launch_takes(&r->launch, STR("batch"));
    r->rules.can_accumulate = takes_accumulation(r);
    read_memory(r);
    int rc = check_changing(r, why);
    if (rc == 0) rc = recover_check(&r->rules, why);
    if (rc < 0) return rc;
    r->plan.batch = r->has_batch ? r->rules.batch : 0;
    r->plan.accumulation = r->has_batch ? r->rules.accumulation : 0;
    r->plan.ranks = r->rules.ranks;
    return 0;
}

struct launch_values run_values(struct run *r, struct recover_size size, struct str checkpoint) {
    struct arena *a = r->arena;
    struct launch_values v = {0};
    launch_value(a, &v, "batch", str_format(a, "%lld", (long long)size.batch));
    launch_value(a, &v, "accumulate", str_format(a, "%lld", (long long)size.accumulation));
    struct str lr = {0};
    if (!isnan(size.lr)) lr = str_format(a, "%.12g", size.lr);
    launch_value(a, &v, "lr", lr);
    launch_value(a, &v, "checkpoint", checkpoint);
    launch_switch(a, &v, "resume", checkpoint.len > 0);
    return v;
}
