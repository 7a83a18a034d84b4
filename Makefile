# The project's commands, the same for people and for CI. `make` alone lists them.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
DATA ?=
ARGS ?=

python := $(VENV)/bin/python
pip := $(python) -m pip --quiet --disable-pip-version-check

##@ Use
.PHONY: help
help: ## List the commands (default)
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-9s  %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Variables: PYTHON=$(PYTHON) makes the environment in VENV=$(VENV); DATA=folder and ARGS=\"...\" go to bench."

.PHONY: demo
demo: $(VENV)/.cli ## Run the command line on a rules file, and the coding assistant example
	@$(python) examples/command_line.py
	@$(python) examples/coding_assistant.py

##@ Develop
.PHONY: check
check: lint types test ## Run lint, types and test

.PHONY: lint
lint: $(VENV)/.dev ## Check style and formatting (ruff)
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .

.PHONY: types
types: $(VENV)/.dev ## Check types (mypy)
	@$(python) -m mypy
	@$(python) -m mypy -p benchmarks --ignore-missing-imports
	@$(python) -m mypy -p scripts --ignore-missing-imports

.PHONY: test
test: $(VENV)/.dev ## Run the tests (pytest)
	@$(python) -m pytest

.PHONY: oldest
oldest: ## Test adapters and stores with the oldest packages they work with, in environments of their own
	@$(MAKE) --no-print-directory with-oldest-langchain VENV=$(VENV)-oldest-langchain
	@$(MAKE) --no-print-directory with-oldest-llamaindex VENV=$(VENV)-oldest-llamaindex
	@$(MAKE) --no-print-directory with-oldest-redis VENV=$(VENV)-oldest-redis

.PHONY: with-oldest-langchain
with-oldest-langchain: $(VENV)/.oldest-langchain
	@$(python) -m pytest $(wildcard tests/test_langchain_*.py)

.PHONY: with-oldest-llamaindex
with-oldest-llamaindex: $(VENV)/.oldest-llamaindex
	@$(python) -m pytest $(wildcard tests/test_llamaindex_*.py) $(wildcard tests/test_frameworks_*.py)

.PHONY: with-oldest-redis
with-oldest-redis: $(VENV)/.oldest-redis
	@$(python) -m pytest $(wildcard tests/test_redis*.py)

.PHONY: models
models: ## Test the embedders with real models, in an environment of their own
	@$(MAKE) --no-print-directory with-models VENV=$(VENV)-models

.PHONY: with-models
with-models: $(VENV)/.models
	@$(python) -m pytest tests/test_model_embedders.py tests/test_local_chain.py tests/test_reranking.py

.PHONY: docs
docs: $(VENV)/.docs ## Build the site into build/docs (sphinx)
	@$(python) -m sphinx --fail-on-warning --keep-going --quiet --fresh-env docs build/docs
	@echo "build/docs/index.html"

.PHONY: panel
panel: $(VENV)/.package ## Make the picture docs/panel.svg
	@$(python) -m scripts.panel docs/panel.svg

.PHONY: bench
bench: $(VENV)/.bench ## Measure speed, size and recall (DATA=folder for recall, ARGS=--quick for a short run)
	@$(python) -m benchmarks $(if $(DATA),--data "$(DATA)") $(ARGS)

.PHONY: notebooks
notebooks: $(VENV)/.dev ## Run the notebooks and keep what they show (ARGS=--check compares it instead)
	@$(python) -m scripts.notebooks $(ARGS)

.PHONY: table
table: ## Make the table of the static embedder (ARGS=--check compares it with the one in the package)
	@$(MAKE) --no-print-directory with-table VENV=$(VENV)-table

.PHONY: with-table
with-table: $(VENV)/.table
	@$(python) -m scripts.static_table $(ARGS)

.PHONY: build
build: $(VENV)/.dev ## Build the sdist and the wheel into dist/
	@$(python) -m build

.PHONY: wheel
wheel: $(VENV)/.dev ## Test the built wheel: without extras, with each, with all (ARGS="none cli" for some)
	@$(MAKE) --no-print-directory $(VENV)-models/.models VENV=$(VENV)-models
	@rm -rf dist
	@$(python) -m build
	@$(python) scripts/wheel_tests.py dist/*.whl $(VENV)-models $(ARGS)

.PHONY: clean
clean: ## Remove build products and caches; the environment stays
	@rm -rf dist build *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find . -path './$(VENV)*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

# A stamp in the environment says what is installed there; a change of pyproject.toml installs it anew.

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Python 3.11 or newer is needed, '$(PYTHON)' is not: name one, for example make PYTHON=python3.12" >&2; \
		exit 1; }
	@$(python) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@$(pip) install --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/.package: $(VENV)/.created pyproject.toml
	@$(pip) install --editable .
	@touch $@

$(VENV)/.cli: $(VENV)/.package
	@$(pip) install --editable '.[cli]'
	@touch $@

$(VENV)/.dev: $(VENV)/.package
	@$(pip) install --group dev
	@touch $@

$(VENV)/.docs: $(VENV)/.package
	@$(pip) install --group docs
	@touch $@

$(VENV)/.models: $(VENV)/.dev
	@$(pip) install --group models
	@touch $@

$(VENV)/.oldest-%: $(VENV)/.package
	@$(pip) install --group oldest-$*
	@touch $@

$(VENV)/.table: $(VENV)/.package scripts/static_table/requirements.txt
	@$(pip) install --requirement scripts/static_table/requirements.txt
	@touch $@

$(VENV)/.bench: $(VENV)/.package
	@$(pip) install --group bench
	@touch $@
