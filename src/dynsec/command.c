// SPDX-License-Identifier: Apache-2.0
// The commands: one row each in the table at the end. A command checks everything it can before it
// changes anything, and says what failed by a text; who is concerned is disconnected.
#include "dynsec/state.h"

#define TEXT_MAX 4096u
static const char no_room[] = "Out of memory";

struct call {
  struct dynsec *d;
  const struct json *j;
  u32 node;  // the command's object
  enum kind kind;
  struct json_out *out;
  u8 text[TEXT_MAX];
};

static const char *missing_name(enum kind kind) {
  static const char *const texts[KINDS] = {"Invalid/missing username", "Invalid/missing groupname",
                                           "Invalid/missing rolename"};
  return texts[kind];
}
static const char *not_found(enum kind kind) {
  static const char *const texts[KINDS] = {"Client not found", "Group not found", "Role not found"};
  return texts[kind];
}

static bool name_of(struct call *c, enum kind kind, struct bytes *name) {
  return text_member(c->j, c->node, name_fields[kind], span_of(c->text, sizeof c->text), name) &&
         name->len > 0;
}

// The object that the command names. NULL: *bad says why.
static struct object *named(struct call *c, enum kind kind, const char **bad) {
  struct bytes name;
  if (!name_of(c, kind, &name)) {
    *bad = missing_name(kind);
    return NULL;
  }
  struct object *o = object_find(c->d, kind, name);
  *bad = o == NULL ? not_found(kind) : NULL;
  return o;
}

// --- whom a change concerns

static void kick_client(struct dynsec *d, const struct object *client) {
  (void)broker_kick_user(d->b, true, object_text(client, NAME), MQTT_ADMINISTRATIVE_ACTION);
}

// Members of the group; of a role, whoever has it.
static void kick_holders(struct dynsec *d, const struct object *o) {
  u32 index = object_index(d, o);
  for (u32 i = d->first[CLIENT]; i != NONE; i = object_at(d, i)->next) {
    const struct object *c = object_at(d, i);
    bool has = link_has(d, o->kind == ROLE ? c->roles : c->groups, index);
    for (u32 l = c->groups; l != NONE && !has && o->kind == ROLE; l = link_at(d, l)->next) {
      has = link_has(d, object_at(d, link_at(d, l)->target)->roles, index);
    }
    if (has) {
      kick_client(d, c);
    }
  }
  bool anonymous =
      d->anonymous_group != NONE &&
      (d->anonymous_group == index || link_has(d, object_at(d, d->anonymous_group)->roles, index));
  if (anonymous) {
    (void)broker_kick_user(d->b, false, bytes_of(NULL, 0), MQTT_ADMINISTRATIVE_ACTION);
  }
}

static void kick(struct dynsec *d, const struct object *o) {
  if (o->kind == CLIENT) {
    kick_client(d, o);
  } else {
    kick_holders(d, o);
  }
}

static void changed(struct call *c) {
  c->d->changes++;
  broker_access_changed(c->d->b);
}

// --- commands of all three kinds

static const char *fill(struct call *c, struct object *o) {
  const struct json *j = c->j;
  struct bytes password;
  const char *bad = fill_texts(c->d, j, c->node, o);
  if (bad != NULL) {
    return bad;
  }
  if (o->kind == ROLE) {
    (void)json_bool(j, json_member(j, c->node, "allowwildcardsubs"), &o->wildcard_subs);
    struct object next = {.acls = NONE};
    u32 acls = json_member(j, c->node, "acls");
    bad = fill_acls(c->d, j, acls, &next);
    if (acls != JSON_NONE && bad == NULL) {
      rules_clear(c->d, o);
      o->acls = next.acls;
    } else {
      rules_clear(c->d, &next);
    }
    return bad;
  }
  u32 roles = json_member(j, c->node, "roles");
  u32 groups = o->kind == CLIENT ? json_member(j, c->node, "groups") : JSON_NONE;
  u32 next_roles = NONE;
  u32 next_groups = NONE;
  bad = fill_roles(c->d, j, roles, &next_roles);
  bad = bad != NULL ? bad : fill_groups(c->d, j, groups, &next_groups);
  if (bad != NULL) {
    links_clear(c->d, &next_roles);
    links_clear(c->d, &next_groups);
    return bad;
  }
  if (roles != JSON_NONE) {
    links_clear(c->d, &o->roles);
    o->roles = next_roles;
  }
  if (groups != JSON_NONE) {
    links_clear(c->d, &o->groups);
    o->groups = next_groups;
  }
  if (o->kind == GROUP) {
    return fill_clients(c->d, j, json_member(j, c->node, "clients"), o);
  }
  if (text_member(j, c->node, "password", span_of(c->text, sizeof c->text), &password) &&
      password.len > 0) {
    set_password(c->d, o, password);
  }
  return NULL;
}

static const char *create(struct call *c) {
  static const char *const exists[KINDS] = {"Client already exists", "Group already exists",
                                            "Role already exists"};
  struct bytes name;
  if (!name_of(c, c->kind, &name)) {
    return missing_name(c->kind);
  }
  if (object_find(c->d, c->kind, name) != NULL) {
    return exists[c->kind];
  }
  struct object *o = object_make(c->d, c->kind, name);
  const char *bad = o == NULL ? no_room : fill(c, o);
  if (o != NULL && bad != NULL) {
    object_delete(c->d, o);
  }
  return bad;
}

static const char *delete (struct call *c) {
  const char *bad = NULL;
  struct object *o = named(c, c->kind, &bad);
  if (o == NULL) {
    return bad;
  }
  if (c->kind == GROUP && object_index(c->d, o) == c->d->anonymous_group) {
    return "Deleting the anonymous group is forbidden";
  }
  kick(c->d, o);
  object_delete(c->d, o);
  return NULL;
}

static const char *modify(struct call *c) {
  const char *bad = NULL;
  struct object *o = named(c, c->kind, &bad);
  if (o == NULL) {
    return bad;
  }
  u32 clients = json_member(c->j, c->node, "clients");
  for (u32 i = c->d->first[CLIENT]; c->kind == GROUP && clients != JSON_NONE && i != NONE;
       i = object_at(c->d, i)->next) {
    (void)link_remove(c->d, &object_at(c->d, i)->groups, object_index(c->d, o));
  }
  bad = fill(c, o);
  kick(c->d, o);
  return bad;
}

static const char *get(struct call *c) {
  const char *bad = NULL;
  const struct object *o = named(c, c->kind, &bad);
  if (o != NULL) {
    json_key(c->out, "data");
    json_open(c->out, '{');
    json_key(c->out, kind_names[c->kind]);
    show_object(c->d, o, SHOW_CONNECTIONS, c->out);
    json_close(c->out, '}');
  }
  return bad;
}

static const char *list(struct call *c) {
  static const char *const names[KINDS] = {"clients", "groups", "roles"};
  bool verbose = false;
  i64 count = -1;
  i64 offset = 0;
  (void)json_bool(c->j, json_member(c->j, c->node, "verbose"), &verbose);
  (void)json_int(c->j, json_member(c->j, c->node, "count"), -1, U32_MAX, &count);
  (void)json_int(c->j, json_member(c->j, c->node, "offset"), 0, U32_MAX, &offset);
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "totalCount", c->d->count[c->kind]);
  json_key(c->out, names[c->kind]);
  json_open(c->out, '[');
  i64 at = 0;
  for (u32 i = c->d->first[c->kind]; i != NONE; i = object_at(c->d, i)->next, at++) {
    if (at >= offset && (count < 0 || at < offset + count)) {
      show_object(c->d, object_at(c->d, i), verbose ? SHOW_FIELDS : SHOW_NAME, c->out);
    }
  }
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}

// --- lists: kind says whose; a role, or for groups a client

static const char *add_role(struct call *c) {
  const char *bad = NULL;
  i32 priority = 0;
  struct object *o = named(c, c->kind, &bad);
  struct object *role = o == NULL ? NULL : named(c, ROLE, &bad);
  if (role == NULL) {
    return bad;
  }
  if (!priority_member(c->j, c->node, &priority)) {
    return "Invalid priority";
  }
  u32 index = object_index(c->d, role);
  if (link_has(c->d, o->roles, index)) {
    return c->kind == CLIENT ? "Client is already in this role" : "Group is already in this role";
  }
  if (!link_add(c->d, &o->roles, index, priority)) {
    return no_room;
  }
  kick(c->d, o);
  return NULL;
}

static const char *remove_role(struct call *c) {
  const char *bad = NULL;
  struct object *o = named(c, c->kind, &bad);
  struct object *role = o == NULL ? NULL : named(c, ROLE, &bad);
  if (role == NULL) {
    return bad;
  }
  if (!link_remove(c->d, &o->roles, object_index(c->d, role))) {
    return c->kind == CLIENT ? "Client is not in this role" : "Group is not in this role";
  }
  kick(c->d, o);
  return NULL;
}

static const char *add_member(struct call *c) {
  const char *bad = NULL;
  i32 priority = 0;
  struct object *client = named(c, CLIENT, &bad);
  struct object *group = client == NULL ? NULL : named(c, GROUP, &bad);
  if (group == NULL) {
    return bad;
  }
  if (!priority_member(c->j, c->node, &priority)) {
    return "Invalid priority";
  }
  u32 index = object_index(c->d, group);
  if (link_has(c->d, client->groups, index)) {
    return "Client is already in this group";
  }
  if (!link_add(c->d, &client->groups, index, priority)) {
    return no_room;
  }
  kick_client(c->d, client);
  return NULL;
}

static const char *remove_member(struct call *c) {
  const char *bad = NULL;
  struct object *client = named(c, CLIENT, &bad);
  struct object *group = client == NULL ? NULL : named(c, GROUP, &bad);
  if (group == NULL) {
    return bad;
  }
  if (!link_remove(c->d, &client->groups, object_index(c->d, group))) {
    return "Client is not in this group";
  }
  kick_client(c->d, client);
  return NULL;
}

static const char *add_acl(struct call *c) {
  const char *bad = NULL;
  enum acl_type type = PUBLISH_SEND;
  struct bytes topic;
  bool allow = false;
  i32 priority = 0;
  struct object *role = named(c, ROLE, &bad);
  bad = role == NULL ? bad : fill_acl(c->j, c->node, &type, &topic, span_of(c->text, TEXT_MAX));
  if (bad != NULL) {
    return bad;
  }
  (void)json_bool(c->j, json_member(c->j, c->node, "allow"), &allow);
  if (!priority_member(c->j, c->node, &priority)) {
    return "Invalid priority";
  }
  if (rule_find(c->d, role, type, topic) != NULL) {
    return "ACL with this topic already exists";
  }
  if (!rule_add(c->d, role, type, topic, allow, priority == PRIORITY_NONE ? 0 : priority)) {
    return no_room;
  }
  kick(c->d, role);
  return NULL;
}

static const char *remove_acl(struct call *c) {
  const char *bad = NULL;
  enum acl_type type = PUBLISH_SEND;
  struct bytes topic;
  struct object *role = named(c, ROLE, &bad);
  bad = role == NULL ? bad : fill_acl(c->j, c->node, &type, &topic, span_of(c->text, TEXT_MAX));
  if (bad != NULL) {
    return bad;
  }
  u32 *at = rule_find(c->d, role, type, topic);
  if (at == NULL) {
    return "ACL not found";
  }
  rule_remove(c->d, at);
  kick(c->d, role);
  return NULL;
}

// --- commands of clients

static const char *set_client_password(struct call *c) {
  const char *bad = NULL;
  struct bytes password;
  struct object *o = named(c, CLIENT, &bad);
  if (o == NULL) {
    return bad;
  }
  if (!text_member(c->j, c->node, "password", span_of(c->text, sizeof c->text), &password) ||
      password.len == 0) {
    return "Invalid/missing password";
  }
  set_password(c->d, o, password);
  kick_client(c->d, o);
  return NULL;
}

static const char *set_client_id(struct call *c) {
  const char *bad = NULL;
  struct object *o = named(c, CLIENT, &bad);
  struct bytes id = bytes_of(c->text, 0);
  if (o == NULL) {
    return bad;
  }
  u32 m = json_member(c->j, c->node, "clientid");
  if (m != JSON_NONE && json_type(c->j, m) != JSON_NULL &&
      !json_string(c->j, m, span_of(c->text, sizeof c->text), &id)) {
    return "Invalid/missing client ID";
  }
  if (!object_set_text(c->d, o, CLIENTID, id)) {
    return no_room;
  }
  kick_client(c->d, o);
  return NULL;
}

static const char *enable(struct call *c, bool disabled) {
  const char *bad = NULL;
  struct object *o = named(c, CLIENT, &bad);
  if (o != NULL) {
    o->disabled = disabled;
    if (disabled) {
      kick_client(c->d, o);
    }
  }
  return bad;
}
static const char *enable_client(struct call *c) {
  return enable(c, false);
}
static const char *disable_client(struct call *c) {
  return enable(c, true);
}

// --- the whole

static const char *set_anonymous(struct call *c) {
  const char *bad = NULL;
  const struct object *g = named(c, GROUP, &bad);
  if (g != NULL) {
    c->d->anonymous_group = object_index(c->d, g);
    (void)broker_kick_user(c->d->b, false, bytes_of(NULL, 0), MQTT_ADMINISTRATIVE_ACTION);
  }
  return bad;
}

static const char *get_anonymous(struct call *c) {
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "group");
  json_open(c->out, '{');
  if (c->d->anonymous_group != NONE) {
    json_field_string(c->out, "groupname",
                      object_text(object_at(c->d, c->d->anonymous_group), NAME));
  }
  json_close(c->out, '}');
  json_close(c->out, '}');
  return NULL;
}

static const char *set_defaults(struct call *c) {
  u32 acls = json_member(c->j, c->node, "acls");
  return json_type(c->j, acls) == JSON_ARRAY ? fill_defaults(c->d, c->j, acls)
                                             : "Missing/invalid acls";
}

static const char *get_defaults(struct call *c) {
  json_key(c->out, "data");
  json_open(c->out, '{');
  show_defaults(c->d, c->out);
  json_close(c->out, '}');
  return NULL;
}

static const char *get_details(struct call *c) {
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "clientCount", c->d->count[CLIENT]);
  json_field_int(c->out, "groupCount", c->d->count[GROUP]);
  json_field_int(c->out, "roleCount", c->d->count[ROLE]);
  json_field_int(c->out, "changeIndex", (i64)c->d->changes);
  json_close(c->out, '}');
  return NULL;
}

static const struct {
  const char *name;
  const char *(*run)(struct call *c);
  enum kind kind;
  bool changes;
} commands[] = {
    {"setDefaultACLAccess", set_defaults, ROLE, true},
    {"getDefaultACLAccess", get_defaults, ROLE, false},
    {"getDetails", get_details, CLIENT, false},
    {"createClient", create, CLIENT, true},
    {"deleteClient", delete, CLIENT, true},
    {"getClient", get, CLIENT, false},
    {"listClients", list, CLIENT, false},
    {"modifyClient", modify, CLIENT, true},
    {"setClientPassword", set_client_password, CLIENT, true},
    {"setClientId", set_client_id, CLIENT, true},
    {"addClientRole", add_role, CLIENT, true},
    {"removeClientRole", remove_role, CLIENT, true},
    {"enableClient", enable_client, CLIENT, true},
    {"disableClient", disable_client, CLIENT, true},
    {"createGroup", create, GROUP, true},
    {"deleteGroup", delete, GROUP, true},
    {"getGroup", get, GROUP, false},
    {"listGroups", list, GROUP, false},
    {"modifyGroup", modify, GROUP, true},
    {"addGroupClient", add_member, GROUP, true},
    {"removeGroupClient", remove_member, GROUP, true},
    {"addGroupRole", add_role, GROUP, true},
    {"removeGroupRole", remove_role, GROUP, true},
    {"setAnonymousGroup", set_anonymous, GROUP, true},
    {"getAnonymousGroup", get_anonymous, GROUP, false},
    {"createRole", create, ROLE, true},
    {"deleteRole", delete, ROLE, true},
    {"getRole", get, ROLE, false},
    {"listRoles", list, ROLE, false},
    {"modifyRole", modify, ROLE, true},
    {"addRoleACL", add_acl, ROLE, true},
    {"removeRoleACL", remove_acl, ROLE, true},
};

static void run(struct call *c) {
  u8 text[64];
  struct bytes name;
  const char *bad = "Missing command";
  u32 correlation = json_member(c->j, c->node, "correlationData");
  json_open(c->out, '{');
  if (!text_member(c->j, c->node, "command", span_of(text, sizeof text), &name)) {
    name = BYTES_LIT("Unknown command");
  } else if (correlation != JSON_NONE && json_type(c->j, correlation) != JSON_STRING) {
    bad = "Invalid correlationData data type.";
    correlation = JSON_NONE;
  } else {
    bad = "Unknown command";
  }
  json_field_string(c->out, "command", name);
  for (u32 i = 0; i < ARRAY_COUNT(commands); i++) {
    if (bad[0] == 'U' && bytes_equal_nocase(name, commands[i].name)) {
      c->kind = commands[i].kind;
      bad = commands[i].run(c);
      if (commands[i].changes) {
        changed(c);
      }
      break;
    }
  }
  if (bad != NULL) {
    json_field_string(c->out, "error", bytes_str(bad));
  }
  if (correlation != JSON_NONE) {
    const struct json_node *n = &c->j->node[correlation];
    json_key(c->out, "correlationData");
    json_put_raw(c->out, bytes_sub(c->j->text, n->off - 1, n->len + 2));
  }
  json_close(c->out, '}');
}

static void failed(struct json_out *out, const char *error) {
  json_open(out, '{');
  json_field_string(out, "command", BYTES_LIT("Unknown command"));
  json_field_string(out, "error", bytes_str(error));
  json_close(out, '}');
}

static void begin(struct json_out *out, struct span room) {
  *out = json_out_init(room);
  json_open(out, '{');
  json_key(out, "responses");
  json_open(out, '[');
}

void dynsec_control(void *ctx, const struct access_who *who, struct bytes payload, u64 now_ns) {
  (void)who;  // the broker has asked whether he may publish here
  static struct call call;
  struct dynsec *d = ctx;
  struct json j;
  struct json_fault fault;
  struct json_out out;
  struct span room = span_of(d->reply, REPLY_MAX);
  begin(&out, room);
  enum err e = json_parse(payload, d->node, d->node_max, &j, &fault);
  u32 list_of = e == ERR_OK ? json_member(&j, 0, "commands") : JSON_NONE;
  if (e != ERR_OK) {
    failed(&out, e == ERR_LIMIT ? "Payload too large" : "Payload not valid JSON");
  } else if (json_type(&j, list_of) != JSON_ARRAY) {
    failed(&out, "Invalid/missing commands");
  }
  for (u32 i = json_first(&j, list_of); i != JSON_NONE; i = json_after(&j, list_of, i)) {
    if (json_type(&j, i) != JSON_OBJECT) {
      failed(&out, "Command not an object");
      continue;
    }
    call.d = d;
    call.j = &j;
    call.node = i;
    call.out = &out;
    run(&call);
  }
  json_close(&out, ']');
  json_close(&out, '}');
  if (out.w.err != ERR_OK) {  // the commands were done all the same
    begin(&out, room);
    failed(&out, "The answer is too long: ask with count and offset");
    json_close(&out, ']');
    json_close(&out, '}');
  }
  mem_wipe(call.text, sizeof call.text);
  (void)broker_publish(d->b, BYTES_LIT(DYNSEC_TOPIC "/response"), writer_bytes(&out.w), 0, false,
                       now_ns);
}
