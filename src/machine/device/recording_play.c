// SPDX-License-Identifier: Apache-2.0
// A recorded machine's values over time: each GPU's own, then each of its "samples" on top of
// those before it. Everything is looked through when the session is opened, so that a recording
// that is broken somewhere is refused at once. No time ever goes back.
#include "machine/device/device_int.h"

#include "base/json.h"
#include "base/os.h"
#include "base/out.h"

#include <math.h>
#include <string.h>

enum { MS_NS = 1000000, MAX_PROCESSES = 100000 };

// What one object (a GPU's or an instance's) says at a moment.
struct layer {
    const json_t *object;
    size_t next;   // of its samples
    int64_t round; // how often they were played to their end ("repeat_ms")
    struct device_card card;
};

struct session {
    struct device_session common;
    json_t *root;
    int64_t begin_ns;
    bool is_asleep;
    struct played {
        struct layer own, parent;
    } * places;
};

static int kinds_of(const json_t *process) {
    const char *names = json_string_value(json_object_get(process, "type"));
    int all = 0;
    for (int i = 0; names && i < DEVICE_PROCESS_KINDS; i++) {
        if (strstr(names, device_process_kinds[i].name)) all |= device_process_kinds[i].kind;
    }
    return all ? all : DEVICE_COMPUTE;
}

static int read_process(const json_t *object, struct device_process *p, struct fail *why) {
    const char *name = json_string_value(json_object_get(object, "name"));
    *p = device_process_unknown(0);
    p->kinds = kinds_of(object);
    clean_keep(p->name, sizeof p->name, str_of(name));
    int64_t percent = -1;
    if (device_json_number(object, "pid", 0, INT32_MAX, 0, &p->pid, why) ||
        device_json_number(object, "used_bytes", 0, (int64_t)1 << 60, -1, &p->used_bytes, why) ||
        device_json_number(object, "sm_util", 0, 100, -1, &percent, why)) {
        return FAIL_INPUT;
    }
    if (percent >= 0) p->utilisation = (double)percent / 100;
    return 0;
}

// null: not told from now on.
static int read_processes(const json_t *object, struct device_card *card, struct fail *why) {
    const json_t *list = json_object_get(object, "processes");
    if (!list) return 0;
    card->process_count = card->processes_unlisted = 0;
    card->has_processes = json_is_array(list);
    if (!json_is_array(list) && !json_is_null(list)) {
        return fail_set(why, FAIL_INPUT, "\"processes\" is not a list");
    }
    size_t i;
    const json_t *process;
    json_array_foreach(list, i, process) {
        struct device_process p;
        if (i >= MAX_PROCESSES || read_process(process, &p, why)) {
            return fail_wrap(why, "process %d", (int)i);
        }
        struct device_process *place = device_process_place(card, p.pid, p.used_bytes);
        if (place) *place = p;
    }
    device_processes_sort(card);
    return 0;
}

// The mark that every call of the GPU fails, or hangs.
static void read_calls(const json_t *object, struct device_card *card) {
    const json_t *calls = json_object_get(object, "calls");
    const json_t *all = json_object_get(calls, "*");
    if (!calls) return;
    int code = (int)json_integer_value(json_object_get(all, "code"));
    if (json_integer_value(json_object_get(all, "hang_ms")) >= DEVICE_DEADLINE_MS) {
        code = NVML_TIMEOUT;
    }
    ARENA_AUTO a = {0};
    struct str text = code ? device_code_text(&a, code) : (struct str){0};
    card->state = !code ? DEVICE_ANSWERS : code == NVML_TIMEOUT ? DEVICE_HANGS : DEVICE_LOST;
    clean_keep(card->reason, sizeof card->reason, text);
}

// What is not mentioned stays as it was; null is unknown from now on.
static int read_state(const json_t *object, struct device_card *card, struct fail *why) {
    for (int i = 0; i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        const json_t *group = json_object_get(object, field->group);
        const json_t *value = json_object_get(group, field->key);
        int64_t n = 0;
        if (!value) continue;
        int64_t low = field->least < 0 || strcmp(field->group, "memory") != 0 ? INT64_MIN : 0;
        int64_t high = low ? INT64_MAX : (int64_t)1 << 60;
        if (device_json_number(group, field->key, low, high, -1, &n, why)) return FAIL_INPUT;
        device_field_set(card, field, json_is_null(value) ? (double)NAN : (double)n);
    }
    read_calls(object, card);
    return read_processes(object, card, why);
}

static void read_texts(const json_t *object, struct device_card *card) {
    const struct {
        const char *key;
        char *text;
        size_t size;
    } texts[] = {
        {"pci_bus_id", card->facts.pci_bus_id, sizeof card->facts.pci_bus_id},
        {"vbios", card->facts.vbios, sizeof card->facts.vbios},
    };
    const json_t *facts = json_object_get(object, "facts");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *text = json_string_value(json_object_get(facts, texts[i].key));
        clean_keep(texts[i].text, (ptrdiff_t)texts[i].size, str_of(text));
    }
}

static int begin(struct layer *layer, const json_t *object, struct fail *why) {
    *layer = (struct layer){.object = object, .card = device_card_unknown()};
    layer->card.state = DEVICE_ANSWERS;
    if (read_state(object, &layer->card, why)) return FAIL_INPUT;
    read_texts(object, &layer->card);
    if (json_object_get(object, "mig")) layer->card.facts.mig_mode = 1;
    return 0;
}

// Goes on to the moment.
static int play_once(struct layer *layer, int64_t now_ms, struct fail *why) {
    const json_t *samples = json_object_get(layer->object, "samples");
    for (; layer->next < json_array_size(samples); layer->next++) {
        const json_t *sample = json_array_get(samples, layer->next);
        if (json_integer_value(json_object_get(sample, "at_ms")) > now_ms) return 0;
        if (read_state(sample, &layer->card, why)) {
            return fail_wrap(why, "sample %d", (int)layer->next);
        }
    }
    return 0;
}

static int play(struct layer *layer, int64_t now_ms, struct fail *why) {
    int64_t repeat_ms = json_integer_value(json_object_get(layer->object, "repeat_ms"));
    int64_t round = repeat_ms > 0 ? now_ms / repeat_ms : 0;
    if (round != layer->round) {
        begin(layer, layer->object, NULL); // it went well the first time
        layer->round = round;
    }
    return play_once(layer, repeat_ms > 0 ? now_ms % repeat_ms : now_ms, why);
}

// Counters that go on by themselves.
static void count_on(const struct layer *layer, int64_t now_ms, struct device_card *card) {
    const json_t *rates = json_object_get(layer->object, "per_second");
    const json_t *rounds = json_object_get(layer->object, "per_round");
    for (int i = 0; (rates || rounds) && i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        double per_second = json_number_value(json_object_get(rates, field->key));
        double per_round = json_number_value(json_object_get(rounds, field->key));
        double value = device_field_value(&layer->card, field);
        if ((per_second == 0 && per_round == 0) || isnan(value)) continue;
        double more = per_second * (double)now_ms / 1000 + per_round * (double)layer->round;
        device_field_set(card, field, value / (field->is_whole ? 1 : field->factor) + more);
    }
}

static int check(const json_t *object, struct fail *why) {
    const json_t *sample, *samples = json_object_get(object, "samples");
    size_t i;
    int64_t ms = 0;
    if (samples && !json_is_array(samples)) {
        return fail_set(why, FAIL_INPUT, "\"samples\" is not a list");
    }
    json_array_foreach(samples, i, sample) {
        if (device_json_number(sample, "at_ms", ms, INT32_MAX, ms, &ms, why)) {
            return fail_wrap(why, "sample %d", (int)i);
        }
    }
    struct layer layer;
    int failed = begin(&layer, object, why);
    return failed ? failed : play_once(&layer, INT32_MAX, why);
}

static int open_place(struct recorded recorded, struct played *played, struct fail *why) {
    if (check(recorded.object, why) || begin(&played->own, recorded.object, why)) return FAIL_INPUT;
    if (!recorded.parent) return 0;
    return check(recorded.parent, why) || begin(&played->parent, recorded.parent, why) ? FAIL_INPUT
                                                                                       : 0;
}

static int open_session(struct arena *a, struct session *s, struct fail *why) {
    struct reading r = {.arena = a, .list = &s->common.list};
    if (device_recording_read(&r, s->root, why)) return FAIL_INPUT;
    s->common.is_hanging = r.is_hanging;
    s->common.cuda_version = json_text_at(a, s->root, "cuda_version");
    s->common.is_wsl = json_is_true(json_object_get(s->root, "is_wsl"));
    s->places = arena_new(a, struct played, r.count + 1);
    for (ptrdiff_t i = 0; i < r.count; i++) {
        if (open_place(r.places[i], &s->places[i], why)) return FAIL_INPUT;
    }
    struct device_list asleep = {0};
    s->is_asleep = device_all_asleep(a, s->common.root, &asleep);
    asleep.standin = s->common.list.standin;
    if (s->is_asleep) s->common.list = asleep;
    return 0;
}

int device_recording_open(struct arena *a, const char *machine, struct device_session **ret_session,
                          struct fail *why) {
    const char *path;
    struct session *s = arena_new(a, struct session, 1);
    s->root = device_recording_load(a, machine, &path, why);
    if (!s->root) return FAIL_INPUT;
    s->common.root = str_z(a, str_of(machine));
    if (open_session(a, s, why)) {
        json_decref(s->root);
        return fail_wrap(why, "%s", path);
    }
    s->begin_ns = os_now_ns();
    *ret_session = &s->common;
    return 0;
}

// What the GPU has and its instance does not.
static void inherit(const struct device_card *parent, struct device_card *card) {
    for (int i = 0; i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        if (!field->is_of_card || !isnan(device_field_value(card, field))) continue;
        size_t size = field->is_whole ? sizeof(int64_t) : sizeof(double);
        memcpy((char *)card + field->offset, (const char *)parent + field->offset, size);
    }
    memcpy(card->facts.pci_bus_id, parent->facts.pci_bus_id, sizeof card->facts.pci_bus_id);
    memcpy(card->facts.vbios, parent->facts.vbios, sizeof card->facts.vbios);
    if (parent->state == DEVICE_ANSWERS || card->state != DEVICE_ANSWERS) return;
    card->state = parent->state;
    memcpy(card->reason, parent->reason, sizeof card->reason);
}

static void play_card(struct layer *layer, int64_t now_ms, struct device_card *ret_card) {
    play(layer, now_ms, NULL);
    *ret_card = layer->card;
    count_on(layer, now_ms, ret_card);
}

// What was not asked for; a GPU with a performance monitor tells there what its link carries.
static void leave_out(int asked, struct device_gauges *now) {
    bool is_profiled = (asked & DEVICE_ASK_PROFILE) && !isnan(now->sm_active);
    if (!(asked & DEVICE_ASK_PCIE) && !is_profiled) {
        now->pcie_tx_bytes_s = now->pcie_rx_bytes_s = (double)NAN;
    }
    if (asked & DEVICE_ASK_PROFILE) return;
    now->sm_active = now->sm_occupancy = now->tensor_active = now->dram_active = (double)NAN;
}

void device_recording_sample(struct device_session *session, int place, int asked,
                             struct device_card *card) {
    struct session *s = (struct session *)session;
    struct played *p = &s->places[place];
    double speed = s->common.speed > 0 ? s->common.speed : 1;
    int64_t now_ms = (int64_t)((double)(os_now_ns() - s->begin_ns) * speed / MS_NS);
    if (s->is_asleep) {
        device_say_asleep(card);
        return;
    }
    struct device_card now, parent;
    play_card(&p->own, now_ms, &now);
    if (p->parent.object) play_card(&p->parent, now_ms, &parent);
    if (p->parent.object) inherit(&parent, &now);
    bool has_memory = now.now.total_bytes >= 0;
    if (!has_memory && !p->parent.object) device_unified_memory(s->common.root, &now);
    struct device_card unknown = device_card_unknown();
    if (now.state == DEVICE_LOST) now.now = unknown.now; // as the driver would answer
    if (now.state == DEVICE_HANGS) now.now = card->now;  // the figures of before
    leave_out(asked, &now.now);
    device_card_name(&now, &s->common.list.items[place]);
    for (int i = 0; i < now.process_count; i++) {
        device_process_look(s->common.root, &now.processes[i]);
    }
    *card = now;
}

void device_recording_join(struct device_session *session, const struct device_card *cards,
                           const int *places, struct device_topology *t) {
    const struct session *s = (struct session *)session;
    (void)cards;
    for (int i = 0; i < t->count; i++) {
        const struct played *p = &s->places[places[i]];
        device_topology_read(p->parent.object ? p->parent.object : p->own.object, t, i);
    }
}

void device_recording_close(struct device_session *session) {
    struct session *s = (struct session *)session;
    json_decref(s->root);
    s->root = NULL; // the rest lives in the arena
}
