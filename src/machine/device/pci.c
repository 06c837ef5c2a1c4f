// SPDX-License-Identifier: Apache-2.0
// What /sys and /proc say about GPUs without asking the driver: whether they sleep (a laptop's
// switches off when idle, and NVML would wake it), and the memory of the machine where a GPU
// shares it. `root` is put before /sys and /proc: "" is this machine.
#include "machine/device/device_int.h"

#include "base/os.h"
#include "machine/device/device.h"

#include <stdio.h>
#include <string.h>

static bool is_nvidia_card(struct arena *a, const char *folder) {
    struct str vendor = str_trim(os_read_small(a, folder, "/vendor"));
    struct str kind = os_read_small(a, folder, "/class");
    // PCI class 03: display; 00 is VGA, 02 is 3D.
    return str_is(vendor, "0x10de") && str_starts(kind, STR("0x03"));
}

static struct str model_of(struct arena *a, const char *root, struct str bus_id) {
    struct str text = os_read_small(
        a, root, str_format(a, "/proc/driver/nvidia/gpus/%.*s/information", STR_ARG(bus_id)).p);
    while (text.p) {
        struct str line = str_line(&text);
        if (str_starts(line, STR("Model:"))) return str_trim(str_slice(line, 6, line.len));
    }
    return STR("NVIDIA GPU");
}

static bool is_suspended(struct arena *a, const char *folder) {
    return str_is(str_trim(os_read_small(a, folder, "/power/runtime_status")), "suspended");
}

// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.14  ..."
static struct str driver_of(struct arena *a, const char *root) {
    struct str text = os_read_small(a, root, "/proc/driver/nvidia/version");
    struct str line = str_line(&text);
    while (line.p) {
        struct str word = str_cut(&line, ' '), rest = word;
        int64_t major, minor;
        bool is_version =
            str_to_i64(str_cut(&rest, '.'), &major) && str_to_i64(str_cut(&rest, '.'), &minor);
        if (is_version) return word;
    }
    return (struct str){0};
}

bool device_all_asleep(struct arena *a, const char *root, struct device_list *list) {
    const char *all = str_format(a, "%s/sys/bus/pci/devices", root).p;
    struct str *names;
    ptrdiff_t count = 0;
    struct device_list asleep = *list;
    if (os_list(a, all, "", &names, &count, NULL)) return false;
    for (ptrdiff_t i = 0; i < count; i++) {
        const char *folder = str_format(a, "%s/%.*s", all, STR_ARG(names[i])).p;
        if (!is_nvidia_card(a, folder)) continue;
        if (!is_suspended(a, folder)) return false;
        struct device d = {
            .index = (int)asleep.count,
            .name = model_of(a, root, names[i]),
            .total_bytes = -1,
            .used_bytes = -1,
            .reserved_bytes = -1,
            .free_bytes = -1,
        };
        *arena_push(a, &asleep.items, &asleep.count, &asleep.capacity) = d;
    }
    if (asleep.count == list->count) return false;
    asleep.driver_version = driver_of(a, root);
    *list = asleep;
    return true;
}

void device_pci_id(const char *pci_bus_id, char *id, size_t size) {
    snprintf(id, size, "%s", pci_bus_id + (strcspn(pci_bus_id, ":") == 8 ? 4 : 0));
    for (char *c = id; *c; c++) *c = (char)(*c >= 'A' && *c <= 'F' ? *c + 32 : *c);
}

bool device_pci_text(const char *root, const char *pci_bus_id, const char *name, char *text,
                     size_t size) {
    char path[4096], id[32];
    device_pci_id(pci_bus_id, id, sizeof id);
    int length = snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", root, id, name);
    FILE *f = *id && length < (int)sizeof path ? fopen(path, "re") : NULL;
    if (!f) return false;
    if (!fgets(text, (int)size, f)) text[0] = 0;
    text[strcspn(text, "\n")] = 0;
    fclose(f);
    return true;
}

bool device_is_asleep(const char *root, const char *pci_bus_id) {
    char text[16];
    return device_pci_text(root, pci_bus_id, "power/runtime_status", text, sizeof text) &&
           strncmp(text, "suspended", 9) == 0;
}

void device_say_asleep(struct device_card *card) {
    card->state = DEVICE_ASLEEP;
    snprintf(card->reason, sizeof card->reason,
             "it is powered down to save energy; querying it would wake it");
}

void device_unified_memory(const char *root, struct device_card *card) {
    ARENA_AUTO a = {0};
    struct device_meminfo m = device_meminfo_read(&a, root);
    int64_t total = m.total_bytes, available = m.available_bytes;
    if (total < 0 || available < 0 || available > total) return;
    card->is_unified = true;
    card->now.total_bytes = total;
    card->now.free_bytes = available;
    card->now.used_bytes = total - available;
    card->now.reserved_bytes = 0;
}
