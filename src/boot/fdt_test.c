// SPDX-License-Identifier: Apache-2.0
// Proves: the walk over a device tree finds nodes in order with the cells of their parents,
// properties, strings and register ranges; a tree cut or changed at any byte is read inside its
// bounds (under ASan) and ends; headers that point outside are refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "boot/fdt.c"

// A tree is built in three blocks: token by token.
static u8 nodes[1024];
static u8 names[256];
static u32 nodes_len;
static u32 names_len;

static void word(u32 v) {
  store_be32(nodes + nodes_len, v);
  nodes_len += 4;
}

static void padded(const void *from, u32 len) {
  memset(nodes + nodes_len, 0, ALIGN_UP(len, 4u));
  memcpy(nodes + nodes_len, from, len);
  nodes_len += ALIGN_UP(len, 4u);
}

static void begin(const char *name) {
  word(TOKEN_BEGIN);
  padded(name, (u32)strlen(name) + 1);
}

static void property(const char *name, const void *value, u32 len) {
  word(TOKEN_PROPERTY);
  word(len);
  word(names_len);
  padded(value, len);
  memcpy(names + names_len, name, strlen(name) + 1);
  names_len += (u32)strlen(name) + 1;
}

static void cells(const char *name, const u32 *v, u32 count) {
  u8 raw[64];
  for (u32 i = 0; i < count; i++) {
    store_be32(raw + 4 * i, v[i]);
  }
  property(name, raw, 4 * count);
}

static u32 make(u8 *out) {
  nodes_len = 0;
  names_len = 0;
  begin("");
  cells("#address-cells", (u32[]){2}, 1);
  cells("#size-cells", (u32[]){2}, 1);
  begin("memory@40000000");
  property("device_type", "memory", 7);
  cells("reg", (u32[]){0, 0x40000000, 0, 0x10000000, 1, 0, 2, 3}, 8);
  word(TOKEN_END);
  word(TOKEN_NOTHING);
  begin("bus");
  cells("#address-cells", (u32[]){1}, 1);
  cells("#size-cells", (u32[]){1}, 1);
  begin("serial@9");
  property("compatible", "arm,pl011\0arm,primecell", 24);
  cells("reg", (u32[]){9, 16}, 2);
  word(TOKEN_END);
  word(TOKEN_END);
  begin("last");
  cells("reg", (u32[]){1, 2, 3, 4}, 4);
  word(TOKEN_END);
  word(TOKEN_END);
  word(9);
  u32 total = 56 + nodes_len + names_len;
  const u32 head[10] = {MAGIC, total, 56, 56 + nodes_len, 40, 17, 16, 0, names_len, nodes_len};
  memset(out, 0, 56);
  for (u32 i = 0; i < 10; i++) {
    store_be32(out + 4 * i, head[i]);
  }
  memcpy(out + 56, nodes, nodes_len);
  memcpy(out + 56 + nodes_len, names, names_len);
  return total;
}

static void walk(void **state) {
  (void)state;
  u8 blob[2048];
  struct fdt f;
  struct fdt_node n;
  assert_true(fdt_open(&f, bytes_of(blob, make(blob))));
  assert_true(fdt_root(&f, &n));
  assert_int_equal(n.depth, 0);
  static const char *const order[] = {"memory", "bus", "serial", "last"};
  static const u32 depth[] = {1, 1, 2, 1};
  for (u32 i = 0; i < 4; i++) {
    assert_true(fdt_next(&f, &n));
    assert_true(fdt_is_named(&n, order[i]));
    assert_int_equal(n.depth, depth[i]);
  }
  assert_false(fdt_next(&f, &n));
}

static void values(void **state) {
  (void)state;
  u8 blob[2048];
  struct fdt f;
  struct fdt_node n;
  u64 start = 0;
  u64 len = 0;
  struct bytes v;
  assert_true(fdt_open(&f, bytes_of(blob, make(blob))));
  assert_true(fdt_root(&f, &n));
  assert_false(fdt_reg(&f, &n, 0, &start, &len));
  assert_true(fdt_next(&f, &n));
  assert_true(fdt_reg(&f, &n, 1, &start, &len));
  assert_true(start == 1ull << 32 && len == (2ull << 32 | 3));
  assert_false(fdt_reg(&f, &n, 2, &start, &len));
  assert_true(fdt_property(&f, &n, "device_type", &v));
  assert_int_equal(v.len, 7);
  assert_false(fdt_property(&f, &n, "compatible", &v));
  n = (struct fdt_node){0};
  assert_true(fdt_next_compatible(&f, &n, "arm,primecell"));
  assert_true(fdt_reg(&f, &n, 0, &start, &len));
  assert_true(start == 9 && len == 16);
  assert_int_equal(fdt_u32(&f, &n, "reg", 1, 77), 16);
  assert_int_equal(fdt_u32(&f, &n, "reg", 2, 77), 77);
  assert_false(fdt_next_compatible(&f, &n, "arm,primecell"));
  n = (struct fdt_node){0};
  assert_false(fdt_next_compatible(&f, &n, "arm,prime"));
  n = (struct fdt_node){0};
  assert_true(fdt_next_compatible(&f, &n, "arm,pl011") && fdt_next(&f, &n));
  assert_true(fdt_reg(&f, &n, 0, &start, &len));  // the bus's cells are gone again
  assert_true(start == (1ull << 32 | 2) && len == (3ull << 32 | 4));
}

// Everything that a reader does, on a block of exactly that size.
static u32 read_all(const u8 *blob, u32 len) {
  u8 *exact = malloc(len == 0 ? 1 : len);
  memcpy(exact, blob, len);
  struct fdt f;
  struct fdt_node n;
  u32 count = 0;
  if (fdt_open(&f, bytes_of(exact, len))) {
    for (bool there = fdt_root(&f, &n); there; there = fdt_next(&f, &n)) {
      u64 a = 0;
      u64 b = 0;
      struct bytes v;
      count++;
      (void)fdt_reg(&f, &n, 0, &a, &b);
      (void)(fdt_property(&f, &n, "compatible", &v) && fdt_has_string(v, "arm,pl011"));
    }
  }
  free(exact);
  return count;
}

static void cut_and_changed(void **state) {
  (void)state;
  u8 blob[2048];
  u32 total = make(blob);
  assert_int_equal(read_all(blob, total), 5);
  for (u32 len = 0; len < total; len++) {
    assert_int_equal(read_all(blob, len), 0);
    u8 kept[4];
    memcpy(kept, blob + 4, 4);
    store_be32(blob + 4, len);  // a header that agrees with the cut
    assert_true(read_all(blob, len) <= 5);
    memcpy(blob + 4, kept, 4);
  }
  static const u8 instead[] = {0, 1, 0x7f, 0x80, 0xff};
  for (u32 at = 0; at < total; at++) {
    u8 kept = blob[at];
    for (u32 k = 0; k < sizeof instead; k++) {
      blob[at] = instead[k];
      assert_true(read_all(blob, total) <= total / 4);
    }
    blob[at] = kept;
  }
}

static void deep(void **state) {
  (void)state;
  u8 blob[2048];
  (void)make(blob);  // for its header
  u8 all[2048] = {0};
  memcpy(all, blob, 56);
  u32 len = 0;
  for (u32 i = 0; i < 40; i++) {
    store_be32(all + 56 + len, TOKEN_BEGIN);
    store_be32(all + 60 + len, 'n' << 24);
    len += 8;
  }
  store_be32(all + 4, 56 + len);
  store_be32(all + 12, 56 + len);
  store_be32(all + 32, 0);
  store_be32(all + 36, len);
  assert_int_equal(read_all(all, 56 + len), 40);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(walk),
      cmocka_unit_test(values),
      cmocka_unit_test(cut_and_changed),
      cmocka_unit_test(deep),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
