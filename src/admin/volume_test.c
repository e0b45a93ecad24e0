// SPDX-License-Identifier: Apache-2.0
// Proves: volumes as xorriso and mkfs.fat make them (with and without Rock Ridge; FAT12, FAT16,
// FAT32; long names, several clusters) give exactly their files; another label is left alone; a
// medium cut at any KiB or failing at any read is an error, never a read outside.
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
#include "admin/volume.h"

struct image {
  u8 *bytes;
  u32 fail_at;  // the n-th read fails; 0 = none
  u32 reads;
};

static u8 out[1u << 18];
static char folder[] = "/tmp/urmqtt-volume-XXXXXX";

static bool read_image(void *ctx, u64 at, struct span to) {
  struct image *i = ctx;
  if (++i->reads == i->fail_at) {
    return false;
  }
  memcpy(to.ptr, i->bytes + at, to.len);
  return true;
}

static int setup(void **state) {
  (void)state;
  char c[512];
  assert_non_null(mkdtemp(folder));
  snprintf(c, sizeof c,
           "cd %s && mkdir d && printf 'listener 1883\\n' >d/urmqtt.conf && seq 9000 >d/ca.crt && "
           ": >d/empty && "
           "printf k >d/a-long-Name.with.dots.key && mkdir d/folder && echo x >d/folder/x",
           folder);
  return system(c);
}
static int teardown(void **state) {
  (void)state;
  char c[128];
  snprintf(c, sizeof c, "rm -rf %s", folder);
  return system(c);
}

// Makes an image by shell commands in the folder ($i is the image) and reads it.
static u64 make(const char *commands, u8 **bytes) {
  char c[1024];
  char path[128];
  snprintf(path, sizeof path, "%s/image", folder);
  snprintf(c, sizeof c,
           "PATH=$PATH:/sbin:/usr/sbin; cd %s && rm -f image && i=image && { %s ; } >log 2>&1 || { "
           "cat log; exit 1; }",
           folder, commands);
  assert_int_equal(system(c), 0);
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  fseek(f, 0, SEEK_END);
  u64 len = (u64)ftell(f);
  rewind(f);
  *bytes = malloc(len);
  assert_int_equal(fread(*bytes, 1, len, f), len);
  fclose(f);
  return len;
}

static enum err take(struct image *i, u64 len, struct bytes *tar) {
  struct volume_medium m = {read_image, i, len};
  i->reads = 0;
  return volume_bundle(&m, span_of(out, sizeof out), tar);
}

static void check_files(struct bytes tar, bool long_names) {
  struct bytes d;
  struct ustar_entry e;
  u32 pos = 0;
  u32 count = 0;
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    count++;
  }
  assert_int_equal(count, 4);
  assert_int_equal(ustar_find(tar, BYTES_LIT("urmqtt.conf"), &d), ERR_OK);
  assert_true(bytes_equal_str(d, "listener 1883\n"));
  assert_int_equal(ustar_find(tar, BYTES_LIT("ca.crt"), &d), ERR_OK);
  assert_int_equal(d.len, 43893);
  assert_memory_equal(d.ptr + d.len - 10, "8999\n9000\n", 10);
  assert_int_equal(ustar_find(tar, BYTES_LIT("empty"), &d), ERR_OK);
  assert_int_equal(d.len, 0);
  if (long_names) {
    assert_int_equal(ustar_find(tar, BYTES_LIT("a-long-Name.with.dots.key"), &d), ERR_OK);
    assert_true(bytes_equal_str(d, "k"));
  }
}

#define FILL " && mcopy -s -i $i d/* ::/"
static const char *const kinds[] = {
    "xorriso -as mkisofs -r -V CIDATA -o $i d",
    "xorriso -as mkisofs -r -J -V urmqtt -o $i d",
    ("truncate -s 1440K $i && mkfs.fat -F 12 -n CIDATA $i" FILL),
    ("truncate -s 16M $i && mkfs.fat -F 16 -s 1 -n URMQTT $i" FILL),
    ("truncate -s 40M $i && mkfs.fat -F 32 -s 1 -n CIDATA $i" FILL),
    ("truncate -s 8M $i && mkfs.fat -S 2048 -n CIDATA $i" FILL),
};

static void every_kind(void **state) {
  (void)state;
  for (u32 k = 0; k < ARRAY_COUNT(kinds); k++) {
    struct image i = {0};
    struct bytes tar;
    u64 len = make(kinds[k], &i.bytes);
    assert_int_equal(take(&i, len, &tar), ERR_OK);
    check_files(tar, true);
    u32 reads = i.reads;
    for (u32 n = 1; n <= reads; n++) {  // each read fails once
      i.fail_at = n;
      enum err e = take(&i, len, &tar);
      assert_true(i.reads >= n);
      if (e == ERR_OK) {  // only where nothing hung on it
        check_files(tar, true);
      }
    }
    free(i.bytes);
  }
}

// A folder of several clusters: a link that cannot be read is an error, never a shorter folder.
static void folder_of_several_clusters(void **state) {
  (void)state;
  struct image i = {0};
  struct bytes tar;
  struct bytes d;
  u64 len = make(
      "mkdir -p m && for n in $(seq 100 140); do echo $n >m/f$n; done && truncate -s 40M "
      "$i && mkfs.fat -F 32 -s 1 -n CIDATA $i && mcopy -i $i m/* ::/",
      &i.bytes);
  assert_int_equal(take(&i, len, &tar), ERR_OK);
  u32 reads = i.reads;
  for (u32 n = 0; n <= reads; n++) {
    i.fail_at = n;
    if (take(&i, len, &tar) == ERR_OK) {
      assert_int_equal(ustar_find(tar, BYTES_LIT("f100"), &d), ERR_OK);
      assert_int_equal(ustar_find(tar, BYTES_LIT("f140"), &d), ERR_OK);
    }
  }
  free(i.bytes);
}

static void without_rock_ridge(void **state) {
  (void)state;
  struct image i = {0};
  struct bytes tar;
  u64 len = make(
      "xorriso -as mkisofs -iso-level 1 -V CIDATA -o $i d; xorriso -rockridge off -as mkisofs "
      "--norock "
      "-iso-level 2 -V CIDATA -o $i d",
      &i.bytes);
  assert_int_equal(take(&i, len, &tar), ERR_OK);
  check_files(tar, false);
  free(i.bytes);
}

static void cut(void **state) {
  (void)state;
  for (u32 k = 0; k < 3; k++) {
    struct image i = {0};
    struct bytes tar;
    u64 len = make(kinds[k], &i.bytes);
    for (u64 n = 0; n < len; n += n < 4096 ? 64 : len / 40) {
      u8 *exact = malloc(n == 0 ? 1 : n);
      memcpy(exact, i.bytes, n);
      struct image c = {.bytes = exact};
      (void)take(&c, n, &tar);  // ASan sees a byte too many
      free(exact);
    }
    free(i.bytes);
  }
}

static void others(void **state) {
  (void)state;
  static const char *const foreign[] = {
      "xorriso -as mkisofs -r -V OTHER -o $i d",
      ("truncate -s 1440K $i && mkfs.fat -F 12 -n OTHER $i" FILL),
      "truncate -s 1440K $i",
      ": >$i",
  };
  for (u32 k = 0; k < ARRAY_COUNT(foreign); k++) {
    struct image i = {0};
    struct bytes tar;
    u64 len = make(foreign[k], &i.bytes);
    assert_int_equal(take(&i, len, &tar), ERR_NOT_FOUND);
    free(i.bytes);
  }
  struct image i = {0};
  struct bytes tar;
  u64 len = make("mkdir -p big && seq 60000 >big/f && xorriso -as mkisofs -r -V CIDATA -o $i big",
                 &i.bytes);
  assert_int_equal(take(&i, len, &tar), ERR_SPACE);
  free(i.bytes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kind), cmocka_unit_test(folder_of_several_clusters),
      cmocka_unit_test(without_rock_ridge), cmocka_unit_test(cut), cmocka_unit_test(others)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
