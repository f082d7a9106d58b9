# make demo: install, compile the sample model, answer a prompt.
# make test: install, lint, type-check, run all tests. make test-thorough: more of them.
# make docs: write the reference pages in docs/.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Python compiles a module when it first imports it, and most of them nobody imports.
INSTALL := $(BIN)/pip install -q --no-compile
PROMPT ?= What is the capital of Japan?

# Every command starts Python anew, which reads its modules three times faster from bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-thorough lint format docs clean

demo: $(VENV)/.compile
	$(BIN)/llmc run smollm2 --dtype as-is --prompt "$(PROMPT)"

test: $(VENV)/.dev lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --all-families
	$(BIN)/lit -q lit_tests

test-thorough: $(VENV)/.dev lint
	$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder --all-families --thorough
	$(BIN)/lit -q lit_tests

lint: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	MYPYPATH=$(VENV)/src $(BIN)/mypy -p llmc
	MYPYPATH=$(VENV)/src $(BIN)/mypy benchmarks

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# The reference pages, from the docstrings; a test holds them to the code.
docs: $(VENV)/.dev
	mkdir -p docs
	$(BIN)/python -m llmc.tools.docs docs

$(VENV)/.compile: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[compile]'
	$(INSTALL) --no-deps \
	  "$$($(BIN)/python -c 'from llmc.frontend.sample import REQUIREMENT; print(REQUIREMENT)')"
	touch $@

# The type checker finds the package llmc, which exists only by installation, through links.
$(VENV)/.dev: $(VENV)/.compile
	$(INSTALL) -e '.[compile,dev]'
	mkdir -p $(VENV)/src/llmc
	for room in dialects frontend pipelines runtime tools; do \
	  ln -sfn ../../../$$room $(VENV)/src/llmc/$$room; done
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info
