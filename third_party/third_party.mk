# SPDX-License-Identifier: Apache-2.0
# How BoringSSL, SQLite and argon2 are fetched, checked, configured and built. Nothing is vendored: third_party/fetch gets the
# sources from the Debian archive and checks pinned digests. Another source tree (for example a newer BoringSSL) is
# taken by BORINGSSL_SOURCE=DIR, which is then used as it is.
BORINGSSL_X86_LIB   := $(B)/third_party/x86_64/libboringssl.a
BORINGSSL_ARM_LIB   := $(B)/third_party/aarch64/libboringssl.a
BORINGSSL_ASAN_LIB  := $(B)/third_party/asan/libboringssl.a
# asan with the fuzzers' edge counters: for what fuzzes through the library.
BORINGSSL_FUZZ_LIB  := $(B)/third_party/fuzz/libboringssl.a
SQLITE_X86_LIB      := $(B)/third_party/x86_64/libsqlite.a
SQLITE_ARM_LIB      := $(B)/third_party/aarch64/libsqlite.a
SQLITE_ASAN_LIB     := $(B)/third_party/asan/libsqlite.a
ARGON2_X86_LIB      := $(B)/third_party/x86_64/libargon2.a
ARGON2_ARM_LIB      := $(B)/third_party/aarch64/libargon2.a
ARGON2_ASAN_LIB     := $(B)/third_party/asan/libargon2.a
# -idirafter: core code, compiled without a C library's headers, finds the few that BoringSSL's headers name in
# third_party/include; a test, compiled with the C library, finds the library's own first.
BORINGSSL_INC := -isystem $(B)/third_party/boringssl/src/include -idirafter third_party/include -D__TRUSTY__
SQLITE_INC    := -isystem $(B)/third_party/sqlite-amalgamation -idirafter third_party/include
ARGON2_INC    := -isystem $(B)/third_party/argon2/include -idirafter third_party/include
TP_CACHE      := $(B)/cache
BORINGSSL_SOURCE ?=

BORINGSSL_STAMP := $(B)/third_party/boringssl/src/include/openssl/ssl.h
SQLITE_STAMP    := $(B)/third_party/sqlite/src/vdbe.c
ARGON2_STAMP    := $(B)/third_party/argon2/src/core.c
sqlite_c        := $(B)/third_party/sqlite-amalgamation/sqlite3.c

$(BORINGSSL_STAMP): third_party/fetch
	@mkdir -p $(B)/third_party
	@if [ -n "$(BORINGSSL_SOURCE)" ]; then \
	  ln -sfn "$(abspath $(BORINGSSL_SOURCE))" $(B)/third_party/boringssl; \
	else third_party/fetch boringssl $(B)/third_party/boringssl $(TP_CACHE) && touch $@; fi
$(SQLITE_STAMP): third_party/fetch
	@mkdir -p $(B)/third_party
	@third_party/fetch sqlite $(B)/third_party/sqlite $(TP_CACHE)
	@touch $@

$(ARGON2_STAMP): third_party/fetch
	@mkdir -p $(B)/third_party
	@third_party/fetch argon2 $(B)/third_party/argon2 $(TP_CACHE)
	@touch $@

# + hands the job server on, so that -j counts for the objects too.
$(B)/third_party/%/libboringssl.a: $(BORINGSSL_STAMP) third_party/boringssl.mk third_party/secrets.cc third_party/boringssl_cores.c
	+@$(MAKE) --no-print-directory -f third_party/boringssl.mk B=$(B) TARGET=$* CLANG=$(CLANG) AR=$(AR)

third-party: $(BORINGSSL_X86_LIB) $(BORINGSSL_ASAN_LIB) $(SQLITE_X86_LIB) $(SQLITE_ASAN_LIB) $(ARGON2_X86_LIB) $(ARGON2_ASAN_LIB) ## fetch, check and build BoringSSL, SQLite and argon2
third-party-fuzz: $(BORINGSSL_FUZZ_LIB) ## BoringSSL with the fuzzers' counters
third-party-aarch64: $(BORINGSSL_ARM_LIB) $(SQLITE_ARM_LIB) $(ARGON2_ARM_LIB) ## BoringSSL, SQLite and argon2 for aarch64 (needs libc6-dev-arm64-cross's headers)
.PHONY: third-party third-party-fuzz third-party-aarch64

# --- SQLite: the amalgamation is made from Debian's source tree by the project's own generator (tclsh), then built
# without an operating system layer: src/store/vfs_sqlite.c is that (SQLITE_OS_OTHER). The heap is one fixed block
# (MEMSYS5), so malloc is never called (ZERO_MALLOC); nothing is put into temporary files.
# What of a C library it wants it gets from third_party/sqlite_string.c and, in the kernels, a copy of mem*: all under
# names of their own (store_*), in sections of their own (image/kernel-*.ld), so that it shares nothing with the rest.
SQLITE_OPTIONS := -DSQLITE_OS_OTHER=1 -DSQLITE_THREADSAFE=0 -DSQLITE_ZERO_MALLOC -DSQLITE_ENABLE_MEMSYS5 \
  -DSQLITE_TEMP_STORE=3 -DSQLITE_STMTJRNL_SPILL=-1 -DSQLITE_MAX_MMAP_SIZE=0 -DSQLITE_DQS=0 -DSQLITE_DEFAULT_MEMSTATUS=1 \
  -DSQLITE_MAX_EXPR_DEPTH=100 -DSQLITE_LIKE_DOESNT_MATCH_BLOBS -DSQLITE_UNTESTABLE -DSQLITE_OMIT_LOAD_EXTENSION \
  -DSQLITE_OMIT_AUTOINIT -DSQLITE_OMIT_DEPRECATED -DSQLITE_OMIT_SHARED_CACHE -DSQLITE_OMIT_PROGRESS_CALLBACK \
  -DSQLITE_OMIT_DECLTYPE -DSQLITE_OMIT_LOCALTIME -DSQLITE_OMIT_JSON -DSQLITE_OMIT_GET_TABLE \
  -DSQLITE_OMIT_DESERIALIZE -DSQLITE_DISABLE_FTS3_UNICODE -DSQLITE_POWERSAFE_OVERWRITE=0 -DLONGDOUBLE_TYPE=double -DHAVE_MALLOC_USABLE_SIZE=0
SQLITE_COMMON := -std=gnu11 -O2 -fpie -fvisibility=hidden -ffunction-sections -fdata-sections -fno-unwind-tables \
  -fno-asynchronous-unwind-tables -w $(SQLITE_OPTIONS)
sqlite_cc_x86_64 := --target=x86_64-unknown-none-elf -mno-red-zone -ffreestanding -fstack-protector-strong -nostdlibinc \
  -isystem /usr/include/x86_64-linux-gnu -isystem /usr/include -U__linux__ $(if $(shell grep -s clang_prereq \
  /usr/include/x86_64-linux-gnu/bits/floatn.h),-D_BITS_FLOATN_H -D__HAVE_FLOAT128=0 -D__HAVE_DISTINCT_FLOAT128=0 -D__HAVE_FLOAT64X=0)
sqlite_cc_aarch64 := --target=aarch64-unknown-none-elf -mbranch-protection=standard -mno-outline-atomics -ffreestanding \
  -fstack-protector-strong -nostdlibinc -isystem /usr/aarch64-linux-gnu/include
sqlite_cc_asan := -fsanitize=address -fno-omit-frame-pointer
sqlite_rename := $(foreach f,memcpy memmove memset memcmp strlen strcmp strncmp strrchr strspn strcspn fabs,--redefine-sym $(f)=store_$(f))

$(sqlite_c): $(SQLITE_STAMP) third_party/third_party.mk
	@command -v tclsh >/dev/null || { echo "sqlite: 'tclsh' is missing: install the Debian package tcl" >&2; exit 1; }
	@rm -rf $(@D) && mkdir -p $(@D)/make
	@cd $(@D)/make && { ../../sqlite/configure --disable-tcl --disable-shared --disable-readline && \
	  env -u MAKEFLAGS -u MFLAGS $(MAKE) -j1 sqlite3.c; } >log 2>&1 || { tail -n 20 log; exit 1; }
	@mv $(@D)/make/sqlite3.c $(@D)/make/sqlite3.h $(@D)/ && rm -rf $(@D)/make
	@sed -i -E 's/\<([0-9.]+e[+-][0-9]+)L\>/\1/g' $@ # LONGDOUBLE_TYPE; on aarch64 a long double is a library's work
define sqlite_rules
$$(B)/third_party/$(1)/sqlite/sqlite3.o: $$(sqlite_c)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(sqlite_cc_$(1)) $$(SQLITE_COMMON) -c $$< -o $$@
$$(B)/third_party/$(1)/sqlite/string.o: third_party/sqlite_string.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(sqlite_cc_$(1)) $$(SQLITE_COMMON) -fno-builtin -c $$< -o $$@
$$(B)/third_party/$(1)/sqlite/mem.o: src/arch/$(1)/mem.S
	@mkdir -p $$(@D)
	@$$(CLANG) $$(sqlite_cc_$(1)) -Isrc -c $$< -o $$@
endef
$(foreach t,x86_64 aarch64 asan,$(eval $(call sqlite_rules,$(t))))
# One object, in which the names are bound: a sanitized build keeps the C library's, which the sanitizer watches.
$(SQLITE_X86_LIB) $(SQLITE_ARM_LIB): $(B)/third_party/%/libsqlite.a: $(addprefix $(B)/third_party/%/sqlite/,sqlite3.o string.o mem.o)
	@for o in $^; do $(OBJCOPY) $(sqlite_rename) --redefine-sym mem_wide=store_mem_wide $$o $(@D)/sqlite/store_$$(basename $$o); done
	@rm -f $@
	@$(AR) rcs $@ $(addprefix $(@D)/sqlite/store_,$(notdir $^))
	@echo "sqlite: $@"
$(SQLITE_ASAN_LIB): $(B)/third_party/asan/sqlite/sqlite3.o
	@rm -f $@
	@$(AR) rcs $@ $^
	@echo "sqlite: $@"

# --- argon2: the library's own files, one thread. opt.c fills blocks with SSE2, which every x86_64 has (a quarter faster
# than ref.c); ref.c is portable. The two -D lead one call a block and the wiping through argon2_pause.c (docs/adr/0016).
argon2_fill_x86_64 := opt
argon2_fill_asan := opt
argon2_fill_aarch64 := ref
argon2_cc_x86_64 := --target=x86_64-unknown-none-elf -mno-red-zone -ffreestanding -fstack-protector-strong -nostdlibinc \
  -isystem /usr/include/x86_64-linux-gnu -isystem /usr/include -U__linux__ $(if $(shell grep -s clang_prereq \
  /usr/include/x86_64-linux-gnu/bits/floatn.h),-D_BITS_FLOATN_H -D__HAVE_FLOAT128=0 -D__HAVE_DISTINCT_FLOAT128=0 -D__HAVE_FLOAT64X=0)
argon2_cc_aarch64 := --target=aarch64-unknown-none-elf -mbranch-protection=standard -ffreestanding -fstack-protector-strong \
  -nostdlibinc -isystem /usr/aarch64-linux-gnu/include
argon2_cc_asan := -fsanitize=address -fno-omit-frame-pointer
ARGON2_COMMON := -std=gnu11 -O2 -fpie -fvisibility=hidden -ffunction-sections -fdata-sections -fno-unwind-tables \
  -fno-asynchronous-unwind-tables -w -DARGON2_NO_THREADS -I$(B)/third_party/argon2/include -I$(B)/third_party/argon2/src
define argon2_rules
$$(B)/third_party/$(1)/argon2/%.o: $$(B)/third_party/argon2/src/%.c
	@mkdir -p $$(@D)
	@$$(CLANG) $$(argon2_cc_$(1)) $$(ARGON2_COMMON) $$(ARGON2_DEFINE) -c $$< -o $$@
$$(B)/third_party/$(1)/argon2/pause.o: third_party/argon2_pause.c $$(ARGON2_STAMP)
	@mkdir -p $$(@D)
	@$$(CLANG) $$(argon2_cc_$(1)) $$(ARGON2_COMMON) -c $$< -o $$@
$$(B)/third_party/$(1)/argon2/$$(argon2_fill_$(1)).o: ARGON2_DEFINE := -Dindex_alpha=argon_index_alpha
$$(B)/third_party/$(1)/argon2/core.o: ARGON2_DEFINE := -Dexplicit_bzero=argon_wipe
$$(B)/third_party/$(1)/libargon2.a: $$(patsubst %,$$(B)/third_party/$(1)/argon2/%.o,$$(argon2_fill_$(1)) argon2 core \
                                      encoding blake2/blake2b pause) third_party/third_party.mk
	@rm -f $$@
	@$$(AR) rcs $$@ $$(filter %.o,$$^)
	@echo "argon2: $$@"
endef
$(foreach t,x86_64 aarch64 asan,$(eval $(call argon2_rules,$(t))))
$(patsubst %,$(B)/third_party/argon2/src/%.c,opt ref argon2 encoding blake2/blake2b): $(ARGON2_STAMP) ;
