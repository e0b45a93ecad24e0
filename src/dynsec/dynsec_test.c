// SPDX-License-Identifier: Apache-2.0
// Proves: files of mosquitto 2.0 and 2.1 are taken over, twice the same as once, cut anywhere they
// are an error with a line; priorities decide in the documented order; names with placeholders;
// disabled clients and client ids; a table that is full answers, and everything is given back.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"
#include "dynsec/state.h"

#include <cmocka.h>

#define H64 \
  "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8gISIjJCUmJygpKissLS4vMDEyMzQ1Njc4OTo7PD0+Pw=="
static const char file[] =
    "{\"defaultACLAccess\":{\"publishClientSend\":false,\"subscribe\":true},\n"
    "\"clients\":[{\"username\":\"old\",\"password\":\"" H64
    "\",\"salt\":\"MTIzNDU2Nzg5MDEy\",\"iterations\":101,"
    "\"roles\":[{\"rolename\":\"low\",\"priority\":1},{\"rolename\":\"high\",\"priority\":2}]},\n"
    "{\"username\":\"new\",\"encoded_password\":\"$7$1000$MTIzNDU2Nzg5MDEy$" H64
    "\",\"clientid\":\"only\",\"groups\":[{\"groupname\":\"g\"}]},\n"
    "{\"username\":\"off\",\"disabled\":true,\"encoded_password\":\"$7$5$MTIz$" H64
    "\"}],\n"
    "\"groups\":[{\"groupname\":\"g\",\"roles\":[{\"rolename\":\"low\"}],"
    "\"clients\":[{\"username\":\"off\"}]}],\n"
    "\"roles\":[{\"rolename\":\"low\",\"acls\":["
    "{\"acltype\":\"publishClientSend\",\"topic\":\"a/#\",\"priority\":0,\"allow\":true},"
    "{\"acltype\":\"publishClientSend\",\"topic\":\"a/no\",\"priority\":9,\"allow\":false},"
    "{\"acltype\":\"subscribePattern\",\"topic\":\"p/+\",\"allow\":false}]},\n"
    "{\"rolename\":\"high\",\"acls\":["
    "{\"acltype\":\"publishClientSend\",\"topic\":\"a/top\",\"allow\":false},"
    "{\"acltype\":\"publishClientReceive\",\"topic\":\"%u/%c/#\",\"allow\":false},"
    "{\"acltype\":\"subscribeLiteral\",\"topic\":\"#\",\"allow\":false}]}],\n"
    "\"anonymousGroup\":\"g\"}";

static struct world w;
static struct dynsec *d;
static void *memory;

static void fill(struct span out) {
  memset(out.ptr, 7, out.len);
}
static void open_with(usize len) {
  static const struct siphash_key key = {1, 2};
  memory = aligned_alloc(64, len);
  memset(memory, 0, len);
  d = dynsec_init(w.b, span_of(memory, len), &key, fill);
}
static int set_up(void **state) {
  (void)state;
  world_open(&w);
  open_with(1u << 20);
  return 0;
}
static int tear_down(void **state) {
  (void)state;
  table_clear(d);
  assert_int_equal(pool_taken(&d->objects) + pool_taken(&d->links) + pool_taken(&d->rules), 0);
  assert_int_equal(d->blocks.taken, 0);
  MEM_UNPOISON(memory, 1u << 20);
  free(memory);
  world_close(&w);
  return 0;
}
static enum err load_n(const char *text, usize len, struct dynsec_fault *fault) {
  u8 *copy = malloc(len + (len == 0));
  memcpy(copy, text, len);
  enum err e = dynsec_load(d, bytes_of(copy, len), fault);
  memset(copy, 0xdd, len);
  free(copy);
  return e;
}
static void load(const char *text) {
  struct dynsec_fault fault;
  if (load_n(text, strlen(text), &fault) != ERR_OK) {
    fail_msg("%u: %s", fault.line, fault.text);
  }
}
static bool ask(const char *user, const char *id, enum access_kind kind, const char *topic) {
  struct access_who who = {bytes_str(user == NULL ? "" : user), bytes_str(id), user != NULL};
  return dynsec_allows(d, &who, kind, bytes_str(topic));
}
#define R ACCESS_READ
#define W ACCESS_WRITE
#define S ACCESS_SUBSCRIBE

static void verdicts(void **state) {
  (void)state;
  load(file);
  assert_true(ask("old", "c", W, "a/x"));     // low
  assert_false(ask("old", "c", W, "a/top"));  // high comes first
  assert_false(ask("old", "c", W, "a/no"));   // the rule of priority 9
  assert_false(ask("old", "c", W, "b"));      // the default
  assert_true(ask("old", "c", R, "b"));
  assert_false(ask("old", "c", R, "old/c/x"));
  assert_true(ask("old", "d", R, "old/c/x"));
  assert_false(ask("old", "c", S, "#"));
  assert_true(ask("old", "c", S, "b/#"));
  assert_false(ask("old", "c", S, "p/x"));
  assert_false(ask("old", "c", S, "$share/g/p/+"));
  assert_true(ask("old", "c", S, "p/#"));    // not covered by p/+
  assert_true(ask("new", "c", W, "a/top"));  // by its group
  assert_true(ask("off", "c", W, "a/x"));    // a member by the group's list
  assert_true(ask(NULL, "c", W, "a/x"));     // the anonymous group
  assert_false(ask("who", "c", R, "b"));     // no client of ours
  assert_true(ask("old", "c", ACCESS_UNSUBSCRIBE, "z"));
  assert_false(ask("old", "c", S, "$CONTROL/x"));  // never by default
}

static bool command(const char *text) {
  static u8 answer[REPLY_MAX];
  dynsec_control(d, NULL, bytes_str(text), 1);
  memcpy(answer, d->reply, sizeof answer);
  answer[sizeof answer - 1] = 0;
  struct json j;
  struct json_fault fault;
  static struct json_node nodes[4096];
  char *end = strstr((char *)answer, "]}");
  while (end != NULL && strstr(end + 1, "]}") != NULL && end[2] != 0) {
    end = strstr(end + 1, "]}");
  }
  assert_non_null(end);
  assert_int_equal(
      json_parse(bytes_of(answer, (usize)(end + 2 - (char *)answer)), nodes, 4096, &j, &fault),
      ERR_OK);
  u32 list = json_member(&j, 0, "responses");
  return json_member(&j, json_first(&j, list), "error") == JSON_NONE;
}

// A role without allowwildcardsubs: no filter with wildcards, whatever its rules say, nor of those
// behind it; literal filters and taking subscriptions back are as ever.
static void wildcards_taken_away(void **state) {
  (void)state;
  static const char format[] =
      "{\"defaultACLAccess\":{\"subscribe\":true},\"clients\":[{\"username\":\"u\",\"roles\":["
      "{\"rolename\":\"narrow\",\"priority\":%d},{\"rolename\":\"wide\",\"priority\":5}]}],"
      "\"roles\":[{\"rolename\":\"narrow\",\"allowwildcardsubs\":false,\"acls\":["
      "{\"acltype\":\"subscribePattern\",\"topic\":\"a/#\",\"allow\":true}]},"
      "{\"rolename\":\"wide\",\"acls\":["
      "{\"acltype\":\"subscribePattern\",\"topic\":\"b/#\",\"allow\":true}]}]}";
  for (int priority = 1; priority < 10; priority += 8) {
    char text[600];
    bool first = priority > 5;
    snprintf(text, sizeof text, format, priority);
    load(text);
    assert_true(ask("u", "c", S, "a/x"));
    assert_false(ask("u", "c", S, "a/#"));
    assert_false(ask("u", "c", S, "$share/g/a/+"));
    assert_false(ask("u", "c", S, "z/+"));  // the default does not come into it
    assert_true(ask("u", "c", S, "z/x"));
    assert_int_equal(ask("u", "c", S, "b/#"), !first);
    assert_true(ask("u", "c", S, "b/x"));
    assert_true(ask("u", "c", ACCESS_UNSUBSCRIBE, "a/#"));
  }
}

static bool from_somewhere(const struct session *s, struct writer *out) {
  (void)s;
  write_bytes(out, BYTES_LIT("192.0.2.7"));
  return true;
}

// getClient says where its connections come from; listClients does not look for them.
static void connections_of_a_client(void **state) {
  (void)state;
  struct client one, two;
  client_init(&one, &w, MQTT_V5);
  client_init(&two, &w, MQTT_V5);
  one.username = "u";
  two.username = "other";
  CHECK(client_connect(&one, "a", true, 0));
  CHECK(client_connect(&two, "b", true, 0));
  load("{\"clients\":[{\"username\":\"u\"}]}");
  static const char get[] = "{\"commands\":[{\"command\":\"getClient\",\"username\":\"u\"}]}";
  assert_true(command(get));
  assert_null(strstr((char *)d->reply, "connections"));
  dynsec_set_address(d, from_somewhere);
  memset(d->reply, 0, REPLY_MAX);
  assert_true(command(get));
  assert_non_null(strstr((char *)d->reply, "\"connections\":[{\"address\":\"192.0.2.7\"}]"));
  memset(d->reply, 0, REPLY_MAX);
  assert_true(command("{\"commands\":[{\"command\":\"listClients\",\"verbose\":true}]}"));
  assert_null(strstr((char *)d->reply, "connections"));
  client_detach(&one);
  client_detach(&two);
  client_free(&one);
  client_free(&two);
}

static void logins(void **state) {
  struct password_hash h;
  (void)state;
  load(file);
  struct access_who who = {BYTES_LIT("old"), BYTES_LIT("x"), true};
  assert_true(dynsec_find(d, &who, &h));
  assert_int_equal(h.iterations, 101);
  who.username = BYTES_LIT("new");
  assert_false(dynsec_find(d, &who, &h));  // another client id
  who.client_id = BYTES_LIT("only");
  assert_true(dynsec_find(d, &who, &h));
  assert_int_equal(h.iterations, 1000);
  who.username = BYTES_LIT("off");
  assert_false(dynsec_find(d, &who, &h));
  who.username = BYTES_LIT("nobody");
  assert_false(dynsec_find(d, &who, &h));
  assert_int_equal(h.iterations, 101);
  load(
      "{\"clients\":[{\"username\":\"arg\",\"encoded_password\":"
      "\"$argon2id$v=19$m=64,t=2,p=1$c29tZXNhbHQxMjM0$AAECAwQFBgcICQoLDA0ODw\"}]}");
  for (u32 i = 0; i < 2; i++) {  // who is not there costs what the first client costs
    who.username = i == 0 ? BYTES_LIT("arg") : BYTES_LIT("nobody");
    assert_int_equal(dynsec_find(d, &who, &h), i == 0);
    assert_int_equal(h.kind, PASSWORD_ARGON2ID);
    assert_true(h.memory_kib == 64 && h.iterations == 2 && h.lanes == 1 && h.hash_len == 16);
  }
}

static void files(void **state) {
  struct dynsec_fault fault;
  (void)state;
  load(file);
  load(file);
  assert_int_equal(dynsec_stats(d).clients, 3);
  assert_int_equal(dynsec_stats(d).roles, 2);
  for (usize n = 0; n < sizeof file - 1; n += 3) {
    assert_int_equal(load_n(file, n, &fault), ERR_INVALID);
    assert_true(fault.line > 0);
    assert_int_equal(dynsec_stats(d).clients, 3);  // no JSON: nothing was changed
  }
  static const char bad[] = "{\"roles\":[\n{\"rolename\":\"x\",\"acls\":[{\"acltype\":\"y\"}]}]}";
  assert_int_equal(load_n(bad, sizeof bad - 1, &fault), ERR_INVALID);
  assert_int_equal(fault.line, 2);
  assert_int_equal(dynsec_stats(d).roles, 0);
}

// Clients are made until there is no room: the last answer is an error, and deleting one makes
// room.
static void full(void **state) {
  char text[200];
  (void)state;
  u32 made = 0;
  for (;; made++) {
    memset(d->reply, 0, REPLY_MAX);
    snprintf(text, sizeof text,
             "{\"commands\":[{\"command\":\"createClient\",\"username\":\"u%u\"}]}", made);
    if (!command(text)) {
      break;
    }
    assert_true(made < 100000);
  }
  assert_true(made > 200);
  assert_int_equal(dynsec_stats(d).clients, made);
  memset(d->reply, 0, REPLY_MAX);
  assert_true(command("{\"commands\":[{\"command\":\"deleteClient\",\"username\":\"u5\"}]}"));
  memset(d->reply, 0, REPLY_MAX);
  assert_true(command(text));
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      T(verdicts), T(wildcards_taken_away), T(connections_of_a_client), T(logins), T(files),
      T(full)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
