from __future__ import annotations

import pytest

from gpumesh.config import Config
from gpumesh.mesh.events import KINDS
from gpumesh.status.app import make_app, make_metrics_app
from gpumesh.status.problem import MEDIA_TYPE
from tests.samples.fleet import SELF_ID, SampleSource, host
from tests.status.conftest import Answer, Face, serving


def assert_problem(answer: Answer, status: int) -> None:
    assert answer.status == status
    assert answer.headers["Content-Type"].startswith(MEDIA_TYPE)
    assert {"type", "title", "status", "detail"} <= set(answer.document)
    assert answer.document["status"] == status


async def test_status_says_who_it_is_and_how_it_is(face: Face) -> None:
    document = (await face.get("/v1/status")).document
    assert (document["host_id"], document["name"], document["state"]) == (SELF_ID, "pc01", "ready")
    assert (document["epoch"], document["ready"], document["isolated"]) == (7, True, False)
    assert document["uptime_s"] >= 0
    assert document["gpus"][0]["reading"]["temperature_c"] == 46


async def test_fleet_lists_every_host_with_its_gpus_and_findings(face: Face) -> None:
    document = (await face.get("/v1/fleet")).document
    assert document["num_hosts"] == 5
    degraded = document["hosts"][1]
    assert degraded["state"] == "degraded"
    assert degraded["gpus"][1]["findings"][0]["action"] == "reboot"
    assert degraded["gpus"][1]["findings"][0]["since"] == "2027-01-15T07:55:00.000Z"


async def test_gpus_name_their_host_and_its_state(face: Face) -> None:
    gpus = (await face.get("/v1/gpus")).document["gpus"]
    assert len(gpus) == 8
    assert (gpus[2]["host"], gpus[2]["host_state"], gpus[2]["verdict"]) == ("pc02", "degraded", "healthy")


@pytest.mark.parametrize("wanted", [SELF_ID, SELF_ID.upper(), "1111", "pc01", "PC01"])
async def test_a_host_is_found_by_id_prefix_or_name(face: Face, wanted: str) -> None:
    assert (await face.get(f"/v1/hosts/{wanted}")).document["host_id"] == SELF_ID


async def test_an_ambiguous_host_is_a_conflict_that_lists_all(face: Face, source: SampleSource) -> None:
    twin = host(6, facts=source.shown.hosts[1].facts)
    object.__setattr__(source.shown, "hosts", (*source.shown.hosts, twin))
    answer = await face.get("/v1/hosts/pc02")
    assert_problem(answer, 409)
    assert [match["host_id"][:4] for match in answer.document["matches"]] == ["2222", "6666"]


async def test_an_unknown_host_is_not_found_and_the_nearest_is_named(face: Face) -> None:
    answer = await face.get("/v1/hosts/pc1")
    assert_problem(answer, 404)
    assert "did you mean pc01?" in answer.document["detail"]


async def test_placement_answers_with_gpus_ranking_and_reasons(face: Face) -> None:
    document = (await face.get("/v1/placement?key=k&gpus=2&memory=10GiB&label.room=2")).document
    assert document["chosen"]["host"] == "pc01"
    assert len(document["chosen"]["gpus"]) == 2
    assert document["request"]["labels"] == {"room": "2"}
    assert {item["host"] for item in document["rejections"]} == {"pc02", "pc03", "pc04", "pc05"}
    assert all(item["reason"] for item in document["rejections"])


async def test_placement_avoids_who_is_to_be_avoided_and_says_nowhere(face: Face) -> None:
    document = (await face.get("/v1/placement?key=k&avoid=pc01&avoid=pc02")).document
    assert document["chosen"] is None
    assert document["reason"]


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("", "key"),
        ("key=k&gpus=x", "gpus"),
        ("key=k&memory=20", "memory"),
        ("key=k&memori=20GiB", "did you mean memory?"),
        ("key=k&label.=2", "label"),
    ],
)
async def test_a_malformed_request_is_refused_by_the_name_of_the_field(
    face: Face, query: str, word: str
) -> None:
    answer = await face.get(f"/v1/placement?{query}")
    assert_problem(answer, 400)
    assert word in answer.document["detail"]


async def test_unknown_query_keys_are_refused_everywhere(face: Face) -> None:
    for path in ("/", "/v1/status", "/v1/fleet", "/v1/gpus", "/metrics", "/healthz"):
        answer = await face.get(f"{path}?color=red")
        assert_problem(answer, 400)
        assert "'color'" in answer.document["detail"]


async def test_what_is_not_there_is_a_problem(face: Face) -> None:
    assert_problem(await face.get("/v1/nothing"), 404)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_nothing_can_be_changed(face: Face, method: str) -> None:
    answer = await face.get("/v1/fleet", method=method)
    assert_problem(answer, 405)
    assert answer.headers["Allow"] == "GET, HEAD"


async def test_a_fault_inside_is_a_problem_without_its_words(
    face: Face, source: SampleSource, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(source, "view", fail)
    answer = await face.get("/v1/fleet")
    assert_problem(answer, 500)
    assert "secret" not in answer.text
    assert "secret" in caplog.text


async def test_health_is_alive_even_where_the_host_is_not_ready(face: Face, source: SampleSource) -> None:
    source.ready = (False, "cooldown: 12 s left")
    assert (await face.get("/healthz")).status == 200
    answer = await face.get("/readyz")
    assert_problem(answer, 503)
    assert answer.document["detail"] == "cooldown: 12 s left"
    source.ready = (True, "")
    assert (await face.get("/readyz")).status == 200


async def test_every_answer_is_uncached_and_names_no_versions(face: Face) -> None:
    for path in ("/", "/v1/fleet", "/metrics", "/nothing", "/readyz", "/openapi.json"):
        answer = await face.get(path)
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Server"] == "gpumesh"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


async def test_head_has_no_body(face: Face) -> None:
    answer = await face.get("/v1/fleet", method="HEAD")
    assert (answer.status, answer.text) == (200, "")


async def test_openapi_describes_exactly_what_is_mounted(face: Face) -> None:
    document = (await face.get("/openapi.json")).document
    assert document["openapi"].startswith("3.1")
    assert {"/v1/fleet", "/v1/hosts/{id}", "/v1/events", "/metrics", "/"} <= set(document["paths"])
    for path, operations in document["paths"].items():
        if path != "/v1/events":
            asked = path.replace("{id}", "pc01") + ("?key=k" if path == "/v1/placement" else "")
            assert (await face.get(asked)).status == 200, path
        assert operations["get"]["operationId"]
    names = [item["name"] for item in document["paths"]["/v1/placement"]["get"]["parameters"]]
    assert names[:3] == ["key", "gpus", "memory"]
    events = document["paths"]["/v1/events"]["get"]["description"]
    assert all(f"{kind}: " in events for kind in KINDS)


async def test_the_second_address_has_metrics_and_nothing_else(source: SampleSource) -> None:
    async with serving(make_metrics_app(source, Config()), source) as face:
        assert "gpumesh_build_info" in (await face.get("/metrics")).text
        for path in ("/", "/v1/fleet", "/openapi.json"):
            assert_problem(await face.get(path), 404)


async def test_stopping_ends_the_streams_that_are_followed(source: SampleSource) -> None:
    async with serving(make_app(source, Config()), source) as face:
        stream = await face.client.get(f"{face.url}/v1/events")
        source.feed.close()  # what the application does when it is shut down
        async with stream:
            assert await stream.content.read() == b"retry: 3000\n\n"
    assert source.feed.num_subscribers == 0


async def test_the_application_closes_the_feed_when_it_is_shut_down(source: SampleSource) -> None:
    subscription = source.feed.subscribe()
    async with serving(make_app(source, Config()), source):
        assert not subscription.is_ended
    assert subscription.is_ended
