// SPDX-License-Identifier: Apache-2.0
// Fuzzes the JSON reader: what it takes is written out again value by value, read back and gives
// the same nodes; every node lies in the text and links forward.
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const u8 *data, usize len);

#define NODES 512u

static void check(bool ok) {
  if (!ok) {
    abort();
  }
}

static void write_node(struct json_out *o, const struct json *j, u32 i, u8 *buf, usize cap) {
  const struct json_node *n = &j->node[i];
  struct bytes s;
  if (n->type != JSON_STRING) {
    json_put_raw(o, bytes_sub(j->text, n->off, n->len));
    return;
  }
  check(json_string(j, i, span_of(buf, cap), &s));
  check(s.len <= n->len);
  json_put_string(o, s);
}

int LLVMFuzzerTestOneInput(const u8 *data, usize len) {
  static struct json_node nodes[NODES], again[NODES];
  struct json j, k;
  struct json_fault fault;
  u8 *copy = malloc(len == 0 ? 1 : len);
  memcpy(copy, data, len);
  if (json_parse(bytes_of(copy, len), nodes, NODES, &j, &fault) != ERR_OK) {
    check(fault.what != NULL && fault.off <= len && j.count == 0);
    free(copy);
    return 0;
  }
  usize cap = 6 * len + 2;
  u8 *out = malloc(cap);
  u8 *buf = malloc(len + 1);
  for (u32 i = 0; i < j.count; i++) {
    check(nodes[i].off <= len && nodes[i].len <= len - nodes[i].off);
    check(nodes[i].next > i && nodes[i].next <= j.count);
    if (nodes[i].type >= JSON_ARRAY) {
      u32 count = json_count(&j, i);
      check(count <= nodes[i].next - i);
    }
    struct json_out o = json_out_init(span_of(out, cap));
    write_node(&o, &j, i, buf, len + 1);
    check(o.w.err == ERR_OK);
    check(json_parse(writer_bytes(&o.w), again, NODES, &k, &fault) == ERR_OK);
    check(k.count == nodes[i].next - i);
    for (u32 n = 0; n < k.count; n++) {
      check(again[n].type == nodes[i + n].type);
    }
  }
  free(buf);
  free(out);
  free(copy);
  return 0;
}
