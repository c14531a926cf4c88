# Every target does its own set-up in a local virtual environment; all it needs is Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
# The Django to test against, such as "Django>=6.1,<6.2"; by default, the newest that supports this Python.
DJANGO ?= Django
PYTEST_ARGS ?=
PROCESS_TESTS ?= tests/processes

BIN = $(VENV)/bin
EXTRAS = dev$(if $(DJQUEUE_TEST_MYSQL_URL),$(comma)mysql)
comma = ,
READY = $(VENV)/.ready-$(if $(DJQUEUE_TEST_MYSQL_URL),mysql,dev)
READY_DEMO = $(VENV)/.ready-demo
READY_BROWSER = $(VENV)/.ready-browser

.PHONY: test matrix test-processes test-browser demo lint benchmark clean

test: $(READY)  ## the whole suite, on its own PostgreSQL, on SQLite, and on MariaDB if DJQUEUE_TEST_MYSQL_URL is set
	$(BIN)/python -m pytest $(PYTEST_ARGS)

matrix: $(READY)  ## the suite on every supported Django whose Python is installed (see noxfile.py)
	$(BIN)/nox --session tests -- $(PYTEST_ARGS)

test-processes: $(READY)  ## the long tests, which start, kill and stop real workers
	$(BIN)/python -m pytest -m processes $(PROCESS_TESTS) $(PYTEST_ARGS)

test-browser: $(READY_BROWSER)  ## the admin in Chromium, with a worker; screenshots in tests/screenshots
	$(BIN)/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

demo: $(READY_DEMO)  ## a few jobs of the example project, on SQLite
	$(BIN)/python manage.py migrate --verbosity 0
	$(BIN)/python manage.py demo

lint: $(READY)  ## style, types, import contracts, migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check

benchmark: $(READY)  ## the worker; enqueues, claims, settlements and the admin beside a million rows; on a PostgreSQL of its own
	$(BIN)/python -m benchmarks.worker
	$(BIN)/python -m benchmarks.pickup
	$(BIN)/python -m benchmarks.statistics
	$(BIN)/python -m benchmarks.enqueue
	$(BIN)/python -m benchmarks.depth
	$(BIN)/python -m benchmarks.admin

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "djqueue needs Python 3.11 or newer, this is " + sys.version)'
	$(PYTHON) -m venv $(VENV)

$(READY): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' '$(DJANGO)'
	touch $@

$(READY_BROWSER): $(READY) pyproject.toml
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	@command -v chromium >/dev/null || (echo "Chromium is missing: apt-get install chromium" && false)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS),browser]' '$(DJANGO)'
	touch $@

$(READY_DEMO): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[example]'
	touch $@
