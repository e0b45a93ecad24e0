# SPDX-License-Identifier: Apache-2.0
# build/urmqtt.iso: one hybrid image for CD and disk, x86_64 by BIOS and UEFI, aarch64 by UEFI, by GRUB from Debian's packages. Every module GRUB
# needs is inside its core images. Made twice it is the same bytes (SOURCE_DATE_EPOCH, fixed FAT serial number).
IMG      := $(B)/image
# Not URMQTT: that is a configuration volume.
ISO_ID   := URMQTT_LIVE
ISO_MARK := .disk/urmqtt-$(VERSION)
GRUB_COMMON := part_gpt part_msdos iso9660 fat search search_fs_file search_label normal configfile echo \
               test true regexp sleep minicmd terminal all_video
# GRUB's own drivers, for a CD that the firmware does not show: loaded when no volume was found, as they push it aside. They lie
# in the core image: nativedisk waits for ever for a disk that it was loaded from and that its drivers do not know.
GRUB_NATIVE := pata ahci ata scsi
GRUB_MEMDISK = -m $(IMG)/native.tar
iso_epoch = $(SOURCE_DATE_EPOCH)

# The place for the configuration, empty; build/tools/urmqtt-stamp finds it in the ISO and fills it.
$(IMG)/config.slot: $(B)/tools/urmqtt-stamp
	@mkdir -p $(@D)
	@$< --empty-slot $@
$(IMG)/early.cfg: image/image.mk
	@mkdir -p $(@D)
	@printf 'search --no-floppy --file --set=root /%s\nset prefix=($$root)/boot/grub\n' $(ISO_MARK) >$@
$(IMG)/native.tar: image/image.mk
	@mkdir -p $(@D)
	@tar --format=ustar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=0644 -C /usr/lib/grub -cf $@ \
	  $(foreach p,i386-pc x86_64-efi,$(GRUB_NATIVE:%=$(p)/%.mod))
$(IMG)/eltorito.img: $(IMG)/early.cfg $(IMG)/native.tar
	grub-mkimage -O i386-pc-eltorito -o $@ -p /boot/grub -c $< $(GRUB_MEMDISK) $(GRUB_COMMON) multiboot2 biosdisk serial vbe vga \
	  nativedisk memdisk tar
$(IMG)/BOOTX64.EFI: $(IMG)/early.cfg $(IMG)/native.tar
	grub-mkimage -O x86_64-efi -o $@ -p /boot/grub -c $< $(GRUB_MEMDISK) $(GRUB_COMMON) multiboot2 chain efi_gop nativedisk memdisk tar
# GRUB's modules for aarch64 are in a package of that architecture: unpacked, not installed.
$(IMG)/grub-arm64/moddep.lst: image/fetch-grub
	@B=$(B) image/fetch-grub $(@D)
	@touch $@
$(IMG)/BOOTAA64.EFI: $(IMG)/early.cfg $(IMG)/grub-arm64/moddep.lst
	grub-mkimage -O arm64-efi -d $(IMG)/grub-arm64 -o $@ -p /boot/grub -c $< $(GRUB_COMMON) linux fdt chain efi_gop
$(IMG)/efi.img: $(IMG)/BOOTX64.EFI $(IMG)/BOOTAA64.EFI
	@rm -f $@ && truncate -s 2880K $@
	mkfs.fat -F 12 -i 55524d51 -n ESP --invariant $@ >/dev/null
	@touch -hd @$(iso_epoch) $^
	@mmd -i $@ ::/EFI ::/EFI/BOOT && mcopy -m -i $@ $^ ::/EFI/BOOT/

# What the installer puts on a disk (docs/formats/install.md). This GRUB knows where it was started from and needs no search.
GRUB_DISK := part_gpt fat normal configfile echo test true sleep minicmd terminal all_video search search_label
$(IMG)/unfinished.bin: image/unfinished.S
	@mkdir -p $(@D)
	@$(CLANG) --target=i386-unknown-none-elf -c $< -o $(@:.bin=.o)
	@$(LD) -m elf_i386 -Ttext=0x7c00 --oformat binary $(@:.bin=.o) -o $@
$(IMG)/disk-core.img: image/image.mk
	grub-mkimage -O i386-pc -o $@ -p '(,gpt2)/grub' $(GRUB_DISK) multiboot2 biosdisk serial vbe vga
$(IMG)/DISKX64.EFI: image/image.mk
	grub-mkimage -O x86_64-efi -o $@ -p /grub $(GRUB_DISK) multiboot2 efi_gop
$(IMG)/DISKAA64.EFI: $(IMG)/grub-arm64/moddep.lst
	grub-mkimage -O arm64-efi -d $(IMG)/grub-arm64 -o $@ -p /grub $(GRUB_DISK) linux fdt efi_gop
$(IMG)/install.img: image/mkinstall $(IMG)/unfinished.bin $(IMG)/disk-core.img $(IMG)/DISKX64.EFI $(IMG)/DISKAA64.EFI \
  image/disk.cfg $(B)/x86_64/urmqtt.elf $(B)/aarch64/Image
	image/mkinstall $@ $(VERSION) /usr/lib/grub/i386-pc/boot.img $(IMG)/disk-core.img $(IMG)/unfinished.bin $(IMG)/DISKX64.EFI \
	  $(IMG)/DISKAA64.EFI image/disk.cfg $(B)/x86_64/urmqtt.elf $(B)/aarch64/Image

$(B)/urmqtt.iso: $(B)/x86_64/urmqtt.elf $(B)/aarch64/Image $(IMG)/config.slot $(IMG)/eltorito.img $(IMG)/efi.img $(IMG)/install.img image/grub.cfg image/image.mk
	@rm -rf $(IMG)/root && mkdir -p $(IMG)/root/boot/grub $(IMG)/root/.disk
	@cp $(B)/x86_64/urmqtt.elf $(IMG)/config.slot $(IMG)/install.img $(IMG)/root/boot/
	@cp $(B)/aarch64/Image $(IMG)/root/boot/urmqtt.aarch64
	@cp $(IMG)/eltorito.img image/grub.cfg $(IMG)/root/boot/grub/
	@echo "urMQTT $(VERSION)" >$(IMG)/root/$(ISO_MARK)
	@find $(IMG)/root -exec touch -hd @$(iso_epoch) {} +
	@rm -f $@
	@xorriso -report_about WARNING -as mkisofs -r -V $(ISO_ID) -o $@ \
	  --modification-date=$$(date -u -d @$(iso_epoch) +%Y%m%d%H%M%S00) \
	  --grub2-mbr /usr/lib/grub/i386-pc/boot_hybrid.img -partition_offset 16 -appended_part_as_gpt \
	  -append_partition 2 0xef $(IMG)/efi.img \
	  -b boot/grub/eltorito.img -no-emul-boot -boot-load-size 4 -boot-info-table --grub2-boot-info \
	  -eltorito-alt-boot -e --interval:appended_partition_2:all:: -no-emul-boot $(IMG)/root/
	@size=$$(stat -c %s $@); echo "iso: $@, $$size bytes"; [ $$size -le 25165824 ] || { echo "iso: over 24 MiB" >&2; exit 1; }
iso: $(B)/urmqtt.iso ## the ISO: x86_64 by BIOS and UEFI, aarch64 by UEFI, as CD and as disk
.PHONY: iso
