// SPDX-License-Identifier: Apache-2.0
// Proves: a volume goes before a slot; each source that is not taken is named with its reason and
// passed over whole; names as loaders write them are understood.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/medium.h"
#include "admin/slot.h"
#include "admin/source.h"

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
  static u8 memory[SOURCE_BUNDLE_MAX + MEDIUM_WINDOW + 2 * PLAT_PAGE];
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_setup(nothing, clear),
                                     cmocka_unit_test_setup(volume_before_slot, clear),
                                     cmocka_unit_test_setup(archive_itself, clear),
                                     cmocka_unit_test_setup(volume_of_others, clear),
                                     cmocka_unit_test_setup(volume_damaged, clear),
                                     cmocka_unit_test_setup(volume_too_large, clear),
                                     cmocka_unit_test_setup(slot_damaged, clear),
                                     cmocka_unit_test_setup(hostile_name, clear)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
