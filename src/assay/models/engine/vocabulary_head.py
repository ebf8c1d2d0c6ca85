"""Log-softmax over vocabulary blocks: log-probabilities from hidden states without storing full rows of logits.

In: the states of the requested rows and target tokens. Out: each token's log-probability in float64, and whether it
is the argmax. Logits are float32, exponentials are shifted by each block's maximum and summed pairwise, and blocks are
combined in float64: the log-sum-exp is exact to the last digits of float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from assay.models.engine.c_kernels import CKernels, are_contiguous_float32

if TYPE_CHECKING:
    from torch import Tensor

# Vocabulary columns per block, and logits per block: 16 MB, which fits CPU caches.
COLUMNS = 4096
ELEMENTS = 1 << 22
# Magnitude of test logits that any soft cap would change, and the relative rounding tolerance.
PROBE_SCALE, NEAR = 1000.0, 1e-4


@dataclass(frozen=True, slots=True)
class OutputLayer:
    """The output projection of a model: a matrix, possibly with a bias."""

    weight: Tensor
    bias: Tensor | None = None

    @property
    def columns(self) -> int:
        return int(self.weight.shape[0])

    def block(self, states: Tensor, low: int, high: int, space: Tensor | None = None) -> Tensor:
        """Logits of some columns.

        Args:
            states: one row per position.
            low: first column.
            high: column after the last.
            space: buffer for the result, large enough; None for new memory.
        """
        import torch

        out = None if space is None else space[: len(states) * (high - low)].view(len(states), -1)
        weight = self.weight[low:high].t()
        if self.bias is None:
            return torch.mm(states, weight, out=out)
        return torch.addmm(self.bias[low:high], states, weight, out=out)

    def space(self, rows: int) -> Tensor:
        """A reusable buffer for blocks of logits: allocating each block would cost a tenth of the product's time."""
        return self.weight.new_empty(rows * min(COLUMNS, self.columns))


@dataclass(frozen=True, slots=True)
class PrecomputedLogits:
    """Placeholder head for models that compute their own logits, for example with a soft cap."""

    columns: int

    def block(self, states: Tensor, low: int, high: int, space: Tensor | None = None) -> Tensor:
        return states[:, low:high]

    def space(self, rows: int) -> None:
        return None


def find_output_layer(module: Any) -> OutputLayer | None:
    """The model's output projection, if logits are exactly its product with the last states."""
    import torch

    layer = module.get_output_embeddings()
    if type(layer) is not torch.nn.Linear:
        return None
    head = OutputLayer(layer.weight, layer.bias)
    return head if _is_plain_projection(module, layer, head) else None


def _is_plain_projection(module: Any, layer: Any, head: OutputLayer) -> bool:
    """Whether logits are exactly the output projection of the last states.

    Replaces the states before the head by values so large that a soft cap or scale of the logits shows, even if the
    logits of real texts are small.
    """
    import torch

    inputs: list[Tensor] = []
    before: list[Tensor] = []
    probe_states: list[Tensor] = []

    def swap(_: Any, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        inputs.append(given[0])
        states = torch.linspace(-1.0, 1.0, given[0].numel()).cos().mul(7919.0).sin().to(given[0]).view_as(given[0])
        largest = head.block(states.flatten(0, -2), 0, head.columns).float().abs().amax()
        probe_states.append(states * (PROBE_SCALE / largest.clamp(min=1e-3)).to(states))
        return (probe_states[0],)

    hooks = (
        layer.register_forward_pre_hook(swap),
        module.base_model.register_forward_hook(lambda _, __, output: before.append(output[0])),
    )
    try:
        with torch.inference_mode():
            ids = torch.zeros(1, 2, dtype=torch.long, device=head.weight.device)
            logits = module(input_ids=ids).logits
    except Exception:  # the probe reports what is wrong with such a model
        return False
    finally:
        for hook in hooks:
            hook.remove()
    if len(inputs) != 1 or len(before) != 1 or not torch.equal(inputs[0], before[0]):
        return False
    with torch.inference_mode():
        expected = head.block(probe_states[0].flatten(0, -2), 0, head.columns).float()
    near = PROBE_SCALE * max(NEAR, 4.0 * torch.finfo(head.weight.dtype).eps)
    return logits.numel() == expected.numel() and bool(
        (logits.float().view_as(expected) - expected).abs().amax() < near
    )


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """For every target token: its log-probability (float64), and whether it is the argmax of its row."""

    values: Tensor
    is_best: Tensor


def token_logprobs(
    head: OutputLayer | PrecomputedLogits,
    states: Tensor,
    which: Tensor,
    targets: Tensor,
    arithmetic: str = "exact",
    c_kernels: CKernels | None = None,
) -> TokenLogprobs:
    """Log-probabilities of target tokens.

    Args:
        head: computes the logits.
        states: one row per requested position.
        which: for every target, the row that predicts it; in ascending order.
        targets: the target tokens.
        arithmetic: `exact`, or `lm_eval` for torch's log-softmax over full rows in the data type of the logits.
        c_kernels: compute the sums of exponentials, if available.
    """
    import torch

    measure = _lm_eval_logprobs if arithmetic == "lm_eval" else partial(_exact_logprobs, c_kernels)
    step = max(ELEMENTS // (head.columns if arithmetic == "lm_eval" else min(COLUMNS, head.columns)), 1)
    parts = []
    for low in range(0, len(states), step):
        bounds = torch.searchsorted(which, torch.tensor([low, low + step], device=which.device)).tolist()
        inside = slice(*bounds)
        with torch.inference_mode():
            parts.append(measure(head, states[low : low + step], which[inside] - low, targets[inside]))
    return TokenLogprobs(torch.cat([part.values for part in parts]), torch.cat([part.is_best for part in parts]))


def _exact_logprobs(
    c_kernels: CKernels | None, head: OutputLayer | PrecomputedLogits, states: Tensor, which: Tensor, targets: Tensor
) -> TokenLogprobs:
    import torch

    chosen = torch.empty(len(targets), dtype=torch.float64)
    leads = torch.zeros(len(targets), dtype=torch.bool)  # whether a token is the argmax of its block
    sums, tops = [], []
    space = head.space(len(states))
    for low, high in _ranges(head.columns):
        logits = head.block(states, low, high, space).to(torch.promote_types(states.dtype, torch.float32))
        if logits.device.type == "mps":  # has no float64
            logits = logits.cpu()
        weighed = c_kernels.exp_sums(logits) if c_kernels is not None and are_contiguous_float32(logits) else None
        top = logits.amax(dim=1) if weighed is None else weighed[0]
        inside = ((targets >= low) & (targets < high)).nonzero().squeeze(-1)
        if len(inside):
            lines, columns = which[inside].to(logits.device), (targets[inside] - low).to(logits.device)
            found = logits[lines, columns]
            chosen[inside] = found.double().cpu()
            leads[inside] = _is_first(logits, lines, columns, found == top[lines]).cpu()
        # A block without finite logits is not shifted: inf - inf would be NaN.
        shift = top.masked_fill(top.isinf(), 0.0)
        total = logits.sub_(shift.unsqueeze(1)).exp_().sum(dim=1) if weighed is None else weighed[1]
        sums.append(shift.double() + total.double().log())
        tops.append(top)
    whole = torch.logsumexp(torch.stack(sums), dim=0).cpu()
    # numpy's argmax returns the first of equal blocks, as one argmax over all columns would.
    winner = torch.from_numpy(torch.stack(tops).float().cpu().numpy().argmax(axis=0))
    return TokenLogprobs(chosen - whole[which], leads & (winner[which] == targets // COLUMNS))


def _lm_eval_logprobs(
    head: OutputLayer | PrecomputedLogits, states: Tensor, which: Tensor, targets: Tensor
) -> TokenLogprobs:
    """Log-softmax as in lm-eval, with its rounding."""
    import torch

    logits = head.block(states, 0, head.columns)
    which, targets = which.to(logits.device), targets.to(logits.device)
    values = torch.log_softmax(logits, dim=-1)[which, targets]
    return TokenLogprobs(values.double().cpu(), (logits.argmax(dim=-1)[which] == targets).cpu())


def _ranges(columns: int) -> Iterator[tuple[int, int]]:
    for low in range(0, columns, COLUMNS):
        yield low, min(low + COLUMNS, columns)


def _is_first(logits: Tensor, lines: Tensor, columns: Tensor, is_top: Tensor) -> Tensor:
    """Whether tokens are the first maximum of their row; checks only those that equal the maximum."""
    places = is_top.nonzero().squeeze(-1)
    first = is_top.clone()
    first[places] = logits[lines[places]].argmax(dim=1) == columns[places]
    return first
