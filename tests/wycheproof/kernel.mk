# SPDX-License-Identifier: Apache-2.0
# Wycheproof's vectors on the bare kernel: everything the kernel is made of but src/main.c, the runner in its place. After
# src/boot/kernel.mk.
define wycheproof_kernel
$$(B)/$(1)/wycheproof/%.o: tests/wycheproof/%.c tests/wycheproof/vectors.h | $$(BORINGSSL_STAMP)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(BORINGSSL_INC) -Itests/wycheproof $$(k_flags_$(1)) $$(K_DEFS) $$(K_CFI) -c $$< -o $$@
$$(B)/$(1)/wycheproof.full.elf: $$(filter-out $$(B)/$(1)/main.c.o,$$(k_objects_$(1))) $$(B)/$(1)/wycheproof/vectors.o \
  $$(B)/$(1)/wycheproof/metal.o $$(K_BORING_$(1)) $$(K_ARGON_$(1)) image/kernel-$(1).ld
	@$$(LD) $$(K_LINK_$(1)) $$(K_LINK) -T image/kernel-$(1).ld -o $$@ $$(filter %.o %.a,$$^)
endef
$(foreach a,$(KERNELS),$(eval $(call wycheproof_kernel,$(a))))
$(B)/x86_64/wycheproof.elf: $(B)/x86_64/wycheproof.full.elf image/elf-align
	@$(OBJCOPY) --strip-all --strip-sections $< $@
	@image/elf-align $@
$(B)/aarch64/wycheproof.Image: $(B)/aarch64/wycheproof.full.elf
	@$(OBJCOPY) -O binary $< $@
ifneq ($(wildcard $(WYCHEPROOF)/aes_gcm_test.json),)
wycheproof_images := $(B)/x86_64/wycheproof.elf $(B)/aarch64/wycheproof.Image $(B)/wycheproof/vectors.bin
endif
wycheproof-qemu: $(wycheproof_images) ## the same vectors on the bare kernel in QEMU, old and new processors
	B=$(B) /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/qemu/test_wycheproof.py --matrix
.PHONY: wycheproof-qemu
