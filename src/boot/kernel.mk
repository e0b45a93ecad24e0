# SPDX-License-Identifier: Apache-2.0
# The kernels, one rule set for both families:
#   build/x86_64/urmqtt.elf    one static PIE for PVH (-kernel) and multiboot2 (GRUB)
#   build/aarch64/urmqtt.elf   the same program; build/aarch64/Image is what starts: arm64 Image, PE with EFI stub
#
# Everything of ours is compiled without vector registers but tls (BoringSSL's headers want them in no prototype, but
# its inline functions do) and assembled mem*. kCFI checks our own indirect calls; BoringSSL and SQLite are built without
# it and are only ever called directly, except through libc.c's qsort, which therefore has none.
KERNELS := x86_64 aarch64
BUILD_ID   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The build's own time is the lower bound of the wall clock; a release sets SOURCE_DATE_EPOCH.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1796083200)
export SOURCE_DATE_EPOCH

K_TARGET_x86_64  := --target=x86_64-unknown-none-elf -mno-red-zone
K_TARGET_aarch64 := --target=aarch64-unknown-none-elf -mbranch-protection=standard -mno-outline-atomics
K_LINK_x86_64    := -m elf_x86_64
K_LINK_aarch64   := -m aarch64elf -z bti-report=error
K_BORING_x86_64  := $(BORINGSSL_X86_LIB)
K_BORING_aarch64 := $(BORINGSSL_ARM_LIB)
K_SQLITE_x86_64  := $(SQLITE_X86_LIB)
K_SQLITE_aarch64 := $(SQLITE_ARM_LIB)
K_ARGON_x86_64   := $(ARGON2_X86_LIB)
K_ARGON_aarch64  := $(ARGON2_ARM_LIB)
K_HARD := -fpie -fvisibility=hidden -fstack-protector-strong -ftrivial-auto-var-init=zero \
          -fzero-call-used-regs=used-gpr -fno-delete-null-pointer-checks -fno-strict-overflow \
          -fstrict-flex-arrays=3 -fsanitize=array-bounds,shift,integer-divide-by-zero,unreachable,null,return,bool,enum \
          -fsanitize-trap=all -ffile-prefix-map=$(CURDIR)=. -ffunction-sections -fdata-sections -fno-unwind-tables \
          -fno-asynchronous-unwind-tables -Wframe-larger-than=49152
K_DEFS := -DURMQTT_VERSION='"$(VERSION)"'
K_CFI  := -fsanitize=kcfi
K_REGS := -mgeneral-regs-only
# Before the memory is mapped an access must be aligned: what runs then is compiled so.
K_BOOT_aarch64 := -mstrict-align
K_LINK := -pie --no-dynamic-linker -z text -z norelro -z noexecstack --pack-dyn-relocs=relr --gc-sections --build-id=none

k_core_src := $(filter-out %_test.c %_fuzz.c %_host.c,$(foreach d,$(CORE_DIRS),$(wildcard src/$(d)/*.c)) $(wildcard src/main.c))
k_own_src = $(filter-out %_test.c %_fuzz.c %_bench.c,$(wildcard $(foreach f,arch/$(1) boot boot/$(1) dev plat plat/metal \
  plat/metal/$(1),src/$(f)/*.c src/$(f)/*.S)))

FORCE:
.PHONY: FORCE
$(B)/font.c: image/mkfont /usr/share/grub/unicode.pf2
	@mkdir -p $(@D)
	@image/mkfont /usr/share/grub/unicode.pf2 >$@

define kernel_rules
k_objects_$(1) := $$(patsubst src/%,$$(B)/$(1)/%.o,$$(k_core_src) $$(call k_own_src,$(1))) $$(B)/$(1)/font.o
k_flags_$(1) := $$(K_TARGET_$(1)) -O2 $$(K_HARD)
$$(B)/$(1)/%.S.o: src/%.S
	@mkdir -p $$(@D)
	@$$(CLANG) $$(K_TARGET_$(1)) -Isrc -MMD -MP -g -c $$< -o $$@
$$(B)/$(1)/tls/%.c.o: src/tls/%.c | $$(BORINGSSL_STAMP)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(BORINGSSL_INC) $$(k_flags_$(1)) $$(K_DEFS) $$(K_CFI) -c $$< -o $$@
$$(B)/$(1)/argon/%.c.o: src/argon/%.c | $$(ARGON2_STAMP)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(ARGON2_INC) $$(k_flags_$(1)) $$(K_DEFS) $$(K_CFI) $$(K_REGS) -c $$< -o $$@
$$(B)/$(1)/plat/metal/libc.c.o: src/plat/metal/libc.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(k_flags_$(1)) $$(K_DEFS) $$(K_REGS) -c $$< -o $$@
$$(B)/$(1)/store/%.c.o: src/store/%.c | $$(sqlite_c)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(SQLITE_INC) $$(k_flags_$(1)) $$(K_DEFS) $$(K_CFI) $$(K_REGS) -c $$< -o $$@
# These name the build; they are made again when it changes.
k_named_$(1) := $$(patsubst %,$$(B)/$(1)/plat/metal/%.c.o,start end clock facts)
$$(k_named_$(1)): K_DEFS += -DURMQTT_BUILD_ID='"$$(BUILD_ID)"' -DURMQTT_BUILD_TIME=$$(SOURCE_DATE_EPOCH)ull
$$(k_named_$(1)): $$(B)/$(1)/build-id
$$(B)/$(1)/build-id: FORCE
	@mkdir -p $$(@D)
	@echo "$$(BUILD_ID) $$(SOURCE_DATE_EPOCH)" | cmp -s - $$@ || echo "$$(BUILD_ID) $$(SOURCE_DATE_EPOCH)" >$$@
$$(B)/$(1)/boot/%.c.o: src/boot/%.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(k_flags_$(1)) $$(K_BOOT_$(1)) $$(K_DEFS) $$(K_CFI) $$(K_REGS) -c $$< -o $$@
$$(B)/$(1)/%.c.o: src/%.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(k_flags_$(1)) $$(K_DEFS) $$(K_CFI) $$(K_REGS) -c $$< -o $$@
$$(B)/$(1)/font.o: $$(B)/font.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(CORE) $$(k_flags_$(1)) $$(K_CFI) $$(K_REGS) -c $$< -o $$@
$$(B)/$(1)/urmqtt.full.elf: $$(k_objects_$(1)) $$(K_BORING_$(1)) $$(K_SQLITE_$(1)) $$(K_ARGON_$(1)) image/kernel-$(1).ld
	@$$(LD) $$(K_LINK_$(1)) $$(K_LINK) -T image/kernel-$(1).ld -o $$@ $$(filter %.o %.a,$$^)
# Without section headers: GRUB refuses any file with a relocation section, even an empty one. p_align 2 MiB: other
# PVH loaders refuse less.
$$(B)/$(1)/urmqtt.elf: $$(B)/$(1)/urmqtt.full.elf image/elf-align
	@$$(OBJCOPY) --strip-all --strip-sections $$< $$@.tmp
	@image/elf-align $$@.tmp
	@mv $$@.tmp $$@
	@size=$$$$(stat -c %s $$@); echo "kernel: $$@, $$$$size bytes"; \
	  [ $$$$size -le 4194304 ] || { echo "kernel: over 4 MiB" >&2; exit 1; }
endef
$(foreach a,$(KERNELS),$(eval $(call kernel_rules,$(a))))

# Flat: the file's first 64 bytes are the arm64 Image header, which points at the PE header behind it.
$(B)/aarch64/Image: $(B)/aarch64/urmqtt.full.elf $(B)/aarch64/urmqtt.elf
	@$(OBJCOPY) -O binary $< $@
	@size=$$(stat -c %s $@); echo "kernel: $@, $$size bytes"; [ $$size -le 4194304 ] || { echo "kernel: over 4 MiB" >&2; exit 1; }
x86_64: $(B)/x86_64/urmqtt.elf ## the kernel for x86_64
aarch64: $(B)/aarch64/Image ## the kernel for aarch64: urmqtt.elf and Image (for -kernel, GRUB and UEFI)
.PHONY: x86_64 aarch64

# The kernel's mem* under other names, beside the C library's: for the differential test and the bench.
$(B)/test/arch/x86_64/mem_renamed.o: src/arch/x86_64/mem.S
	@mkdir -p $(@D)
	@$(CLANG) '-DMEM_NAME(x)=our_##x' -MMD -MP -c $< -o $@
$(B)/test/arch/mem_test: src/arch/mem_test.c $(B)/test/arch/x86_64/mem_renamed.o
	@mkdir -p $(@D)
	@$(CLANG) $(HOST) -Wno-missing-prototypes -Wno-conversion -O1 -MF $@.d $(filter %.c %.o,$^) -lcmocka -o $@
$(B)/bench/mem_bench: tests/bench/mem_bench.c $(B)/test/arch/x86_64/mem_renamed.o
	@mkdir -p $(@D)
	@$(CLANG) $(HOST) -O2 -fno-builtin -MF $@.d $(filter %.c %.o,$^) -o $@
bench-mem: $(B)/bench/mem_bench ## cycles a call of the kernel's mem* and the C library's
	@$(B)/bench/mem_bench
.PHONY: bench-mem
