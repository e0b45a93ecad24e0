# SPDX-License-Identifier: Apache-2.0
# One non-recursive GNU Makefile. `make help` prints the targets. Modules are found by folder: a new x.c in a module's
# folder is built, a new x_test.c or x_fuzz.c beside it becomes a test or a fuzz target.
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:

B        ?= build
CLANG    := clang-19
GCC      := gcc
AR       := llvm-ar-19
LD       := ld.lld-19
OBJCOPY  := llvm-objcopy-19
VERSION  := 0.1.0

CORE_DIRS := base loop argon net tls mqtt broker dynsec server store admin
core_src  := $(foreach d,$(CORE_DIRS),$(wildcard src/$(d)/*.c)) src/main.c
unit_src  := $(filter %_test.c,$(wildcard src/*/*.c src/*/*/*.c))
fuzz_src  := $(filter %_fuzz.c,$(wildcard src/*/*.c src/*/*/*.c))
core_src  := $(filter-out %_test.c %_fuzz.c %_host.c,$(core_src))
# What every platform has in common.
plat_src  := $(filter-out %_test.c %_fuzz.c,$(wildcard src/plat/*.c))

WARN := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes -Wmissing-prototypes -Wundef \
        -Wvla -Werror -fno-common
STD  := -std=gnu2x -Isrc -MMD -MP -g $(WARN)
# Core code sees no C library header on any platform: a <stdio.h> in it does not compile (STYLE: Dialect).
CORE := $(STD) -ffreestanding -nostdinc
HOST := $(STD) -D_GNU_SOURCE

include third_party/third_party.mk
include tests/tests.mk
include tests/proof/proof.mk
include tests/models/models.mk
include tools/tools.mk
include tests/wycheproof/wycheproof.mk
include tests/bench/bench.mk
include tests/bench/crypto.mk
include tests/system/tls.mk
include tests/system/system.mk
include tests/system/net.mk
include tests/js/js.mk
include src/boot/kernel.mk
include tests/wycheproof/kernel.mk
include image/image.mk
include tests/dev/dev.mk
include tests/qemu/qemu.mk
include tests/cross/cross.mk

# --- Hosted: a Linux process (clang, release) --------------------------------------------------------------------
HOSTED_OPT := -O2 -fPIE -fstack-protector-strong -fvisibility=hidden -march=x86-64-v2 -DURMQTT_VERSION='"$(VERSION)"'
hosted_core_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(core_src))
hosted_plat_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c,$(wildcard src/plat/hosted/*.c)) $(plat_src)) \
                 $(B)/hosted/arch/x86_64/switch.o
$(B)/hosted/plat/hosted/%.o: src/plat/hosted/%.c
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(HOSTED_OPT) -c $< -o $@
$(B)/hosted/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(BORINGSSL_INC) $(HOSTED_OPT) -c $< -o $@
$(B)/hosted/argon/%.o: src/argon/%.c | $(ARGON2_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(ARGON2_INC) $(HOSTED_OPT) -c $< -o $@
$(B)/hosted/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(SQLITE_INC) $(HOSTED_OPT) -c $< -o $@
$(B)/hosted/arch/%.o: src/arch/%.S
	@mkdir -p $(@D)
	$(CLANG) -Isrc -MMD -MP -g -c $< -o $@
$(B)/hosted/%.o: src/%.c
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(HOSTED_OPT) -c $< -o $@
$(B)/hosted/urmqtt: $(hosted_core_o) $(hosted_plat_o) $(BORINGSSL_X86_LIB) $(SQLITE_X86_LIB) $(ARGON2_X86_LIB)
	$(CLANG) -pie -fuse-ld=lld -Wl,--gc-sections -o $@ $^ -lpthread

# --- Hosted with AddressSanitizer and UBSan -----------------------------------------------------------------------
ASAN_OPT := -O1 -fPIE -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all \
            -DURMQTT_VERSION='"$(VERSION)"'
asan_core_o := $(patsubst src/%.c,$(B)/asan/%.o,$(core_src))
asan_plat_o := $(patsubst src/%.c,$(B)/asan/%.o,$(filter-out %_test.c,$(wildcard src/plat/hosted/*.c)) $(plat_src)) \
               $(B)/asan/arch/x86_64/switch.o
$(B)/asan/plat/hosted/%.o: src/plat/hosted/%.c
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(ASAN_OPT) -c $< -o $@
$(B)/asan/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(BORINGSSL_INC) $(ASAN_OPT) -c $< -o $@
$(B)/asan/argon/%.o: src/argon/%.c | $(ARGON2_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(ARGON2_INC) $(ASAN_OPT) -c $< -o $@
$(B)/asan/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(SQLITE_INC) $(ASAN_OPT) -c $< -o $@
$(B)/asan/arch/%.o: src/arch/%.S
	@mkdir -p $(@D)
	$(CLANG) -Isrc -MMD -MP -g -c $< -o $@
$(B)/asan/%.o: src/%.c
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(ASAN_OPT) -c $< -o $@
$(B)/asan/urmqtt: $(asan_core_o) $(asan_plat_o) $(BORINGSSL_ASAN_LIB) $(SQLITE_ASAN_LIB) $(ARGON2_ASAN_LIB)
	$(CLANG) -pie -fsanitize=address,undefined -fuse-ld=lld -Wl,--gc-sections -o $@ $^ -lpthread

include tests/sim/sim.mk

# --- gcc 12 as second opinion on everything hosted ----------------------------------------------------------------
gcc_o := $(patsubst src/%.c,$(B)/gcc/%.o,$(core_src) $(filter-out %_test.c,$(wildcard src/plat/hosted/*.c)) $(plat_src))
$(B)/gcc/plat/hosted/%.o: src/plat/hosted/%.c
	@mkdir -p $(@D)
	$(GCC) $(HOST) -O2 -fPIE -DURMQTT_VERSION='"$(VERSION)"' -c $< -o $@
$(B)/gcc/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(GCC) $(CORE) $(BORINGSSL_INC) -O2 -fPIE -DURMQTT_VERSION='"$(VERSION)"' -c $< -o $@
$(B)/gcc/argon/%.o: src/argon/%.c | $(ARGON2_STAMP)
	@mkdir -p $(@D)
	$(GCC) $(CORE) $(ARGON2_INC) -O2 -fPIE -c $< -o $@
$(B)/gcc/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	$(GCC) $(CORE) $(SQLITE_INC) -O2 -fPIE -c $< -o $@
$(B)/gcc/%.o: src/%.c
	@mkdir -p $(@D)
	$(GCC) $(CORE) -O2 -fPIE -DURMQTT_VERSION='"$(VERSION)"' -c $< -o $@
gcc: $(gcc_o) ## compile everything hosted with gcc 12 (second opinion, no link)

tidy: ## style, layers, lengths, banned calls, headers that compile alone
	@tools/architecture && tools/spec && tools/tidy --self-test && tools/tidy
.PHONY: tidy
spec: ## every normative statement of MQTT with its places in code and tests
	@tools/spec -v
.PHONY: spec
hosted: $(B)/hosted/urmqtt ## the broker as a Linux process
asan: $(B)/asan/urmqtt ## the same with ASan and UBSan

.PHONY: help hosted asan gcc
help: ## this list
	@grep -hE '^[a-z0-9_.-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9_.-]+):.*## /  \1\t/' | expand -t 18
.DEFAULT_GOAL := help
-include $(shell find $(B) -type f -name '*.d' 2>/dev/null)
