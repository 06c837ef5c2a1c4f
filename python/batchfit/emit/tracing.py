# SPDX-License-Identifier: Apache-2.0
"""torch.compile's tracer and the hooks."""


def never():
    return False


def is_tracing():
    """The function that torch.compile's tracer takes for a constant, or one that is cheap where there is no tracer."""
    import torch
    compiler = getattr(torch, "compiler", None)
    return getattr(compiler, "is_dynamo_compiling", never)
