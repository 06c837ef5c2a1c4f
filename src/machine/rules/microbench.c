// SPDX-License-Identifier: Apache-2.0
// The rule about measured rates: one for all of them, with a remedy for each.
#include "machine/rules/rules.h"

#include "base/unit.h"

#include <math.h>

enum { OF_LINK = 1, OF_PRODUCTS, OF_OTHER };

static const struct remedy {
    const char *id;
    int kind;
    const char *text;
} remedies[] = {
    {"rate.h2d", OF_LINK,
     "reseat the GPU, try another slot or riser, check the slot's lanes and generation in the "
     "BIOS; lspci -vv shows LnkSta under load"},
    {"rate.d2h", OF_LINK,
     "reseat the GPU, try another slot or riser, check the slot's lanes and generation in the "
     "BIOS; lspci -vv shows LnkSta under load"},
    {"rate.both", OF_LINK,
     "see one direction; if both are fine, the CPU's memory or its bridge is slow"},
    {"rate.device_copy", OF_OTHER,
     "look for other processes on the GPU, a locked memory clock (nvidia-smi -q -d CLOCK), and "
     "memory errors"},
    {"rate.fp32", OF_PRODUCTS,
     "look for a lowered power limit, locked clocks, heat (check --detailed) and other processes; "
     "then try a newer driver or PyTorch"},
    {"rate.tf32", OF_PRODUCTS,
     "look for a lowered power limit, locked clocks, heat (check --detailed) and other processes; "
     "then try a newer driver or PyTorch"},
    {"rate.fp16", OF_PRODUCTS,
     "look for a lowered power limit, locked clocks, heat (check --detailed) and other processes; "
     "then try a newer driver or PyTorch"},
    {"rate.bf16", OF_PRODUCTS,
     "look for a lowered power limit, locked clocks, heat (check --detailed) and other processes; "
     "then try a newer driver or PyTorch"},
    {"rate.cpu_copy", OF_OTHER,
     "look for other processes; check that memory modules fill all channels (dmidecode -t memory)"},
    {"rate.cpu_copy_one", OF_OTHER, "look for other processes and the CPU's frequency governor"},
    {"rate.cpu_triad", OF_OTHER,
     "look for other processes; check that memory modules fill all channels (dmidecode -t memory)"},
    {"rate.shm", OF_OTHER, "look for other processes; loader workers pass batches through it"},
    {"rate.cpu_sgemm", OF_OTHER,
     "install a tuned BLAS (apt install libopenblas0-pthread); look for other processes and the "
     "frequency governor"},
};

static const struct remedy *remedy_of(const char *id) {
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        if (str_is(str_of(id), remedies[i].id)) return &remedies[i];
    }
    return NULL;
}

// Then a slow figure says nothing.
static bool is_shared(const struct rules_microbench *r) {
    return r->busy > (r->card >= 0 ? 0.1 : 0.25);
}

// What was seen of the GPU that may explain the figure.
static void add_circumstances(struct buf *b, const struct device_card *card, int kind) {
    const struct device_gauges *g = &card->now;
    const struct device_facts *k = &card->facts;
    if (g->used_bytes > g->total_bytes / 50 && !card->is_unified) {
        buf_format(b, "; others hold %.*s of it", STR_ARG(unit_bytes(b->arena, g->used_bytes)));
    }
    if (kind == OF_LINK && g->pcie_width > 0 && g->pcie_width < k->pcie_width_max) {
        buf_format(b, "; the link now has %lld of %lld lanes", (long long)g->pcie_width,
                   (long long)k->pcie_width_max);
    }
    if (kind == OF_PRODUCTS && g->power_limit_watts < k->power_limit_default_watts) {
        buf_format(b, "; the power limit is %.0f of %.0f W", g->power_limit_watts,
                   k->power_limit_default_watts);
    }
}

static void add_range(struct buf *b, const struct rules_microbench *r) {
    const struct microbench_range *g = &r->range;
    enum microbench_unit unit = r->figure.measure->unit;
    if (isnan(g->low)) {
        buf_format(b, "not judged: %.*s", STR_ARG(g->why_none));
        return;
    }
    buf_format(b, "expected %.*s to %.*s (%.*s)", STR_ARG(microbench_text(b->arena, unit, g->low)),
               STR_ARG(microbench_text(b->arena, unit, g->high)), STR_ARG(g->of));
}

static void add_runs(struct buf *b, const struct microbench_figure *f) {
    buf_format(b, "; %d run%s", f->count, f->count == 1 ? "" : "s");
    if (!isnan(f->variation)) buf_format(b, ", variation %.1f %%", 100 * f->variation);
    if (f->how.len > 0) buf_format(b, "; %.*s", STR_ARG(f->how));
}

static enum finding_severity severity_of(const struct rules_microbench *r) {
    const struct microbench_figure *f = &r->figure;
    if (f->state == MICROBENCH_WRONG) return FINDING_PROBLEM;
    if (f->state != MICROBENCH_MEASURED || isnan(r->range.low)) return FINDING_UNKNOWN;
    if (f->median < r->range.floor) return is_shared(r) ? FINDING_UNKNOWN : FINDING_WARNING;
    return f->median < r->range.low ? FINDING_NOTE : FINDING_OK;
}

void rules_judge_microbench(struct arena *a, const struct rules_facts *facts,
                            const struct rules_microbench *r, struct findings *findings) {
    const struct microbench_figure *f = &r->figure;
    const struct device_card *card = r->card >= 0 ? &facts->devices.cards[r->card] : NULL;
    const struct remedy *remedy = remedy_of(f->measure->id);
    struct buf b = buf_new(a);
    struct finding finding = {
        .id = f->measure->id,
        .what = f->measure->what,
        .card = r->card,
        .severity = severity_of(r),
        .value = microbench_text(a, f->measure->unit, f->median),
    };
    if (f->state == MICROBENCH_MEASURED) {
        add_range(&b, r);
        add_runs(&b, f);
        if (is_shared(r)) {
            buf_format(&b, "; others kept %s busy (%.0f %%) just before", card ? "it" : "the cores",
                       100 * r->busy);
        }
        if (card) add_circumstances(&b, card, remedy ? remedy->kind : OF_OTHER);
    } else {
        buf_format(&b, "%.*s", STR_ARG(f->why));
        if (f->state == MICROBENCH_WRONG && f->how.len > 0)
            buf_format(&b, "; %.*s", STR_ARG(f->how));
    }
    finding.evidence = buf_str(&b);
    if (f->state == MICROBENCH_WRONG) {
        finding.remedy = STR("do not train on it: look for memory errors and Xid in dmesg, for "
                             "overclocking, and try another library");
    } else if (remedy &&
               (finding.severity == FINDING_NOTE || finding.severity == FINDING_WARNING)) {
        finding.remedy = str_of(remedy->text);
    }
    *arena_push(a, &findings->items, &findings->count, &findings->capacity) = finding;
}
