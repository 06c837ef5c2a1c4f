// SPDX-License-Identifier: Apache-2.0
// Rules about one GPU: what it can do, who uses it, and whether it is well. Gauges that a GPU
// does not have (facts of what exists where: consumer GPUs have no ECC, GB10 no link) say nothing.
#include "machine/rules/rules_int.h"

#include "base/unit.h"

#include <math.h>

static bool answers(const struct view *v) {
    return v->card->state == DEVICE_ANSWERS;
}

bool rules_card_state(const struct view *v, struct finding *f) {
    struct str reason = str_of(v->card->reason), state = str_of(device_state_name(v->card->state));
    switch (v->card->state) {
    case DEVICE_ANSWERS:
        return false;
    case DEVICE_WAITS:
        return finding_say(f, FINDING_UNKNOWN, state, STR("it has not answered yet"), NULL);
    case DEVICE_ASLEEP:
        return finding_say(f, FINDING_NOTE, state,
                           reason.len ? reason : STR("it is powered down to save energy"),
                           "a training wakes it; this check does not");
    case DEVICE_LOST:
        return finding_say(f, FINDING_PROBLEM, state, reason,
                           "nvidia-smi --gpu-reset or a reboot; look for Xid in dmesg");
    case DEVICE_HANGS:
    case DEVICE_UNREACHABLE: // of watch's other machines only
        break;
    }
    return finding_say(f, FINDING_PROBLEM, state, reason,
                       "look for NVRM and Xid in dmesg; reset the GPU or reboot");
}

bool rules_card_known(const struct view *v, struct finding *f) {
    if (v->support->is_known) {
        return finding_tell(v->arena, f, FINDING_OK, v->support->tier, NULL,
                            "%s is in the catalogue", v->card->facts.name);
    }
    return finding_tell(v->arena, f, FINDING_NOTE, STR("unknown"),
                        "add a line to gpus.local.tsv in your data folder (batchfit list gpus)",
                        "%s is not in the catalogue: forecasts go by its memory alone",
                        v->card->facts.name);
}

// --- Memory --------------------------------------------------------------------------------------

enum { HOLDERS = 3 };

// "python 1.2 GiB (pid 812), Xorg 310 MiB (pid 90) and 2 more"
static struct str holders(const struct view *v) {
    const struct device_card *c = v->card;
    struct buf b = buf_new(v->arena);
    int named = 0, more = c->processes_unlisted;
    for (int i = 0; i < c->process_count; i++) {
        const struct device_process *p = &c->processes[i];
        if (p->pid == v->facts->own_pid) continue;
        if (named == HOLDERS) {
            more++;
            continue;
        }
        struct str bytes =
            p->used_bytes < 0 ? (struct str){0} : unit_bytes(v->arena, p->used_bytes);
        buf_format(&b, "%s%s%s%.*s (pid %lld)", named ? ", " : "",
                   p->name[0] ? p->name : "a process", bytes.len ? " " : "", STR_ARG(bytes),
                   (long long)p->pid);
        named++;
    }
    if (more > 0) buf_format(&b, "%s%d more", named ? " and " : "", more);
    if (b.count > 0) return buf_str(&b);
    return c->has_processes ? STR("no process visible to this user or container")
                            : STR("the driver does not report the processes");
}

bool rules_card_memory(const struct view *v, struct finding *f) {
    const struct device_gauges *g = &v->card->now;
    if (!answers(v)) return false;
    if (g->total_bytes <= 0 || g->used_bytes < 0) {
        return finding_say(f, FINDING_UNKNOWN, (struct str){0},
                           STR("the driver does not report this GPU's memory"), NULL);
    }
    struct str free = unit_bytes(v->arena, g->free_bytes),
               total = unit_bytes(v->arena, g->total_bytes);
    struct str value = str_format(v->arena, "%.*s of %.*s", STR_ARG(free), STR_ARG(total));
    if (v->card->is_unified) {
        return finding_say(f, FINDING_OK, value,
                           STR("shared with the CPU: what the machine has available"), NULL);
    }
    // A desktop holds a few hundred MiB; a tenth of the GPU is what the smallest margin keeps
    // free.
    bool is_much = g->used_bytes > g->total_bytes / 10;
    if (g->used_bytes < g->total_bytes / 50) {
        return finding_say(f, FINDING_OK, value, STR("no other process uses it"), NULL);
    }
    return finding_tell(v->arena, f, is_much ? FINDING_WARNING : FINDING_OK, value,
                        is_much ? "wait for the processes that use it or stop them; fit subtracts "
                                  "what they hold from the GPU's memory"
                                : NULL,
                        "%.*s in use: %.*s", STR_ARG(unit_bytes(v->arena, g->used_bytes)),
                        STR_ARG(holders(v)));
}

// --- What it can do ------------------------------------------------------------------------------

bool rules_card_precision(const struct view *v, struct finding *f) {
    const struct rules_support *s = v->support;
    int cc = s->compute_capability;
    if (!s->is_known && cc <= 0) {
        return finding_say(f, FINDING_UNKNOWN, (struct str){0},
                           STR("neither the catalogue nor the driver reports it"), NULL);
    }
    if (!s->has_tensor_cores) {
        return finding_say(
            f, FINDING_NOTE, STR("fp32"),
            STR("no tensor cores: mixed precision saves memory, and some time at most"),
            "train in fp32; fit does so by default");
    }
    // tf32 and bf16 from Ampere, fp8 from Ada and Hopper (NVIDIA's architecture papers).
    return finding_say(f, FINDING_OK,
                       str_format(v->arena, "fp32%s fp16%s%s", cc >= 80 ? " tf32" : "",
                                  s->has_bf16 ? " bf16" : "", cc >= 89 ? " fp8" : ""),
                       s->has_bf16
                           ? STR("tensor cores; bf16 in hardware")
                           : STR("tensor cores; bf16 is emulated, so mixed precision is fp16"),
                       NULL);
}

// PyTorch 2's scaled_dot_product_attention: flash from 8.0, memory-efficient from 5.0.
bool rules_card_attention(const struct view *v, struct finding *f) {
    int cc = v->support->compute_capability;
    if (cc <= 0) return false;
    if (cc >= 80) {
        return finding_say(f, FINDING_OK, STR("flash"), STR("compute capability 8.0 or higher"),
                           NULL);
    }
    return finding_tell(
        v->arena, f, FINDING_NOTE, cc >= 50 ? STR("memory-efficient") : STR("none"),
        "nothing: PyTorch chooses; for a model that asks for flash_attention_2, use sdpa",
        "compute capability %d.%d; flash attention needs 8.0 or higher", cc / 10, cc % 10);
}

bool rules_card_compile(const struct view *v, struct finding *f) {
    int cc = v->support->compute_capability;
    if (cc <= 0) return false;
    struct str value = str_format(v->arena, "%d.%d", cc / 10, cc % 10);
    if (cc >= 70) {
        return finding_say(f, FINDING_OK, value, STR("Triton's kernels run on 7.0 or higher"),
                           NULL);
    }
    return finding_say(
        f, FINDING_NOTE, value,
        STR("torch.compile generates Triton kernels, which need compute capability 7.0"),
        "do not use torch.compile on this GPU");
}

// --- Link ----------------------------------------------------------------------------------------

// An idle GPU lowers its link to save power, so only a busy one can be judged.
static bool is_busy(const struct view *v) {
    const struct device_gauges *g = &v->card->now;
    bool is_idle = g->event_reasons > 0 && (g->event_reasons & DEVICE_REASON_IDLE);
    return !isnan(g->utilisation) && g->utilisation >= 0.3 && !is_idle;
}

bool rules_card_link(const struct view *v, struct finding *f) {
    const struct device_gauges *g = &v->card->now;
    const struct device_facts *k = &v->card->facts;
    // GB10 shows gen 1 x1 for a link that it does not have.
    if (!answers(v) || v->card->is_unified || g->pcie_width <= 0 || k->pcie_width_max <= 0) {
        return false;
    }
    struct str now = str_format(v->arena, "gen %lld x%lld", (long long)g->pcie_generation,
                                (long long)g->pcie_width);
    struct str most = str_format(v->arena, "gen %lld x%lld", (long long)k->pcie_generation_max,
                                 (long long)k->pcie_width_max);
    bool is_less = g->pcie_width < k->pcie_width_max || g->pcie_generation < k->pcie_generation_max;
    if (is_less && is_busy(v)) {
        return finding_tell(v->arena, f, FINDING_WARNING, now,
                            "reseat the GPU, try another slot or riser, check the slot's BIOS "
                            "setting; data loading suffers first",
                            "under load; GPU and slot support %.*s", STR_ARG(most));
    }
    if (is_less) {
        return finding_tell(v->arena, f, FINDING_OK, now, NULL,
                            "GPU and slot support %.*s; an idle GPU lowers its link, so this is "
                            "judged only under load",
                            STR_ARG(most));
    }
    if (v->support->pcie_generation > k->pcie_generation_max && k->pcie_generation_max > 0) {
        return finding_tell(v->arena, f, FINDING_NOTE, now,
                            "matters only if data loading or several GPUs fill the link",
                            "the GPU supports gen %d; this slot gives gen %lld",
                            v->support->pcie_generation, (long long)k->pcie_generation_max);
    }
    return finding_say(f, FINDING_OK, now, STR("the most that GPU and slot support"), NULL);
}

// --- Throttling ----------------------------------------------------------------------------------

// The worst first.
static const struct {
    int64_t bit;
    enum finding_severity severity;
    const char *what, *remedy;
} reasons[] = {
    {DEVICE_REASON_HW_THERMAL, FINDING_WARNING, "too hot: the hardware slows it down",
     "clean it, improve cooling, lower the power limit (nvidia-smi -pl)"},
    {DEVICE_REASON_POWER_BRAKE, FINDING_WARNING, "the power supply slows it down",
     "check power supply and cables"},
    {DEVICE_REASON_HW_SLOWDOWN, FINDING_WARNING, "the hardware slows it down (heat or power)",
     "check temperature, power supply and cables"},
    {DEVICE_REASON_SW_THERMAL, FINDING_WARNING, "too warm: the driver slows it down",
     "improve cooling, or lower the power limit (nvidia-smi -pl)"},
    {DEVICE_REASON_SYNC_BOOST, FINDING_NOTE, "kept at the clock of other GPUs (sync boost)", NULL},
    {DEVICE_REASON_POWER_CAP, FINDING_NOTE, "at its power limit, as usual under full load", NULL},
};
enum { REASONS = sizeof reasons / sizeof *reasons };

bool rules_card_clocks(const struct view *v, struct finding *f) {
    int64_t now = v->card->now.event_reasons;
    if (!answers(v) || now < 0) return false;
    struct str value = isnan(v->card->now.sm_clock_mhz)
                           ? (struct str){0}
                           : str_format(v->arena, "%.0f MHz", v->card->now.sm_clock_mhz);
    for (int i = 0; i < REASONS; i++) {
        if (!(now & reasons[i].bit)) continue;
        return finding_say(f, reasons[i].severity, value, str_of(reasons[i].what),
                           reasons[i].remedy);
    }
    return finding_say(f, FINDING_OK, value,
                       now & DEVICE_REASON_IDLE ? STR("idle") : STR("not limited"), NULL);
}

// Counters run since the driver was loaded; how long that is, nobody says. A minute of heat is a
// hint.
bool rules_card_throttled(const struct view *v, struct finding *f) {
    const struct device_gauges *g = &v->card->now;
    struct arena *a = v->arena;
    const double hot = g->hw_thermal_seconds, brake = g->power_brake_seconds,
                 warm = g->sw_thermal_seconds, limit = g->power_cap_seconds;
    const struct {
        struct str text; // each by a format of its own, so that each is known in other languages
        double seconds;
        bool is_trouble;
    } counters[] = {
        {str_format(a, "hardware thermal %.1f s", hot), hot, true},
        {str_format(a, "power brake %.1f s", brake), brake, true},
        {str_format(a, "software thermal %.1f s", warm), warm, true},
        {str_format(a, "power limit %.1f s", limit), limit, false},
    };
    struct buf b = buf_new(a);
    double trouble = 0;
    if (!answers(v)) return false;
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        if (isnan(counters[i].seconds)) continue;
        buf_join(&b, ", ", counters[i].text);
        if (counters[i].is_trouble) trouble += counters[i].seconds;
    }
    if (b.count == 0) return false;
    struct str evidence = str_format(a, "since the driver was loaded: %.*s", STR_ARG(buf_str(&b)));
    struct str value = str_format(a, "%.1f s", trouble);
    return finding_say(f, trouble > 60 ? FINDING_NOTE : FINDING_OK, value, evidence,
                       trouble > 60 ? "improve cooling and power supply if trainings slow down"
                                    : NULL);
}

bool rules_card_power(const struct view *v, struct finding *f) {
    double now = v->card->now.power_limit_watts, usual = v->card->facts.power_limit_default_watts;
    if (!answers(v) || isnan(now) || isnan(usual)) return false;
    struct str value = str_format(v->arena, "%.0f W", now);
    if (now >= 0.98 * usual) {
        return finding_tell(v->arena, f, FINDING_OK, value, NULL, "default %.0f W", usual);
    }
    return finding_tell(
        v->arena, f, FINDING_WARNING, value,
        str_format(v->arena, "unless intended: nvidia-smi -i %d -pl %.0f", v->card->index, usual).p,
        "%.0f %% of the default %.0f W", 100 * now / usual, usual);
}

bool rules_card_heat(const struct view *v, struct finding *f) {
    double now = v->card->now.temperature_celsius, slow = v->card->facts.slowdown_celsius;
    if (!answers(v) || isnan(now)) return false;
    struct str value = str_format(v->arena, "%.0f C", now);
    // Below this everything is usual; above it only the GPU's own threshold tells.
    if (isnan(slow)) {
        return now < 80
                   ? finding_say(f, FINDING_OK, value, STR("below 80 C"), NULL)
                   : finding_say(f, FINDING_NOTE, value,
                                 STR("warm; the driver does not report its slowdown temperature"),
                                 NULL);
    }
    struct str limit = str_format(v->arena, "slows down at %.0f C", slow);
    if (now < slow - 5) return finding_say(f, FINDING_OK, value, limit, NULL);
    return finding_say(f, FINDING_WARNING, value, limit,
                       "clean it, improve cooling, lower the power limit (nvidia-smi -pl)");
}

// --- Health and settings -------------------------------------------------------------------------

bool rules_card_errors(const struct view *v, struct finding *f) {
    const struct device_gauges *g = &v->card->now;
    if (!answers(v) || g->ecc_uncorrected < 0) return false;
    struct str value = str_format(v->arena, "%lld", (long long)g->ecc_uncorrected);
    if (g->ecc_uncorrected > 0) {
        return finding_tell(
            v->arena, f, FINDING_PROBLEM, value,
            "do not trust results from that time; reset the GPU, and replace it if they recur",
            "%lld uncorrected memory errors since the driver was loaded",
            (long long)g->ecc_uncorrected);
    }
    if (g->ecc_corrected > 0) {
        return finding_tell(v->arena, f, FINDING_NOTE, value, "watch whether they increase",
                            "%lld memory errors, all corrected, since the driver was "
                            "loaded",
                            (long long)g->ecc_corrected);
    }
    return finding_say(f, FINDING_OK, value, STR("none since the driver was loaded"), NULL);
}

bool rules_card_rows(const struct view *v, struct finding *f) {
    const struct device_gauges *g = &v->card->now;
    if (!answers(v) || (g->remap_pending < 0 && g->remap_failed < 0 && g->recovery_action < 0)) {
        return false;
    }
    if (g->remap_failed > 0) {
        return finding_say(f, FINDING_PROBLEM, STR("failed"),
                           STR("a broken memory row could not be replaced"),
                           "have the GPU replaced");
    }
    if (g->recovery_action > 0) {
        return finding_tell(v->arena, f, FINDING_PROBLEM, STR("needs a reset"),
                            "1: reset the GPU (nvidia-smi --gpu-reset); 2: reboot; more: drain the "
                            "machine first",
                            "the driver requests recovery action %lld",
                            (long long)g->recovery_action);
    }
    if (g->remap_pending > 0) {
        return finding_say(f, FINDING_WARNING, STR("pending"),
                           STR("a memory row will be replaced at the next reset"),
                           "reset the GPU when it is unused: nvidia-smi --gpu-reset");
    }
    return finding_say(f, FINDING_OK,
                       g->remapped_rows < 0
                           ? (struct str){0}
                           : str_format(v->arena, "%lld", (long long)g->remapped_rows),
                       STR("nothing pending"), NULL);
}

bool rules_card_persistence(const struct view *v, struct finding *f) {
    int64_t mode = v->card->facts.persistence_mode;
    if (!answers(v) || mode < 0 || !v->support->is_server) return false;
    if (mode) return finding_say(f, FINDING_OK, STR("on"), STR("the driver stays loaded"), NULL);
    return finding_say(f, FINDING_NOTE, STR("off"),
                       STR("otherwise the driver is initialised again for every program, which "
                           "takes seconds and resets its counters"),
                       "nvidia-smi -pm 1, or the nvidia-persistenced service");
}

bool rules_card_mode(const struct view *v, struct finding *f) {
    int64_t mode = v->card->facts.compute_mode;
    if (!answers(v) || mode <= 0) return false;
    if (mode == 2) {
        return finding_say(f, FINDING_PROBLEM, STR("prohibited"),
                           STR("programs cannot compute on this GPU"), "nvidia-smi -c 0");
    }
    return finding_say(f, FINDING_NOTE, STR("exclusive"),
                       STR("one process at a time; a second one fails at start"),
                       "nvidia-smi -c 0 lets processes share it");
}

bool rules_card_mig(const struct view *v, struct finding *f) {
    if (!v->card->is_mig) return false;
    return finding_say(f, FINDING_NOTE, STR("instance"),
                       STR("part of a GPU: its own memory, a share of the multiprocessors; power, "
                           "clocks and link are those of the whole GPU"),
                       "one process uses one instance (CUDA_VISIBLE_DEVICES=MIG-...)");
}
