# SPDX-License-Identifier: Apache-2.0
"""torch.compile without a GPU: the code that Inductor writes for one, run on meta tensors by the recorder.

AOTAutograd traces the model's forward and backward pass on meta and its min-cut partitioner decides what is saved; both graphs then go
through Inductor's passes, its scheduler and its memory plan as if they were on a GPU. Of what comes out, Triton's kernels are left out
(nothing is computed here) and all else runs: which buffers there are, which of them are used again, when each of them is dropped, and
products, convolutions and attention, which remain calls of ATen. What is left open: graph breaks (there are none here), autotuning
and CUDA graphs (another pool of memory), and the versions of Inductor between the one that runs and the user's.

Names of torch that are replaced here are private: one that is missing is an error, never a guess. Known to work with torch 2.13.
"""

import contextlib
import re
import types
import warnings

import torch

from .errors import RecordError, UsageError

DEVICE = ("cuda", 0)
# Of an H100.
GPU = dict(multi_processor_count=132, regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, warp_size=32, major=9)
SINCE = (2, 4)  # of torch that runs: what the functions below are known to look like
_CALL = re.compile(r"^    def call\(self, args\):\n(?:(?: {8}.*)?\n)+", re.M)
_KERNEL = re.compile(r"\b(\w+)\.run\(")
_CONSTANT = re.compile(r"\b(_tensor_constant\w+|constant\w+)\b")


def check(knobs, kind):
    """Raises UsageError for what cannot be recorded compiled."""
    if not knobs.compile:
        return
    if tuple(int(n) for n in torch.__version__.split(".")[:2]) < SINCE:
        raise UsageError("--compile: torch %s has no compiler whose plan could be asked; it needs torch 2.4 or later" % torch.__version__)
    per_layer = knobs.compile.startswith("layers")
    if per_layer and kind not in ("hf", "titan"):
        raise UsageError("--compile %s: models of hf: and titan: say what a layer is; others are compiled whole" % knobs.compile)
    if not per_layer and knobs.shard:
        raise UsageError("--compile model: what is sharded is compiled layer by layer: --compile layers")
    if knobs.tp or knobs.quant or knobs.shard not in (None, "fsdp2"):
        raise UsageError("--compile: not recorded with --tp, --quant, and shards other than fsdp2's")
    if knobs.loss not in ("ce", "label-smoothing"):
        raise UsageError("--compile: not recorded with --loss %s, whose kernels are no graph's" % knobs.loss)


# ---- Inductor for a GPU that is not there ----------------------------------------------------------------------------

def _names():
    """(owner, name, value) of what is replaced while Inductor plans."""
    from torch._inductor import choices, scheduler  # pylint: disable=import-outside-toplevel
    from torch._inductor.codegen import triton  # pylint: disable=import-outside-toplevel
    from torch._inductor.runtime import hints  # pylint: disable=import-outside-toplevel
    properties = types.SimpleNamespace(name="GPU", minor=0, total_memory=80 << 30, max_threads_per_block=1024, L2_cache_size=50 << 20, **GPU)
    described = hints.DeviceProperties(type=DEVICE[0], index=DEVICE[1], cc=90, **GPU)
    written = []

    def kernel(self, name=None):  # pylint: disable=unused-argument
        self.inductor_meta, self.triton_meta = {}, {}
        written.append(self)
        return "# kernel %d" % len(written)
    return [(hints.DeviceProperties, "create", lambda device: described), (scheduler, "has_triton", lambda *args: True),
            (triton.TritonKernel, "codegen_kernel", kernel), (choices.InductorChoices, "reduction_split_factor", staticmethod(lambda *args, **kwargs: 1)),
            (torch.cuda, "get_device_capability", lambda *args: (9, 0)), (torch.cuda, "get_device_properties", lambda *args: properties),
            (torch.Tensor, "__invert__", torch.bitwise_not)]  # Python's own asks for the device


@contextlib.contextmanager
def _for_a_gpu():
    from torch._inductor import config  # pylint: disable=import-outside-toplevel
    before = []
    for owner, name, value in _names():
        if not hasattr(owner, name):
            raise RecordError("torch %s has no %s.%s, which --compile replaces; it is known to work with torch 2.13"
                              % (torch.__version__, getattr(owner, "__name__", owner), name))
        before.append((owner, name, vars(owner).get(name)))
        setattr(owner, name, value)
    # Sums over rows and columns in one kernel (2.10 on): small work space of another number of parts at every batch.
    mixed = {"triton.mix_order_reduction": False} if hasattr(config.triton, "mix_order_reduction") else {}
    try:
        with config.patch(mixed):
            yield
    finally:
        for owner, name, value in reversed(before):
            delattr(owner, name) if value is None else setattr(owner, name, value)


def _on_the_gpu(graph_module, mode):
    """Put the graph's tensors on the device; its inputs."""
    device, moved, inputs = torch.device(*DEVICE), {}, []

    def move(t):
        if not isinstance(t, torch.Tensor):
            return t
        if id(t) not in moved:
            moved[id(t)] = t, torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=device)
        return moved[id(t)][1]

    def named(value):
        return device if isinstance(value, torch.device) and value.type == "meta" else value
    with mode:
        for node in graph_module.graph.nodes:
            node.args, node.kwargs = (torch.fx.node.map_aggregate(v, named) for v in (node.args, dict(node.kwargs)))
            if "val" in node.meta:
                node.meta["val"] = torch.utils._pytree.tree_map(move, node.meta["val"])
            if node.op == "placeholder":
                inputs.append(node.meta["val"])
    return inputs


def _plan(graph_module, is_backward, is_inference):
    """(Inductor's Python for a graph, its constants)"""
    from torch._inductor import compile_fx, debug  # pylint: disable=import-outside-toplevel
    from torch._inductor.graph import GraphLowering  # pylint: disable=import-outside-toplevel
    from torch._inductor.virtualized import V  # pylint: disable=import-outside-toplevel
    from torch._subclasses.fake_tensor import FakeTensorMode  # pylint: disable=import-outside-toplevel
    from torch.fx.experimental.symbolic_shapes import ShapeEnv  # pylint: disable=import-outside-toplevel
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    inputs = _on_the_gpu(graph_module, mode)
    with torch.no_grad(), V.set_fake_mode(mode), V.set_debug_handler(debug.DebugContext()):
        compile_fx._recursive_post_grad_passes(graph_module, is_inference=is_inference)
        graph = GraphLowering(graph_module, example_inputs=inputs, shape_env=mode.shape_env, is_backward=is_backward,
                              is_inference=is_inference, cpp_wrapper=False, aot_mode=False)
        with V.set_graph_handler(graph):
            graph.run(*inputs)
            code = graph.codegen()[0]
    return getattr(code, "value", code), graph.constants


# ---- running what it wrote -------------------------------------------------------------------------------------------

def _reinterpret(tensor, size, stride, offset=0):
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


class _Kernels:
    """extern_kernels: ATen's own, by name."""

    @staticmethod
    def _positional(op, args, kwargs):
        """Arguments in the schema's order, as the recorder's rules take them."""
        args = list(args)
        for argument in op._schema.arguments[len(args):]:
            if argument.kwarg_only or argument.name not in kwargs:
                break
            args.append(kwargs.pop(argument.name))
        return args, kwargs

    def __getattr__(self, name):
        packet = getattr(torch.ops.aten, name, None)

        def call(*args, out=None, **kwargs):
            if packet is None:
                return out
            if out is not None:
                return packet.out(*args, out=out, **kwargs)
            args, kwargs = self._positional(packet.default, args, kwargs)
            return packet.default(*args, **kwargs)
        return call


class _Elementwise:
    """A kernel of Triton's: what it reads and writes."""

    def __init__(self, rec_of):
        self.rec_of = rec_of

    def run(self, *args, **_):
        """Nothing is computed."""
        rec = self.rec_of()
        if rec is not None and rec.work is not None:
            rec.work.fused([a for a in args if isinstance(a, torch.Tensor)])


def _nothing(*_, **__):
    """Checks, streams and devices."""
    return 0


class _Torch:
    """torch, but for what of torch.cuda would ask a GPU."""

    cuda = types.SimpleNamespace(_DeviceGuard=lambda index: contextlib.nullcontext(), set_device=_nothing, synchronize=_nothing)

    def __getattr__(self, name):
        return getattr(torch, name)


def _empty(size, stride, dtype):
    return torch.empty_strided(size, stride, dtype=dtype, device="meta")


def _device(*_):
    return torch.device("meta")


def _runnable(code, constants, rec_of):
    """The function `call` of Inductor's Python, on meta tensors."""
    found = _CALL.search(code)
    if found is None:
        raise RecordError("torch %s writes another kind of program than --compile knows" % torch.__version__)
    body = "\n".join(line[4:] for line in found.group().replace("def call(self, args)", "def call(args)", 1).split("\n"))
    body = body.replace("device(type='cuda', index=0)", "device()")
    aten = torch.ops.aten
    space = {"torch": _Torch(), "aten": aten, "inductor_ops": torch.ops.inductor, "extern_kernels": _Kernels(),
             "empty_strided_cuda": _empty, "empty_strided_cpu": _empty, "empty_strided": torch.empty_strided,
             "reinterpret_tensor": _reinterpret, "assert_size_stride": _nothing, "assert_alignment": _nothing, "device": _device,
             "get_raw_stream": _nothing, "run_intermediate_hooks": _nothing, "inf": float("inf"), "nan": float("nan")}
    space.update({name: _Elementwise(rec_of) for name in _KERNEL.findall(body)})
    space.update({name: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for name, t in constants.items()})
    exec(compile(body, "<inductor>", "exec"), space)  # pylint: disable=exec-used
    return space["call"]


# ---- activation checkpointing inside of a graph ----------------------------------------------------------------------

def _nll_loss(op):
    def nll_loss(x, target, weight=None, reduction=1, ignore_index=-100):
        return op(x, target, weight, reduction, ignore_index)[0]
    return nll_loss


def _differentiable():
    """Losses whose gradient is lost on meta while AOTAutograd traces (torch 2.13), by what they are made of."""
    library, aten = torch.library.Library("aten", "IMPL"), torch.ops.aten
    for name, op in (("nll_loss", aten.nll_loss_forward.default), ("nll_loss2d", aten.nll_loss2d_forward.default)):
        library.impl(name, _nll_loss(op), "AutogradMeta")
    return library


class _Again:
    """What is checkpointed is traced once, and its operations are marked: the partitioner computes them again in backward."""

    count = 0

    @classmethod
    @contextlib.contextmanager
    def marked(cls, context_fn=None):
        """Inside, operations are marked; context_fn: of selective checkpointing, whose policy marks them one by one."""
        from torch.fx import traceback  # pylint: disable=import-outside-toplevel
        from torch.utils.checkpoint import CheckpointPolicy  # pylint: disable=import-outside-toplevel
        meta = traceback.current_meta
        cls.count += 1
        meta.update(recompute=CheckpointPolicy.PREFER_RECOMPUTE, ac_graph_id=cls.count)
        try:
            policy = context_fn()[0] if context_fn else contextlib.nullcontext()
            if hasattr(policy, "ac_graph_id"):  # which it would write over
                policy.ac_graph_id = cls.count
            with policy:
                yield
        finally:
            for name in ("recompute", "ac_graph_id"):
                meta.pop(name, None)

    @classmethod
    def generator(cls, fn, preserve_rng_state=True, context_fn=None, *_, **__):  # pylint: disable=unused-argument,keyword-arg-before-vararg
        """In place of torch.utils.checkpoint's for the kind that is not reentrant."""
        from torch.utils.checkpoint import noop_context_fn  # pylint: disable=import-outside-toplevel
        with cls.marked(None if context_fn is noop_context_fn else context_fn):
            yield

    @classmethod
    def apply(cls, fn, _, *args):
        """In place of its CheckpointFunction."""
        with cls.marked():
            return fn(*args)


@contextlib.contextmanager
def _tracing():
    """What a model sees of being traced: torch.compiler.is_compiling(), and its checkpoints marked."""
    from torch.fx import traceback  # pylint: disable=import-outside-toplevel
    from torch.utils import checkpoint  # pylint: disable=import-outside-toplevel
    names = {"_checkpoint_without_reentrant_generator": _Again.generator, "CheckpointFunction": _Again}
    before = {name: getattr(checkpoint, name) for name in names}
    for name, value in names.items():
        setattr(checkpoint, name, value)
    was, torch.compiler._is_compiling_flag = torch.compiler._is_compiling_flag, True
    library = _differentiable()
    try:
        with traceback.preserve_node_meta(), warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*autograd kernel was not registered")
            yield
    finally:
        library._destroy()
        torch.compiler._is_compiling_flag = was
        for name, value in before.items():
            setattr(checkpoint, name, value)


# ---- a compiled function ---------------------------------------------------------------------------------------------

def _known(leaf):
    """Outputs that are no tensors, such as a cache of keys and values, are left out: nobody keeps them in a training."""
    return leaf if isinstance(leaf, (torch.Tensor, int, float, str)) else None


def _alike(module):
    """What two layers have in common that are one program: their parts and the settings of these, but for the layer's number."""
    parts = module.modules() if module is not None else ()
    return tuple((type(part).__name__, tuple(sorted((k, repr(v)) for k, v in vars(part).items()
                                                    if k != "layer_idx" and isinstance(v, (bool, int, float, str))))) for part in parts)


class Compiled:
    """A module's forward (or a function) as torch.compile has it: traced and planned at the first call with inputs of a kind. done: what
    is planned already, of this one and others like it."""

    def __init__(self, call, module, rec_of, done):
        self.call, self.module, self.rec_of, self._done = call, module, rec_of, done
        self._alike = _alike(module)

    def _tensors(self):
        """Parameters and buffers by name, those of today: sharded ones are other tensors when gathered."""
        if self.module is None:
            return {}
        return {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def _function(self, names):
        from torch.nn.utils import stateless  # pylint: disable=import-outside-toplevel
        from torch.utils import _pytree  # pylint: disable=import-outside-toplevel

        def function(tensors, args, kwargs):
            with stateless._reparametrize_module(self.module or torch.nn.Module(), dict(zip(names, tensors)), tie_weights=True):
                return _pytree.tree_map(_known, self.call(*args, **kwargs))
        return function

    def __call__(self, *args, **kwargs):
        from torch.utils import _pytree  # pylint: disable=import-outside-toplevel
        tensors = self._tensors()
        given = (list(tensors.values()), args, kwargs)
        flat, spec = _pytree.tree_flatten(given)
        key = (self._alike, torch.is_grad_enabled(), torch.is_autocast_enabled(), str(spec), tuple(
            (t.shape, t.stride(), t.dtype, t.requires_grad) if isinstance(t, torch.Tensor) else repr(t) for t in flat))
        if key not in self._done:
            self._done[key] = self._compile(list(tensors), flat, spec)
        return self._done[key](*given)

    def _compile(self, names, flat, spec):
        """Traced with other tensors of the same kind, unseen by the recorder, forward and backward."""
        import torch._inductor.lowering  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import  - its decompositions ask it
        from torch._functorch.aot_autograd import aot_function  # pylint: disable=import-outside-toplevel
        from torch._functorch.partitioners import min_cut_rematerialization_partition  # pylint: disable=import-outside-toplevel
        from torch._inductor import compile_fx, config  # pylint: disable=import-outside-toplevel
        from torch._guards import TracingContext, tracing  # pylint: disable=import-outside-toplevel
        from torch._inductor.decomposition import select_decomp_table  # pylint: disable=import-outside-toplevel
        from torch._inductor.virtualized import V  # pylint: disable=import-outside-toplevel
        from torch._subclasses.fake_tensor import FakeTensorMode  # pylint: disable=import-outside-toplevel
        from torch.utils import _pytree  # pylint: disable=import-outside-toplevel
        from torch.utils._python_dispatch import _disable_current_modes  # pylint: disable=import-outside-toplevel

        mode = FakeTensorMode(allow_non_fake_inputs=True)

        def partition(*args, **kwargs):
            _on_the_gpu(args[0], mode)
            with config.patch(joint_graph_constant_folding=False, shape_padding=False), _for_a_gpu():  # which compute
                compile_fx._recursive_joint_graph_passes(args[0])
            return min_cut_rematerialization_partition(*args, compiler="inductor", **kwargs)

        def compiler(is_backward, is_inference=False):
            def planned(graph_module, _):
                with _disable_current_modes(), _for_a_gpu():
                    call = _runnable(*_plan(graph_module, is_backward, is_inference), self.rec_of)
                call._boxed_call = True
                return call
            return planned
        done = aot_function(self._function(names), compiler(False), compiler(True), partition_fn=partition,
                            decompositions=select_decomp_table(), inference_compiler=compiler(False, True))
        likes = [torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta", requires_grad=t.requires_grad)
                 if isinstance(t, torch.Tensor) else t for t in flat]
        with _disable_current_modes():
            with tracing(TracingContext(mode)), V.set_fake_mode(mode), _tracing():
                out = done(*_pytree.tree_unflatten(likes, spec))
                ends = [t for t in _pytree.tree_leaves(out) if isinstance(t, torch.Tensor) and t.requires_grad]
                if ends:
                    torch.autograd.backward(ends, [torch.empty_like(t) for t in ends])
        return done


def _layers(model, kind):
    """The modules that are compiled one by one."""
    if kind == "titan":
        return list(model.layers)
    names = set(getattr(model, "_no_split_modules", None) or ())
    found = [m for m in model.modules() if type(m).__name__ in names or getattr(type(m), "__name__", "")[4:] in names]
    if not found:
        raise RecordError("--compile layers: the model does not say what its layers are")
    return found


def apply(job, knobs, kind):
    """The job's model compiled: its layers, or all of it."""
    def rec_of():
        return job.rec
    done = {}
    for module in _layers(job.model, kind) if knobs.compile.startswith("layers") else [job.model]:
        module.forward = Compiled(module.forward, module, rec_of, done)
    if knobs.compile == "layers+loss":
        job.loss = Compiled(job.loss, None, rec_of, {})
