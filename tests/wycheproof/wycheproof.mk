# SPDX-License-Identifier: Apache-2.0
# Wycheproof's vectors through the very objects that go into the kernel, linked position independent and with packed
# relative relocations as the kernel is.
WYCHEPROOF ?= ../shared/data/wycheproof
wyche_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c %_fuzz.c %_host.c,$(wildcard src/tls/*.c src/base/*.c))) \
           $(B)/hosted/plat/hosted/stack_guard.o
$(B)/wycheproof/vectors.o: tests/wycheproof/vectors.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	$(CLANG) $(CORE) $(BORINGSSL_INC) $(HOSTED_OPT) -c $< -o $@
$(B)/wycheproof/host.o: tests/wycheproof/host.c tests/wycheproof/vectors.h
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -Itests/wycheproof $(HOSTED_OPT) -c $< -o $@
$(B)/wycheproof/wycheproof: $(B)/wycheproof/host.o $(B)/wycheproof/vectors.o $(wyche_o) $(BORINGSSL_X86_LIB)
	$(CLANG) -static-pie -fuse-ld=lld -Wl,-z,text,--pack-dyn-relocs=relr,--gc-sections -o $@ $^
$(B)/wycheproof/vectors.bin: tests/wycheproof/generate.py $(wildcard $(WYCHEPROOF)/*.json)
	@mkdir -p $(@D)
	tests/wycheproof/generate.py $(WYCHEPROOF) $@
.PHONY: wycheproof
ifeq ($(wildcard $(WYCHEPROOF)/aes_gcm_test.json),)
wycheproof:
	@echo "wycheproof: SKIPPED: no vectors in $(WYCHEPROOF) (set WYCHEPROOF=FOLDER)"
else
wycheproof: $(B)/wycheproof/wycheproof $(B)/wycheproof/vectors.bin ## Wycheproof's vectors through the kernel's own objects
	timeout 120 $(B)/wycheproof/wycheproof $(B)/wycheproof/vectors.bin
	@echo "the same as a processor without AES and carry-less multiplication:"
	OPENSSL_ia32cap='~0x200000200000000' timeout 120 $(B)/wycheproof/wycheproof $(B)/wycheproof/vectors.bin
	@echo "the same without SSSE3, AVX, AVX2, BMI and ADX either:"
	OPENSSL_ia32cap='~0x1200020200000000:~0x80128' timeout 120 $(B)/wycheproof/wycheproof $(B)/wycheproof/vectors.bin
endif
