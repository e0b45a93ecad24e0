// SPDX-License-Identifier: Apache-2.0
// Proves: the subscription index finds exactly what topic_matches finds, gives every node back, and
// the cost of a match does not grow with the filters beside it (200 000 of them).
#pragma GCC diagnostic ignored "-Wunused-function"
#include <time.h>

#include "broker/broker_test_support.h"

#include <cmocka.h>

static struct world w;
static struct client one, many;

static void open_big(u32 subs) {
  struct broker_limits l;
  broker_limits_default(&l, 4u << 20);
  l.subscriptions = subs;
  l.topic_nodes = subs * 3;
  world_limits(&w, &l);
  client_init(&one, &w, MQTT_V5);
  client_init(&many, &w, MQTT_V5);
  CHECK(client_connect(&one, "one", true, 0));
  CHECK(client_connect(&many, "many", true, 0));
}
static void close_big(void) {
  client_free(&one);
  client_free(&many);
  world_close(&w);
}
static u32 matches(const char *name) {
  w.b->route_gen++;
  tree_match(w.b, bytes_str(name), NULL);
  u32 count = 0;
  for (u32 i = w.b->route_head; i != NONE; i = session_at(w.b, i)->route_next) {
    count++;
  }
  w.b->route_head = w.b->route_tail = w.b->route_shared = NONE;
  return count;
}
static double match_ns(const char *name) {
  double best = 1e9;
  for (u32 round = 0; round < 15; round++) {
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (u32 i = 0; i < 2000; i++) {
      (void)matches(name);
    }
    clock_gettime(CLOCK_MONOTONIC, &b);
    double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / 2000;
    best = ns < best ? ns : best;
  }
  return best;
}

static void two_hundred_thousand(void **state) {
  (void)state;
  open_big(220000);
  subscribe_ok(&one, "site/+/room/#", 0);
  subscribe_ok(&one, "site/1/room/2", 0);
  double alone = match_ns("site/1/room/2");
  char filter[64];
  for (u32 i = 0; i < 200000; i++) {
    bool existed = false;
    snprintf(filter, sizeof filter, i % 3 ? "site/%u/room/%u" : "site/%u/+/x%u", i % 500 + 2, i);
    CHECK(tree_subscribe(w.b, many.s, bytes_str(filter), bytes_of(NULL, 0), &existed) != NULL);
    CHECK(!existed);
  }
  CHECK(matches("site/1/room/2") == 1);
  CHECK(matches("site/3/room/1") == 2);
  double crowded = match_ns("site/1/room/2");
  printf("match: %.0f ns alone, %.0f ns beside 200000 filters (sanitized)\n", alone, crowded);
  CHECK(crowded < alone * 2 + 500);
  tree_check(w.b);
  session_drop_subs(many.s);
  CHECK(broker_stats(w.b)->subscriptions == 2);
  tree_check(w.b);
  client_detach(&one);
  client_detach(&many);
  CHECK(pool_taken(&w.b->nodes) == 1);
  close_big();
}

static u64 rng = 42;
static u32 rnd(u32 n) {
  rng = rng * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(rng >> 33) % n;
}
static void random_text(char *to, bool filter) {
  static const char *levels[] = {"a", "b", "", "$s", "a-level-that-is-longer-than-inline"};
  u32 count = 1 + rnd(4);
  *to = 0;
  for (u32 i = 0; i < count; i++) {
    u32 k = rnd(filter ? 8 : 5);
    strcat(to, i > 0 ? "/" : "");
    strcat(to, k < 5 ? levels[k] : k < 7 ? "+" : "#");
    if (k == 7) {
      break;
    }
  }
  if (*to == 0) {
    strcpy(to, "a");
  }
}
static void agrees_with_topic_matches(void **state) {
  (void)state;
  open_big(2000);
  static char filters[300][200];
  u32 count = 0;
  u32 found = 0;
  for (u32 round = 0; round < 20000; round++) {
    bool existed = false;
    if (count < 300 && rnd(4) == 0) {
      random_text(filters[count], true);
      CHECK(topic_filter_valid(bytes_str(filters[count])));
      struct bytes f = bytes_str(filters[count]);
      CHECK(tree_subscribe(w.b, one.s, f, bytes_of(NULL, 0), &existed) != NULL);
      count += existed ? 0 : 1;
    } else if (count > 0 && rnd(4) == 0) {
      u32 i = rnd(count);
      struct sub *sub = tree_find(w.b, one.s, bytes_str(filters[i]), bytes_of(NULL, 0));
      CHECK(sub != NULL);
      tree_remove(w.b, sub);
      memcpy(filters[i], filters[--count], sizeof filters[0]);
    }
    char name[200];
    random_text(name, false);
    bool want = false;
    for (u32 i = 0; i < count; i++) {
      want |= topic_matches(bytes_str(filters[i]), bytes_str(name));
    }
    CHECK(matches(name) == (want ? 1 : 0));
    found += want ? 1 : 0;
    if (round % 500 == 0) {
      tree_check(w.b);
    }
  }
  CHECK(found > 1000);
  CHECK(found < 19000);
  close_big();
}

static void depth_is_bounded(void **state) {
  (void)state;
  open_big(2000);
  static char deep[60001];
  memset(deep, '/', 60000);
  subscribe_ok(&one, "#", 0);
  CHECK(client_publish(&many, deep, "x", 0, false, 0) == MQTT_SUCCESS);
  expect_publish(&one, deep, "x", 0, false, NULL);
  deep[200] = 0;  // 201 levels
  CHECK(client_subscribe_id(&one, deep, 0, 0, 1) == MQTT_SUCCESS);
  expect_suback(&one, MQTT_SUBACK, MQTT_TOPIC_FILTER_INVALID);
  deep[199] = 0;  // 200 levels
  subscribe_ok(&one, deep, 0);
  client_unsubscribe(&one, "#", 1);
  expect_suback(&one, MQTT_UNSUBACK, 0);
  CHECK(client_publish(&many, deep, "y", 0, false, 0) == MQTT_SUCCESS);
  expect_publish(&one, deep, "y", 0, false, NULL);
  for (u32 i = 0; i < 199; i += 2) {  // '+' everywhere: the walk's stack at its deepest
    deep[i] = '+';
  }
  subscribe_ok(&one, deep, 0);
  memset(deep, '/', 99);
  deep[99] = 0;
  CHECK(client_publish(&many, deep, "z", 0, false, 0) == MQTT_SUCCESS);
  expect_publish(&one, deep, "z", 0, false, NULL);
  close_big();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(two_hundred_thousand),
                                     cmocka_unit_test(agrees_with_topic_matches),
                                     cmocka_unit_test(depth_is_bounded)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
