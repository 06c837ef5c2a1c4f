// SPDX-License-Identifier: Apache-2.0
// A recorded machine as a back end: MACHINE/devices.json, described in doc/formats/machine.md. It
// says what the driver would answer, so a recording and the fake driver that plays it give the
// same list.
#include "machine/device/device_int.h"

#include "base/json.h"
#include "base/os.h"

enum { MAX_DEVICES = 1024 };
static const int64_t max_bytes = (int64_t)1 << 60;

// A whole number between low and high; `absent` where the key is missing or null.
int device_json_number(const json_t *object, const char *key, int64_t low, int64_t high,
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

// What the driver's function answered on the recorded machine; 0 where nothing is noted.
static int code_of(const json_t *object, const char *function) {
    const json_t *call = json_object_get(json_object_get(object, "calls"), function);
    if (json_integer_value(json_object_get(call, "hang_ms")) >= DEVICE_DEADLINE_MS) {
        return NVML_TIMEOUT;
    }
    return (int)json_integer_value(json_object_get(call, "code"));
}

static int read_device(struct reading *r, const json_t *object, int index, const json_t *parent,
                       struct fail *why) {
    struct device d = {.index = index, .is_mig = parent != NULL};
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
        if (device_json_number(memory, keys[i].key, 0, max_bytes, -1, keys[i].bytes, why))
            return FAIL_INPUT;
    }
    d.name = json_text_at(r->arena, object, "name");
    d.uuid = json_text_at(r->arena, object, "uuid");
    if (d.name.len == 0) return fail_set(why, FAIL_INPUT, "GPU %d has no name", index);
    struct device_list *list = r->list;
    *arena_push(r->arena, &list->items, &list->count, &list->capacity) = d;
    *arena_push(r->arena, &r->places, &r->count, &r->capacity) = (struct recorded){object, parent};
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
    if (!instances) return read_device(r, object, position, NULL, why);
    size_t i;
    const json_t *instance;
    json_array_foreach(instances, i, instance) {
        if (read_device(r, instance, position, object, why)) return FAIL_INPUT;
    }
    if (i == 0) {
        device_leave_out(r->arena, r->list, position, STR("MIG is on, but there are no instances"));
    }
    return 0;
}

int device_recording_read(struct reading *r, const json_t *machine, struct fail *why) {
    int64_t version = 0;
    if (device_json_number(machine, "machine", 1, INT32_MAX, 0, &version, why)) return FAIL_INPUT;
    if (version != 1) {
        return fail_set(why, FAIL_INPUT, "\"machine\" is %lld; this program reads version 1",
                        (long long)version);
    }
    r->list->standin = json_text_at(r->arena, machine, "standin");
    int code = code_of(machine, "nvmlInit_v2");
    if (code) {
        r->list->why_none = device_code_text(r->arena, code);
        r->list->driver_is_absent = code == NVML_NO_LIBRARY;
        r->is_hanging = code == NVML_TIMEOUT;
        return 0;
    }
    r->list->driver_version = json_text_at(r->arena, machine, "driver_version");
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
json_t *device_recording_load(struct arena *a, const char *machine, const char **ret_path,
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
    json_t *root = device_recording_load(a, machine, &path, why);
    if (!root) return FAIL_INPUT;
    struct reading r = {.arena = a, .list = list};
    int failed = device_recording_read(&r, root, why);
    json_decref(root);
    return failed ? fail_wrap(why, "%s", path) : 0;
}
