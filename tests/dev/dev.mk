# SPDX-License-Identifier: Apache-2.0
# Tests of the drivers: compiled for Linux with tests/dev/arch in the place of the processor, so that ports, device
# registers and barriers are calls into the test's device.
DEV_TEST = $(CLANG) -std=gnu2x -Itests/dev -Isrc -MMD -MP -g -D_GNU_SOURCE -Wall -Wextra -Wno-missing-prototypes \
            -fno-strict-aliasing $(ASAN_OPT)
dev_drivers := pci pci_assign virtqueue virtio_pci virtio_net requests virtio_blk scsi virtio_scsi virtio_scsi_probe
dev_o := $(patsubst %,$(B)/test/dev/obj/%.o,$(dev_drivers))
dev_base_o := $(patsubst src/%.c,$(B)/asan/%.o,$(filter-out %_test.c %_fuzz.c,$(wildcard src/base/*.c)))
$(B)/test/dev/obj/%.o: src/dev/%.c
	@mkdir -p $(@D)
	$(DEV_TEST) -ffreestanding -nostdinc -c $< -o $@
dev_tests := $(B)/test/dev/virtio_test $(B)/test/dev/disk_test $(B)/test/dev/pci_assign_test
$(dev_tests:$(B)/test/dev/%=$(B)/test/dev/obj/%.o): $(B)/test/dev/obj/%.o: src/dev/%.c
	@mkdir -p $(@D)
	$(DEV_TEST) -Wno-unused-function -c $< -o $@
$(dev_tests): $(B)/test/dev/%: $(B)/test/dev/obj/%.o $(dev_o) $(dev_base_o)
	$(CLANG) -fsanitize=address,undefined -fuse-ld=lld $^ -lcmocka -o $@
dev-mutants: $(dev_tests) ## each seeded bug in the virtio drivers must fail their test
	@B=$(B) tests/dev/mutants $(DEV_TEST)
.PHONY: dev-mutants
