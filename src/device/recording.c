// SPDX-License-Identifier: Apache-2.0
// A recorded machine as a back end: MACHINE/devices.json, described in doc/formats/machine.md. It
// says what the driver would answer, so a recording and the stand-in driver that plays it give the
// same list.
#include "device/device_int.h"

#include "base/os.h"

#include <jansson.h>
#include <math.h>

enum { MAX_DEVICES = 1024, MS_NS = 1000000 };
static const int64_t max_bytes = (int64_t)1 << 60;

struct reading {
    struct arena *arena;
    struct device_list *list;
    const json_t **objects; // of the listed devices, at the same place
    ptrdiff_t count, capacity;
};

// A whole number between low and high; `absent` where the key is missing or null.
static int number_of(const json_t *object, const char *key, int64_t low, int64_t high,
                     int64_t absent, int64_t *ret, struct fail *why) {
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_integer(value) && !json_is_null(value)) {
        return fail_set(why, FAIL_INPUT, "\"%s\" is not a whole number", key);
    }
    int64_t n = json_is_integer(value) ? (int64_t)json_integer_value(value) : absent;
    if (json_is_integer(value) && (n < low || n > high)) {
        return fail_set(why, FAIL_INPUT, "\"%s\" is out of range: %lld", key, (long long)n);
    }
    *ret = n;
    return 0;
}

static struct str text_of(struct arena *a, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return str_copy(a,
                    (struct str){json_string_value(value), (ptrdiff_t)json_string_length(value)});
}

// What the driver's function answered on the recorded machine; 0 where nothing is noted.
static int code_of(const json_t *object, const char *function) {
    const json_t *call = json_object_get(json_object_get(object, "calls"), function);
    if (json_integer_value(json_object_get(call, "hang_ms")) >= DEVICE_DEADLINE_MS) {
        return NVML_TIMEOUT;
    }
    return (int)json_integer_value(json_object_get(call, "code"));
}

static int read_device(struct reading *r, const json_t *object, int index, bool is_mig,
                       struct fail *why) {
    struct device d = {.index = index, .is_mig = is_mig};
    const json_t *memory = json_object_get(object, "memory");
    const struct {
        const char *key;
        int64_t *bytes;
    } keys[] = {
        {"total_bytes", &d.total_bytes},
        {"used_bytes", &d.used_bytes},
        {"reserved_bytes", &d.reserved_bytes},
        {"free_bytes", &d.free_bytes},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (number_of(memory, keys[i].key, 0, max_bytes, -1, keys[i].bytes, why)) return FAIL_INPUT;
    }
    d.name = text_of(r->arena, object, "name");
    d.uuid = text_of(r->arena, object, "uuid");
    if (d.name.len == 0) return fail_set(why, FAIL_INPUT, "card %d has no name", index);
    struct device_list *list = r->list;
    *arena_push(r->arena, &list->items, &list->count, &list->capacity) = d;
    *arena_push(r->arena, &r->objects, &r->count, &r->capacity) = object;
    return 0;
}

static int read_card(struct reading *r, const json_t *object, int position, struct fail *why) {
    if (!json_is_object(object)) {
        return fail_set(why, FAIL_INPUT, "device %d is not an object", position);
    }
    int code = code_of(object, "nvmlDeviceGetHandleByIndex_v2");
    if (code) {
        device_leave_out(r->arena, r->list, position, device_code_text(r->arena, code));
        return 0;
    }
    const json_t *instances = json_object_get(object, "mig");
    if (!instances) return read_device(r, object, position, false, why);
    size_t i;
    const json_t *instance;
    json_array_foreach(instances, i, instance) {
        if (read_device(r, instance, position, true, why)) return FAIL_INPUT;
    }
    if (i == 0) {
        device_leave_out(r->arena, r->list, position, STR("MIG is on, but it has no instance"));
    }
    return 0;
}

static int read_machine(struct reading *r, const json_t *machine, struct fail *why) {
    int64_t version = 0;
    if (number_of(machine, "machine", 1, INT32_MAX, 0, &version, why)) return FAIL_INPUT;
    if (version != 1) {
        return fail_set(why, FAIL_INPUT, "\"machine\" is %lld; this program reads version 1",
                        (long long)version);
    }
    int code = code_of(machine, "nvmlInit_v2");
    if (code) {
        r->list->why_none = device_code_text(r->arena, code);
        return 0;
    }
    r->list->driver_version = text_of(r->arena, machine, "driver_version");
    const json_t *devices = json_object_get(machine, "devices");
    if (!json_is_array(devices)) return fail_set(why, FAIL_INPUT, "\"devices\" is not a list");
    if (json_array_size(devices) > MAX_DEVICES) {
        return fail_set(why, FAIL_INPUT, "more than %d devices", MAX_DEVICES);
    }
    size_t i;
    const json_t *card;
    json_array_foreach(devices, i, card) {
        if (read_card(r, card, (int)i, why)) return FAIL_INPUT;
    }
    return 0;
}

// The machine's object, which the caller drops; NULL with *why.
static json_t *open_machine(struct arena *a, const char *machine, const char **ret_path,
                            struct fail *why) {
    const char *path = *ret_path = str_format(a, "%s/devices.json", machine).p;
    struct str text;
    if (os_read(a, path, 16 << 20, &text, NULL, why)) {
        fail_hint(why, "a recorded machine is a folder with a devices.json");
        return NULL;
    }
    json_error_t where;
    json_t *root =
        json_loadb(text.len ? text.p : "", (size_t)text.len, JSON_REJECT_DUPLICATES, &where);
    if (json_is_object(root)) return root;
    json_decref(root);
    fail_set(why, FAIL_INPUT, "%s:%d: %s", path, root ? 1 : where.line,
             root ? "not an object" : where.text);
    return NULL;
}

int device_recording_list(struct arena *a, const char *machine, struct device_list *list,
                          struct fail *why) {
    const char *path;
    json_t *root = open_machine(a, machine, &path, why);
    if (!root) return FAIL_INPUT;
    struct reading r = {.arena = a, .list = list};
    int failed = read_machine(&r, root, why);
    json_decref(root);
    return failed ? fail_wrap(why, "%s", path) : 0;
}

// Values over time: the card's own, then each of its "samples" on top of those before it.
struct state {
    int64_t at_ns; // since the session began
    struct device_sample sample;
};
struct device_session {
    int64_t begin_ns;
    struct state *states;
    ptrdiff_t count, capacity;
};

static const struct {
    const char *key;
    size_t field;
} memory_keys[] = {
    {"total_bytes", offsetof(struct device_sample, total_bytes)},
    {"used_bytes", offsetof(struct device_sample, used_bytes)},
    {"free_bytes", offsetof(struct device_sample, free_bytes)},
};
// In the driver's units, which are whole numbers.
static const struct {
    const char *key;
    size_t field;
    double factor;
} gauge_keys[] = {
    {"gpu_percent", offsetof(struct device_sample, utilisation), 0.01},
    {"memory_percent", offsetof(struct device_sample, memory_utilisation), 0.01},
    {"power_mw", offsetof(struct device_sample, power_watts), 0.001},
    {"temperature_c", offsetof(struct device_sample, temperature_celsius), 1},
    {"sm_clock_mhz", offsetof(struct device_sample, sm_clock_mhz), 1},
};

// What is not mentioned stays as it was; null is unknown from now on.
static int read_state(const json_t *object, struct device_sample *sample, struct fail *why) {
    const json_t *memory = json_object_get(object, "memory");
    const json_t *gauges = json_object_get(object, "gauges");
    int64_t n = 0;
    for (size_t i = 0; i < sizeof memory_keys / sizeof *memory_keys; i++) {
        if (!json_object_get(memory, memory_keys[i].key)) continue;
        if (number_of(memory, memory_keys[i].key, 0, max_bytes, -1, &n, why)) return FAIL_INPUT;
        *(int64_t *)((char *)sample + memory_keys[i].field) = n;
    }
    for (size_t i = 0; i < sizeof gauge_keys / sizeof *gauge_keys; i++) {
        const json_t *value = json_object_get(gauges, gauge_keys[i].key);
        if (!value) continue;
        if (number_of(gauges, gauge_keys[i].key, INT32_MIN, INT32_MAX, 0, &n, why)) {
            return FAIL_INPUT;
        }
        double known = (double)n * gauge_keys[i].factor;
        *(double *)(void *)((char *)sample + gauge_keys[i].field) =
            json_is_null(value) ? (double)NAN : known;
    }
    return 0;
}

static int read_states(struct arena *a, const json_t *object, struct device_session *s,
                       struct fail *why) {
    struct state now = {.sample = device_sample_unknown()};
    if (read_state(object, &now.sample, why)) return FAIL_INPUT;
    *arena_push(a, &s->states, &s->count, &s->capacity) = now;
    size_t i;
    const json_t *sample, *samples = json_object_get(object, "samples");
    if (samples && !json_is_array(samples)) {
        return fail_set(why, FAIL_INPUT, "\"samples\" is not a list");
    }
    json_array_foreach(samples, i, sample) {
        int64_t ms, before = now.at_ns / MS_NS;
        if (number_of(sample, "at_ms", before, INT32_MAX, before, &ms, why)) {
            return fail_wrap(why, "sample %d", (int)i);
        }
        now.at_ns = ms * MS_NS;
        if (read_state(sample, &now.sample, why)) return fail_wrap(why, "sample %d", (int)i);
        *arena_push(a, &s->states, &s->count, &s->capacity) = now;
    }
    return 0;
}

static int open_session(struct arena *a, const json_t *root, int card, struct device_session *s,
                        struct fail *why) {
    struct device_list list = {0};
    struct reading r = {.arena = a, .list = &list};
    if (read_machine(&r, root, why)) return FAIL_INPUT;
    if (card < 0 || card >= r.count) return device_no_card(card, &list, why);
    return read_states(a, r.objects[card], s, why);
}

int device_recording_open(struct arena *a, const char *machine, int card,
                          struct device_session **ret_session, struct fail *why) {
    const char *path;
    json_t *root = open_machine(a, machine, &path, why);
    if (!root) return FAIL_INPUT;
    struct device_session *s = arena_new(a, struct device_session, 1);
    int failed = open_session(a, root, card, s, why);
    json_decref(root);
    if (failed) return fail_wrap(why, "%s", path), failed;
    s->begin_ns = os_now_ns();
    *ret_session = s;
    return 0;
}

void device_recording_sample(struct device_session *s, struct device_sample *sample) {
    int64_t elapsed_ns = os_now_ns() - s->begin_ns;
    ptrdiff_t i = s->count - 1;
    while (i > 0 && s->states[i].at_ns > elapsed_ns) i--;
    *sample = s->states[i].sample;
}

void device_recording_close(struct device_session *s) {
    s->count = 0; // it lives in the arena
}
