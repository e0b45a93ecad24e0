# SPDX-License-Identifier: Apache-2.0
# Builds BoringSSL for one target: make -f third_party/boringssl.mk B=build TARGET=x86_64|aarch64|asan|fuzz. Called by
# third_party.mk once the source is there, because the list of files comes out of the source tree itself.
#
# Flags and their reasons: docs/adr/0003-boringssl-own-record-layer.md. The x86_64 objects go into the kernel and into
# the hosted release binary alike: what the vectors test is what runs.
MAKEFLAGS += --no-builtin-rules --no-builtin-variables
SHELL := /bin/bash
.SUFFIXES:
.DELETE_ON_ERROR:

CLANG ?= clang-19
AR    ?= llvm-ar-19
SRC   := $(B)/third_party/boringssl
OUT   := $(B)/third_party/$(TARGET)
CPU   := $(if $(filter aarch64,$(TARGET)),aarch64,x86_64)

# The files of one set() list in the tree's own android-sources.cmake.
list = $(shell awk '/^set\($(1)$$/ { on = 1; next } /^\)/ { on = 0 } on { sub(/.*[{]BORINGSSL_ROOT[}]/, ""); print }' \
  $(SRC)/android-sources.cmake)
sources := $(call list,crypto_sources) $(call list,crypto_sources_linux_$(CPU)) $(call list,ssl_sources)
sources := $(filter-out linux-$(CPU)/crypto/test/% src/crypto/thread_none.c,$(sources))
$(if $(sources),,$(error no source list in $(SRC)/android-sources.cmake))

# __TRUSTY__ is the tree's switch for: no threads, no sockets and files, CRYPTO_sysrand supplied by us.
DEFINES := -D__TRUSTY__ -DNDEBUG -DOPENSSL_NO_POSIX_IO -DBORINGSSL_NO_STATIC_INITIALIZER -DBORINGSSL_IMPLEMENTATION \
           -D_GNU_SOURCE -U__linux__
COMMON  := $(DEFINES) -I$(SRC)/src/include -O2 -ffunction-sections -fdata-sections -fno-unwind-tables \
           -fno-asynchronous-unwind-tables -fvisibility=hidden -fpie -w
BARE    := -fstack-protector-strong -nostdlibinc
ifeq ($(TARGET),x86_64)
COMMON += --target=x86_64-unknown-none-elf -mno-red-zone $(BARE)
HEADERS := -isystem /usr/include/x86_64-linux-gnu -isystem /usr/include
# Debian 13's <bits/floatn.h> takes every clang to have __float128, which bare metal has not: the file is passed over.
ifneq ($(shell grep -s clang_prereq /usr/include/x86_64-linux-gnu/bits/floatn.h),)
HEADERS += -D_BITS_FLOATN_H -D__HAVE_FLOAT128=0 -D__HAVE_DISTINCT_FLOAT128=0 -D__HAVE_FLOAT64X=0
endif
FREESTANDING := -ffreestanding
else ifeq ($(TARGET),aarch64)
# Landing pads and signed return addresses, in the assembly too (its own switch looks at this option's macros).
COMMON += --target=aarch64-unknown-none-elf -mbranch-protection=standard $(BARE)
HEADERS := -isystem /usr/aarch64-linux-gnu/include
FREESTANDING := -ffreestanding
else ifeq ($(TARGET),asan)
COMMON += -fno-omit-frame-pointer -fsanitize=address
else ifeq ($(TARGET),fuzz)
COMMON += -fno-omit-frame-pointer -fsanitize=address,fuzzer-no-link
else
$(error TARGET is x86_64, aarch64, asan or fuzz, not '$(TARGET)')
endif
CXX_HEADERS := -nostdinc++ -isystem $(firstword $(wildcard /usr/include/c++/12 /usr/include/c++/*)) \
               -isystem $(firstword $(wildcard /usr/include/x86_64-linux-gnu/c++/12 /usr/include/x86_64-linux-gnu/c++/*))
C_FLAGS   := $(COMMON) -std=c11 $(FREESTANDING) $(HEADERS)
CXX_FLAGS := $(COMMON) -std=c++14 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-builtin $(CXX_HEADERS) \
             $(HEADERS)

objects := $(patsubst %,$(OUT)/obj/%.o,$(sources)) $(OUT)/obj/secrets.o $(OUT)/obj/cores.o

$(OUT)/libboringssl.a: $(objects)
	@rm -f $@
	@$(AR) rcs $@ $^
	@echo "boringssl: $@ ($(words $^) objects)"
$(OUT)/obj/%.c.o: $(SRC)/%.c third_party/boringssl.mk
	@mkdir -p $(@D)
	@$(CLANG) $(C_FLAGS) -c $< -o $@
$(OUT)/obj/%.cc.o: $(SRC)/%.cc third_party/boringssl.mk
	@mkdir -p $(@D)
	@$(CLANG) $(CXX_FLAGS) -c $< -o $@
# X25519 is portable C in this snapshot, and the slowest part of a handshake. gcc 12 at -O3 makes 9.1 and 24.3 us of it where
# clang 19 makes 12.2 and 30.3 (docs/adr/0003), with the same baseline instructions.
ifeq ($(TARGET),x86_64)
x25519 := src/crypto/curve25519/curve25519.c
$(OUT)/obj/$(x25519).o: $(SRC)/$(x25519) third_party/boringssl.mk
	@mkdir -p $(@D)
	@gcc $(DEFINES) -I$(SRC)/src/include -std=c11 -O3 -ffreestanding -fpie -mno-red-zone -fstack-protector-strong \
	  -mstack-protector-guard=global -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables \
	  -fvisibility=hidden -w -c $< -o $@
endif
# Locks, once-flags and thread-locals for several cores.
$(OUT)/obj/cores.o: third_party/boringssl_cores.c third_party/boringssl.mk
	@mkdir -p $(@D)
	@$(CLANG) $(C_FLAGS) -I$(SRC)/src/crypto -c $< -o $@
# The one call whose signature only C++ can spell.
$(OUT)/obj/secrets.o: third_party/secrets.cc third_party/boringssl.mk
	@mkdir -p $(@D)
	@$(CLANG) $(CXX_FLAGS) -c $< -o $@
$(OUT)/obj/%.S.o: $(SRC)/%.S third_party/boringssl.mk
	@mkdir -p $(@D)
	@$(CLANG) $(filter-out -std=% -w -O2,$(COMMON)) $(HEADERS) -Qunused-arguments -c $< -o $@

# aarch64: beeu_mod_inverse_vartime shifts by the count of trailing zeros, and a zero word counts 64, which the
# processor takes as 0: four valid ECDSA signatures of Wycheproof are then refused. Setting the lowest bit of the
# reversed word bounds the count to 63; the next turn of the loop shifts the rest. Upstream repaired it in 0e22042f4.
beeu := linux-aarch64/crypto/fipsmodule/p256_beeu-armv8-asm-linux.S
$(OUT)/obj/$(beeu).o: $(SRC)/$(beeu) third_party/boringssl.mk
	@mkdir -p $(@D)
	@sed -E 's/^\trbit\tx15, x2[15]$$/&\n\torr\tx15, x15, #1/' $< >$(OUT)/beeu-fixed.S
	@[ "$$(grep -c '^	orr	x15, x15, #1$$' $(OUT)/beeu-fixed.S)" = 2 ] || \
	  { echo "boringssl: $< is not the file that the two-instruction fix was made for" >&2; exit 1; }
	@$(CLANG) $(filter-out -std=% -w -O2,$(COMMON)) $(HEADERS) -Qunused-arguments -c $(OUT)/beeu-fixed.S -o $@
