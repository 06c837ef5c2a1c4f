# SPDX-License-Identifier: Apache-2.0
"""CUDA only: the caching allocator's figures once a step, and the cap that a trial puts on the process.

The cap counts the whole process, as nvidia-smi does, so the context (what the GPU holds besides the allocator's memory and
other processes') is taken off it first. Kernels that are loaded during the first steps make the context grow, so it is looked
at again after them. A cap limits the allocator; it cannot make another GPU's kernels be chosen."""

import os

TIGHTEN_AFTER = (1, 2)  # steps


def memory_figures(device):
    """Bytes of a CUDA device's allocator, with the protocol's names."""
    import torch
    try:
        known = torch.cuda.memory_stats_as_nested_dict(device)
        allocated, reserved = known["allocated_bytes"]["all"], known["reserved_bytes"]["all"]
    except (KeyError, RuntimeError):  # an allocator that the program has plugged in
        return {}
    return {"allocated": allocated["current"], "peak_allocated": allocated["peak"], "reserved": reserved["current"],
            "peak_reserved": reserved["peak"], "alloc_retries": known["num_alloc_retries"]}


def allocator_limit(cap, total, free, others, reserved):
    """Bytes that the allocator may reserve under a cap on the whole process; all arguments in bytes."""
    context = max(0, total - free - others - reserved)
    return max(0, cap - context)


def set_cap(device):
    """Caps the allocator of a device (an index or torch.device) from the environment."""
    import torch
    cap = int(os.environ.get("BATCHFIT_MEMORY_CAP") or 0)
    if cap <= 0:
        return
    others = int(os.environ.get("BATCHFIT_OTHERS") or 0)
    free, total = torch.cuda.mem_get_info(device)
    limit = allocator_limit(cap, total, free, others, torch.cuda.memory_reserved(device))
    torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)


def cap_at_start():
    """Runs inside torch's lazy initialisation of CUDA, before the first allocation. The device is the one that launchers give
    to this rank, for the program may choose it only afterwards."""
    import torch
    rank = os.environ.get("LOCAL_RANK", "")
    if rank.isdigit() and int(rank) < torch.cuda.device_count():
        return set_cap(int(rank))
    set_cap(torch.cuda.current_device())


def tighten_cap(device, step):
    """After the first steps: their kernels have made the context larger."""
    if step in TIGHTEN_AFTER and device is not None and device.type == "cuda":
        try:
            set_cap(device)
        except (RuntimeError, ValueError):
            pass
