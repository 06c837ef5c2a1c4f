// SPDX-License-Identifier: Apache-2.0
// Predicted speed as fit, explain, team and sim show it, and what measurements teach about it.
#pragma once

#include "job/answer/answer.h"

// An object, or null where nothing can be said (doc/formats/fit.md, "speed").
json_t *answer_speed_json(const struct speed *s);
// "speed: about 412 samples/s (343 to 494), 310 ms a step", with what makes it uncertain; nothing
// where nothing can be said.
void answer_speed_text(const struct speed *s, struct buf *out);
// Of the answer's plan on its GPU; a note where tape or GPU say nothing.
void answer_speed_predict(struct question *q, struct answer *answer);
// Corrects the answer's speed by what was measured on its GPU: "MODEL=SAMPLES" or
// "MODEL@BATCH=SAMPLES", line ends between, everything else as in the question. FAIL_USAGE,
// FAIL_INPUT.
int answer_speed_calibrate(struct question *q, const char *measured, struct answer *answer,
                           struct fail *why);
