"""Engines that bench/alternatives.py compares: a Llama model in plain transformers and in other runtimes.

Each function takes `Options` and gives an `Engine`, which runs whole sequences and decode steps on numpy arrays.
Imports stay inside the functions, so that a process loads only the runtime it measures.
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CACHED = 512
LAYERS = 30


@dataclass(frozen=True, slots=True)
class Engine:
    """`forward(ids, with_logits)` of whole sequences; `decoder(batch)` gives a function that makes one decode step."""

    forward: Callable[[np.ndarray, bool], Any]
    decoder: Callable[[int], Callable[[], Any]]


@dataclass(frozen=True, slots=True)
class Options:
    model: str
    work: str
    threads: int = 2


def clocks() -> tuple[float, float]:
    """Wall and CPU seconds; the CPU's are those of all threads of this process."""
    return time.perf_counter(), time.process_time()


def since(started: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = clocks()
    return wall - started[0], cpu - started[1]


def positions_of(ids: np.ndarray) -> np.ndarray:
    positions: np.ndarray = np.broadcast_to(np.arange(ids.shape[1]), ids.shape).copy()
    return positions


def random_past(batch: int) -> list[np.ndarray]:
    """Keys and values of 512 tokens; their content does not affect the time."""
    generator = np.random.default_rng(0)
    one = generator.standard_normal((batch, 3, CACHED, 64), dtype=np.float32)
    return [one.copy() for _ in range(2 * LAYERS)]


# Engines that stay in torch.


def loaded(options: Options, attention: str = "sdpa", dtype: str = "float32") -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    kind = getattr(torch, dtype)
    return AutoModelForCausalLM.from_pretrained(options.model, dtype=kind, attn_implementation=attention).eval()


def stock(model: Any) -> Engine:
    """The model as transformers runs it, with its own growing cache."""
    import torch
    from transformers import DynamicCache

    dtype = model.model.embed_tokens.weight.dtype

    def forward(ids: np.ndarray, with_logits: bool) -> Any:
        hidden = model.model(input_ids=torch.from_numpy(ids), use_cache=False).last_hidden_state
        return model.lm_head(hidden) if with_logits else hidden

    def decoder(batch: int) -> Callable[[], Any]:
        past = [torch.from_numpy(one).to(dtype) for one in random_past(batch)]
        ids = torch.full((batch, 1), 7)

        def step() -> Any:
            cache = DynamicCache()
            for layer in range(LAYERS):
                cache.update(past[2 * layer], past[2 * layer + 1], layer)
            started = clocks()
            model(input_ids=ids, past_key_values=cache, use_cache=True)
            return since(started)

        return step

    return Engine(forward, decoder)


def plain(options: Options) -> Engine:
    return stock(loaded(options))


def float64(options: Options) -> Engine:
    return stock(loaded(options, dtype="float64"))


def bfloat16(options: Options) -> Engine:
    return stock(loaded(options, dtype="bfloat16"))


def torch_int8(options: Options) -> Engine:
    import torch
    from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

    # One scale per tensor, the default, is far off for this model: one per row is the fair choice.
    quantize: Callable[..., Any] = quantize_dynamic
    return stock(quantize(loaded(options), {torch.nn.Linear: per_channel_dynamic_qconfig}))


def compile_anew(options: Options) -> None:
    """Disables the cache of `torch.compile`, so that its time counts; call it before torch is imported."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(dir=options.work)


def compiled_layers(options: Options) -> Engine:
    """`torch.compile` of each layer separately: layers share one compilation, while a whole model has thirty."""
    compile_anew(options)
    model = loaded(options)
    for layer in model.model.layers:
        layer.compile()
    return stock(model)


def prepacked(options: Options) -> Engine:
    """Every linear layer through oneDNN with its weight reordered once."""
    import torch

    class Packed(torch.nn.Module):
        def __init__(self, linear: Any) -> None:
            super().__init__()
            self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach())

        def forward(self, rows: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(rows, self.packed, None, "none", [], "")

    model = loaded(options)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear):
                setattr(parent, name, Packed(child))
    return stock(model)


def bare_attention() -> None:
    """Attention without mask building and cache objects, which exporters cannot follow."""
    import torch
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    def attend(module: Any, query: Any, key: Any, value: Any, mask: Any, scaling: float, **others: Any) -> Any:
        if module.past is not None:
            key, value = (torch.cat(pair, 2) for pair in zip(module.past, (key, value), strict=True))
        module.present = (key, value)
        groups = module.num_key_value_groups
        key, value = (one[:, :, None].expand(-1, -1, groups, -1, -1).flatten(1, 2) for one in (key, value))
        mixed = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=module.past is None, scale=scaling
        )
        return mixed.transpose(1, 2).contiguous(), None

    AttentionInterface.register("bare", attend)
    AttentionMaskInterface.register("bare", lambda *arguments, **named: None)


def graph(options: Options, with_logits: bool) -> Any:
    """A module of tensors only: (ids, positions[, past]) to hidden states or logits, and the present cache."""
    import torch

    bare_attention()
    model = loaded(options, attention="bare")

    class Graph(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, ids: Any, positions: Any, past: Any = None) -> Any:
            attentions = [layer.self_attn for layer in self.model.model.layers]
            for index, attention in enumerate(attentions):
                attention.past = None if past is None else (past[2 * index], past[2 * index + 1])
            out = self.model.model(input_ids=ids, position_ids=positions, use_cache=False).last_hidden_state
            out = self.model.lm_head(out) if with_logits else out
            return out if past is None else (out, *[one for each in attentions for one in each.present])

    return Graph().eval()


def example(with_past: bool) -> tuple[Any, ...]:
    import torch

    if not with_past:
        ids = torch.full((2, 16), 7)
        return ids, torch.from_numpy(positions_of(ids.numpy()))
    past = [torch.zeros(2, 3, 8, 64) for _ in range(2 * LAYERS)]
    return torch.full((2, 1), 7), torch.full((2, 1), 8), past


def compiled(options: Options, freeze: bool = False) -> Engine:
    compile_anew(options)
    import torch
    import torch._dynamo
    import torch._inductor.config

    torch._inductor.config.freezing = freeze
    torch._dynamo.config.cache_size_limit = 64
    torch._dynamo.config.allow_unspec_int_on_nn_module = True
    graphs: dict[bool, Callable[..., Any]] = {
        head: torch.compile(graph(options, head), dynamic=True) for head in (False, True)
    }
    stepper: Callable[..., Any] = torch.compile(graph(options, True), dynamic=True)

    def forward(ids: np.ndarray, with_logits: bool) -> Any:
        return graphs[with_logits](torch.from_numpy(ids), torch.from_numpy(positions_of(ids)))

    def decoder(batch: int) -> Callable[[], Any]:
        past = [torch.from_numpy(one) for one in random_past(batch)]
        ids, positions = torch.full((batch, 1), 7), torch.full((batch, 1), CACHED)
        return lambda: stepper(ids, positions, past)

    return Engine(forward, decoder)


def frozen(options: Options) -> Engine:
    return compiled(options, freeze=True)


# OpenVINO.


def openvino(options: Options, int8: bool = False, settings: dict[str, Any] | None = None) -> Engine:
    import openvino as ov
    from openvino._offline_transformations import apply_make_stateful_transformation

    core = ov.Core()
    wanted = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32", "PERFORMANCE_HINT": "LATENCY"}
    wanted |= {"INFERENCE_NUM_THREADS": options.threads} | (settings or {})

    def built(with_logits: bool, with_past: bool) -> Any:
        model = ov.convert_model(graph(options, with_logits), example_input=example(with_past))
        if int8:
            import nncf

            model = nncf.compress_weights(model)
        if with_past:
            names = {f"past.{index}": f"present.{index}" for index in range(2 * LAYERS)}
            for port, name in zip(model.inputs[2:], names, strict=True):
                port.get_tensor().set_names({name})
                port.get_node().set_partial_shape(ov.PartialShape([-1, 3, -1, 64]))
            for port, name in zip(model.outputs[1:], names.values(), strict=True):
                port.get_tensor().set_names({name})
            model.validate_nodes_and_infer_types()
            apply_make_stateful_transformation(model, names)
        return core.compile_model(model, "CPU", wanted)

    models = {head: built(head, with_past=False) for head in (False, True)}
    stepper = built(with_logits=True, with_past=True)

    def forward(ids: np.ndarray, with_logits: bool) -> Any:
        return models[with_logits]([ids, positions_of(ids)])[0]

    def decoder(batch: int) -> Callable[[], Any]:
        request = stepper.create_infer_request()
        for state, one in zip(request.query_state(), random_past(batch), strict=True):
            state.state = ov.Tensor(one)
        ids, positions = np.full((batch, 1), 7), np.full((batch, 1), CACHED)
        return lambda: request.infer([ids, positions])

    return Engine(forward, decoder)


def openvino_int8(options: Options) -> Engine:
    return openvino(options, int8=True)


def openvino_int8_weights(options: Options) -> Engine:
    """int8 weights with float32 activations: OpenVINO also quantises activations unless disabled."""
    return openvino(options, int8=True, settings={"DYNAMIC_QUANTIZATION_GROUP_SIZE": "0"})


# ONNX Runtime.


def exported(options: Options, opset: int, with_logits: bool, with_past: bool) -> Path:
    """An ONNX file, made once per work folder; the seconds it took are in a file next to it."""
    path = Path(options.work) / f"{opset}-{with_logits}-{with_past}.onnx"
    if path.exists():
        return path
    import torch

    started = time.perf_counter()
    batch, tokens, past = (
        torch.export.Dim(name, min=1 + (name == "tokens"), max=8192) for name in ("batch", "tokens", "past")
    )
    shapes: Any = ({0: batch, 1: tokens}, {0: batch, 1: tokens})
    if with_past:
        shapes = ({0: batch}, {0: batch}, [{0: batch, 2: past}] * (2 * LAYERS))
    program = torch.onnx.export(
        graph(options, with_logits),
        example(with_past),
        dynamo=True,
        opset_version=opset,
        dynamic_shapes=shapes,
        verbose=False,
    )
    assert program is not None  # None if dynamo exports nothing
    program.save(str(path), external_data=True)
    path.with_suffix(".seconds").write_text(f"{time.perf_counter() - started:.1f}")
    return path


def quantised(path: Path) -> Path:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    target = path.with_name(f"int8-{path.name}")
    if not target.exists():
        quantize_dynamic(
            path, target, per_channel=True, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"],
            use_external_data_format=True,
        )  # fmt: skip
    return target


def onnx(options: Options, opset: int = 23, int8: bool = False) -> Engine:
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    settings.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as with OpenMP: waiting is not work

    def session(with_logits: bool, with_past: bool) -> Any:
        path = exported(options, opset, with_logits, with_past)
        path = quantised(path) if int8 else path
        return onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])

    models = {head: session(head, with_past=False) for head in (False, True)}
    stepper = session(with_logits=True, with_past=True)

    def forward(ids: np.ndarray, with_logits: bool) -> Any:
        return models[with_logits].run(None, {"ids": ids, "positions": positions_of(ids)})[0]

    def decoder(batch: int) -> Callable[[], Any]:
        given = [np.full((batch, 1), 7), np.full((batch, 1), CACHED), *random_past(batch)]
        feed = dict(zip([one.name for one in stepper.get_inputs()], given, strict=True))
        return lambda: stepper.run(None, feed)

    return Engine(forward, decoder)


def onnx18(options: Options) -> Engine:
    return onnx(options, opset=18)


def onnx_int8(options: Options) -> Engine:
    return onnx(options, opset=18, int8=True)


ENGINES: dict[str, Callable[[Options], Engine]] = {
    "plain": plain,
    "float64": float64,
    "bfloat16": bfloat16,
    "prepacked": prepacked,
    "compile": compiled,
    "compile-layers": compiled_layers,
    "compile-frozen": frozen,
    "torch-int8": torch_int8,
    "openvino": openvino,
    "openvino-int8": openvino_int8,
    "openvino-int8-weights": openvino_int8_weights,
    "onnx23": onnx,
    "onnx18": onnx18,
    "onnx-int8": onnx_int8,
}
