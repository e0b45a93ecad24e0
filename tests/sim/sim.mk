# SPDX-License-Identifier: Apache-2.0
# The simulator: the whole program over plat/sim, with the clients and the oracle of tests/sim. Linked at a fixed place
# (-no-pie), so that no address differs from run to run.
SIM_SRC     := $(filter-out %_test.c,$(wildcard src/plat/sim/*.c)) $(wildcard tests/sim/*.c)
sim_fast_o  := $(patsubst %.c,$(B)/sim/%.o,$(SIM_SRC))
sim_asan_o  := $(patsubst %.c,$(B)/sim-asan/%.o,$(SIM_SRC))
SIM_HOST    := $(HOST) -I. -Wno-missing-field-initializers
$(B)/sim/%.o: %.c
	@mkdir -p $(@D)
	$(CLANG) $(SIM_HOST) $(HOSTED_OPT) -c $< -o $@
$(B)/sim-asan/%.o: %.c
	@mkdir -p $(@D)
	$(CLANG) $(SIM_HOST) $(ASAN_OPT) -c $< -o $@
$(B)/sim/sim: $(hosted_core_o) $(sim_fast_o) $(B)/hosted/arch/x86_64/switch.o $(B)/hosted/plat/hosted/stack_guard.o \
              $(BORINGSSL_X86_LIB) $(ARGON2_X86_LIB) $(SQLITE_X86_LIB)
	$(CLANG) -no-pie -fuse-ld=lld -Wl,--gc-sections -o $@ $^
$(B)/sim-asan/sim: $(asan_core_o) $(sim_asan_o) $(B)/asan/arch/x86_64/switch.o $(BORINGSSL_ASAN_LIB) $(ARGON2_ASAN_LIB) $(SQLITE_ASAN_LIB)
	$(CLANG) -no-pie -fsanitize=address,undefined -fuse-ld=lld -Wl,--gc-sections -o $@ $^
sim: $(B)/sim/sim ## the simulator; build/sim/sim --seed 1
sim-asan: $(B)/sim-asan/sim ## the same with ASan and UBSan
.PHONY: sim sim-asan
sim-test: $(B)/sim/sim $(B)/sim-asan/sim ## fixed seeds, every fault, equal trace hashes, seeded bugs that are found
	@B=$(B) tests/sim/run $(CLANG) $(CORE) $(HOSTED_OPT)
.PHONY: sim-test
sim-bugs: $(B)/sim/sim ## bugs put in on purpose: each must be found within a stated number of events
	@B=$(B) tests/sim/bugs $(CLANG) $(CORE) $(HOSTED_OPT)
.PHONY: sim-bugs
