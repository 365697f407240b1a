# The front door. `make` alone prints the targets.
SHELL := bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.stamp
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: docs help setup check lint types layers unit test soak demo bench cluster lock format clean

help: ## print the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  %-16s %s\n", $$1, $$2}'

setup: $(STAMP) ## make .venv with everything in it

$(STAMP): requirements.lock pyproject.toml apps/ochacafe/pyproject.toml apps/autolock/pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet 'uv>=0.5'
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e . -e apps/ochacafe -e apps/autolock
	@touch $(STAMP)

lock: ## write requirements.lock anew (after a change of dependencies)
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --group dev --python-version 3.11 pyproject.toml -o requirements.lock

check: lint types layers unit ## format, lint, types, layers and unit tests, in under a minute

lint: setup ## ruff, codespell and deptry
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/codespell src apps tests docs README.md CONTRIBUTING.md CHANGELOG.md AGENTS.md
	@$(BIN)/deptry src --no-ansi >/dev/null 2>&1 || { $(BIN)/deptry src; exit 1; }

format: setup ## format and mend what ruff can mend
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

types: setup ## mypy --strict
	@$(BIN)/mypy

layers: setup ## the layers of docs/architecture.md, checked
	@$(BIN)/lint-imports

unit: setup ## tests that need no cluster
	@$(BIN)/pytest -q -n 2 tests/unit tests/property tests/docs apps -m 'not system'

test: setup ## everything: check, then every test on a real API server
	@$(MAKE) --no-print-directory lint types layers
	@$(BIN)/hanei cluster prepare
	@$(BIN)/pytest -n 2 --dist loadgroup

soak: setup ## every fault and crash at full length (hours)
	@HANEI_SOAK=1 $(BIN)/pytest -n 2 --dist loadgroup tests/fault

demo: setup ## the main job, live, on a local cluster (KEEP=1 leaves it running)
	@$(BIN)/python examples/demo.py $(if $(KEEP),--keep)

bench: setup ## measure against the limit, in one run
	@$(BIN)/python -m benchmarks

cluster: setup ## start a local cluster named "default" and print its kubeconfig
	@$(BIN)/hanei cluster up && $(BIN)/hanei cluster kubeconfig

docs: setup ## write the generated pages of docs/reference
	@$(BIN)/python docs/generate.py

clean: ## remove what was made here (not the user's cache)
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
