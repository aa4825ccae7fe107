from gpumesh.config import parse
from gpumesh.daemon.reloading import take_up


def test_what_can_change_changes_and_the_rest_is_named_at_each_reload() -> None:
    running = parse("[gpu]\ninterval = '5s'\n[host]\nlabels = { room = '1' }")
    wanted = parse("[gpu]\ninterval = '9s'\n[host]\nlabels = { room = '2' }\n[gossip]\nbind = '10.0.0.1:1'")
    for _ in range(2):
        running, waiting = take_up(running, wanted)
        assert waiting == ["gossip.bind", "gpu"]
        assert running.gpu.interval_s == 5.0
        assert running.gossip.bind == "[::]:7977"
        assert running.host.label_map == {"room": "2"}


def test_an_unchanged_configuration_needs_nothing() -> None:
    assert take_up(parse(""), parse("")) == (parse(""), [])


def test_a_change_taken_back_is_named_no_more() -> None:
    running, waiting = take_up(parse(""), parse("[lease]\ncooldown = '5s'"))
    assert waiting == ["lease"]
    assert take_up(running, parse("")) == (parse(""), [])
