from __future__ import annotations

import pytest

from tests.status.conftest import Face


@pytest.mark.parametrize(
    "name", ["evil.example", "evil.example:9477", "localhost.evil.example", "[::1", "a@b"]
)
async def test_a_rebound_name_is_refused_on_loopback(face: Face, name: str) -> None:
    answer = await face.get("/v1/fleet", Host=name)
    assert answer.status == 421
    assert answer.document["type"] == "urn:gpumesh:problem:foreign-host"


@pytest.mark.parametrize("name", ["localhost", "LOCALHOST:9477", "127.0.0.1:9477", "[::1]:9477", "10.0.0.1"])
async def test_addresses_and_localhost_are_what_people_type(face: Face, name: str) -> None:
    assert (await face.get("/v1/fleet", Host=name)).status == 200
