# supercargo's commands. `make demo` and `make test` build everything else they need, with cargo and go.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
TOOLS := $(TARGET)/tools
CARGO_DENY_VERSION := 0.20.2
CARGO_MUTANTS_VERSION := 27.1.0
CARGO_FUZZ_VERSION := 0.13.2
MDBOOK_VERSION := 0.5.4
TYPOS_VERSION := 1.52.0
# Cross-compilation: make release-binary TRIPLE=aarch64-unknown-linux-gnu, with that target and a linker installed.
TRIPLE ?= $(shell rustc -vV | sed -n 's/^host: //p')
# Static linking, and no path of the build machine in the binary: the same source gives the same bytes everywhere.
RELEASE_FLAGS := -C target-feature=+crt-static --remap-path-prefix=$(CURDIR)=/source --remap-path-prefix=$(or $(CARGO_HOME),$(HOME)/.cargo)=/cargo --remap-path-prefix=$(TARGET)=/target
# Merges identical code of generics. The linker that rustc ships for this triple supports it; others may not.
ifeq ($(TRIPLE),x86_64-unknown-linux-gnu)
RELEASE_FLAGS += -C link-arg=-Wl,--icf=all -C link-arg=-Wl,--strip-all
# Packs relocations: one bit each instead of 24 bytes that would stay in memory. glibc supports this since 2.36.
ifeq ($(shell printf '2.36\n%s\n' "$$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)" | sort -VC && echo yes),yes)
RELEASE_FLAGS += -C link-arg=-Wl,-z,pack-relative-relocs
endif
endif
# With the whole workspace, since on its own a package would build its dependencies again with other features.
AROUND := --workspace --exclude supercargo-core --exclude supercargo-sim
# Sets CHROMIUM and CHROMEDRIVER for the rest of a line, or ends it with what is missing.
WITH_BROWSER := found="$$(tests/release/chromium.sh)"; eval "$$found";
SEED ?= 1
STEPS ?= 1000
SEEDS ?= 1
N ?= 20000

.PHONY: help
help: ## Print this list.
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

.PHONY: demo
demo: ## Run the examples on a real control plane, and print where each pod went and why.
	tests/demo.sh demo
	$(TARGET)/demo/demo

.PHONY: test
test: ## Run everything CI runs, with the seconds of each part.
	tests/all.sh

.PHONY: cluster
cluster: ## Start a control plane, four nodes and supercargo, and leave them running.
	tests/demo.sh cluster
	$(TARGET)/demo/cluster up

.PHONY: cluster-down
cluster-down: ## Stop what `make cluster` started.
	cargo build --locked --quiet --profile demo --bin supercargo --bin cluster -p supercargo -p supercargo-dev
	$(TARGET)/demo/cluster down

.PHONY: upstream
upstream: ## Build the pinned control plane if it is missing.
	tests/upstream/build.sh

.PHONY: build
build: ## Build the program and the development programs together: apart, they would build their dependencies with other features.
	cargo build --locked --quiet --bins -p supercargo -p supercargo-dev

.PHONY: man
man: ## Write the manual pages to target/dist/man.
	cargo run --locked --quiet --bin supercargo -- man --dir $(TARGET)/dist/man

.PHONY: release-binary
release-binary: ## Build the static release binary, as the Dockerfile does.
	RUSTFLAGS="$(RELEASE_FLAGS)" cargo build --locked --release --target $(TRIPLE) --bin supercargo
	install -D -m 755 $(TARGET)/$(TRIPLE)/release/supercargo $(TARGET)/dist/supercargo

.PHONY: docs
docs: ## Build the documentation as a book in target/book, and check its links and its spelling. Builds mdBook first.
	tests/release/docs.sh

.PHONY: workflows
workflows: ## Check the workflows with actionlint, which is built first.
	tests/packaging/build.sh actionlint
	$(TARGET)/packaging/bin/actionlint

.PHONY: release-dry-run
release-dry-run: ## Make every artifact of a release in target/dist/release, and check each one. Publishes nothing.
	tests/release/dry-run.sh

.PHONY: reproducible
reproducible: release-binary ## Build the release binary again from a copy in another directory, and compare the bytes.
	tests/release/reproducible.sh $(TRIPLE)

.PHONY: sbom
sbom: ## Write the SBOM of the program in CycloneDX format.
	mkdir -p $(TARGET)/dist
	tests/release/sbom.sh $(TRIPLE) > $(TARGET)/dist/supercargo.cdx.json

.PHONY: lint
lint: $(TOOLS)/bin/cargo-deny ## Check formatting, lints, rustdoc, licenses and module boundaries.
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets --quiet -- -D warnings
	cargo clippy --locked -p supercargo-core -p supercargo-sim --features mutations --all-targets --quiet -- -D warnings
	cargo clippy --locked -p supercargo --features otlp,ablation --lib --bins --test otlp --bench algorithm --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --workspace --no-deps --quiet
	$(TOOLS)/bin/cargo-deny --log-level error check bans licenses sources
	tests/fences.sh

.PHONY: audit
audit: $(TOOLS)/bin/cargo-deny ## Check dependencies against published advisories; needs the internet.
	$(TOOLS)/bin/cargo-deny check advisories

# Without optimization: its build takes longer than all its checks.
$(TOOLS)/bin/cargo-deny:
	CARGO_PROFILE_DEV_DEBUG=0 cargo install --debug --locked --quiet --root $(TOOLS) --version $(CARGO_DENY_VERSION) cargo-deny
	touch $@

.PHONY: packaging
packaging: ## Build the pinned helm if it is missing.
	tests/packaging/build.sh helm

.PHONY: rules
rules: ## Check the Prometheus rules, and test that every alert fires and stays silent in a near miss. Builds promtool first.
	tests/packaging/build.sh promtool
	$(TARGET)/packaging/bin/promtool check rules dashboards/rules.yaml
	$(TARGET)/packaging/bin/promtool test rules dashboards/rules-test.yaml

.PHONY: golden
golden: oracle ## Record the real kube-scheduler's answers to all scenarios again, and compare supercargo's decisions with them.
	$(TARGET)/upstream/bin/oracle renew tests/golden/*.jsonl tests/golden/*.jsonl.gz
	for workload in basic soft-anti hard-anti zone-affinity spread soft-spread node-affinity; do \
	  $(TARGET)/upstream/bin/oracle time --print --workload $$workload --nodes 3 --existing 2 --pods 2 --signatures 3; \
	done > tests/fixtures/bench-objects.jsonl
	cargo test --locked --quiet --test golden -- --nocapture

.PHONY: golden-versions
golden-versions: ## Record the answers of the other versions of kube-scheduler to the same scenarios, and compare. Builds a program per version.
	for version in 1.34 1.35 1.37; do \
	  tests/upstream/build.sh --version $$version oracle && \
	  $(TARGET)/upstream/$$version/bin/oracle record tests/golden/versions/$$version.jsonl.gz \
	    $(filter-out %/dra.jsonl.gz,$(wildcard tests/golden/*.jsonl) $(wildcard tests/golden/*.jsonl.gz)) && \
	  $(TARGET)/upstream/$$version/bin/oracle orders 32 tests/golden/versions/dra-$$version.jsonl.gz tests/golden/dra.jsonl.gz || exit 1; \
	done
	cargo test --locked --quiet --test golden versions -- --nocapture

.PHONY: golden-groups
golden-groups: oracle ## Play the scenarios of pod groups again with kube-scheduler 1.36 and 1.37, and compare. Builds a program per version.
	tests/upstream/build.sh --version 1.37 oracle
	$(TARGET)/upstream/bin/oracle groups tests/golden/groups/groups.jsonl.gz
	$(TARGET)/upstream/1.37/bin/oracle groups tests/golden/groups/1.37.jsonl.gz
	cargo test --locked --quiet --test golden groups -- --nocapture

.PHONY: new-version
new-version: ## Pin another version of kube-scheduler, build its oracle, and list the clusters on which it differs: make new-version VERSION=1.38.0
	tests/upstream/new-version.sh $(VERSION)

.PHONY: fields
fields: ## Regenerate the table of fields of Kubernetes kinds from upstream's OpenAPI document.
	WRITE_FIELDS=1 cargo test --locked --quiet --test simulate the_table_of_fields

.PHONY: protobuf
protobuf: ## Encode the objects of the golden vectors in protobuf with upstream's encoder, after vectors were added.
	cd tests/upstream && go run ./protobuf ../golden/*.jsonl ../golden/*.jsonl.gz | gzip -9n > ../fixtures/protobuf.jsonl.gz.part
	mv tests/fixtures/protobuf.jsonl.gz.part tests/fixtures/protobuf.jsonl.gz

.PHONY: golden-coverage
golden-coverage: ## Measure which branches of upstream's plugins the golden vectors reach, and why not the others: writes tests/golden/COVERAGE.md
	tests/upstream/build.sh oracle-coverage
	tests/upstream/coverage/run.sh

.PHONY: law-coverage
law-coverage: ## Measure which regions of the engine's cached paths the laws reach, and why not the others: writes crates/core/tests/coverage/COVERAGE.md
	crates/core/tests/coverage/run.sh

.PHONY: fuzz-golden
fuzz-golden: ## Compare decisions on random clusters with the real kube-scheduler's: make fuzz-golden SEED=1 N=20000 VERSION=1.37
	tests/upstream/build.sh $(if $(filter-out 1.36,$(VERSION)),--version $(VERSION) )oracle
	cargo run --locked --quiet -p supercargo-dev --bin fuzz -- --seed $(SEED) --decisions $(N) $(if $(VERSION),--emulated-version $(VERSION))

.PHONY: oracle
oracle: ## Build the program that runs the real kube-scheduler's framework on scenarios.
	tests/upstream/build.sh oracle

.PHONY: sim
sim: ## Simulate the engine in generated clusters with faults: make sim SEED=1 STEPS=1000 SEEDS=100000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --steps $(STEPS) --seeds $(SEEDS)

.PHONY: mutations
mutations: ## Switch on deliberate mistakes of the engine one by one, and test that the simulation and the fixed tests detect each.
	cargo test --locked --quiet -p supercargo-core --features mutations --test regressions --test domains --test verification
	cargo test --locked --quiet -p supercargo-sim --features mutations --test mutations -- --nocapture 2>/dev/null

.PHONY: mutants
mutants: $(TOOLS)/bin/cargo-mutants ## Test whether the engine's tests notice small mistakes, and write docs/mutants.md; continues where it stopped. ARGS='--minutes 30 --again'
	cargo run --locked --quiet -p supercargo-dev --bin mutants -- $(ARGS)

$(TOOLS)/bin/cargo-mutants:
	cargo install --locked --quiet --root $(TOOLS) --version $(CARGO_MUTANTS_VERSION) cargo-mutants
	touch $@

.PHONY: bench
bench: oracle ## Time decisions in process beside the real kube-scheduler's: writes docs/benchmarks.md. QUICK=1 only prints; PART=beside, needs, devices or alone runs one part; PART=profile uses perf; PART=ablation measures without each layer of the cached path.
	$(if $(filter profile,$(PART)),CARGO_PROFILE_BENCH_STRIP=none )cargo bench --locked --quiet $(if $(filter ablation,$(PART)),--features ablation )--bench algorithm -- $(if $(filter profile ablation,$(PART)),--$(PART),--compare) $(if $(QUICK),--quick) $(if $(filter-out profile ablation,$(PART)),--part $(PART))

.PHONY: bench-e2e
bench-e2e: upstream ## Time pods from creation to binding on a real API server, beside kube-scheduler and a no-op binder: writes docs/benchmarks.md. PART=ceiling: larger bursts; PART=claims: pods with a ResourceClaim each; PART=group: a gang of 1,000 members that waits for room; PART=asked: with queries about pending pods; PART=start: startup with 50,000 pods; QUICK=1 only prints.
	cargo bench --locked --quiet --bench e2e -- $(if $(PART),--part $(PART)) $(if $(QUICK),--rounds 1 --nodes 500 $(if $(filter start,$(PART)),--existing 5000,--existing $(if $(filter claims group,$(PART)),0 --pods 300,500 --pods 300 --rate 50 --workload basic --workload spread)),--write)

.PHONY: conformance
conformance: upstream build ## Run Kubernetes' own e2e tests of the scheduler with kube-scheduler and with supercargo: writes docs/conformance.md. VERSION=1.37 runs one version.
	for version in $(or $(VERSION),1.35 1.36 1.37); do \
	  tests/upstream/build.sh $$([ $$version = 1.36 ] || echo --version $$version) kube-apiserver kube-controller-manager kube-scheduler e2e.test && \
	  $(TARGET)/debug/conformance --version $$version || exit 1; \
	done

.PHONY: fuzz-targets
fuzz-targets: ## Fuzz what reads input from outside, each target for SECONDS_EACH (60); needs a nightly toolchain. TARGETS="cel json" runs these.
	tests/release/fuzz.sh $(or $(SECONDS_EACH),60) $(TARGETS)

.PHONY: soak
soak: oracle ## Run long tests: many simulated and random clusters, and repeated API server tests.
	cargo run --locked --quiet -p supercargo-dev --bin fuzz -- --seed $(SEED) --decisions 200000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --seeds 100000 --steps 1000
	cargo run --locked --quiet --release -p supercargo-sim -- --seed $(SEED) --steps 500000 --timed
	for round in 1 2 3 4 5; do echo "round $$round" >&2; SUPERCARGO_RELABEL_SECONDS=120 cargo test --locked --quiet --test apiserver; done

.PHONY: matrix
matrix: ## Compare with every version of Kubernetes: recorded clusters, random decisions, API server tests. Writes docs/support.md.
	tests/release/matrix.sh

.PHONY: page
page: ## Build the page with the engine, one file: target/page/index.html. Installs Rust's target wasm32-unknown-unknown if it is missing.
	cargo build --locked --quiet $(AROUND) --example build-page
	module="$$(crates/web/wasm.sh)"; $(TARGET)/debug/examples/build-page "$$module" $(TARGET)/page

# The browser comes first: without it, the minutes of building would be wasted.
.PHONY: page-check
page-check: ## Build the page, and test it in a headless Chromium and its WebAssembly module on all golden vectors. Installs Chromium on Debian.
	tests/release/chromium.sh >/dev/null
	$(MAKE) --no-print-directory page
	$(WITH_BROWSER) cargo test --locked --quiet $(AROUND) --test browser -- --nocapture --test-threads 1
	SUPERCARGO_WASM=$(TARGET)/wasm32-unknown-unknown/wasm/supercargo_web.wasm cargo test --locked --quiet $(AROUND) --test wasm -- --nocapture

.PHONY: screenshots
screenshots: page ## Take the pictures in docs/screenshots again, after the report or the page changed. Needs Chromium, and installs it on Debian.
	$(WITH_BROWSER) SCREENSHOTS=1 cargo test --locked --quiet --test page
	$(WITH_BROWSER) SCREENSHOTS=1 cargo test --locked --quiet $(AROUND) --test browser -- narrow_and_dark screen_reader group_waits

.PHONY: release-check
release-check: release-binary sbom rules ## Check a release, in addition to `make test` and `make reproducible`: the static binary on a real API server, other versions of Kubernetes, upgrades, a real Prometheus, the report in a browser, arm64.
	$(TARGET)/dist/supercargo --version
	cargo test --locked --quiet --test release -- --nocapture
	tests/release/matrix.sh
	tests/release/previous.sh
	cargo test --locked --quiet --test upgrade -- --nocapture
	tests/packaging/build.sh prometheus
	cargo test --locked --quiet --test live -- --nocapture
	$(WITH_BROWSER) cargo test --locked --quiet --test page
	$(MAKE) --no-print-directory page-check
	tests/release/arm64.sh
