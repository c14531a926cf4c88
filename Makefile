# Every target does its own set-up in a local virtual environment; all it needs is Python 3.11 or newer.
PYTHON ?= python3
VENV ?= .venv
# The Django to test against, such as "Django>=6.1,<6.2"; by default, the newest that supports this Python.
DJANGO ?= Django
PYTEST_ARGS ?=
DEMO_ARGS ?=
PROCESS_TESTS ?= tests/processes

BIN = $(VENV)/bin
EXTRAS = dev$(if $(DJQUEUE_TEST_MYSQL_URL),$(comma)mysql)
comma = ,
READY = $(VENV)/.ready-$(if $(DJQUEUE_TEST_MYSQL_URL),mysql,dev)
# The driver for the database of `make demo DATABASE_URL=…`; SQLite needs none.
DRIVER = $(if $(filter postgres%,$(DATABASE_URL)),postgres)$(if $(filter mysql%,$(DATABASE_URL)),mysql)
READY_DEMO = $(VENV)/.ready-demo$(addprefix -,$(DRIVER))
READY_BROWSER = $(VENV)/.ready-browser
READY_DOCS = $(VENV)/.ready-docs
READY_PACKAGING = $(VENV)/.ready-packaging
READY_GALERA = $(VENV)/.ready-galera
# Options of `make test-failover` and `make test-galera`, such as "--kills 2 --rate 20".
CLUSTER_ARGS ?=

.PHONY: test matrix test-processes test-faults test-failover test-galera test-browser test-packaging demo lint hooks docs benchmark dist version clean

test: $(READY)  ## the whole suite, on its own PostgreSQL, on SQLite, and on MariaDB if DJQUEUE_TEST_MYSQL_URL is set
	$(BIN)/python -m pytest $(PYTEST_ARGS)

matrix: $(READY)  ## the suite on every supported Django whose Python is installed (see noxfile.py)
	$(BIN)/nox --session tests -- $(PYTEST_ARGS)

test-processes: $(READY)  ## the long tests, which start, kill and stop real workers
	$(BIN)/python -m pytest -m processes $(PROCESS_TESTS) $(PYTEST_ARGS)

test-faults: $(READY)  ## minutes of outages, crashes and contention, and two bounds; the short ones are in `make test`
	$(BIN)/python -m pytest -m faults tests/faults $(PYTEST_ARGS)
	$(BIN)/python -m benchmarks.pickup --snapshot 180 --most 20
	$(BIN)/python -m benchmarks.enqueue --clients 1x200 200x1 --seconds 3 --rounds 5 --least 0.9

test-failover: $(READY)  ## kill the primary of a Patroni cluster ten times under load, switch over five times, and audit
	$(BIN)/python -m benchmarks.cluster failover $(CLUSTER_ARGS)

test-galera: $(READY_GALERA)  ## kill one of three MariaDB Galera nodes under load, and audit
	$(BIN)/python -m benchmarks.cluster galera $(CLUSTER_ARGS)

test-browser: $(READY_BROWSER)  ## the admin in Chromium, with a worker; screenshots in tests/screenshots
	$(BIN)/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

test-packaging: $(READY_PACKAGING)  ## the sdist and the wheel in environments of their own, the tutorial, the workflows
	$(BIN)/python -m pytest -m packaging tests/packaging $(PYTEST_ARGS)

demo: $(READY_DEMO)  ## the example shop with a worker and traffic, on SQLite or on DATABASE_URL, until Ctrl-C
	@DJANGO_SETTINGS_MODULE=example_project.settings $(BIN)/python manage.py demo $(DEMO_ARGS)

lint: $(READY)  ## style, types, import contracts, migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check

hooks: $(READY_PACKAGING)  ## install the git hook of pre-commit
	$(BIN)/pre-commit install

docs: $(READY_DOCS)  ## the documentation as HTML, in docs/_build/html; warnings and broken links are errors
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --nitpicky --fresh-env --quiet -c docs -d docs/_build/doctrees . docs/_build/html
	@echo "Open docs/_build/html/index.html"

benchmark: $(READY)  ## a quick comparison with pgqueuer; the worker; enqueues, claims, settlements and the admin beside a million rows; on a PostgreSQL of its own
	$(BIN)/python -m benchmarks compare --quick
	$(BIN)/python -m benchmarks.worker
	$(BIN)/python -m benchmarks.pickup
	$(BIN)/python -m benchmarks.statistics
	$(BIN)/python -m benchmarks.enqueue
	$(BIN)/python -m benchmarks.depth
	$(BIN)/python -m benchmarks.admin

dist: $(READY_PACKAGING)  ## the sdist and the wheel, in dist/
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python -m twine check --strict dist/*

version:  ## print the version
	@sed -n 's/^__version__ = "\(.*\)"$$/\1/p' djqueue/__init__.py

clean:
	rm -rf $(VENV) .peers benchmark-results dist docs/_build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# If it cannot be made, as on Debian without python3-venv, nothing may be left that the next run takes for an environment.
$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "djqueue needs Python 3.11 or newer, this is " + sys.version)'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(READY): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS)]' '$(DJANGO)'
	touch $@

$(READY_BROWSER): $(READY) pyproject.toml
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || (apt-get update -qq && apt-get install -y -qq chromium >/dev/null)
	@command -v chromium >/dev/null || (echo "Chromium is missing: apt-get install chromium" && false)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS),browser]' '$(DJANGO)'
	touch $@

# The driver of MariaDB is compiled.
$(READY_GALERA): $(READY) pyproject.toml
	@command -v mariadb_config >/dev/null || test "$$(id -u)" != 0 || (apt-get update -qq && apt-get install -y -qq gcc pkg-config libmariadb-dev >/dev/null)
	@command -v mariadb_config >/dev/null || (echo "MariaDB's client is missing: apt-get install gcc pkg-config libmariadb-dev" && false)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,mysql]' '$(DJANGO)'
	touch $@

$(READY_PACKAGING): $(READY) pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$(EXTRAS),packaging]' '$(DJANGO)'
	touch $@

$(READY_DEMO): $(VENV)/bin/python pyproject.toml
	@echo "Installing Django and djqueue in $(VENV) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[example$(addprefix $(comma),$(DRIVER))]'
	@touch $@

$(READY_DOCS): $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	touch $@
