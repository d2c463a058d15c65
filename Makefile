# `make` alone lists the targets. Needs Python 3.11 or later and a package index, nothing else.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

VENV := .venv
PY := $(VENV)/bin/python
# Tests to run and options for pytest: make test ARGS="tests/engine -x"
ARGS :=
# Two processes for the whole suite; one for a selection, which would not pay for the second.
WORKERS := $(if $(ARGS),0,2)
# COVERAGE=1 measures the cells of the matrix that are run; `make coverage-report` sums them up.
COVERAGE :=
# `make ci` notes here how each stage ended.
CI_SUMMARY := .ci-summary
CI_STAGES := lint types stateful test-postgres test-mariadb test-django61 coverage-report e2e demo-check chaos clean-clone

# $(call python-at-least,MINOR,CANDIDATES): a shell expression that prints the first that is.
python-at-least = { for python in $(2); do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, $(1)))' 2>/dev/null \
	&& { echo "$$python"; break; }; done; true; }

PYTHONS := $(PYTHON) python3 python3.13 python3.12 python3.11
# pyenv keeps interpreters that are not on PATH.
NEWER_PYTHONS := python3.13 python3.12 \
	"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.13*/bin/python \
	"$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/3.12*/bin/python python3

# $(call make-venv,DIRECTORY,PYTHON): an environment, unless there is one that works.
make-venv = $(1)/bin/python -c '' 2>/dev/null || { rm -rf $(1) && "$(2)" -m venv $(1); } \
	|| { echo "Python's venv module does not work here (Debian: apt-get install python3-venv)." >&2; exit 1; }

# $(call install,DIRECTORY,FILES)
install = $(1)/bin/python -m pip install -qq --disable-pip-version-check $(foreach file,$(2),-r requirements/$(file).txt)

# $(call pytest,DIRECTORY,CELL,DATABASE): the suite in one cell of the matrix.
pytest = $(if $(COVERAGE),rm -f .coverage.$(2).* && COVERAGE_FILE=.coverage.$(2)) \
	STEPHOOKS_TEST_DB=$(3) PYTHONDEVMODE=1 \
	$(1)/bin/python -m $(if $(COVERAGE),coverage run -m )pytest -n $(WORKERS) $(ARGS)

# --- the environment ---

# One stamp for each file in requirements/, so that a second call installs nothing.
$(VENV)/.%-installed: $(wildcard requirements/*.txt)
	@python="$$($(call python-at-least,11,$(PYTHONS)))"; \
	test -n "$$python" || { echo "Python 3.11 or later is needed (make PYTHON=/path/to/python3)." >&2; exit 1; }; \
	echo "Installing requirements/$*.txt into $(VENV)"; \
	$(call make-venv,$(VENV),$$python)
	@$(call install,$(VENV),$*)
	@touch $@
.PRECIOUS: $(VENV)/.%-installed

.PHONY: help venv
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' Makefile

venv: $(VENV)/.dev-installed ## an environment with everything, for an editor

# --- the demo ---

.PHONY: demo demo-check
demo: $(VENV)/.demo-installed ## a newsroom to try: web server, worker, scheduler, Redis; Ctrl-C ends it
	@$(PY) -m demo_project

demo-check: $(VENV)/.demo-installed ## the same demo, driven without a person
	@$(PY) -m demo_project --check

# --- the suite ---

.PHONY: test test-postgres test-mariadb test-django61 stateful coverage-report
test: $(VENV)/.test-installed ## the suite on SQLite (ARGS="…" selects)
	$(call pytest,$(VENV),sqlite,sqlite)

test-postgres: $(VENV)/.dev-installed ## the suite on PostgreSQL
	$(call pytest,$(VENV),postgres,postgres)

# Not measured: it runs the lines that the other two run, and measuring slows it most.
test-mariadb: override COVERAGE :=
test-mariadb: $(VENV)/.dev-installed ## the suite on MariaDB
	$(call pytest,$(VENV),mariadb,mariadb)

stateful: $(VENV)/.test-installed ## 500 examples of whatever happens, in whatever order, on SQLite
	HYPOTHESIS_PROFILE=ci STEPHOOKS_TEST_DB=sqlite $(PY) -m pytest tests/stateful

test-django61: ## the suite on PostgreSQL, Django 6.1 and Python 3.13 or 3.12
	@python="$$($(call python-at-least,12,$(NEWER_PYTHONS)))"; \
	if test -n "$$python"; then $(MAKE) test-django61-with NEWER_PYTHON="$$python" COVERAGE=; else \
	echo "********************************************************************************"; \
	echo "SKIPPED test-django61: there is no Python 3.13 or 3.12, on PATH or in pyenv."; \
	echo "********************************************************************************"; \
	echo "skipped test-django61 (no Python 3.13 or 3.12)" >> $(CI_SUMMARY); fi

.PHONY: test-django61-with
test-django61-with: .venv-dj61/.installed
	STEPHOOKS_TEST_DB_NAME=stephooks_django61 $(call pytest,.venv-dj61,django61,postgres)

.venv-dj61/.installed: $(wildcard requirements/*.txt)
	@echo "Installing Django 6.1 for $$($(NEWER_PYTHON) --version) into .venv-dj61"
	@$(call make-venv,.venv-dj61,$(NEWER_PYTHON))
	@$(call install,.venv-dj61,test postgres)
	@$(call install,.venv-dj61,django61)
	@touch $@

coverage-report: $(VENV)/.test-installed ## sum up the cells run with COVERAGE=1; fails under 97 %
	@$(PY) -m coverage combine --quiet --keep $(wildcard .coverage.*)
	@$(PY) -m coverage report

.PHONY: e2e screenshots bench chaos docs
# A run of its own: Playwright keeps an event loop in the main thread, which upsets other tests.
browser-tests = STEPHOOKS_TEST_DB=sqlite $(PY) -m pytest -p playwright --ds=tests.e2e.settings --output=.e2e

e2e: $(VENV)/.e2e-installed ## the desk in a real browser; Chromium must be there (ARGS="…" selects)
	$(browser-tests) --screenshot=only-on-failure -n $(WORKERS) $(or $(ARGS),tests/e2e)

screenshots: $(VENV)/.e2e-installed ## pictures of the desk for the documentation, into docs/images
	$(browser-tests) -p no:randomly tests/e2e/screenshots.py

bench: $(VENV)/.dev-installed ## measure on PostgreSQL and Redis, write benchmarks/results.* (ARGS="--quick": try it)
	$(PY) -m benchmarks $(ARGS)
	$(if $(ARGS),,$(PY) -m benchmarks.scale)

# How long `make chaos` goes on; a given SEED repeats the plan of an earlier run.
SECONDS := 60
SEED :=
chaos: $(VENV)/.dev-installed ## kill what can be killed for SECONDS=60 (SEED=… repeats a run)
	@$(PY) -m tests.chaos --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

docs: $(VENV)/.test-installed ## run the code that the documentation shows, and follow its links
	$(PY) -m pytest tests/acceptance/test_docs.py tests/acceptance/test_readme.py tests/desk

# --- checks ---

.PHONY: lint types format
lint: $(VENV)/.dev-installed ## ruff, djade, and the layers
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	git ls-files -z --cached --others --exclude-standard '*/templates/*.html' 'templates/*.html' \
		| xargs -0 -r $(VENV)/bin/djade --target-version 5.2 --check
	$(VENV)/bin/lint-imports --no-logo

types: $(VENV)/.dev-installed ## mypy --strict over the package
	$(VENV)/bin/mypy

format: $(VENV)/.dev-installed ## put the code into the form that lint asks for
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	git ls-files -z --cached --others --exclude-standard '*/templates/*.html' 'templates/*.html' \
		| xargs -0 -r $(VENV)/bin/djade --target-version 5.2

# --- all of it ---

.PHONY: ci clean-clone clean
ci: ## what `.ci/run` does after `make test`; PostgreSQL and MariaDB must be running
	@rm -f $(CI_SUMMARY); failed=0; \
	for stage in $(CI_STAGES); do \
		printf '\n=== %s\n' "$$stage"; began=$$(date +%s); \
		if $(MAKE) $$stage COVERAGE=1; then result=passed; else result=failed; failed=1; fi; \
		grep -q "^skipped $$stage " $(CI_SUMMARY) 2>/dev/null \
			|| echo "$$result $$stage ($$(($$(date +%s) - began)) s)" >> $(CI_SUMMARY); \
	done; \
	printf '\n=== summary\n'; cat $(CI_SUMMARY); exit $$failed

# A clone has only what is committed, and an environment made from nothing. The wheel's Redis is
# forced here; the other stages take the one on PATH, if there is one.
clean-clone: ## the committed state, from nothing: tests and demo with the Redis of the wheel
	@clone="$$(mktemp -d)"; trap 'rm -rf "$$clone"' EXIT; \
	git clone --quiet . "$$clone" && cd "$$clone" && unset MAKEFLAGS MAKELEVEL MFLAGS && \
	export STEPHOOKS_REDIS=wheel && \
	$(MAKE) test ARGS="-q tests/test_house.py tests/runtimes" && \
	$(MAKE) demo-check && \
	test -z "$$(git status --porcelain)"

clean: ## remove all that is made: environments, caches, the demo's data
	rm -rf .venv .venv-dj61 .demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	rm -rf .coverage .coverage.* htmlcov build dist site .ci-summary .e2e
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
