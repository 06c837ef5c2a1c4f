// SPDX-License-Identifier: Apache-2.0
// AMD GPUs through the files of the kernel's amdgpu driver: /sys/class/drm/cardN/device, its
// hwmon, and the DRM lines of /proc/PID/fdinfo for processes (kernel.org: gpu/amdgpu/thermal,
// gpu/drm-usage-stats). No library is needed and nothing blocks. The unique_id, which is a serial
// number, is not read. A CPU's own graphics (less than 4 GiB of memory of its own) are no
// GPU to train on. The driver's files would wake a GPU that sleeps; it is left alone.
#include "machine/device/device_int.h"

#include "base/os.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 14, PATH = 512 };
static const double least_bytes = 4.0 * (1 << 30);

struct session {
    struct device_session common;
    struct amd_card {
        char folder[PATH], hwmon[PATH]; // hwmon: empty where there is none
        char bus_id[32];                // as /sys has it: "0000:03:00.0"
    } * cards;
    ptrdiff_t count, capacity;
};

static bool text_in(const char *folder, const char *file, char *ret_text, size_t size) {
    char path[PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *f = *folder ? fopen(path, "re") : NULL;
    bool is_read = f && fgets(ret_text, (int)size, f);
    if (f) fclose(f);
    if (!is_read) ret_text[0] = 0;
    ret_text[strcspn(ret_text, "\n")] = 0;
    return is_read;
}

static double number_in(const char *folder, const char *file) {
    char text[64];
    double number;
    bool is_number =
        text_in(folder, file, text, sizeof text) && str_to_double(str_of(text), &number);
    return is_number ? number : (double)NAN;
}

// "16.0 GT/s PCIe": the generation, by the rates of the PCI Express specifications.
static double generation_in(const char *folder, const char *file) {
    static const double rates[] = {2.5, 5, 8, 16, 32, 64};
    char text[64];
    double rate = text_in(folder, file, text, sizeof text) ? strtod(text, NULL) : 0;
    for (int i = 0; i < 6; i++) {
        if (fabs(rates[i] - rate) < 0.1) return i + 1;
    }
    return (double)NAN;
}

static bool is_asleep(const struct amd_card *card) {
    char text[32];
    return text_in(card->folder, "power/runtime_status", text, sizeof text) &&
           strcmp(text, "suspended") == 0;
}

// What one file tells. Where several fill one field, the first that answers does.
static const struct {
    bool is_hwmon;
    const char *file;
    size_t field;
    double factor; // to the unit of device_fields
} files[] = {
#define NOW(name) offsetof(struct device_card, now.name)
#define FACT(name) offsetof(struct device_card, facts.name)
    {false, "mem_info_vram_total", NOW(total_bytes), 1},
    {false, "mem_info_vram_used", NOW(used_bytes), 1},
    {false, "gpu_busy_percent", NOW(utilisation), 1},
    {false, "mem_busy_percent", NOW(memory_utilisation), 1},
    {false, "pcie_replay_count", NOW(pcie_replays), 1},
    {false, "current_link_width", NOW(pcie_width), 1},
    {false, "max_link_width", FACT(pcie_width_max), 1},
    {true, "power1_average", NOW(power_watts), 1e-3}, // uW; newer GPUs have the other
    {true, "power1_input", NOW(power_watts), 1e-3},
    {true, "power1_average", NOW(power_average_watts), 1e-3},
    {true, "power1_input", NOW(power_instant_watts), 1e-3},
    {true, "power1_cap", NOW(power_limit_watts), 1e-3},
    {true, "power1_cap_default", FACT(power_limit_default_watts), 1e-3},
    {true, "power1_cap_min", FACT(power_limit_min_watts), 1e-3},
    {true, "power1_cap_max", FACT(power_limit_max_watts), 1e-3},
    {true, "temp1_input", NOW(temperature_celsius), 1e-3}, // edge
    {true, "temp2_input", NOW(temperature_celsius), 1e-3}, // junction, where there is no edge
    {true, "temp3_input", NOW(memory_temperature_celsius), 1e-3},
    {true, "temp2_crit", FACT(slowdown_celsius), 1e-3},
    {true, "temp3_crit", FACT(memory_max_celsius), 1e-3},
    {true, "freq1_input", NOW(sm_clock_mhz), 1e-6},
    {true, "freq2_input", NOW(memory_clock_mhz), 1e-6},
    {true, "pwm1", NOW(fan), 100.0 / 255},
    {true, "energy1_input", NOW(energy_joules), 1e-3},
};

static void read_files(const struct amd_card *c, struct device_card *card) {
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const struct device_field *field = device_field_at(files[i].field);
        bool is_now = isnan(device_field_value(card, field));
        if (!is_now) continue; // facts stay, once they are known
        double number = number_in(files[i].is_hwmon ? c->hwmon : c->folder, files[i].file);
        device_field_set(card, field, number * files[i].factor);
    }
    device_field_set(card, device_field_at(NOW(pcie_generation)),
                     generation_in(c->folder, "current_link_speed"));
    device_field_set(card, device_field_at(FACT(pcie_generation_max)),
                     generation_in(c->folder, "max_link_speed"));
#undef NOW
#undef FACT
    struct device_gauges *now = &card->now;
    if (now->total_bytes < 0 || now->used_bytes < 0 || now->used_bytes > now->total_bytes) return;
    now->free_bytes = now->total_bytes - now->used_bytes;
}

// Of one open file: the memory that its client has on this GPU. A process may have the same client
// open several times.
struct client {
    bool is_ours;
    long long id, kib;
};

// The number behind the key of a line "KEY:\t123 KiB"; other lines leave it alone.
static void read_number(const char *line, const char *key, long long *ret_number) {
    size_t length = strlen(key);
    char *end = NULL;
    if (strncmp(line, key, length) != 0) return;
    long long number = strtoll(line + length, &end, 10);
    if (end != line + length) *ret_number = number;
}

static struct client read_client(const char *path, const char *bus_id) {
    struct client client = {.id = -1};
    char line[200], text[64];
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "drm-pdev: %63s", text) == 1) client.is_ours = strcmp(text, bus_id) == 0;
        read_number(line, "drm-client-id:", &client.id);
        read_number(line, "drm-memory-vram:", &client.kib);
    }
    if (f) fclose(f);
    return client;
}

static double vram_of(const char *folder, const char *bus_id) {
    long long seen[64];
    int count = 0;
    double kib = (double)NAN;
    DIR *files_of_process = opendir(folder);
    for (const struct dirent *d; files_of_process && (d = readdir(files_of_process));) {
        char path[PATH + 300];
        snprintf(path, sizeof path, "%s/%s", folder, d->d_name);
        struct client c = d->d_name[0] == '.' ? (struct client){0} : read_client(path, bus_id);
        bool is_new = c.is_ours && c.kib > 0 && count < 64;
        for (int i = 0; i < count; i++) is_new = is_new && seen[i] != c.id;
        if (!is_new) continue;
        seen[count++] = c.id;
        kib = isnan(kib) ? (double)c.kib : kib + (double)c.kib;
    }
    if (files_of_process) closedir(files_of_process);
    return kib * 1024;
}

// Those of other users cannot be seen without root; they are missing from the list.
static void read_processes(const char *root, const char *bus_id, struct device_card *card) {
    char all[PATH];
    snprintf(all, sizeof all, "%s/proc", root);
    DIR *processes = opendir(all);
    card->process_count = card->processes_unlisted = 0;
    card->has_processes = processes != NULL;
    for (const struct dirent *d; processes && (d = readdir(processes));) {
        char folder[PATH + 300], fdinfo[PATH + 320];
        long pid = strtol(d->d_name, NULL, 10);
        if (pid <= 0) continue;
        snprintf(folder, sizeof folder, "%s/%s", all, d->d_name);
        snprintf(fdinfo, sizeof fdinfo, "%s/fdinfo", folder);
        double bytes = vram_of(fdinfo, bus_id);
        if (isnan(bytes)) continue;
        struct device_process *p = device_process_place(card, pid, (int64_t)bytes);
        if (!p) continue;
        p->used_bytes = (int64_t)bytes;
        p->kinds = DEVICE_COMPUTE;
        text_in(folder, "comm", p->name, sizeof p->name);
        device_process_look(root, p);
    }
    if (processes) closedir(processes);
}

static void find_hwmon(struct arena *a, struct amd_card *card) {
    struct str *names;
    ptrdiff_t count = 0;
    const char *all = str_format(a, "%s/hwmon", card->folder).p;
    if (os_list(a, all, "", &names, &count, NULL) || count == 0) return;
    snprintf(card->hwmon, sizeof card->hwmon, "%s/%.*s", all, STR_ARG(names[0]));
}

// Server GPUs tell their name; of the others there is the number of the device.
static struct str name_of(struct arena *a, const struct amd_card *card) {
    char text[128];
    if (text_in(card->folder, "product_name", text, sizeof text) && text[0]) {
        return str_copy(a, str_of(text));
    }
    text_in(card->folder, "device", text, sizeof text);
    return str_format(a, "AMD GPU %s", text);
}

static void read_bus_id(struct amd_card *card) {
    char line[200], path[PATH + 16];
    snprintf(path, sizeof path, "%s/uevent", card->folder);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "PCI_SLOT_NAME=%31s", card->bus_id) == 1) break;
    }
    if (f) fclose(f);
}

static void add_card(struct arena *a, struct session *s, const char *folder) {
    struct amd_card card = {0};
    char vendor[16];
    snprintf(card.folder, sizeof card.folder, "%s", folder);
    if (!text_in(folder, "vendor", vendor, sizeof vendor) || strcmp(vendor, "0x1002") != 0) return;
    bool sleeps = is_asleep(&card);
    double total = sleeps ? (double)NAN : number_in(folder, "mem_info_vram_total");
    if (!sleeps && !(total >= least_bytes)) return;
    find_hwmon(a, &card);
    read_bus_id(&card);
    struct device_list *list = &s->common.list;
    *arena_push(a, &list->items, &list->count, &list->capacity) = (struct device){
        .index = (int)s->count,
        .name = sleeps ? STR("AMD GPU") : name_of(a, &card),
        .total_bytes = sleeps ? -1 : (int64_t)total,
        .used_bytes = -1,
        .reserved_bytes = -1,
        .free_bytes = -1,
    };
    *arena_push(a, &s->cards, &s->count, &s->capacity) = card;
}

void device_amd_open(struct arena *a, const char *root, struct device_session **ret_session) {
    struct session *s = arena_new(a, struct session, 1);
    struct str *names;
    ptrdiff_t count = 0;
    const char *all = str_format(a, "%s/sys/class/drm", root).p;
    s->common.root = str_z(a, str_of(root));
    if (os_list(a, all, "", &names, &count, NULL)) count = 0;
    for (ptrdiff_t i = 0; i < count; i++) {
        int64_t number;
        bool is_card = str_starts(names[i], STR("card")) &&
                       str_to_i64(str_slice(names[i], 4, names[i].len), &number);
        if (is_card) add_card(a, s, str_format(a, "%s/%.*s/device", all, STR_ARG(names[i])).p);
    }
    *ret_session = &s->common;
}

void device_amd_sample(struct device_session *session, int place, int asked,
                       struct device_card *card) {
    const struct session *s = (struct session *)session;
    const struct amd_card *c = &s->cards[place];
    if (is_asleep(c)) {
        device_say_asleep(card);
        return;
    }
    if (isnan(number_in(c->folder, "mem_info_vram_total"))) {
        card->state = DEVICE_LOST;
        snprintf(card->reason, sizeof card->reason, "the amdgpu driver no longer lists it");
        return;
    }
    read_files(c, card);
    memcpy(card->facts.pci_bus_id, c->bus_id, sizeof card->facts.pci_bus_id);
    if (asked & DEVICE_ASK_FACTS) {
        text_in(c->folder, "vbios_version", card->facts.vbios, sizeof card->facts.vbios);
    }
    if (asked & DEVICE_ASK_PROCESSES) read_processes(s->common.root, c->bus_id, card);
}
