# Everything that is done with this repository. `make help` lists it.
#
# Needs Rust (stable), a C compiler, and for the tests Node 20, Python 3.9, curl, chromium, systemd-analyze, unshare and faketime: `.ci/tools` looks for them.
# cargo-nextest is used where it is installed.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# `make run PROFILE=dev` builds faster and runs slower.
PROFILE ?= release
# Flags for the daemon: `make run ARGS="--listen 127.0.0.1:0"`.
ARGS ?=

CARGO := cargo
WEB_TEST := web-test
WEB_TEST_READY := $(WEB_TEST)/node_modules/.package-lock.json

.PHONY: help run test test-node test-rust chaos lint deny fmt clean openapi tools
# The parts share the build directory and the machine.
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: ## Build and start the daemon in this terminal
	@$(CARGO) run --profile $(PROFILE) --locked --bin trunkline -- serve $(ARGS)

test: tools lint test-node test-rust ## Install what the tests need, then run everything

lint: ## Check format, lints and documentation
	$(CARGO) fmt --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items

test-node: tools $(WEB_TEST_READY)
	node tests/programs/selftest.mjs all
	node $(WEB_TEST)/options.mjs --check

# Nextest gives every test a process of its own and ends one that hangs; plain `cargo test` runs the same tests.
test-rust: tools $(WEB_TEST_READY)
	$(CARGO) build --locked --bin trunkline
	$(CARGO) test --locked --doc
	@if $(CARGO) nextest --version >/dev/null 2>&1; then \
		set -x; $(CARGO) nextest run --locked $${CI:+--profile ci}; \
	else \
		set -x; $(CARGO) test --locked --lib --bins --tests; \
	fi

# `make chaos SECONDS=3600`, `make chaos KILLS=1000`, `make chaos SEED=7`: docs/RELIABILITY.md.
chaos: tools $(WEB_TEST_READY) ## Have everything fail at random for two minutes, or longer: SECONDS, KILLS, SEED
	$(CARGO) build --locked --bin trunkline
	$(if $(SEED),TRUNKLINE_CHAOS_SEED=$(SEED)) $(if $(SECONDS),TRUNKLINE_CHAOS_SECONDS=$(SECONDS)) \
		$(if $(KILLS),TRUNKLINE_CHAOS_KILLS=$(KILLS)) $(CARGO) test --locked --test chaos -- --nocapture

# The real CLI comes with the official SDK, pinned by the lock file.
$(WEB_TEST_READY): $(WEB_TEST)/package-lock.json
	cd $(WEB_TEST) && npm ci --no-audit --no-fund
	@touch $@

tools:
	@sh .ci/tools

deny: ## Check licences and advisories of the dependencies (needs cargo-deny and a network)
	$(CARGO) deny --locked check

fmt: ## Format the code
	$(CARGO) fmt

openapi: ## Write the OpenAPI document again
	@$(CARGO) run --locked --bin trunkline -- openapi > openapi/trunkline.json.new
	@mv openapi/trunkline.json.new openapi/trunkline.json

clean: ## Remove everything that was built or installed
	$(CARGO) clean
	rm -rf $(WEB_TEST)/node_modules
