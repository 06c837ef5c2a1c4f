# SPDX-License-Identifier: Apache-2.0
"""batchfit's PyTorch side: records what a training step asks of the GPU's memory, without a GPU."""

__version__ = "0.1.0"
