// SPDX-License-Identifier: Apache-2.0
// Proves: a volume goes before a slot; each source that is not taken is named with its reason and
// passed over whole; names as loaders write them are understood; a volume on a disk of ours is read
// whatever its blocks, a disk that fails at any read is named, one that falls silent costs a
// bounded time and its memory is not read again.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/medium.h"
#include "admin/slot.h"
#include "admin/source.h"
#include "store/block_fault.h"
#include "store/block_memory.h"

static struct plat_bundle given[40];
static u32 given_count;
static char said[4096];
static u32 said_len;
static struct source got;

u32 plat_bundles(struct plat_bundle *out, u32 max) {
  assert_true(given_count <= max);
  memcpy(out, given, sizeof given);
  return given_count;
}
void plat_console(struct bytes text) {
  assert_true(said_len + text.len < sizeof said);
  memcpy(said + said_len, text.ptr, text.len);
  said_len += (u32)text.len;
  said[said_len] = 0;
}

static struct block *disks[3];
static u32 disk_count;
static u64 now_ns;
struct block *plat_disk(u32 nth) {
  return nth < disk_count ? disks[nth] : NULL;
}
u64 plat_now_ns(void) {
  return now_ns += 1000;
}
void plat_idle(u32 core, u64 deadline_ns) {
  assert_int_equal(core, 0);
  now_ns = deadline_ns > now_ns ? deadline_ns : now_ns;
}

static void give(const char *name, const void *p, usize len) {
  given[given_count++] = (struct plat_bundle){.name = name, .tar = bytes_of(p, len)};
}
static void give_text(const char *name, const char *text) {
  give(name, text, strlen(text));
}

static u8 tar_memory[4096];
static u8 slot_memory[SLOT_SIZE];
static struct bytes tar_with(const char *conf) {
  u32 pos = 0;
  struct span data;
  struct span out = span_of(tar_memory, sizeof tar_memory);
  assert_int_equal(ustar_add(out, &pos, BYTES_LIT("urmqtt.conf"), (u32)strlen(conf), &data),
                   ERR_OK);
  memcpy(data.ptr, conf, data.len);
  return ustar_finish(out, pos);
}
static void give_slot(const char *conf) {
  assert_int_equal(slot_write(span_of(slot_memory, SLOT_SIZE), tar_with(conf)), ERR_OK);
  give("config.slot", slot_memory, SLOT_SIZE);
}
static bool find(void) {
  static u8 memory[2 * SOURCE_BUNDLE_MAX + MEDIUM_WINDOW + 2 * PLAT_PAGE];
  struct carve c = {.region = {span_of(memory, sizeof memory)}, .region_count = 1};
  memset(memory, 0, sizeof memory);
  said_len = 0;
  said[0] = 0;
  return source_find(&c, &got);
}
static void conf_is(const char *name, const char *conf) {
  struct bytes b;
  assert_string_equal(got.name, name);
  assert_int_equal(ustar_find(got.tar, BYTES_LIT("urmqtt.conf"), &b), ERR_OK);
  assert_true(bytes_equal_str(b, conf));
}
static int clear(void **state) {
  (void)state;
  given_count = 0;
  disk_count = 0;
  got = (struct source){.name = ""};
  return 0;
}

static void nothing(void **state) {
  (void)state;
  assert_false(find());
  assert_string_equal(said, "");
}

static void volume_before_slot(void **state) {
  (void)state;
  give_slot("slot");
  give_text("volume:(cd0)", "first sector");
  give_text("(cd0)/urmqtt.conf", "volume");
  give_text("\"(cd0)/a key\"", "k");
  give_text("(cd0)/empty", "");
  assert_true(find());
  conf_is("the volume (cd0)", "volume");
  struct bytes b;
  assert_int_equal(ustar_find(got.tar, BYTES_LIT("a key"), &b), ERR_OK);
  assert_int_equal(ustar_find(got.tar, BYTES_LIT("empty"), &b), ERR_OK);
  assert_int_equal(b.len, 0);
  assert_string_equal(said, "");
}

static void archive_itself(void **state) {
  (void)state;
  struct bytes t = tar_with("archive");
  give("boot module", t.ptr, t.len);
  assert_true(find());
  conf_is("boot module", "archive");
}

static void volume_of_others(void **state) {
  (void)state;
  give_slot("slot");
  give_text("volume:(ata1)", "first sector");
  give_text("(ata1)/user-data", "#cloud-config");
  assert_true(find());
  conf_is("config.slot", "slot");
  assert_non_null(strstr(said, "the volume (ata1) has no urmqtt.conf in its root folder"));
}

static void volume_damaged(void **state) {
  (void)state;
  give_slot("slot");
  give_text("volume:(hd0)", "first sector");
  give_text("(hd0)/urmqtt.conf", "half");
  give_text("unreadable:(hd0)/server.key", "first sector");
  assert_true(find());
  conf_is("config.slot", "slot");
  assert_non_null(strstr(said, "the volume (hd0) is damaged"));
}

static void volume_too_large(void **state) {
  (void)state;
  static u8 big[SOURCE_BUNDLE_MAX];
  give_text("volume:(hd0)", "first sector");
  give_text("(hd0)/urmqtt.conf", "c");
  give("(hd0)/big", big, sizeof big);
  assert_false(find());
  assert_non_null(strstr(said, "the volume (hd0) holds more than 1024 KiB"));
}

static void slot_damaged(void **state) {
  (void)state;
  give_slot("slot");
  slot_memory[SLOT_HEADER + 3] ^= 1;
  assert_false(find());
  assert_non_null(strstr(said, "config.slot is damaged"));
}

static void hostile_name(void **state) {
  (void)state;
  give_text("volume:(\x1b[2J)", "first sector");
  assert_false(find());
  assert_null(strchr(said, 0x1b));
  assert_non_null(strstr(said, "\\x1b"));
}

// --- Volumes on disks of ours

#define DISK_LEN (2u << 20)
static u8 now[2][DISK_LEN], stable[DISK_LEN];
static u32 dirty[DISK_LEN / 512];
static struct block_memory mem[2];
static struct block_fault fault;

// A FAT volume with urmqtt.conf "disk" and a file of 300 KiB; its label is ours or not.
static void make_disk(u32 k, u32 block_len, const char *label) {
  char c[600];
  snprintf(
      c, sizeof c,
      "PATH=$PATH:/sbin:/usr/sbin; d=$(mktemp -d) && cd $d && truncate -s 2M i && mkfs.fat -F 12 "
      "-S "
      "%u -n %s i >/dev/null && printf disk >urmqtt.conf && head -c 300000 /dev/zero >ca.crt && "
      "mcopy -i i urmqtt.conf ca.crt ::/ && cat i; rm -rf $d",
      block_len, label);
  FILE *f = popen(c, "r");
  assert_non_null(f);
  assert_int_equal(fread(now[k], 1, DISK_LEN, f), DISK_LEN);
  assert_int_equal(pclose(f), 0);
  block_memory_init(&mem[k], span_of(now[k], DISK_LEN), span_of(stable, DISK_LEN), dirty, block_len,
                    1);
  disks[k] = &mem[k].block;
  disk_count = MAX(disk_count, k + 1);
}

static void disk_before_slot(void **state) {
  (void)state;
  for (u32 block_len = 512; block_len <= 4096; block_len *= 8) {
    disk_count = 0;
    given_count = 0;
    give_slot("slot");
    make_disk(0, block_len, "OTHER");
    assert_true(find());
    conf_is("config.slot", "slot");
    assert_string_equal(said, "");
    make_disk(1, block_len, "CIDATA");
    assert_true(find());
    conf_is("the volume on disk memory", "disk");
    struct bytes b;
    assert_int_equal(ustar_find(got.tar, BYTES_LIT("ca.crt"), &b), ERR_OK);
    assert_int_equal(b.len, 300000);
  }
}

// Each read of the disk fails once: the volume is whole, or it is named and the slot counts.
static void disk_fails(void **state) {
  (void)state;
  u32 damaged = 0;
  u32 nth = 0;
  give_slot("slot");
  make_disk(0, 512, "URMQTT");
  do {
    block_fault_init(&fault, &mem[0].block, BLOCK_FAULT_ERROR, ++nth, span_of(NULL, 0));
    disks[0] = &fault.block;
    assert_true(find());
    if (strcmp(got.name, "config.slot") == 0) {
      damaged += strstr(said, "is damaged") != NULL;
    } else {
      conf_is("the volume on disk memory", "disk");
    }
    assert_true(nth < 100);
  } while (fault.fired);
  assert_true(damaged >= 4);
  conf_is("the volume on disk memory", "disk");
}

static void disk_is_silent(void **state) {
  (void)state;
  give_slot("slot");
  make_disk(0, 512, "CIDATA");
  make_disk(1, 512, "CIDATA");
  block_fault_init(&fault, &mem[0].block, BLOCK_FAULT_STUCK, 3, span_of(NULL, 0));
  disks[0] = &fault.block;
  u64 before = now_ns;
  assert_true(find());
  conf_is("config.slot", "slot");
  assert_true(now_ns - before < 70000000000ull);
  assert_non_null(strstr(said, "does not answer"));
  u64 reads = mem[1].reads;
  struct source again;
  assert_true(source_read(&got, &again));
  assert_int_equal(mem[1].reads, reads);
  assert_string_equal(again.name, "config.slot");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(nothing, clear),
                                     cmocka_unit_test_setup(volume_before_slot, clear),
                                     cmocka_unit_test_setup(archive_itself, clear),
                                     cmocka_unit_test_setup(volume_of_others, clear),
                                     cmocka_unit_test_setup(volume_damaged, clear),
                                     cmocka_unit_test_setup(volume_too_large, clear),
                                     cmocka_unit_test_setup(slot_damaged, clear),
                                     cmocka_unit_test_setup(hostile_name, clear),
                                     cmocka_unit_test_setup(disk_before_slot, clear),
                                     cmocka_unit_test_setup(disk_fails, clear),
                                     cmocka_unit_test_setup(disk_is_silent, clear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
