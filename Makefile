# Every recipe does its own set-up: a fresh clone needs Rust, Python 3.11 and a C compiler, nothing else.
# CI runs `make test`; each of its stages is a target of its own.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.SUFFIXES:

# An activated environment of the caller's must not be mistaken for ours.
unexport VIRTUAL_ENV CONDA_PREFIX PYTHONPATH PYTHONHOME
export SIGBANK_TEST_PYTHON := $(CURDIR)/.venv/bin/python
PY := $(SIGBANK_TEST_PYTHON)
NEXTEST := $(shell command -v cargo-nextest 2>/dev/null)
FUZZ_SECONDS ?= 3
KILLS ?= 10
WRITERS ?= 4

# The order puts what fails fast first; the wheel is a release build, so that Python tests run what users install.
STAGES := fmt-check clippy test-rust test-doc install test-python test-tensorflow stubtest test-kill fuzz-smoke

.PHONY: help demo test $(STAGES) lint fmt bench soak fuzz doc clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/\t/' | expand -t 14

demo: .venv/demo ## real recordings become a checked dataset, a speed and a picture, in demo/
	@scripts/demo.sh

test: .venv/test ## everything that CI runs, with the minutes of each stage
	@scripts/stages.sh $(STAGES)

fmt-check: ## rustfmt, without changing anything
	cargo fmt --all --check

clippy: ## lints of all Rust code, warnings denied
	cargo clippy --workspace --all-targets --locked -- -D warnings

test-rust: .venv/test ## Rust unit and integration tests
ifdef NEXTEST
	cargo nextest run --workspace --locked --no-fail-fast --status-level fail --final-status-level slow
else
	cargo test --workspace --locked --lib --bins --tests --no-fail-fast
endif

test-doc: ## the examples in the Rust documentation
	cargo test --workspace --locked --doc --quiet

install: .venv/test ## `pip install .` into .venv (release build)
	scripts/install.sh

test-python: .venv/test ## Python tests
	$(PY) -m pytest -q python/tests

test-tensorflow: .venv/test .venv-tensorflow/tensorflow ## TensorFlow reads our datasets, in an environment of its own
	scripts/install.sh .venv-tensorflow
	TF_CPP_MIN_LOG_LEVEL=3 .venv-tensorflow/bin/python -m pytest -q python/tests_tf

stubtest: .venv/test ## the type stubs against the module
	scripts/stubtest.sh

test-kill: .venv/test ## processes killed at KILLS random instants; signal-datasets by WRITERS processes
	scripts/kill.sh $(KILLS) $(WRITERS)

fuzz-smoke: ## each fuzz target for FUZZ_SECONDS
	scripts/fuzz.sh $(FUZZ_SECONDS)

lint: fmt-check clippy ## format and lints

fmt: ## rustfmt
	cargo fmt --all

bench: .venv/test install .venv-tensorflow/tensorflow ## measurements beside the reference package
	scripts/install.sh .venv-tensorflow
	scripts/bench.sh

soak: .venv/test install ## the long versions: 100 kills, 40 writers, a minute for each fuzz target
	$(MAKE) test-kill KILLS=100 WRITERS=40
	$(MAKE) fuzz-smoke FUZZ_SECONDS=60
	SIGBANK_SOAK_WRITERS=40 $(PY) -m pytest -q python/tests/test_sedpack_cloud.py python/tests/test_cloud_faults.py -k processes
	SIGBANK_JBOF_SOAK=600 $(PY) -m pytest -q python/tests/test_jbof_processes.py

doc: ## the Rust documentation
	cargo doc --workspace --no-deps --locked

clean: ## removes what the recipes made
	rm -rf target .venv .venv-tensorflow .cache demo fuzz/target

.venv/demo: requirements/demo.txt scripts/setup.sh
	scripts/setup.sh demo

.venv/test: requirements/demo.txt requirements/test.txt scripts/setup.sh
	scripts/setup.sh test

.venv-tensorflow/tensorflow: requirements/tensorflow.txt scripts/setup.sh
	scripts/setup.sh tensorflow
