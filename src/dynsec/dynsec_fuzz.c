// SPDX-License-Identifier: Apache-2.0
// Fuzzes dynamic security: the input is the plugin's file or a message of commands (first byte), on
// top of a small world; whatever happens, answers are JSON and every object is given back.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/broker_test_support.h"
#include "dynsec/state.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

static void fill(struct span out) {
  memset(out.ptr, 7, out.len);
}

static const char start[] =
    "{\"clients\":[{\"username\":\"u\",\"roles\":[{\"rolename\":\"r\"}]}],\"groups\":[{"
    "\"groupname\":"
    "\"g\",\"clients\":[{\"username\":\"u\",\"priority\":3}],\"roles\":[{\"rolename\":\"r\"}]}],"
    "\"roles\":[{\"rolename\":\"r\",\"acls\":[{\"acltype\":\"publishClientSend\",\"topic\":\"a/"
    "%u\","
    "\"allow\":true}]}],\"anonymousGroup\":\"g\"}";

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static struct world w;
  static struct dynsec *d;
  static const struct siphash_key key = {1, 2};
  struct dynsec_fault fault;
  if (d == NULL) {
    usize size = 1u << 20;
    world_open(&w);
    void *memory = aligned_alloc(64, size);
    memset(memory, 0, size);
    d = dynsec_init(w.b, span_of(memory, size), &key, fill);
  }
  if (len == 0) {
    return 0;
  }
  CHECK(dynsec_load(d, BYTES_LIT(start), &fault) == ERR_OK);
  u8 *copy = malloc(len);
  memcpy(copy, data + 1, len - 1);
  if ((data[0] & 1) == 0) {
    (void)dynsec_load(d, bytes_of(copy, len - 1), &fault);
  } else {
    dynsec_control(d, NULL, bytes_of(copy, len - 1), 1);
  }
  free(copy);
  struct access_who who = {BYTES_LIT("u"), BYTES_LIT("c"), true};
  struct password_hash hash;
  (void)dynsec_allows(d, &who, ACCESS_WRITE, BYTES_LIT("a/u"));
  (void)dynsec_allows(d, &who, ACCESS_SUBSCRIBE, BYTES_LIT("a/+"));
  (void)dynsec_find(d, &who, &hash);
  table_clear(d);
  CHECK(pool_taken(&d->objects) + pool_taken(&d->links) + pool_taken(&d->rules) == 0);
  CHECK(d->blocks.taken == 0);
  return 0;
}
