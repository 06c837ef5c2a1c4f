// SPDX-License-Identifier: Apache-2.0
// The first line: how things are, in one sentence, with its word in front. PROBLEM and WARNING are
// the worst finding; OK says what the GPUs and the first run do; until the rules have looked, the
// sentence stands without a word.
#include "verbs/watch/watch.h"

#include "base/say.h"

#include <math.h>

static const double idle_below = 0.10; // as nvitop's: screen_card.c

int watch_worst_card(const struct observe_view *view) {
    const struct finding *f;
    for (int i = 0; (f = watch_finding_at(view, i)); i++) {
        if (f->card >= 0 && f->card < view->devices->count) return f->card;
    }
    return 0;
}

static double busy_mean(const struct observe_view *view) {
    double sum = 0;
    int count = 0;
    for (int i = 0; i < view->devices->count; i++) {
        double share = view->devices->cards[i].now.utilisation;
        if (isnan(share)) continue;
        sum += share;
        count++;
    }
    return count ? sum / count : (double)NAN;
}

static const struct observe_run *first_run(const struct observe_view *view) {
    for (int i = 0; i < view->run_count; i++) {
        if (view->runs[i].state != OBSERVE_RUN_ENDED) return &view->runs[i];
    }
    return NULL;
}

static struct str calm_text(struct watch_draw *d) {
    int count = d->view->devices->count;
    double busy = busy_mean(d->view);
    struct buf b = buf_new(d->scratch);
    buf_format(&b, count == 1 ? _("%d GPU") : _("%d GPUs"), count);
    if (busy < idle_below)
        buf_add(&b, str_of(_(" idle")));
    else if (!isnan(busy))
        buf_format(&b, _(" %.*s busy"), STR_ARG(watch_text_percent(d, busy)));
    const struct observe_run *run = first_run(d->view);
    if (!run) return buf_str(&b);
    buf_format(&b, " · %.*s", STR_ARG(watch_run_name(d, run)));
    if (run->state != OBSERVE_RUN_STEPS)
        buf_format(&b, " %s", observe_run_state_name(run->state));
    else if (!isnan(run->samples_per_s))
        buf_format(&b, _(" %.*s samples/s"), STR_ARG(watch_text_number(d, run->samples_per_s, "")));
    return buf_str(&b);
}

// The sentence, and behind it, never cut, what else there is.
static void put_sentence(struct tui_area area, int at, struct str text, struct str more) {
    int room = area.columns - at - show_width(more);
    int width = show_width(text) < room ? show_width(text) : room;
    tui_put_field(area, 0, at, width, SHOW_LEFT, SHOW_STRONG, text);
    tui_put(area, 0, at + width, SHOW_DIM, more);
}

static int put_word(struct tui_area area, int ink, const char *word) {
    return tui_put_format(area, 0, 0, ink, "%s  ", say(word));
}

struct str watch_status_text(struct watch_draw *d) {
    const struct finding *worst = watch_finding_at(d->view, 0);
    if (worst) {
        const char *word = worst->severity == FINDING_PROBLEM ? "PROBLEM" : "WARNING";
        return str_format(d->scratch, "%s  %.*s", say(word), STR_ARG(watch_finding_text(d, worst)));
    }
    if (d->view->devices->count == 0) return say_str(STR("only the CPU can be watched here"));
    return str_format(d->scratch, "%s%s%.*s", d->view->is_judged ? say("OK") : "",
                      d->view->is_judged ? "  " : "", STR_ARG(calm_text(d)));
}

void watch_draw_status(struct watch_draw *d, struct tui_area area) {
    const struct finding *worst = watch_finding_at(d->view, 0);
    if (worst) {
        bool is_bad = worst->severity == FINDING_PROBLEM;
        int more = watch_findings_shown(d->view) - 1, ink = is_bad ? SHOW_BAD : SHOW_WARN;
        int at = put_word(area, ink, is_bad ? "PROBLEM" : "WARNING");
        struct str others = more > 0 ? str_format(d->scratch, _("  +%d more: f"), more) : STR("");
        put_sentence(area, at, watch_finding_text(d, worst), others);
        return;
    }
    int at = 0;
    struct str left_out = d->view->devices->left_out;
    if (left_out.len) {
        at = put_word(area, SHOW_BAD, "PROBLEM");
        tui_put_field(area, 0, at, area.columns - at, SHOW_LEFT, SHOW_STRONG, left_out);
        return;
    }
    if (d->view->devices->count == 0 && d->view->devices->state == DEVICE_HANGS) {
        at = put_word(area, SHOW_BAD, "PROBLEM");
        tui_put(area, 0, at, SHOW_STRONG, STR("the driver does not answer"));
        return;
    }
    if (d->view->devices->count == 0)
        at = put_word(area, SHOW_WARN, "NO GPU");
    else if (d->view->is_judged)
        at = put_word(area, SHOW_GOOD, "OK");
    bool is_there = d->view->devices->count > 0;
    int more = is_there && first_run(d->view) ? d->view->run_count + d->view->runs_unlisted - 1 : 0;
    struct str runs =
        str_format(d->scratch, more == 1 ? _("  +%d more run") : _("  +%d more runs"), more);
    put_sentence(area, at, is_there ? calm_text(d) : STR("only the CPU can be watched here"),
                 more > 0 ? runs : STR(""));
}
