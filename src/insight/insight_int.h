// SPDX-License-Identifier: Apache-2.0
// The rules, as insight.c's table names them, and what they look at.
#ifndef INSIGHT_INSIGHT_INT_H
#define INSIGHT_INSIGHT_INT_H

#include "insight/insight.h"

struct view {
    struct arena *arena;
    const struct insight_facts *facts;
    const struct insight_needs *needs;
    const struct device_card *card;        // NULL in rules about the machine
    const struct insight_support *support; // likewise
};

// Fills severity, value, evidence and remedy; false: nothing to say here.
typedef bool insight_rule(const struct view *v, struct insight_finding *f);

// software.c
insight_rule insight_standin, insight_driver, insight_driver_cuda, insight_left_out, insight_torch,
    insight_torch_build, insight_torch_driver, insight_torch_cuda, insight_torch_compile,
    insight_torch_kernels;
// card.c
insight_rule insight_card_state, insight_card_known, insight_card_memory, insight_card_precision,
    insight_card_attention, insight_card_compile, insight_card_link, insight_card_clocks,
    insight_card_throttled, insight_card_power, insight_card_heat, insight_card_errors,
    insight_card_rows, insight_card_persistence, insight_card_mode, insight_card_mig;
// host.c
insight_rule insight_shm, insight_memory, insight_memory_cards, insight_cores, insight_group;

#endif
