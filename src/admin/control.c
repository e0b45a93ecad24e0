// SPDX-License-Identifier: Apache-2.0
// Taking commands and answering them. A command writes its data into the answer; what does not fit
// becomes an error for that command alone, and the others still get theirs.
//
// C1  Only users of the list are answered at all: for everybody else the topic does not exist.
// C2  Nothing here runs longer than a slice: lists are paged.
#include "admin/control.h"

#include "admin/control_inner.h"
#include "admin/serve.h"
#include "base/fmt.h"

#define NODES_MAX 512u
#define COMMANDS_MAX 32u

static struct {
  struct bytes user[CONFIG_CONSOLE_USERS_MAX];
  u8 names[CONFIG_CONSOLE_USERS_MAX][CONTROL_NAME_MAX];
  u32 user_count;
  bool registered;
  struct json_node nodes[NODES_MAX];
  u8 answer[CONTROL_ANSWER_MAX];
} control;

void control_configure(struct core *core, const struct config *c) {
  control.user_count = 0;
  for (u32 i = 0; i < c->console_user_count; i++) {  // copied: a reload takes the text away
    struct bytes name = c->console_user[i];
    ASSERT(name.len <= CONTROL_NAME_MAX);
    memcpy(control.names[i], name.ptr, name.len);
    control.user[control.user_count++] = bytes_of(control.names[i], name.len);
  }
  if (!control.registered && control.user_count > 0) {
    control.registered =
        broker_set_control(core->broker, BYTES_LIT(CONTROL_TOPIC), control_message, core);
    if (!control.registered) {
      say("warning: " CONTROL_TOPIC " is not served: too many such topics");
    }
  }
}

static bool is_console_user(const struct access_who *who) {
  for (u32 i = 0; i < control.user_count; i++) {
    if (who->has_username && bytes_equal(who->username, control.user[i])) {
      return true;
    }
  }
  return false;
}

// Runs one command; its answer is an object at the end of the list.
static void run_command(struct control_call *c, const struct control_command *found,
                        struct bytes name) {
  struct json_out start = *c->out;
  const char *bad = NULL;
  json_open(c->out, '{');
  json_field_string(c->out, "command", name);
  u32 correlation = json_member(c->j, c->node, "correlationData");
  if (json_type(c->j, correlation) == JSON_STRING) {
    json_key(c->out, "correlationData");
    u32 off = c->j->node[correlation].off - 1;  // with its quotes, as it stands
    json_put_raw(c->out, bytes_sub(c->j->text, off, c->j->node[correlation].len + 2));
  }
  struct json_out behind = *c->out;
  bad = found == NULL ? "Unknown command" : found->run(c);
  if (c->out->w.err != ERR_OK) {
    bad = "the answer is too long: ask for less with offset and count";
  }
  if (bad != NULL) {
    *c->out = behind;
    json_field_string(c->out, "error", bytes_str(bad));
  }
  json_close(c->out, '}');
  if (c->out->w.err != ERR_OK) {
    *c->out = start;  // not even the error fits
    c->out->w.err = ERR_OK;
  }
}

static void audit(const struct access_who *who, struct bytes name) {
  char line[200];
  struct writer w = writer_init(span_of(line, sizeof line - 1));
  write_str(&w, "console: ");
  fmt_escaped(&w, bytes_sub(name, 0, MIN(name.len, (usize)32)));
  write_str(&w, " by ");
  fmt_escaped(&w, bytes_sub(who->username, 0, MIN(who->username.len, (usize)24)));
  line[MIN(w.pos, (u32)sizeof line - 1)] = 0;
  say("%s", line);
}

static void run_all(struct core *core, const struct access_who *who, const struct json *j,
                    struct json_out *out, u64 now_ns) {
  u32 list = json_member(j, 0, "commands");
  u32 count = 0;
  for (u32 i = json_first(j, list); i != JSON_NONE && count < COMMANDS_MAX;
       i = json_after(j, list, i), count++) {
    u8 text[64];
    struct bytes name = BYTES_LIT("?");
    struct control_call c = {.core = core, .j = j, .node = i, .out = out, .now_ns = now_ns};
    if (!json_string(j, json_member(j, i, "command"), span_of(text, sizeof text), &name)) {
      name = BYTES_LIT("?");
    }
    audit(who, name);
    run_command(&c, control_find(name), name);
  }
  if (json_type(j, list) != JSON_ARRAY) {
    json_open(out, '{');
    json_field_string(out, "error", BYTES_LIT("Invalid/missing commands"));
    json_close(out, '}');
  }
}

void control_message(void *ctx, const struct access_who *who, struct bytes payload, u64 now_ns) {
  struct core *core = ctx;
  struct json j;
  struct json_fault fault = {.what = ""};
  struct json_out out = json_out_init(span_of(control.answer, sizeof control.answer));
  u8 id[CONTROL_NAME_MAX];
  if (!is_console_user(who) || who->client_id.len > sizeof id) {
    return;  // C1
  }
  memcpy(id, who->client_id.ptr, who->client_id.len);  // a command may end the session
  struct bytes client = bytes_of(id, who->client_id.len);
  json_open(&out, '{');
  json_key(&out, "responses");
  json_open(&out, '[');
  enum err e = json_parse(payload, control.nodes, NODES_MAX, &j, &fault);
  if (e == ERR_OK) {
    run_all(core, who, &j, &out, now_ns);
  } else {
    char text[128];
    u32 n = fmt_z(text, sizeof text, "line %u, byte %u: %s", fault.line, fault.off,
                  e == ERR_LIMIT ? "too many values" : fault.what);
    json_open(&out, '{');
    json_field_string(&out, "error", bytes_of(text, n));
    json_close(&out, '}');
  }
  json_close(&out, ']');
  json_close(&out, '}');
  ASSERT(out.w.err == ERR_OK);  // run_command leaves room
  (void)broker_send(core->broker, client, BYTES_LIT(CONTROL_TOPIC "/response"),
                    writer_bytes(&out.w), 1);
}
