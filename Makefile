# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Where pip and the root file systems of the machine tests are kept between runs.
export XDG_CACHE_HOME ?= $(CURDIR)/.cache
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test check unit machines pythons test-gpu deb bench golden-update fuzz sim-long sim-starved sim-lifeguard clean setup

demo: $(VENV)/.demo  ## five hosts with simulated GPUs on loopback; one is killed, one loses a card
	$(BIN)/gpumesh demo

test: setup check unit machines pythons  ## everything: lint, types, unit, simulation, real hosts, booted machines

setup:
	.ci/setup

check: $(VENV)/.dev  ## lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

unit: $(VENV)/.dev  ## all tests that need no booted machine
	$(PYTEST) -m "not machines and not gpu"

machines: $(VENV)/.dev deb  ## Debian 12 and 13 machines booted under systemd-nspawn
	$(PYTEST) -m machines -s --timeout 1800

pythons: $(VENV)/.dev  ## the unit tests on each Python from 3.10 to 3.13 that is here
	.ci/pythons

test-gpu: $(VENV)/.dev  ## every value against nvidia-smi on this machine's own GPU; skipped, with the reason, without one
	$(PYTEST) tests/gpu -m gpu -s -rs

deb:  ## dist/gpumesh_*_all.deb
	packaging/deb/build

bench: $(VENV)/.dev  ## ratios against peers run in the same breath
	$(BIN)/python -m tests.bench

golden-update: $(VENV)/.dev  ## rewrite golden outputs and generated documents after a wanted change
	$(BIN)/python -m gpumesh.config.example > docs/gpumesh.toml
	$(BIN)/python -m gpumesh.health.describe > docs/health.md
	$(BIN)/python -m gpumesh.swim.describe docs/membership.md
	$(PYTEST) -q -m "not machines" --golden-update tests/status tests/cli

fuzz: $(VENV)/.dev  ## each decoder and engine under atheris; FUZZ_SECONDS for each target (default 60)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'atheris>=2.3' || true  # tests.fuzz says what then
	$(BIN)/python -m tests.fuzz --seconds $${FUZZ_SECONDS:-60}

sim-long: $(VENV)/.dev  ## 1,000 random seeds a scenario; 10 of fleets apart for up to a day, 10 for a whole day
	$(BIN)/python -m gpumesh.sim --scenario all --seeds 1000 --processes $$(nproc)
	$(BIN)/python -m gpumesh.sim --scenario partition_long --seeds 10 --set least_s=180,86400 --processes $$(nproc)

# kinship's LAN profile has memberlist's alpha of 4, the shipped one its own.
sim-starved: $(VENV)/.dev  ## kinship's starvation experiment, its 50 hosts and nine cells, three sets of rules (hours)
	for rules in "swim --parameter suspicion_mult=4" "lifeguard --parameter suspicion_mult=4" gpumesh; do \
	  $(BIN)/python -m gpumesh.sim --scenario starved --engine swim --rules $$rules --seeds 200 \
	    --set share=0.01,0.05,0.1 --set loss=0.01,0.03,0.05 --processes $$(nproc) || exit 1; \
	done

sim-lifeguard: $(VENV)/.dev  ## Lifeguard's experiments over the whole grid at 128 hosts, three sets of rules (hours)
	$(BIN)/python -m gpumesh.sim.experiments --processes $$(nproc)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.demo: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
