// SPDX-License-Identifier: Apache-2.0
// Which part of a training a stack belongs to. A recipe for a new one: a row here, a row of kinds.c
// if a kind of memory comes with it, and a stack of it in tests/snapshot/training.py.
//
// Autograd runs a GPU's backward pass in a thread of its own (torch/csrc/autograd/engine.cpp),
// where no Python code runs but hooks and Functions: its allocations have no Python frame, or their
// outermost one is autograd's.
#include "predict/snapshot/snapshot_int.h"

enum where { ANYWHERE, OUTERMOST };
struct rule {
    uint8_t place;
    uint8_t where;
    const char *file; // a part of the path; "": any
    const char *name; // of the function, "*…": a part of it; "": any
};

// The first row that a stack has wins.
static const struct rule rules[] = {
    {SNAPSHOT_LIBRARY, ANYWHERE, "", "*CUDABlasHandle"}, // C++ frames (stacks="all")
    {SNAPSHOT_LIBRARY, ANYWHERE, "", "*BlasLtWorkspace"},
    {SNAPSHOT_LIBRARY, ANYWHERE, "", "*cudnn"},
    {SNAPSHOT_STATE, ANYWHERE, "torch/optim/", "_init_group"},
    {SNAPSHOT_STATE, ANYWHERE, "bitsandbytes/optim/", "init_state"},
    {SNAPSHOT_STATE, ANYWHERE, "apex/optimizers/", "__init__"},
    {SNAPSHOT_STATE, ANYWHERE, "deepspeed/runtime/zero/", "initialize_optimizer_states"},
    {SNAPSHOT_STEPPING, ANYWHERE, "torch/optim/", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "torch/nn/utils/clip_grad.py", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "torch/amp/grad_scaler.py", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "torch/cuda/amp/grad_scaler.py", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "bitsandbytes/optim/", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "apex/optimizers/", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "torchao/optim/", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "transformers/optimization.py", ""},
    {SNAPSHOT_STEPPING, ANYWHERE, "deepspeed/runtime/zero/", "step"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/nn/parallel/distributed.py", "_ddp_init_helper"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/distributed/distributed_c10d.py", ""},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/distributed/fsdp/", "unshard"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/distributed/fsdp/", "_unshard"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/distributed/fsdp/", "*all_gather"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "torch/distributed/fsdp/", "foreach_reduce"},
    {SNAPSHOT_EXCHANGE, ANYWHERE, "", "*c10d::"},
    {SNAPSHOT_CACHING, ANYWHERE, "transformers/cache_utils.py", ""},
    {SNAPSHOT_CACHING, ANYWHERE, "", "_set_cos_sin_cache"},
    {SNAPSHOT_CACHING, ANYWHERE, "kv_cache", ""},
    {SNAPSHOT_CACHING, ANYWHERE, "cache_engine.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "torch/nn/modules/module.py", "_apply"},
    {SNAPSHOT_LOADING, ANYWHERE, "", "load_state_dict"},
    {SNAPSHOT_LOADING, ANYWHERE, "torch/serialization.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "safetensors/", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "transformers/modeling_utils.py", "*pretrained"},
    {SNAPSHOT_LOADING, ANYWHERE, "transformers/core_model_loading.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "accelerate/utils/modeling.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "torch/nn/modules/", "__init__"},
    {SNAPSHOT_LOADING, ANYWHERE, "torch/nn/init.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "torch/optim/swa_utils.py", ""},
    {SNAPSHOT_LOADING, ANYWHERE, "copy.py", "deepcopy"}, // an averaged copy (EMA)
    {SNAPSHOT_BACKWARD, OUTERMOST, "torch/autograd/", ""},
    {SNAPSHOT_BACKWARD, OUTERMOST, "torch/utils/checkpoint.py", ""}, // recomputed
    {SNAPSHOT_BACKWARD, OUTERMOST, "torch/_functorch/", ""},
    {SNAPSHOT_BACKWARD, OUTERMOST, "torch/nn/parallel/distributed.py", ""}, // hooks
    {SNAPSHOT_BACKWARD, ANYWHERE, "torch/autograd/graph.py", "_engine_run_backward"},
    {SNAPSHOT_BACKWARD, ANYWHERE, "torch/autograd/__init__.py", "backward"},
    {SNAPSHOT_BACKWARD, ANYWHERE, "torch/_tensor.py", "backward"},
    {SNAPSHOT_BACKWARD, ANYWHERE, "", "*torch::autograd::Engine"},
    {SNAPSHOT_FEEDING, ANYWHERE, "torch/utils/data/", ""},
    {SNAPSHOT_FEEDING, ANYWHERE, "accelerate/utils/operations.py", "send_to_device"},
    {SNAPSHOT_FEEDING, ANYWHERE, "transformers/trainer.py", "_prepare_input"},
    {SNAPSHOT_FEEDING, ANYWHERE, "lightning", "*batch_to_device"},
    {SNAPSHOT_FEEDING, ANYWHERE, "", "preprocess_batch"},
    {SNAPSHOT_FORWARD, ANYWHERE, "torch/nn/modules/module.py", "*_call_impl"},
    {SNAPSHOT_FORWARD, ANYWHERE, "torch/nn/functional.py", ""},
    {SNAPSHOT_FORWARD, ANYWHERE, "", "forward"},
    {SNAPSHOT_FORWARD, ANYWHERE, "torchinductor", "call"}, // compiled code in the cache folder
};
enum { RULES = sizeof rules / sizeof *rules };
_Static_assert(RULES <= 64, "a frame's rules are bits of one word");

static bool name_is(struct str name, const char *wanted) {
    if (wanted[0] == 0) return true;
    if (wanted[0] != '*') return str_is(name, wanted);
    return str_find(name, str_of(wanted + 1)) >= 0;
}

static bool frame_is(const struct snapshot *s, const struct snapshot_frame *f,
                     const struct rule *r) {
    if (r->file[0] && str_find(s->texts[f->file], str_of(r->file)) < 0) return false;
    return name_is(s->texts[f->name], r->name);
}

// By frame: which rules it meets, a bit for each.
static uint64_t *frame_rules(struct arena *a, const struct snapshot *s) {
    uint64_t *bits = arena_new(a, uint64_t, s->frame_count);
    for (ptrdiff_t i = 1; i < s->frame_count; i++) {
        for (int r = 0; r < RULES; r++) {
            if (frame_is(s, &s->frames[i], &rules[r])) bits[i] |= UINT64_C(1) << r;
        }
    }
    return bits;
}

static uint64_t outermost_rules(void) {
    uint64_t bits = 0;
    for (int r = 0; r < RULES; r++) bits |= (uint64_t)(rules[r].where == OUTERMOST) << r;
    return bits;
}

// PyTorch's and Python's own; a virtual environment's folder is nobody's program.
static bool is_foreign(struct str file) {
    static const char *const parts[] = {"/site-packages/",
                                        "/dist-packages/",
                                        "torch/",
                                        "<frozen",
                                        "lib/python3",
                                        "??",
                                        ".cpp",
                                        ".cc",
                                        ".so",
                                        NULL};
    return file.len == 0 || str_has_one_of(file, parts);
}

static bool is_program(const struct snapshot *s, const struct snapshot_stack *stack) {
    const struct snapshot_frame *inner = &s->frames[s->stack_frames[stack->first]];
    return !is_foreign(s->texts[inner->file]);
}

uint8_t *snapshot_places(struct arena *a, const struct snapshot *s) {
    uint8_t *places = arena_new(a, uint8_t, s->stack_count);
    uint64_t *of_frame = frame_rules(a, s), outermost = outermost_rules();
    for (ptrdiff_t i = 1; i < s->stack_count; i++) {
        const struct snapshot_stack *stack = &s->stacks[i];
        const int32_t *frames = s->stack_frames + stack->first;
        uint64_t met = of_frame[frames[stack->count - 1]] & outermost;
        for (int32_t f = 0; f < stack->count; f++) met |= of_frame[frames[f]] & ~outermost;
        if (met)
            places[i] = rules[__builtin_ctzll(met)].place;
        else if (is_program(s, stack))
            places[i] = SNAPSHOT_PROGRAM;
    }
    return places;
}

struct str snapshot_place_text(struct arena *a, const struct snapshot *s, int32_t stack) {
    if (stack <= 0) return (struct str){0};
    const int32_t *frames = s->stack_frames + s->stacks[stack].first;
    const struct snapshot_frame *shown = &s->frames[frames[0]];
    for (int32_t i = 0; i < s->stacks[stack].count; i++) {
        const struct snapshot_frame *f = &s->frames[frames[i]];
        if (is_foreign(s->texts[f->file])) continue;
        shown = f;
        break;
    }
    const struct str file = str_last(str_last(s->texts[shown->file], '/'), '\\');
    return str_format(a, "%.*s:%d %.*s", STR_ARG(file), shown->line,
                      STR_ARG(s->texts[shown->name]));
}
