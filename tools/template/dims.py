# SPDX-License-Identifier: Apache-2.0
"""Dimensions whose values are told apart by a prime factor each, and sizes written as products of them.

Every symbol has a marker: a prime that divides its value and that of no other symbol. So a size has one reading at most, and
what is left when its symbols are divided out is the constant, which may have the factors 2 and 3 only (bytes of a type, halves,
the three of fused q, k and v). A size with another rest is not a product: that is an error, never a guess.
"""

import re

NAMES = {"B": "batch", "S": "sequence", "D": "hidden", "F": "ffn", "V": "vocabulary", "E": "head_size", "K": "kv_heads",
         "G": "group", "R": "adapter_rank", "L": "layers", "N": "ranks", "X": "experts", "A": "active_experts", "W": "expert_ffn",
         "Y": "target_sequence", "P": "positions", "T": "tensor_parallel"}
OPTIONAL = "BGRNXAWYPTC"  # what a template may lack; so may "D", which is then heads times their size, and "F"
# What kernels round: flash attention's rows and head size (python/batchfit/cuda_rules.py).
CEILS = {"[S/128]": ("S", 128), "[E/32]": ("E", 32)}
SPLIT_CEILS = {"[ST/128]": ("ST", 128), "[E/32]": ("E", 32)}  # of a sequence whose parts S lie on T GPUs
# What the kernel that takes fp32 rounds.
UNHALVED = {"[S/32]": ("S", 32), "[E/32]": ("E", 32)}
# What the kernel that takes a bias rounds: rows of statistics and of q's gradient. Lengths are multiples of 16 there, as torch's
# sdpa pads the bias else, which makes another sequence of events; each has a marker of its own when rounded.
BIASED_BY = 16
BIASED = {"[%s/%d]" % (letter, by): (letter, by) for letter in "SY" for by in (32, 64)}
CONSTANT_MOST = 1 << 20
CLASSES = 2  # of a head where nobody says how many (transformers, num_labels)


def _is_prime(n):
    return n > 1 and all(n % i for i in range(2, int(n ** 0.5) + 1))


def ceil(n, by):
    """n / by, rounded up."""
    return -(-n // by)


def _odd_part(n):
    while n % 2 == 0:
        n //= 2
    return n


def _split_sequence(taken, tiles, among):
    """The same of a part of the sequence, `among` of which have so many tiles."""
    for s in range(128 * (tiles - 1) // among + 1, 128 * tiles // among + 1):
        if _is_prime(s) and ceil(s * among, 128) == tiles and s not in taken:
            return s, 0
    raise ValueError("no sequence length of %d tiles among %d" % (tiles, among))


def _parted_sequence(taken, tiles):
    """The same of eight parts that are primes, none beside it."""
    for s in range(128 * (tiles - 1) + 8, 128 * tiles + 1, 8):
        if _is_prime(s // 8) and s // 8 not in taken:
            return s, 0
    raise ValueError("no sequence length of %d tiles and eight parts" % tiles)


def _sequence(taken, tiles, beside, by):
    """(S, marker of S + beside) with ceil(S / by) = tiles, S prime and the other a power of two times a prime that is not taken."""
    for s in range(by * (tiles - 1) + 1, by * tiles + 1):
        if _is_prime(s) and _is_prime(_odd_part(s + beside)) and not {s, _odd_part(s + beside)} & set(taken):
            return s, _odd_part(s + beside)
    raise ValueError("no sequence length of %d tiles" % tiles)


def _completion(taken, s):
    """(Y, markers of Y + 1 and S - Y) of a completion that is about half of S tokens: primes that are not taken."""
    for y in range(s // 2, s):
        markers = [y, _rest(y + 1), _rest(s - y)]
        if all(_is_prime(m) and m > 3 for m in markers) and len(set(markers) - set(taken)) == len(markers):
            return markers
    raise ValueError("no completion of %d tokens" % s)


class Dims:
    """Values of the dimensions and what finds them again in a size.

    primes: marker by letter; K absent stands for one key-value head, G for one query head a key-value head, R for no adapter, B
    for batch 1, D for a width that is the heads' together. parts: whether a part of a head may be told apart, as rotary
    embeddings of some families need; eighths: whether an eighth of the sequence may; by: what widths are multiples of; alone: further letters that may stand alone in a size.
    A letter C stands for the classes of a head, which are no dimension: what is said of a size is its part without them (Dims.classes).
    beside: the length that stands beside S, labels that are padded (1) or cut (-1) by one. completion: of S tokens Y are a completion's,
    beside which Y + 1 and S - Y stand. unhalved: attention is in fp32. tiles: of 128 (32 unhalved) that the sequence has; or (S, Y), whose attention has a bias."""

    def __init__(self, primes, tiles, layers=None, head_tiles=5, fused=False, parts=False, by=1, alone="", beside=1, completion=False, eighths=False, unhalved=False):
        p, after = dict(primes), 0
        self._sums = []  # (marker, value, its terms) of lengths that are sums
        if isinstance(tiles, tuple):
            (s, p["Y"]), self._ceils = tiles, BIASED
        else:
            taken = list(p.values()) + [tiles, head_tiles]
            s, after = (_split_sequence(taken, tiles, p["T"]) if "T" in p else _parted_sequence(taken, tiles) if eighths else
                        _sequence(taken, tiles, beside, 32 if unhalved else 128))
            self._ceils = SPLIT_CEILS if "T" in p else UNHALVED if unhalved else CEILS
        if after:
            self._sums.append((after, s + beside, {"S": 1, "": beside}))
        if completion:
            p["Y"], more, rest = _completion(taken + [s, after], s)
            self._sums += [(more, p["Y"] + 1, {"Y": 1, "": 1}), (rest, s - p["Y"], {"S": 1, "Y": -1})]
        heads, group = p.get("K", 1), p.get("G", 1)
        self.value = {"B": p.get("B", 1), "S": s, "K": heads, "G": group, "D": heads * group * (by * p["D"] if "D" in p else 8 * p["E"]),
                      "F": by * p.get("F", 1), "V": p["V"], "E": 8 * p["E"], "R": p.get("R", 1), "L": layers, "N": p.get("N", 1)}
        self.value.update({k: p.get(k, 1) * (by if k == "W" else 1) for k in "XAWYPT"})
        self.value["C"] = p.get("C", CLASSES)
        self.marker = dict(p, S=_prime_part(s))
        if "Y" in p:
            self.marker["Y"] = _prime_part(p["Y"])
        self._ceil = {name: ceil(self._of(letters), by) for name, (letters, by) in self._ceils.items()}
        self._parts, self._alone, self._eighths = parts, alone, eighths
        self._fused = fused and group + 2  # heads of query, key and value in one matrix: K(G + 2)
        assert isinstance(tiles, tuple) or list(self._ceil.values()) == [tiles, head_tiles], self._ceil
        self._ceil_marker = {name: _prime_part(n) for name, n in self._ceil.items()}
        markers = list(self.marker.values()) + list(self._ceil_marker.values()) + [m for m, _, _ in self._sums] + [self._fused] * bool(self._fused)
        assert len(set(markers)) == len(markers) and min(markers) > 3, markers

    def _of(self, letters):
        """Their product."""
        product = 1
        for letter in letters:
            product *= self.value[letter]
        return product

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
        found = self._product(n)
        for by in (2, 4) if self._parts and found is None and n % self.marker["E"] == 0 else ():
            (letters, c), = (self._product(n * by) or {"": 0}).items()
            if "E" in letters and c % 2:
                return {order(letters.replace("E", "[E/%d]" % by, 1)): c}
        if self._eighths and found is None and n % self.marker["S"] == 0:
            (letters, c), = (self._product(n * 8) or {"": 0}).items()
            if "S" in letters:
                return {order(letters.replace("S", "[S/8]", 1)): c}
        return found

    def _product(self, n):
        letters = ""
        for letter in "DBSFVERKGNXAWYPTC":  # D first: its value has the factors K and G
            if letter in self.marker:
                n, times = self._divide(n, self.value[letter], self.marker[letter])
                if n is None:
                    return None
                letters += letter * times
        for name, marker in self._ceil_marker.items():
            n, times = self._divide(n, self._ceil[name], marker)
            if n is None:
                return None
            letters += name * times
        fused = 0
        if self._fused:
            n, fused = self._divide(n, self._fused, self._fused)
        more, sums = {"": 1}, 0
        for marker, value, terms in self._sums if n is not None else ():
            n, times = self._divide(n, value, marker)
            more, sums = terms if times else more, sums + times
            if n is None:
                return None
        if fused:
            return self._fused_terms(letters, n, fused + sums)
        if n is None or sums > 1 or _rest(n) != 1 or n > CONSTANT_MOST:
            return None
        if not _can_be(letters + "".join(more), self._alone):
            return None
        return {order(letters + letter): n * c for letter, c in more.items()}

    def _fused_terms(self, letters, n, times):
        """A product with the factor G + 2."""
        if times != 1 or _rest(n) != 1 or n > CONSTANT_MOST or "K" not in letters or not _can_be(letters, self._alone):
            return None
        return {order(letters + "G"): n, order(letters): 2 * n}

    def classes(self, terms):
        """(the terms of a size at CLASSES, what each class more adds as a text or None)"""
        if not terms or not any("C" in letters for letters in terms):
            return terms, None
        each = {letters.replace("C", "", 1): c for letters, c in terms.items()}
        if any("C" in letters for letters in each) or len(each) != sum("C" in letters for letters in terms):
            return None, None
        return {letters: CLASSES * c for letters, c in each.items()}, text(each)

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


_prime_part = _rest  # of a number that is a prime but for factors that the constant may have, too


def _can_be(letters, alone=""):
    """Batches, heads and ranks never stand alone in a decoder's tensor, nor do the rounded ones: so the number of the
    parameters, in lists of one entry each, is not taken for them."""
    few = set("BKGRNAT") & set(letters) - set(alone)
    return (not few or set("SDFEVXWYP") & set(letters)) and ("[" not in letters or _ROUNDED.search(letters) and set("KG") & set(letters))


_ROUNDED = re.compile(r"\[(ST?/128|[SY]/32|[SY]/64|E/[24])\]")  # not what a head's size alone is
_SYMBOL = re.compile(r"\[[^]]*\]|[A-Za-z]")
_ORDER = "BSYDFWVPEKGRXALNTICijk"


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
FIRST = (dict(B=13, K=7, G=11, D=29, F=1019, V=1031, E=17, R=37, N=67, X=31, A=19, W=73, P=3001, T=19, C=79), 23, (1424, 4496), 71)
SECOND = (dict(B=23, K=11, G=7, D=31, F=1049, V=1039, E=19, R=41, N=47, X=37, A=13, W=83, P=3011, T=13, C=89), 17, (1616, 2512), 61)


FUSED_GROUPS = (59, 71)  # with another prime two above
NARROWER = (29, 7)  # so that eight times as wide is within a template's bounds
WIDE = (50021, 60013)  # vocabularies above every hidden size here


def first(letters, **how):
    """The dimensions to record at; letters: those that the template has; fused: query, key and value are one matrix; single:
    there is one head of keys and values; wide: the vocabulary is larger than the hidden size; the rest: see Dims."""
    return _some(0, letters, **how)


def second(letters, **how):
    """Others, to check at."""
    return _some(1, letters, **how)


def _some(which, letters, fused=False, single=False, wide=False, **how):
    primes, tiles, lengths, unhalved = (FIRST, SECOND)[which]
    fused = fused and "G" in letters
    is_wide = fused and how.get("by", 1) > 1
    more = dict({"G": FUSED_GROUPS[which]}, **({"D": NARROWER[which]} if is_wide else {})) if fused else {"F": primes["W"] - 2} if "X" in letters else {}
    primes = dict(primes, **more, **({"V": WIDE[which]} if wide else {}))
    lacking = set(OPTIONAL + "DF") - set(letters) | set("K" * single)
    is_biased = "Y" in letters and not how.get("completion")
    return Dims({k: v for k, v in primes.items() if k not in lacking}, lengths if is_biased else unhalved if how.get("unhalved") else tiles, fused=fused,
                **how)
