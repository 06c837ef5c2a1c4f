// SPDX-License-Identifier: Apache-2.0
// What the rules of ZeRO share, and the coordinator of stage 3, which knows whose parameters are
// there.
#pragma once

#include "predict/tape/edit.h"
#include "predict/tape/host.h"
#include "predict/tape/zero.h"

enum { NOT_THERE = -1 };

// With or without weight decay.
enum { ZERO_GROUPS = 2 };

// -- stages 1 and 2: which rank has what (zero_rank.c) ----------------------------

// A trained parameter: its elements, the group, where it begins in the group's flat buffer.
struct zero_weight {
    int64_t count, at;
    int32_t alloc; // of the tape that is read
    int group;
    int32_t norm;  // of its gradient, a number on the way to the host
    bool is_taken; // a gradient is known to be this one's
    // Of the rank: whether it has some of it in its part, how many elements, and the elements of
    // all gradients that it keeps once this one's is there (0: not its own). Of "the most": by the
    // rank that has most of it.
    bool is_own;
    int64_t piece, kept;
};
struct zero_group {
    int64_t count, part; // elements of all, and of one rank with what fills it up
    int32_t averaged;    // pieces of the rank's part, what fills it up being one
    int32_t states[2];
};
// Where the weights lie in the flat buffers, and what of them the rank has. Scratch holds 16 bytes
// a rank.
void tape_zero_lay_out(struct arena *scratch, const struct tape_zero *how,
                       struct zero_weight *weights, int32_t count, struct zero_group *groups);

bool tape_zero3(struct arena *a, const struct tape *t, const struct tape_zero *how,
                struct tape *ret);

// A parameter under stage 3, in the order in which they are partitioned.
struct zero_param {
    int64_t count, part; // elements of all, and of a rank
    int32_t module;      // a text of the tape
    int group;
    bool is_trained, persists;
    int32_t sub, norm; // of the sub-groups, where it is trained; of its gradient, a number
    // What the coordinator knows of it.
    enum { ZERO_AWAY, ZERO_INFLIGHT, ZERO_HERE } status;
    int32_t block;                       // the whole of it, as a copy
    int32_t message;                     // that brings it together with others
    bool is_awaited;                     // in the registry of what is in flight
    int32_t users[4], user_count;        // modules that run
    int32_t owner;                       // the module whose recomputation brought a frozen one
    int64_t fetched_for;                 // the place it was last asked for
    int32_t first_use, use, taken_count; // of `uses`; gradients of this pass
};
struct zero_message {
    int32_t block, waiting, first, count; // of `sent`
};
// Where a module's parameters are asked for, in the order of a pass.
struct zero_place {
    int32_t module;
    int64_t before; // elements that were asked for before
};
struct zero_use {
    int32_t param, place, next; // the same parameter's; NOT_THERE: the last
};

// What the optimizer updates at once: trained parameters of one group, one after the other.
struct zero_sub_group {
    int64_t elements;
    int32_t count, states[2];
};

// A module's parameters, and another's that it looks at; in no order of their own.
struct zero_membership {
    int32_t module, param;
};

// Of the whole of a parameter: what else looks at it, and whether the engine let go of it.
struct zero_hold {
    int32_t views;
    bool is_left;
};

struct zero_coordinator {
    const struct tape_zero *how;
    struct tape *to;
    int32_t op_gathered, op_message;
    struct zero_param *params;
    int32_t param_count;
    int32_t *first, *params_of, *listed; // by module: where its parameters stand in `listed`
    struct zero_place *places;
    struct zero_use *uses;
    int32_t place_count, use_count;
    int32_t owned; // parameters with an owner
    struct zero_message *messages;
    int32_t *sent, message_count, sent_count;
    int32_t *running, running_count; // modules in backward
    struct zero_hold *holds;         // by copy: of every block there may be
    int32_t *brought;                // parts that came from the host, of a parameter each
    bool is_traced;                  // the pass before was written down, so this one is foreseen
    int32_t step, queue;             // the place, the next use to ask for early
    int64_t there;                   // elements
};

// What stage 3 keeps there, if it keeps something.
void tape_host_stage3(const struct tape_zero *how, const struct zero_coordinator *c,
                      const struct zero_sub_group *subs, int32_t sub_count, struct tape *ret);

void tape_zero_list(struct zero_coordinator *c, struct zero_membership *all, ptrdiff_t count);
// A module's place in the order of a pass; when all are there, who is used where.
void tape_zero_add_uses(struct zero_coordinator *c, int32_t module);
void tape_zero_link_uses(struct zero_coordinator *c);
void tape_zero_begin_pass(struct zero_coordinator *c);
void tape_zero_fetch(struct zero_coordinator *c, int32_t module, bool is_forward,
                     bool is_backward_pass);
void tape_zero_release(struct zero_coordinator *c, int32_t module, bool is_forward);
void tape_zero_release_left(
    struct zero_coordinator *c); // of modules whose backward pass never ends
// A view of a parameter's whole, which keeps it after its release; the block that it is of.
int32_t tape_zero_hold(struct zero_coordinator *c, int32_t param);
void tape_zero_let_go(struct zero_coordinator *c, int32_t block);
void tape_zero_release_all(struct zero_coordinator *c);
void tape_zero_gather_persistent(struct zero_coordinator *c);
