# make run    set up, build, and generate text with the bundled model
# make test   set up, build, and run the tests
# make test LONG=1    and those that repeat other paths through the same code
# make help   the rest

BUILD ?= build
CLEAVE = $(BUILD)/tools/cleave

.PHONY: all help setup build run test quality check-format check-sanitizers check-gpu fuzz bench \
	record compare-record docs install clean

all: build

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup:
	@scripts/setup.sh

build: setup
	@scripts/build.sh $(BUILD)

run: build
	@$(CLEAVE) run -n 96 --temp 0 --display-prompt -p 'def fibonacci(n):'

test: build
	@scripts/test.sh $(BUILD) $(if $(LONG),,--no-suite long)

# make check-sanitizers   the suite under ASan + UBSan, the libraries' under TSan
# make check-sanitizers LONG=1    what is long, too
check-sanitizers: setup
	@scripts/check-sanitizers.sh $(LONG)

# make check-format       what clang-format 14 would change
check-format:
	@scripts/check-format.sh

# make check-gpu          every case of the kit, on the GPU drivers there are
check-gpu: build
	@scripts/check-gpu.sh $(BUILD)

# make fuzz               libFuzzer on every parser, FUZZ_SECONDS each (60)
fuzz: setup
	@scripts/fuzz.sh

# make bench              the kernel benchmarks
bench: build
	@meson test -C $(BUILD) --benchmark --verbose

# make record             add this commit's figures to bench/record.csv, draw them
record: build
	@SETUP_EXTRA=valgrind scripts/setup.sh
	@scripts/record.py $(BUILD)

# make compare-record     name what is more than 3% slower than at the last record
compare-record: build
	@SETUP_EXTRA=valgrind scripts/setup.sh
	@scripts/record.py $(BUILD) --compare

# make quality            docs/quality.md: perplexity in every type (some 30 minutes)
quality: build
	@bench/quality.py

# make docs               renew the output that documents show
docs: build
	@scripts/docs.py
	@$(CLEAVE) plan --conf conf/soc/snapdragon-8gen3.ini \
		--set core.plugins=npu_sim --set npu_sim.compute=off \
		-m synth:llama3-8b:w4a16:zero --seq 256 -c 256 \
		-o svg > docs/plan-llama3-8b.svg

# make install            into DESTDIR and the prefix given to meson
install: build
	@meson install -C $(BUILD) --no-rebuild

# make clean              remove the build directories
clean:
	@rm -rf $(BUILD) build-asan* build-tsan* build-fuzz build-pocl build-mesa
