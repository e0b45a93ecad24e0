// SPDX-License-Identifier: Apache-2.0
// Proves: our record layer's keys are RFC 8446's (vectors of RFC 8448); what is sealed opens, at
// every size and suite; a record forged at any byte, cut at any byte or out of order is refused
// with its alert and changes nothing; KeyUpdate, alerts, empty and interleaved records are judged
// right, also by the library's own client.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>

#include "tls/cipher.h"
#include "tls/tls_test_support.h"

static u8 cache_memory[1 << 15] ALIGNED(64);
static struct tls_cipher_cache *cache;
static struct tls_record ours, theirs;  // ours writes what theirs reads, and the other way round
static u8 buf[TLS_RECORD_MAX + 64];
static const u16 suites[] = {0x1301, 0x1302, 0x1303};

static void start(u16 suite) {
  if (cache != NULL) {
    tls_record_fini(&ours, cache);
    tls_record_fini(&theirs, cache);
  }
  cache = tls_cipher_cache_init(span_of(cache_memory, sizeof cache_memory), 8);
  ours = (struct tls_record){.cipher_suite = suite};
  theirs = (struct tls_record){.cipher_suite = suite};
  test_random(span_of(ours.write.secret, sizeof ours.write.secret));
  test_random(span_of(ours.read.secret, sizeof ours.read.secret));
  theirs.read = ours.write;
  theirs.write = ours.read;
  tls_record_start(&ours);
  tls_record_start(&theirs);
}

static u32 seal(const void *content, u32 len, u8 type) {
  memcpy(buf + TLS_RECORD_HEAD, content, len);
  return tls_seal(&ours, cache, span_of(buf, sizeof buf), len, type);
}

// Opens the record in buf, in a block of exactly its size.
static enum tls_open open_exact(u32 len, struct span *content) {
  static u8 *block;
  free(block);
  block = malloc(len);
  memcpy(block, buf, len);
  return tls_open(&theirs, cache, span_of(block, len), content);
}

static void lengths(void **state) {
  (void)state;
  for (u32 type = 0; type < 256; type++) {
    for (u32 len = 0; len < 65536; len += type == 23 ? 1 : 257) {
      u8 h[5] = {(u8)type, 3, 3, (u8)(len >> 8), (u8)len};
      u32 want = type == 23 && len >= 17 && len <= 16640 ? len + 5 : 0;
      if (tls_record_length(h) != want) {
        fail_msg("type %u length %u", type, len);
      }
      if (want == 0) {
        u8 alert = type != 23 ? 10 : len > 16640 ? 22 : 50;
        assert_int_equal(tls_record_fault(h), alert);
      }
    }
  }
  assert_int_equal(tls_record_length((const u8[5]){23, 3, 1, 0, 99}), 0);
  assert_int_equal(tls_record_length((const u8[5]){23, 2, 3, 0, 99}), 0);
  assert_int_equal(tls_record_fault((const u8[5]){23, 2, 3, 0, 99}), 50);
}

// RFC 8448 3: "server_application_traffic_secret_0" and what is derived of it.
static void key_schedule(void **state) {
  (void)state;
  static const u8 secret[32] = {0xa1, 0x1a, 0xf9, 0xf0, 0x55, 0x31, 0xf8, 0x56, 0xad, 0x47, 0x11,
                                0x6b, 0x45, 0xa9, 0x50, 0x32, 0x82, 0x04, 0xb4, 0xf4, 0x4b, 0xfb,
                                0x6b, 0x3a, 0x4b, 0x4f, 0x1f, 0x3f, 0xcb, 0x63, 0x16, 0x43};
  static const u8 key[16] = {0x9f, 0x02, 0x28, 0x3b, 0x6c, 0x9c, 0x07, 0xef,
                             0xc2, 0x6b, 0xb9, 0xf2, 0xac, 0x92, 0xe3, 0x56};
  static const u8 iv[12] = {0xcf, 0x78, 0x2b, 0x88, 0xdd, 0x83, 0x54, 0x9a, 0xad, 0xf1, 0xe9, 0x84};
  struct tls_direction d = {.epoch = 0};
  memcpy(d.secret, secret, sizeof secret);
  cipher_direction_expand(&d, cipher_suite_find(0x1301));
  assert_memory_equal(d.key, key, sizeof key);
  assert_memory_equal(d.iv, iv, sizeof iv);
}

static void round_trip(void **state) {
  (void)state;
  static u8 text[TLS_RECORD_CONTENT_MAX];
  static const u32 sizes[] = {1, 2, 15, 16, 17, 63, 64, 65, 1000, 4096, 16383, 16384};
  test_random(span_of(text, sizeof text));
  text[0] = 0;  // content that ends in zeros is not padding
  for (u32 s = 0; s < ARRAY_COUNT(suites); s++) {
    start(suites[s]);
    for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
      text[sizes[i] - 1] = 0;
      u32 len = seal(text, sizes[i], TLS_CONTENT_DATA);
      assert_int_equal(len, sizes[i] + TLS_RECORD_OVERHEAD);
      assert_int_equal(tls_record_length(buf), len);
      struct span content;
      assert_int_equal(open_exact(len, &content), TLS_OPEN_DATA);
      assert_int_equal(content.len, sizes[i]);
      assert_memory_equal(content.ptr, text, sizes[i]);
    }
    assert_int_equal(ours.write.sequence, ARRAY_COUNT(sizes));
    assert_int_equal(theirs.read.sequence, ARRAY_COUNT(sizes));
  }
}

static void forged_and_cut(void **state) {
  (void)state;
  static u8 good[256];
  for (u32 s = 0; s < ARRAY_COUNT(suites); s++) {
    start(suites[s]);
    u32 len = seal("a message of some length", 24, TLS_CONTENT_DATA);
    memcpy(good, buf, len);
    struct tls_record before = theirs;
    struct span content;
    for (u32 i = TLS_RECORD_HEAD; i < len; i++) {
      for (u32 bit = 0; bit < 8; bit++) {
        memcpy(buf, good, len);
        buf[i] ^= (u8)(1u << bit);
        theirs = before;
        assert_int_equal(open_exact(len, &content), TLS_OPEN_FAILED);
        assert_int_equal(theirs.alert, 20);
        assert_int_equal(theirs.read.sequence, before.read.sequence);  // record.h I4
        assert_memory_equal(&theirs.read, &before.read, sizeof before.read);
      }
    }
    for (u32 cut = TLS_RECORD_OVERHEAD; cut < len; cut++) {  // with the length to match
      memcpy(buf, good, len);
      store_be16(buf + 3, (u16)(cut - TLS_RECORD_HEAD));
      theirs = before;
      assert_int_equal(open_exact(cut, &content), TLS_OPEN_FAILED);
      assert_int_equal(theirs.alert, 20);
    }
    memcpy(buf, good, len);  // one byte more than was sealed
    store_be16(buf + 3, (u16)(len + 1 - TLS_RECORD_HEAD));
    theirs = before;
    assert_int_equal(open_exact(len + 1, &content), TLS_OPEN_FAILED);
    memcpy(buf, good, len);
    theirs = before;
    assert_int_equal(open_exact(len, &content), TLS_OPEN_DATA);
    memcpy(buf, good, len);  // the same record again
    assert_int_equal(open_exact(len, &content), TLS_OPEN_FAILED);
  }
}

// --- What a client may and may not send

static enum tls_open send(const void *content, u32 len, u8 type) {
  struct span out;
  return open_exact(seal(content, len, type), &out);
}

static void expect_alert(enum tls_open got, u8 alert) {
  assert_int_equal(got, TLS_OPEN_FAILED);
  assert_int_equal(theirs.alert, alert);
}

static void key_updates(void **state) {
  (void)state;
  struct span content;
  for (u32 s = 0; s < ARRAY_COUNT(suites); s++) {
    start(suites[s]);
    for (u32 i = 0; i < 40; i++) {
      u32 len = tls_seal_key_update(&ours, cache, span_of(buf, sizeof buf), i % 2 == 1);
      assert_int_equal(len, TLS_KEY_UPDATE_RECORD_BYTES);
      assert_int_equal(open_exact(len, &content),
                       i % 2 == 1 ? TLS_OPEN_KEY_UPDATE_REPLY : TLS_OPEN_NOTHING);
      assert_int_equal(theirs.read.epoch, i + 1);
      assert_memory_equal(theirs.read.key, ours.write.key, 32);
      assert_int_equal(send("x", 1, TLS_CONTENT_DATA), TLS_OPEN_DATA);
    }
  }
  start(0x1301);
  for (u32 i = 0; i < 5; i++) {  // in pieces
    const u8 message[5] = {24, 0, 0, 1, 1};
    enum tls_open got = send(message + i, 1, TLS_CONTENT_HANDSHAKE);
    assert_int_equal(got, i < 4 ? TLS_OPEN_NOTHING : TLS_OPEN_KEY_UPDATE_REPLY);
  }
  cipher_direction_update(&ours.write, cipher_suite_find(0x1301));
  assert_int_equal(send("x", 1, TLS_CONTENT_DATA), TLS_OPEN_DATA);
  start(0x1301);
  for (u32 i = 0; i < 33; i++) {  // and no data in between
    u32 len = tls_seal_key_update(&ours, cache, span_of(buf, sizeof buf), false);
    enum tls_open got = open_exact(len, &content);
    assert_int_equal(got, i < 32 ? TLS_OPEN_NOTHING : TLS_OPEN_FAILED);
  }
  assert_int_equal(theirs.alert, 10);
}

static void refused_contents(void **state) {
  (void)state;
  start(0x1301);
  expect_alert(send("\x18\x00\x00\x01\x02", 5, TLS_CONTENT_HANDSHAKE), 47);
  start(0x1301);
  expect_alert(send("\x18\x00\x00\x01\x00\x00", 6, TLS_CONTENT_HANDSHAKE), 10);
  start(0x1301);
  expect_alert(send("\x01\x00", 2, TLS_CONTENT_HANDSHAKE), 10);
  start(0x1301);
  expect_alert(send("", 0, TLS_CONTENT_HANDSHAKE), 10);
  start(0x1301);
  assert_int_equal(send("\x18", 1, TLS_CONTENT_HANDSHAKE), TLS_OPEN_NOTHING);
  expect_alert(send("x", 1, TLS_CONTENT_DATA), 10);
  start(0x1301);
  expect_alert(send("x", 1, 20), 10);  // change_cipher_spec after the handshake
  start(0x1301);
  expect_alert(send("\0\0\0", 3, 0), 10);  // nothing but padding
  start(0x1301);
  expect_alert(send("\x02", 1, TLS_CONTENT_ALERT), 50);
  start(0x1301);
  assert_int_equal(send("\x02\x2a", 2, TLS_CONTENT_ALERT), TLS_OPEN_PEER_ALERT);
  assert_int_equal(theirs.alert, 42);
  start(0x1301);
  u32 len = tls_seal_alert(&ours, cache, span_of(buf, sizeof buf), 0);
  struct span content;
  assert_int_equal(open_exact(len, &content), TLS_OPEN_CLOSED);
  start(0x1301);
  for (u32 i = 0; i < 32; i++) {
    assert_int_equal(send("", 0, TLS_CONTENT_DATA), TLS_OPEN_NOTHING);
  }
  expect_alert(send("", 0, TLS_CONTENT_DATA), 10);
}

// RFC 8446 5.4: content of 16384 bytes and padding up to the record's limit; one byte of content
// more is an overflow.
static void padding(void **state) {
  (void)state;
  static u8 inner[TLS_RECORD_BODY_MAX];
  for (u32 over = 0; over < 2; over++) {
    start(0x1303);
    u32 content_len = TLS_RECORD_CONTENT_MAX + over;
    memset(inner, 'x', content_len);
    memset(inner + content_len, 0, sizeof inner - content_len);
    inner[content_len] = TLS_CONTENT_DATA;
    u32 inner_len = TLS_RECORD_BODY_MAX - 16;
    const u8 head[5] = {23, 3, 3, TLS_RECORD_BODY_MAX >> 8, TLS_RECORD_BODY_MAX & 0xff};
    memcpy(buf, head, 5);
    u8 nonce[12];
    memcpy(nonce, ours.write.iv, 12);
    usize sealed = 0;
    assert_int_equal(
        EVP_AEAD_CTX_seal(cipher_context(cache, &ours.write, cipher_suite_find(0x1303)), buf + 5,
                          &sealed, sizeof buf - 5, nonce, 12, inner, inner_len, head, 5),
        1);
    struct span content;
    enum tls_open got = open_exact(TLS_RECORD_MAX, &content);
    if (over == 0) {
      assert_int_equal(got, TLS_OPEN_DATA);
      assert_int_equal(content.len, TLS_RECORD_CONTENT_MAX);
    } else {
      expect_alert(got, 22);
    }
  }
}

static void limits(void **state) {
  (void)state;
  start(0x1301);
  assert_false(tls_write_wants_update(&ours));
  ours.write.sequence = 1u << 23;
  assert_true(tls_write_wants_update(&ours));
  tls_seal_key_update(&ours, cache, span_of(buf, sizeof buf), false);
  assert_false(tls_write_wants_update(&ours));
  assert_int_equal(ours.write.sequence, 0);
  assert_true(sizeof(struct tls_record) <= 320);
}

// More directions than slots: every record still opens, only slower.
static void small_cache(void **state) {
  (void)state;
  start(0x1301);
  static struct tls_record a[16];
  static struct tls_record b[16];
  for (u32 i = 0; i < 16; i++) {
    a[i] = ours;
    test_random(span_of(a[i].write.secret, 32));
    b[i] = a[i];
    b[i].read = a[i].write;
    tls_record_start(&a[i]);
    tls_record_start(&b[i]);
  }
  for (u32 turn = 0; turn < 200; turn++) {
    u32 i = turn * 7 % 16;
    struct span content;
    u32 len = tls_seal(&a[i], cache, span_of(buf, sizeof buf), 100, TLS_CONTENT_DATA);
    assert_int_equal(tls_open(&b[i], cache, span_of(buf, len), &content), TLS_OPEN_DATA);
  }
  struct tls_cipher_cache_stats stats = tls_cipher_cache_stats(cache);
  assert_true(stats.misses > 100);
  assert_int_equal(stats.hits + stats.misses, 400);
  for (u32 i = 0; i < 16; i++) {
    tls_record_fini(&a[i], cache);
    tls_record_fini(&b[i], cache);
  }
  for (u32 i = 0; i < sizeof a; i++) {
    assert_int_equal(((u8 *)a)[i], 0);
  }
}

// --- Against the library's own client, after a real handshake

static struct tls_record live;

static void push(struct test_peer *p, u32 len) {
  assert_int_equal(BIO_write(p->in, buf, (int)len), len);
}
static enum tls_open pull(struct test_peer *p, struct span *content) {
  u8 head[5];
  assert_int_equal(BIO_read(p->out, head, 5), 5);
  u32 len = tls_record_length(head);
  assert_true(len != 0);
  memcpy(buf, head, 5);
  assert_int_equal(BIO_read(p->out, buf + 5, (int)len - 5), len - 5);
  return tls_open(&live, cache, span_of(buf, len), content);
}
static void echo(struct test_peer *p) {
  char text[64] = "";
  memcpy(buf + TLS_RECORD_HEAD, "from server", 11);
  push(p, tls_seal(&live, cache, span_of(buf, sizeof buf), 11, TLS_CONTENT_DATA));
  assert_int_equal(SSL_read(p->ssl, text, sizeof text), 11);
  assert_string_equal(text, "from server");
  struct span content;
  assert_int_equal(SSL_write(p->ssl, "from client", 11), 11);
  assert_int_equal(pull(p, &content), TLS_OPEN_DATA);
  assert_memory_equal(content.ptr, "from client", 11);
}

static void with_the_library(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  struct test_peer p = test_peer(
      (struct test_client){.certificate = "client-p256-p256.crt", .key = "client-p256-p256.key"});
  struct test_result r = test_shake(context, &p, test_now, TEST_RUN_ALL);
  assert_int_equal(r.step, TLS_STEP_DONE);
  live = r.record;
  struct span content;
  echo(&p);
  push(&p, tls_seal_key_update(&live, cache, span_of(buf, sizeof buf), false));
  echo(&p);
  SSL_key_update(p.ssl, SSL_KEY_UPDATE_REQUESTED);
  SSL_write(p.ssl, "!", 1);
  assert_int_equal(pull(&p, &content), TLS_OPEN_KEY_UPDATE_REPLY);
  push(&p, tls_seal_key_update(&live, cache, span_of(buf, sizeof buf), false));
  assert_int_equal(pull(&p, &content), TLS_OPEN_DATA);
  echo(&p);
  push(&p, tls_seal_key_update(&live, cache, span_of(buf, sizeof buf), true));
  u8 nothing[1];
  SSL_read(p.ssl, nothing, 1);  // the client answers with its own
  SSL_write(p.ssl, "?", 1);
  assert_int_equal(pull(&p, &content), TLS_OPEN_NOTHING);
  assert_int_equal(pull(&p, &content), TLS_OPEN_DATA);
  echo(&p);
  push(&p, tls_seal_alert(&live, cache, span_of(buf, sizeof buf), 0));
  assert_int_equal(SSL_read(p.ssl, nothing, 1), 0);
  assert_int_equal(SSL_get_error(p.ssl, 0), SSL_ERROR_ZERO_RETURN);
  SSL_shutdown(p.ssl);
  assert_int_equal(pull(&p, &content), TLS_OPEN_CLOSED);
  tls_record_fini(&live, cache);
  test_peer_free(&p);
  tls_context_unref(context);
}

int main(void) {
  test_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lengths),     cmocka_unit_test(key_schedule),
      cmocka_unit_test(round_trip),  cmocka_unit_test(forged_and_cut),
      cmocka_unit_test(key_updates), cmocka_unit_test(refused_contents),
      cmocka_unit_test(padding),     cmocka_unit_test(limits),
      cmocka_unit_test(small_cache), cmocka_unit_test(with_the_library),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
