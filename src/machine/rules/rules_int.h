// SPDX-License-Identifier: Apache-2.0
// The rules, as rules.c's table names them, and what they look at.
#pragma once

#include "machine/rules/rules.h"

struct view {
    struct arena *arena;
    const struct rules_facts *facts;
    const struct rules_needs *needs;
    const struct device_card *card;      // NULL in rules about the machine
    const struct rules_support *support; // likewise
};

// Fills severity, value, evidence and remedy; false: nothing to say here.
typedef bool rules_rule(const struct view *v, struct finding *f);

// software.c
rules_rule rules_standin, rules_driver, rules_driver_cuda, rules_left_out, rules_torch,
    rules_torch_build, rules_torch_driver, rules_torch_cuda, rules_torch_compile,
    rules_torch_kernels;
// gpu.c
rules_rule rules_card_state, rules_card_known, rules_card_memory, rules_card_precision,
    rules_card_attention, rules_card_compile, rules_card_link, rules_card_clocks,
    rules_card_throttled, rules_card_power, rules_card_heat, rules_card_errors, rules_card_rows,
    rules_card_persistence, rules_card_mode, rules_card_mig;
// joined.c
rules_rule rules_p2p, rules_card_nvlink;
// host.c
rules_rule rules_shm, rules_memory, rules_memory_cards, rules_cores, rules_group;
