# SPDX-License-Identifier: Apache-2.0
"""Ids of a template, told from the last allocation's: what is as far away in two variants is the same text then, and all packs to a third."""

import re

_CONSTANT = re.compile(r"(\d+)(?=[+-]|$)")


def _parts(expression):
    """(constant, what is added to it)"""
    found = _CONSTANT.match(expression)
    return (int(found[1]), expression[found.end():]) if found else (0, "+" + expression)


def told(text):
    """The text of a template with "+" for the id after the last allocation's, and "-12" for a free of one 12 before it; both may be
    there already."""
    out, last = [], None
    for line in text.split("\n"):
        word, _, rest = line.partition(" ")
        expression, space, rest = rest.partition(" ")
        if word == "/l":  # the iterations in its ids are no more
            last = None
        elif word == "f" and not expression.startswith("-"):
            constant, added = _parts(expression)
            if last and added == last[1] and constant <= last[0]:
                line = "f -%d" % (last[0] - constant)
        elif word == "a" or word.startswith("a@"):
            here = (last[0] + 1, last[1]) if expression == "+" else _parts(expression)
            if last and here == (last[0] + 1, last[1]):
                line = word + " +" + space + rest
            last = here
        out.append(line)
    return "\n".join(out)
