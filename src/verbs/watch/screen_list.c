// SPDX-License-Identifier: Apache-2.0
// What is below the GPUs: the runs that let themselves be watched, and what is to be said of the
// machine.
#include "verbs/watch/watch.h"

#include "base/say.h"

#include <math.h>

static struct str count_text(struct watch_draw *d, int64_t n) {
    if (n < 0) return STR("–");
    if (n < 1000) return str_format(d->scratch, "%lld", (long long)n);
    if (n < 1000000) {
        return str_format(d->scratch, "%lld,%03lld", (long long)(n / 1000), (long long)(n % 1000));
    }
    return str_format(d->scratch, "%.1f M", (double)n / 1e6);
}

static int run_ink(const struct observe_run *run) {
    return run->state == OBSERVE_RUN_STEPS   ? SHOW_GOOD
           : run->state == OBSERVE_RUN_QUIET ? SHOW_WARN
                                             : SHOW_DIM;
}

// Of "python -m torch.distributed.run train.py --x" it is train.py; of "python -m pkg.main"
// pkg.main; else the program.
static struct str script_of(struct str command) {
    struct str program = {0}, module = {0};
    bool is_module = false;
    while (command.len > 0) {
        struct str word = str_cut(&command, ' ');
        struct str base = str_last(word, '/');
        if (str_ends(base, STR(".py"))) return base;
        if (is_module && module.len == 0) module = word;
        is_module = str_is(word, "-m");
        if (program.len == 0) program = base;
    }
    return module.len ? module : program;
}

struct str watch_run_name(struct watch_draw *d, const struct observe_run *run) {
    struct str script = script_of(run->command);
    if (script.len && run->model.len && !str_equal(script, run->model)) {
        return str_format(d->scratch, "%.*s · %.*s", STR_ARG(script), STR_ARG(run->model));
    }
    return run->model.len ? run->model : script.len ? script : run->id;
}

enum { BESIDE_NAME = 24 }; // columns: the state, and how much is left out

static void draw_run_title(struct watch_draw *d, struct tui_area area,
                           const struct observe_run *run) {
    struct watch_flow flow = {.area = area, .indent = 1};
    flow.area.rows = 1;
    struct str name = show_fit(watch_run_name(d, run), area.columns / 2);
    struct str what =
        str_format(d->scratch, "%.*s%s%.*s%s%.*s", STR_ARG(run->host), run->host.len ? " " : "",
                   STR_ARG(run->verb), run->verb.len ? " " : "", STR_ARG(name));
    int room = area.columns > 2 * BESIDE_NAME ? area.columns - BESIDE_NAME : BESIDE_NAME;
    watch_flow_add(d, &flow, run_ink(run), "%s", observe_run_state_name(run->state));
    watch_flow_add(d, &flow, SHOW_STRONG, "%.*s", STR_ARG(show_fit(what, room)));
    if (run->standin.len) watch_flow_add(d, &flow, SHOW_WARN, "%.*s", STR_ARG(run->standin));
    bool has_card = run->card >= 0 && run->card < d->view->devices->count;
    if (has_card) {
        watch_flow_add(d, &flow, SHOW_PLAIN, "GPU %d", d->view->devices->cards[run->card].index);
    }
    if (run->batch > 0) {
        bool accumulates = run->accumulation > 1;
        watch_flow_add(d, &flow, SHOW_PLAIN, accumulates ? "batch %lld × %lld" : "batch %lld",
                       (long long)run->batch, (long long)run->accumulation);
    }
    if (run->precision.len) {
        watch_flow_add(d, &flow, SHOW_PLAIN, "%.*s", STR_ARG(run->precision));
    }
    if (run->ranks > 1) watch_flow_add(d, &flow, SHOW_PLAIN, "%lld ranks", (long long)run->ranks);
    watch_flow_add(d, &flow, SHOW_DIM, "step %.*s", STR_ARG(count_text(d, run->steps_done)));
    if (run->alloc_retries > 0) {
        watch_flow_add(d, &flow, SHOW_WARN, "%lld allocation retries",
                       (long long)run->alloc_retries);
    }
}

enum { RUN_TEXT = 34, STEP_LABEL = 18 };
static const struct {
    const char *name;
    int ink;
} phases[STEP_PART_COUNT] = {{"io", TUI_INK_E},        {"copy", TUI_INK_C},
                             {"forward", TUI_INK_A},   {"backward", TUI_INK_B},
                             {"optimizer", TUI_INK_D}, {"other", TUI_INK_F}};

static void draw_run_steps(struct watch_draw *d, struct tui_area area,
                           const struct observe_run *run) {
    const struct step_times *p = &run->phases;
    struct tui_part parts[STEP_PART_COUNT];
    for (int i = 0; i < STEP_PART_COUNT; i++) parts[i] = (struct tui_part){p->ms[i], phases[i].ink};
    tui_put_format(area, 1, 3, SHOW_PLAIN, "step %.*s",
                   STR_ARG(watch_text_number(d, p->total_ms, " ms")));
    int width = area.columns - STEP_LABEL - RUN_TEXT - 2;
    tui_meter(area, 1, STEP_LABEL, width, parts, STEP_PART_COUNT, p->total_ms);
    struct str rate = watch_text_number(d, run->samples_per_s, "/s");
    struct str frugal = watch_text_number(d, run->samples_per_joule, "/J");
    tui_put_field(area, 1, area.columns - RUN_TEXT, RUN_TEXT, SHOW_RIGHT, SHOW_PLAIN,
                  str_format(d->scratch, "samples %.*s · %.*s", STR_ARG(rate), STR_ARG(frugal)));
    struct watch_flow flow = {.area = area, .row = 2, .indent = 3};
    for (int i = 0; i < STEP_PART_COUNT; i++) {
        if (!(p->ms[i] > 0)) continue;
        watch_flow_add(d, &flow, phases[i].ink, "%s %s %.*s", tui_meter_sign(area.canvas, i),
                       phases[i].name, STR_ARG(watch_text_percent(d, p->ms[i] / p->total_ms)));
    }
    if (run->peak_bytes <= 0 && run->predicted_peak_bytes <= 0) return;
    struct str peak = watch_text_bytes(d, run->peak_bytes > 0 ? run->peak_bytes : -1);
    int64_t expected = run->predicted_peak_bytes > 0 ? run->predicted_peak_bytes : -1;
    bool is_over = run->predicted_upper_bytes > 0 && run->peak_bytes > run->predicted_upper_bytes;
    watch_flow_add(d, &flow, is_over ? SHOW_WARN : SHOW_PLAIN, "peak %.*s, predicted %.*s",
                   STR_ARG(peak), STR_ARG(watch_text_bytes(d, expected)));
}

void watch_draw_run(struct watch_draw *d, struct tui_area area, int number) {
    const struct observe_run *run = &d->view->runs[number];
    draw_run_title(d, area, run);
    if (area.rows >= 3 && !isnan(run->phases.total_ms)) draw_run_steps(d, area, run);
}

const struct finding *watch_finding_at(const struct observe_view *view, int n) {
    for (int s = FINDING_PROBLEM; s >= FINDING_WARNING; s--) {
        for (ptrdiff_t i = 0; i < view->findings.count; i++) {
            if ((int)view->findings.items[i].severity == s && n-- == 0)
                return &view->findings.items[i];
        }
    }
    return NULL;
}

int watch_findings_shown(const struct observe_view *view) {
    int count = 0;
    while (watch_finding_at(view, count)) count++;
    return count;
}

struct str watch_finding_text(struct watch_draw *d, const struct finding *f) {
    bool is_of_card = f->card >= 0 && f->card < d->view->devices->count;
    struct buf b = buf_new(d->scratch);
    if (is_of_card) buf_format(&b, "GPU %d, ", d->view->devices->cards[f->card].index);
    buf_add(&b, str_of(say(f->what)));
    if (f->value.len) buf_format(&b, ": %.*s", STR_ARG(f->value));
    return buf_str(&b);
}

// With its evidence, and its remedy where there are two rows.
static void draw_finding(struct watch_draw *d, struct tui_area area, int number) {
    const struct finding *f = watch_finding_at(d->view, number);
    int ink = f->severity == FINDING_PROBLEM ? SHOW_BAD : SHOW_WARN;
    watch_hit_add(d, area, WATCH_HIT_FINDING, number);
    int at = tui_put(area, 0, 0, ink, STR("▲ "));
    at = tui_put(area, 0, at, ink, watch_finding_text(d, f));
    if (f->evidence.len) at = tui_put(area, 0, at, SHOW_DIM, STR(" · "));
    tui_put_field(area, 0, at, area.columns - at, SHOW_LEFT, SHOW_PLAIN, f->evidence);
    if (area.rows < 2) return;
    at = tui_put(area, 1, 2, SHOW_DIM, STR("→ "));
    tui_put_field(area, 1, at, area.columns - at, SHOW_LEFT, SHOW_DIM, f->remedy);
}

// Two rows each where there is room, one else; the last row says how many are left out.
void watch_draw_findings(struct watch_draw *d, struct tui_area area) {
    int count = watch_findings_shown(d->view);
    bool has_remedies = area.rows >= 2 * count || area.rows >= 4;
    for (int i = 0; i < count && area.rows > 0; i++) {
        const struct finding *f = watch_finding_at(d->view, i);
        int rows = has_remedies && f->remedy.len ? 2 : 1;
        bool is_last = i + 1 == count;
        if (area.rows < rows + !is_last && i > 0) {
            tui_put_format(area, 0, 2, SHOW_WARN, "+%d more: f", count - i);
            return;
        }
        draw_finding(d, tui_area_top(&area, rows), i);
    }
}
