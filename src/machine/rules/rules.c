// SPDX-License-Identifier: Apache-2.0
// The table of rules, and the walk over it.
#include "machine/rules/rules_int.h"

static const struct rule {
    const char *id, *what;
    bool is_of_card;
    rules_rule *judge;
} rules[] = {
    {"driver.standin", "fake driver", false, rules_standin},
    {"driver.found", "NVIDIA driver", false, rules_driver},
    {"driver.cuda", "driver and CUDA", false, rules_driver_cuda},
    {"driver.left-out", "GPUs of the driver", false, rules_left_out},
    {"torch.found", "PyTorch", false, rules_torch},
    {"torch.build", "PyTorch's build", false, rules_torch_build},
    {"torch.driver", "PyTorch's CUDA and the driver", false, rules_torch_driver},
    {"torch.cuda", "PyTorch sees the GPUs", false, rules_torch_cuda},
    {"torch.compile", "torch.compile", false, rules_torch_compile},
    {"host.shm", "/dev/shm", false, rules_shm},
    {"host.memory", "memory", false, rules_memory},
    {"host.memory-cards", "memory compared with the GPUs'", false, rules_memory_cards},
    {"host.cores", "cores for loader workers", false, rules_cores},
    {"host.group", "container limits", false, rules_group},
    {"host.p2p", "direct access between GPUs (P2P)", false, rules_p2p},
    {"card.state", "card", true, rules_card_state},
    {"card.known", "catalogue", true, rules_card_known},
    {"card.memory", "free memory", true, rules_card_memory},
    {"card.kernels", "PyTorch's kernels for the GPU", true, rules_torch_kernels},
    {"card.precision", "precision", true, rules_card_precision},
    {"card.attention", "fused attention", true, rules_card_attention},
    {"card.compile", "compiled kernels", true, rules_card_compile},
    {"card.link", "PCIe link", true, rules_card_link},
    {"card.nvlink", "NVLink", true, rules_card_nvlink},
    {"card.clocks", "clocks limited now", true, rules_card_clocks},
    {"card.throttled", "time throttled", true, rules_card_throttled},
    {"card.power", "power limit", true, rules_card_power},
    {"card.heat", "temperature", true, rules_card_heat},
    {"card.errors", "memory errors (ECC)", true, rules_card_errors},
    {"card.rows", "remapped memory rows", true, rules_card_rows},
    {"card.persistence", "persistence mode", true, rules_card_persistence},
    {"card.mode", "compute mode", true, rules_card_mode},
    {"card.mig", "MIG", true, rules_card_mig},
};
enum { RULES = sizeof rules / sizeof *rules };

static void judge(const struct view *v, bool is_of_card, int card, struct findings *findings) {
    for (int i = 0; i < RULES; i++) {
        struct finding f = {.id = rules[i].id, .what = rules[i].what, .card = card};
        if (rules[i].is_of_card != is_of_card || !rules[i].judge(v, &f)) continue;
        *arena_push(v->arena, &findings->items, &findings->count, &findings->capacity) = f;
    }
}

void rules_judge(struct arena *a, const struct rules_facts *facts, const struct rules_needs *needs,
                 struct findings *ret_findings) {
    struct view v = {.arena = a, .facts = facts, .needs = needs};
    *ret_findings = (struct findings){0};
    judge(&v, false, -1, ret_findings);
    for (int i = 0; i < facts->devices.count; i++) {
        v.card = &facts->devices.cards[i];
        v.support = &facts->supports[i];
        judge(&v, true, i, ret_findings);
    }
}
