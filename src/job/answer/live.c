// SPDX-License-Identifier: Apache-2.0
// explain's page carries its tape, and two scripts that replay it at the batch that the reader
// drags to. What they need to know beside the tape is one JSON document.
#include "base/data.h"
#include "base/json.h"
#include "job/answer/answer_int.h"

// A page that people send each other: the longest tape is about 3 MB of it.
enum { LIVE_EVENTS_MOST = 100000, LIVE_TIMES = 4, LIVE_BATCH_LEAST = 8 };

static const char *const script_names[] = {"web/page/replay.js", "web/page/memory.js"};

// The scripts know the default allocator and expandable segments.
static bool is_known(const struct sim_options *o) {
    const struct sim_options plain = sim_options_default();
    for (int i = 0; i < 16; i++) {
        if (o->roundup_divisions[i] > 1) return false;
    }
    return o->max_split_bytes == plain.max_split_bytes && !(o->memory_fraction > 0) &&
           o->large_segment_bytes == plain.large_segment_bytes;
}

struct answer_live answer_live_of(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    struct answer_live live = {
        .answer = answer,
        .tape = forecast_tape_known(&answer->forecast, p->batch, p->accumulation)};
    if (!is_known(&answer->forecast.cache->options))
        live.silent = "these allocator options are not simulated in the browser";
    else if (live.tape->tape->event_count > LIVE_EVENTS_MOST)
        live.silent = "its tape is too long for a page";
    for (int i = 0; !live.silent && i < 2; i++) {
        const struct data_file *f = data_embedded(script_names[i]);
        live.scripts[live.script_count++] = (struct html_script){data_text(f), f->sha256};
    }
    return live;
}

// A template has another tape for one sample alone.
static void find_range(const struct answer_live *live, int64_t *ret_least, int64_t *ret_most) {
    int64_t batch = live->answer->plan.batch;
    bool has_own_first = live->answer->forecast.shape != NULL;
    *ret_least = has_own_first && batch > 1 ? 2 : 1;
    *ret_most = batch * LIVE_TIMES > LIVE_BATCH_LEAST ? batch * LIVE_TIMES : LIVE_BATCH_LEAST;
    if (has_own_first && batch == 1) *ret_most = 1;
}

void answer_live_section(const struct answer_live *live, struct buf *page) {
    int64_t least, most;
    html_section(page, STR("At another batch"));
    if (live->silent) {
        html_paragraph(page, SHOW_DIM,
                       str_format(page->arena, "Not in this page: %s.", live->silent));
        return;
    }
    find_range(live, &least, &most);
    buf_format(page,
               "<noscript><p class=\"dim\">This part needs JavaScript.</p></noscript>\n"
               "<section id=\"live\" hidden>\n<p class=\"slide\"><label for=\"live-batch\">batch"
               "</label> <input id=\"live-batch\" type=\"range\" min=\"%lld\" max=\"%lld\" "
               "value=\"%lld\"> <output id=\"live-answer\" for=\"live-batch\"></output></p>\n",
               (long long)least, (long long)most, (long long)live->answer->plan.batch);
    buf_add(page,
            STR("<p id=\"live-peak\"></p>\n<canvas id=\"live-map\" class=\"map\" tabindex=\"0\" "
                "role=\"img\" aria-label=\"map of the allocator's memory over the step: a box for "
                "each tensor\"></canvas>\n<p id=\"live-box\" class=\"dim\">A box is a tensor, in "
                "the colours above: point at one. The wheel zooms, dragging moves; keys: arrows, + "
                "and -, 0 for the whole. Grey is held by the allocator and not used."
                "</p>\n</section>\n"));
}

static json_t *tags_json(void) {
    json_t *list = json_array();
    for (int i = 0; i < TAPE_TAG_COUNT; i++) {
        enum tape_tag tag = answer_area_order[i];
        json_array_append_new(list, json_pack("{s:s, s:s}", "tag", tape_tag_names[tag], "title",
                                              answer_tag_titles[tag]));
    }
    return list;
}

static json_t *about_json(const struct answer_live *live) {
    const struct answer *x = live->answer;
    const struct forecast_card *card = &x->card;
    const struct sim_options *options = &x->forecast.cache->options;
    const struct forecast_rules rules = forecast_rules();
    const bool is_corrected = card->correction.runs > 0;
    json_t *shortfalls = json_array();
    for (int i = 0; i < 3; i++) json_array_append_new(shortfalls, json_real(rules.shortfalls[i]));
    return json_pack(
        "{s:I, s:b, s:I, s:i, s:o, s:I, s:f, s:f, s:I, s:I, s:I, s:I, s:o}", "classes",
        (json_int_t)x->plan.classes, "expandable", x->plan.expandable, "device",
        (json_int_t)options->device_bytes, "replays", (int)rules.need_replays, "shortfalls",
        shortfalls, "extra_bytes", (json_int_t)forecast_extra(card, live->tape), "factor",
        is_corrected ? card->correction.factor : 1.0, "fit_factor",
        is_corrected ? card->correction.fit_factor : 1.0, "capacity_bytes",
        (json_int_t)forecast_capacity(card), "budget_bytes", (json_int_t)forecast_budget(card),
        "outside_bytes", (json_int_t)card->overhead.bytes + card->others_bytes, "usable_bytes",
        (json_int_t)card->gpu.usable_bytes, "tags", tags_json());
}

// The tape without what no replay needs: work, and scratch that is a guess.
static struct str lean_text(struct arena *a, const struct tape *t) {
    struct tape lean = *t;
    struct buf text = buf_new(a);
    lean.event_count = 0;
    lean.events = arena_new(a, struct tape_event, t->event_count);
    for (int32_t i = 0; i < t->event_count; i++) {
        uint8_t kind = t->events[i].kind;
        if (kind != TAPE_WORK && kind != TAPE_SCRATCH)
            lean.events[lean.event_count++] = t->events[i];
    }
    tape_write(&lean, &text);
    return buf_str(&text);
}

void answer_live_scripts(const struct answer_live *live, struct buf *page) {
    if (live->silent) return;
    html_data(page, "live-about", json_take(page->arena, about_json(live), JSON_COMPACT));
    html_packed(page, "live-tape", lean_text(page->arena, live->tape->tape));
    for (int i = 0; i < live->script_count; i++) html_script(page, &live->scripts[i]);
}
