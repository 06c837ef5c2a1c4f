# SPDX-License-Identifier: Apache-2.0
# The front door; the real build is Meson's (meson.build). `make help` lists what there is.

PREFIX ?= /usr/local
CONFIG ?= examples/configs/train.yaml
# Another build of torch for the tests, for example torch==2.13.0+cpu where the index has it.
TORCH_REQUIREMENT ?= torch==2.13.0
JOBS ?= $(shell nproc)
# Tests: most of them wait.
AT_ONCE := $(shell echo $$((4 * $(JOBS))))
MESON_FLAGS := $(if $(filter true,$(CI)),-Dwerror=true)
setup = [ -f $(1)/build.ninja ] || $(2) meson setup $(1) $(MESON_FLAGS) $(3)

.PHONY: all
all: ## build/batchfit, the release
	@$(call setup,build)
	@ninja -C build

.PHONY: run
run: all ## the main job on examples/configs/train.yaml (CONFIG=...); the file is not changed
	build/batchfit fit --config $(CONFIG) --test-only
	build/batchfit fit --config $(CONFIG) --gpu rtx3060 --save-config build/train_rtx3060.yaml
	diff -u $(CONFIG) build/train_rtx3060.yaml || true

.PHONY: quick test test-all
quick: ## the house rules and the unit tests on the release: within a minute
	@$(call setup,build)
	@meson test -C build --num-processes $(AT_ONCE) --print-errorlogs --suite check --suite unit
test: ## the gate, what every change must pass; ends with 'N passed, N failed' (SUITES="release asan" for some)
	@tools/run-tests $(SUITES)
test-all: ## every suite: before a release, and before an issue is resolved
	@tools/run-tests --all
.PHONY: soak
soak: ## RUNS (20) times the gate's release suite beside LOOPS (3) busy loops: what fails now and then?
	@tools/soak $(or $(RUNS),20) $(or $(LOOPS),3)

# All that the tests of a build folder need.
.PHONY: tree-release tree-asan tree-clang
tree-release: all
	@ninja -C build all meson-test-prereq
tree-asan:
	@$(call setup,build-asan,,$(SANITIZE))
	@ninja -C build-asan all meson-test-prereq
build-clang/build.ninja:
	@$(call setup,build-clang,CC=clang,-Doptimization=1)
tree-clang: build-clang/build.ninja
	@ninja -C build-clang all meson-test-prereq

# HALF=--slow: only what the gate leaves out; HALF=--all: both (tests/unittests).
.PHONY: test-torch1 test-torch2
test-torch1: all build/venv1/.ready ## the tests that need PyTorch, on Debian's torch 1.13 (HALF=--slow, --all)
	@tests/unittests tests/torch build/venv1/bin/python $(HALF)
test-torch2: all build/venv2/.ready ## the same on the newest 2.x
	@tests/unittests tests/torch build/venv2/bin/python $(HALF)

.PHONY: test-cloud
test-cloud: all ## what is said to Kubernetes, Kubeflow's trainer and SkyPilot, judged by their own libraries (PyPI, half a gigabyte)
	@[ -x build/cloud/bin/python ] || python3 -m venv build/cloud
	@build/cloud/bin/pip -q install -r tests/cloud/requirements.txt
	@build/cloud/bin/python tests/cloud/run build/batchfit

.PHONY: test-slurm
test-slurm: all ## beside a real Slurm (Debian: slurmctld slurmd slurm-client munge; root): GPUs at submission, run in jobs: JOBS_OF_RUN (100)
	@meson compile -C build trainer >/dev/null
	@tests/slurm/run build/batchfit build/tests/standin/trainer --jobs $(or $(JOBS_OF_RUN),100)

.PHONY: test-store
test-store: all ## the history in a real PostgreSQL (Debian: postgresql): WRITERS (200) at once while the server is killed KILLS (3) times, verbs, bad input
	@meson compile -C build trainer store_writer >/dev/null
	@tests/store/run build/batchfit build/tests/store_writer build/tests/standin/trainer --writers $(or $(WRITERS),200) --runs 20 --kills $(or $(KILLS),3)

.PHONY: test-gpu
test-gpu: all ## on a machine with a GPU: predicted and measured peaks side by side (tests/gpu/README.md)
	@tests/gpu/run || [ $$? = 77 ]

.PHONY: test-frameworks1 test-frameworks2
test-frameworks1: all build/frameworks1/.ready ## the examples of real frameworks, alone and under batchfit, on torch 1.13
	@tests/unittests tests/frameworks build/frameworks1/bin/python $(HALF)
test-frameworks2: all build/frameworks2/.ready ## the same on the newest 2.x
	@tests/unittests tests/frameworks build/frameworks2/bin/python $(HALF)

build/venv1/.ready: tests/torch/requirements-torch1.txt tools/venv
	tools/venv build/venv1 --system $<
build/venv2/.ready: tests/torch/requirements-torch2.txt tools/venv
	tools/venv build/venv2 "$(TORCH_REQUIREMENT)" $<
build/frameworks%/.ready: tests/torch/requirements-frameworks%.txt build/venv%/.ready
	tools/venv build/frameworks$* --beside=build/venv$* $<

.PHONY: accuracy accuracy-sample
accuracy: all build/venv1/.ready build/venv2/.ready ## TRUTH=FILE.csv [N= SEED= OUT= JOBS=]: predictions against published runs
	@/usr/bin/python3 tools/accuracy.py "$(TRUTH)" $(if $(N),--rows $(N)) $(if $(SEED),--seed $(SEED)) \
	    $(if $(OUT),--out "$(OUT)") --jobs $(JOBS)
accuracy-sample: all build/venv1/.ready build/venv2/.ready
	@/usr/bin/python3 tools/accuracy.py --sample --jobs $(JOBS)

.PHONY: tapes
tapes: all build/venv2/.ready ## record the shipped tapes again; see CONTRIBUTING.md
	/usr/bin/python3 tools/tapes.py --jobs $(JOBS)

.PHONY: templates
templates: all build/frameworks2/.ready ## record the shipped templates again: families of decoders at any shape
	OMP_NUM_THREADS=1 build/frameworks2/bin/python tools/templates.py --jobs $(JOBS)

.PHONY: bench
bench: all ## the speed of our own code: doc/speed.md
	@bench/run

.PHONY: soak-recover
soak-recover: all build/frameworks2/.ready ## real trainings under run: FAULTS (40) random faults, HEALTHY (0) minutes each, SEED (1)
	@tests/recover/soak/soak build/batchfit build/frameworks2/bin/python --faults $(or $(FAULTS),40) --healthy $(or $(HEALTHY),0) --seed $(or $(SEED),1)

SANITIZE := -Doptimization=1 -Ddebug=true -Db_sanitize=address,undefined -Db_lundef=false -Dc_args='-g1 -fno-sanitize-recover=all'
.PHONY: asan tsan fuzz afl
asan: tree-asan ## unit and CLI tests under the address and undefined-behaviour sanitizers
	@meson test -C build-asan --print-errorlogs --suite unit --suite cli --suite fuzz
tsan: ## the same under the thread sanitizer
	@$(call setup,build-tsan,,-Dbuildtype=debugoptimized -Db_sanitize=thread -Db_lundef=false)
	@meson test -C build-tsan --print-errorlogs --suite unit --suite cli

.PHONY: outside outside-asan
outside: all ## other people's suites, random YAML, load: YAML_TEST_SUITE=DIR JSON_TEST_SUITE=DIR [COUNT=5000 SEED=1] (tests/outside/suites)
	@tests/outside/suites build/batchfit
	@tests/outside/random_yaml build/batchfit $(or $(COUNT),5000) $(or $(SEED),1)
	@LOAD_SECONDS=10 tests/serve/load build/batchfit
outside-asan: tree-asan ## their cases as inputs of the fuzz targets, and random YAML, under the address and undefined-behaviour sanitizers
	@rm -rf build-asan/outside && tests/outside/suites --inputs build-asan/outside
	@for folder in build-asan/outside/*; do build-asan/tests/fuzz/replay_$${folder##*/} $$folder || exit 1; done
	@tests/outside/random_yaml build-asan/batchfit $(or $(COUNT),1000) $(or $(SEED),1)

FUZZ_SECONDS ?= 600
fuzz: ## every fuzz target for FUZZ_SECONDS (600) each
	@$(call setup,build-fuzz,CC=clang,$(SANITIZE) -Dfuzzers=true)
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)
afl: ## AFL++ on the readers of foreign files for FUZZ_SECONDS (600) each: config, tape, memory snapshot, log
	@$(call setup,build-afl,CC=afl-clang-fast,$(SANITIZE) -Dfuzzers=true)
	@tools/afl build-afl $(FUZZ_SECONDS)

.PHONY: analyze format layers
analyze: build-clang/build.ninja ## clang-tidy and cppcheck (NODES=225000: clang's analyzer as deep as it goes)
	@tools/analyze build-clang $(JOBS) $(NODES)
format: ## clang-format on every C file
	@git ls-files '*.c' '*.h' | xargs clang-format -i
layers: ## who includes whom
	@tools/layers

.PHONY: install dist wheel deb recipes test-install
install: all ## DESTDIR= PREFIX=/usr/local
	@meson configure build --prefix "$(abspath $(PREFIX))" >/dev/null
	@meson install -C build $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")
dist: ## dist/: a folder and a tar that run on machines without our packages
	@tools/dist
wheel: ## dist/*.whl: the program as pip, uv and pipx install it; the other processor's in dist/aarch64 (needs Debian's sources and PyPI)
	@tools/wheel
deb: ## dist/*.deb (needs debhelper; lintian judges it where it is installed)
	@tools/deb
recipes: ## dist/: the source archive, and the recipes for conda-forge and Homebrew with its checksum (URL=...)
	@tools/release $(URL)
test-install: ## every way in, from nothing, in fresh Debians: root, apt's mirrors (tests/wheel/chroots; doc/install.md)
	@tests/wheel/chroots

.PHONY: clean help
clean: ## every build folder, but not the Python packages and tapes in build/
	@find build -mindepth 1 -maxdepth 1 ! -name 'venv*' ! -name 'frameworks*' ! -name '*tapes' ! -name 'templates' ! -name 'timm-*' ! -name 'transformers-*' \
	    -exec rm -rf {} + 2>/dev/null || true
	@rm -rf build-asan build-clang build-tsan build-fuzz build-afl build-dist build-wheel build-deb dist
help:
	@sed -n 's/^\([a-z0-9-]*\):.* ## /\1\t/p; s/^\([a-z0-9-]*\): ## /\1\t/p' Makefile | expand -t 16
