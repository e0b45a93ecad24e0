# SPDX-License-Identifier: Apache-2.0
# The network alone over TAP, sanitized, against Linux (needs root or user namespaces, and /dev/net/tun).
net_echo_o := $(patsubst src/%.c,$(B)/asan/%.o,$(filter-out %_test.c %_fuzz.c %_host.c,\
  $(wildcard src/base/*.c src/loop/*.c src/net/*.c src/plat/*.c src/plat/hosted/*.c))) $(B)/asan/arch/x86_64/switch.o
$(B)/test/net_echo: tests/system/net_echo.c $(net_echo_o)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) $(ASAN_OPT) -fuse-ld=lld -Wl,--gc-sections $(filter %.c %.o,$^) -o $@
net-test: $(B)/test/net_echo $(B)/asan/urmqtt ## src/net over TAP with Linux as the peer: bulk, bad wire, ping, DHCP, IPv6
	/usr/bin/python3 -m pytest -q tests/system/test_net.py tests/system/test_net6.py
.PHONY: net-test
