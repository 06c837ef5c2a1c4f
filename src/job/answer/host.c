// SPDX-License-Identifier: Apache-2.0
// What an answer says of the host's memory, where ZeRO keeps something there.
#include "job/answer/answer.h"

#include "base/unit.h"

struct forecast_host answer_host(const struct answer *answer) {
    const struct plan *p = &answer->plan;
    const struct forecast_tape *t =
        forecast_tape_known(&answer->forecast, p->batch, p->accumulation);
    return t ? forecast_host(&answer->forecast, &answer->card, t) : (struct forecast_host){0};
}

bool answer_host_is_short(const struct answer *answer) {
    const int64_t has = answer->card.host_bytes;
    return has > 0 && answer_host(answer).bytes > has;
}

struct str answer_host_text(struct arena *a, const struct answer *answer) {
    const struct forecast_host host = answer_host(answer);
    struct buf text = buf_new(a);
    if (host.bytes == 0) return (struct str){0};
    buf_format(&text, "host: %.*s a rank", STR_ARG(unit_bytes(a, host.rank_bytes)));
    if (host.pinned_bytes > 0)
        buf_format(&text, ", %.*s of it page-locked", STR_ARG(unit_bytes(a, host.pinned_bytes)));
    if (host.ranks > 1)
        buf_format(&text, "; %.*s for the %lld ranks of a machine",
                   STR_ARG(unit_bytes(a, host.bytes)), (long long)host.ranks);
    if (answer->card.gpu.is_unified)
        buf_add(&text, STR("; of the GPU's own memory, counted there"));
    if (answer->card.host_bytes > 0)
        buf_format(&text, "; the machine has %.*s",
                   STR_ARG(unit_bytes(a, answer->card.host_bytes)));
    return buf_str(&text);
}

json_t *answer_host_json(const struct answer *answer) {
    const struct forecast_host host = answer_host(answer);
    if (host.bytes == 0) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:b}", "rank_bytes", (json_int_t)host.rank_bytes,
                     "pinned_bytes", (json_int_t)host.pinned_bytes, "ranks", (json_int_t)host.ranks,
                     "bytes", (json_int_t)host.bytes, "machine_bytes",
                     json_size(answer->card.host_bytes), "fits", !answer_host_is_short(answer));
}
