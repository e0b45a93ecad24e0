# SPDX-License-Identifier: Apache-2.0
qemu_images := $(B)/x86_64/urmqtt.elf $(B)/aarch64/Image $(B)/urmqtt.iso $(B)/tools/urmqtt-stamp $(B)/tools/urmqtt-disk $(B)/bench/mqttmix pki
qemu: $(qemu_images) ## boot tests in QEMU, short form
	@mkdir -p $(B)/qemu && rm -f $(B)/qemu/accel
	B=$(B) /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/qemu
qemu-matrix: $(qemu_images) $(wycheproof_images) ## boot tests in QEMU, every firmware, machine and medium
	@mkdir -p $(B)/qemu && rm -f $(B)/qemu/accel
	B=$(B) /usr/bin/python3 -m pytest -q -p no:cacheprovider tests/qemu --matrix
.PHONY: qemu qemu-matrix
