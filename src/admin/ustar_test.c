// SPDX-License-Identifier: Apache-2.0
// Proves: archives as tar writes them are read entry by entry; links, devices, absolute names, ".."
// and prefixes are refused; a wrong checksum, a size beyond the end and an archive cut at any byte
// are never read past their end.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/ustar.h"

static void checksum(u8 *h) {
  u32 sum = 0;
  memset(h + 148, ' ', 8);
  for (u32 i = 0; i < USTAR_BLOCK; i++) {
    sum += h[i];
  }
  snprintf((char *)h + 148, 8, "%06o", sum);
}

static u32 add(u8 *tar, u32 at, const char *name, char type, const char *data) {
  u8 *h = tar + at;
  memset(h, 0, USTAR_BLOCK);
  strncpy((char *)h, name, 100);
  snprintf((char *)h + 124, 12, "%011o", (u32)strlen(data));
  h[156] = (u8)type;
  memcpy(h + 257, "ustar\00000", 8);
  checksum(h);
  u32 len = ALIGN_UP((u32)strlen(data), USTAR_BLOCK);
  memset(h + USTAR_BLOCK, 0, len);
  memcpy(h + USTAR_BLOCK, data, strlen(data));
  return at + USTAR_BLOCK + len;
}

static u8 tar[16384];

static u32 finish(u32 at) {
  memset(tar + at, 0, 2 * USTAR_BLOCK);
  return at + 2 * USTAR_BLOCK;
}

static enum err first(u32 len) {
  u32 pos = 0;
  struct ustar_entry e;
  return ustar_next(bytes_of(tar, len), &pos, &e);
}

static void entries(void **state) {
  (void)state;
  u32 end = add(tar, 0, "./", '5', "");
  end = add(tar, end, "./a", '0', "alpha");
  end = add(tar, end, "empty", 0, "");
  end = add(tar, end, "b..c", '0', "two dots inside a name are fine");
  end = finish(end);
  struct bytes t = bytes_of(tar, end);
  struct bytes d;
  u32 pos = 0;
  struct ustar_entry e;
  assert_int_equal(ustar_next(t, &pos, &e), ERR_OK);
  assert_true(bytes_equal_str(bytes_part(t, e.name), "a"));
  assert_true(bytes_equal_str(bytes_part(t, e.data), "alpha"));
  assert_int_equal(ustar_next(t, &pos, &e), ERR_OK);
  assert_int_equal(e.data.len, 0);
  assert_int_equal(ustar_next(t, &pos, &e), ERR_OK);
  assert_int_equal(ustar_next(t, &pos, &e), ERR_NOT_FOUND);
  assert_int_equal(ustar_find(t, BYTES_LIT("a"), &d), ERR_OK);
  assert_int_equal(ustar_find(t, BYTES_LIT("b..c"), &d), ERR_OK);
  assert_int_equal(ustar_find(t, BYTES_LIT("b"), &d), ERR_NOT_FOUND);
}

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *name;
    char type;
  } cases[] = {{"link", '2'},  {"hard", '1'}, {"device", '3'}, {"fifo", '6'},  {"/abs", '0'},
               {"../up", '0'}, {"a/..", '0'}, {"a/../b", '0'}, {"..", '0'},    {"", '0'},
               {"long", 'L'},  {"pax", 'x'},  {"./", '0'},     {"sparse", 'S'}};
  for (u32 i = 0; i < ARRAY_COUNT(cases); i++) {
    u32 end = finish(add(tar, 0, cases[i].name, cases[i].type, "data"));
    assert_int_equal(first(end), ERR_UNSUPPORTED);
  }
  u32 end = finish(add(tar, 0, "name", '0', "data"));
  assert_int_equal(first(end), ERR_OK);
  tar[345] = 'p';  // a prefix field
  checksum(tar);
  assert_int_equal(first(end), ERR_UNSUPPORTED);
}

static void damaged(void **state) {
  (void)state;
  u32 end = finish(add(tar, 0, "name", '0', "data"));
  for (u32 i = 0; i < USTAR_BLOCK; i++) {
    if (i < 148 || i >= 156) {  // bytes of the checksum itself may mean the same
      tar[i] ^= 0x15;
      assert_int_equal(first(end), ERR_MALFORMED);
      tar[i] ^= 0x15;
    }
  }
  static const char *const sizes[] = {"77777777777", "00000100000", "\200\0\0\0\0\0\0\0\0\0\4",
                                      "           ", "0000000000x"};
  for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
    memcpy(tar + 124, sizes[i], 11);
    checksum(tar);
    assert_int_equal(first(end), ERR_MALFORMED);
  }
  (void)add(tar, 0, "name", '0', "data");
  memcpy(tar + 257, "old!!", 5);
  checksum(tar);
  assert_int_equal(first(end), ERR_MALFORMED);
}

static void cut_anywhere(void **state) {
  (void)state;
  u32 end = add(tar, 0, "one", '0', "first file");
  end = finish(add(tar, end, "two", '0', "second file"));
  for (u32 len = 0; len < end; len++) {
    u8 *copy = malloc(len + 1);  // of exact size, so that ASan sees a byte too many
    memcpy(copy, tar, len);
    u8 *exact = realloc(copy, len == 0 ? 1 : len);
    u32 pos = 0;
    u32 count = 0;
    struct ustar_entry e;
    while (ustar_next(bytes_of(exact, len), &pos, &e) == ERR_OK) {
      count++;
      assert_true((u64)e.data.off + e.data.len <= len);
    }
    assert_true(count <= 2);
    assert_int_equal(count, (len >= USTAR_BLOCK + 10) + (len >= 3 * USTAR_BLOCK + 11));
    free(exact);
  }
}

static void as_tar_writes_it(void **state) {
  (void)state;
  FILE *f = popen(
      "d=$(mktemp -d) && cd $d && printf 'listener 1\\n' >urmqtt.conf && seq 400 >big && "
      "tar --format=ustar -cf - ./ ; rm -rf $d",
      "r");
  assert_non_null(f);
  usize len = fread(tar, 1, sizeof tar, f);
  assert_int_equal(pclose(f), 0);
  struct bytes data;
  assert_int_equal(ustar_find(bytes_of(tar, len), BYTES_LIT("urmqtt.conf"), &data), ERR_OK);
  assert_true(bytes_equal_str(data, "listener 1\n"));
  assert_int_equal(ustar_find(bytes_of(tar, len), BYTES_LIT("big"), &data), ERR_OK);
  assert_int_equal(data.len, 1492);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(entries), cmocka_unit_test(refused),
                                     cmocka_unit_test(damaged), cmocka_unit_test(cut_anywhere),
                                     cmocka_unit_test(as_tar_writes_it)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
