# Host programs for users.
stamp_src := tools/urmqtt-stamp.c tools/stamp_mosquitto.c src/plat/hosted/bundle.c
stamp_core := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter src/base/%.c src/admin/ustar.c src/admin/ustar_write.c src/admin/conf.c src/admin/slot.c \
  src/admin/config.c src/admin/keyword%.c src/admin/config_tls.c src/admin/security_check.c src/broker/acl.c \
  src/broker/acl_parse.c src/broker/password.c src/broker/block.c src/loop/pool.c src/dynsec/file.c src/dynsec/fill.c src/dynsec/table.c \
  src/mqtt/topic.c src/tls/%.c,$(core_src)) src/plat/hosted/stack_guard.c)
$(B)/tools/urmqtt-stamp: $(stamp_src) $(stamp_core) $(BORINGSSL_X86_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -O2 -fPIE -pie -fuse-ld=lld -Wl,--gc-sections -MF $(B)/tools/stamp.d $(stamp_src) \
	  $(filter %.o %.a,$^) -o $@
ctl_src := tools/urmqttctl.c tools/ctl_link.c tools/ctl_table.c tools/ctl_ask.c tools/ctl_config.c src/plat/hosted/bundle.c
ctl_core := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter src/base/%.c,$(core_src)) src/plat/hosted/stack_guard.c)
$(B)/tools/urmqttctl: $(ctl_src) tools/ctl_link.h tools/ctl_table.h tools/ctl_ask.h tools/ctl_config.h $(ctl_core)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -O2 -fPIE -pie -fuse-ld=lld -Wl,--gc-sections -MF $(B)/tools/ctl.d $(ctl_src) $(ctl_core) \
	  -lmosquitto -lcrypto -o $@
disk_core := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter src/base/%.c src/store/disk.c src/store/superblock.c src/store/extents.c \
  src/store/gpt.c src/store/script.c src/tls/digest.c,$(core_src)) src/plat/hosted/stack_guard.c src/plat/hosted/disk.c)
$(B)/tools/urmqtt-disk: tools/urmqtt-disk.c $(disk_core) $(BORINGSSL_X86_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(HOST) -O2 -fPIE -pie -fuse-ld=lld -Wl,--gc-sections -MF $(B)/tools/disk.d $< $(filter %.o %.a,$^) -lpthread -o $@
tools: $(B)/tools/urmqtt-stamp $(B)/tools/urmqttctl $(B)/tools/urmqtt-disk ## urmqtt-stamp, urmqttctl, urmqtt-disk
pki: ## test certificates under build/pki (made once, never overwritten)
	@tools/pki $(B)/pki
test-tools: $(B)/tools/urmqtt-stamp $(B)/tools/urmqtt-disk pki ## ./urmqtt, urmqtt-stamp and the PKI as a user meets them
	/usr/bin/python3 -m pytest -q -p no:cacheprovider tests/system/test_tools.py
.PHONY: tools pki test-tools
