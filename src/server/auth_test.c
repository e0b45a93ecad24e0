// SPDX-License-Identifier: Apache-2.0
// Proves: CONNECT by SCRAM-SHA-256 comes in however its packets are cut, and its CONNACK has method
// and proof; every wrong step is refused by CONNACK and nothing else, and what is nobody's user
// looks like a wrong password; an open connection can authenticate again and ends when that fails;
// exchanges end in time, and nothing is left of any.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base64.h"

#include <cmocka.h>

#include "server/server_test_support.h"

static const u8 client_key[32] = "the client's key, of 32 bytes...",
                server_key[32] = "the server's";
static u32 iterations = 4096;  // another number is another entry

// "a,b" and "c" have the keys above.
static bool find_scram(const void *ctx, const struct access_who *who, struct password_hash *out) {
  (void)ctx;
  *out = (struct password_hash){.kind = PASSWORD_SCRAM_SHA256,
                                .iterations = iterations,
                                .salt_len = 4,
                                .hash_len = PASSWORD_HASH_LEN,
                                .salt = "salt"};
  tls_sha256(bytes_of(client_key, 32), out->hash);
  memcpy(out->hash + 32, server_key, 32);
  return bytes_equal_str(who->username, "a,b") || bytes_equal_str(who->username, "c");
}
static bool find(const void *ctx, const struct access_who *who, struct password_hash *out) {
  (void)ctx, (void)who;
  *out = (struct password_hash){.kind = PASSWORD_PBKDF2, .iterations = 1, .salt_len = 4};
  return false;
}

struct step {
  const char *name;      // in client-first-message
  const char *username;  // in CONNECT; NULL = none
  const char *method;    // NULL = the right one
  u32 packet_max;        // 0 = any
};
static const struct step good = {.name = "a=2Cb"};

static struct bytes first_message(const char *name, u8 *room) {
  return bytes_of(room, (usize)sprintf((char *)room, "n,,n=%s,r=abcdef", name));
}
static u32 connect_bytes(u8 *to, const struct step *s) {
  u8 data[128];
  struct mqtt_prop_out props[4] = {
      {.id = MQTT_P_AUTH_METHOD, .text = bytes_str(s->method != NULL ? s->method : AUTH_METHOD)},
      {.id = MQTT_P_AUTH_DATA, .text = first_message(s->name, data)}};
  if (s->packet_max > 0) {
    props[2] = (struct mqtt_prop_out){.id = MQTT_P_MAXIMUM_PACKET_SIZE, .number = s->packet_max};
  }
  struct mqtt_connect_out o = {.version = MQTT_V5,
                               .clean_start = true,
                               .client_id = BYTES_LIT("c"),
                               .has_username = s->username != NULL,
                               .username = bytes_str(s->username != NULL ? s->username : ""),
                               .props = props};
  struct writer w = writer_init(span_of(to, 400));
  mqtt_encode_connect(&w, &o);
  ASSERT(w.err == ERR_OK);
  return w.pos;
}
static u32 auth_bytes(u8 *to, enum mqtt_reason reason, const char *method, struct bytes data) {
  struct mqtt_prop_out props[] = {{.id = MQTT_P_AUTH_METHOD, .text = bytes_str(method)},
                                  {.id = MQTT_P_AUTH_DATA, .text = data},
                                  {0}};
  struct writer w = writer_init(span_of(to, 600));
  mqtt_encode_auth(&w, reason, method[0] != 0 ? props : NULL);
  ASSERT(w.err == ERR_OK);
  return w.pos;
}

// The data of the last packet that came, an AUTH with this reason.
static struct bytes told(struct tcp_conn *c, enum mqtt_reason reason) {
  struct mqtt_disconnect m;
  struct bytes packet = bytes_of(c->out, c->out_len);
  assert_true(c->out_len > 2);
  assert_int_equal(c->out[0], MQTT_AUTH << 4);  // [MQTT-3.15.1-1]
  assert_int_equal(mqtt_decode_auth(packet, &m), MQTT_SUCCESS);
  assert_int_equal(m.reason, reason);  // [MQTT-4.12.0-2] [MQTT-3.15.2-1]
  assert_true(bytes_equal_str(bytes_part(packet, m.props.auth_method), AUTH_METHOD));
  // [MQTT-3.15.2-2] [MQTT-3.15.2-3]
  assert_false(mqtt_has(&m.props, MQTT_P_REASON_STRING));
  return bytes_part(packet, m.props.auth_data);
}

static void signature(const u8 *key, const char *message, u8 out[32]) {
  struct tls_hmac h;
  tls_hmac_begin(&h, bytes_of(key, 32));
  tls_hmac_add(&h, bytes_str(message));
  tls_hmac_end(&h, out);
}

static u8 verifier[32];  // what the server must prove

// client-final-message for what the server has said; `wrong` spoils the proof.
static struct bytes final_message(const char *name, struct bytes server_first, bool wrong,
                                  u8 *room) {
  char message[900], without[400], text[64];
  u8 sum[32], stored[32];
  usize nonce = bytes_find(server_first, ',');
  sprintf(without, "c=biws,%.*s", (int)nonce, (const char *)server_first.ptr);
  sprintf(message, "n=%s,r=abcdef,%.*s,%s", name, (int)server_first.len,
          (const char *)server_first.ptr, without);
  tls_sha256(bytes_of(client_key, 32), stored);
  signature(stored, message, sum);
  signature(server_key, message, verifier);
  for (u32 i = 0; i < 32; i++) {
    sum[i] ^= client_key[i];
  }
  sum[5] ^= wrong ? 1 : 0;
  text[base64_encode(bytes_of(sum, 32), span_of(text, sizeof text))] = 0;
  return bytes_of(room, (usize)sprintf((char *)room, "%s,p=%s", without, text));
}

static void proved(struct bytes server_final) {
  u8 got[32];
  u32 n = 0;
  assert_true(bytes_starts_with(server_final, BYTES_LIT("v=")));
  assert_true(base64_decode(bytes_skip(server_final, 2), span_of(got, 32), &n));
  assert_memory_equal(got, verifier, 32);
}

// A connection whose CONNECT is sent and answered.
static struct tcp_conn *asked(const struct step *s) {
  u8 b[400];
  struct tcp_conn *c = open_conn();
  feed(c, b, connect_bytes(b, s));
  turns(3);
  return c;
}
static void answer(struct tcp_conn *c, const struct step *s, enum mqtt_reason reason, bool wrong) {
  u8 b[600], data[400];
  struct bytes final = final_message(s->name, told(c, MQTT_CONTINUE_AUTHENTICATION), wrong, data);
  u32 n = auth_bytes(b, reason, AUTH_METHOD, final);
  c->out_len = 0;
  feed(c, b, n);
  turns(3);
}
static void check_connack(struct tcp_conn *c) {
  struct mqtt_connack k;
  struct bytes packet = bytes_of(c->out, c->out_len);
  assert_true(c->out_len > 4 && c->out[0] == 0x20);
  assert_int_equal(mqtt_decode_connack(MQTT_V5, packet, &k), MQTT_SUCCESS);
  assert_int_equal(k.code, MQTT_SUCCESS);
  // [MQTT-4.12.0-5]
  assert_true(bytes_equal_str(bytes_part(packet, k.props.auth_method), AUTH_METHOD));
  proved(bytes_part(packet, k.props.auth_data));
}
static struct tcp_conn *entered(void) {
  struct tcp_conn *c = asked(&good);
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, false);
  check_connack(c);
  c->out_len = 0;
  return c;
}
static void refused(struct tcp_conn *c, enum mqtt_reason reason) {
  assert_true(c->closed);
  assert_true(c->out_len > 4);
  assert_int_equal(c->out[0], 0x20);
  assert_int_equal(c->out[3], reason);
  assert_int_equal(c->out_len, 2u + c->out[1]);  // and nothing else
  drop_conn(c);
}
static void refused_late(struct tcp_conn *c) {
  turns(3);
  assert_false(c->closed);
  assert_int_equal(c->out_len, 0);
  unit_now_ns += LOGIN_TARPIT_NS + 10 * MS_NS;
  turns(3);
  refused(c, MQTT_NOT_AUTHORIZED);
}
static void ended(struct tcp_conn *c, enum mqtt_reason reason) {
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out[0], 0xe0);
  assert_int_equal(c->out[2], reason);
  drop_conn(c);
}

static struct login_source source = {.find = find, .find_scram = find_scram};
static int set_up(void **state) {
  (void)state;
  start_server(8u << 20);
  server_set_logins(core.server, 0, &source);
  iterations = 4096;
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  unit_now_ns += 20 * SEC_NS;
  turns(5);
  assert_int_equal(server_stats(core.server)->connections, 0);
  assert_int_equal(pool_taken(&core.server->auths.pool), 0);
  for (u32 i = 0; i < LOGIN_FLOWS; i++) {
    assert_int_equal(core.server->auths.flow[i], 0);
  }
  return 0;
}

static void comes_in_however_cut(void **state) {
  u8 b[600], data[400];
  (void)state;
  u32 n = connect_bytes(b, &good);
  for (u32 cut = 0; cut <= n; cut++) {
    n = connect_bytes(b, &good);
    struct tcp_conn *c = open_conn();
    feed(c, b, cut);
    turns(2);
    feed(c, b + cut, n - cut);
    turns(3);
    struct bytes said = told(c, MQTT_CONTINUE_AUTHENTICATION);
    u32 len = auth_bytes(b, MQTT_CONTINUE_AUTHENTICATION, AUTH_METHOD,
                         final_message(good.name, said, false, data));
    c->out_len = 0;
    feed(c, b, MIN(cut, len));
    turns(2);
    assert_int_equal(c->out_len > 0, cut >= len);
    feed(c, b + MIN(cut, len), len - MIN(cut, len));
    turns(3);
    check_connack(c);
    c->out_len = 0;
    feed(c, "\xc0\0", 2);
    turns(2);
    assert_int_equal(c->out[0], 0xd0);
    drop_conn(c);
  }
}

static void who_he_is(void **state) {
  (void)state;
  struct step named = good;
  named.username = "a,b";
  struct tcp_conn *c = asked(&named);
  answer(c, &named, MQTT_CONTINUE_AUTHENTICATION, false);
  check_connack(c);
  bool has = false;
  const struct session *s = broker_session(core.broker, BYTES_LIT("c"));
  assert_non_null(s);
  assert_true(bytes_equal_str(session_username(s, &has), "a,b"));
  assert_true(has);
  drop_conn(c);
  named.username = "c";  // another user, and who is there too
  refused(asked(&named), MQTT_NOT_AUTHORIZED);
}

static void wrong_and_unknown_look_alike(void **state) {
  (void)state;
  u64 bad = server_stats(core.server)->logins_bad;
  struct tcp_conn *c = asked(&good);
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, true);
  refused_late(c);  // [MQTT-4.12.0-4]
  struct step nobody = {.name = "nobody"};
  c = asked(&nobody);
  u32 len = c->out_len;
  answer(c, &nobody, MQTT_CONTINUE_AUTHENTICATION, false);  // with the very keys of the stand-in
  refused_late(c);
  assert_int_equal(server_stats(core.server)->logins_bad - bad, 2);
  c = asked(&(struct step){.name = "c"});
  assert_int_equal(c->out_len, len);
  drop_conn(c);
}

static void replay(void **state) {
  u8 b[600], data[400];
  (void)state;
  struct tcp_conn *c = asked(&good);
  u32 n = auth_bytes(b, MQTT_CONTINUE_AUTHENTICATION, AUTH_METHOD,
                     final_message(good.name, told(c, MQTT_CONTINUE_AUTHENTICATION), false, data));
  drop_conn(c);
  c = asked(&good);
  c->out_len = 0;
  feed(c, b, n);
  refused_late(c);
}

static void refusals_at_once(void **state) {
  static const struct {
    struct step step;
    enum mqtt_reason reason;
  } bad[] = {{{.name = "u", .method = "SCRAM-SHA-1"}, MQTT_BAD_AUTH_METHOD},  // [MQTT-4.12.0-1]
             {{.name = "u", .method = "SCRAM-SHA-256-PLUS"}, MQTT_BAD_AUTH_METHOD},
             {{.name = "u", .method = ""}, MQTT_BAD_AUTH_METHOD},
             {{.name = "u=2c"}, MQTT_NOT_AUTHORIZED},
             {{.name = ""}, MQTT_NOT_AUTHORIZED},
             {{.name = "u", .packet_max = 30}, MQTT_PACKET_TOO_LARGE}};
  (void)state;
  for (u32 i = 0; i < ARRAY_COUNT(bad); i++) {
    refused(asked(&bad[i].step), bad[i].reason);
  }
  server_set_logins(core.server, 0, &(struct login_source){.find = find});
  refused(asked(&good), MQTT_BAD_AUTH_METHOD);  // nobody has such keys
  server_set_logins(core.server, 0, NULL);
  refused(asked(&good), MQTT_BAD_AUTH_METHOD);
}

// Before CONNACK: everything but the AUTH that is due.
static void out_of_turn(void **state) {
  static const u8 ping[] = {0xc0, 0}, empty[] = {0xf0, 0}, disconnect[] = {0xe0, 0};
  u8 b[600];
  (void)state;
  const enum mqtt_reason reasons[] = {MQTT_REAUTHENTICATE, MQTT_SUCCESS};
  for (u32 i = 0; i < 2; i++) {
    struct tcp_conn *c = asked(&good);
    answer(c, &good, reasons[i], false);
    refused(c, MQTT_PROTOCOL_ERROR);
  }
  struct tcp_conn *c = asked(&good);
  c->out_len = 0;
  feed(c, b, auth_bytes(b, MQTT_CONTINUE_AUTHENTICATION, "GS2-KRB5", BYTES_LIT("")));
  turns(3);
  refused(c, MQTT_BAD_AUTH_METHOD);
  const u8 *packet[] = {ping, empty, b};
  for (u32 i = 0; i < 3; i++) {
    c = asked(&good);
    c->out_len = 0;
    feed(c, packet[i], i < 2 ? 2 : connect_bytes(b, &good));
    turns(3);
    refused(c, MQTT_PROTOCOL_ERROR);
  }
  c = asked(&good);
  c->out_len = 0;
  feed(c, disconnect, 2);
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out_len, 0);
  drop_conn(c);
}

static void again(void **state) {
  u8 b[600], data[400];
  (void)state;
  struct tcp_conn *c = entered();
  for (u32 i = 0; i < 3; i++) {
    feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("a=2Cb", data)));
    turns(3);
    struct bytes said = told(c, MQTT_CONTINUE_AUTHENTICATION);
    u32 n = auth_bytes(b, MQTT_CONTINUE_AUTHENTICATION, AUTH_METHOD,
                       final_message("a=2Cb", said, false, data));
    c->out_len = 0;
    feed(c, "\xc0\0", 2);  // other packets go on meanwhile
    turns(3);
    assert_int_equal(c->out[0], 0xd0);
    c->out_len = 0;
    feed(c, b, n);
    turns(3);
    proved(told(c, MQTT_SUCCESS));
    c->out_len = 0;
  }
  feed(c, b, auth_bytes(b, MQTT_CONTINUE_AUTHENTICATION, AUTH_METHOD, BYTES_LIT("c=")));
  ended(c, MQTT_PROTOCOL_ERROR);
}

static void again_fails(void **state) {
  u8 b[600], data[400];
  (void)state;
  // [MQTT-4.12.1-2]
  struct tcp_conn *c = entered();
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("a=2Cb", data)));
  turns(3);
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, true);
  ended(c, MQTT_NOT_AUTHORIZED);
  c = entered();  // another user, and one whose keys he has
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("c", data)));
  ended(c, MQTT_NOT_AUTHORIZED);
  c = entered();  // another method [MQTT-4.12.1-1]
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, "SCRAM-SHA-1", first_message("a=2Cb", data)));
  ended(c, MQTT_BAD_AUTH_METHOD);
  c = entered();  // none
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, "", BYTES_LIT("")));
  ended(c, MQTT_PROTOCOL_ERROR);
  c = entered();  // begun twice
  for (u32 i = 0; i < 2; i++) {
    feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("a=2Cb", data)));
    turns(3);
    c->out_len = i == 0 ? 0 : c->out_len;
  }
  ended(c, MQTT_PROTOCOL_ERROR);
  c = entered();  // left lying
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("a=2Cb", data)));
  turns(3);
  c->out_len = 0;
  unit_now_ns += AUTH_WAIT_NS + SEC_NS;
  ended(c, MQTT_NOT_AUTHORIZED);
}

// [MQTT-4.12.0-6]: nobody is asked, and nobody may begin.
static void without_a_method(void **state) {
  static const u8 hello[] = {0x10, 14, 0, 4, 'M', 'Q', 'T', 'T', 5, 2, 0, 60, 0, 0, 1, 'f'};
  u8 b[600], data[400];
  (void)state;
  struct tcp_conn *c = open_conn();
  feed(c, hello, sizeof hello);
  turns(3);
  assert_int_equal(c->out[0], 0x20);
  assert_int_equal(c->out_len, 2u + c->out[1]);
  c->out_len = 0;
  feed(c, b, auth_bytes(b, MQTT_REAUTHENTICATE, AUTH_METHOD, first_message("c", data)));
  ended(c, MQTT_PROTOCOL_ERROR);
}

static void reload_counts(void **state) {
  (void)state;
  struct tcp_conn *c = asked(&good);
  iterations = 5000;  // another entry meanwhile
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, false);
  refused_late(c);
  c = asked(&good);
  server_set_logins(core.server, 0, NULL);
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, false);
  refused_late(c);
  server_set_logins(core.server, 0, &source);
  c = entered();
  assert_int_equal(server_recheck(core.server), 0);
  iterations = 4096;
  assert_int_equal(server_recheck(core.server), 1);
  ended(c, MQTT_NOT_AUTHORIZED);
}

static void ends_in_time(void **state) {
  (void)state;
  struct tcp_conn *c = asked(&good);
  c->out_len = 0;
  unit_now_ns += AUTH_WAIT_NS - 10 * MS_NS;
  turns(3);
  assert_false(c->closed);
  unit_now_ns += SEC_NS;
  turns(3);
  assert_true(c->closed);
  assert_int_equal(c->out_len, 0);
  drop_conn(c);
}

// A prefix has a quarter of the 16 places; who has one is not disturbed, and others come in.
static void places(void **state) {
  struct tcp_conn *c[5];
  u8 b[400];
  (void)state;
  for (u32 i = 0; i < 5; i++) {
    c[i] = open_conn();
    c[i]->address = 0x0b000001 + i;
    feed(c[i], b, connect_bytes(b, &good));
    turns(2);
  }
  refused(c[4], MQTT_SERVER_BUSY);
  struct tcp_conn *other = entered();
  drop_conn(other);
  for (u32 i = 0; i < 4; i++) {
    drop_conn(c[i]);
  }
}

// No transmit buffer for our AUTH: the CONNECT waits and is answered later.
static void no_buffer(void **state) {
  u8 b[400];
  (void)state;
  struct tcp_conn *c = open_conn();
  drop_conn(c);
  c = open_conn();
  no_control_buffers = true;
  feed(c, b, connect_bytes(b, &good));
  turns(3);
  assert_int_equal(pool_taken(&core.server->auths.pool), 0);
  no_control_buffers = false;
  unit_now_ns += 20 * MS_NS;
  turns(3);
  answer(c, &good, MQTT_CONTINUE_AUTHENTICATION, false);
  check_connack(c);
  drop_conn(c);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {T(comes_in_however_cut),
                                     T(who_he_is),
                                     T(wrong_and_unknown_look_alike),
                                     T(replay),
                                     T(refusals_at_once),
                                     T(out_of_turn),
                                     T(again),
                                     T(again_fails),
                                     T(without_a_method),
                                     T(reload_counts),
                                     T(ends_in_time),
                                     T(places),
                                     T(no_buffer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
