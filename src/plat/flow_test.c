// SPDX-License-Identifier: Apache-2.0
// Proves: the hash is Toeplitz (Microsoft's verification suite for RSS), a frame of any length is
// judged without reading beyond it, both directions of an error's quotation find the connection,
// and what is no TCP segment is core 0's.
#include "plat/flow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const u8 suite_key[FLOW_KEY_LEN] = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};
static struct flow_table table;

static void hash_is_toeplitz(void **state) {
  (void)state;
  static const struct {
    u8 tuple[12];
    u32 hash;
  } four[] = {
      {{66, 9, 149, 187, 161, 142, 100, 80, 2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255},
       0x51ccc178},
      {{199, 92, 111, 2, 65, 69, 140, 83, 14230 >> 8, 14230 & 255, 4739 >> 8, 4739 & 255},
       0xc626b0ea},
      {{24, 19, 198, 95, 12, 22, 207, 184, 12898 >> 8, 12898 & 255, 38024 >> 8, 38024 & 255},
       0x5c2b394a},
  };
  flow_init(&table, 4, suite_key);
  for (u32 i = 0; i < ARRAY_COUNT(four); i++) {
    assert_int_equal(flow_hash(&table, bytes_of(four[i].tuple, 12)), four[i].hash);
  }
  static const u8 six[36] = {
      0x3f, 0xfe, 0x25, 0x01, 0x02, 0x00, 0x1f, 0xff, 0,         0,          0,         0,
      0,    0,    0,    7,    0x3f, 0xfe, 0x25, 0x01, 2,         0,          0,         3,
      0,    0,    0,    0,    0,    0,    0,    1,    2794 >> 8, 2794 & 255, 1766 >> 8, 1766 & 255};
  assert_int_equal(flow_hash(&table, bytes_of(six, 36)), 0x40207d3d);
}

// A segment from `source` port to 1883; returns its length.
static u32 make_ip4(u8 *f, u16 source_port, u16 target_port, u32 options) {
  memset(f, 0, 128);
  store_be16(f + 12, 0x0800);
  f[14] = (u8)(0x45 + options);
  f[14 + 9] = 6;
  store_be32(f + 14 + 12, 0x0a090001);
  store_be32(f + 14 + 16, 0x0a090002);
  u32 at = 14 + 20 + 4 * options;
  store_be16(f + at, source_port);
  store_be16(f + at + 2, target_port);
  return at + 20;
}

static u32 make_ip6(u8 *f, u16 source_port, u16 target_port, u32 extensions) {
  memset(f, 0, 160);
  store_be16(f + 12, 0x86dd);
  f[14] = 0x60;
  f[14 + 6] = extensions > 0 ? 60 : 6;
  f[14 + 8] = 0xfe;
  f[14 + 8 + 15] = 1;
  f[14 + 24] = 0xfe;
  f[14 + 24 + 15] = 2;
  u32 at = 14 + 40;
  for (u32 i = 0; i < extensions; i++, at += 8) {
    f[at] = i + 1 < extensions ? 60 : 6;
  }
  store_be16(f + at, source_port);
  store_be16(f + at + 2, target_port);
  return at + 20;
}

// In a block of exactly this size, so that a read beyond it is caught.
static u32 core_of(const u8 *f, u32 len) {
  u8 *copy = malloc(MAX(len, 1u));
  memcpy(copy, f, len);
  u32 core = flow_core(&table, bytes_of(copy, len));
  free(copy);
  return core;
}

static void ports_spread(void **state) {
  (void)state;
  u8 f[160];
  flow_init(&table, 4, suite_key);
  for (u32 family = 0; family < 2; family++) {
    u32 count[4] = {0};
    for (u32 p = 0; p < 4096; p++) {
      u32 len = family == 0 ? make_ip4(f, (u16)(p + 1024), 1883, 0)
                            : make_ip6(f, (u16)(p + 1024), 1883, 0);
      count[core_of(f, len)]++;
    }
    for (u32 i = 0; i < 4; i++) {
      assert_in_range(count[i], 4096 / 4 - 200, 4096 / 4 + 200);
    }
  }
}

static void same_flow_same_core(void **state) {
  (void)state;
  u8 f[160];
  flow_init(&table, 3, suite_key);
  for (u32 p = 1024; p < 1224; p++) {
    u32 core = core_of(f, make_ip4(f, (u16)p, 1883, 0));
    assert_int_equal(core_of(f, make_ip4(f, (u16)p, 1883, 5)), core);  // IP options
    core = core_of(f, make_ip6(f, (u16)p, 1883, 0));
    assert_int_equal(core_of(f, make_ip6(f, (u16)p, 1883, 3)), core);
  }
}

static void errors_follow_what_they_quote(void **state) {
  (void)state;
  u8 in[160];
  u8 out[160];
  u8 f[300];
  flow_init(&table, 5, suite_key);
  bool other = false;
  for (u32 p = 1024; p < 1124; p++) {
    u32 core = core_of(in, make_ip4(in, (u16)p, 1883, 0));
    other |= core != 0;
    (void)make_ip4(out, 1883, (u16)p, 0);  // ours to them
    store_be32(out + 14 + 12, 0x0a090002);
    store_be32(out + 14 + 16, 0x0a090001);
    u32 len = make_ip4(f, 0, 0, 0);
    f[14 + 9] = 1;
    f[34] = 3;
    memcpy(f + 42, out + 14, 28);
    len = 42 + 28;
    assert_int_equal(core_of(f, len), core);
    f[34] = 8;  // an echo
    assert_int_equal(core_of(f, len), 0);
    core = core_of(in, make_ip6(in, (u16)p, 1883, 0));
    (void)make_ip6(out, 1883, (u16)p, 0);
    out[14 + 8 + 15] = 2;
    out[14 + 24 + 15] = 1;
    (void)make_ip6(f, 0, 0, 0);
    f[14 + 6] = 58;
    f[54] = 2;
    memcpy(f + 62, out + 14, 48);
    assert_int_equal(core_of(f, 62 + 48), core);
    f[54] = 135;  // a neighbour solicitation
    assert_int_equal(core_of(f, 62 + 48), 0);
  }
  assert_true(other);
}

static void everything_else_is_core_0(void **state) {
  (void)state;
  u8 f[160];
  flow_init(&table, 7, suite_key);
  u32 len = 0;
  bool other = false;
  for (u32 p = 1024; p < 1200; p++) {
    len = make_ip4(f, (u16)p, 1883, 0);
    other |= core_of(f, len) != 0;
    f[14 + 6] = 0x20;  // a first fragment
    assert_int_equal(core_of(f, len), 0);
    len = make_ip4(f, 1883, (u16)(FLOW_OWN_PORT_FIRST + p), 0);  // to a connection we opened
    assert_int_equal(core_of(f, len), 0);
    len = make_ip4(f, (u16)p, 1883, 0);
    f[14 + 9] = 17;
    assert_int_equal(core_of(f, len), 0);
    store_be16(f + 12, 0x0806);
    assert_int_equal(core_of(f, len), 0);
  }
  assert_true(other);
}

static void every_length_and_one_core(void **state) {
  (void)state;
  u8 f[160];
  flow_init(&table, 6, suite_key);
  for (u32 kind = 0; kind < 4; kind++) {
    u32 len = kind == 0   ? make_ip4(f, 4000, 1883, 0)
              : kind == 1 ? make_ip4(f, 4000, 1883, 10)
              : kind == 2 ? make_ip6(f, 4000, 1883, 0)
                          : make_ip6(f, 4000, 1883, 6);
    for (u32 cut = 0; cut <= len; cut++) {
      assert_in_range(core_of(f, cut), 0, 5);
    }
  }
  flow_init(&table, 1, suite_key);
  for (u32 p = 0; p < 100; p++) {
    assert_int_equal(core_of(f, make_ip4(f, (u16)p, 1883, 0)), 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hash_is_toeplitz),          cmocka_unit_test(ports_spread),
      cmocka_unit_test(same_flow_same_core),       cmocka_unit_test(errors_follow_what_they_quote),
      cmocka_unit_test(everything_else_is_core_0), cmocka_unit_test(every_length_and_one_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
