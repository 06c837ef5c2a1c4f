// SPDX-License-Identifier: Apache-2.0
// The table of causes, and that of confidences.
#include "machine/cause/cause_int.h"

#include <math.h>

// By what kind of evidence there is. The order is what matters; the figures are shares of cases in
// which we would bet on it, no measured frequencies (doc/formats/doctor.md).
static const double confidences[CAUSE_STRENGTHS] = {
    [CAUSE_SAID] = 0.95,    [CAUSE_COUNTED] = 0.9,   [CAUSE_MEASURED] = 0.8,
    [CAUSE_BRIEFLY] = 0.65, [CAUSE_AMBIGUOUS] = 0.5, [CAUSE_CONSISTENT] = 0.35,
};

double cause_confidence(enum cause_strength strength) {
    return confidences[strength];
}

enum { LESS_MEMORY = CAUSE_SMALLER_BATCH | CAUSE_MIXED_PRECISION };
static const char smaller[] =
    "a smaller batch with more accumulation (keeps the effective batch); mixed precision; shorter "
    "sequences or smaller images; batchfit fit finds the batch";

#define OOM                                                                                 \
    "cuda-oom hip-oom xpu-oom mps-oom xla-oom tensorflow-oom cuda-driver-oom cublas-alloc " \
    "cudnn-alloc cufft-alloc nccl-oom no-batch-fits other-oom cupy-oom paddle-oom "         \
    "onnxruntime-oom tensorrt-oom vllm-oom nvml-assert"

// Signatures whose words only usually mean their row: CAUSE_AMBIGUOUS, in the signature's words.
static const char likely[] =
    "cublas-alloc nvml-assert save-failed network-warned bus-error nccl gloo "
    "rendezvous child-failed engine-failed exit-status unknown-error foreign-error "
    "state-dict-warned "
    "cublas-invalid tensorflow-cpu cuda-warned no-nvml nvml-warned "
    "job-waits";

static const struct row {
    const char *id, *what;
    // Of measure/failure/failure.h, blanks between, and of machine/trend/trend.h; where either is
    // set the row is asked only then.
    const char *signatures, *trends;
    enum cause_strength strength;
    cause_rule *judge; // NULL: the signature is all that it takes
    unsigned actions;
    const char *remedy; // NULL: the signature's hint
    bool is_seen_too;   // the judge is asked without a signature of the row, too
    // `what` and `remedy` of a training without a GPU; NULL: the same.
    const char *on_cpu, *remedy_on_cpu;
} rows[] = {
    // The GPU's memory.
    {"memory.leak", "memory leak: it grows from step to step", NULL, "trend.leak", CAUSE_MEASURED,
     cause_leak, 0,
     "look for losses or outputs kept with their graph (use .item() or .detach()), for lists that "
     "grow, and for inputs that get longer"},
    {"memory.fragmentation", "the GPU's memory is fragmented: enough is reserved, but in pieces",
     OOM, NULL, CAUSE_COUNTED, cause_fragmented, CAUSE_SMALLER_BATCH,
     "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; the same shapes in every step (drop_last, "
     "padding to buckets); a smaller batch"},
    {"memory.others", "other processes hold the GPU's memory", OOM, NULL, CAUSE_COUNTED,
     cause_others, CAUSE_SMALLER_BATCH,
     "nvidia-smi lists them: end leftover processes, use another GPU, or take a smaller batch"},
    {"memory.oom-validation", "out of memory in validation", OOM, NULL, CAUSE_SAID,
     cause_validation, CAUSE_SMALLER_EVAL,
     "a smaller evaluation batch (most trainers have a separate setting), torch.no_grad() around "
     "it, outputs moved to the CPU as they come"},
    {"memory.oom-last-batch", "out of memory in the last batch of an epoch", OOM, NULL, CAUSE_SAID,
     cause_last_batch, LESS_MEMORY,
     "drop_last=True: a last batch of another size needs its own blocks; else a smaller batch"},
    {"memory.oom-start", "out of memory at the start: the first step does not fit", OOM, NULL,
     CAUSE_SAID, cause_start, LESS_MEMORY, smaller},
    {"memory.oom-later", "out of memory after many steps that fit", OOM, NULL, CAUSE_SAID,
     cause_later, LESS_MEMORY,
     "the longest inputs decide: cap their length, or sort them so that the largest batch comes "
     "first; look for a leak (batchfit doctor on the steps file); a smaller batch"},
    {"memory.oom", "the GPU's memory ran out", OOM, NULL, CAUSE_SAID, cause_oom, LESS_MEMORY,
     smaller},
    {"memory.library", "a library failed, usually for lack of GPU memory",
     "cublas-init cudnn-internal", NULL, CAUSE_AMBIGUOUS, NULL, LESS_MEMORY, NULL},
    {"memory.spill", "the GPU's memory is full and spills to the host: many times slower", NULL,
     NULL, CAUSE_MEASURED, cause_spill, LESS_MEMORY,
     "a smaller batch with more accumulation is faster than spilling; smaller images; on Windows "
     "the driver setting 'Prefer No Sysmem Fallback' turns it into an error"},
    {"memory.full", "the allocator frees its cache and retries: almost out of memory", NULL,
     "trend.full", CAUSE_MEASURED, cause_full, LESS_MEMORY, smaller},
    {"memory.missed", "the run needs more memory than predicted", NULL, "trend.missed",
     CAUSE_MEASURED, cause_told, CAUSE_SMALLER_BATCH,
     "find the batch by trials: batchfit fit -- COMMAND"},
    // The machine's memory.
    {"memory.host", "the machine's memory, or its limit, ran out",
     "cgroup-oom-kill kernel-oom-log system-oom-kill cpu-allocator numpy-memory python-memory "
     "bad-alloc opencv-memory rust-memory loader-memory errno-memory worker-oom limit-crash "
     "limit-spin limit-over",
     NULL, CAUSE_SAID, NULL, CAUSE_FEWER_WORKERS | CAUSE_SMALLER_BATCH, NULL},
    {"memory.host-killed", "killed, usually by the kernel for memory", "killed", NULL,
     CAUSE_AMBIGUOUS, NULL, CAUSE_SMALLER_BATCH | CAUSE_FEWER_WORKERS,
     "dmesg | grep -i 'killed process' shows it; fewer loader workers, a smaller batch with more "
     "accumulation, shorter sequences"},
    {"memory.shm", "/dev/shm, which loader workers use, is full", "worker-shm shm-full bus-error",
     NULL, CAUSE_SAID, NULL, CAUSE_FEWER_WORKERS, NULL},
    {"memory.shm-low", "/dev/shm is nearly full", NULL, NULL, CAUSE_MEASURED, cause_shm_low,
     CAUSE_FEWER_WORKERS, "docker run --shm-size=8g (or --ipc=host), fewer loader workers"},
    {"threads.limit", "no more threads or processes could be started",
     "java-threads python-threads fork", NULL, CAUSE_SAID, NULL,
     CAUSE_SMALLER_BATCH | CAUSE_FEWER_WORKERS, NULL},
    // What a smaller batch avoids, and what it does not.
    {"size.limit", "a kernel or library does not support these sizes; not out of memory",
     "cudnn-not-supported cudnn-engine onednn cufft-limit grid-limit index-32-bit triton-resources",
     NULL, CAUSE_SAID, cause_limit, CAUSE_SMALLER_BATCH, NULL},
    {"batch.one", "batch normalization got a batch of one", "batch-too-small", NULL, CAUSE_SAID,
     NULL, CAUSE_LARGER_BATCH, NULL},
    {"card.assert", "an assertion failed on the GPU: labels or indices out of range",
     "device-assert label-range", NULL, CAUSE_SAID, cause_named, 0, NULL},
    {"card.fault", "a kernel failed on the GPU", "illegal-access launch-failure", NULL, CAUSE_SAID,
     NULL, 0, NULL},
    {"card.lost", "the GPU is broken, lost or in use", "card-lost card-busy", NULL, CAUSE_SAID,
     cause_named, 0, NULL},
    {"card.errors", "the GPU reports errors", NULL, "trend.state trend.xid trend.ecc trend.replays",
     CAUSE_SAID, cause_told, 0, "dmesg | grep Xid; reset or replace the GPU"},
    {"card.driver", "driver, PyTorch and GPU do not match",
     "old-driver no-cuda no-kernel-image no-bf16 library-mismatch cublas-invalid tensorflow-cpu "
     "cuda-warned no-nvml nvml-warned",
     NULL, CAUSE_SAID, cause_named, 0, NULL},
    {"card.throttled", "heat or the power supply limits the GPU's clocks", NULL,
     "trend.throttled trend.brake", CAUSE_MEASURED, cause_told, 0,
     "improve cooling and power supply, or lower the power limit: a steady clock is better than a "
     "sawtooth"},
    // Setup.
    {"setup.software", "a module, library, file or permission is missing, or does not match",
     "import install bitsandbytes cpu-build cuda-extension missing-file permission no-command "
     "network "
     "hub-access hub-offline network-warned",
     NULL, CAUSE_SAID, cause_named, 0, NULL},
    {"setup.arguments", "the program rejected its arguments or its terminal",
     "usage no-launcher not-a-tty no-input wandb-login", NULL, CAUSE_SAID, NULL, 0, NULL},
    {"setup.disk", "a disk is full", "disk-full save-failed", NULL, CAUSE_SAID, NULL, 0, NULL},
    {"setup.open-files", "too many open files", "open-files", NULL, CAUSE_SAID, NULL,
     CAUSE_FEWER_WORKERS, NULL},
    {"setup.open-files-low", "almost at the limit of open files", NULL, NULL, CAUSE_MEASURED,
     cause_files_low, CAUSE_FEWER_WORKERS,
     "ulimit -n 65536, or torch.multiprocessing.set_sharing_strategy('file_system')"},
    {"setup.cluster", "the cluster has no room for it, or refused it", "job-refused job-waits",
     NULL, CAUSE_SAID, NULL, 0, NULL},
    // The learning.
    {"loss.nan", "the loss is NaN or infinite", "loss-nan loss-scale", NULL, CAUSE_SAID, cause_nan,
     CAUSE_FULL_PRECISION,
     "a lower learning rate, gradient clipping, bf16 or fp32 instead of fp16; check the batch of "
     "that step",
     true},
    // Speed.
    {"slow.later", "steps became much slower and stayed slow", NULL, NULL, CAUSE_MEASURED,
     cause_slowed, 0,
     "find what changed then: memory filled up (batchfit watch), a GPU throttled, another process "
     "started, a cache ran out"},
    {"data.loading", "the GPU waits for data", NULL, NULL, CAUSE_MEASURED, cause_loading,
     CAUSE_MORE_WORKERS,
     "more loader workers, pin_memory, data preprocessed ahead, cached or on a faster disk", false,
     "the training waits for data",
     "more loader workers, data preprocessed ahead, cached or on a faster disk"},
    {"data.workers", "the training process loads the data itself (0 workers)", NULL, NULL,
     CAUSE_CONSISTENT, cause_no_workers, CAUSE_MORE_WORKERS, "use loader workers and pin_memory",
     false, NULL, "use loader workers"},
    {"data.pin-memory", "copies to the GPU block: the loader's memory is not pinned", NULL, NULL,
     CAUSE_MEASURED, cause_pin, 0, "pin_memory: true, and non_blocking=True for the copies"},
    {"data.disk", "the training waits for a disk", NULL, NULL, CAUSE_MEASURED, cause_disk, 0,
     "data on a local or faster disk, in fewer and larger files, or cached in memory"},
    {"data.workers-busy", "the loader workers are the bottleneck: all are busy", NULL, NULL,
     CAUSE_MEASURED, cause_workers_pace, CAUSE_MORE_WORKERS,
     "more workers if cores are free; cheaper augmentation; data preprocessed ahead"},
    {"data.worker-exited", "a loader worker died without a message", "worker-exited", NULL,
     CAUSE_AMBIGUOUS, NULL, CAUSE_FEWER_WORKERS, NULL},
    {"host.one-core", "one thread of the training process is the bottleneck", NULL, NULL,
     CAUSE_MEASURED, cause_one_core, CAUSE_LARGER_BATCH,
     "a larger batch, torch.compile or CUDA graphs; less Python, logging and metrics in the loop"},
    {"sync.host", "the loop waits for the GPU between steps", NULL, NULL, CAUSE_MEASURED,
     cause_sync, 0,
     "look for .item(), .cpu(), prints and metrics in the loop, and for logging or checkpoints at "
     "every step",
     false, "the loop does other work between steps"},
    {"compute.bound", "forward and backward dominate, in full precision", NULL, NULL,
     CAUSE_MEASURED, cause_compute, CAUSE_MIXED_PRECISION,
     "mixed precision (AMP), a larger batch, torch.compile, or a smaller model"},
    {"batch.small", "the batch is too small to fill the GPU", NULL, NULL, CAUSE_MEASURED,
     cause_small, CAUSE_LARGER_BATCH,
     "a larger batch (batchfit bench finds the knee), torch.compile, or CUDA graphs"},
    {"card.idle", "the GPU is underused", NULL, "trend.starved", CAUSE_MEASURED, cause_idle,
     CAUSE_MORE_WORKERS | CAUSE_LARGER_BATCH,
     "more loader workers and cached data if it waits for data; else a larger batch. The steps "
     "show which: batchfit bench -- COMMAND, or batchfit doctor on a steps file"},
    // Others are the cause, or nobody says.
    {"ranks.timeout", "a collective timed out: another rank did not join", "nccl-timeout", NULL,
     CAUSE_SAID, NULL, 0, NULL},
    {"ranks.failed", "another rank failed or could not be reached",
     "nccl gloo rendezvous child-failed engine-failed port-in-use duplicate-gpu", NULL, CAUSE_SAID,
     cause_named, 0, NULL},
    {"ended.error", "the program's own error",
     "own-error unknown-error foreign-error exit-status state-dict state-dict-warned "
     "checkpoint-broken "
     "weights-only shapes wrong-device "
     "unused-parameters cuda-fork compile no-grad unscale-fp16 precisions index-range collate "
     "pad-token worker-pickle deepspeed-batch meta-tensor file-system no-operator inplace "
     "backward-twice no-main-guard",
     NULL, CAUSE_SAID, cause_named, 0, NULL},
    {"ended.crash", "native code crashed", "crash abort signal", NULL, CAUSE_AMBIGUOUS, NULL, 0,
     NULL},
    {"ended.interrupted", "it was interrupted", "interrupted time-limit preempted node-failed",
     NULL, CAUSE_SAID, cause_named, 0, NULL},
};
enum { ROWS = sizeof rows / sizeof *rows };

const char *cause_id(int index) {
    return index >= 0 && index < ROWS ? rows[index].id : NULL;
}

const char *cause_of_signature(const char *signature) {
    for (int i = 0; i < ROWS; i++) {
        if (str_has_word(str_of(rows[i].signatures), str_of(signature))) return rows[i].id;
    }
    return NULL;
}

struct cause_facts cause_facts_unknown(void) {
    struct cause_facts f = {.utilisation = NAN, .memory_share = NAN, .workers = -1};
    f.ending = (struct cause_ending){.tried_bytes = -1,
                                     .total_bytes = -1,
                                     .free_bytes = -1,
                                     .in_use_bytes = -1,
                                     .allocated_bytes = -1,
                                     .unallocated_bytes = -1,
                                     .steps = -1};
    f.phases = step_times_unknown();
    f.process = (struct cause_process){.workers = -1,
                                       .cpus = NAN,
                                       .main_thread = NAN,
                                       .workers_busy = NAN,
                                       .disk_share = NAN,
                                       .shm_total_bytes = -1,
                                       .shm_free_bytes = -1,
                                       .open_files = -1,
                                       .open_files_limit = -1};
    return f;
}

static bool judge(const struct cause_view *v, const struct row *row, struct cause *c) {
    const struct cause_ending *e = &v->facts->ending;
    bool is_said = str_has_word(str_of(row->signatures), str_of(e->signature));
    if (row->signatures && !is_said && !row->is_seen_too) return false;
    if (!row->remedy) c->remedy = str_of(e->hint);
    if (row->judge) return row->judge(v, c);
    return v->is_likely ? cause_named(v, c) : cause_quote(v, c, row->strength, NULL);
}

// The surest first; equal ones stay in the order of the table.
static void sort(struct causes *causes) {
    for (ptrdiff_t i = 1; i < causes->count; i++) {
        struct cause c = causes->items[i];
        ptrdiff_t at = i;
        for (; at > 0 && causes->items[at - 1].strength > c.strength; at--) {
            causes->items[at] = causes->items[at - 1];
        }
        causes->items[at] = c;
    }
}

void cause_judge(struct arena *a, const struct cause_facts *facts, struct causes *ret_causes) {
    bool has_signature = cause_of_signature(facts->ending.signature) != NULL;
    bool is_likely = str_has_word(str_of(likely), str_of(facts->ending.signature));
    *ret_causes = (struct causes){0};
    for (int i = 0; i < ROWS; i++) {
        const struct row *row = &rows[i];
        struct cause c = {.id = row->id,
                          .what = facts->on_cpu && row->on_cpu ? row->on_cpu : row->what,
                          .strength = row->strength,
                          .remedy = str_of(facts->on_cpu && row->remedy_on_cpu ? row->remedy_on_cpu
                                                                               : row->remedy),
                          .actions = row->actions};
        const struct cause_view v = {a, facts, row->trends, has_signature, is_likely};
        if (!judge(&v, row, &c)) continue;
        *arena_push(a, &ret_causes->items, &ret_causes->count, &ret_causes->capacity) = c;
    }
    sort(ret_causes);
}
