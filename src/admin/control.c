// SPDX-License-Identifier: Apache-2.0
// Taking commands and answering them. A command writes its data into the answer; what does not fit
// becomes an error for that command alone, and the others still get theirs.
//
// C1  Only users of the list are answered at all: for everybody else the topic does not exist.
// C2  A message waits for control_stage: a command may end sessions, also of who gave it.
// C3  Nothing here runs long: lists are paged, one message a turn.
#include "admin/control.h"

#include "admin/control_inner.h"
#include "admin/log.h"
#include "admin/serve.h"
#include "admin/trial.h"
#include "base/fmt.h"

#define NODES_MAX 512u
#define COMMANDS_MAX 32u

#define WAITING_MAX 4u
#define MESSAGE_MAX 16384u

struct waiting {
  u32 len, client_len, user_len;
  u32 trial;  // when it arrived
  bool rechecked;
  u8 client[CONTROL_NAME_MAX], user[CONTROL_NAME_MAX];
  u8 payload[MESSAGE_MAX];
};
static struct {
  struct waiting waiting[WAITING_MAX];
  u32 first, count;
  struct bytes user[CONFIG_CONSOLE_USERS_MAX];
  u8 names[CONFIG_CONSOLE_USERS_MAX][CONFIG_CONSOLE_NAME_MAX];
  u32 user_count;
  bool registered;
  struct json_node nodes[NODES_MAX];
  u8 answer[CONTROL_ANSWER_MAX];
} control;

static bool is_console_user(const struct access_who *who) {
  for (u32 i = 0; i < control.user_count; i++) {
    if (who->has_username && bytes_equal(who->username, control.user[i])) {
      return true;
    }
  }
  return false;
}

static void refuse(struct core *core, struct bytes client, const char *why) {
  char text[160];
  u32 n = fmt_z(text, sizeof text, "{\"responses\":[{\"error\":\"%s\"}]}", why);
  (void)broker_send(core->broker, client, BYTES_LIT(CONTROL_TOPIC "/response"), bytes_of(text, n),
                    1);
}

static void take_message(void *ctx, const struct access_who *who, struct bytes payload,
                         u64 now_ns) {
  (void)now_ns;
  if (!is_console_user(who) || who->client_id.len > CONTROL_NAME_MAX) {
    return;  // C1
  }
  if (payload.len > MESSAGE_MAX || control.count == WAITING_MAX) {
    refuse(ctx, who->client_id,
           control.count == WAITING_MAX ? "too many commands at once" : "the message is too long");
    return;
  }
  struct waiting *w = &control.waiting[(control.first + control.count++) % WAITING_MAX];
  w->len = (u32)payload.len;
  w->client_len = (u32)who->client_id.len;
  w->user_len = (u32)who->username.len;
  w->trial = trial_number();
  w->rechecked = control_rechecked(ctx, who->client_id);
  memcpy(w->payload, payload.ptr, payload.len);
  memcpy(w->client, who->client_id.ptr, who->client_id.len);
  memcpy(w->user, who->username.ptr, who->username.len);
}

void control_configure(struct core *core, const struct config *c) {
  control.user_count = 0;
  for (u32 i = 0; i < c->console_user_count; i++) {  // copied: a reload takes the text away
    struct bytes name = c->console_user[i];
    ASSERT(name.len <= CONFIG_CONSOLE_NAME_MAX);
    memcpy(control.names[i], name.ptr, name.len);
    control.user[control.user_count++] = bytes_of(control.names[i], name.len);
  }
  if (!control.registered && control.user_count > 0) {
    control.registered =
        broker_set_control(core->broker, BYTES_LIT(CONTROL_TOPIC), take_message, core);
    if (!control.registered) {
      say("warning: " CONTROL_TOPIC " is not served: too many such topics");
    }
  }
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
    if (!c->keep_data || c->out->w.err != ERR_OK) {
      *c->out = behind;
    }
    json_field_string(c->out, "error", bytes_str(bad));
  }
  json_close(c->out, '}');
  if (c->out->w.err != ERR_OK) {
    *c->out = start;  // not even the error fits
    c->out->w.err = ERR_OK;
  }
}

// Whoever follows the log or moves a configuration in pieces does not fill the log: the next piece
// right behind the last adds no line.
static bool is_more_of_it(struct bytes name, struct bytes line) {
  u64 number = 0;
  struct log_entry last = {.text = {NULL, 0}};
  if (!bytes_equal(name, BYTES_LIT("getLogs")) && !bytes_equal(name, BYTES_LIT("configGet")) &&
      !bytes_equal(name, BYTES_LIT("configPut"))) {
    return false;
  }
  while (log_entry(&number, &last)) {
    number++;
  }
  return bytes_equal(last.text, line);
}

static void audit(const struct waiting *from, struct bytes name) {
  char line[200];
  struct writer w = writer_init(span_of(line, sizeof line - 1));
  write_str(&w, "console: ");
  fmt_escaped(&w, bytes_sub(name, 0, MIN(name.len, (usize)32)));
  write_str(&w, " by ");
  fmt_escaped(&w, bytes_of(from->user, MIN(from->user_len, 24u)));
  line[w.pos] = 0;
  if (!is_more_of_it(name, bytes_of(line, w.pos))) {
    say("%s", line);
  }
}

static void run_all(struct core *core, const struct waiting *from, const struct json *j,
                    struct json_out *out) {
  u32 list = json_member(j, 0, "commands");
  u32 count = 0;
  for (u32 i = json_first(j, list); i != JSON_NONE && count < COMMANDS_MAX;
       i = json_after(j, list, i), count++) {
    u8 text[64];
    struct bytes name = BYTES_LIT("?");
    struct control_call c = {.core = core,
                             .j = j,
                             .node = i,
                             .out = out,
                             .now_ns = core->now_ns,
                             .client = bytes_of(from->client, from->client_len),
                             .user = bytes_of(from->user, from->user_len),
                             .trial = from->trial,
                             .rechecked = from->rechecked};
    if (!json_string(j, json_member(j, i, "command"), span_of(text, sizeof text), &name)) {
      name = BYTES_LIT("?");
    }
    audit(from, name);
    run_command(&c, control_find(name), name);
  }
  if (json_type(j, list) != JSON_ARRAY) {
    json_open(out, '{');
    json_field_string(out, "error", BYTES_LIT("Invalid/missing commands"));
    json_close(out, '}');
  }
}

static void run_message(struct core *core, const struct waiting *w) {
  struct json j;
  struct json_fault fault = {.what = ""};
  struct json_out out = json_out_init(span_of(control.answer, sizeof control.answer));
  json_open(&out, '{');
  json_key(&out, "responses");
  json_open(&out, '[');
  enum err e = json_parse(bytes_of(w->payload, w->len), control.nodes, NODES_MAX, &j, &fault);
  out.w.end -= CONTROL_RESERVE;  // for what closes the answer
  if (e == ERR_OK) {
    run_all(core, w, &j, &out);
  } else {
    char text[128];
    u32 n = fmt_z(text, sizeof text, "line %u, byte %u: %s", fault.line, fault.off,
                  e == ERR_LIMIT ? "too many values" : fault.what);
    json_open(&out, '{');
    json_field_string(&out, "error", bytes_of(text, n));
    json_close(&out, '}');
  }
  out.w.end += CONTROL_RESERVE;
  json_close(&out, ']');
  json_close(&out, '}');
  ASSERT(out.w.err == ERR_OK);
  (void)broker_send(core->broker, bytes_of(w->client, w->client_len),
                    BYTES_LIT(CONTROL_TOPIC "/response"), writer_bytes(&out.w), 1);
}

bool control_stage(struct core *core, void *unused) {
  (void)unused;
  bool traced = control_trace_stage(core);
  if (control.count == 0) {
    return traced;
  }
  run_message(core, &control.waiting[control.first]);
  control.first = (control.first + 1) % WAITING_MAX;
  control.count--;
  return true;
}
