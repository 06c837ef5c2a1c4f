# SPDX-License-Identifier: Apache-2.0
"""The model of a step's time, for fitting its constants: src/predict/speed/speed.c in numpy, all rows of a table at once.

    t(kernel) = max(flops * tiles * knee * odd / (f * peak), bytes / rate) + launch

summed over the kernels of one optimizer step. The kernel's class has an f, and a rate: b * bandwidth, or, where it
multiplies, min(bandwidth, l * cycles). tools/speed_fit.py compares the two.
"""

import re

import numpy as np

# name -> (start, low, high). f: share of the peak rate; b: share of the memory's bandwidth; l: bytes that a multiprocessor loads and
# stores in a cycle. Bounds: no kernel moves more than the memory gives; clocks are up to 15 % above the data sheet's. "_nhwc" is the
# same for channels_last.
CONSTANTS = {
    "f_mm": (.8, .01, 1.15), "f_bmm": (.8, .01, 1.15), "f_conv": (.6, .01, 1.15), "f_conv_nhwc": (.7, .01, 1.15),
    "f_wgrad": (.7, .01, 1.15), "f_wgrad_nhwc": (.7, .01, 1.15),
    "f_group": (.3, .01, 1.15), "f_group_nhwc": (.08, .01, 1.15), "f_group_few": (.3, .01, 1.15),
    "b_elem": (.85, .01, 1.), "b_noncontig": (.6, .01, 1.), "b_norm": (.7, .01, 1.), "b_reduce": (.5, .01, 1.),
    "b_bn": (.7, .01, 1.), "b_bn_nhwc": (.7, .01, 1.), "b_heavy": (.6, .01, 1.),
    "l_mm": (4., .05, 64.), "l_bmm": (4., .05, 64.), "l_conv": (2., .05, 64.), "l_conv_nhwc": (3., .05, 64.),
    "l_wgrad": (4., .05, 64.), "l_wgrad_nhwc": (4., .05, 64.), "l_depthwise": (2.5, .05, 64.), "l_depthwise_nhwc": (2., .05, 64.),
    "depthwise_wgrad": (1.5, .01, 3000.), "knee_channels": (4., .01, 3000.), "knee_group": (8., .01, 3000.),
    "knee_group_nhwc": (8., .01, 3000.), "odd_channels": (1.5, 1., 3000.), "launch_us": (3., 1., 8.),
}
NAMES = list(CONSTANTS)
MM, BMM, DENSE, DENSE_WGRAD, GROUP, GROUP_FEW, DEPTHWISE, ELEM, HEAVY, NONCONTIG, NORM, BN, REDUCE = range(13)
KINDS = {"mm": MM, "bmm": BMM, "attention": MM, "elem": ELEM, "heavy": HEAVY, "opt": ELEM, "noncontig": NONCONTIG,
         "norm": NORM, "bn_fwd": BN, "bn_bwd": BN, "reduce": REDUCE}
(KIND, NHWC, F32, FLOPS, BYTES, CIN, COUT, WGRAD, TAPS, COUNT) = range(10)
TILE, STEP = 64, 32  # of cuDNN's implicit matrix products: the sides of what one block computes, and how deep it reads at once


def _affine(text, batch):
    """'7', '64B' or '0+64B' at a batch."""
    c, _, k = text.partition("+")
    return int(c) + (int(k[:-1]) * batch if k else 0)


def _padded(size, tile):
    """How much larger a size is in whole tiles."""
    return -(-size // tile) * tile / max(size, 1)


def _tiles(cls, cin, cout, taps):
    """What a dense convolution computes over what it need: it is a matrix product in whole tiles. Its sides are, but for the images'
    positions, of which there are many: outputs by inputs x taps; of the input's gradient inputs by outputs x taps; and of the
    weight's gradient outputs and inputs x taps, both in tiles."""
    if cls == "conv_wgrad":
        return _padded(cout, TILE) * _padded(cin * taps, TILE)
    if cls == "conv_dgrad":
        cin, cout = cout, cin
    return _padded(cout, TILE) * _padded(cin * taps, STEP)


def _is_few(keys, groups):
    """Channels_last grouped convolutions that cuDNN has kernels for: 4 to 32 channels a group, as many out as in, 32 groups or
    a multiple. Others fall back to a direct kernel, an order of magnitude slower."""
    return (keys.get("layout") == "nhwc" and keys["cin"] == keys["cout"] and groups % 32 == 0
            and int(keys["cin"]) / groups in (4, 8, 16, 32))


def _convolution(cls, keys):
    """Kind, channels in and out of a group, and what is computed over what is needed."""
    groups, cin, cout, taps = (int(keys[k]) for k in ("groups", "cin", "cout", "kernel"))
    if groups == 1:
        return DENSE_WGRAD if cls == "conv_wgrad" else DENSE, cin, cout, _tiles(cls, cin, cout, taps)
    kind = DEPTHWISE if groups >= cin else GROUP_FEW if _is_few(keys, groups) else GROUP
    return kind, cin / groups, cout / groups, 1


def _kernel(words, batch):
    """One o line as a row of the matrix."""
    cls, keys = words[1], dict(w.split("=", 1) for w in words[7:])
    flops, moved = (int(words[i]) + int(words[i + 1]) * batch for i in (2, 4))
    kind, cin, cout, tiles = KINDS.get(cls), 0, 0, 1
    if cls in ("mm", "bmm"):
        cin, cout = _affine(keys["k"], batch), _affine(keys["n"], batch)
    elif kind is None:
        kind, cin, cout, tiles = _convolution(cls, keys)
    return (kind, keys.get("layout") == "nhwc", keys.get("dtype") == "f32", flops * tiles, moved, cin, cout, cls == "conv_wgrad",
            int(keys.get("kernel", 0)), int(words[6]))


def read(path, batch):
    """The kernels of a tape's last step at a batch, equal ones merged."""
    merged = {}
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("o "):
                row = _kernel(line.split(), batch)
                merged[row[:-1]] = merged.get(row[:-1], 0) + row[-1]
    return np.array([k + (n,) for k, n in merged.items()], float).reshape(-1, 10)


F_OF = {MM: "f_mm", BMM: "f_bmm", DENSE: "f_conv", DENSE_WGRAD: "f_wgrad", GROUP: "f_group", GROUP_FEW: "f_group_few"}
B_OF = {MM: "l_mm", BMM: "l_bmm", DENSE: "l_conv", DENSE_WGRAD: "l_wgrad", GROUP: "l_conv", GROUP_FEW: "l_conv",
        DEPTHWISE: "l_depthwise", ELEM: "b_elem", HEAVY: "b_heavy", NONCONTIG: "b_noncontig", NORM: "b_norm", BN: "b_bn",
        REDUCE: "b_reduce"}
GROUP_KNEE_OF = {GROUP: "knee_group", GROUP_FEW: "knee_group"}  # by a group's inputs; others have knee_channels, by both sides


def _constant(m, of):
    """Index of each row's constant in NAMES, -1 for none; that of channels_last where there is one."""
    out = np.full(len(m), -1)
    for kind, name in of.items():
        rows, last = m[:, KIND] == kind, name + "_nhwc" if name + "_nhwc" in CONSTANTS else name
        out = np.where(rows, np.where(m[:, NHWC] > 0, NAMES.index(last), NAMES.index(name)), out)
    return out


class Parts:
    """What of the rows' times does not depend on the constants, and the times and their slopes for some constants."""

    def __init__(self, m, card):
        """GPU: peak, peak_f32 (FLOP/s), bandwidth (bytes/s), cycles (of all multiprocessors, a second)"""
        kind, self.a, self.b = m[:, KIND], np.maximum(m[:, CIN], 1), np.maximum(m[:, COUT], 1)
        self.f, self.share, self.group = (_constant(m, of) for of in (F_OF, B_OF, GROUP_KNEE_OF))
        self.count = m[:, COUNT]
        peak = np.where((m[:, F32] > 0) & (kind <= BMM), card["peak_f32"], card["peak"])
        self.flops = np.where(self.f >= 0, m[:, FLOPS] / peak, 0)
        self.moved, self.bandwidth = m[:, BYTES], card["bandwidth"]
        by_cycle = np.array([n.startswith("l_") for n in NAMES])[self.share]
        self.unit = np.where(by_cycle, card["cycles"], card["bandwidth"])
        self.knee = (m[:, CIN] > 0) & (self.f >= 0) & (self.group < 0)
        self.odd = ((kind == DENSE) | (kind == DENSE_WGRAD)) & ((self.a % 8 > 0) | (self.b % 8 > 0)) & (self.a > 4)
        self.wgrad = (kind == DEPTHWISE) & (m[:, WGRAD] > 0)
        self.launches = np.where(kind == BN, 2, 1)

    def _both(self, q):
        x = np.array([q[n] for n in NAMES])
        ca, cb = q["knee_channels"] / self.a, q["knee_channels"] / self.b
        cg = np.where(self.group >= 0, x[self.group], 0) / self.a
        arithmetic = self.flops / np.where(self.f >= 0, x[self.f], 1) * np.where(self.knee, (1 + ca) * (1 + cb), 1 + cg)
        arithmetic *= np.where(self.odd, q["odd_channels"], 1)
        rate = x[self.share] * self.unit
        moving = self.moved / np.minimum(rate, self.bandwidth) * np.where(self.wgrad, q["depthwise_wgrad"], 1)
        return arithmetic, moving, rate <= self.bandwidth * (1 + 1e-6), ca / (1 + ca) + cb / (1 + cb), cg / (1 + cg)

    def seconds(self, q):
        """Of each row, all its kernels together."""
        arithmetic, moving = self._both(q)[:2]
        return self.count * (np.maximum(arithmetic, moving) + self.launches * q["launch_us"] * 1e-6)

    def slopes(self, q, index, runs):
        """d(seconds of each run) / d(log constant), one column a constant."""
        arithmetic, moving, below, knee, group = self._both(q)
        busy = arithmetic >= moving
        computing, copying = self.count * np.where(busy, arithmetic, 0), self.count * np.where(busy, 0, moving)
        out = np.zeros((runs, len(NAMES)))
        for which, weight in ((self.f, -computing), (self.share, -copying * below), (self.group, computing * group)):
            used = which >= 0
            flat = np.bincount(index[used] * len(NAMES) + which[used], weight[used], runs * len(NAMES))
            out += flat.reshape(runs, len(NAMES))
        for name, weight in (("knee_channels", computing * self.knee * knee), ("odd_channels", computing * self.odd),
                             ("depthwise_wgrad", copying * self.wgrad),
                             ("launch_us", self.count * self.launches * q["launch_us"] * 1e-6)):
            out[:, NAMES.index(name)] += np.bincount(index, weight, runs)
        return out


def doubtful(m, t):
    """The share of a model's time in kernels that the model is known to be bad at: channels_last grouped convolutions, and
    depthwise ones from 5 x 5 on."""
    bad = (m[:, NHWC] > 0) & ((m[:, KIND] == GROUP) | ((m[:, KIND] == DEPTHWISE) & (m[:, TAPS] >= 25)))
    return t[bad].sum() / t.sum()


class Table:
    """Many runs: one matrix, and where each begins."""

    def __init__(self, runs):
        """runs: objects with .kernels, .batch and .samples_per_sec"""
        self.runs = runs
        self.matrix = np.concatenate([r.kernels for r in runs])
        self.index = np.repeat(np.arange(len(runs)), [len(r.kernels) for r in runs])
        self.batch = np.array([r.batch for r in runs], float)
        self.truth = np.array([r.samples_per_sec for r in runs], float)

    def predict(self, q, card):
        """Samples per second of each run."""
        return self.batch / np.bincount(self.index, Parts(self.matrix, card).seconds(q), len(self.runs))

    def doubt(self, q, card):
        """Doubtful share of each run."""
        t, first = Parts(self.matrix, card).seconds(q), np.searchsorted(self.index, np.arange(len(self.runs) + 1))
        return np.array([doubtful(self.matrix[i:j], t[i:j]) for i, j in zip(first, first[1:])])


def fit(runs, card, ridge=.05):
    """Constants for these runs: least squares of the logarithms, outliers damped, drawn a little to the start values."""
    from scipy.optimize import least_squares
    table = Table(runs)
    start, low, high = (np.log([CONSTANTS[n][i] for n in NAMES]) for i in range(3))

    parts, runs = Parts(table.matrix, card), len(table.runs)

    def constants(x):
        return dict(zip(NAMES, np.exp(x)))

    def total(x):
        return np.bincount(table.index, parts.seconds(constants(x)), runs)

    def errors(x):
        return np.concatenate([np.log(table.batch / total(x) / table.truth), ridge * (x - start)])

    def jacobian(x):
        slopes = -parts.slopes(constants(x), table.index, runs) / total(x)[:, None]
        return np.concatenate([slopes, ridge * np.eye(len(start))])

    found = least_squares(errors, start, jac=jacobian, bounds=(low - 1e-9, high + 1e-9), loss="soft_l1", f_scale=.1,
                          ftol=1e-6, xtol=1e-6, max_nfev=100)
    return {n: float("%.4g" % v) for n, v in zip(NAMES, np.exp(found.x))}


# Who trained a model, and which attention stands in it: no part of what the network is.
TRAINERS = "tf gluon ssl swsl ig tv legacy adv ens test"
PARTS = "ese eca ecaresnetlight gc sk se lambda halo"


def family(model):
    """The name's first letters, less who trained it and which attention stands in it: seresnext50_32x4d and
    tf_efficientnetv2_s are of resnext and efficientnetv."""
    name = re.sub(r"^((%s)_?)+(?=[a-z]{3})" % "|".join((TRAINERS + " " + PARTS).split()), "", model)
    return re.match(r"[a-z]+", name or model).group(0)


def narrow_family(model):
    """The name's first letters, less the words before them that an underscore sets apart: seresnext50_32x4d is of seresnext, and
    may be predicted from resnext50_32x4d. The families that the study behind the goals told apart (doc/speed-model.md)."""
    name = re.sub(r"^((%s)_)+(?=[a-z])" % "|".join((TRAINERS + " " + PARTS).split()), "", model)
    return re.match(r"[a-z]+", name or model).group(0)
