# supercargo's commands. `make demo` and `make test` install or build whatever else they need, from cargo and go alone.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
TOOLS := $(TARGET)/tools
CARGO_DENY_VERSION := 0.20.2
# For another machine: make release-binary TRIPLE=aarch64-unknown-linux-gnu, with that target and a linker installed.
TRIPLE ?= $(shell rustc -vV | sed -n 's/^host: //p')
# No library is loaded at run time, and no folder of the machine that builds is in the result: the same source gives the same bytes anywhere.
RELEASE_FLAGS := -C target-feature=+crt-static --remap-path-prefix=$(CURDIR)=/source --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(TARGET)=/target
# What comes out the same of several generics is there once. The linker that rustc brings for this triple can do so; others need not.
ifeq ($(TRIPLE),x86_64-unknown-linux-gnu)
RELEASE_FLAGS += -C link-arg=-Wl,--icf=all -C link-arg=-Wl,--strip-all
# Addresses to be moved at the start take a bit each in place of 24 bytes, all of which were read once and then kept. The C library's start knows them since 2.36.
ifeq ($(shell printf '2.36\n%s\n' "$$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" | sort -VC && echo yes),yes)
RELEASE_FLAGS += -C link-arg=-Wl,-z,pack-relative-relocs
endif
endif
SEED ?= 1
STEPS ?= 1000
SEEDS ?= 1
N ?= 20000

.PHONY: help
help: ## This list.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: demo
demo: upstream build ## Run the examples on a real control plane and tell where each pod went and why.
	cargo run --locked --quiet --example demo

.PHONY: test
test: ## Everything CI runs, with the seconds of each part.
	tests/all.sh

.PHONY: cluster
cluster: upstream build ## Start a control plane, four nodes and supercargo, and leave them running.
	cargo run --locked --quiet --example cluster -- up

.PHONY: cluster-down
cluster-down: ## Stop what `make cluster` started.
	cargo run --locked --quiet --example cluster -- down

.PHONY: upstream
upstream: ## Build the pinned control plane where it is missing.
	tests/upstream/build.sh

.PHONY: build
build: ## Build the program, with the features its tests use, so that nothing is built twice.
	cargo build --locked --quiet --bins --examples

.PHONY: man
man: ## Write the manual pages to target/dist/man.
	cargo run --locked --quiet --bin supercargo -- man --dir $(TARGET)/dist/man

.PHONY: release-binary
release-binary: ## Build the program as it is shipped, static; the Dockerfile runs the same command.
	RUSTFLAGS="$(RELEASE_FLAGS)" cargo build --locked --release --target $(TRIPLE) --bin supercargo
	install -D -m 755 $(TARGET)/$(TRIPLE)/release/supercargo $(TARGET)/dist/supercargo

.PHONY: reproducible
reproducible: release-binary ## Build the shipped program once more, from a copy in another folder, and compare: the same source gives the same bytes.
	tests/release/reproducible.sh $(TRIPLE)

.PHONY: sbom
sbom: ## List what the program is built from, as CycloneDX has it.
	mkdir -p $(TARGET)/dist
	tests/release/sbom.sh $(TRIPLE) > $(TARGET)/dist/supercargo.cdx.json

.PHONY: lint
lint: $(TOOLS)/bin/cargo-deny ## Formatting, lints, docs, licences and the fences between modules.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	cargo clippy --locked -p supercargo-core -p supercargo-sim --features mutations --all-targets --quiet -- -D warnings
	cargo clippy --locked -p supercargo --features otlp --lib --bins --test otlp --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet
	$(TOOLS)/bin/cargo-deny --log-level error check bans licenses sources
	tests/fences.sh

.PHONY: audit
audit: $(TOOLS)/bin/cargo-deny ## Known vulnerabilities of dependencies; needs the internet.
	$(TOOLS)/bin/cargo-deny check advisories

$(TOOLS)/bin/cargo-deny:
	cargo install --locked --quiet --root $(TOOLS) --version $(CARGO_DENY_VERSION) cargo-deny
	touch $@

.PHONY: packaging
packaging: ## Build the pinned helm where it is missing.
	tests/packaging/build.sh helm

.PHONY: rules
rules: ## Check Prometheus' rules and show that every alert fires, and stays silent where it is nearly true. Builds promtool first.
	tests/packaging/build.sh promtool
	$(TARGET)/packaging/bin/promtool check rules dashboards/rules.yaml
	$(TARGET)/packaging/bin/promtool test rules dashboards/rules-test.yaml

.PHONY: golden
golden: oracle ## Ask the real kube-scheduler again about the recorded scenarios, and compare our decisions with its answers.
	$(TARGET)/upstream/bin/oracle renew tests/golden/*.jsonl tests/golden/*.jsonl.gz
	for workload in basic soft-anti hard-anti zone-affinity spread soft-spread node-affinity; do \
	  $(TARGET)/upstream/bin/oracle time --print --workload $$workload --nodes 3 --existing 2 --pods 2 --signatures 3; \
	done > tests/fixtures/bench-objects.jsonl
	cargo test --locked --quiet --test golden -- --nocapture

.PHONY: fields
fields: ## Write the table of the fields that Kubernetes' kinds have anew, from upstream's OpenAPI document.
	WRITE_FIELDS=1 cargo test --locked --quiet --test simulate the_table_of_fields

.PHONY: protobuf
protobuf: ## Write the objects of the vectors down as upstream's encoder writes them in protobuf, after vectors were added.
	cd tests/upstream && go run ./protobuf ../golden/*.jsonl ../golden/*.jsonl.gz | gzip -9n > ../fixtures/protobuf.jsonl.gz.part
	mv tests/fixtures/protobuf.jsonl.gz.part tests/fixtures/protobuf.jsonl.gz

.PHONY: golden-coverage
golden-coverage: ## Which branches of upstream's plugins the recorded decisions meet, and why the others not: writes tests/golden/COVERAGE.md
	tests/upstream/build.sh oracle-coverage
	tests/upstream/coverage/run.sh

.PHONY: law-coverage
law-coverage: ## Which regions of the engine's cached paths the laws reach, and why the others not: writes crates/core/tests/coverage/COVERAGE.md
	crates/core/tests/coverage/run.sh

.PHONY: fuzz-golden
fuzz-golden: oracle ## Compare decisions on random clusters with the real kube-scheduler's: make fuzz-golden SEED=1 N=20000
	cargo run --locked --quiet --example fuzz -- --seed $(SEED) --decisions $(N)

.PHONY: oracle
oracle: ## Build the program that asks the real kube-scheduler.
	tests/upstream/build.sh oracle

.PHONY: sim
sim: ## Drive the engine through made-up clusters with faults: make sim SEED=1 STEPS=1000 SEEDS=100000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --steps $(STEPS) --seeds $(SEEDS)

.PHONY: mutations
mutations: ## Show that the simulation and the museum notice mistakes of the engine, one after the other.
	cargo test --locked --quiet -p supercargo-core --features mutations --test museum --test domains --test verification
	cargo test --locked --quiet -p supercargo-sim --features mutations --test mutations -- --nocapture 2>/dev/null

.PHONY: bench
bench: oracle ## Time decisions of the engine in process, beside the real kube-scheduler's: writes docs/benchmarks.md; QUICK=1 for a look, PART=beside, needs or alone for one, PART=profile for where the time goes (by perf).
	$(if $(filter profile,$(PART)),CARGO_PROFILE_BENCH_STRIP=none )cargo bench --locked --quiet --bench algorithm -- $(if $(filter profile,$(PART)),--profile,--compare) $(if $(QUICK),--quick) $(if $(filter-out profile,$(PART)),--part $(PART))

.PHONY: bench-e2e
bench-e2e: upstream ## Time the whole way of pods on a real API server, beside kube-scheduler and a null binder: writes docs/benchmarks.md; PART=ceiling larger bursts beside the null binder's, PART=asked with and without somebody who asks about pending pods, PART=start for a start among 50,000 pods; QUICK=1 for a look.
	cargo bench --locked --quiet --bench e2e -- $(if $(PART),--part $(PART)) $(if $(QUICK),--rounds 1 --nodes 500 $(if $(filter start,$(PART)),--existing 5000,--existing 500 --pods 300 --rate 50 --workload basic --workload spread),--write)

.PHONY: soak
soak: oracle ## What takes long: many simulated and random clusters, and the API server tests again and again.
	cargo run --locked --quiet --example fuzz -- --seed $(SEED) --decisions 200000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --seeds 100000 --steps 1000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --steps 500000 --timed
	for round in 1 2 3 4 5; do echo "round $$round" >&2; SUPERCARGO_RELABEL_SECONDS=120 cargo test --locked --quiet --test apiserver; done

.PHONY: release-check
release-check: release-binary sbom rules ## What a release must pass beside `make test` and `make reproducible`: the static binary on a real API server, a real Prometheus, the report in a browser, arm64.
	$(TARGET)/dist/supercargo --version
	cargo test --locked --quiet --test release -- --nocapture
	tests/packaging/build.sh prometheus
	cargo test --locked --quiet --test live -- --nocapture
	tests/release/chromium.sh
	cargo test --locked --quiet --test page
	tests/release/arm64.sh
