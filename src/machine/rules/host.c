// SPDX-License-Identifier: Apache-2.0
// Rules about the machine around the GPUs: shared memory, memory, cores, the container's limits.
#include "machine/rules/rules_int.h"

#include "base/unit.h"

#include <math.h>

// PyTorch's default: each loader worker prepares two batches ahead, in shared memory.
enum { PREFETCH = 2 };
// More bring little and cost memory; the largest number of the teams' own guides.
enum { WORKERS_MAX = 12 };
// Python with PyTorch and a data set, before it has read anything.
static const int64_t worker_bytes = 512 * UNIT_MIB;
// What Docker gives a container without --shm-size.
static const int64_t docker_shm_bytes = 64 * UNIT_MIB;
// Where the batch is not known: 64 images of 224 pixels in fp32 are 37 MiB; 8 workers, two each.
static const int64_t usual_batch_bytes = 64 * UNIT_MIB;

static int usable_cores(const struct rules_facts *k) {
    int quota = isnan(k->cpu.quota_cores) ? k->cpu.cores : (int)ceil(k->cpu.quota_cores);
    return quota < k->cpu.cores ? quota : k->cpu.cores;
}

// Processes that train at once: one a GPU.
static int trainers(const struct rules_facts *k) {
    int count = 0;
    for (int i = 0; i < k->devices.count; i++) {
        count += k->devices.cards[i].state == DEVICE_ANSWERS;
    }
    return count;
}

int rules_workers(const struct rules_facts *facts) {
    int cores = usable_cores(facts), cards = trainers(facts);
    if (cores <= 0) return -1;
    // Without a GPU the cores do the training, too; with one, each trainer keeps a core to itself.
    int each = cards > 0 ? cores / cards : cores / 4;
    int workers = cards > 0 && each > 2 ? each - 1 : each;
    int64_t share = facts->cpu.available_bytes / (cards > 0 ? cards : 1);
    if (facts->cpu.available_bytes >= 0 && share / worker_bytes < workers) {
        workers = (int)(share / worker_bytes);
    }
    return workers < WORKERS_MAX ? workers : WORKERS_MAX;
}

bool rules_shm(const struct view *v, struct finding *f) {
    const struct rules_facts *k = v->facts;
    int workers = k->workers >= 0 ? k->workers : rules_workers(k);
    if (k->shm_bytes < 0 || workers < 0) return false;
    int64_t batch = k->batch_bytes > 0 ? k->batch_bytes : usual_batch_bytes;
    int64_t needed = batch * PREFETCH * workers * (trainers(k) > 0 ? trainers(k) : 1);
    struct str value =
        str_format(v->arena, "%.*s free", STR_ARG(unit_bytes(v->arena, k->shm_free_bytes)));
    struct str evidence =
        str_format(v->arena, "%d worker%s with %d batches each hold about %.*s there%s", workers,
                   workers == 1 ? "" : "s", PREFETCH, STR_ARG(unit_bytes(v->arena, needed)),
                   k->batch_bytes > 0 ? "" : " (batches of 64 MiB)");
    bool is_dockers = k->shm_bytes <= docker_shm_bytes;
    if (k->shm_free_bytes >= needed && !(is_dockers && workers > 0)) {
        return finding_say(f, FINDING_OK, value, evidence, NULL);
    }
    return finding_say(
        f, FINDING_WARNING, value, evidence,
        is_dockers || k->in_container
            ? "start the container with --shm-size=8g or --ipc=host, or set num_workers to 0; "
              "otherwise workers die with \"Bus error\""
            : "free /dev/shm, or use fewer loader workers; otherwise they die with \"Bus error\"");
}

bool rules_memory(const struct view *v, struct finding *f) {
    const struct device_cpu *c = &v->facts->cpu;
    if (c->total_bytes <= 0) {
        return finding_say(f, FINDING_UNKNOWN, (struct str){0},
                           STR("the recording has no /proc/meminfo"), NULL);
    }
    struct str total = unit_bytes(v->arena, c->total_bytes);
    struct str available =
        c->available_bytes < 0 ? STR("?") : unit_bytes(v->arena, c->available_bytes);
    struct str evidence =
        str_format(v->arena, "%.*s available without swapping", STR_ARG(available));
    // A Python with PyTorch and one batch of anything needs that much.
    bool is_short = c->available_bytes >= 0 && c->available_bytes < 2 * UNIT_GIB;
    return finding_say(f, is_short ? FINDING_WARNING : FINDING_OK, total, evidence,
                       is_short ? "end other programs, or train with fewer loader workers" : NULL);
}

// Checkpoints are read into the machine's memory before they reach the GPU.
bool rules_memory_cards(const struct view *v, struct finding *f) {
    const struct rules_facts *k = v->facts;
    int64_t sum = 0, largest = 0;
    for (int i = 0; i < k->devices.count; i++) {
        int64_t bytes = k->devices.cards[i].is_unified ? -1 : k->devices.cards[i].now.total_bytes;
        if (bytes <= 0) continue;
        sum += bytes;
        if (bytes > largest) largest = bytes;
    }
    if (sum == 0 || k->cpu.total_bytes <= 0) return false;
    struct str evidence = str_format(v->arena, "%.*s of memory for %.*s on the GPUs",
                                     STR_ARG(unit_bytes(v->arena, k->cpu.total_bytes)),
                                     STR_ARG(unit_bytes(v->arena, sum)));
    struct str value = str_format(v->arena, "%.1f to 1", (double)k->cpu.total_bytes / (double)sum);
    if (k->cpu.total_bytes >= sum) return finding_say(f, FINDING_OK, value, evidence, NULL);
    return finding_say(f, k->cpu.total_bytes < largest ? FINDING_WARNING : FINDING_NOTE, value,
                       evidence,
                       "load checkpoints with mmap=True or one rank at a time; keep pinned memory "
                       "and worker counts low");
}

bool rules_cores(const struct view *v, struct finding *f) {
    const struct rules_facts *k = v->facts;
    int cores = usable_cores(k), cards = trainers(k), workers = rules_workers(k);
    if (cores <= 0) return false;
    struct str value = str_format(v->arena, "%d core%s", cores, cores == 1 ? "" : "s");
    struct str evidence =
        cards > 0 ? str_format(v->arena, "%d loader worker%s for each of %d GPU%s", workers,
                               workers == 1 ? "" : "s", cards, cards == 1 ? "" : "s")
                  : str_format(v->arena, "%d loader worker%s, the rest for the training itself",
                               workers, workers == 1 ? "" : "s");
    if (k->workers > cores) {
        return finding_tell(
            v->arena, f, FINDING_WARNING, value,
            "set num_workers to that number: more workers than cores slow each other down",
            "the config asks for %d workers; %.*s", k->workers, STR_ARG(evidence));
    }
    // One core can neither load data nor launch kernels while it does the other.
    if (cards > 0 && cores < 2 * cards) {
        return finding_say(f, FINDING_WARNING, value, evidence,
                           "a GPU needs at least two cores to be fed; preprocess the data ahead");
    }
    return finding_say(f, FINDING_OK, value, evidence, NULL);
}

bool rules_group(const struct view *v, struct finding *f) {
    const struct rules_facts *k = v->facts;
    bool by_memory = k->cpu.machine.total_bytes > 0 && k->cpu.total_bytes > 0 &&
                     k->cpu.total_bytes < k->cpu.machine.total_bytes;
    bool by_cores =
        k->machine_cores > 0 && usable_cores(k) > 0 && usable_cores(k) < k->machine_cores;
    struct buf b = buf_new(v->arena);
    if (!by_memory && !by_cores) return false;
    if (by_memory) {
        buf_format(&b, "%.*s of the machine's %.*s memory",
                   STR_ARG(unit_bytes(v->arena, k->cpu.total_bytes)),
                   STR_ARG(unit_bytes(v->arena, k->cpu.machine.total_bytes)));
    }
    if (by_cores) {
        buf_format(&b, "%s%d of its %d cores", by_memory ? ", " : "", usable_cores(k),
                   k->machine_cores);
    }
    return finding_say(
        f, FINDING_NOTE, STR("yes"), buf_str(&b),
        "workers and advice here follow these limits; request more where they are set");
}
