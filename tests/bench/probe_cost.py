"""What a look at eight loaded cards costs this process, the driver library's own time told apart.

``python -m tests.bench.probe_cost`` prints it; nothing is asserted, since it says as much of the machine.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from pathlib import Path
from typing import Any

from gpumesh.config import GpuConfig
from gpumesh.health.nvml import NvmlDriver
from tests.fakes.nvml import build
from tests.fakes.nvml.state import FakeDriver

NUM_CARDS = 8
NUM_LOOKS = 120
BUDGET_PERCENT = 0.3


class Meter:
    """Counts calls into the library and the processor time spent inside."""

    def __init__(self) -> None:
        self.num_calls = 0
        self.inside_s = 0.0

    def wrap(self, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            started_at = time.process_time()
            try:
                return function(*arguments)
            finally:
                self.inside_s += time.process_time() - started_at
                self.num_calls += 1

        return call


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        os.environ["GPUMESH_FAKE_NVML"] = str(state)
        cards = FakeDriver(state)
        for _ in range(NUM_CARDS):
            cards.add_gpu("h100", load="loaded")
        ctypes.CDLL(str(build.library() / build.LIBRARY))
        import pynvml  # noqa: PLC0415 - it finds the library that is loaded by then

        driver = NvmlDriver()
        driver.open()
        _look(driver)
        meter = Meter()
        find = pynvml._nvmlGetFunctionPointer
        pynvml._nvmlGetFunctionPointer = lambda name: meter.wrap(find(name))
        for _ in range(NUM_LOOKS):
            _look(driver)
        pynvml._nvmlGetFunctionPointer = find
        started_at = time.process_time()
        for _ in range(NUM_LOOKS):
            _look(driver)
        whole_s = (time.process_time() - started_at) / NUM_LOOKS
        driver.close()
    inside_s = min(whole_s, meter.inside_s / NUM_LOOKS)
    interval_s = GpuConfig().interval_s
    percent = 100 * (whole_s - inside_s) / interval_s
    print(
        f"{NUM_CARDS} loaded cards, {meter.num_calls / NUM_LOOKS:.0f} calls a look: {whole_s * 1e3:.2f} ms,\n"
        f"of which {inside_s * 1e3:.2f} ms in the library; besides it {percent:.3f} % of one CPU\n"
        f"at an interval of {interval_s:g} s (budget {BUDGET_PERCENT} %)"
    )


def _look(driver: NvmlDriver) -> None:
    for index in range(driver.count()):
        assert driver.probe_device(index).reading is not None


if __name__ == "__main__":
    main()
