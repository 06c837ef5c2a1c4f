// SPDX-License-Identifier: Apache-2.0
// Limits that the user sets (--alert temperature=83,memory=95%): a finding as long as a GPU is
// above one, and a command of the user's once, when it gets there.
#include "measure/observe/observe_int.h"

#include "base/unit.h"

#include <math.h>

enum { CARDS_MOST = 64 };

static double temperature(const struct device_gauges *g) {
    return g->temperature_celsius;
}

static double power(const struct device_gauges *g) {
    return g->power_watts;
}

static double memory(const struct device_gauges *g) {
    return 100 * unit_share(g->used_bytes, g->total_bytes);
}

static const struct kind {
    const char *name, *id, *what, *unit;
    double most; // that makes sense
    double (*value)(const struct device_gauges *g);
    const char *remedy;
} kinds[] = {
    {"temperature", "alert.temperature", "temperature", " C", 150, temperature,
     "check the fans and the airflow, or lower the power limit"},
    {"memory", "alert.memory", "memory in use", " %", 100, memory,
     "a smaller batch (batchfit fit), or end what else uses the GPU"},
    {"power", "alert.power", "power", " W", 5000, power, "lower the power limit (nvidia-smi -pl)"},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

struct alerts {
    const char *command; // NULL: none
    struct commands *commands;
    double limits[KINDS];
    bool is_above[KINDS][CARDS_MOST];
};

static int refuse(struct str entry, struct fail *why) {
    fail_set(why, FAIL_USAGE, "--alert %.*s: not of the form NAME=NUMBER", STR_ARG(entry));
    return fail_hint(why, "for example --alert temperature=83,memory=95%%,power=300");
}

static int read_one(struct alerts *alerts, struct str entry, struct fail *why) {
    struct str rest = entry, name = str_trim(str_cut(&rest, '='));
    rest = str_trim(rest);
    if (str_ends(rest, STR("%"))) rest.len--;
    for (int i = 0; i < KINDS; i++) {
        if (!str_is(name, kinds[i].name)) continue;
        double *limit = &alerts->limits[i];
        bool is_number = str_to_double(rest, limit);
        return is_number && *limit > 0 && *limit <= kinds[i].most ? 0 : refuse(entry, why);
    }
    return refuse(entry, why);
}

int observe_alerts_open(struct arena *a, const struct observe_options *options,
                        struct alerts **ret_alerts, struct fail *why) {
    *ret_alerts = NULL;
    struct str rest = str_of(options->alerts);
    if (options->alert_command && !options->alerts)
        return fail_set(why, FAIL_USAGE, "--exec needs --alert");
    if (!options->alerts) return 0;
    struct alerts *alerts = arena_new(a, struct alerts, 1);
    *alerts =
        (struct alerts){.command = options->alert_command, .commands = observe_commands_open(a)};
    for (int i = 0; i < KINDS; i++) alerts->limits[i] = (double)NAN;
    while (rest.p) {
        int rc = read_one(alerts, str_trim(str_cut(&rest, ',')), why);
        if (rc < 0) return rc;
    }
    *ret_alerts = alerts;
    return 0;
}

static void start(struct alerts *alerts, const struct kind *kind, int card, double value,
                  struct arena *a) {
    const struct observe_said said = {
        .alert = kind->name,
        .card = card,
        .value = str_format(a, "%.6g", value),
        .text = str_format(a, "GPU %d: %s %.0f%s", card, kind->what, value, kind->unit)};
    observe_commands_start(alerts->commands, alerts->command, &said);
}

// How its command ended, behind the finding's evidence.
static void tell_command(const struct alerts *alerts, const struct kind *kind, int card,
                         struct arena *a, struct finding *f) {
    const struct observe_told *told = observe_commands_last(alerts->commands, kind->name, card);
    if (!told) return;
    f->evidence =
        str_format(a, "%.*s; %.*s", STR_ARG(f->evidence), STR_ARG(observe_told_text(a, told)));
}

static void judge_one(struct alerts *alerts, const struct observe_view *view, int place, int which,
                      struct arena *a, struct findings *findings) {
    const struct kind *kind = &kinds[which];
    const struct device_card *card = &view->devices->cards[place];
    double value = kind->value(&card->now), limit = alerts->limits[which];
    bool is_above = card->state == DEVICE_ANSWERS && value >= limit; // NaN is not
    bool is_new = is_above && !alerts->is_above[which][place];
    alerts->is_above[which][place] = is_above;
    if (is_new && alerts->command) start(alerts, kind, card->index, value, a);
    if (!is_above) return;
    struct finding f = {.id = kind->id, .card = place, .what = kind->what};
    finding_tell(a, &f, FINDING_PROBLEM, str_format(a, "%.0f%s", value, kind->unit), kind->remedy,
                 "%.0f%s; the limit of --alert is %.0f%s", value, kind->unit, limit, kind->unit);
    if (alerts->command) tell_command(alerts, kind, card->index, a, &f);
    *arena_push(a, &findings->items, &findings->count, &findings->capacity) = f;
}

void observe_alerts_judge(struct alerts *alerts, const struct observe_view *view, struct arena *a,
                          struct findings *findings) {
    for (int place = 0; alerts && place < view->devices->count && place < CARDS_MOST; place++) {
        for (int i = 0; i < KINDS; i++) {
            if (!isnan(alerts->limits[i])) judge_one(alerts, view, place, i, a, findings);
        }
    }
}

void observe_alerts_collect(struct alerts *alerts, int wait_ms, struct observe_view *view) {
    view->told_count = 0;
    if (!alerts || !alerts->command) return;
    view->told = observe_commands_collect(alerts->commands, wait_ms, &view->told_count);
}

void observe_alerts_close(struct alerts *alerts) {
    if (alerts) observe_commands_close(alerts->commands);
}
