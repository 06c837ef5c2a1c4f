// SPDX-License-Identifier: Apache-2.0
// "topology" of a recorded GPU: {"nvlinks": ["switch", 1, "down", ...], "paths": [null, 50, ...],
// "p2p": [null, 0, ...]}; other GPUs by their index.
#include "base/json.h"
#include "machine/device/device_int.h"

#include <string.h>

static const struct {
    int link;
    const char *word;
} words[] = {
    {DEVICE_NVLINK_SWITCH, "switch"},
    {DEVICE_NVLINK_DOWN, "down"},
    {DEVICE_NVLINK_OTHER, "other"},
};
enum { WORDS = sizeof words / sizeof *words };

static int place_of(const struct device_topology *t, int64_t index) {
    for (int i = 0; i < t->count; i++) {
        if (t->spots[i].index == index) return i;
    }
    return DEVICE_NVLINK_OTHER;
}

static int link_of(const struct device_topology *t, const json_t *value) {
    const char *text = json_string_value(value);
    for (int i = 0; text && i < WORDS; i++) {
        if (strcmp(words[i].word, text) == 0) return words[i].link;
    }
    if (text) return DEVICE_NVLINK_OTHER;
    return json_is_integer(value) ? place_of(t, json_integer_value(value)) : DEVICE_NVLINK_NONE;
}

static int number_at(const json_t *object, const char *key, int index, int most) {
    const json_t *value = json_array_get(json_object_get(object, key), (size_t)index);
    bool is_known = json_is_integer(value) && json_integer_value(value) >= 0 &&
                    json_integer_value(value) <= most;
    return is_known ? (int)json_integer_value(value) : -1;
}

void device_topology_read(const json_t *object, struct device_topology *t, int at) {
    const json_t *of = json_object_get(object, "topology"), *links = json_object_get(of, "nvlinks");
    for (size_t i = 0; i < DEVICE_NVLINKS && i < json_array_size(links); i++) {
        t->spots[at].nvlinks[i] = (signed char)link_of(t, json_array_get(links, i));
    }
    for (int i = 0; i < t->count; i++) {
        if (i == at) continue;
        t->pairs[at][i].path = number_at(of, "paths", t->spots[i].index, 50);
        t->pairs[at][i].access = number_at(of, "p2p", t->spots[i].index, 5);
    }
}

static json_t *link_json(const struct device_topology *t, int link) {
    for (int i = 0; i < WORDS; i++) {
        if (words[i].link == link) return json_string(words[i].word);
    }
    return link >= 0 ? json_integer(t->spots[link].index) : json_null();
}

json_t *device_topology_write(const struct device_topology *t, int at) {
    json_t *links = json_array(), *paths = json_array(), *access = json_array();
    int last = DEVICE_NVLINKS;
    while (last > 0 && t->spots[at].nvlinks[last - 1] == DEVICE_NVLINK_NONE) last--;
    for (int i = 0; i < last; i++)
        json_array_append_new(links, link_json(t, t->spots[at].nvlinks[i]));
    for (int i = 0; i < t->count; i++) {
        while ((int)json_array_size(paths) < t->spots[i].index) {
            json_array_append_new(paths, json_null());
            json_array_append_new(access, json_null());
        }
        json_array_append_new(paths, json_count(t->pairs[at][i].path));
        json_array_append_new(access, json_count(t->pairs[at][i].access));
    }
    return json_pack("{s:o, s:o, s:o}", "nvlinks", links, "paths", paths, "p2p", access);
}
