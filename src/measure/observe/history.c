// SPDX-License-Identifier: Apache-2.0
// What was kept, as lists of equal length: readings, or means of a minute.
#include "measure/observe/observe.h"

#include "base/json.h"

#include <math.h>
#include <stddef.h>

enum { READINGS_SECONDS = 3600, MINUTE_MS = 60000 };

struct span {
    const struct observe_view *view;
    int64_t from_ns;
    int points;
};

// Which items of `count` are shown, oldest first: every `stride`-th, always the newest.
static ptrdiff_t stride_of(const struct span *span, ptrdiff_t count) {
    return span->points > 0 && count > span->points ? (count + span->points - 1) / span->points : 1;
}

// A time on the clock of the watch as milliseconds since 1970.
static json_t *time_json(const struct span *span, const void *at_ns) {
    int64_t ago_ms = (span->view->at_ns - *(const int64_t *)at_ns) / 1000000;
    return json_integer(span->view->at_ms - ago_ms);
}

// A member of the items that are shown; without a row their times.
static json_t *series(const struct span *span, const char *items, ptrdiff_t count, size_t size,
                      const struct field *row) {
    json_t *list = json_array();
    ptrdiff_t stride = stride_of(span, count), first = count ? (count - 1) % stride : 0;
    for (ptrdiff_t i = first; i < count; i += stride) {
        const void *item = items + i * (ptrdiff_t)size;
        json_array_append_new(list, row ? json_field(item, row) : time_json(span, item));
    }
    return list;
}

// The part of items (which begin with their at_ns) that is in the span.
static ptrdiff_t begin_of(const struct span *span, const char *items, ptrdiff_t count,
                          size_t size) {
    ptrdiff_t begin = count;
    while (begin > 0) {
        const char *at = items + (begin - 1) * (ptrdiff_t)size;
        if (*(const int64_t *)(const void *)at < span->from_ns) break;
        begin--;
    }
    return begin;
}

static json_t *all_series(const struct span *span, const void *all, ptrdiff_t count, size_t size,
                          const struct field *rows) {
    ptrdiff_t begin = begin_of(span, all, count, size);
    const char *items = (const char *)all + begin * (ptrdiff_t)size;
    json_t *made = json_object();
    json_object_set_new(made, "at_ms", series(span, items, count - begin, size, NULL));
    for (; rows->name; rows++) {
        json_object_set_new(made, rows->name, series(span, items, count - begin, size, rows));
    }
    return made;
}

static const struct field card_series[] = {
    FIELD(struct device_gauges, utilisation),
    FIELD(struct device_gauges, used_bytes),
    FIELD(struct device_gauges, power_watts),
    FIELD(struct device_gauges, temperature_celsius),
    FIELD(struct device_gauges, sm_clock_mhz),
    FIELD(struct device_gauges, memory_utilisation),
    {.name = NULL},
};
#define T(name) \
    { #name "_ms", FIELD_REAL, offsetof(struct trend_step, times.name##_ms), NULL }
static const struct field step_series[] = {STEP_TIMES(T), {.name = NULL}};
#undef T

#define M(member) FIELD(struct observe_minute, member)
static const struct field minute_series[] = {
    M(utilisation),  M(used_bytes),         M(power_watts), M(temperature_celsius),
    M(sm_clock_mhz), M(memory_utilisation), M(ours_bytes),  M(throttled),
    M(power_cap),    M(energy_joules),      {.name = NULL},
};
#undef M

static json_t *minutes_of(const struct span *span) {
    json_t *cards = json_array();
    for (int i = 0; i < span->view->devices->count; i++) {
        const struct observe_card *c = &span->view->cards[i];
        json_array_append_new(cards, all_series(span, c->minutes, c->minute_count,
                                                sizeof *c->minutes, minute_series));
    }
    return cards;
}

// The driver's counters move in steps of their own, so a share is one of these seconds.
static const int64_t held_ns = 10 * INT64_C(1000000000);
static double heat_of(const struct device_gauges *g) {
    const double parts[] = {g->sw_thermal_seconds, g->hw_thermal_seconds, g->power_brake_seconds};
    double sum = (double)NAN;
    for (int i = 0; i < 3; i++) {
        if (!isnan(parts[i])) sum = isnan(sum) ? parts[i] : sum + parts[i];
    }
    return sum;
}
static double cap_of(const struct device_gauges *g) {
    return g->power_cap_seconds;
}

static json_t *shares(const struct span *span, const struct device_gauges *items, ptrdiff_t begin,
                      ptrdiff_t count, double (*counter)(const struct device_gauges *)) {
    json_t *list = json_array();
    ptrdiff_t shown = count - begin, stride = stride_of(span, shown), from = 0;
    for (ptrdiff_t i = begin + (shown ? (shown - 1) % stride : 0); i < count; i += stride) {
        while (from < i && items[from + 1].at_ns <= items[i].at_ns - held_ns) from++;
        double seconds = (double)(items[i].at_ns - items[from].at_ns) / 1e9;
        double grown = counter(&items[i]) - counter(&items[from]);
        bool is_known = seconds >= 2 && grown >= 0;
        json_array_append_new(list, is_known ? json_real(fmin(1, grown / seconds)) : json_null());
    }
    return list;
}

static json_t *readings_of(const struct span *span) {
    static const struct field ours = {"ours_bytes", FIELD_WHOLE, 0, NULL};
    json_t *cards = json_array();
    for (int i = 0; i < span->view->devices->count; i++) {
        const struct observe_card *c = &span->view->cards[i];
        json_t *one =
            all_series(span, c->history, c->history_count, sizeof *c->history, card_series);
        ptrdiff_t begin =
            begin_of(span, (const char *)c->history, c->history_count, sizeof *c->history);
        json_object_set_new(one, "ours_bytes",
                            series(span, (const char *)(c->ours_history + begin),
                                   c->history_count - begin, sizeof *c->ours_history, &ours));
        json_object_set_new(one, "throttled",
                            shares(span, c->history, begin, c->history_count, heat_of));
        json_object_set_new(one, "power_cap",
                            shares(span, c->history, begin, c->history_count, cap_of));
        json_array_append_new(cards, one);
    }
    return cards;
}

// Minutes where more is asked for than the readings go back.
json_t *observe_document_history(const struct observe_view *view, double seconds, int points) {
    int64_t back_ns = seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e9) : INT64_MAX / 2;
    const struct span span = {view, view->at_ns - back_ns, points};
    bool is_long = seconds > READINGS_SECONDS;
    json_t *cards = is_long ? minutes_of(&span) : readings_of(&span);
    json_t *runs = json_array(), *made = json_object();
    for (int i = 0; i < view->run_count; i++) {
        const struct observe_run *r = &view->runs[i];
        json_t *one = all_series(&span, r->steps, r->step_count, sizeof *r->steps, step_series);
        json_object_set_new(one, "id", json_text(r->id));
        json_array_append_new(runs, one);
    }
    json_object_set_new(made, "history", json_integer(1));
    json_object_set_new(made, "step_ms", json_integer(is_long ? MINUTE_MS : view->interval_ms));
    json_object_set_new(made, "interval_ms", json_integer(view->interval_ms));
    json_object_set_new(made, "step_ms", json_integer(is_long ? MINUTE_MS : view->interval_ms));
    json_object_set_new(made, "at_ms", json_integer(view->at_ms));
    json_object_set_new(made, "cards", cards);
    json_object_set_new(made, "runs", runs);
    return made;
}
