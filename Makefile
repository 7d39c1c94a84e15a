# All commands of developers and of CI. `make` lists them.

VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
# The Python of the environment; another one: make build PYTHON=python3.12
PYTHON ?= $(shell command -v python3.11 || command -v python3)

# The demo: number of files, number of processes, folders of data and results.
DEMO_FILES ?= 24
DEMO_WORKERS ?= $(shell nproc)
DEMO_DATA ?= demo-data
DEMO_OUT ?= demo-out
# The directory and the port of the control room of `make serve-demo`.
DEMO_ROOM ?= demo-room
DEMO_PORT ?= 8765

# CI takes the locked Rust dependencies as they are, or fails.
CARGO_FLAGS := --release $(if $(CI),--locked)
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name '*.txt' -o -name '*.infos' -o -name Cargo.toml) Cargo.toml Cargo.lock
# The oldest Rust that Cargo.toml allows. It is checked here, as an older cargo fails with a misleading message.
RUST_MINOR := $(shell sed -n 's/^rust-version = "1\.\([0-9]*\).*/\1/p' Cargo.toml)
# The environment of the Rucio server of `make test-ecosystem`.
RUCIO_SERVER := $(CURDIR)/target/rucio-server
PIP := $(BIN)/python -m pip --quiet --disable-pip-version-check
TESTS ?=
# Many tests wait, for servers, kills and leases: one worker more than there are cores. Each takes a file at a time, so
# that what a file's tests share is made once.
TEST_WORKERS ?= $(shell expr $$(nproc) + 1)
# pytest-xdist may wait forever after a worker that replaced a crashed one has ended. A crash is a failure anyway.
IN_WORKERS := -n $(TEST_WORKERS) --dist loadfile --no-loadscope-reorder --max-worker-restart 0
# What `make test-seeds` and `make test-reuse` run: from the first seed to before the last.
SEEDS ?= 0:1000
# Seconds for each fuzz target.
SECONDS ?= 60

# On Linux zig compiles and links against the glibc of manylinux2014, so that the wheel runs wherever pip takes it.
WHEEL_FLAGS := $(if $(filter Linux,$(shell uname)),--zig --compatibility manylinux2014) $(if $(CI),--locked)

export PATH := $(abspath $(BIN)):$(PATH)
# Images of containers often set it. Then each of the thousands of processes of the tests would compile all it imports.
unexport PYTHONDONTWRITEBYTECODE
# The settings that maturin gives to pyo3. Clippy and the tests use the same, or each of them would make the others build
# again. The tests take the whole workspace for the same reason: without the bindings, dependencies have fewer features.
# They are set in the recipe, because variables of a target also reach its prerequisites.
PYO3_AS_MATURIN := PYO3_BUILD_EXTENSION_MODULE=1 \
	PYO3_CONFIG_FILE="$$(ls $(CURDIR)/target/maturin/pyo3-config-*.txt | head -n 1)"

.DEFAULT_GOAL := help
.PHONY: help build demo serve-demo data test test-rust test-python test-long test-storage test-cluster test-ecosystem bench studies fuzz miri check check-rust check-python docs sdist try-sdist release audit coverage \
	docs-recipes wheel try-wheel peers uproot-tests peer-packages format lock clean
# Two cargo commands at once would wait for each other's lock.
.NOTPARALLEL:
.DELETE_ON_ERROR:

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 22

build: $(STAMPS)/extension ## build .venv/bin/branchline and .venv/bin/python

demo: build data ## simulate collisions, run the demo train over them, print where to look
	$(BIN)/branchline run python/branchline/trains/demo/demo_wagons.py $(DEMO_DATA)/collisions.txt -o $(DEMO_OUT) --force --workers $(DEMO_WORKERS)

serve-demo: build data ## run the demo train a few times, each reporting to a control room, and serve that
	$(BIN)/python -m tests.pages.serve_demo $(DEMO_DATA) $(DEMO_ROOM) $(DEMO_PORT)

data: build $(STAMPS)/demo ## simulate the collisions of the demo only; they are kept
	$(BIN)/branchline demo-data $(DEMO_DATA) --files $(DEMO_FILES) --workers $(DEMO_WORKERS)

# $(call beside,NAME,GOALS) starts goals in the background, with their output in target/NAME.log. $(call joined,NAME)
# waits for these goals, and prints their output if they failed.
beside = $(MAKE) $(2) >target/$(1).log 2>&1 & $(1)=$$!; started="$$started $$!";
joined = wait $$$(1) || { cat target/$(1).log >&2; exit 1; };

# pip, which uses one core, runs beside the compilation, and Rust beside the tests in Python, many of which wait.
test: ## run the checks, and all tests that this machine can run
	@set -e; mkdir -p target; started=; trap 'kill $$started 2>/dev/null || true' EXIT; \
	$(MAKE) $(STAMPS)/build; \
	$(call beside,peer_packages,peer-packages) \
	$(MAKE) build; \
	$(call joined,peer_packages) \
	$(call beside,check_python,check-python) \
	$(call beside,rust,check-rust test-rust) \
	$(MAKE) test-python; \
	$(call joined,check_python) \
	$(call joined,rust)

test-rust: $(STAMPS)/extension ## run the tests in Rust
	$(PYO3_AS_MATURIN) cargo test $(CARGO_FLAGS) --workspace

test-python: build peer-packages ## run the tests in Python; TESTS=tests/unit chooses some
	$(BIN)/python -m pytest $(IN_WORKERS) --durations=30 -m "not long" $(TESTS)

test-long: build peer-packages ## run what is marked long: benchmarks at small size, more random files, kills, sizes of pages; TESTS= chooses some
	$(BIN)/python -m pytest $(IN_WORKERS) --durations=10 -m long $(TESTS)

test-storage: build peer-packages ## run the tests with heavy servers: Ceph, HDFS, mounts; installs what it can, skips the rest
	tests/storage/install.sh
	cargo fmt --check --manifest-path studies/disk/Cargo.toml
	cargo clippy --locked --manifest-path studies/disk/Cargo.toml --target-dir target/disk --all-targets -- --deny warnings
	cargo test --locked --manifest-path studies/disk/Cargo.toml --target-dir target/disk
	$(BIN)/python -m pytest --durations=8 tests/storage

test-cluster: build peer-packages ## run the tests with batch systems: Slurm, HTCondor; installs what it can, skips the rest
	tests/clusters/install.sh
	BRANCHLINE_TEST_CLUSTERS=all $(BIN)/python -m pytest --durations=8 tests/clusters

test-ecosystem: build peer-packages $(STAMPS)/ecosystem $(STAMPS)/rucio-server ## run the tests with real services and libraries of models: Rucio; installs all of it, a skip is a failure
	tests/ecosystem/install.sh
	CI=true BRANCHLINE_RUCIO_SERVER=$(RUCIO_SERVER) $(BIN)/python -m pytest --durations=8 $(or $(TESTS),tests/ecosystem)

# The wheel for CPUs is a tenth of the size of the one on the package index, which has libraries of CUDA.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
.PHONY: test-torch
test-torch: build peer-packages ## run the test of PyTorch models in wagons; installs PyTorch into .venv, 200 MB; TORCH_INDEX= takes that of the package index
	$(PIP) install --no-compile $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) torch
	CI=true $(BIN)/python -m pytest tests/torch

.PHONY: test-simulation test-reuse test-faults fault-table
test-simulation: build peer-packages ## compare simulated jobs with SimGrid; installs it, or skips that
	tests/simulation/install.sh
	$(BIN)/python -m pytest -s tests/simulation

test-seeds: build ## run trains with faults that seeds choose: workers, machines, schedulers, disks; SEEDS=0:1000
	$(BIN)/python -m tests.clusters.seeded --seeds $(SEEDS)

test-reuse: build peer-packages ## compare trains that reuse results with others, through changes that seeds choose; SEEDS=0:1000, ON=dask or slurm
	$(BIN)/python -m tests.reuse.sequences --seeds $(SEEDS) $(if $(ON),--on $(ON))

test-faults: build peer-packages ## run a train with each kind of faulty wagon at each place; half an hour
	$(BIN)/python -m pytest -n $(TEST_WORKERS) --dist load --durations=5 -m "long or not long" tests/faults

fault-table: build peer-packages ## write docs/reference/faulty-wagons.md from what trains with faulty wagons do; half an hour; PLACES="slurm htcondor" does these columns anew
	$(BIN)/python -m tests.faults.table $(PLACES)

wheel: $(STAMPS)/wheel ## build one wheel into dist, for Python 3.11 and later and old systems
	$(BIN)/python -m maturin build --release --out dist $(WHEEL_FLAGS)

try-wheel: ## install the wheel in dist into fresh environments without a compiler, open a file, run the demo
	$(PYTHON) tests/wheel/try_wheel.py dist/*.whl

sdist: $(STAMPS)/wheel ## build the source distribution into dist, and check its metadata
	$(BIN)/python -m maturin sdist --out dist
	$(BIN)/python -m twine check --strict dist/*.tar.gz

try-sdist: ## install the source distribution in dist into a fresh environment, which compiles it, and open a file
	$(PYTHON) tests/wheel/try_sdist.py dist/*.tar.gz

release: ## check the tree, set VERSION=1.2.3 in all files, date the changelog, commit and tag; pushes nothing
	$(PYTHON) release/prepare.py $(VERSION)

audit: ## check licences, advisories and sources of all crates; installs cargo-deny
	cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
	cargo deny --all-features check

coverage: build peer-packages ## measure which lines the tests reach, in Rust and in Python, into target/coverage; installs cargo-llvm-cov
	cargo llvm-cov --version >/dev/null 2>&1 || { cargo install --locked cargo-llvm-cov && rustup component add llvm-tools; }
	$(PYO3_AS_MATURIN) cargo llvm-cov --workspace --html --output-dir target/coverage/rust
	$(BIN)/python -m pytest $(IN_WORKERS) --cov --cov-report html:target/coverage/python -m "not long" $(TESTS)

docs: build $(STAMPS)/docs ## build the site of documentation: docs/_build/index.html
	$(BIN)/python -m docs.generate
	$(BIN)/python -m sphinx -b html -W --keep-going --quiet --jobs auto docs docs/_build

docs-recipes: build peer-packages ## follow the pages under docs/extending in a copy of the sources; minutes
	$(BIN)/python -m tests.docs.recipes

bench: build peer-packages ## measure beside ROOT and uproot; writes benches/results
	$(BIN)/python -m benches

studies: build peer-packages ## repeat published studies on real servers and emulated disks; writes docs/studies; STUDY=uk selects, QUICK=1 only checks that they run
	tests/storage/install.sh
	$(BIN)/python -m studies $(if $(STUDY),--study $(STUDY)) $(if $(QUICK),--quick)

fuzz: ## feed wrong bytes to every decoder, SECONDS=60 each; needs a C++ compiler, installs a nightly Rust
	fuzz/run $(SECONDS)

miri: ## run the tests of unsafe Rust under Miri; installs a nightly Rust
	fuzz/miri

check: check-rust check-python ## check formatting, lints and types

check-rust: $(STAMPS)/extension
	cargo fmt --all --check
	$(PYO3_AS_MATURIN) cargo clippy $(CARGO_FLAGS) --workspace --all-targets --quiet -- --deny warnings

check-python: build peer-packages
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest branchline._core --mypy-config-file tests/tidy/stubtest.ini --allowlist tests/tidy/stubtest.txt --ignore-unused-allowlist

format: peer-packages ## format the sources in place
	cargo fmt --all
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

peers: build peer-packages ## compare random files with ROOT; CASES=200, FORMAT=TTree and others, SEED=... repeats them
	$(BIN)/python -m tests.peers.generator

uproot-tests: build peer-packages ## run uproot's own tests of reading and writing on Branchline; SOURCE=... is another uproot's source
	$(BIN)/python -m tests.peers.uproot_tests $(SOURCE)

peer-packages: $(STAMPS)/peers ## install ROOT, uproot and all else that tests need into .venv

lock: peer-packages ## write requirements/*.txt from pyproject.toml; UPGRADE=--upgrade takes new versions
	requirements/lock.sh $(BIN)/uv $(UPGRADE)

clean: ## remove what was built; the data of the demo stay
	rm -rf $(VENV) target fuzz/target dist docs/_build docs/*/generated $(DEMO_OUT) python/branchline/_core*.so
	find . -name __pycache__ -prune -exec rm -rf {} +

$(STAMPS)/venv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Branchline needs Python 3.11 or later; say which: make PYTHON=/path/to/python3.11")'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

# Compiling all modules of the packages takes as long as installing them; Python compiles those that are imported.
$(STAMPS)/build $(STAMPS)/demo $(STAMPS)/docs $(STAMPS)/wheel $(STAMPS)/peers $(STAMPS)/ecosystem: $(STAMPS)/%: requirements/%.txt $(STAMPS)/venv
	$(PIP) install --no-compile --require-hashes --only-binary :all: -r $<
	@touch $@

# The server needs other versions than the peers, and docopt, which has no wheel.
$(STAMPS)/rucio-server: requirements/rucio-server.txt $(STAMPS)/venv
	$(PYTHON) -m venv $(RUCIO_SERVER)
	$(RUCIO_SERVER)/bin/python -m pip --quiet --disable-pip-version-check install --no-compile --require-hashes -r $<
	@touch $@

# maturin builds in ./target with the release profile, as cargo test --release and clippy do.
$(STAMPS)/extension: $(STAMPS)/build $(RUST_SOURCES) pyproject.toml
	@cargo --version | awk '{ split($$2, v, "."); exit v[2] < $(RUST_MINOR) }' \
	    || { echo "Branchline needs Rust 1.$(RUST_MINOR) or later; this is $$(cargo --version)" >&2; exit 1; }
	MATURIN_PEP517_ARGS='$(if $(CI),--locked)' $(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@
