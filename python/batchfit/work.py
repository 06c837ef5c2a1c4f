"""The work of each kernel: flops and bytes, for predicting time."""


class Work:
    """Collects the kernels of one phase."""

    def observe(self, name, func, args, kwargs, out):
        """One op ran."""
