// SPDX-License-Identifier: Apache-2.0
// The table of rules, and the walk over it.
#include "insight/insight_int.h"

static const struct rule {
    const char *id, *what;
    bool is_of_card;
    insight_rule *judge;
} rules[] = {
    {"driver.standin", "stand-in driver", false, insight_standin},
    {"driver.found", "NVIDIA driver", false, insight_driver},
    {"driver.cuda", "driver and CUDA", false, insight_driver_cuda},
    {"driver.left-out", "cards left out", false, insight_left_out},
    {"torch.found", "PyTorch", false, insight_torch},
    {"torch.build", "PyTorch's build", false, insight_torch_build},
    {"torch.driver", "PyTorch's CUDA and the driver", false, insight_torch_driver},
    {"torch.cuda", "PyTorch sees the cards", false, insight_torch_cuda},
    {"torch.compile", "torch.compile", false, insight_torch_compile},
    {"host.shm", "/dev/shm", false, insight_shm},
    {"host.memory", "memory", false, insight_memory},
    {"host.memory-cards", "memory beside the cards'", false, insight_memory_cards},
    {"host.cores", "cores for loader workers", false, insight_cores},
    {"host.group", "limits of the container", false, insight_group},
    {"card.state", "card", true, insight_card_state},
    {"card.known", "catalogue", true, insight_card_known},
    {"card.memory", "free memory", true, insight_card_memory},
    {"card.kernels", "PyTorch's kernels for the card", true, insight_torch_kernels},
    {"card.precision", "precision", true, insight_card_precision},
    {"card.attention", "fused attention", true, insight_card_attention},
    {"card.compile", "compiled kernels", true, insight_card_compile},
    {"card.link", "PCIe link", true, insight_card_link},
    {"card.clocks", "clocks held back now", true, insight_card_clocks},
    {"card.throttled", "time throttled", true, insight_card_throttled},
    {"card.power", "power limit", true, insight_card_power},
    {"card.heat", "temperature", true, insight_card_heat},
    {"card.errors", "memory errors (ECC)", true, insight_card_errors},
    {"card.rows", "remapped memory rows", true, insight_card_rows},
    {"card.persistence", "persistence mode", true, insight_card_persistence},
    {"card.mode", "compute mode", true, insight_card_mode},
    {"card.mig", "MIG", true, insight_card_mig},
};
enum { RULES = sizeof rules / sizeof *rules };

static void judge(const struct view *v, bool is_of_card, int card,
                  struct insight_findings *findings) {
    for (int i = 0; i < RULES; i++) {
        struct insight_finding f = {.id = rules[i].id, .what = rules[i].what, .card = card};
        if (rules[i].is_of_card != is_of_card || !rules[i].judge(v, &f)) continue;
        *arena_push(v->arena, &findings->items, &findings->count, &findings->capacity) = f;
    }
}

void insight_judge(struct arena *a, const struct insight_facts *facts,
                   const struct insight_needs *needs, struct insight_findings *ret_findings) {
    struct view v = {.arena = a, .facts = facts, .needs = needs};
    *ret_findings = (struct insight_findings){0};
    judge(&v, false, -1, ret_findings);
    for (int i = 0; i < facts->devices.count; i++) {
        v.card = &facts->devices.cards[i];
        v.support = &facts->supports[i];
        judge(&v, true, i, ret_findings);
    }
}
