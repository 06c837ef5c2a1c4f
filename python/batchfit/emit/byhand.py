# SPDX-License-Identifier: Apache-2.0
"""Updates that no optimizer of torch makes: weights moved by hand (`w -= lr * w.grad`), by an optimizer of the program's own, or by
another framework's (Keras). What makes a step is then seen by one weight: after a backward it is looked at again when the next
batch, forward or backward begins, and has changed or not; a backward that leaves it as it was has only accumulated.

The weight is the nearest to the loss in the graph of the backward, so that each net of several has its own. On the host some of
its values are compared. On a GPU that would wait for it: there its version counts, which torch raises with each change in place.
Changes through `.data` leave the version alone; they are found by one comparison, and from then on each backward is a step whose
gradients are gone, or were set to nothing, by the next."""

import weakref

NODES = 200  # of a graph that are looked at: the last layer is at its beginning
VALUES = 4096  # of a weight that are compared


def nearest_weight(tensors):
    """The leaf that is nearest to a loss in its graph, or None."""
    nodes = [node for node in (getattr(tensor, "grad_fn", None) for tensor in tensors) if node is not None]
    for _ in range(NODES):
        if not nodes:
            return None
        node = nodes.pop(0)
        weight = getattr(node, "variable", None)  # of an AccumulateGrad
        if weight is not None:
            return weight
        nodes.extend(after for after, _ in node.next_functions if after is not None)
    return None


class ByHand:
    """One thread's. waits: a backward has ended, and no step has been told for it."""

    def __init__(self):
        self.waits = self.changes_data = False
        self.weight = lambda: None
        self.version = self.values = self.gradient = None

    def backward_begin(self, tensors):
        tensors = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        weight = nearest_weight(tensors)
        self.weight = weakref.ref(weight) if weight is not None else lambda: None

    def backward_end(self):
        weight = self.weight()
        self.waits = True
        if weight is None:
            return
        self.version, gradient = weight._version, weight.grad
        self.gradient = None if gradient is None else (id(gradient), gradient._version)
        self.values = None
        if weight.device.type == "cpu" or not self.changes_data:
            self.values = weight.detach().flatten()[:VALUES].clone()

    def has_stepped(self):
        """Has the weight been changed since the backward? Where that cannot be known, each backward is a step."""
        import torch
        weight = self.weight()
        if weight is None or weight._version != self.version:
            return True
        if self.values is None:
            return self.gradient_is_gone(weight)
        if torch.equal(self.values, weight.detach().flatten()[:VALUES]):
            return False
        self.changes_data = True
        return True

    def gradient_is_gone(self, weight):
        gradient = weight.grad
        return gradient is None or (id(gradient), gradient._version) != self.gradient
