// SPDX-License-Identifier: Apache-2.0
// Objects into JSON, shaped as the plugin's answers.
#include "dynsec/state.h"

static void show_links(const struct dynsec *d, u32 list, enum kind kind, const char *key,
                       struct json_out *out) {
  json_key(out, key);
  json_open(out, '[');
  for (; list != NONE; list = link_at(d, list)->next) {
    const struct link_to *l = link_at(d, list);
    json_open(out, '{');
    json_field_string(out, name_fields[kind], object_text(object_at(d, l->target), NAME));
    if (l->priority != PRIORITY_NONE) {
      json_field_int(out, "priority", l->priority);
    }
    json_close(out, '}');
  }
  json_close(out, ']');
}

static void show_members(const struct dynsec *d, const struct object *group, struct json_out *out) {
  u32 index = object_index(d, group);
  json_key(out, "clients");
  json_open(out, '[');
  for (u32 i = d->first[CLIENT]; i != NONE; i = object_at(d, i)->next) {
    const struct object *c = object_at(d, i);
    for (u32 l = c->groups; l != NONE; l = link_at(d, l)->next) {
      if (link_at(d, l)->target == index) {
        json_open(out, '{');
        json_field_string(out, "username", object_text(c, NAME));
        json_close(out, '}');
      }
    }
  }
  json_close(out, ']');
}

static void show_acls(const struct dynsec *d, const struct object *role, struct json_out *out) {
  json_key(out, "acls");
  json_open(out, '[');
  for (u32 t = 0; t < ACL_TYPES; t++) {
    for (u32 i = role->acls; i != NONE; i = rule_at(d, i)->next) {
      const struct acl_rule *r = rule_at(d, i);
      if (r->type != t) {
        continue;
      }
      json_open(out, '{');
      json_field_string(out, "acltype", bytes_str(acl_type_names[t]));
      json_field_string(out, "topic", bytes_of(r->topic, r->topic_len));
      json_field_int(out, "priority", r->priority);
      json_field_bool(out, "allow", r->allow);
      json_close(out, '}');
    }
  }
  json_close(out, ']');
}

static void show_text(const struct object *o, enum field f, const char *key, struct json_out *out) {
  if (o->len[f] > 0) {
    json_field_string(out, key, object_text(o, f));
  }
}

// Whoever is connected under the client's name (and its client id, when it has one).
static void show_connections(const struct dynsec *d, const struct object *client,
                             struct json_out *out) {
  struct bytes name = object_text(client, NAME);
  struct bytes id = object_text(client, CLIENTID);
  u64 cursor = 0;
  json_key(out, "connections");
  json_open(out, '[');
  for (const struct session *s = broker_next_session(d->b, &cursor); s != NULL;
       s = broker_next_session(d->b, &cursor)) {
    u8 text[64];
    bool has_name;
    struct writer w = writer_init(span_of(text, sizeof text));
    struct bytes username = session_username(s, &has_name);
    if (has_name && bytes_equal(username, name) &&
        (id.len == 0 || bytes_equal(session_client_id(s), id)) && d->address(s, &w)) {
      json_open(out, '{');
      json_field_string(out, "address", writer_bytes(&w));
      json_close(out, '}');
    }
  }
  json_close(out, ']');
}

void show_object(const struct dynsec *d, const struct object *o, enum show show,
                 struct json_out *out) {
  if (show == SHOW_NAME) {
    json_put_string(out, object_text(o, NAME));
    return;
  }
  json_open(out, '{');
  json_field_string(out, name_fields[o->kind], object_text(o, NAME));
  show_text(o, CLIENTID, "clientid", out);
  show_text(o, TEXTNAME, "textname", out);
  show_text(o, TEXTDESCRIPTION, "textdescription", out);
  if (o->kind == ROLE) {
    json_field_bool(out, "allowwildcardsubs", o->wildcard_subs);
    show_acls(d, o, out);
  } else {
    if (o->disabled) {
      json_field_bool(out, "disabled", true);
    }
    show_links(d, o->roles, ROLE, "roles", out);
  }
  if (o->kind == CLIENT) {
    show_links(d, o->groups, GROUP, "groups", out);
    if (show == SHOW_CONNECTIONS && d->address != NULL) {
      show_connections(d, o, out);
    }
  } else if (o->kind == GROUP) {
    show_members(d, o, out);
  }
  json_close(out, '}');
}

void show_defaults(const struct dynsec *d, struct json_out *out) {
  json_key(out, "acls");
  json_open(out, '[');
  for (u32 k = 0; k < DEFAULTS; k++) {
    json_open(out, '{');
    json_field_string(out, "acltype", bytes_str(default_names[k]));
    json_field_bool(out, "allow", d->defaults[k]);
    json_close(out, '}');
  }
  json_close(out, ']');
}
