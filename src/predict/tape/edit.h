// SPDX-License-Identifier: Apache-2.0
// A tape that is made of another one, event by event. Shared by the files of this room.
#pragma once

#include "predict/tape/tape.h"

void tape_put_event(struct tape *to, struct tape_event e);
int32_t tape_put_alloc(struct tape *to, struct tape_alloc x); // what it is as a copy
void tape_drop(struct tape *to, int32_t copy);                // what is none, or is gone, stays so
// The tape's texts and behind them these; the first one's number.
int32_t tape_add_ops(struct arena *a, const struct tape *from, struct tape *to,
                     const char *const *names, int count);
// The mark at or behind an event; there may be none.
int32_t tape_end_of_phase(const struct tape *t, int32_t event);
// Norms and biases have no weight decay (transformers.Trainer.get_decay_parameter_names).
bool tape_param_decays(const struct tape *t, int32_t alloc);
