from __future__ import annotations

import asyncio
import json
import shutil
import socket
from pathlib import Path
from urllib.parse import quote

from tests.requirements import lacks
from tests.status.conftest import Face

CONFIG = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: gpumesh
    static_configs: [{{targets: ["{target}"]}}]
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def value_of(face: Face, port: int, query: str) -> str | None:
    """Ask Prometheus; None while it has no answer."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(query)}"
    try:
        async with face.client.get(url) as response:
            result = json.loads(await response.text())["data"]["result"]
    except (OSError, KeyError, ValueError):
        return None
    return result[0]["value"][1] if result else None


async def scraped(face: Face, port: int) -> None:
    while await value_of(face, port, "up") != "1":  # noqa: ASYNC110 - another process has no event to wait for
        await asyncio.sleep(0.2)


async def test_prometheus_itself_scrapes_the_cards_and_the_mesh(face: Face, tmp_path: Path) -> None:
    program = shutil.which("prometheus")
    if program is None:
        lacks("prometheus is not installed (Debian: apt install prometheus)")
    config, port = tmp_path / "prometheus.yml", free_port()
    config.write_text(CONFIG.format(target=face.url.removeprefix("http://")))
    server = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={tmp_path}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.wait_for(scraped(face, port), 90)
        assert await value_of(face, port, 'DCGM_FI_DEV_GPU_TEMP{gpu="1",Hostname="pc01"}') == "47"
        assert await value_of(face, port, 'sum(gpumesh_fleet_hosts{state!="ready"})') == "4"
        join = 'DCGM_FI_DEV_POWER_USAGE * on(UUID) group_left(verdict) gpumesh_gpu_verdict{verdict="healthy"}'
        assert await value_of(face, port, f"count({join})") == "2"
    finally:
        server.terminate()
        await server.wait()
