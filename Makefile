# Everything runs from .venv, which is made from requirements/dev.lock on first use and again when the lock changes.
PYTHON ?= python3
# Where the public traces of docs/results.md are
DATA ?= ../shared/data/traces
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo results test test-fast coverage fuzz check lint types layers lock clean

help: ## Show what can be made
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.lock pyproject.toml bin/schedmate
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "SchedMate needs Python 3.11 or newer, this is %s; set PYTHON=" % sys.version.split()[0])'
	@echo "Setting up $(VENV) (a minute or two, once) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

install: $(STAMP) ## Make .venv with everything the other targets need

demo: $(STAMP) ## Run the whole walk on a synthetic cluster; writes demo-out/report.html
	$(BIN)/schedmate demo --out demo-out

results: $(STAMP) ## Replay every policy on the traces in DATA; writes the scoreboard in docs/results.md
	$(BIN)/python -m benchmarks.results --data $(DATA) --write docs/results.md --short README.md

test: $(STAMP) check ## Lint, types, layers, then every test that can run here
	$(BIN)/python -m pytest -n 2

test-fast: $(STAMP) ## Only the fast tests
	$(BIN)/python -m pytest -m "not slow and not real" -n 2

coverage: $(STAMP) ## Every test again, counting the lines and branches that run: twice the time of `make test`
	$(BIN)/python -m pytest --cov --cov-report=term:skip-covered -n 2

fuzz: $(STAMP) ## Try properties on new random examples (SCHEDMATE_FUZZ_EXAMPLES=N of the scheduler's state machine)
	SCHEDMATE_FUZZ_EXAMPLES=$${SCHEDMATE_FUZZ_EXAMPLES:-5000} $(BIN)/python -m pytest -n 2 $$(grep -rl hypothesis tests --include='test_*.py')

check: lint types layers ## Lint, types and import layers

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

lock: ## Resolve the dependencies anew (needs uv on PATH)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --allow-unsafe --output-file requirements/dev.lock

clean: ## Remove .venv and everything that was made
	rm -rf $(VENV) build dist *.egg-info demo-out results-out sweep-out .mypy_cache .ruff_cache .pytest_cache .coverage
