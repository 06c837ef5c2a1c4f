// SPDX-License-Identifier: Apache-2.0
// What there is to know of the machine: GPUs by the driver, what they can do by the catalogue, the
// rest by /proc, /sys and /dev/shm. Of a recorded machine only what is in the recording: nothing of
// this machine gets mixed in.
#include "verbs/check/check.h"

#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum { WATCH_MS = 250, LOOKS = 12 };

// --- GPUs ----------------------------------------------------------------------------------------

// An instance has its GPU's abilities: "NVIDIA A100-SXM4-40GB MIG 3g.20gb".
static struct str card_name(const struct device_card *card) {
    struct str name = str_of(card->facts.name);
    ptrdiff_t mig = card->is_mig ? str_find(name, STR(" MIG ")) : -1;
    return mig >= 0 ? str_slice(name, 0, mig) : name;
}

static int capability_of(const struct device_card *card, const struct gpu *known) {
    if (card->facts.compute_major > 0 && card->facts.compute_minor >= 0) {
        return (int)(10 * card->facts.compute_major + card->facts.compute_minor);
    }
    return known ? known->compute_capability : 0;
}

static void support_of(struct check *c, int i) {
    const struct device_card *card = &c->facts.devices.cards[i];
    int64_t bytes = card->is_mig ? 0 : card->now.total_bytes;
    const struct gpu *known =
        gpu_of_name(&c->question.gpus, card_name(card), bytes > 0 ? bytes : 0);
    int cc = capability_of(card, known);
    c->gpus[i] = known;
    c->supports[i] = (struct rules_support){
        .is_known = known != NULL,
        .tier = known ? str_of(gpu_tier_name(gpu_tier(known))) : (struct str){0},
        .compute_capability = cc,
        .has_tensor_cores = known ? known->has_tensor_cores : cc >= 70,
        .has_bf16 = known ? known->has_bf16 : cc >= 80,
        .is_unified = known ? known->is_unified : card->is_unified,
        .is_server = known && str_is(known->market, "datacentre"),
        .pcie_generation = known ? known->pcie_gen : 0,
    };
}

static int gather_cards(struct check *c, struct fail *why) {
    struct rules_facts *f = &c->facts;
    const struct device_watching how = {.wants_topology = true};
    struct device_monitor *m;
    int rc = device_monitor_open(c->arena, c->options->machine, &how, &m, why);
    if (rc < 0) return rc;
    device_monitor_read(c->arena, m, &f->devices);
    device_monitor_close(m);
    c->supports = arena_new(c->arena, struct rules_support, f->devices.count + 1);
    c->gpus = arena_new(c->arena, const struct gpu *, f->devices.count + 1);
    for (int i = 0; i < f->devices.count; i++) support_of(c, i);
    f->supports = c->supports;
    f->driver_is_absent = f->devices.driver_is_absent;
    return 0;
}

// Display and 3D controllers of NVIDIA (PCI vendor 10de, classes 0300 and 0302).
static int count_pci(struct arena *a) {
    static const char folder[] = "/sys/bus/pci/devices";
    struct str *names;
    ptrdiff_t count;
    int cards = 0;
    if (os_list(a, folder, "", &names, &count, NULL) < 0) return -1;
    for (ptrdiff_t i = 0; i < count; i++) {
        const char *path = str_format(a, "%s/%.*s", folder, STR_ARG(names[i])).p;
        struct str class = os_read_small(a, path, "/class");
        bool is_card = str_starts(class, STR("0x0300")) || str_starts(class, STR("0x0302"));
        cards += is_card && str_is(str_trim(os_read_small(a, path, "/vendor")), "0x10de");
    }
    return cards;
}

// --- The machine around them ---------------------------------------------------------------------

static int count_processors(struct str cpuinfo) {
    int count = 0;
    while (cpuinfo.p) count += str_starts(str_line(&cpuinfo), STR("processor"));
    return count;
}

static void gather_live(struct check *c) {
    struct rules_facts *f = &c->facts;
    struct statvfs shm;
    f->nvidia_cards = count_pci(c->arena);
    f->in_container = os_exists("/.dockerenv") || os_exists("/run/.containerenv") ||
                      getenv("KUBERNETES_SERVICE_HOST");
    f->machine_cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (statvfs("/dev/shm", &shm) == 0) {
        f->shm_bytes = (int64_t)(shm.f_blocks * shm.f_frsize);
        f->shm_free_bytes = (int64_t)(shm.f_bavail * shm.f_frsize);
    }
}

static void gather_host(struct check *c) {
    struct rules_facts *f = &c->facts;
    const char *root = f->is_recorded ? c->options->machine : "";
    device_cpu_read(c->arena, root, &f->cpu);
    // device_cpu_read asks the kernel how many cores we may use: that is no fact of a recording.
    if (f->is_recorded)
        f->cpu.cores = count_processors(os_read_small(c->arena, root, "/proc/cpuinfo"));
    f->machine_cores = f->cpu.cores;
    if (!f->is_recorded) gather_live(c);
}

// --- The training --------------------------------------------------------------------------------

// As the loader hands it over: three channels in fp32, or two rows of 64-bit numbers a token.
static int64_t batch_bytes(const struct plan *p) {
    if (p->batch <= 0) return -1;
    if (p->image_size > 0) return p->batch * 3 * 4 * p->image_size * p->image_size;
    return p->sequence_length > 0 ? p->batch * 2 * 8 * p->sequence_length : -1;
}

static int config_workers(const struct question *q) {
    const struct config_value *v = &q->reading.values[CONFIG_WORKERS];
    bool is_there = q->has_config && v->type == CONFIG_INT && v->line > 0;
    return is_there && v->integer >= 0 && v->integer < 10000 ? (int)v->integer : -1;
}

// Importing PyTorch takes seconds: it is asked where the answer hangs on it, whether it sees the
// GPUs that are there, and with --detailed. What it is, its files say.
static void gather_torch(struct check *c) {
    const struct check_options *o = c->options;
    struct rules_torch *t = &c->facts.torch;
    if (!o->detailed && !o->benchmark && check_read_torch(c->arena, o->python, t) &&
        (c->facts.devices.count == 0 || (t->cuda.len == 0 && t->hip.len == 0))) {
        return;
    }
    check_ask_torch(c->arena, o->python, t);
}

int check_gather(struct check *c, struct fail *why) {
    const struct check_options *o = c->options;
    c->facts = (struct rules_facts){
        .is_recorded = o->machine != NULL,
        .nvidia_cards = -1,
        .shm_bytes = -1,
        .shm_free_bytes = -1,
        .batch_bytes = batch_bytes(&c->question.plan),
        .workers = config_workers(&c->question),
        .own_pid = getpid(),
        .torch = check_torch_unasked(),
    };
    int rc = gather_cards(c, why);
    if (rc < 0) return rc;
    gather_host(c);
    if (!o->machine || o->python) gather_torch(c);
    return 0;
}

int check_watch(struct check *c, struct fail *why) {
    const struct device_watching how = {.interval_ms = WATCH_MS};
    int cards = c->facts.devices.count;
    struct device_monitor *m;
    struct device_snapshot now;
    int rc = device_monitor_open(c->arena, c->options->machine, &how, &m, why);
    if (rc < 0) return rc;
    c->stretches = arena_new(c->arena, struct trend_stretch, cards + 1);
    struct device_gauges *gauges = arena_new(c->arena, struct device_gauges, cards * LOOKS + 1);
    for (int look = 0; look < LOOKS; look++) {
        if (look > 0) usleep(WATCH_MS * 1000);
        device_monitor_read(c->arena, m, &now);
        for (int i = 0; i < cards && i < now.count; i++) {
            struct trend_stretch *s = &c->stretches[i];
            struct device_gauges *of_card = gauges + i * LOOKS;
            s->gauges = of_card;
            s->sm_clock_max_mhz = now.cards[i].facts.sm_clock_max_mhz;
            if (now.cards[i].state != DEVICE_ANSWERS) continue;
            of_card[s->gauge_count++] = now.cards[i].now;
        }
    }
    device_monitor_close(m);
    return 0;
}
