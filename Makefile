# make setup | demo | test | drill | nightly | mutants | mutants-sample | check | generate | bench | bench-truth | bench-scale
.DEFAULT_GOAL := help
export DAGSTER_DISABLE_TELEMETRY := yes
export DO_NOT_TRACK := 1
python := .venv/bin/python

.PHONY: help
help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.venv/ready: pyproject.toml constraints.txt scripts/setup.sh
	@scripts/setup.sh

.PHONY: setup
setup: .venv/ready ## Make .venv with everything pinned

.PHONY: demo
demo: setup ## The main job on a real engine: traffic in, invoices, boards and alerts out (about 3 minutes)
	@$(python) -m loraledger demo

.PHONY: test
test: setup ## All tests, the real engine's included (some 12 minutes on 2 cores)
	@scripts/install_tools.sh
	@$(python) -m pytest -m "not nightly and not engine" -n auto --maxprocesses 4 --dist loadfile $(PYTEST_ARGS) || [ $$? = 5 ]
	@$(python) -m pytest -m "engine and not nightly" $(PYTEST_ARGS) || [ $$? = 5 ]

.PHONY: drill
drill: setup ## The outage drill: real Prometheus and Alertmanager watch a real engine break; shows what on-call heard
	@scripts/install_tools.sh
	@$(python) -m pytest tests/drill -v $(PYTEST_ARGS)

.PHONY: nightly
nightly: setup ## The long tests: properties, mutated thresholds, the outage drill
	@$(python) -m pytest -m nightly $(PYTEST_ARGS)

.PHONY: mutants
mutants: setup ## Put small faults into the product and count what the tests find (hours; TARGETS=postings for one module)
	@$(python) -m bench.mutants $(TARGETS)

.PHONY: mutants-sample
mutants-sample: setup ## Forty faults, drawn by the day, in what changed since SINCE (the last ten commits), within ten minutes
	@$(python) -m bench.mutants --sample 40 --minutes 10 --since $(or $(SINCE),HEAD~10)

.PHONY: check
check: setup ## Format, lint, complexity, types, contracts, generated files in step
	@$(python) -m ruff format --check .
	@$(python) -m ruff check .
	@$(python) -m mypy
	@.venv/bin/lint-imports
	@$(python) -m loraledger dashboards --check
	@$(python) -m loraledger alerts --check
	@$(python) -m alerts.metrics_page --check
	@$(python) -m serving.gateway.routes --check
	@$(python) -m loraledger check --schema | diff -q - catalog/schema.json
	@$(python) -m typer loraledger.cli utils docs --name loraledger | diff -q - docs/commands.md

.PHONY: generate
generate: setup ## Write alerts/generated, dashboards/generated, docs/metrics.md, docs/api.md, docs/commands.md and the catalog's JSON Schema anew
	@$(python) -m loraledger dashboards
	@$(python) -m loraledger alerts
	@$(python) -m alerts.metrics_page
	@$(python) -m serving.gateway.routes
	@$(python) -m loraledger check --schema > catalog/schema.json
	@$(python) -m typer loraledger.cli utils docs --name loraledger > docs/commands.md

.PHONY: bench
bench: setup ## Measure what the step meter costs (minutes; never part of the tests)
	@$(python) bench/meter_overhead.py

.PHONY: bench-truth
bench-truth: setup ## Measure the attribution against exact Shapley values, and T_kv against cold runs (over an hour)
	@$(python) -m bench.attribution_error
	@$(python) -m bench.kv_saved

.PHONY: bench-scale
bench-scale: setup ## Rate, close and export ROWS (a million, then ten) usage rows, against bare ClickHouse SQL
	@$(python) -m bench.scale $(ROWS)
