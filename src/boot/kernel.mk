# SPDX-License-Identifier: Apache-2.0
# The x86_64 kernel: build/x86_64/urmqtt.elf, one static PIE for PVH (-kernel) and multiboot2 (GRUB).
#
# Everything of ours is compiled without vector registers but tls (BoringSSL's headers want them in no prototype, but
# its inline functions do) and assembled mem*. kCFI checks our own indirect calls; BoringSSL is built without it and is
# only ever called directly, except through libc.c's qsort, which therefore has none.
KX := $(B)/x86_64
BUILD_ID   ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
# The build's own time is the lower bound of the wall clock; a release sets SOURCE_DATE_EPOCH.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1796083200)
export SOURCE_DATE_EPOCH

KX_TARGET := --target=x86_64-unknown-none-elf -mno-red-zone
KX_HARD   := -fpie -fvisibility=hidden -fstack-protector-strong -ftrivial-auto-var-init=zero \
             -fzero-call-used-regs=used-gpr -fno-delete-null-pointer-checks -fno-strict-overflow \
             -fstrict-flex-arrays=3 -fsanitize=array-bounds,shift,integer-divide-by-zero,unreachable,null,return,bool,enum \
             -fsanitize-trap=all -ffile-prefix-map=$(CURDIR)=. -ffunction-sections -fdata-sections -fno-unwind-tables \
             -fno-asynchronous-unwind-tables
KX_DEFS   := -DURMQTT_VERSION='"$(VERSION)"'
KX_FLAGS  := $(KX_TARGET) -O2 $(KX_HARD) $(KX_DEFS)
KX_CFI    := -fsanitize=kcfi
KX_REGS   := -mgeneral-regs-only

kx_core_src := $(filter-out %_test.c %_fuzz.c %_host.c,$(foreach d,$(CORE_DIRS),$(wildcard src/$(d)/*.c)) $(wildcard src/main.c))
kx_own_src  := $(filter-out %_test.c %_fuzz.c %_bench.c,$(wildcard src/arch/x86_64/*.c src/boot/*.c src/dev/*.c src/plat/metal/*.c))
kx_asm_src  := $(wildcard src/arch/x86_64/*.S src/boot/*.S)
kx_objects  := $(patsubst src/%,$(KX)/%.o,$(kx_core_src) $(kx_own_src) $(kx_asm_src)) $(KX)/font.o

$(KX)/%.S.o: src/%.S
	@mkdir -p $(@D)
	@$(CLANG) --target=x86_64-unknown-none-elf -Isrc -MMD -MP -g -c $< -o $@
$(KX)/tls/%.c.o: src/tls/%.c | $(BORINGSSL_STAMP)
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(BORINGSSL_INC) $(KX_FLAGS) $(KX_CFI) -c $< -o $@
$(KX)/plat/metal/libc.c.o: src/plat/metal/libc.c
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(KX_FLAGS) $(KX_REGS) -c $< -o $@
# These two name the build; they are made again when it changes.
$(KX)/plat/metal/start.c.o $(KX)/plat/metal/end.c.o $(KX)/plat/metal/clock.c.o: KX_DEFS += -DURMQTT_BUILD_ID='"$(BUILD_ID)"' \
  -DURMQTT_BUILD_TIME=$(SOURCE_DATE_EPOCH)ull
$(KX)/plat/metal/start.c.o $(KX)/plat/metal/end.c.o $(KX)/plat/metal/clock.c.o: $(KX)/build-id
$(KX)/build-id: FORCE
	@mkdir -p $(@D)
	@echo "$(BUILD_ID) $(SOURCE_DATE_EPOCH)" | cmp -s - $@ || echo "$(BUILD_ID) $(SOURCE_DATE_EPOCH)" >$@
FORCE:
.PHONY: FORCE
$(KX)/%.c.o: src/%.c
	@mkdir -p $(@D)
	@$(CLANG) $(CORE) $(KX_TARGET) -O2 $(KX_HARD) $(KX_DEFS) $(KX_CFI) $(KX_REGS) -c $< -o $@
$(KX)/font.c: image/mkfont /usr/share/grub/unicode.pf2
	@mkdir -p $(@D)
	@image/mkfont /usr/share/grub/unicode.pf2 >$@
$(KX)/font.o: $(KX)/font.c
	@$(CLANG) $(CORE) $(KX_FLAGS) $(KX_CFI) $(KX_REGS) -c $< -o $@

KX_LINK := -m elf_x86_64 -pie --no-dynamic-linker -z text -z norelro -z noexecstack --pack-dyn-relocs=relr --gc-sections \
           --build-id=none -T image/kernel-x86_64.ld
$(KX)/urmqtt.full.elf: $(kx_objects) $(BORINGSSL_X86_LIB) image/kernel-x86_64.ld
	@$(LD) $(KX_LINK) -o $@ $(filter %.o %.a,$^)
# Without section headers: GRUB refuses any file with a relocation section, even an empty one. p_align 2 MiB: other
# PVH loaders refuse less.
$(KX)/urmqtt.elf: $(KX)/urmqtt.full.elf image/elf-align
	@$(OBJCOPY) --strip-all --strip-sections $< $@.tmp
	@image/elf-align $@.tmp
	@mv $@.tmp $@
	@size=$$(stat -c %s $@); echo "kernel: $@, $$size bytes"; [ $$size -le 4194304 ] || { echo "kernel: over 4 MiB" >&2; exit 1; }
x86_64: $(KX)/urmqtt.elf ## the kernel for x86_64
.PHONY: x86_64

# The kernel's mem* under other names, beside the C library's: for the differential test and the bench.
$(B)/test/arch/x86_64/mem_renamed.o: src/arch/x86_64/mem.S
	@mkdir -p $(@D)
	@$(CLANG) '-DMEM_NAME(x)=our_##x' -MMD -MP -c $< -o $@
$(B)/test/arch/x86_64/mem_test: src/arch/x86_64/mem_test.c $(B)/test/arch/x86_64/mem_renamed.o
	@mkdir -p $(@D)
	@$(CLANG) $(HOST) -Wno-missing-prototypes -Wno-conversion -O1 -MF $@.d $(filter %.c %.o,$^) -lcmocka -o $@
$(B)/bench/mem_bench: tests/bench/mem_bench.c $(B)/test/arch/x86_64/mem_renamed.o
	@mkdir -p $(@D)
	@$(CLANG) $(HOST) -O2 -fno-builtin -MF $@.d $(filter %.c %.o,$^) -o $@
bench-mem: $(B)/bench/mem_bench ## cycles a call of the kernel's mem* and the C library's
	@$(B)/bench/mem_bench
.PHONY: bench-mem
