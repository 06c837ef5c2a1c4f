// SPDX-License-Identifier: Apache-2.0
// Writes the folder of a recorded machine (doc/formats/machine.md) from what a monitor sees. What
// names a GPU or a person does not get into it: uuids are numbered, and of processes there is the
// program's name alone. /proc and /sys are copied by a list of files, and of cpuinfo the CPU's name
// and the cores.
#include "machine/device/device_int.h"

#include "base/json.h"
#include "base/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MS_NS = 1000000, UNTIL_HANGS_MS = 60000, TEXT_MAX = 1 << 20 };

static json_t *whole_of(double value) {
    return isnan(value) ? json_null() : json_integer((json_int_t)llround(value));
}

static json_t *group_of(json_t *object, const char *name) {
    json_t *group = json_object_get(object, name);
    if (group) return group;
    json_object_set_new(object, name, json_object());
    return json_object_get(object, name);
}

enum part { ALL, OF_CARD, OF_INSTANCE };

// The numbers that are known, or, with `before`, those that changed since.
static void write_fields(const struct device_card *card, const struct device_card *before,
                         enum part part, json_t *object) {
    for (int i = 0; i < device_field_count; i++) {
        const struct device_field *field = &device_fields[i];
        double now = device_field_value(card, field);
        double then = before ? device_field_value(before, field) : (double)NAN;
        bool is_other_part = part != ALL && field->is_of_card != (part == OF_CARD);
        bool is_shared = card->is_unified && strcmp(field->group, "memory") == 0;
        bool is_same = (isnan(now) && isnan(then)) || now == then;
        if (is_other_part || is_shared || is_same) continue;
        json_object_set_new(group_of(object, field->group), field->key,
                            whole_of(now / (field->is_whole ? 1 : field->factor)));
    }
}

static const struct {
    int kinds;
    const char *text;
} kind_texts[] = {
    {DEVICE_COMPUTE, "compute"},
    {DEVICE_GRAPHICS, "graphics"},
    {DEVICE_MPS, "mps"},
    {DEVICE_COMPUTE | DEVICE_GRAPHICS, "compute graphics"},
    {DEVICE_COMPUTE | DEVICE_MPS, "compute mps"},
};

static const char *kinds_of(const struct device_process *p) {
    for (size_t i = 0; i < sizeof kind_texts / sizeof *kind_texts; i++) {
        if (kind_texts[i].kinds == p->kinds) return kind_texts[i].text;
    }
    return "compute graphics mps";
}

// In what is written of them.
static bool are_same(const struct device_card *x, const struct device_card *y) {
    bool is_same = x->has_processes == y->has_processes && x->process_count == y->process_count;
    for (int i = 0; is_same && i < x->process_count; i++) {
        const struct device_process *p = &x->processes[i], *q = &y->processes[i];
        bool is_as_busy =
            p->utilisation == q->utilisation || (isnan(p->utilisation) && isnan(q->utilisation));
        is_same = p->pid == q->pid && p->used_bytes == q->used_bytes && p->kinds == q->kinds &&
                  is_as_busy && strcmp(p->name, q->name) == 0;
    }
    return is_same;
}

static void write_processes(const struct device_card *card, const struct device_card *before,
                            json_t *object) {
    bool is_same = before && are_same(before, card);
    if (is_same || (!before && !card->has_processes)) return;
    json_t *list = card->has_processes ? json_array() : json_null();
    for (int i = 0; i < card->process_count; i++) {
        const struct device_process *p = &card->processes[i];
        json_t *made = json_pack("{s:I, s:s, s:s, s:o}", "pid", (json_int_t)p->pid, "name", p->name,
                                 "type", kinds_of(p), "used_bytes", json_count(p->used_bytes));
        if (!isnan(p->utilisation)) {
            json_object_set_new(made, "sm_util", json_integer(lround(p->utilisation * 100)));
        }
        json_array_append_new(list, made);
    }
    json_object_set_new(object, "processes", list);
}

static json_t *every_call(int code) {
    return code == NVML_TIMEOUT ? json_pack("{s:{s:i}}", "*", "hang_ms", UNTIL_HANGS_MS)
                                : json_pack("{s:{s:i}}", "*", "code", code);
}

static void write_state(const struct device_card *card, const struct device_card *before,
                        json_t *object) {
    enum device_state then = before ? before->state : DEVICE_ANSWERS;
    bool is_bad = card->state == DEVICE_LOST || card->state == DEVICE_HANGS;
    bool was_bad = then == DEVICE_LOST || then == DEVICE_HANGS;
    int code = card->state == DEVICE_HANGS ? NVML_TIMEOUT : device_code_of(str_of(card->reason));
    if (is_bad && card->state != then) json_object_set_new(object, "calls", every_call(code));
    if (was_bad && !is_bad) json_object_set_new(object, "calls", json_object());
}

static void write_texts(const struct device_card *card, json_t *object) {
    const char *bus = card->facts.pci_bus_id, *vbios = card->facts.vbios;
    if (*bus) json_object_set_new(group_of(object, "facts"), "pci_bus_id", json_string(bus));
    if (*vbios) json_object_set_new(group_of(object, "facts"), "vbios", json_string(vbios));
}

static void write_name(const char *name, size_t length, const char *kind, int number, bool has_uuid,
                       json_t *object) {
    char uuid[64];
    snprintf(uuid, sizeof uuid, "%s-00000000-0000-0000-0000-%012d", kind, number);
    json_object_set_new(object, "name", json_stringn(name, length));
    if (has_uuid) json_object_set_new(object, "uuid", json_string(uuid));
}

// What is noted while recording: the snapshots' GPUs, at the same place.
struct recorder {
    struct arena *arena;
    json_t *root;
    json_t **objects, **parents; // parents: NULL, except for instances
    struct device_card *before;
    int count, instances;
};

static void write_card(struct recorder *r, const struct device_card *card, json_t *object) {
    bool has_uuid = card->facts.uuid[0] != 0;
    write_name(card->facts.name, strlen(card->facts.name), "GPU", card->index + 1, has_uuid,
               object);
    write_texts(card, object);
    write_fields(card, NULL, ALL, object);
    write_processes(card, NULL, object);
    write_state(card, NULL, object);
    (void)r;
}

// The GPU of an instance is known by its instances alone.
static json_t *write_instance(struct recorder *r, const struct device_card *card, json_t *parent) {
    const char *name = card->facts.name, *end = strstr(name, " MIG ");
    bool has_uuid = card->facts.uuid[0] != 0;
    json_t *instance = json_object();
    if (!json_object_get(parent, "mig")) {
        size_t length = end ? (size_t)(end - name) : strlen(name);
        write_name(name, length, "GPU", card->index + 1, has_uuid, parent);
        write_texts(card, parent);
        write_fields(card, NULL, OF_CARD, parent);
        write_state(card, NULL, parent);
        json_object_set_new(parent, "mig", json_array());
    }
    write_name(name, strlen(name), "MIG", ++r->instances, has_uuid, instance);
    write_fields(card, NULL, OF_INSTANCE, instance);
    write_processes(card, NULL, instance);
    json_array_append_new(json_object_get(parent, "mig"), instance);
    return instance;
}

static json_t *card_at(json_t *devices, int index) {
    while ((int)json_array_size(devices) <= index) json_array_append_new(devices, json_object());
    return json_array_get(devices, (size_t)index);
}

// "card 1: reason; GPU 3: reason": a GPU that is there and cannot be opened.
static void write_left_out(struct arena *a, struct str left_out, json_t *devices) {
    for (int index = 0; index < 64; index++) {
        struct str begin = str_format(a, "GPU %d: ", index);
        ptrdiff_t at = str_find(left_out, begin);
        if (at < 0) continue;
        struct str reason = str_slice(left_out, at + begin.len, left_out.len);
        json_t *card = card_at(devices, index);
        if (str_starts(reason, STR("MIG is on"))) {
            json_object_set_new(card, "mig", json_array());
            continue;
        }
        json_object_set_new(card, "calls",
                            json_pack("{s:{s:i}}", "nvmlDeviceGetHandleByIndex_v2", "code",
                                      device_code_of(reason)));
    }
}

static void write_machine(struct recorder *r, const struct device_snapshot *s) {
    json_t *devices = json_array();
    r->root = json_pack("{s:i, s:s, s:o}", "machine", 1, "note",
                        "recorded by batchfit " BATCHFIT_VERSION, "devices", devices);
    if (s->driver_version.len) {
        json_object_set_new(r->root, "driver_version",
                            json_stringn(s->driver_version.p, (size_t)s->driver_version.len));
    }
    if (s->cuda_version.len) {
        json_object_set_new(r->root, "cuda_version",
                            json_stringn(s->cuda_version.p, (size_t)s->cuda_version.len));
    }
    if (s->is_wsl) json_object_set_new(r->root, "is_wsl", json_true());
    for (int i = 0; i < s->count; i++) {
        json_t *card = card_at(devices, s->cards[i].index);
        if (s->cards[i].is_mig) r->parents[i] = card;
        r->objects[i] = s->cards[i].is_mig ? write_instance(r, &s->cards[i], card) : card;
        if (!s->cards[i].is_mig) write_card(r, &s->cards[i], card);
    }
    for (int i = 0; s->topology.count > 1 && i < s->topology.count; i++) {
        json_object_set_new(card_at(devices, s->topology.spots[i].index), "topology",
                            device_topology_write(&s->topology, i));
    }
    bool is_of_card = str_starts(s->why_none, STR("GPU "));
    write_left_out(r->arena, is_of_card ? s->why_none : s->left_out, devices);
    int code = s->state == DEVICE_HANGS ? NVML_TIMEOUT : device_code_of(s->why_none);
    if (s->count || is_of_card || str_is(s->why_none, "the NVIDIA driver found no GPU")) return;
    json_object_set_new(r->root, "calls",
                        code == NVML_TIMEOUT
                            ? json_pack("{s:{s:i}}", "nvmlInit_v2", "hang_ms", UNTIL_HANGS_MS)
                            : json_pack("{s:{s:i}}", "nvmlInit_v2", "code", code));
}

static void append_sample(json_t *object, int64_t at_ms, json_t *sample) {
    if (json_object_size(sample) == 0) {
        json_decref(sample);
        return;
    }
    if (!json_object_get(object, "samples")) json_object_set_new(object, "samples", json_array());
    json_object_set_new(sample, "at_ms", json_integer(at_ms));
    json_array_append_new(json_object_get(object, "samples"), sample);
}

static void write_sample(struct recorder *r, const struct device_snapshot *s, int64_t at_ms) {
    for (int i = 0; i < s->count && i < r->count; i++) {
        const struct device_card *now = &s->cards[i], *before = &r->before[i];
        bool is_instance = r->parents[i] != NULL;
        bool is_first = is_instance && (i == 0 || r->parents[i - 1] != r->parents[i]);
        json_t *own = json_object(), *cards = json_object();
        write_fields(now, before, is_instance ? OF_INSTANCE : ALL, own);
        write_processes(now, before, own);
        if (is_first) write_fields(now, before, OF_CARD, cards);
        write_state(now, before, is_instance ? cards : own);
        append_sample(r->objects[i], at_ms, own);
        if (is_first)
            append_sample(r->parents[i], at_ms, cards);
        else
            json_decref(cards);
        r->before[i] = *now;
    }
}

static int write_file(struct arena *a, const char *folder, const char *path, struct str text,
                      struct fail *why) {
    const char *whole = str_format(a, "%s/%s", folder, path).p;
    int failed = os_make_dirs(a, str_z(a, os_parent(str_of(whole))), why);
    return failed ? failed : os_replace(a, whole, text, NULL, why);
}

// Files of /proc and /sys that a reader of the recording looks into. Of those with a key only the
// first line that begins with it, and all that begin with `each`.
static const struct {
    const char *path, *key, *each;
} system_files[] = {
    {"proc/meminfo", NULL, NULL},
    {"proc/cpuinfo", "model name", "processor"}, // a line a core
    {"proc/loadavg", NULL, NULL},
    {"sys/fs/cgroup/memory.max", NULL, NULL},
    {"sys/fs/cgroup/memory.current", NULL, NULL},
    {"sys/fs/cgroup/memory/memory.limit_in_bytes", NULL, NULL},
    {"sys/fs/cgroup/memory/memory.usage_in_bytes", NULL, NULL},
};

static struct str lines_of(struct arena *a, struct str text, const char *key, const char *each) {
    struct buf b = buf_new(a);
    bool has_key = false;
    while (text.p) {
        struct str line = str_line(&text);
        bool is_first = !has_key && str_starts(line, str_of(key));
        if (!is_first && !str_starts(line, str_of(each))) continue;
        has_key = has_key || is_first;
        buf_format(&b, "%.*s\n", STR_ARG(line));
    }
    return buf_str(&b);
}

static int copy_system(struct arena *a, const char *root, const char *folder, struct fail *why) {
    for (size_t i = 0; i < sizeof system_files / sizeof *system_files; i++) {
        const char *path = str_format(a, "%s/%s", root, system_files[i].path).p;
        const char *key = system_files[i].key;
        struct str text;
        if (os_read(a, path, TEXT_MAX, &text, NULL, NULL)) continue; // this machine has none
        if (key) text = lines_of(a, text, key, system_files[i].each);
        int failed = write_file(a, folder, system_files[i].path, text, why);
        if (failed) return failed;
    }
    return 0;
}

// A GPU that sleeps is seen in /sys alone; the bus numbers are made up.
static int write_sleepers(struct arena *a, const struct device_snapshot *s, const char *folder,
                          struct fail *why) {
    for (int i = 0; i < s->count; i++) {
        if (s->cards[i].state != DEVICE_ASLEEP) continue;
        const char *bus = str_format(a, "0000:%02x:00.0", i + 1).p;
        const char *at = str_format(a, "sys/bus/pci/devices/%s", bus).p;
        const struct {
            const char *path;
            struct str text;
        } files[] = {
            {str_format(a, "%s/vendor", at).p, STR("0x10de\n")},
            {str_format(a, "%s/class", at).p, STR("0x030000\n")},
            {str_format(a, "%s/power/runtime_status", at).p, STR("suspended\n")},
            {str_format(a, "proc/driver/nvidia/gpus/%s/information", bus).p,
             str_format(a, "Model: \t\t %s\n", s->cards[i].facts.name)},
            {"proc/driver/nvidia/version",
             str_format(a, "NVRM version: NVIDIA UNIX Kernel Module  %.*s\n",
                        STR_ARG(s->driver_version))},
        };
        for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
            int failed = write_file(a, folder, files[f].path, files[f].text, why);
            if (failed) return failed;
        }
    }
    return 0;
}

// Which NUMA node a GPU is at, and its cores.
static int write_near(struct recorder *r, const struct device_snapshot *s, const char *root,
                      const char *folder, struct fail *why) {
    static const char *const names[] = {"numa_node", "local_cpulist"};
    int failed = 0;
    for (int i = 0; !failed && i < 2 * s->count; i++) {
        const char *bus = s->cards[i / 2].facts.pci_bus_id, *name = names[i % 2];
        char text[64], id[32];
        if (!device_pci_text(root, bus, name, text, sizeof text)) continue;
        device_pci_id(bus, id, sizeof id);
        const char *path = str_format(r->arena, "sys/bus/pci/devices/%s/%s", id, name).p;
        failed = write_file(r->arena, folder, path, str_format(r->arena, "%s\n", text), why);
    }
    return failed;
}

static void watch(struct recorder *r, struct device_monitor *m, int duration_ms, int interval_ms) {
    int64_t begin = os_now_ns(), end = begin + (int64_t)duration_ms * MS_NS;
    while (os_now_ns() < end) {
        ARENA_AUTO a = {0};
        struct device_snapshot snapshot;
        usleep((useconds_t)interval_ms * 1000);
        device_monitor_read(&a, m, &snapshot);
        write_sample(r, &snapshot, (os_now_ns() - begin) / MS_NS);
    }
}

static int write_folder(struct recorder *r, const struct device_snapshot *first, const char *root,
                        const char *folder, struct fail *why) {
    struct str text = json_bytes(r->arena, r->root, JSON_INDENT(1));
    if (text.len == 0) return fail_set(why, FAIL_BUG, "the machine cannot be recorded");
    struct str whole = str_format(r->arena, "%.*s\n", STR_ARG(text));
    int failed = write_file(r->arena, folder, "devices.json", whole, why);
    if (!failed) failed = copy_system(r->arena, root, folder, why);
    if (!failed) failed = write_near(r, first, root, folder, why);
    return failed ? failed : write_sleepers(r->arena, first, folder, why);
}

int device_record(struct arena *a, const char *machine, const char *folder, int duration_ms,
                  int interval_ms, struct fail *why) {
    struct device_watching how = {.interval_ms = interval_ms > 0 ? interval_ms : 1000,
                                  .wants_topology = true};
    struct device_monitor *m;
    struct device_snapshot first;
    int failed = device_monitor_open(a, machine, &how, &m, why);
    if (failed) return failed;
    device_monitor_read(a, m, &first);
    struct recorder r = {
        .arena = a,
        .objects = arena_new(a, json_t *, first.count + 1),
        .parents = arena_new(a, json_t *, first.count + 1),
        .before = arena_new(a, struct device_card, first.count + 1),
        .count = first.count,
    };
    for (int i = 0; i < first.count; i++) r.before[i] = first.cards[i];
    write_machine(&r, &first);
    watch(&r, m, duration_ms, how.interval_ms);
    failed = write_folder(&r, &first, device_monitor_root(m), folder, why);
    json_decref(r.root);
    device_monitor_close(m);
    return failed;
}
