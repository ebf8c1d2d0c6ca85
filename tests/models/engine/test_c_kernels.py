"""C kernels: torch's results where a compiler is available; elsewhere a reason, and everything still works."""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from assay.models.engine import c_kernels as room
from assay.models.engine.backend_choice import choose_engine
from assay.models.engine.c_kernels import SWITCH, CKernels, are_contiguous_float32, can_attend, can_rotate
from assay.models.engine.cpu_layers import rotation
from assay.models.loading.network import Network

GNU = '[ "$1" = --version ] && echo Free Software Foundation'
find_anew: Callable[..., CKernels | str] = room.find_c_kernels.__wrapped__


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("count", [1, 15, 16, 17, 1000])
def test_gate(c_kernels: CKernels, count: int) -> None:
    gate, up = numbers(3, count) * 30, numbers(1, 3, count)[0]
    gate[0, 0], gate[1, 0], gate[2, 0] = -200, 200, torch.nan
    right = torch.nn.functional.silu(gate.double()) * up.double()
    found = c_kernels.gate_up(gate, up)
    assert found is gate
    assert torch.allclose(found.double(), right, rtol=1e-6, atol=1e-30, equal_nan=True)


@pytest.mark.parametrize("width", [1, 7, 16, 64, 100, 576])
def test_norm(c_kernels: CKernels, width: int) -> None:
    given, weight = numbers(5, width), numbers(2, width)[1]
    given[2], given[3, 0] = 0, torch.nan
    wide = given.double()
    right = wide * (wide.square().mean(dim=-1, keepdim=True) + 1e-5).rsqrt() * weight.double()
    assert torch.allclose(c_kernels.norm(given, weight, 1e-5).double(), right, rtol=1e-6, atol=1e-7, equal_nan=True)


@pytest.mark.parametrize("heads_first", [False, True])
@pytest.mark.parametrize("width", [2, 6, 64])
def test_rotate(c_kernels: CKernels, heads_first: bool, width: int) -> None:
    given = numbers(1, 3, 9, width) if heads_first else numbers(1, 9, 3, width).transpose(1, 2)
    angles = numbers(1, 9, width)
    cosines, sines = angles.cos(), angles.sin()
    assert can_rotate(given, cosines, sines)
    found = c_kernels.rotate(given, cosines, sines)
    turned = torch.cat([-given[..., width // 2 :], given[..., : width // 2]], dim=-1)
    assert torch.allclose(found, given * cosines.unsqueeze(1) + turned * sines.unsqueeze(1), atol=1e-6)
    assert found.stride() == given.stride()


def test_rotation_of_shapes_that_the_c_kernels_do_not_know(c_kernels: CKernels) -> None:
    def own(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> tuple[torch.Tensor, ...]:
        halves = (torch.cat([-one[..., 4:], one[..., :4]], dim=-1) for one in (q, k))
        return tuple(one * cos[:, None] + half * sin[:, None] for one, half in zip((q, k), halves, strict=True))

    query, angles = numbers(2, 3, 9, 8), numbers(2, 9, 8)  # two texts
    given = (query, query[:, :1], angles.cos(), angles.sin())
    with torch.inference_mode():
        for right, found in zip(own(*given), rotation(own, c_kernels)(*given), strict=True):
            assert torch.allclose(found, right, atol=1e-6)


@pytest.mark.parametrize("width", [1, 16, 17, 4096])
def test_exp_sums(c_kernels: CKernels, width: int) -> None:
    logits = numbers(4, width) * 40
    logits[1] -= 500
    top, sums = c_kernels.exp_sums(logits)
    assert torch.equal(top, logits.amax(dim=1))
    right = (logits.double() - top.double().unsqueeze(1)).exp().sum(dim=1)
    assert torch.allclose(sums, right, rtol=1e-6) and sums.dtype == torch.float64


def test_exp_sums_of_rows_that_are_not_finite(c_kernels: CKernels) -> None:
    logits = numbers(5, 40)
    logits[0] = -math.inf
    logits[1, 3] = math.inf
    logits[2, 39] = math.nan
    logits[3, 0] = math.nan
    logits[4, 1:] = -math.inf
    top, sums = c_kernels.exp_sums(logits)
    assert top[:2].tolist() == [-math.inf, math.inf] and sums[:2].tolist() == [0, math.inf]
    assert sums[2:4].isnan().all() and sums[4] == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_formats_are_not_for_the_c_kernels(dtype: torch.dtype) -> None:
    given = numbers(1, 2, 9, 8)
    angles = numbers(1, 9, 8)
    assert (
        are_contiguous_float32(given, angles)
        and not are_contiguous_float32(given, angles.to(dtype))
        and not are_contiguous_float32(given.transpose(1, 2))
    )
    assert can_rotate(given, angles, angles)
    assert not can_rotate(given.to(dtype), angles, angles) and not can_rotate(given, angles, angles.to(dtype))
    pair, output = (given, given), numbers(9, 2, 8)
    assert can_attend(given, pair, pair, output, None)
    assert not can_attend(given, (given, given.to(dtype)), pair, output, None)
    assert not can_attend(given, pair, pair, output, numbers(2, 9).to(dtype))


def test_a_model_uses_them_and_says_so(c_kernels: CKernels, network: Network) -> None:
    choice = choose_engine(network, "auto", "exact", 512)
    assert choice.reader is not None and choice.reader.c_kernels is not None


def test_a_model_works_without_them(
    network: Network, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(SWITCH, "off")
    room.find_c_kernels.cache_clear()
    request.addfinalizer(room.find_c_kernels.cache_clear)
    choice = choose_engine(network, "auto", "exact", 512)
    assert choice.engine == "tree" and choice.reader is not None and choice.reader.c_kernels is None


def test_they_are_compiled_once(c_kernels: CKernels, own_cache: Path) -> None:
    assert isinstance(find_anew(), CKernels)
    (library,) = (own_cache / "compiled").iterdir()
    made = library.stat()
    assert isinstance(find_anew(), CKernels)
    assert library.stat().st_mtime_ns == made.st_mtime_ns and made.st_mode & 0o022 == 0


def test_another_processor_gets_its_own(c_kernels: CKernels, own_cache: Path, tmp_path: Path) -> None:
    other = tmp_path / "cpuinfo"
    other.write_text("model name: another\n")
    find_anew()
    find_anew(other)
    assert len(list((own_cache / "compiled").iterdir())) == 2


@pytest.mark.parametrize("value", ["0", "off", "No", "false"])
def test_they_can_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, value)
    assert find_anew() == f"{SWITCH} is off"


def test_other_systems_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert find_anew() == "compiled on Linux only"


def test_without_a_compiler_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert find_anew() == "no C compiler (gcc) was found"


def compiler_that(does: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "gcc"
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name: str(path))


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("exit 3", "exit status 3"),
        ("echo clang", "not GCC"),
        (f'{GNU} || {{ echo "omp.h: no such file" >&2; exit 1; }}', "omp.h"),
        (f'{GNU} || {{ shift 8; echo no library > "$1"; }}', "could not be compiled"),
    ],
)
def test_a_compiler_that_fails_is_not_an_error(
    does: str, reason: str, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler_that(does, tmp_path, monkeypatch)
    found = find_anew()
    assert isinstance(found, str) and reason in found


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_a_folder_that_others_may_write_is_not_used(own_cache: Path) -> None:
    folder = own_cache / "compiled"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    found = find_anew()
    assert isinstance(found, str) and "other users can write" in found and not list(folder.iterdir())


@pytest.mark.skipif(shutil.which("gcc") is None or os.getuid() == 0, reason="no gcc, or root may write anywhere")
def test_a_cache_that_cannot_be_written_is_not_an_error(own_cache: Path) -> None:
    own_cache.mkdir(mode=0o500)
    assert "could not be compiled" in str(find_anew())
