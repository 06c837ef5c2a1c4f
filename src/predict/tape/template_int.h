// SPDX-License-Identifier: Apache-2.0
// A template as it was read. Shared by the files of this room only.
#pragma once

#include "predict/tape/expr.h"

enum {
    TAPE_TEMPLATE_LINES_MAX = 1 << 20,  // a reader's limit; the largest template has ten thousand
    TAPE_INSTANCE_EVENTS_MAX = 1 << 22, // 126 layers have a hundred thousand
};

enum tape_op_kind { // besides enum tape_kind
    TAPE_LOOP = TAPE_WORK + 1,
    TAPE_LOOP_END,
};

// One line after the header: op i stands on line i + 2.
struct tape_op {
    uint8_t kind;          // enum tape_kind or tape_op_kind
    uint8_t phase;         // MARK
    uint8_t tag;           // ALLOC; WORK: enum tape_class
    uint8_t symbol;        // LOOP: its variable
    int32_t step;          // MARK
    int32_t stream;        // ALLOC
    int32_t op, module;    // ALLOC: in names; 0: unknown; WORK: module has its details
    int32_t other;         // LOOP: the op that ends it; LOOP_END: the one that begins it
    struct tape_expr id;   // ALLOC, FREE; LOOP: how many times; WORK: how many kernels
    int32_t id_op;         // ALLOC, FREE: the op that has the expression of its id, often this one
    int64_t id_more;       // ALLOC, FREE: what is added to its value, -2^62 to 2^20
    struct tape_expr size; // ALLOC, SCRATCH; WORK: the flops of one
    struct tape_expr more; // ALLOC: for each class more, or for each row of the first chunk of a
                           // loss, or empty; WORK: the bytes of one
    struct tape_expr second; // ALLOC: for each row of the second chunk, or empty
};

// "model.layers.{i+1}.mlp" is three pieces.
struct tape_piece {
    struct str text;
    bool is_value;
    struct tape_expr value;
};
struct tape_name {
    int32_t piece, count;
    uint32_t allowed; // symbols, where it stands
};

struct tape_template {
    struct str name; // of the file, for messages
    struct tape_header header;
    struct tape_bound bounds[TAPE_DIM_COUNT];
    struct tape_pool pool;
    struct tape_op *ops;
    struct tape_piece *pieces;
    struct tape_name *names; // [0] is empty
    int32_t op_count, piece_count, name_count;
};
