// SPDX-License-Identifier: Apache-2.0
// Requests are written and answers read by the code that the broker has (base/json.h).
#include "ctl_ask.h"

#include <stdio.h>

#include "ctl_link.h"
#include "ctl_table.h"

#define NODES_MAX 65536u
#define REQUEST_MAX 16384u

struct json ctl_answer;
const char *ctl_fault;
struct json_out ctl_request;
static u8 request_text[REQUEST_MAX];

void ctl_begin(const char *command) {
  ctl_request = json_out_init(span_of(request_text, sizeof request_text));
  json_open(&ctl_request, '{');
  json_key(&ctl_request, "commands");
  json_open(&ctl_request, '[');
  json_open(&ctl_request, '{');
  json_field_string(&ctl_request, "command", bytes_str(command));
}

u32 ctl_send(void) {
  static struct json_node nodes[NODES_MAX];
  struct json_fault f;
  json_close(&ctl_request, '}');
  json_close(&ctl_request, ']');
  json_close(&ctl_request, '}');
  if (ctl_request.w.err != ERR_OK) {
    die("the command", "is too long");
  }
  if (json_parse(ctl_ask(writer_bytes(&ctl_request.w)), nodes, NODES_MAX, &ctl_answer, &f) !=
      ERR_OK) {
    die(ctl_where(), "the answer is no JSON");
  }
  u32 list = json_member(&ctl_answer, 0, "responses");
  u32 first = json_first(&ctl_answer, list);
  u32 error = json_member(&ctl_answer, first, "error");
  ctl_fault = error != JSON_NONE ? ctl_text(&ctl_answer, error) : NULL;
  return json_member(&ctl_answer, first, "data");
}

void ctl_check(const char *what) {
  if (ctl_fault != NULL) {
    char where[700];
    snprintf(where, sizeof where, "%s: %s", ctl_where(), what);
    die(where, ctl_fault);
  }
}

void ctl_raw(u32 node) {
  struct bytes text =
      bytes_sub(ctl_answer.text, ctl_answer.node[node].off, ctl_answer.node[node].len);
  printf("%.*s\n", (int)text.len, (const char *)text.ptr);
}
