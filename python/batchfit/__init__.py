# SPDX-License-Identifier: Apache-2.0
"""batchfit's PyTorch side: records the GPU memory that a training step needs, without a GPU. For trainings there are two
functions, next_batch_size and accumulation (control.py); importing this package loads no PyTorch."""

from .control import accumulation, next_batch_size

__all__ = ["accumulation", "next_batch_size"]
__version__ = "0.1.0"
