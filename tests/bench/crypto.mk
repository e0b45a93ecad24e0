# SPDX-License-Identifier: Apache-2.0
# Benchmarks that need no network. build/bench/crypto links the objects of the hosted release and of the kernel.
bench_tls_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c %_fuzz.c %_host.c,$(wildcard src/tls/*.c src/base/*.c))) \
               $(B)/hosted/plat/hosted/stack_guard.o
$(B)/bench/crypto: tests/bench/crypto.c src/tls/tls_test_support.h $(bench_tls_o) $(BORINGSSL_X86_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) $(BORINGSSL_INC) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -pie -fuse-ld=lld \
	  -Wl,--gc-sections $(filter %.c %.o %.a,$^) -o $@
bench-crypto: $(B)/bench/crypto $(B)/bench/mem_bench $(B)/bench/mem_share ## primitives, handshakes, records in ns; mem* and its share (JSON=FILE)
	$(B)/bench/crypto $(if $(JSON),--json $(JSON))
	$(B)/bench/mem_bench
	$(B)/bench/mem_share
.PHONY: bench-crypto
# The whole broker beside a null device: the hosted release's objects but for the platform.
bench_stack_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out src/main.c src/admin/serve.c,$(core_src))) \
                 $(B)/hosted/plat/hosted/stack_guard.o $(B)/hosted/arch/x86_64/switch.o
STACK_CC = $(CLANG) $(filter-out -MMD -MP,$(HOST)) $(BORINGSSL_INC) -Itests/bench -O2 -fPIE -march=x86-64-v2 -Wno-conversion \
           -Wno-missing-prototypes -Wno-unused-function -pie -fuse-ld=lld -Wl,--gc-sections
$(B)/bench/stack: tests/bench/stack_bench.c tests/bench/stack_peer.h tests/bench/stack_shake.h src/tls/tls_test_support.h tests/unit_plat.c $(bench_stack_o) \
                  $(BORINGSSL_X86_LIB) $(SQLITE_X86_LIB) $(ARGON2_X86_LIB)
	@mkdir -p $(@D)
	$(STACK_CC) $(filter %.c %.o %.a,$^) -o $@
$(B)/bench/idle_memory: tests/bench/idle_memory.c tests/bench/stack_peer.h tests/bench/stack_shake.h src/tls/tls_test_support.h \
                        tests/unit_plat.c $(bench_stack_o) $(BORINGSSL_X86_LIB) $(SQLITE_X86_LIB) $(ARGON2_X86_LIB)
	@mkdir -p $(@D)
	$(STACK_CC) $(filter %.c %.o %.a,$^) -o $@
# The same with every call of mem* counted on its way to the kernel's own.
$(B)/bench/mem_share: tests/bench/mem_share.c tests/bench/stack_peer.h tests/bench/stack_shake.h src/tls/tls_test_support.h \
                      tests/unit_plat.c $(bench_stack_o) $(B)/test/arch/x86_64/mem_renamed.o $(BORINGSSL_X86_LIB) $(SQLITE_X86_LIB) $(ARGON2_X86_LIB)
	@mkdir -p $(@D)
	$(STACK_CC) -fno-builtin $(foreach f,memcpy memmove memset memcmp,-Wl,--wrap=$f) $(filter %.c %.o %.a,$^) -o $@
bench-stack: $(B)/bench/stack ## a whole handshake's own cost beside a null device, with the primitives' sum
	$(B)/bench/stack $(if $(JSON),--json $(JSON))
.PHONY: bench-stack
