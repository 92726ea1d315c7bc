# Every target sets itself up from a bare clone: python3 (>= 3.11) and make are all it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
SEED ?= 2037
CORES ?= $(shell $(PYTHON) -c "import os; print(os.cpu_count() or 1)")

.PHONY: help audit demo dist test test-slow check format bench hostile claims-deep figures docs clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/base.stamp: pyproject.toml constraints.txt
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" || { echo "ridgeformer needs python3 >= 3.11; this is $$($(PYTHON) --version). Set PYTHON=..." >&2; exit 2; }
	@echo "setting up $(VENV) (once; a minute or two)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/base.stamp
	@echo "adding the development tools to $(VENV) (once)"
	@$(PIP) --editable ".[dev]"
	@touch $@

audit: $(VENV)/base.stamp  ## the main job: audit embedded data, write audit/report.html
	@$(BIN)/ridgeformer audit digits --out audit

demo: $(VENV)/base.stamp  ## drag points and watch three transformers answer, in a browser
	@$(BIN)/ridgeformer demo

test: $(VENV)/dev.stamp  ## all tests but the slow ones
	@PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(CORES) -m "not slow"

test-slow: $(VENV)/dev.stamp  ## the slow tests
	@$(BIN)/python -m pytest -q -m slow --timeout=1800

check: $(VENV)/dev.stamp  ## format, lint, types and the direction of imports
	@$(BIN)/ruff format --check src tests benchmarks docs examples hostile
	@$(BIN)/ruff check src tests benchmarks docs examples hostile
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(VENV)/dev.stamp  ## let ruff rewrite what it can
	@$(BIN)/ruff format src tests benchmarks docs examples hostile
	@$(BIN)/ruff check --fix src tests benchmarks docs examples hostile

$(VENV)/docs.stamp: $(VENV)/base.stamp
	@$(PIP) --editable ".[docs]"
	@touch $@

$(VENV)/bench.stamp: $(VENV)/base.stamp
	@echo "adding the rivals to $(VENV) (once)"
	@$(PIP) --editable ".[bench]"
	@touch $@

bench: $(VENV)/bench.stamp  ## benchmarks against rivals in one run; tables here, JSON in benchmarks/results
	@$(BIN)/python benchmarks/compiled_forward.py
	@$(BIN)/python benchmarks/studies_overhead.py
	@$(BIN)/python benchmarks/finite_ntk.py
	@$(BIN)/python benchmarks/leave_one_out.py
	@$(BIN)/python benchmarks/solve_at_scale.py --timeout 180 --growth --products
	@$(BIN)/python benchmarks/ridge_path.py

hostile: $(VENV)/dev.stamp  ## try to break every promise, against exact arithmetic; writes docs/reliability.md
	@$(BIN)/python -m hostile --solves 20000 --certificates 1000 --files 2000 --seed $(SEED) --page docs/reliability.md

claims-deep: $(VENV)/base.stamp  ## the ledger of claims with 100,000 cases a search
	@$(BIN)/ridgeformer claims --deep

figures: $(VENV)/docs.stamp  ## measure again what the docs show
	@$(BIN)/python docs/measure_compiled.py
	@$(BIN)/python docs/measure_claims.py
	@$(BIN)/python docs/measure_cards.py
	@$(BIN)/python docs/measure_exports.py
	@$(BIN)/python docs/draw_gallery.py
	@$(BIN)/python docs/draw_programs.py
	@$(BIN)/python docs/draw_picture.py
	@$(BIN)/python docs/draw_architecture.py
	@$(BIN)/python docs/draw_badges.py
	@$(BIN)/python docs/draw_benchmarks.py
	@$(BIN)/python docs/record_demo.py
	@$(BIN)/python docs/take_screenshots.py

dist: $(VENV)/dev.stamp  ## sdist and wheel into dist/, the wheel installed in a bare environment and tried there
	@rm -rf dist build/bare
	@$(BIN)/python -m hatchling build
	@$(PYTHON) -m venv build/bare
	@build/bare/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	@cd build/bare && bin/ridgeformer --version && bin/python -m ridgeformer solve wine --ridge 0.1
	@cd build/bare && bin/ridgeformer demo --no-open --out demo.html
	@cd build/bare && bin/ridgeformer compile --features 13 --outputs 3 --temperature 8 --ridge 1 --steps 30 --out model
	@cd build/bare && bin/ridgeformer run model wine --html trace.html && bin/ridgeformer certify model wine
	@$(BIN)/python -m pytest -q tests/test_release.py --timeout=1800

docs: $(VENV)/docs.stamp  ## the documentation into site/; a warning is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "open site/index.html"

clean:  ## remove the environment and everything generated
	rm -rf $(VENV) audit site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
