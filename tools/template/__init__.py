# SPDX-License-Identifier: Apache-2.0
"""From recordings with prime-valued dimensions to a template: what tools/templates.py uses."""
