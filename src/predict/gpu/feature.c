// SPDX-License-Identifier: Apache-2.0
#include "predict/gpu/gpu.h"

static const int least[GPU_FEATURES] = {
    // Triton: README, "NVIDIA GPUs (Compute Capability 7.0+)"; torch's has_triton asks for it.
    [GPU_TRITON] = 70,
    // FlashAttention-2 (README; "FlashAttention only supports Ampere GPUs or newer"), and the same
    // kernel in torch (sdp_utils.cpp, check_flash_attention_hardware_support).
    [GPU_FLASH] = 80,
    // transformers 5.23, training_args.py: "--tf32 requires Ampere or a newer GPU arch".
    [GPU_TF32] = 80,
    // accelerate, check_cuda_fp8_capability; transformers 5.23, quantizer_finegrained_fp8.py.
    [GPU_FP8] = 89,
    // transformers 5.23, modeling_flash_attention_utils.py: cuda_min_major_version is 8 of
    // FlashAttention 3 (flash-attention issue 1049: Ampere since March 2025), 9 of 4.
    [GPU_FLASH_4] = 90,
};

bool gpu_has(const struct gpu *g, enum gpu_feature feature) {
    const bool is_without_triton = str_is(g->vendor, "Apple");
    if (g->compute_capability > 0) return g->compute_capability >= least[feature];
    return !is_without_triton || feature == GPU_TF32;
}

int gpu_feature_needs(enum gpu_feature feature) {
    return least[feature];
}
