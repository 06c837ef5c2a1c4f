// SPDX-License-Identifier: Apache-2.0
// Steps as doctor reads them: the newest in full, of all of them every n-th time, and who failed.
#include "stats/stats.h"
#include "verbs/doctor/doctor.h"

#include <math.h>

static void keep_time(struct doctor_reading *r, const struct step *s) {
    if (isnan(s->times.total_ms) || r->kept_seen % r->stride != 0) return;
    if (r->time_count == DOCTOR_READING_KEPT) {
        for (ptrdiff_t i = 0; i < DOCTOR_READING_KEPT / 2; i++) {
            r->times[i] = r->times[2 * i];
            r->numbers[i] = r->numbers[2 * i];
        }
        r->time_count = DOCTOR_READING_KEPT / 2;
        r->stride *= 2;
    }
    r->times[r->time_count] = s->times.total_ms;
    r->numbers[r->time_count++] = s->number;
}

static bool has_failed(const struct steps *s) {
    for (ptrdiff_t i = 0; i < s->rank_count; i++) {
        if (s->ranks[i].oom_ns || s->ranks[i].state == STEPS_RANK_ENDED_BADLY) return true;
    }
    return false;
}

int doctor_reading_steps_line(struct doctor_reading *r, struct str line, struct fail *why) {
    (void)why;
    struct steps *s = &r->steps;
    steps_line(s, line);
    for (ptrdiff_t i = 0; i < s->count; i++) {
        struct step *slot = &r->kept[r->kept_seen % DOCTOR_READING_KEPT];
        if (s->items[i].rank != s->ranks[0].rank) continue;
        keep_time(r, &s->items[i]);
        if (r->kept_seen >= DOCTOR_READING_KEPT && (double)slot->allocated_bytes > r->earlier_most)
            r->earlier_most = (double)slot->allocated_bytes;
        *slot = s->items[i];
        r->kept_seen++;
    }
    s->count = 0;
    if (r->event_line == 0 && has_failed(s)) r->event_line = r->lines;
    return 0;
}

static double median_of(const struct doctor_reading *r, ptrdiff_t count, int time) {
    static double values[DOCTOR_READING_KEPT];
    ptrdiff_t known = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        double v = r->kept[i].times.ms[time];
        if (!isnan(v)) values[known++] = v;
    }
    return stats_median(values, known);
}

static void judge_steps(struct doctor_reading *r, ptrdiff_t count) {
    struct trend_step *steps = arena_new(r->d->arena, struct trend_step, count + 1);
    struct trend_stretch stretch = {.steps = steps,
                                    .step_count = count,
                                    .steps_before = r->kept_seen - count,
                                    .earlier_most_bytes = r->earlier_most};
    for (ptrdiff_t i = 0; i < count; i++) {
        const struct step *s = &r->kept[(r->kept_seen - count + i) % DOCTOR_READING_KEPT];
        double allocated = s->allocated_bytes < 0 ? (double)NAN : (double)s->allocated_bytes;
        steps[i] = (struct trend_step){.allocated_bytes = allocated, .times = s->times};
    }
    stretch.sm_clock_max_mhz = NAN;
    stretch.state = DEVICE_ANSWERS;
    trend_judge(r->d->arena, &stretch, -1, &r->findings);
}

static void take_failure(struct doctor_reading *r) {
    for (ptrdiff_t i = 0; i < r->steps.rank_count; i++) {
        const struct step_rank *rank = &r->steps.ranks[i];
        struct str text = rank->oom_ns ? rank->oom_message : rank->error;
        static const struct failure_facts nothing = {.oom_kills = -1, .system_oom_kills = -1};
        struct failure e;
        if (!rank->oom_ns && rank->state != STEPS_RANK_ENDED_BADLY) continue;
        failure_classify(r->d->arena, text, &nothing, &e);
        doctor_take_ending(r->d, &e, r->event_line);
        if (!r->d->facts.ending.signature) continue;
        r->d->facts.ending.steps = r->kept_seen;
        return;
    }
}

int doctor_reading_steps_end(struct doctor_reading *r, struct fail *why) {
    struct cause_facts *f = &r->d->facts;
    ptrdiff_t count =
        r->kept_seen < DOCTOR_READING_KEPT ? (ptrdiff_t)r->kept_seen : DOCTOR_READING_KEPT;
    if (r->steps.broken_lines == r->lines)
        return fail_set(
            why, FAIL_INPUT, "%s: every line is broken, first: %.*s", r->name,
            STR_ARG(str_slice(r->steps.first_broken, 0,
                              r->steps.first_broken.len < 80 ? r->steps.first_broken.len : 80)));
    if (r->steps.broken_lines > 0)
        str_list_format(r->d->arena, &r->d->notes, "%lld broken lines skipped",
                        (long long)r->steps.broken_lines);
    for (int i = 0; i < STEP_TIME_COUNT; i++) f->phases.ms[i] = median_of(r, count, i);
    f->phase_steps = count;
    f->on_cpu = steps_on_cpu(&r->steps);
    f->times_ms = r->times;
    f->times_at = r->numbers;
    f->time_count = r->time_count;
    take_failure(r);
    judge_steps(r, count);
    r->d->read = str_format(r->d->arena, "%lld steps", (long long)r->kept_seen);
    return 0;
}
