# `make run` starts Tracejury with a small sample; `make test` must pass before a change is merged. Both install their
# packages into .venv.
#   PYTHON=python3.12   the interpreter the environment is made with (3.11 or newer)
#   ARGS="…"            arguments for the command that a target runs

PYTHON ?= python3
ARGS   ?=
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -u -m pip --disable-pip-version-check --no-input

# Keep compiled bytecode even if the environment disables it: tests and benchmarks start this program hundreds of times.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test quick matrix check format docs dist record-programs test-snippets bench soak soak-kill soak-browser soak-simulation soak-costly soak-pure soak-property lock clean

help:
	@echo 'make run     start the server; on an empty ./data, send it a small sample first'
	@echo 'make test    lint, types, import contracts, tests'
	@echo 'make quick   the tests without server and store that your change affects'
	@echo 'make matrix  make check and the pure tests on each supported Python that is installed or that uv can install; tests of storage on the newest DuckDB'
	@echo 'make check   lint, types, import contracts, rules for texts; no tests'
	@echo 'make format  let ruff fix and format the code, and lower the numbers of tests/prose.toml'
	@echo 'make docs    build the documents as a site, in build/site'
	@echo 'make dist    build the wheels of the server and of the SDK, in dist'
	@echo 'make record-programs  run the programs of tests/programs with the newest releases from PyPI and npm, and print how many fields of each are read correctly'
	@echo 'make test-snippets  install and run the examples of docs/capture.md'
	@echo 'make bench   run the benchmarks'
	@echo 'make soak    all of soak-kill, soak-browser, soak-simulation, soak-costly, soak-pure and soak-property (which record the commit that passed), two hours beside hostile clients, an hour of mixed load with restarts'
	@echo 'make lock    write the lock files again; ARGS=--upgrade for newer releases'
	@echo 'make clean   remove .venv and caches; ./data stays'

# `exec`: signals reach the server, and make returns its exit code.
run: $(VENV)/.run
	@exec $(BIN)/tracejury serve --sample $(ARGS)

# Test files run in parallel, one more than there are processors, because they mostly wait for processes that they start
# and kill.
WORKERS = $$(n=$$(($$(nproc) + 1)); echo $$((n < 4 ? n : 4)))

# Collecting compiles the tests, which takes 15 s of CPU in a clean clone: once beside the checks, not in each worker.
test: $(VENV)/.dev
	@$(BIN)/python -m pytest --collect-only -qq -p no:cacheprovider >/dev/null 2>&1 & \
		$(MAKE) --no-print-directory check; code=$$?; wait; exit $$code
	@$(BIN)/python -m tests.again flaky
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --cache-clear --changed $(ARGS) || $(BIN)/python -m tests.again $$?

quick: $(VENV)/.dev
	@files=$$($(BIN)/python -m tests.quick) && if [ -n "$$files" ]; then \
		$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --changed $$files $(ARGS); \
		else echo 'No pure test builds on what has changed since the commit in tests/soaked.toml.'; fi

# ARGS names some of the columns: make matrix ARGS="3.12 duckdb".
matrix: $(VENV)/.dev
	@exec $(BIN)/python -m tests.matrix $(ARGS)

check: $(VENV)/.dev
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.prose

format: $(VENV)/.dev
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format
	@$(BIN)/python -m tests.prose --lower

docs: $(VENV)/.dev
	@$(BIN)/mkdocs build --strict --quiet $(ARGS)
	@echo 'The site is in build/site; open build/site/index.html.'

# Builds are reproducible: Hatchling sorts the files and writes no timestamps.
DIST = dist
dist: $(VENV)/.dev
	@for project in . sdk/python; do \
		$(BIN)/python -m build --wheel --no-isolation --outdir $(DIST) $$project >/dev/null || exit 1; \
	done
	@cd $(DIST) && sha256sum *.whl

record-programs: $(VENV)/.dev
	@exec nice -n 10 $(BIN)/python -m tests.programs $(ARGS)

test-snippets: $(VENV)/.dev
	@nice -n 10 $(BIN)/python -m pytest tests/programs/test_snippets.py --snippets -rs $(ARGS)

bench: $(VENV)/.dev
	@exec $(BIN)/python -m benchmarks $(ARGS)

# Run all tests of a group, which `make test` may leave out; then write the commit that passed to tests/soaked.toml.
soak-kill: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking kill -n $(WORKERS) --dist worksteal --kills 20

soak-browser: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking browser -n $(WORKERS) --dist loadfile

soak-simulation: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking simulation -n $(WORKERS) --dist worksteal

soak-costly: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking costly -n $(WORKERS) --dist loadfile

soak-pure: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking pure -n $(WORKERS) --dist worksteal

soak-property: $(VENV)/.dev
	@$(BIN)/python -m tests.soaking property -n $(WORKERS) --dist worksteal --hypothesis-profile soak --timeout 3000

soak: soak-kill soak-browser soak-simulation soak-costly soak-pure soak-property
	@$(BIN)/python -m pytest tests/test_contract.py --examples 20
	@$(BIN)/python -m pytest -n 2 --dist load tests/test_nasty_calls.py -k no_call --fuzz-seconds 600 --timeout 0
	@$(BIN)/python -m benchmarks.hostile_soak
	@exec $(BIN)/python -m benchmarks.soak $(ARGS)

# The lock files have hashes but no index URLs: they fix what is installed; the environment decides from where.
COMPILE = env -u UV_DEFAULT_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_INDEX -u UV_INDEX_URL \
	$(BIN)/uv pip compile pyproject.toml --quiet --universal --fork-strategy fewest --generate-hashes \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' $(ARGS)

lock: $(VENV)/.dev
	@$(COMPILE) --group build --output-file requirements.lock
	@$(COMPILE) --group dev --constraint requirements.lock --output-file requirements-dev.lock

clean:
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

# A stamp is newer than the lock file that was installed. Both locks pin alike what they share, so one environment serves
# both; `make run` installs the shorter one.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		found=$$($(PYTHON) --version 2>&1) || found='not here'; \
		echo "Tracejury needs Python 3.11 or newer, and $(PYTHON) is $$found. Name another one: make PYTHON=python3.12" >&2; \
		exit 1; }
	@echo 'Making an environment of Python in $(VENV).' >&2
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# Of pip's output, show the names of packages, and errors: minutes of silence would look like a failure.
define install
	@echo 'Installing the packages of $(1) into $(VENV); this takes a minute or two, once.' >&2
	@{ $(PIP) install --require-hashes --requirement $(1) 2>&1 && echo Done; } | { \
		while IFS= read -r line; do case $$line in \
			Collecting\ *) echo "  $${line%% (from *}";; \
			Installing\ *) echo '  Unpacking them';; \
			Done) exit 0;; \
			*[Ee]rror* | *ERROR* | Traceback*) failed=1; echo "$$line";; \
			*) [ -z "$$failed" ] || echo "$$line";; \
		esac; done; exit 1; } >&2
	@$(PIP) --quiet --quiet install --no-deps --no-build-isolation --editable .
	@echo 'Installed.' >&2
endef

$(VENV)/.run: requirements.lock pyproject.toml | $(VENV)/.made
	$(call install,requirements.lock)
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | $(VENV)/.made
	$(call install,requirements-dev.lock)
	@touch $@ $(VENV)/.run
