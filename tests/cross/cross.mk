# SPDX-License-Identifier: Apache-2.0
# Unit tests on aarch64: the same tests, compiled for aarch64-linux with the kernel's aarch64 files (mem*, fiber switch,
# crypto features, BoringSSL's objects), run by qemu-aarch64. No sanitizers: what is looked for are differences between the
# processors. tests/cross/cmocka.h stands for cmocka.
X_ROOT  := /usr/aarch64-linux-gnu
X_FLAGS := --target=aarch64-linux-gnu -mno-outline-atomics -fno-stack-protector -O1 -fPIE -DURMQTT_VERSION='"$(VERSION)"'
X_HOST  := $(filter-out -MMD -MP,$(HOST)) -isystem $(X_ROOT)/include -Itests/cross -Wno-missing-prototypes -Wno-conversion \
           -Wno-unused-function
X_LINK  := -nostdlib -pie -fuse-ld=lld -Wl,--gc-sections,--dynamic-linker=/lib/ld-linux-aarch64.so.1 -L$(X_ROOT)/lib \
           $(X_ROOT)/lib/Scrt1.o $(X_ROOT)/lib/crti.o
X_OUT   := $(B)/cross
x_core_o := $(patsubst src/%.c,$(X_OUT)/obj/%.o,$(filter-out src/main.c,$(core_src)) src/arch/aarch64/crypto.c \
  src/arch/aarch64/divide.c src/plat/hosted/stack_guard.c) $(X_OUT)/obj/arch/aarch64/switch.o
# The drivers' tests have rules of their own, and their barriers and registers are calls; x86_64's files are x86_64's.
x_unit_src := $(filter-out src/dev/% src/arch/% src/plat/%,$(unit_src)) src/plat/metal/chacha_test.c
x_tests := $(patsubst src/%.c,$(X_OUT)/%,$(x_unit_src)) $(X_OUT)/arch/mem_test

$(X_OUT)/obj/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(BORINGSSL_INC) $(X_FLAGS) -c $< -o $@
$(X_OUT)/obj/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(SQLITE_INC) $(X_FLAGS) -c $< -o $@
$(X_OUT)/obj/plat/hosted/%.o: src/plat/hosted/%.c
	@mkdir -p $(@D)
	@$(CLANG) $(X_HOST) $(X_FLAGS) -c $< -o $@
$(X_OUT)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(X_FLAGS) -c $< -o $@
$(X_OUT)/obj/%.o: src/%.S
	@mkdir -p $(@D)
	@$(CLANG) $(X_FLAGS) -Isrc -c $< -o $@
$(X_OUT)/obj/unit_plat.o: tests/unit_plat.c
	@mkdir -p $(@D)
	@$(CLANG) $(X_HOST) $(X_FLAGS) -c $< -o $@
$(X_OUT)/libcore.a: $(x_core_o)
	@rm -f $@
	@$(AR) rcs $@ $^
$(X_OUT)/mem_renamed.o: src/arch/aarch64/mem.S
	@mkdir -p $(@D)
	@$(CLANG) $(X_FLAGS) '-DMEM_NAME(x)=our_##x' -c $< -o $@
$(X_OUT)/arch/mem_test: src/arch/mem_test.c $(X_OUT)/mem_renamed.o tests/cross/cmocka.h
	@mkdir -p $(@D)
	@$(CLANG) $(X_HOST) $(X_FLAGS) $(X_LINK) $(filter %.c %.o,$^) -lc -lm $(X_ROOT)/lib/crtn.o -o $@
$(X_OUT)/%_test: src/%_test.c $(X_OUT)/obj/unit_plat.o $(X_OUT)/libcore.a $(BORINGSSL_ARM_LIB) $(SQLITE_ARM_LIB) tests/cross/cmocka.h
	@mkdir -p $(@D)
	@$(CLANG) $(X_HOST) $(BORINGSSL_INC) $(SQLITE_INC) $(X_FLAGS) -DTEST_DATA='"$(abspath ..)/shared/data"' $(X_LINK) $< \
	  $(wildcard $(@:$(X_OUT)/%_test=src/%_test_extra.c)) $(filter %.o %.a,$^) -lc -lm $(X_ROOT)/lib/crtn.o -o $@

unit-aarch64: $(x_tests) ## every unit test that is not x86_64's, compiled for aarch64, under qemu-aarch64
	@RUNNER="qemu-aarch64-static -L $(X_ROOT)" tests/run_units $(x_tests)
mem-aarch64: $(X_OUT)/arch/mem_test ## the kernel's mem* of aarch64 against byte by byte
	@RUNNER="qemu-aarch64-static -L $(X_ROOT)" tests/run_units $<
.PHONY: unit-aarch64 mem-aarch64
