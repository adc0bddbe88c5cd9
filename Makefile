# `make help` lists the targets.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)
CARGO ?= cargo
SECONDS ?= 60
PREFIX ?= /usr/local
BUILT ?= target/release
FEATURES ?=
comma := ,
RUNS ?= 5
THREADS ?= 1
OUT ?= out/demo
SOAK ?= 3600
JOBS ?= 1
PAPER ?= paced-chirping
# Progress is for terminals only.
QUIET := $(if $(MAKE_TERMERR),,--quiet)
# What takes longest to build, or needs clang, is tested and linted where FEATURES has its name.
features := $(subst $(comma), ,$(FEATURES))
kernel := $(if $(filter ebpf,$(features)),,--exclude paceline-kernel --exclude paceline-int --exclude paceline-store)
# Elsewhere maturin knows how what Python loads is linked.
python := $(if $(filter Linux,$(shell uname)),,--exclude paceline-python)
tested = --workspace $(python) $(if $(filter quic,$(features)),,--exclude paceline-quic) $(kernel) $(if $(kernel),--exclude paceline-bus) \
    --features '$(addprefix paceline-cli/,parquet $(if $(filter quic,$(features)),quic-noq) $(filter ebpf quic-s2n,$(features)))'

.DEFAULT_GOAL := help
.PHONY: help build build-c install install-c deb dist demo test test-docs test-crates test-operators test-quic test-ebpf test-java test-python test-browser test-web web wheel site soak-alcc soak-shim fmt lint deny bench bench-emulators bench-alcc bench-java bench-instructions bench-tables fuzz docs validate validate-real reproduce clean packages image

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { line = sprintf("make %-18s", $$1); n = split($$2, word, " "); \
	    for (i = 1; i <= n; i++) { \
	        if (length(line " " word[i]) > 79) { print line; line = sprintf("%23s", "") } \
	        line = line " " word[i] \
	    } print line }' Makefile

build: ## the paceline command and its preloaded library, in target/release
	@scripts/setup build
	@$(CARGO) build $(QUIET) --release --locked -p paceline-cli -p paceline-shim $(if $(FEATURES),--features paceline-cli/$(subst $(comma),$(comma)paceline-cli/,$(FEATURES)))

install: ## what was built: the command, its preloaded library, manual pages and completions, below PREFIX=/usr/local
	@install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(BUILT)/paceline
	@install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/paceline $(BUILT)/libpaceline_shim.so
	@$(BUILT)/paceline manual $(DESTDIR)$(PREFIX)/share/man/man1
	@install -d $(addprefix $(DESTDIR)$(PREFIX)/share/,bash-completion/completions zsh/site-functions fish/vendor_completions.d)
	@$(BUILT)/paceline completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/paceline
	@$(BUILT)/paceline completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_paceline
	@$(BUILT)/paceline completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/paceline.fish

deb: build build-c ## a Debian package of the command and its libraries, in target/packages (FEATURES=ebpf adds eBPF)
	@FEATURES="$(FEATURES)" scripts/deb $(BUILT) target/packages

dist: build ## an archive of what `make install` installs, in target/packages
	@FEATURES="$(FEATURES)" scripts/dist $(BUILT) target/packages

packages: deb dist ## both of them

image: ## a container image, paceline:VERSION (needs podman, buildah or docker, and a registry for its base)
	@tool=$$(command -v podman || command -v buildah || command -v docker) || { echo "image: no podman, buildah or docker; install one" >&2; exit 1; }; \
	"$$tool" build -f Containerfile --build-arg FEATURES="$(FEATURES)" --build-arg COMMIT="$$(git rev-parse HEAD 2>/dev/null)" \
	    -t paceline:$$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1) .

demo: build ## race twelve contestants over the shipped cellular path; report in out/demo
	@mkdir -p $(OUT)
	@target/release/paceline race scenarios/cellular.toml --json $(OUT)/records.jsonl --report $(OUT)
	@echo "report: $(OUT)/report.html"
	@echo "command: target/release/paceline (make install puts it into PATH)"

test: ## all tests; those of QUIC and of the kernel by FEATURES=quic,ebpf, of Java, Python and the browser where there is a JDK and Maven, a venv, a Chromium
	@scripts/setup test
	@scripts/setup $(if $(kernel),build,ebpf)
	@scripts/test $(addprefix --also ,scripts/pack scripts/test-java scripts/test-python scripts/test-browser scripts/test-web) --also "scripts/test-browser --web" $(QUIET) $(tested)

test-browser: ## clicks in the report of a small race, and in the page of make web where it was made, and axe, in a headless Chromium (needs node, chromium, and packages from npm)
	@scripts/setup build
	@$(CARGO) build $(QUIET) --locked -p paceline-cli
	@scripts/test-browser
	@scripts/test-browser --web

test-web: ## records of the browser's module in node against the command's, for each scenario (needs node, and the target wasm32-unknown-unknown)
	@scripts/setup build
	@$(CARGO) build $(QUIET) --locked -p paceline-cli
	@scripts/test-web

web: ## the page that races in the browser, in target/web (needs the target wasm32-unknown-unknown)
	@scripts/setup build
	@scripts/web

test-python: ## the Python package: wheel, types and tests in target/python (needs python3 with venv, and packages from PyPI)
	@scripts/setup build
	@scripts/test-python

wheel: ## the Python package as users get it, in target/wheels and in the virtual environment target/python
	@scripts/setup build
	@scripts/test-python wheel

test-docs: ## the command blocks of all pages, those that take below 30 s (ALL=1: all; BUILT=target/release has the command)
	@PACELINE=$(BUILT)/paceline scripts/test-docs $(if $(ALL),--all)

test-crates: ## the crates that others depend on: packed, documented, and used from an empty project (needs packages from crates.io, or their copies)
	@scripts/setup build
	@scripts/pack

test-operators: ## alert rules, and a Prometheus that scrapes what runs under the shim (needs prometheus and promtool)
	@PACELINE=$(BUILT)/paceline scripts/test-operators

test-quic: ## tests of the QUIC crate, with all of its stacks, and of races over it, which take longest to build
	@scripts/setup test
	@scripts/test $(QUIET) -p paceline-quic --features noq,s2n
	@scripts/test $(QUIET) -p paceline-cli --features quic-noq,quic-s2n --test real -- quic

test-ebpf: ## tests of what runs in the kernel, which needs clang to build and root to run
	@scripts/setup test
	@if scripts/setup ebpf; then \
	    scripts/test $(QUIET) -p paceline-kernel && \
	    scripts/test $(QUIET) -p paceline-testbed --features ebpf --test lossy && \
	    scripts/test $(QUIET) -p paceline-bus -p paceline-int -p paceline-store && \
	    scripts/test $(QUIET) -p paceline-named --features kernel-store -- kernel_store && \
	    scripts/test $(QUIET) -p paceline-cli --features ebpf --test command -- kernel int:: && \
	    scripts/test $(QUIET) -p paceline-cli --features ebpf --test real -- telemetry; \
	else echo "skipped: test-ebpf: see above"; echo "0 passed, 0 failed, 1 skipped"; fi

test-java: ## tests of the Java library, which needs a JDK and Maven
	@scripts/setup build
	@scripts/setup java || true # which says why it is skipped
	@scripts/test-java

soak-alcc: ## gigabytes above TCP over each controller and mode, hashes compared: some minutes
	@scripts/setup build
	@$(CARGO) test $(QUIET) --locked -p paceline-alcc --test soak -- --ignored --nocapture --test-threads 1

soak-shim: build ## transfers with unmodified servers under the shim, compared, for SOAK=3600 seconds, JOBS=1 rounds at once (needs root)
	@scripts/setup soak
	@scripts/soak-shim --seconds $(SOAK) --jobs $(JOBS) $(if $(SEED),--seed $(SEED))

build-c: ## libalcc, libpaceline_cc and libpacelineicn, in target/release
	@scripts/setup build
	@$(CARGO) build $(QUIET) --release --locked -p paceline-alcc-c -p paceline-cc-c -p paceline-icn-c

install-c: ## what was built of libalcc, libpaceline_cc and libpacelineicn: headers, manual pages, pkg-config files, below PREFIX=/usr/local
	@scripts/install-c target/release "$(PREFIX)"

fmt: ## format the code
	@scripts/setup lint
	@$(CARGO) fmt --all
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml

lint: ## formatting and clippy, warnings are errors (FEATURES=ebpf: also of what needs clang to build)
	@scripts/setup lint
	@$(if $(kernel),,scripts/setup ebpf)
	@$(CARGO) fmt --all --check
	@$(CARGO) fmt --manifest-path fuzz/Cargo.toml --check
	@! command -v python3 >/dev/null || scripts/soak-shim --help >/dev/null
	@$(CARGO) clippy $(QUIET) --workspace $(kernel) --all-targets --features '$(addprefix paceline-cli/,quic-noq $(filter ebpf quic-s2n,$(features)))' --locked -- -D warnings

deny: ## licences, advisories and sources of the dependencies (needs cargo-deny)
	@scripts/setup deny
	@$(CARGO) deny --locked check
	@$(CARGO) deny --locked --manifest-path fuzz/Cargo.toml --config deny.toml check

bench: ## time: cost of an acknowledgement, packets per second, the emulator's accuracy
	@scripts/setup build
	@$(CARGO) bench --locked -p paceline-cc -p paceline-sim -p paceline-emulator

bench-emulators: build ## the emulator beside Rattan and Mahimahi, where these are installed (needs root and iperf3)
	@scripts/compare-emulators

bench-alcc: build ## processor time of a byte above TCP: nginx, vsftpd, iperf3 with and without the shim (needs root)
	@scripts/bench-alcc

bench-java: ## time of an acknowledgement in the Java library, by JMH (needs a JDK and Maven)
	@scripts/setup java
	@cd java && mvn --batch-mode --no-transfer-progress --quiet -Dstyle.color=never -Pbenchmark -DskipTests verify

bench-instructions: ## instructions of an acknowledgement and of a simulated packet (needs valgrind)
	@scripts/setup build
	@scripts/bench-instructions

bench-tables: ## measure again what docs/results/benchmarks.md says of the simulator and the controllers (needs valgrind and a quiet machine)
	@scripts/setup build
	@$(CARGO) bench $(QUIET) --locked -p paceline-sim --bench dumbbell | scripts/write-table docs/results/benchmarks.md 'packets per CPU second'
	@scripts/bench-instructions --write

fuzz: ## fuzz each parser for SECONDS=60, JOBS=1 at once; what was found is said at the end
	@scripts/setup fuzz
	@scripts/fuzz all $(SECONDS) $(JOBS)

docs: ## the API's documentation, warnings are errors
	@scripts/setup build
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc $(QUIET) --workspace --exclude paceline-kernel --exclude paceline-int --exclude paceline-store --no-deps --locked

site: build ## the documentation as a site, in target/site: guides, design, results, controllers by runs, API of Rust, C, Java, Python, races in the browser
	@scripts/setup site
	@scripts/site

validate: build ## every claim of docs/results/validation.md again: into out, or, with the traces that it was written with (TRACES=DIR), in its place
	@mkdir -p out
	@target/release/paceline validate $(if $(TRACES),--traces $(TRACES)) --out $(if $(TRACES),docs/results,out)/validation.md || [ $$? = 1 ]
	@echo "page: $(if $(TRACES),docs/results,out)/validation.md"

validate-real: build ## write docs/results/validation-real.md again: hours (RUNS=5, THREADS=1 runs at once, TRACES=DIR adds the real traces you have)
	@target/release/paceline validate --real --runs $(RUNS) --threads $(THREADS) $(if $(TRACES),--traces $(TRACES)) --out docs/results/validation-real.md || [ $$? = 1 ]

reproduce: build ## run the experiments of PAPER=paced-chirping again; page in out/reproduce
	@target/release/paceline reproduce $(PAPER) || [ $$? = 1 ]

clean: ## remove everything built or produced here
	@rm -rf target out java/target java/*/target fuzz/target fuzz/corpus fuzz/artifacts
