// SPDX-License-Identifier: Apache-2.0
// Stages 1 and 2 of DeepSpeed's ZeRO cut the flat buffer of a group into equal parts, wherever
// weights end: a rank keeps the whole gradients of all weights that reach into its part
// (deepspeed/runtime/zero/stage_1_and_2.py, get_partition_info and copy_grads_in_partition), so
// that ranks need not have as much as each other, nor at the same time: the last layers' gradients
// come first, those of the embedding last.
//
// "The most" is no single rank: of kept gradients it has at each moment what the rank with the most
// of them has, so that no rank lives with more; in the update it is the rank that has most there.
#include "predict/tape/zero_int.h"

enum { ALIGNMENT = 2 }; // elements of two bytes that NCCL wants

// Of a rank: elements of whole gradients, and pieces in each group.
struct share {
    int64_t whole;
    int32_t pieces[ZERO_GROUPS];
};

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t first_rank(const struct zero_weight *w, const struct zero_group *g) {
    return w->at / g->part;
}

static int64_t last_rank(const struct zero_weight *w, const struct zero_group *g) {
    return (w->at + w->count - 1) / g->part;
}

// Elements of it in the rank's part.
static int64_t piece_of(const struct zero_weight *w, const struct zero_group *g, int64_t rank) {
    const int64_t begin = rank * g->part, end = least(begin + g->part, w->at + w->count);
    return end - (w->at > begin ? w->at : begin);
}

static void place(struct zero_weight *weights, int32_t count, struct zero_group *groups,
                  int64_t ranks) {
    const int64_t multiple = ALIGNMENT * ranks;
    for (int32_t i = 0; i < count; i++) {
        struct zero_group *g = &groups[weights[i].group];
        weights[i].at = g->count;
        g->count += weights[i].count;
    }
    for (int i = 0; i < ZERO_GROUPS; i++) {
        struct zero_group *g = &groups[i];
        g->part = (g->count + multiple - 1) / multiple * ALIGNMENT;
        g->states[0] = g->states[1] = NOT_THERE;
    }
}

static void share_out(struct share *shares, const struct zero_weight *weights, int32_t count,
                      const struct zero_group *groups, int64_t ranks) {
    for (int32_t i = 0; i < count; i++) {
        const struct zero_weight *w = &weights[i];
        const struct zero_group *g = &groups[w->group];
        if (w->count == 0) continue;
        for (int64_t r = first_rank(w, g); r <= last_rank(w, g); r++) {
            shares[r].whole += w->count;
            shares[r].pieces[w->group]++;
        }
    }
    for (int i = 0; i < ZERO_GROUPS; i++) {
        const int64_t used = groups[i].part > 0 ? groups[i].count / groups[i].part : ranks;
        for (int64_t r = used; r < ranks; r++) shares[r].pieces[i]++; // of zeros
    }
}

// Pieces of a part are joined for the update, a single one is looked at where it lies.
static int64_t in_update(const struct share *s, const struct zero_group *groups) {
    int64_t elements = s->whole;
    for (int i = 0; i < ZERO_GROUPS; i++) elements += s->pieces[i] > 1 ? groups[i].part : 0;
    return elements;
}

void tape_zero_lay_out(struct arena *scratch, const struct tape_zero *how,
                       struct zero_weight *weights, int32_t count, struct zero_group *groups) {
    struct share *shares = arena_new(scratch, struct share, how->ranks);
    const bool is_most = how->rank == TAPE_RANK_OF_MOST;
    int64_t rank = is_most ? 0 : how->rank;
    place(weights, count, groups, how->ranks);
    share_out(shares, weights, count, groups, how->ranks);
    for (int64_t r = 1; r < how->ranks && is_most; r++)
        if (in_update(&shares[r], groups) > in_update(&shares[rank], groups)) rank = r;
    for (int i = 0; i < ZERO_GROUPS; i++) groups[i].averaged = shares[rank].pieces[i];
    for (int32_t i = 0; i < count; i++) {
        struct zero_weight *w = &weights[i];
        const struct zero_group *g = &groups[w->group];
        if (w->count == 0) continue;
        const int64_t from = first_rank(w, g), to = last_rank(w, g);
        w->is_own = from <= rank && rank <= to;
        if (!is_most && !w->is_own) continue;
        for (int64_t r = is_most ? from : rank; r <= (is_most ? to : rank); r++) {
            const int64_t piece = piece_of(w, g, r);
            if (piece > w->piece) w->piece = piece;
            if (shares[r].whole > w->kept) w->kept = shares[r].whole;
        }
    }
}
