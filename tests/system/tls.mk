# SPDX-License-Identifier: Apache-2.0
# A small TLS server over plain sockets, sanitized, for tests/system/test_tls.py.
$(B)/test/tls_server: tests/system/tls_server.c $(patsubst src/%.c,$(B)/asan/%.o,$(filter-out %_test.c %_fuzz.c %_host.c,$(wildcard src/tls/*.c src/base/*.c))) $(BORINGSSL_ASAN_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) $(ASAN_OPT) -fuse-ld=lld -Wl,--gc-sections $(filter %.c %.o %.a,$^) -o $@
test-tls: $(B)/test/tls_server ## src/tls with openssl s_client and gnutls-cli as peers
	/usr/bin/python3 -m pytest -q tests/system/test_tls.py
.PHONY: test-tls
# The fuzz targets of src/tls run through the library: theirs has the fuzzer's counters too.
$(B)/fuzz/tls/%_fuzz: src/tls/%_fuzz.c $(B)/test/unit_plat.o $(B)/fuzz/libcore.a $(BORINGSSL_FUZZ_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -Wno-missing-prototypes -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $(FUZZ_COV) \
	  $(BORINGSSL_INC) -fuse-ld=lld -Wl,--gc-sections -MF $@.d $< $(filter %.o %.a,$^) -o $@
