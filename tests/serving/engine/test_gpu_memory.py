"""NVML's answers, by a stand-in for the driver; without a driver the real binding says so and nothing is shown."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml
import pytest

from serving.engine.gpu_memory import DeviceMemory, Devices

GIB = 1 << 30


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Three GPUs; GiB in use by handle."""
    used = {"0": 10, "1": 20, "2": 40}
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 3)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByIndex", str)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetHandleByUUID", lambda uuid: {"GPU-c": "2"}[uuid])
    monkeypatch.setattr(
        pynvml, "nvmlDeviceGetMemoryInfo", lambda handle: SimpleNamespace(used=used[handle] * GIB, total=80 * GIB)
    )
    return used


@pytest.mark.parametrize(
    ("count", "environ", "used"),
    [
        (1, {}, 10),
        (3, {}, 70),
        (2, {"CUDA_VISIBLE_DEVICES": "1,2"}, 60),
        (1, {"CUDA_VISIBLE_DEVICES": "GPU-c"}, 40),
    ],
)
def test_the_engines_own_gpus_are_summed(
    driver: dict[str, int], count: int, environ: dict[str, str], used: int
) -> None:
    assert Devices(count, environ).memory() == DeviceMemory(used * GIB, count * 80 * GIB)


def test_a_gpu_that_stops_answering_shows_nothing_and_harms_nobody(
    driver: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(handle: object) -> None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)

    devices = Devices(1, {})
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lost)
    assert devices.memory() is None


def test_without_a_gpu_there_is_nothing(driver: dict[str, int]) -> None:
    assert Devices(1, {"CUDA_VISIBLE_DEVICES": ""}).memory() is None


def test_without_a_driver_the_binding_says_so() -> None:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert Devices(1, {}).memory() is None
    else:
        memory = Devices(1, {}).memory()
        assert memory is None or 0 < memory.used <= memory.total
