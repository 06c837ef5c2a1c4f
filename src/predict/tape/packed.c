// SPDX-License-Identifier: Apache-2.0
// Reads the packed form. It is refused for whatever the text of the same events would be refused
// for; which rule was broken is said only for what a hand could have got wrong, since no hand wrote
// it.
#include "predict/tape/packed.h"

#include "predict/tape/intern.h"
#include "predict/tape/line.h"
#include "predict/tape/tape_int.h"

#include <string.h>

static const int64_t number_limit = INT64_C(1) << 62;

struct bytes {
    const unsigned char *p, *end;
};
struct size {
    int64_t c, k, cn, kn;
};
struct unpacker {
    struct arena *arena;
    struct tape *tape;
    struct tape_line at; // for messages: the line that the text would have
    bool is_damaged;     // an end came too early, or a number is out of its bounds
    struct bytes columns[PACKED_COLUMNS];
    struct size *sizes;
    bool *is_name; // of every text: it can be an operation's or a module's
    int64_t size_count, module, id, highest; // of the ids so far
    int32_t *live, live_count;
    struct arena *scratch;
    int64_t allocs;
    struct id_map ids; // from the first id on that is not higher than all before it
};

// Seven bits a byte, the lowest first; the last byte is below 128.
static int64_t take(struct unpacker *u, struct bytes *from) {
    uint64_t value = 0;
    for (int shift = 0; shift < 63 && from->p < from->end; shift += 7) {
        unsigned char byte = *from->p++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return (int64_t)value;
    }
    u->is_damaged = true;
    return 0;
}

static int64_t take_below(struct unpacker *u, struct bytes *from, int64_t limit) {
    int64_t value = take(u, from);
    if (value < limit) return value;
    u->is_damaged = true;
    return 0;
}

// 0, -1, 1, -2, … as 0, 1, 2, 3, …
static int64_t take_signed(struct unpacker *u, struct bytes *from) {
    int64_t value = take(u, from), half = (int64_t)((uint64_t)value >> 1);
    return value & 1 ? -half - 1 : half;
}

static struct str take_text(struct unpacker *u, struct bytes *from) {
    int64_t length = take_below(u, from, from->end - from->p);
    struct str text = {(const char *)from->p, length};
    from->p += length;
    return text;
}

static int damaged(const struct unpacker *u) {
    return tape_line_bad(&u->at, "the packed tape is damaged");
}

static int read_texts(struct unpacker *u, struct bytes *from) {
    struct tape *t = u->tape;
    int64_t count = 1 + take_below(u, from, from->end - from->p);
    t->strings = arena_new(u->arena, struct str, count);
    u->is_name = arena_new(u->arena, bool, count);
    t->strings[0] = (struct str){0};
    for (int64_t i = 1; i < count && !u->is_damaged; i++) {
        struct str text = take_text(u, from);
        t->strings[i] = text;
        u->is_name[i] = !str_is(text, "-") && !str_starts(text, STR("n=")) &&
                        !memchr(text.p, ' ', (size_t)text.len);
        if (text.len == 0 || !tape_is_text(text)) return damaged(u);
    }
    t->string_count = (int32_t)count;
    return u->is_damaged ? damaged(u) : 0;
}

static int read_sizes(struct unpacker *u, struct bytes *from) {
    const struct tape_header *h = &u->tape->header;
    u->size_count = take_below(u, from, (from->end - from->p) / 4 + 1);
    u->sizes = arena_new(u->arena, struct size, u->size_count);
    for (int64_t i = 0; i < u->size_count; i++) {
        struct size *s = &u->sizes[i];
        int64_t *const numbers[] = {&s->c, &s->k, &s->cn, &s->kn};
        for (int j = 0; j < 4; j++) {
            *numbers[j] = take_signed(u, from);
            if (*numbers[j] >= number_limit || *numbers[j] <= -number_limit) return damaged(u);
        }
        if (tape_size_wrong_at(h, s->c, s->k) != 0 || (!tape_has_slopes(h) && (s->cn | s->kn) != 0))
            return damaged(u);
    }
    return u->is_damaged ? damaged(u) : 0;
}

static int read_columns(struct unpacker *u, struct bytes *from) {
    for (int i = 0; i < PACKED_COLUMNS; i++) {
        int64_t length = take_below(u, from, from->end - from->p + 1);
        u->columns[i] = (struct bytes){from->p, from->p + length};
        from->p += length;
    }
    return u->is_damaged || from->p != from->end ? damaged(u) : 0;
}

// Exactly as many of each kind as there are.
static int make_room(struct unpacker *u, struct arena *scratch) {
    struct tape *t = u->tape;
    const struct bytes kinds = u->columns[PACKED_KINDS];
    int64_t of[256] = {0}, allocs = 0;
    if (kinds.end - kinds.p > TAPE_EVENTS_MAX)
        return tape_line_bad(&u->at, "expected at most %d events", TAPE_EVENTS_MAX);
    for (const unsigned char *p = kinds.p; p < kinds.end; p++) of[*p]++;
    for (int i = PACKED_ALLOC; i < 256; i++) allocs += of[i];
    t->events = arena_new(u->arena, struct tape_event, kinds.end - kinds.p);
    t->allocs = arena_new(u->arena, struct tape_alloc, allocs);
    t->scratches = arena_new(u->arena, struct tape_scratch, of[PACKED_SCRATCH]);
    t->works = arena_new(u->arena, struct tape_work, of[PACKED_WORK]);
    u->live = arena_new(scratch, int32_t, PACKED_LIVE_MOST);
    u->scratch = scratch;
    u->allocs = allocs;
    return 0;
}

static int32_t name_at(struct unpacker *u, int64_t number) {
    bool is_there = number >= 0 && number < u->tape->string_count;
    if (is_there && (number == 0 || u->is_name[number])) return (int32_t)number;
    u->is_damaged = true;
    return 0;
}

static void open_ids(struct unpacker *u) {
    u->ids = tape_id_map_new(u->scratch, u->allocs);
    for (int32_t i = 0; i < u->tape->alloc_count; i++) {
        int64_t id = u->tape->allocs[i].id;
        *tape_id_map_at(&u->ids, id) = (struct id_slot){id, i + 1};
    }
}

// Whether no allocation before this one has the id. Nearly all count up, and need no map.
static bool is_new_id(struct unpacker *u) {
    const bool is_highest = u->id > u->highest;
    if (is_highest) u->highest = u->id;
    if (is_highest && !u->ids.slots) return true;
    if (!u->ids.slots) open_ids(u);
    struct id_slot *slot = tape_id_map_at(&u->ids, u->id);
    if (slot->number > 0) return false;
    *slot = (struct id_slot){u->id, u->tape->alloc_count + 1};
    return true;
}

static void read_alloc(struct unpacker *u, int code) {
    struct tape *t = u->tape;
    struct bytes *numbers = &u->columns[PACKED_NUMBERS];
    int64_t size = take_below(u, &u->columns[PACKED_SIZES], u->size_count);
    int tag = code & (PACKED_ALLOC - 1);
    u->id += 1 + (code & PACKED_JUMP ? take_signed(u, numbers) : 0);
    u->module += take_signed(u, &u->columns[PACKED_MODULES]);
    int64_t op = take(u, &u->columns[PACKED_OPS]);
    u->is_damaged |= tag >= TAPE_TAG_COUNT || u->id < 0 || u->id >= number_limit ||
                     u->live_count == PACKED_LIVE_MOST;
    int64_t stream = code & PACKED_STREAM ? 1 + take_below(u, numbers, TAPE_STREAM_MAX) : 0;
    if (u->is_damaged || !is_new_id(u)) u->is_damaged = true;
    if (u->is_damaged) return;
    const struct size *s = &u->sizes[size];
    u->live[u->live_count++] = t->alloc_count;
    t->events[t->event_count] = (struct tape_event){.kind = TAPE_ALLOC, .index = t->alloc_count};
    t->allocs[t->alloc_count++] = (struct tape_alloc){
        .id = u->id,
        .c = s->c,
        .k = s->k,
        .cn = s->cn,
        .kn = s->kn,
        .event = t->event_count++,
        .free_event = -1,
        .op = name_at(u, op),
        .module = name_at(u, u->module),
        .stream = (int32_t)stream,
        .tag = (uint8_t)tag,
    };
    if (stream >= t->stream_count) t->stream_count = (int32_t)stream + 1;
}

static void read_free(struct unpacker *u) {
    struct tape *t = u->tape;
    int64_t later = take_below(u, &u->columns[PACKED_FREES], u->live_count);
    if (u->is_damaged) return;
    int32_t *at = &u->live[u->live_count - 1 - later];
    t->events[t->event_count] = (struct tape_event){.kind = TAPE_FREE, .index = *at};
    t->allocs[*at].free_event = t->event_count++;
    memmove(at, at + 1, sizeof *at * (size_t)later);
    u->live_count--;
}

static void read_work(struct unpacker *u) {
    struct tape *t = u->tape;
    struct bytes *from = &u->columns[PACKED_NUMBERS];
    struct tape_work w = {.class_ = (uint8_t)take_below(u, from, TAPE_CLASS_COUNT)};
    int64_t *const numbers[] = {&w.flops_c, &w.flops_k, &w.bytes_c, &w.bytes_k, &w.count};
    for (int i = 0; i < 5; i++) {
        *numbers[i] = take_signed(u, from);
        u->is_damaged |= *numbers[i] >= number_limit || *numbers[i] <= -number_limit;
    }
    w.details = (int32_t)take_below(u, from, t->string_count);
    u->is_damaged |= w.count < 1;
    if (w.details > 0 && tape_line_details(&u->at, t->strings[w.details]) < 0) u->is_damaged = true;
    t->events[t->event_count++] = (struct tape_event){.kind = TAPE_WORK, .index = t->work_count};
    t->works[t->work_count++] = w;
}

static void read_scratch(struct unpacker *u) {
    struct tape *t = u->tape;
    int64_t size = take_below(u, &u->columns[PACKED_NUMBERS], u->size_count);
    if (u->is_damaged) return;
    t->events[t->event_count++] =
        (struct tape_event){.kind = TAPE_SCRATCH, .index = t->scratch_count};
    t->scratches[t->scratch_count++] =
        (struct tape_scratch){.c = u->sizes[size].c, .k = u->sizes[size].k};
}

static void read_plain(struct unpacker *u, int code) {
    struct tape_event e = {.kind = TAPE_EMPTY_CACHE};
    int phase = code - PACKED_MARK;
    if (phase >= 0) {
        e = (struct tape_event){.kind = TAPE_MARK, .phase = (uint8_t)phase};
        e.index = (int32_t)take_below(u, &u->columns[PACKED_NUMBERS], (int64_t)INT32_MAX + 1);
    }
    u->is_damaged |= phase >= TAPE_PHASE_COUNT;
    u->tape->events[u->tape->event_count++] = e;
}

static void read_event(struct unpacker *u, int code) {
    if (code >= PACKED_ALLOC)
        read_alloc(u, code);
    else if (code == PACKED_FREE)
        read_free(u);
    else if (code == PACKED_WORK)
        read_work(u);
    else if (code == PACKED_SCRATCH)
        read_scratch(u);
    else
        read_plain(u, code);
}

static int read_events(struct unpacker *u) {
    const struct bytes kinds = u->columns[PACKED_KINDS];
    u->columns[PACKED_KINDS].p = kinds.end;
    for (const unsigned char *p = kinds.p; p < kinds.end && !u->is_damaged; p++) {
        u->at.line++;
        read_event(u, *p);
    }
    for (int i = 0; i < PACKED_COLUMNS; i++) u->is_damaged |= u->columns[i].p != u->columns[i].end;
    return u->is_damaged ? damaged(u) : 0;
}

bool tape_is_packed(struct str body) {
    return body.len > 0 && body.p[0] == 0;
}

int tape_read_packed(struct arena *a, struct str body, struct tape *t, struct fail *why) {
    ARENA_AUTO scratch = {.escape = a->escape};
    struct unpacker u = {.arena = a,
                         .tape = t,
                         .at = {.name = t->name, .why = why, .line = 1},
                         .id = -1,
                         .highest = -1};
    struct bytes from = {(const unsigned char *)body.p + 1,
                         (const unsigned char *)body.p + body.len};
    int code = read_texts(&u, &from);
    if (code == 0) code = read_sizes(&u, &from);
    if (code == 0) code = read_columns(&u, &from);
    if (code == 0) code = make_room(&u, &scratch);
    return code < 0 ? code : read_events(&u);
}
