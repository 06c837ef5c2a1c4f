# SPDX-License-Identifier: Apache-2.0
"""pip comes here where none of the wheels suits: says why, and what to do. Builds nothing."""
import sys

from platform_note import SOURCE, note


def build_wheel(*_):
    sys.exit(note() or "no wheel of batchfit suits this pip; update it (pip install --upgrade pip), or %s" % SOURCE)


prepare_metadata_for_build_wheel = get_requires_for_build_wheel = build_sdist = build_wheel
