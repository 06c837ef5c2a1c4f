# SPDX-License-Identifier: Apache-2.0
"""The built-in training that `batchfit bench` launches when there is no command: python -m batchfit.workload."""
