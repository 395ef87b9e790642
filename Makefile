# make        build the release binary, target/release/perftax
# make plan   build it and plan a real program: bzip2 over a file that is made for it
# make test   set the machine up, check style, run every test
# make help   the other targets
SHELL = /bin/sh
.DEFAULT_GOAL = build
.PHONY: build plan test setup tree lint machine kmod unit test-bindings acceptance bench site dist image install clean help

CARGO ?= cargo
BUDGET ?= 1%
PREFIX ?= /usr/local
# The driver's own way to be told what `cargo clippy -- -D warnings` tells it.
LINTED = env RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings

build:
	PERFTAX_PLUGIN_BESIDE=1 $(CARGO) build --release --locked -p perftax -p perftax-engine-c
	$(CARGO) build --release --locked -p perftax-sim-plugin

plan: build
	scripts/plan-demo $(BUDGET)

test: setup tree machine kmod unit

setup:
	scripts/stage setup scripts/setup

# All that tests need, compiled once: they, the program, the simulator's plugin, the emulated machine's engine. Clippy is the compiler here, as it is
# for `cargo clippy`, which would have every dependency read once more.
tree:
	$(CARGO) fmt --all --check
	scripts/bill-of-materials --check
	scripts/stage compile $(LINTED) $(CARGO) build --workspace --all-targets --locked

# The lints alone.
lint:
	$(CARGO) fmt --all --check
	scripts/bill-of-materials --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# The emulated machine, once into the cache, with the distribution's kernel and a newer one: its tests need both.
machine: tree
	scripts/stage machine target/debug/perftax vm build
	scripts/stage machine-trixie target/debug/perftax vm build --kernel trixie

# The kernel module, for the machine's kernel.
kmod: machine
	PERFTAX=target/debug/perftax scripts/stage kmod kmod/build $(KDIR)

unit: tree
	$(LINTED) CARGO=$(CARGO) scripts/stage tests scripts/test

# Marks from other languages, each by its ecosystem's own runner.
test-bindings:
	scripts/setup bindings
	bindings/test

acceptance: setup build
	scripts/setup acceptance
	scripts/acceptance

bench:
	$(CARGO) bench --workspace --locked

# The documentation as a book, every link followed.
site: build
	scripts/setup site
	scripts/site

dist:
	scripts/dist

# Of what `make dist` made.
image:
	scripts/image

install: build
	install -D -m 755 target/release/perftax $(DESTDIR)$(PREFIX)/bin/perftax
	install -D -m 644 target/release/libperftax_sim_plugin.so $(DESTDIR)$(PREFIX)/lib/perftax/libperftax_sim_plugin.so
	install -D -m 644 target/release/libperftax_engine.a $(DESTDIR)$(PREFIX)/lib/perftax/libperftax_engine.a
	mkdir -p $(DESTDIR)$(PREFIX)/share/perftax/crates/perftax-engine-c
	cp -r vm $(DESTDIR)$(PREFIX)/share/perftax/
	cp -r crates/perftax-engine-c/include $(DESTDIR)$(PREFIX)/share/perftax/crates/perftax-engine-c/

clean:
	$(CARGO) clean

help:
	@echo 'make             build target/release/perftax'
	@echo 'make plan        build, then plan bzip2 over a file made for it (BUDGET=1%)'
	@echo 'make test        install what is missing, check style, run every test'
	@echo 'make lint        cargo fmt --check and clippy, warnings denied'
	@echo 'make machine     build the emulated machine (perftax vm) into the cache'
	@echo 'make kmod        build perftax.ko for the machine'\''s kernel (KDIR=… for another)'
	@echo 'make unit        the tests alone'
	@echo 'make test-bindings  the tests of marks from Go, Java, Python and Node, by their own runners'
	@echo 'make acceptance  the long measurements: calibrate, verify and bill on real programs'
	@echo 'make bench       benchmarks of perftax itself'
	@echo 'make site        the documentation as a book, into target/site (mdBook)'
	@echo 'make dist        what others install: a tarball and a Debian package, into target/dist'
	@echo 'make image       a container image of it, into target/dist (root, mmdebstrap, buildah)'
	@echo 'make install     install into PREFIX (/usr/local)'
	@echo 'make clean       remove what was built'
