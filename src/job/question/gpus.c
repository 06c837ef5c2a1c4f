// SPDX-License-Identifier: Apache-2.0
#include "job/question/question.h"

#include "base/out.h"
#include "base/unit.h"
#include "job/question/question_int.h"
#include "machine/device/device.h"

#include <assert.h>
#include <math.h>

// When nobody names a GPU: one of each tier (seeds of teams with mixed GPUs).
static const char default_team[] = "rtx4090,rtx3080,rtx3060,gtx1080";

// Nothing grows from one batch to the next and no training is lost, so less is kept free than in
// training: teams' scripts run inference with a memory fraction of 0.9.
static const double inference_margin = 0.10;

// Text models have no convolution, and cuDNN is loaded at its first use only. A length that is
// given for a model of images makes it none.
static bool is_of_text(const struct question *q) {
    struct forecast_model found;
    return q->plan.sequence_length > 0 &&
           forecast_timm_model(q->arena, q->plan.model, &found, NULL) <= 0;
}

void question_place(struct question *q, struct gpu gpu, struct forecast_card *ret_card) {
    const struct gpu_software software = {.uses_cudnn = !is_of_text(q),
                                          .uses_nccl = q->plan.ranks > 1};
    struct forecast_card card = {.gpu = gpu,
                                 .others_bytes = q->others_bytes > 0 ? q->others_bytes : 0,
                                 .host_bytes = q->host_bytes};
    double usual = q->plan.inference ? inference_margin : gpu_tier_margin(gpu_tier(&gpu));
    card.margin = isnan(q->margin) ? usual : q->margin;
    gpu_overhead(q->arena, &q->gpus, &gpu, &software, &card.overhead);
    if (q->overhead_bytes > 0) {
        const int64_t said = q->overhead_bytes;
        card.overhead = (struct gpu_overhead){
            .bytes = said, .low_bytes = said, .high_bytes = said, .source = STR("--overhead")};
    }
    question_add_engine(&q->plan, &gpu, &card.overhead);
    *ret_card = card;
}

int question_card(struct question *q, struct str name, int64_t memory_bytes,
                  struct forecast_card *ret_card, struct fail *why) {
    struct gpu_match match = {0};
    if (name.len > 0) {
        int rc = gpu_find(q->arena, &q->gpus, name, &match, why);
        if (rc < 0) return rc;
        if (match.note.len > 0)
            question_say(q, "%.*s: %.*s", STR_ARG(match.gpu->name), STR_ARG(match.note));
    }
    assert(match.gpu || memory_bytes > 0);
    question_place(q, memory_bytes > 0 ? gpu_custom(match.gpu, memory_bytes) : *match.gpu,
                   ret_card);
    return 0;
}

static void add(struct question *q, struct gpu gpu, struct question_gpus *cards) {
    question_place(q, gpu, arena_push(q->arena, &cards->items, &cards->count, &cards->capacity));
}

void question_gpus_every(struct question *q, struct question_gpus *cards) {
    for (ptrdiff_t i = 0; i < q->gpus.count; i++) add(q, q->gpus.gpus[i], cards);
}

static bool tier_named(struct str name, enum gpu_tier *ret_tier) {
    for (int i = 0; i < GPU_TIERS; i++) {
        *ret_tier = (enum gpu_tier)i;
        if (str_is(name, gpu_tier_name(*ret_tier))) return true;
    }
    return false;
}

// Of a tier: the team's GPUs that are of it; where the config names no team, the catalogue's.
static int add_tier(struct question *q, enum gpu_tier tier, struct question_gpus *cards,
                    struct fail *why) {
    struct config_card *team = NULL;
    struct gpu_match match;
    int count = 0, rc = 0;
    if (q->has_config) rc = config_team_read(q->arena, &q->config, &team, &count, why);
    for (int i = 0; rc == 0 && i < count; i++) {
        rc = gpu_find(q->arena, &q->gpus, team[i].card, &match, why);
        if (rc == 0 && gpu_tier(match.gpu) == tier) add(q, *match.gpu, cards);
    }
    for (ptrdiff_t i = 0; rc == 0 && count == 0 && i < q->gpus.count; i++) {
        if (gpu_tier(&q->gpus.gpus[i]) == tier) add(q, q->gpus.gpus[i], cards);
    }
    if (rc < 0 || cards->count > 0) return rc;
    return fail_set(why, FAIL_USAGE, "none of the team's GPUs is in the tier %s",
                    gpu_tier_name(tier));
}

// "8xh100" among names: each of the list is a training of its own.
static bool is_counted(struct str word) {
    struct str name;
    int64_t count;
    return !unit_parse_counted(word, &count, &name) || count > 0;
}

static int counted(struct str name, struct fail *why) {
    fail_set(why, FAIL_USAGE, "--gpus %.*s: this list takes names of GPUs without numbers",
             STR_ARG(name));
    return fail_hint(why, "--ranks N sets over how many GPUs of each name a training runs");
}

int question_gpus_named(struct question *q, const char *names, struct question_gpus *ret_cards,
                        struct fail *why) {
    struct str rest = str_of(names);
    struct question_gpus cards = {0};
    while (rest.p) {
        struct str name = str_trim(str_cut(&rest, ','));
        enum gpu_tier tier;
        if (name.len == 0) continue;
        if (is_counted(name)) return counted(name, why);
        int rc = tier_named(name, &tier)
                     ? add_tier(q, tier, &cards, why)
                     : question_card(
                           q, name, 0,
                           arena_push(q->arena, &cards.items, &cards.count, &cards.capacity), why);
        if (rc < 0) return rc;
    }
    *ret_cards = cards;
    return 0;
}

int question_gpus_of_team(struct question *q, struct question_gpus *ret_cards, struct fail *why) {
    struct config_card *team = NULL;
    int count = 0;
    if (q->has_config) {
        int rc = config_team_read(q->arena, &q->config, &team, &count, why);
        if (rc < 0) return rc;
    }
    if (count == 0) return question_gpus_named(q, default_team, ret_cards, why);
    struct buf names = buf_new(q->arena);
    for (int i = 0; i < count; i++) buf_format(&names, "%.*s,", STR_ARG(team[i].card));
    return question_gpus_named(q, buf_z(&names), ret_cards, why);
}

// Those with the ids, or all: a flag for each of the list.
static int find_asked(struct arena *a, const char *ids, const struct device_list *devices,
                      bool **ret_asked, struct fail *why) {
    int *places = NULL;
    ptrdiff_t count = 0;
    bool *asked = arena_new(a, bool, devices->count + 1);
    int rc = ids ? device_ids_find(a, devices, ids, &places, &count, why) : 0;
    for (ptrdiff_t i = 0; i < count; i++) asked[places[i]] = true;
    for (ptrdiff_t i = 0; !ids && i < devices->count; i++) asked[i] = true;
    *ret_asked = asked;
    return rc;
}

// The catalogue knows the GPU; how much memory it has and who uses it the driver knows better.
static void place_device(struct question *q, const struct device *d, struct forecast_card *card) {
    const struct gpu *known = gpu_of_name(&q->gpus, d->name, d->total_bytes);
    struct gpu gpu = known ? *known : gpu_custom(NULL, d->total_bytes);
    gpu.name = d->name;
    if (known && d->total_bytes > 0 && d->total_bytes != known->total_bytes) {
        gpu.usable_bytes += d->total_bytes - known->total_bytes;
        gpu.total_bytes = d->total_bytes;
    }
    question_place(q, gpu, card);
    if (q->others_bytes == 0 && d->used_bytes > 0) card->others_bytes = d->used_bytes;
}

// "python, pid 4242 and 2 more", of those that hold the most; empty: the driver does not tell.
static struct str holders_of(struct arena *a, const struct device_card *card) {
    const struct device_process *most = NULL;
    for (int i = 0; i < card->process_count; i++) {
        const struct device_process *p = &card->processes[i];
        if (!most || p->used_bytes > most->used_bytes) most = p;
    }
    if (!most) return (struct str){0};
    int more = card->process_count + card->processes_unlisted - 1;
    struct buf text = buf_new(a);
    struct str name = clean_text(a, str_of(most->name[0] ? most->name : "a program"));
    buf_format(&text, "%.*s, pid %lld", STR_ARG(name), (long long)most->pid);
    if (more > 0) buf_format(&text, " and %d more", more);
    return buf_str(&text);
}

// Who holds the memory is asked only where so much is held that it is worth a word.
static void name_holders(struct question *q, const char *machine, const struct device_list *devices,
                         const bool *asked, struct question_gpus *cards) {
    struct device_snapshot now = {0};
    bool is_busy = false;
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        const struct forecast_card *card = &cards->items[i];
        is_busy = is_busy || card->others_bytes > card->gpu.usable_bytes / 20;
    }
    if (q->others_bytes != 0 || !is_busy) return; // the user says what they hold
    if (device_snapshot_take(q->arena, machine, &now, NULL) < 0) return;
    for (ptrdiff_t i = 0, at = 0; i < devices->count && i < now.count; i++) {
        if (!asked[i]) continue;
        struct forecast_card *card = &cards->items[at++];
        if (card->others_bytes > 0) card->others = holders_of(q->arena, &now.cards[i]);
    }
}

// The memory of the machine that the GPUs are in, as far as the control group lets it be used.
static void place_on_host(const struct question *q, const char *machine, ptrdiff_t gpus,
                          struct question_gpus *cards) {
    struct device_cpu cpu;
    device_cpu_read(q->arena, machine ? machine : "", &cpu);
    for (ptrdiff_t i = 0; i < cards->count; i++) {
        struct forecast_card *card = &cards->items[i];
        card->host_gpus = gpus;
        if (card->host_bytes == 0 && cpu.total_bytes > 0) card->host_bytes = cpu.total_bytes;
    }
}

int question_gpus_here(struct question *q, const char *ids, const char *machine,
                       struct question_gpus *ret_cards, struct fail *why) {
    struct device_list devices;
    struct question_gpus cards = {0};
    bool *asked = NULL;
    int rc = device_list(q->arena, machine, &devices, why);
    if (rc == 0) rc = find_asked(q->arena, ids, &devices, &asked, why);
    if (rc != 0) return rc;
    struct str note = device_standin_note(q->arena, devices.standin);
    if (note.len > 0) question_note(q, note);
    for (ptrdiff_t i = 0; i < devices.count; i++) {
        if (!asked[i]) continue;
        place_device(q, &devices.items[i],
                     arena_push(q->arena, &cards.items, &cards.count, &cards.capacity));
    }
    place_on_host(q, machine, devices.count, &cards);
    name_holders(q, machine, &devices, asked, &cards);
    if (devices.count == 0)
        question_say(q, "no GPU in this machine (%.*s)", STR_ARG(devices.why_none));
    *ret_cards = cards;
    return 0;
}

int question_gpu_of_place(struct question *q, const struct launch_place *place, const char *machine,
                          struct forecast_card *ret_card, struct fail *why) {
    struct question_gpus cards = {0};
    bool is_whole = place->kind == LAUNCH_CUDA && !place->is_capped;
    int rc = is_whole ? question_gpus_here(q, NULL, machine, &cards, why) : 0;
    if (rc < 0) return rc;
    if (cards.items && cards.count > place->card) {
        *ret_card = cards.items[place->card];
    } else {
        question_place(q, gpu_custom(NULL, place->capacity_bytes), ret_card);
        ret_card->gpu.name = place->name;
    }
    return 0;
}
