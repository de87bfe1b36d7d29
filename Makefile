# make run      the main job: weigh Llama-3.1-8B on eight H100 and on one RTX 4090
# make test     everything: the release build as a whole, unit tests and whole-program cases under the sanitizers,
#               WebAssembly, formatting; Perfetto's own trace processor (from PyPI) reads what weigh --trace writes
# make tidy     clang-tidy over every source: minutes, so apart; before a release, and on what a change touches
# make quick    the dev build's tests without clang-tidy: the daily loop
# make bench    benchmarks        make mutations   100,000 damaged launch files
# make fuzz     libFuzzer over every reader, a minute each; make fuzz SECONDS=600 is a search
# make verify   installs the engines (gigabytes): their parsers load what `export` writes, and two steps of it are launched;
#               on the CPU; each engine's own loop starts them as rank 0 of 8 on a device of paper (truth/launched), its peak
#               beside weigh's; then a Slurm of one machine refuses a job that would not fit (make verify-exports,
#               verify-paper, verify-slurm); docs/launched.md is the table
# make verify-diagnose   lets real PyTorch die of memory on a device of paper and holds `diagnose` against the planted
#               causes (installs PyTorch; truth/deaths; docs/deaths.md is the table)
# make verify-record     steelyard.record, guard and the callbacks around real PyTorch on the device of paper
# make verify-rehearse   public training scripts as they are on a device of paper (installs PyTorch; docs/rehearse.md is the table)
# make verify-random     what make test does on hundreds, on many: 500 problems through plan, export and import; 1,000
#               hostile runs exported and their scripts run; the bands of 100,000 jobs; suggestions of 4,000 jobs applied
# make page     builds the page (web/page: npm, WebAssembly) into build/page, also as one file, and opens it
# make page-picture      README's picture: docs/page.png, a screenshot of what make page builds
# make verify-page  the page in Debian's Chromium: journeys, keyboard, axe, 320 pixels, both themes, offline, sizes, pictures of how
#               it looked, snapshots of a gigabyte, the report printed; five faces of ten runs are one number; one journey in
#               Firefox ESR (installs both browsers, npm's packages and a compiler's Python headers)
# make judge    predictions held to published runs: the tables of docs/validation.md, from truth/records and tools/judge/rows
# make format   clang-format      make docs    rerun the commands that the documents show, and build their site: build/docs, which
#               a search and every link are checked of, and which opens without a network (make docs-site: the site alone)
# make package  what others install: archives, Debian packages, wheel, checksums (build/package/packages); make
#               verify-packages asks each in a root with nothing else; make verify-python is pip install . from a clean clone
# make rebase   write what the cases print now as what is expected (read the diff before you commit it)
#
# Each installs what it lacks (Debian 12 or newer; it says what), then builds with the CMake preset of its name.

.PHONY: run build page page-files page-picture verify-page judge test test-release test-sanitize test-wasm tidy quick bench fuzz mutations trace-tools verify verify-engines verify-exports verify-paper verify-slurm verify-diagnose verify-rehearse verify-random format docs docs-site rebase clean
.DEFAULT_GOAL := run

PROCESSORS := $(shell nproc 2>/dev/null || echo 2)
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(PROCESSORS)
export CTEST_PARALLEL_LEVEL ?= $(PROCESSORS)

STEELYARD := build/release/steelyard

# The outcome of every tier, for the closing line of .ci/run.
RESULTS := $(CURDIR)/build/results

build:
	@cmake/install.sh build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target steelyard

run: build
	$(STEELYARD) weigh examples/llama-3.1-8b --on 8xh100-sxm-80gb --engine fsdp2 --sequence-length 4096
	@echo
	@# One 24 GB card is too small for a full fine-tune: "does not fit", exit 1, is the answer here.
	$(STEELYARD) weigh examples/llama-3.1-8b --on 1xrtx-4090 --sequence-length 8192 || [ $$? -eq 1 ]

# The program as a whole as people run it; every unit and every reader under the sanitizers; the core in WebAssembly. The
# dev build runs all tests without sanitizers (make quick).
test: test-release test-sanitize test-wasm

judge: build
	@cmake --build --preset release --target steelyard_judge
	python3 docs/validation.py --binary $(STEELYARD) --judge build/release/tools/judge/steelyard_judge

# $(call tier,PRESET,ctest options,cmake options)
define tier
@rm -f $(RESULTS)/$(1).xml
cmake --preset $(1) $(3) >/dev/null
cmake --build --preset $(1)
ctest --preset $(1) --output-junit $(RESULTS)/$(1).xml $(2)
endef

test-release: trace-tools python-tools
	@cmake/install.sh build test
	$(call tier,release,,-DSTEELYARD_TRACE_PYTHON=$(TRACE)/bin/python $(MODULE))

test-sanitize:
	@cmake/install.sh build test
	$(call tier,sanitize)

TRACE := $(CURDIR)/build/perfetto
trace-tools:
	@cmake/install.sh trace
	@python3 -m venv $(TRACE)
	@$(TRACE)/bin/pip install --quiet --disable-pip-version-check --requirement tests/perfetto/requirements.txt

# The Python module is built beside the program: the core is compiled once for both.
PYTHON := $(CURDIR)/build/python-tools
MODULE := -DSTEELYARD_PYTHON_MODULE=ON -DPython_EXECUTABLE=$(PYTHON)/bin/python
python-tools:
	@cmake/install.sh python
	@python3 -m venv $(PYTHON)
	@$(PYTHON)/bin/pip install --quiet --disable-pip-version-check --requirement python/requirements.txt

test-wasm:
	@cmake/install.sh build web
	$(call tier,wasm)

tidy:
	@cmake/install.sh build test
	cmake --preset dev >/dev/null
	cmake --build --preset dev --target steelyard_core
	python3 cmake/check_sources.py tidy --tool clang-tidy --build build/dev

quick:
	@cmake/install.sh build test
	$(call tier,dev,--label-exclude slow)

bench:
	@cmake/install.sh build bench
	cmake --preset release >/dev/null
	cmake --build --preset release --target steelyard_bench
	build/release/bench/steelyard_bench

# The worked answer in the page is written by the program, so both are built. `steelyard page` finds build/page.
page: page-files
	$(STEELYARD) page

page-files: build
	@cmake/install.sh web page
	cmake --preset wasm >/dev/null
	cmake --build --preset wasm --target steelyard_web steelyard_web_first
	STEELYARD=$(abspath $(STEELYARD)) web/page/run.sh build

page-picture: page-files
	@cmake/install.sh chromium
	STEELYARD=$(abspath $(STEELYARD)) web/page/run.sh screenshot $(CURDIR)/docs/page.png

verify-page: page-files python-tools
	@cmake/install.sh chromium firefox python
	cmake --preset release $(MODULE) >/dev/null
	cmake --build --preset release --target _core
	STEELYARD=$(abspath $(STEELYARD)) web/page/run.sh test

# Each reader for a minute, or for as long as is said: make fuzz SECONDS=600.
fuzz:
	@cmake/install.sh build fuzz
	cmake --preset fuzz -DSTEELYARD_FUZZ_SECONDS=$(or $(SECONDS),60) >/dev/null
	$(call tier,fuzz)

# The engines are gigabytes, and none of them is needed to use or to test the rest: a virtual environment of their own.
# nanotron comes from its repository; where that cannot be reached, NANOTRON=FOLDER names a checkout.
VERIFY := build/verify
VERIFY_PIP = $(VERIFY)/bin/pip install --quiet --disable-pip-version-check

verify: verify-exports verify-paper verify-slurm

# torch is PyPI's, a CUDA build: the device of paper needs it.
verify-engines:
	python3 -m venv $(VERIFY)
	$(VERIFY_PIP) --requirement tests/verify/requirements.txt
	$(VERIFY_PIP) --no-deps --requirement tests/verify/without_dependencies.txt
	$(VERIFY_PIP) --no-deps --upgrade --target $(VERIFY)/llama-factory --requirement tests/verify/apart_llama_factory.txt
	$(VERIFY_PIP) --no-deps --upgrade --target $(VERIFY)/megatron --ignore-requires-python --python-version 3.12 \
	  --only-binary=:all: --requirement tests/verify/apart_megatron.txt
	-[ -n "$(NANOTRON)" ] || GIT_TERMINAL_PROMPT=0 $(VERIFY_PIP) --no-deps --upgrade --target $(VERIFY)/nanotron \
	  --requirement tests/verify/apart_nanotron.txt 2>/dev/null

verify-exports: build verify-engines
	$(VERIFY)/bin/python tests/verify/verify_exports.py --binary $(STEELYARD) --write tests/verify/launched.json

# Megatron-LM's pretrain_gpt.py is in no wheel: MEGATRON_LM=FOLDER names a checkout of its tag core_v0.19.0, or it is fetched.
MEGATRON_LM ?= $(CURDIR)/$(VERIFY)/megatron-lm
verify-paper: build verify-engines
	[ -d "$(MEGATRON_LM)" ] || GIT_TERMINAL_PROMPT=0 git clone --quiet --depth 1 --branch core_v0.19.0 \
	  https://github.com/NVIDIA/Megatron-LM $(MEGATRON_LM) || echo "Megatron-LM could not be reached: its rows say so"
	MEGATRON_LM=$$([ -d "$(MEGATRON_LM)" ] && echo "$(MEGATRON_LM)") \
	  $(VERIFY)/bin/python truth/launched/launched.py --binary $(STEELYARD) --write tests/verify/launched.json

verify-slurm: build
	@cmake/install.sh slurm
	python3 tests/verify/verify_slurm.py --binary $(STEELYARD)

# DeepSpeed is installed without its kernels: they are compiled on a device.
TRUTH := build/truth
TRUTH_PIP = $(TRUTH)/bin/pip install --quiet --disable-pip-version-check
.PHONY: truth-tools verify-record
truth-tools:
	python3 -m venv $(TRUTH)
	grep -v '^deepspeed' truth/requirements.txt > $(TRUTH)/requirements.txt
	$(TRUTH_PIP) --requirement $(TRUTH)/requirements.txt setuptools wheel
	DS_BUILD_OPS=0 $(TRUTH_PIP) --no-build-isolation $$(grep '^deepspeed' truth/requirements.txt)

# record, guard and the callbacks of Trainer and Lightning around real PyTorch, with the module that make test builds.
verify-record: build python-tools truth-tools
	$(TRUTH_PIP) 'lightning>=2.5'
	cmake --preset release $(MODULE) >/dev/null
	cmake --build --preset release --target _core
	PYTHONPATH=build/release/python/package PYTHONDONTWRITEBYTECODE=1 $(TRUTH)/bin/python tests/verify/verify_recording.py

verify-rehearse: build truth-tools
	$(TRUTH)/bin/python tests/verify/verify_rehearse.py --binary $(STEELYARD) --write tests/verify/rehearsed.json
	python3 docs/rehearse.py

verify-diagnose: build truth-tools
	$(TRUTH)/bin/python truth/deaths/make.py build/deaths --each 4
	python3 truth/deaths/score.py $(STEELYARD) build/deaths --write docs/deaths.md

verify-random: build
	@cmake --build --preset release --target steelyard_random_jobs
	python3 tests/last_metre_test.py $(STEELYARD) --problems 500
	python3 tests/hostile_exports_test.py $(STEELYARD) --count 1000
	python3 tests/exhaustive/weigh_jobs.py --bands $(RANDOM_JOBS) --count 100000
	python3 tests/exhaustive/suggestions.py $(RANDOM_JOBS) --count 4000 --by-apply 10
RANDOM_JOBS = --steelyard $(STEELYARD) --random-jobs build/release/tests/exhaustive/steelyard_random_jobs

# What others install, in build/package/packages: the program in an archive and a Debian package, the library, the wheel,
# with checksums. None needs a library but the C library's, of 2018 or newer (glibc 2.28); the program needs none at all.
PACKAGE := build/package
.PHONY: package verify-packages verify-python python-tools
package: python-tools
	@cmake/install.sh build package
	cmake --preset package -USKBUILD -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu $(MODULE) >/dev/null
	cmake --build --preset package --target steelyard libsteelyard steelyard_share _core
	rm -rf $(PACKAGE)/packages
	cd $(PACKAGE) && cpack -G DEB && cpack -G TGZ
	cp $(PACKAGE)/steelyard $(PACKAGE)/packages/ && strip $(PACKAGE)/packages/steelyard
	cp packaging/Containerfile $(PACKAGE)/packages/
	$(PYTHON)/bin/pip install --quiet --disable-pip-version-check --requirement packaging/requirements.txt
	rm -rf $(PACKAGE)/wheel
	$(PYTHON)/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(PACKAGE)/wheel \
	  --config-settings build-dir=$(PACKAGE) .
	PATH=$(PYTHON)/bin:$$PATH $(PYTHON)/bin/auditwheel repair --plat manylinux_2_28_x86_64 --wheel-dir $(PACKAGE)/packages \
	  $(PACKAGE)/wheel/*.whl
	cd $(PACKAGE)/packages && sha256sum $$(ls -p | grep -v /) > SHA256SUMS

# Each package in a root with nothing else: no compiler, none of the libraries that the build used; then in whole systems of
# Debian 12 and 11, with their own dpkg, pip and Python (needs root, for chroot). Last the container, where one can be built.
verify-packages: package
	@cmake/install.sh roots
	packaging/roots.sh build/roots
	python3 packaging/verify.py --build $(PACKAGE) --wheel $(PACKAGE)/packages/*.whl --python $(PYTHON)/bin/python --roots build/roots
	packaging/container.sh $(PACKAGE)/packages $(PACKAGE)/steelyard

# pip install . from a clean clone into an empty environment, then the examples on local workers, and 100,000 calls.
verify-python:
	@cmake/install.sh build python
	rm -rf build/clone build/clone-python
	git clone --quiet . build/clone
	python3 -m venv build/clone-python
	build/clone-python/bin/pip install --quiet --disable-pip-version-check ./build/clone
	cd build && clone-python/bin/python ../python/tests/test_package.py
	build/clone-python/bin/steelyard weigh llama-3.1-8b --on 8xh100-sxm-80gb
	build/clone-python/bin/pip install --quiet --disable-pip-version-check --requirement examples/python/requirements.txt
	cd build && clone-python/bin/python ../examples/python/ten_runs.py
	cd build && clone-python/bin/python ../examples/python/sweep_with_dask.py
	cd build && clone-python/bin/python ../examples/python/sweep_with_ray.py
	cd build && clone-python/bin/jupyter execute ../examples/python/does_it_fit.ipynb
	cd build && clone-python/bin/python ../python/tests/many_calls.py --jobs 100000

# 100,000 damaged files of every corpus: no crash, none over a second (the launch files of others: FILES=FOLDER).
mutations:
	@cmake/install.sh build test
	cmake --preset dev >/dev/null
	cmake --build --preset dev --target launch_fuzz document_fuzz
	cd build/dev/fuzz && ./launch_fuzz --mutations 100000 ../../../fuzz/corpus/launch $(FILES)
	cd build/dev/fuzz && ./document_fuzz --mutations 100000 ../../../fuzz/corpus/document

format:
	clang-format -i $$(git ls-files --cached --others --exclude-standard '*.h' '*.cc')

docs rebase:
	@cmake/install.sh build test
	cmake --preset dev >/dev/null
	cmake --build --preset dev --target steelyard
	python3 $(if $(filter docs,$@),docs/regenerate.py,tests/run_cases.py --rebase)
	$(if $(filter docs,$@),python3 docs/rules.py)
	$(if $(filter docs,$@),python3 docs/strategies.py)
	$(if $(filter docs,$@),python3 docs/schemas.py --binary build/dev/steelyard --write)
	$(if $(filter docs,$@),python3 docs/launched.py)
	$(if $(filter docs,$@),python3 docs/on_a_gpu.py --binary build/dev/steelyard)
	$(if $(filter docs,$@),$(MAKE) --no-print-directory docs-site)

docs-site:
	@cmake/install.sh page
	docs/site/run.sh

clean:
	rm -rf build
