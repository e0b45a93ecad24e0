// SPDX-License-Identifier: Apache-2.0
// The diagnostics document as text, and its verdict.
#include "admin/diagnose.h"
#include "base/fmt.h"
#include "plat/plat.h"

static void put_value(const struct json *j, u32 node, struct writer *w) {
  const struct json_node *n = &j->node[node];
  write_bytes(w, bytes_sub(j->text, n->off, n->len));
}

static bool is_leaf(const struct json *j, u32 node) {
  enum json_type t = json_type(j, node);
  return t != JSON_OBJECT && t != JSON_ARRAY;
}

static void indent(struct writer *w, u32 depth) {
  for (u32 i = 0; i < depth; i++) {
    write_str(w, "  ");
  }
}

// An object of plain values on one line; true when it was one.
static bool put_flat(const struct json *j, u32 object, struct writer *w, u32 depth) {
  if (json_type(j, object) != JSON_OBJECT) {
    return false;
  }
  for (u32 k = json_first(j, object); k != JSON_NONE; k = json_after(j, object, k)) {
    if (!is_leaf(j, json_value(j, k))) {
      return false;
    }
  }
  indent(w, depth);
  for (u32 k = json_first(j, object); k != JSON_NONE; k = json_after(j, object, k)) {
    put_value(j, k, w);
    write_str(w, " ");
    put_value(j, json_value(j, k), w);
    write_str(w, json_after(j, object, k) != JSON_NONE ? ", " : "\n");
  }
  return true;
}

// Depth is bounded by the document's own shape: three levels.
static void put_members(const struct json *j, u32 node, struct writer *w, u32 depth) {
  bool array = json_type(j, node) == JSON_ARRAY;
  for (u32 k = json_first(j, node); k != JSON_NONE; k = json_after(j, node, k)) {
    u32 v = array ? k : json_value(j, k);
    if (array && put_flat(j, v, w, depth)) {
      continue;
    }
    indent(w, depth);
    if (!array) {
      put_value(j, k, w);
      write_str(w, is_leaf(j, v) ? ": " : ":\n");
    }
    if (is_leaf(j, v)) {
      put_value(j, v, w);
      write_str(w, "\n");
    } else if (!put_flat(j, v, w, depth + 1) && depth < 4) {
      put_members(j, v, w, depth + 1);
    }
  }
}

void diagnose_text(struct bytes document, struct json_node *nodes, u32 count, struct writer *w) {
  struct json j;
  struct json_fault fault;
  if (json_parse(document, nodes, count, &j, &fault) != ERR_OK) {
    write_str(w, "(too much for text: see the document)\n");
    return;
  }
  put_members(&j, 0, w, 0);
}

static void add(struct json_out *o, bool good, const char *yes, const char *no) {
  json_open(o, '{');
  json_field_bool(o, "good", good);
  json_field_string(o, "what", bytes_str(good ? yes : no));
  json_close(o, '}');
}

static void add_devices(struct diagnose *d) {
  struct json_out *o = &d->out;
  add(o, d->nics > 0, "a network device that urMQTT drives",
      "no network device that urMQTT drives (virtio-net): it cannot serve here");
  add(o, d->nics_up > 0, "a network link is up", "no network link is up");
  add(o, d->disks > 0, "a disk that urMQTT drives",
      "no disk that urMQTT drives (virtio-blk, virtio-scsi): sessions and retained messages live "
      "in "
      "memory only");
  add(o, d->disks == 0 || d->disks_flush == d->disks, "every disk can flush",
      "a disk without FLUSH: what it acknowledges need not survive a power cut");
}

void diagnose_verdict(struct diagnose *d) {
  struct json_out *o = &d->out;
  char line[160];
  bool serves = d->crypto_good && (d->hosted || d->nics > 0);
  json_key(o, "findings");
  json_open(o, '[');
  if (!d->hosted) {
    add_devices(d);
  }
  add(o, d->entropy_good, "random numbers are good",
      "random numbers are weak: give the machine RDRAND, RNDR or a seed before keys are made here");
  add(o, d->clock_good, "the clock can be right",
      "the clock cannot be right: expired certificates are judged leniently");
  add(o, d->crypto_good, "a whole mutual TLS handshake works",
      "a mutual TLS handshake does not work here: please report this document");
  json_close(o, ']');
  u64 rate = d->handshake_ns > 0 && d->handshake_ns != U64_MAX ? 1000000000u / d->handshake_ns : 0;
  u32 n = serves ? fmt_z(line, sizeof line,
                         "urMQTT serves here%s, about %llu new mTLS clients a second and core.",
                         d->disks > 0 || d->hosted ? "" : " from memory", (unsigned long long)rate)
                 : fmt_z(line, sizeof line, "urMQTT cannot serve here: see the findings.");
  json_field_bool(o, "serves", serves);
  json_field_string(o, "verdict", bytes_of(line, n));
}
