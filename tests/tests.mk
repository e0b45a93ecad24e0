# Unit tests and fuzz targets: found beside their sources. Every test links the whole core (sanitized), cmocka, and
# tests/unit_plat.c in the platform's place.
test_bins := $(patsubst src/%.c,$(B)/test/%,$(unit_src))
fuzz_bins := $(patsubst src/%.c,$(B)/fuzz/%,$(fuzz_src))
FUZZ_OPT := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all $(FUZZ_COV) -DURMQTT_VERSION='"$(VERSION)"'
core_lib_src := $(filter-out src/main.c,$(core_src)) $(plat_src)

$(B)/asan/libcore.a: $(patsubst src/%.c,$(B)/asan/%.o,$(core_lib_src)) $(B)/asan/arch/x86_64/switch.o
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/fuzz/obj/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(BORINGSSL_INC) $(FUZZ_OPT) -c $< -o $@
$(B)/fuzz/obj/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(SQLITE_INC) $(FUZZ_OPT) -c $< -o $@
$(B)/fuzz/obj/argon/%.o: src/argon/%.c | $(ARGON2_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(ARGON2_INC) $(FUZZ_OPT) -c $< -o $@
$(B)/fuzz/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(FUZZ_OPT) -c $< -o $@
$(B)/fuzz/libcore.a: $(patsubst src/%.c,$(B)/fuzz/obj/%.o,$(core_lib_src)) $(B)/asan/arch/x86_64/switch.o
	@rm -f $@
	$(AR) rcs $@ $^
$(B)/test/unit_plat.o: tests/unit_plat.c
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(ASAN_OPT) -c $< -o $@
# -Wno-missing-prototypes: a test's helpers are its own.
$(B)/test/%_test: src/%_test.c $(B)/test/unit_plat.o $(B)/asan/libcore.a $(BORINGSSL_ASAN_LIB) $(SQLITE_ASAN_LIB) $(ARGON2_ASAN_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(BORINGSSL_INC) $(SQLITE_INC) $(ARGON2_INC) -Wno-missing-prototypes -Wno-conversion $(ASAN_OPT) -DTEST_DATA='"$(abspath ..)/shared/data"' \
	  -MF $@.d $< $(wildcard $(@:$(B)/test/%_test=src/%_test_extra.c)) -fuse-ld=lld -Wl,--gc-sections \
	  $(filter %.o %.a,$^) -lcmocka -o $@
$(B)/fuzz/%_fuzz: src/%_fuzz.c $(B)/test/unit_plat.o $(B)/fuzz/libcore.a $(BORINGSSL_ASAN_LIB) $(SQLITE_ASAN_LIB) $(ARGON2_ASAN_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -Wno-missing-prototypes -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(FUZZ_COV) \
	  $(BORINGSSL_INC) -fuse-ld=lld -Wl,--gc-sections -MF $@.d $< $(filter %.o %.a,$^) -o $@

unit: $(test_bins) mem-aarch64 ## build and run every unit test under ASan and UBSan
	@tests/run_units $(test_bins)
fuzz-build: $(fuzz_bins) ## build every fuzz target
# FUZZ_ROTATE: so many targets get FUZZ_SECONDS of new inputs each, in turn; 0 = all.
FUZZ_SECONDS ?= 10
FUZZ_ROTATE ?= 4
fuzz: $(fuzz_bins) ## replay every corpus, then FUZZ_SECONDS of new inputs for FUZZ_ROTATE targets (0: all)
	@tests/run_fuzz $(FUZZ_SECONDS) $(FUZZ_ROTATE) $(fuzz_bins)
fuzz-coverage: fuzz-build ## which lines of each source the fuzz targets' corpora reach
	@mkdir -p $(B)/cov && ln -sfn ../third_party $(B)/cov/third_party
	@$(MAKE) --no-print-directory B=$(B)/cov FUZZ_COV='-fprofile-instr-generate -fcoverage-mapping' fuzz-build >/dev/null
	@tests/fuzz_coverage $(B) $(patsubst $(B)/%,$(B)/cov/%,$(fuzz_bins))
.PHONY: unit fuzz-build fuzz fuzz-coverage

# --- ThreadSanitizer: what runs on several threads.
TSAN_OPT := -O1 -fPIE -fsanitize=thread -DURMQTT_VERSION='"$(VERSION)"'
tsan_src := $(filter base/% loop/% mqtt/% broker/% plat/% store/%,$(patsubst src/%,%,$(core_lib_src)))
tsan_tests := loop/mailbox_test plat/steer_test plat/outbox_test broker/cross_thread_test
$(B)/tsan/%.o: src/%.c
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/unit_plat.o: tests/unit_plat.c
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/%_test: src/%_test.c $(B)/tsan/unit_plat.o $(patsubst %.c,$(B)/tsan/%.o,$(tsan_src)) $(B)/asan/arch/x86_64/switch.o $(B)/hosted/plat/hosted/stack_guard.o \
  $(SQLITE_X86_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -Wno-missing-prototypes -Wno-conversion $(TSAN_OPT) -MF $@.d $(filter %.c %.o %.a,$^) -fuse-ld=lld -Wl,--gc-sections -lcmocka -lpthread -o $@
# The whole program, for the system tests: BINARY=tsan. The libraries are as in the release, so what they do between
# cores is theirs to prove (third_party/boringssl_cores.c); TSan sees all of ours.
tsan_core_o := $(patsubst src/%.c,$(B)/tsan/%.o,$(core_src) $(filter-out %_test.c,$(wildcard src/plat/hosted/*.c)) $(plat_src))
$(B)/tsan/plat/hosted/%.o: src/plat/hosted/%.c
	@mkdir -p $(@D)
	$(CLANG) $(HOST) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/tls/%.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(BORINGSSL_INC) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/argon/%.o: src/argon/%.c | $(ARGON2_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(ARGON2_INC) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/store/%.o: src/store/%.c | $(sqlite_c)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(SQLITE_INC) $(TSAN_OPT) -c $< -o $@
$(B)/tsan/urmqtt: $(tsan_core_o) $(B)/hosted/arch/x86_64/switch.o $(BORINGSSL_X86_LIB) $(SQLITE_X86_LIB) $(ARGON2_X86_LIB)
	$(CLANG) -pie -fsanitize=thread -fuse-ld=lld -Wl,--gc-sections -o $@ $^ -lpthread
tsan-system: $(B)/tsan/urmqtt ## two and four cores serving real clients under ThreadSanitizer
	BINARY=tsan setarch -R /usr/bin/python3 -m pytest -q -x tests/system/test_cores.py
.PHONY: tsan-system
tsan: $(patsubst %,$(B)/tsan/%,$(tsan_tests)) ## the tests that use threads, under ThreadSanitizer
	@RUNNER="setarch -R" tests/run_units $^
.PHONY: tsan
