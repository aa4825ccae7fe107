"""What a daemon says of itself at ``/metrics``."""

from urllib.request import urlopen

from tests.bench.makes import Place


def scrape(place: Place) -> dict[str, float]:
    """Return the value of each sample, by its name with its labels. Errors: OSError if nobody answers."""
    with urlopen(f"http://{place.side}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rsplit(maxsplit=1) for line in lines if line and not line.startswith("#"))
    return {name: float(value) for name, value in pairs}
