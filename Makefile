# Everything that is done with this repository. `make help` lists it.
#
# Needs Rust (stable), a C compiler, Node 20 for the console, and for the tests Python 3.10, curl, chromium, systemd-analyze, unshare and faketime: `.ci/tools` looks for them.
# `make package` also needs cargo-deb.
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
TYPESCRIPT := clients/typescript
WEB := web
WEB_READY := $(WEB)/node_modules/.package-lock.json
# The file of the console that its build writes last.
CONSOLE := $(WEB)/dist/index.html

# Where `make install` puts things: the names and the defaults are GNU's. `PROGRAM` is the program that it installs.
PREFIX ?= /usr/local
exec_prefix ?= $(PREFIX)
bindir ?= $(exec_prefix)/bin
datarootdir ?= $(PREFIX)/share
mandir ?= $(datarootdir)/man
bashcompletiondir ?= $(datarootdir)/bash-completion/completions
zshcompletiondir ?= $(datarootdir)/zsh/site-functions
fishcompletiondir ?= $(datarootdir)/fish/vendor_completions.d
# systemd looks here below /usr, /usr/local and ~/.local.
userunitdir ?= $(datarootdir)/systemd/user
INSTALL ?= install
STRIP ?= strip
PROGRAM ?= target/release/trunkline

.PHONY: help bench run build console web install uninstall stage package test ready built test-node test-rust test-console clients chaos fuzz lint format documented deny fmt clean openapi contract tools
# The parts share the build directory and the machine.
.NOTPARALLEL:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: console ## Build and start the daemon in this terminal
	@$(CARGO) run --profile $(PROFILE) --locked --bin trunkline -- serve $(ARGS)

build: console ## Build the program for `make install`
	$(CARGO) build --release --locked --bin trunkline

# The program has what is in web/dist when it is compiled. Without Node it gets no console, and says so at `/`.
HAS_NODE := command -v npm >/dev/null 2>&1 && node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2>/dev/null
console:
	@if $(HAS_NODE); then \
		$(MAKE) --no-print-directory web; \
	elif [ ! -e $(CONSOLE) ]; then \
		echo "there is no Node 20 with npm: the program is built without its console"; \
	fi

web: $(CONSOLE) ## Build the console, which `make run` and `make build` put into the program
	@:

$(WEB_READY): $(WEB)/package-lock.json
	cd $(WEB) && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

# It uses the client for TypeScript, whose types come from the contract.
$(CONSOLE): $(WEB_READY) openapi/trunkline.json $(filter-out %/api.ts,$(wildcard $(TYPESCRIPT)/src/*.ts)) \
		$(shell find $(WEB) -name node_modules -prune -o -name dist -prune -o -type f -print 2>/dev/null)
	@$(HAS_NODE) || { echo "the console is built by Node 20 or newer, with npm" >&2; exit 1; }
	cd $(WEB) && npm run build
	@touch $@

# It compiles nothing, so that `sudo make install` needs no Rust.
install: ## Install what `make build` built: PREFIX (/usr/local), DESTDIR
	@test -x '$(PROGRAM)' || { echo "$(PROGRAM) is not there: run \`make build\` first" >&2; exit 1; }
	@set -eu; \
	umask 022; \
	for dir in '$(bindir)' '$(mandir)/man1' '$(userunitdir)' '$(bashcompletiondir)' '$(zshcompletiondir)' '$(fishcompletiondir)'; do \
		$(INSTALL) -d "$(DESTDIR)$$dir"; \
	done; \
	$(INSTALL) -m 755 '$(PROGRAM)' '$(DESTDIR)$(bindir)/trunkline.new'; \
	$(STRIP) '$(DESTDIR)$(bindir)/trunkline.new'; \
	mv -f '$(DESTDIR)$(bindir)/trunkline.new' '$(DESTDIR)$(bindir)/trunkline'; \
	'$(DESTDIR)$(bindir)/trunkline' man --dir '$(DESTDIR)$(mandir)/man1'; \
	'$(DESTDIR)$(bindir)/trunkline' completions bash > '$(DESTDIR)$(bashcompletiondir)/trunkline'; \
	'$(DESTDIR)$(bindir)/trunkline' completions zsh > '$(DESTDIR)$(zshcompletiondir)/_trunkline'; \
	'$(DESTDIR)$(bindir)/trunkline' completions fish > '$(DESTDIR)$(fishcompletiondir)/trunkline.fish'; \
	$(INSTALL) -m 644 packaging/systemd/user/trunkline.socket '$(DESTDIR)$(userunitdir)'; \
	sed 's|^ExecStart=%h/.cargo/bin/|ExecStart=$(bindir)/|' packaging/systemd/user/trunkline.service \
		> '$(DESTDIR)$(userunitdir)/trunkline.service'; \
	echo "installed $$('$(DESTDIR)$(bindir)/trunkline' version) as $(DESTDIR)$(bindir)/trunkline"

uninstall: ## Remove what `make install` installed; sessions and settings stay
	rm -f '$(DESTDIR)$(bindir)/trunkline' \
		'$(DESTDIR)$(mandir)/man1/trunkline.1' '$(DESTDIR)$(mandir)/man1/trunkline-'*.1 \
		'$(DESTDIR)$(bashcompletiondir)/trunkline' '$(DESTDIR)$(zshcompletiondir)/_trunkline' \
		'$(DESTDIR)$(fishcompletiondir)/trunkline.fish' \
		'$(DESTDIR)$(userunitdir)/trunkline.service' '$(DESTDIR)$(userunitdir)/trunkline.socket'

# Whose package it is: `make package MAINTAINER="Name <address>"`, or as Debian's own tools are told it.
MAINTAINER ?= $(if $(DEBEMAIL),$(or $(DEBFULLNAME),$(DEBEMAIL)) <$(DEBEMAIL)>,The Trunkline authors <trunkline@localhost>)

# The files of the Debian package, which Cargo.toml lists.
STAGE := target/debian-root
stage:
	@# A package has the console: its script is known by name.
	@script=$$(sed -n 's|.* src="/\(assets/[^"]*\)".*|\1|p' $(CONSOLE)); \
	test -n "$$script" && grep -qaF "$$script" '$(PROGRAM)' || \
		{ echo "$(PROGRAM) has no console of today: run \`make web build\` first" >&2; exit 1; }
	rm -rf $(STAGE)
	@$(MAKE) --no-print-directory install DESTDIR='$(abspath $(STAGE))' PREFIX=/usr PROGRAM='$(PROGRAM)' \
		zshcompletiondir=/usr/share/zsh/vendor-completions userunitdir=/usr/lib/systemd/user
	gzip -9n $(STAGE)/usr/share/man/man1/*.1
	$(INSTALL) -d $(STAGE)/usr/share/doc/trunkline
	sh packaging/debian-changelog "$$(sed -n 's/^version = "\(.*\)"/\1-1/p' Cargo.toml)" '$(MAINTAINER)' | gzip -9n \
		> $(STAGE)/usr/share/doc/trunkline/changelog.Debian.gz
	$(INSTALL) -d $(STAGE)/usr/lib/systemd/system
	for unit in packaging/systemd/system/*; do \
		sed 's|^ExecStart=/usr/local/bin/|ExecStart=/usr/bin/|' "$$unit" > "$(STAGE)/usr/lib/systemd/system/$${unit##*/}"; \
	done

# Where there is no registry: STANDIN=1, which packaging/image explains.
package: web build stage ## Build the Debian package, and the image where docker or buildah is
	rm -f target/debian/trunkline_*.deb
	$(CARGO) deb --locked --no-build --no-strip --maintainer '$(MAINTAINER)'
	sh packaging/check-deb target/debian/trunkline_*.deb $(STAGE)
	PROGRAM='$(STAGE)/usr/bin/trunkline' sh packaging/image
	sh packaging/check-compose

# The compiler is busy with one crate for most of its time: meanwhile the other core makes ready what is no Rust, and checks it.
# The console is built before, as the program has it.
test: tools web ## Install what the tests need, then run everything
	@mkdir -p target; \
	$(MAKE) --no-print-directory ready test-node > target/ready.log 2>&1 & ready=$$!; \
	failed=0; $(MAKE) --no-print-directory format documented built || failed=1; \
	wait $$ready || failed=1; cat target/ready.log; exit $$failed
	@$(MAKE) --no-print-directory test-rust test-console

lint: format documented ## Check format, lints and documentation
	$(CARGO) clippy --locked --all-targets -- -D warnings

format:
	$(CARGO) fmt --check

documented:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items

test-node: tools $(WEB_TEST_READY) $(WEB_READY)
	cd $(WEB) && npm test
	node tests/programs/selftest.mjs all
	node $(WEB_TEST)/options.mjs --check
	node $(WEB_TEST)/same-stream.mjs --check
	cd $(WEB_TEST) && REDOCLY_TELEMETRY=off npm exec --no -- redocly lint ../openapi/trunkline.json --config redocly.yaml
	cd $(WEB_TEST) && npm exec --no -- spectral lint ../openapi/trunkline.json --ruleset spectral.yaml --fail-severity warn
	cd $(WEB_TEST) && npm exec --no -- spectral lint ../openapi/asyncapi.yaml --ruleset spectral-asyncapi.yaml --fail-severity warn

# The clients, as the tests use them: packed, and installed where nothing else is. Their generators come by the lock files.
PYTHON_CLIENT := clients/python
CLIENTS := target/clients
clients: ## Build, pack and install the clients for TypeScript and Python
	@# At the same time: each of the two is busy with one thing at a time.
	@set -eu; $(MAKE) --no-print-directory $(CLIENTS)/typescript/.ready & other=$$!; \
	failed=0; $(MAKE) --no-print-directory $(CLIENTS)/python/.ready || failed=1; \
	wait $$other; exit $$failed

$(TYPESCRIPT)/node_modules/.package-lock.json: $(TYPESCRIPT)/package-lock.json
	cd $(TYPESCRIPT) && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

$(CLIENTS)/typescript/.ready: openapi/trunkline.json $(TYPESCRIPT)/node_modules/.package-lock.json \
		$(filter-out %/api.ts,$(wildcard $(TYPESCRIPT)/*.json $(TYPESCRIPT)/*.md $(TYPESCRIPT)/*/*.ts $(TYPESCRIPT)/*/*.mjs))
	rm -rf $(@D)
	mkdir -p $(@D)
	cd $(TYPESCRIPT) && npm pack --silent --pack-destination '$(CURDIR)/$(@D)'
	cd $(@D) && echo '{"private": true}' > package.json && npm install --silent --no-audit --no-fund --ignore-scripts ./*.tgz
	cp $(TYPESCRIPT)/test/*.mjs $(@D)
	awk '/^```ts$$/ {on = 1; next} /^```$$/ && on {exit} on' $(TYPESCRIPT)/README.md > $(@D)/first.mjs
	cd $(@D) && '$(CURDIR)/$(TYPESCRIPT)/node_modules/.bin/tsc' --noEmit --checkJs --strict --module nodenext --target es2022 \
		--skipLibCheck --typeRoots '$(CURDIR)/$(TYPESCRIPT)/node_modules/@types' --types node first.mjs story.mjs follow.mjs
	cd $(@D) && node --test history.mjs >history.log || { cat history.log; exit 1; }
	@touch $@

$(CLIENTS)/tools/.ready: $(PYTHON_CLIENT)/tests.lock
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-compile --require-hashes --requirement $<
	@# The same versions, for an archive that has no hash here.
	sed -n 's/^\([a-z].*\) \\$$/\1/p' $< > $(@D)/versions.txt
	@touch $@

$(CLIENTS)/python/.ready: openapi/trunkline.json $(CLIENTS)/tools/.ready $(PYTHON_CLIENT)/pyproject.toml \
		$(filter-out %/rest.py,$(wildcard $(PYTHON_CLIENT)/*.md $(PYTHON_CLIENT)/*.py $(PYTHON_CLIENT)/*/*.py $(PYTHON_CLIENT)/src/*/*.py))
	rm -rf $(@D) $(CLIENTS)/dist
	$(CLIENTS)/tools/bin/python -m build --no-isolation --outdir $(CLIENTS)/dist $(PYTHON_CLIENT)
	@# Without a pip of its own, which takes longer to install than all else.
	python3 -m venv --without-pip $(@D)
	$(CLIENTS)/tools/bin/pip install --quiet --disable-pip-version-check --ignore-installed --prefix $(@D) \
		--constraint $(CLIENTS)/tools/versions.txt $(CLIENTS)/dist/*.whl
	awk '/^```python$$/ {on = 1; next} /^```$$/ && on {exit} on' $(PYTHON_CLIENT)/README.md > $(@D)/first.py
	MYPYPATH=$(PYTHON_CLIENT)/src $(CLIENTS)/tools/bin/python -m mypy --config-file $(PYTHON_CLIENT)/pyproject.toml \
		--cache-dir $(CLIENTS)/mypy $(PYTHON_CLIENT)/src $(PYTHON_CLIENT)/tests $(@D)/first.py
	for it in backlog history; do $(@D)/bin/python $(PYTHON_CLIENT)/tests/test_$$it.py --quiet || exit 1; done
	@touch $@

# The interpreter itself, ahead of a shim of it on PATH: pyenv's takes longer to start than the fake CLI.
PYTHON := target/python/python3
WITH_PYTHON := PATH="$(CURDIR)/target/python:$$PATH"
$(PYTHON): tools
	@mkdir -p $(@D)
	@ln -sf "$$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')" $@

# The official Python SDK. The TypeScript one comes with the other packages of the tests.
PYTHON_SDK := target/sdk-venv/.ready
$(PYTHON_SDK): $(WEB_TEST)/requirements.txt | tools
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@touch $@

# Schemathesis, which tries the API.
SCHEMATHESIS := target/schemathesis/.ready
$(SCHEMATHESIS): $(WEB_TEST)/schemathesis.txt | tools
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install --quiet --disable-pip-version-check --no-deps --requirement $<
	@touch $@

# All that the tests in Rust need.
ready: $(WEB_TEST_READY) $(PYTHON) $(PYTHON_SDK) $(SCHEMATHESIS) clients

# Clippy is the compiler with more lints. `make test` builds with it, so that one build both checks and makes all that is tested;
# another than that of `make lint` would compile everything twice.
LINTED := RUSTC_WORKSPACE_WRAPPER='$(CURDIR)/.ci/clippy'

# Build the tests for nextest as plain `cargo test` builds them, and the benchmarks.
built:
	$(LINTED) $(CARGO) test --locked --lib --tests --benches --no-run
	$(LINTED) $(CARGO) test --locked --doc

# Nextest gives every test a process of its own and ends one that hangs; plain `cargo test` runs the same tests. Either builds the
# program, with the features that the tests share with it: a build of the program by itself would compile most of it twice.
test-rust: tools ready
	@export $(WITH_PYTHON) $(LINTED); if $(CARGO) nextest --version >/dev/null 2>&1; then \
		set -x; $(CARGO) nextest run --locked $${CI:+--profile ci}; \
	else \
		set -x; $(CARGO) test --locked --lib --tests; \
	fi

# The console in a real browser, served by the program that the tests in Rust were built with.
test-console: tools $(WEB_TEST_READY)
	node $(WEB_TEST)/console/run.mjs

# `make chaos SECONDS=3600`, `make chaos KILLS=1000`, `make chaos SEED=7`: docs/RELIABILITY.md.
chaos: tools $(WEB_TEST_READY) $(PYTHON) ## Have everything fail at random for a minute, or longer: SECONDS, KILLS, SEED
	$(WITH_PYTHON) $(if $(SEED),TRUNKLINE_CHAOS_SEED=$(SEED)) $(if $(SECONDS),TRUNKLINE_CHAOS_SECONDS=$(SECONDS)) \
		$(if $(KILLS),TRUNKLINE_CHAOS_KILLS=$(KILLS)) $(CARGO) test --locked --test chaos -- --nocapture

# The figures of docs/PERFORMANCE.md, each beside its baseline. A quiet machine gives better ones.
bench: build tools $(WEB_TEST_READY) ## Measure speed and memory: daemon, journal, and the console in Chromium
	python3 bench/figures.py
	python3 bench/many.py
	python3 bench/recovery.py
	python3 bench/rebuild.py
	python3 bench/upgrade.py
	python3 bench/stand_in.py
	$(CARGO) bench --locked --bench journal
	node bench/console.mjs

# Ten minutes, `make fuzz SECONDS=60`, `make fuzz SEED=7`.
fuzz: tools $(SCHEMATHESIS) $(PYTHON) ## Try the API with requests that are made up at random: SECONDS, SEED
	$(WITH_PYTHON) TRUNKLINE_FUZZ_SECONDS=$(or $(SECONDS),600) $(if $(SEED),TRUNKLINE_FUZZ_SEED=$(SEED)) \
		$(CARGO) test --locked --test it schemathesis_finds_no_fault -- --nocapture

# The real CLI comes with the official SDK, pinned by the lock file.
$(WEB_TEST_READY): $(WEB_TEST)/package-lock.json
	@# A script of a package would tell its maker of the installation; none is needed.
	cd $(WEB_TEST) && npm ci --no-audit --no-fund --ignore-scripts
	@touch $@

tools:
	@sh .ci/tools

deny: ## Check licences and advisories of the dependencies (needs cargo-deny and a network)
	$(CARGO) deny --locked check

fmt: ## Format the code
	$(CARGO) fmt

openapi: ## Write the OpenAPI and the AsyncAPI document again
	@$(CARGO) run --locked --bin trunkline -- openapi > openapi/trunkline.json.new
	@mv openapi/trunkline.json.new openapi/trunkline.json
	@$(CARGO) run --locked --bin trunkline -- asyncapi > openapi/asyncapi.yaml.new
	@mv openapi/asyncapi.yaml.new openapi/asyncapi.yaml

contract: ## Cut the contract of a release: clients can rely on what it has from then on
	CUT_CONTRACT=1 $(CARGO) test --locked --test it clients_of_the_last_release_still_work

clean: ## Remove everything that was built or installed
	$(CARGO) clean
	rm -rf $(WEB)/node_modules $(WEB)/dist $(WEB_TEST)/node_modules $(TYPESCRIPT)/node_modules $(TYPESCRIPT)/dist
