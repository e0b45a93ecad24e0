// SPDX-License-Identifier: Apache-2.0
// Proves: a CONNECT waits for its password however it is cut and what follows it waits too; wrong,
// unknown and missing passwords look the same and are told after the tarpit; hashing keeps its
// budget; prefixes take turns; connections that end while they wait leave nothing behind.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "server/server_test_support.h"

// Each look at the clock takes so long: in place of the unit platform's clock.
static u64 unit_step_ns;
u64 plat_now_ns(void) {
  unit_now_ns += unit_step_ns;
  return unit_now_ns;
}

static u32 iterations = 101;
static u32 argon_kib;  // not 0: the hash is of argon2id
static u32 asked;

// One user, "u" with "secret".
static bool find(const void *ctx, const struct access_who *who, struct password_hash *out) {
  struct kdf k;
  (void)ctx;
  asked++;
  if (argon_kib > 0) {  // `echo -n secret | argon2 somesalt12345678 -id -t 2 -k 1000 -p 3 -l 64`
    const char *text =
        "$argon2id$v=19$m=1000,t=2,p=3$c29tZXNhbHQxMjM0NTY3OA$MvVJbmNNbx7jDx61CWRuWpUV90APceUfewi+"
        "qyXYtVraRFi6fI6PkR6tpg90ScUggYoS+Obq9JKWRpsnDz8CQQ";
    ASSERT(password_decode(bytes_str(text), out) == NULL);
    out->memory_kib = argon_kib;
    return bytes_equal_str(who->username, "u");
  }
  *out = (struct password_hash){
      .kind = PASSWORD_PBKDF2, .iterations = iterations, .salt_len = 4, .hash_len = KDF_LEN};
  memcpy(out->salt, "salt", 4);
  kdf_pbkdf2_begin(&k, BYTES_LIT("secret"), BYTES_LIT("salt"), iterations);
  while (!kdf_step(&k, 1000)) {
  }
  memcpy(out->hash, k.sum, KDF_LEN);
  return bytes_equal_str(who->username, "u");
}

static u32 connect_bytes(u8 *to, enum mqtt_version v, const char *user, const char *password,
                         bool more) {
  struct mqtt_connect_out o = {.version = v,
                               .clean_start = true,
                               .client_id = BYTES_LIT("c"),
                               .has_username = user != NULL,
                               .has_password = password != NULL,
                               .username = bytes_str(user != NULL ? user : ""),
                               .password = bytes_str(password != NULL ? password : "")};
  struct writer w = writer_init(span_of(to, 200));
  mqtt_encode_connect(&w, &o);
  if (more) {
    mqtt_encode_ping(&w, MQTT_PINGREQ);
  }
  ASSERT(w.err == ERR_OK);
  return w.pos;
}

static struct tcp_conn *login_from(u32 address, enum mqtt_version v, const char *user,
                                   const char *password) {
  u8 b[200];
  struct tcp_conn *c = open_conn();
  c->address = address;
  u32 n = connect_bytes(b, v, user, password, true);
  feed(c, b, n);
  return c;
}
static bool is_in(const struct tcp_conn *c) {
  return c->out_len > 4 && c->out[0] == 0x20 && c->out[3] == 0;
}

static int set_up(void **state) {
  (void)state;
  test_argon_kib = 1000;
  argon_kib = 0;
  start_server(8u << 20);
  struct login_source source = {.find = find};
  server_set_logins(core.server, 0, &source);
  iterations = 101;
  unit_step_ns = 0;
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  unit_step_ns = 0;
  unit_now_ns += 20 * SEC_NS;
  turns(5);
  assert_int_equal(server_stats(core.server)->connections, 0);
  assert_int_equal(pool_taken(&core.server->logins.pool), 0);
  return 0;
}

static void right_password_however_cut(void **state) {
  u8 b[200];
  (void)state;
  for (u32 v = 0; v < 2; v++) {
    u32 n = connect_bytes(b, v == 0 ? MQTT_V4 : MQTT_V5, "u", "secret", true);
    for (u32 cut = 0; cut <= n; cut++) {
      struct tcp_conn *c = open_conn();
      feed(c, b, cut);
      turns(2);
      feed(c, b + cut, n - cut);
      turns(4);
      assert_true(is_in(c));
      assert_int_equal(c->out[c->out_len - 2], 0xd0);  // the ping behind it was answered
      drop_conn(c);
    }
  }
}

static void wrong_unknown_missing_look_alike(void **state) {
  const char *user[] = {"u", "nobody", "u", "nobody", "u"};
  const char *password[] = {"wrong", "secret", NULL, NULL, ""};
  (void)state;
  for (u32 v = 0; v < 2; v++) {
    u64 bad = server_stats(core.server)->logins_bad;
    for (u32 i = 0; i < ARRAY_COUNT(user); i++) {
      if (v == 0 && password[i] == NULL) {
        continue;
      }
      struct tcp_conn *c = login_from(0, v == 0 ? MQTT_V4 : MQTT_V5, user[i], password[i]);
      turns(4);
      assert_int_equal(c->out_len, 0);
      unit_now_ns += LOGIN_TARPIT_NS - 10 * MS_NS;
      turns(4);
      assert_int_equal(c->out_len, 0);
      assert_false(c->closed);
      unit_now_ns += 20 * MS_NS;
      turns(4);
      assert_true(c->closed);
      assert_int_equal(c->out[0], 0x20);
      assert_int_equal(c->out[3], v == 0 ? 5 : MQTT_NOT_AUTHORIZED);
      drop_conn(c);
    }
    assert_int_equal(server_stats(core.server)->logins_bad - bad, v == 0 ? 3 : 5);
  }
}

static void anonymous_is_not_checked(void **state) {
  (void)state;
  u32 before = asked;
  struct tcp_conn *c = login_from(0, MQTT_V4, NULL, NULL);
  turns(3);
  assert_true(is_in(c));
  assert_int_equal(asked, before);
  drop_conn(c);
}

// What of the time was spent on hashing, while 16 logins of 1000 iterations each are worked off and
// each look at the clock takes 35 us.
static void budget_is_kept(void **state) {
  struct tcp_conn *c[16];
  (void)state;
  iterations = 1000;
  for (u32 i = 0; i < 16; i++) {
    c[i] = login_from((i + 1) << 8, MQTT_V5, "u", "wrong");
  }
  unit_step_ns = 35000;
  u64 start = unit_now_ns;
  u64 spent = server_stats(core.server)->login_ns;
  u64 bad = server_stats(core.server)->logins_bad;
  for (u32 i = 0; i < 20000 && server_stats(core.server)->logins_bad - bad < 14; i++) {
    u64 before = server_stats(core.server)->login_ns;
    turns(1);
    assert_true(server_stats(core.server)->login_ns - before <= LOGIN_SLICE_NS + 70000);
  }
  unit_step_ns = 0;
  u64 took = unit_now_ns - start;
  spent = server_stats(core.server)->login_ns - spent;
  assert_int_equal(server_stats(core.server)->logins_bad - bad, 14);
  assert_true(spent * 10 <= took + LOGIN_WINDOW_NS);
  for (u32 i = 0; i < 16; i++) {
    drop_conn(c[i]);
  }
}

// The same of argon2id: blocks of 35 us are looked at by eights, in slices within the budget, on a
// stack of its own; right and wrong passwords, $7$ before and behind.
static void argon_in_slices(void **state) {
  struct tcp_conn *c[6];
  (void)state;
  argon_kib = 1000;
  for (u32 i = 0; i < 6; i++) {
    c[i] = login_from((i + 1) << 8, MQTT_V5, i == 4 ? "nobody" : "u", i % 2 == 0 ? "secret" : "no");
  }
  unit_step_ns = 35000;
  u64 start = unit_now_ns;
  u64 spent = server_stats(core.server)->login_ns;
  u32 busy = 0;
  for (u32 i = 0; i < 20000 && !is_in(c[2]); i++) {
    u64 before = server_stats(core.server)->login_ns;
    turns(1);
    u64 took = server_stats(core.server)->login_ns - before;
    assert_true(took <= LOGIN_SLICE_NS + 70000);
    busy += took > 0;
  }
  assert_true(is_in(c[0]) && is_in(c[2]) && !is_in(c[1]));
  spent = server_stats(core.server)->login_ns - spent;
  assert_true(busy > 100);  // 2 000 blocks, 8 between two looks
  assert_true(spent * 10 <= unit_now_ns - start + LOGIN_WINDOW_NS);
  unit_step_ns = 0;
  argon_kib = 0;
  struct tcp_conn *other = login_from(0x0e000001, MQTT_V5, "u", "secret");
  for (u32 i = 0; i < 100; i++) {
    unit_now_ns += LOGIN_WINDOW_NS;
    turns(3);
  }
  assert_true(is_in(other));
  argon_kib = 1000;
  for (u32 i = 0; i < 6; i++) {
    assert_int_equal(is_in(c[i]), i == 0 || i == 2);
    drop_conn(c[i]);
  }
  drop_conn(other);
}

// A prefix holds at most a quarter of the 16 places; one login from elsewhere is second in turn.
static void prefixes_take_turns(void **state) {
  struct tcp_conn *storm[10];
  (void)state;
  iterations = 1000;
  unit_step_ns = 35000;
  u64 refused = server_stats(core.server)->logins_refused;
  for (u32 i = 0; i < 10; i++) {
    storm[i] = login_from(0x0b000001 + i, MQTT_V5, "u", "wrong");
  }
  turns(1);
  assert_int_equal(server_stats(core.server)->logins_refused - refused, 6);
  u64 done = server_stats(core.server)->logins_bad;
  struct tcp_conn *c = login_from(0x0c000001, MQTT_V5, "u", "secret");
  for (u32 i = 0; i < 20000 && !is_in(c); i++) {
    turns(1);
  }
  assert_true(is_in(c));
  assert_true(server_stats(core.server)->logins_bad - done <= 2);
  for (u32 i = 0; i < 10; i++) {
    drop_conn(storm[i]);
  }
  drop_conn(c);
}

static void ended_while_waiting(void **state) {
  (void)state;
  iterations = 1000;
  for (u32 how = 0; how < 3; how++) {
    for (u32 when = 0; when < 3; when++) {  // queued behind others, being hashed, in the tarpit
      unit_step_ns = 35000;
      struct tcp_conn *first = login_from(0x0d000001, MQTT_V5, "u", "secret");
      struct tcp_conn *c = login_from(0x0d000002, MQTT_V5, "u", "wrong");
      turns(1);
      for (u32 i = 0; i < 20000 && when > 0 && !is_in(first); i++) {
        turns(1);
      }
      if (when == 2) {
        unit_step_ns = 0;
        unit_now_ns += LOGIN_WINDOW_NS;
        turns(2);
      }
      unit_step_ns = 0;
      if (how == 0) {
        drop_conn(c);
      } else if (how == 1) {
        ops->ended(c->user, c, TCP_END_FIN);
        turns(3);
        assert_true(c->closed);
        drop_conn(c);
      } else {
        unit_now_ns += LOGIN_HASH_NS + SEC_NS;
        turns(3);
        assert_true(c->closed);
        drop_conn(c);
      }
      turns(3);
      drop_conn(first);
    }
  }
}

// On a machine where a check takes longer than a login waits for its turn: it is not sent away.
static void argon_on_a_slow_machine(void **state) {
  (void)state;
  argon_kib = 1000;
  struct tcp_conn *c = login_from(0x0d000001, MQTT_V5, "u", "secret");
  u64 start = unit_now_ns;
  unit_step_ns = 3 * MS_NS;
  for (u32 i = 0; i < 20000 && !is_in(c) && !c->closed; i++) {
    turns(1);
  }
  unit_step_ns = 0;
  assert_true(is_in(c));
  assert_true(unit_now_ns - start > LOGIN_WAIT_NS && unit_now_ns - start < LOGIN_HASH_NS);
  drop_conn(c);
}

// A hash that wants more than the arena is refused at once, without a step outside.
static void argon_too_large(void **state) {
  (void)state;
  argon_kib = 1001;
  u64 refused = server_stats(core.server)->logins_refused;
  struct tcp_conn *c = login_from(0, MQTT_V5, "u", "secret");
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out[3], MQTT_SERVER_BUSY);
  assert_int_equal(server_stats(core.server)->logins_refused - refused, 1);
  drop_conn(c);
}

// Given up in the middle of a block: the next login is hashed as if nothing had been.
static void argon_given_up(void **state) {
  (void)state;
  argon_kib = 1000;
  for (u32 when = 1; when < 60; when += 9) {
    unit_step_ns = 35000;
    struct tcp_conn *c = login_from(0x0d000001, MQTT_V5, "u", "secret");
    turns(when);
    assert_false(is_in(c));
    drop_conn(c);
    c = login_from(0x0d000002, MQTT_V5, "u", "secret");
    for (u32 i = 0; i < 20000 && !is_in(c); i++) {
      turns(1);
    }
    assert_true(is_in(c));
    drop_conn(c);
  }
}

// The set's passwords go away while a login is under way: it is not let in.
static void reload_meanwhile(void **state) {
  (void)state;
  iterations = 1000;
  unit_step_ns = 35000;
  struct tcp_conn *c = login_from(0, MQTT_V5, "u", "secret");
  turns(2);
  ((struct server_listener *)listener)->config.allow_anonymous = false;
  server_set_logins(core.server, 0, NULL);
  unit_step_ns = 0;
  unit_now_ns += LOGIN_WINDOW_NS;
  turns(5);
  assert_true(c->closed);
  assert_int_equal(c->out[3], MQTT_NOT_AUTHORIZED);
  ((struct server_listener *)listener)->config.allow_anonymous = true;
  drop_conn(c);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {T(right_password_however_cut),
                                     T(wrong_unknown_missing_look_alike),
                                     T(anonymous_is_not_checked),
                                     T(budget_is_kept),
                                     T(argon_in_slices),
                                     T(argon_given_up),
                                     T(argon_on_a_slow_machine),
                                     T(argon_too_large),
                                     T(prefixes_take_turns),
                                     T(ended_while_waiting),
                                     T(reload_meanwhile)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
