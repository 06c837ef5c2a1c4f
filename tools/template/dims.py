# SPDX-License-Identifier: Apache-2.0
"""Dimensions whose values are told apart by a prime factor each, and sizes written as products of them.

Every symbol has a marker: a prime that divides its value and that of no other symbol. So a size has one reading at most, and
what is left when its symbols are divided out is the constant, which may have the factors 2 and 3 only (bytes of a type, halves,
the three of fused q, k and v). A size with another rest is not a product: that is an error, never a guess.
"""

import re

NAMES = {"B": "batch", "S": "sequence", "D": "hidden", "F": "ffn", "V": "vocabulary", "E": "head_size", "K": "kv_heads",
         "G": "group", "R": "adapter_rank", "L": "layers", "N": "ranks"}
# What kernels round: flash attention's rows and head size (python/batchfit/cuda_rules.py).
CEILS = {"[S/128]": ("S", 128), "[E/32]": ("E", 32)}
CONSTANT_MOST = 1 << 20


def _is_prime(n):
    return n > 1 and all(n % i for i in range(2, int(n ** 0.5) + 1))


def ceil(n, by):
    """n / by, rounded up."""
    return -(-n // by)


def _odd_part(n):
    while n % 2 == 0:
        n //= 2
    return n


def _sequence(taken, tiles):
    """(S, marker of S + 1) with ceil(S / 128) = tiles, S prime and S + 1 a power of two times a prime that is not taken."""
    for s in range(128 * (tiles - 1) + 1, 128 * tiles + 1):
        if _is_prime(s) and _is_prime(_odd_part(s + 1)) and not {s, _odd_part(s + 1)} & set(taken):
            return s, _odd_part(s + 1)
    raise ValueError("no sequence length of %d tiles" % tiles)


class Dims:
    """Values of the dimensions and what finds them again in a size.

    primes: marker by letter; K absent stands for one key-value head, G for one query head a key-value head, R for no adapter, B
    for batch 1."""

    def __init__(self, primes, tiles, layers=None, head_tiles=5, fused=False):
        p = dict(primes)
        s, after = _sequence(list(p.values()) + [tiles, head_tiles], tiles)
        heads, group = p.get("K", 1), p.get("G", 1)
        self.value = {"B": p.get("B", 1), "S": s, "K": heads, "G": group, "D": heads * group * p["D"], "F": p["F"],
                      "V": p["V"], "E": 8 * p["E"], "R": p.get("R", 1), "L": layers, "N": p.get("N", 1)}
        self.marker = dict(p, S=s)
        self._ceil = {"[S/128]": tiles, "[E/32]": head_tiles}
        self._after = after
        self._fused = fused and group + 2  # heads of query, key and value in one matrix: K(G + 2)
        for name, (letter, by) in CEILS.items():
            assert ceil(self.value[letter], by) == self._ceil[name], name
        markers = list(self.marker.values()) + list(self._ceil.values()) + [after] + [self._fused] * bool(self._fused)
        assert len(set(markers)) == len(markers) and min(markers) > 3, markers

    def _divide(self, n, value, marker):
        """(n without the symbol, how often it was there)"""
        times = 0
        while n % marker == 0:
            if n % value:
                return None, 0
            n, times = n // value, times + 1
        return n, times

    def product(self, n):
        """{letters: constant} of a size, or None. Letters are sorted; "" stands for 1."""
        letters, more = "", 0
        for letter in "DBSFVERKGN":  # D first: its value has the factors K and G
            if letter in self.marker:
                n, times = self._divide(n, self.value[letter], self.marker[letter])
                if n is None:
                    return None
                letters += letter * times
        for name, marker in self._ceil.items():
            n, times = self._divide(n, marker, marker)
            letters += name * times
        fused = 0
        if self._fused:
            n, fused = self._divide(n, self._fused, self._fused)
        n, more = self._divide(n, self.value["S"] + 1, self._after)
        if fused:
            return self._fused_terms(letters, n, fused + more)
        if n is None or more > 1 or _rest(n) != 1 or n > CONSTANT_MOST:
            return None
        letters = order(letters)
        if not _can_be(letters + "S" * more):
            return None
        return {letters: n, order(letters + "S"): n} if more else {letters: n}

    def _fused_terms(self, letters, n, times):
        """A product with the factor G + 2."""
        if times != 1 or _rest(n) != 1 or n > CONSTANT_MOST or "K" not in letters or not _can_be(letters):
            return None
        return {order(letters + "G"): n, order(letters): 2 * n}

    def extent(self, n):
        """The letters of one side of a parameter: an adapter's rank may stand alone there."""
        return next((k for k, v in self.value.items() if v == n and k in "DFVR" and k in self.marker), None) or self.plain(n)

    def plain(self, n):
        """One product, its constant first unless that is 1, or None."""
        found = self.product(n)
        if found is None or len(found) != 1:
            return None
        (letters, c), = found.items()
        return letters if c == 1 else "%d%s" % (c, letters)


def _rest(n):
    for small in (2, 3):
        while n % small == 0:
            n //= small
    return n


def _can_be(letters):
    """Batches, heads and ranks never stand alone in a decoder's tensor, nor do the rounded ones: so the number of the
    parameters, in lists of one entry each, is not taken for them."""
    few = set("BKGRN") & set(letters)
    return (not few or set("SDFEV") & set(letters)) and ("[" not in letters or "[S/128]" in letters and set("KG") & set(letters))


_SYMBOL = re.compile(r"\[[^]]*\]|[A-Za-z]")
_ORDER = "BSDFVEKGRLNTIijk"


def order(letters):
    """The symbols of a product in the order of the format's table, rounded factors last."""
    symbols = _SYMBOL.findall(letters)
    return "".join(sorted(symbols, key=lambda s: (len(s) > 1, _ORDER.find(s[0]), s)))


def text(terms):
    """{letters: constant} as an expression of the format."""
    out = ""
    for letters, c in sorted(terms.items(), key=lambda t: (t[1] < 0, t[0] != "", -len(t[0]), t[0])):
        if c:
            out += ("-" if c < 0 else "+" if out else "") + ("" if abs(c) == 1 and letters else str(abs(c))) + letters
    return out or "0"


# Two sets: what is made of the first must hold for the second. No ranks divide V + 1, the rows of a unit of FSDP1.
FIRST = (dict(B=13, K=7, G=11, D=29, F=1019, V=1031, E=17, R=37, N=67), 23)
SECOND = (dict(B=23, K=11, G=7, D=31, F=1049, V=1039, E=19, R=41, N=47), 17)


FUSED_GROUPS = (59, 71)  # with another prime two above
WIDE = (50021, 60013)  # vocabularies above every hidden size here


def first(letters, fused=False, single=False, wide=False):
    """The dimensions to record at; letters: those that the template has; fused: query, key and value are one matrix; single:
    there is one head of keys and values; wide: the vocabulary is larger than the hidden size."""
    return _some(0, letters, fused, single, wide)


def second(letters, fused=False, single=False, wide=False):
    """Others, to check at."""
    return _some(1, letters, fused, single, wide)


def _some(which, letters, fused, single, wide):
    primes, tiles = (FIRST, SECOND)[which]
    fused = fused and "G" in letters
    primes = dict(primes, **({"G": FUSED_GROUPS[which]} if fused else {}), **({"V": WIDE[which]} if wide else {}))
    return Dims({k: v for k, v in primes.items() if not (k == "K" and single) and (k in letters or k not in "BGRN")}, tiles, fused=fused)
