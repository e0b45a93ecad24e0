// SPDX-License-Identifier: Apache-2.0
// Objects out of JSON: the same members in commands and in the plugin's file.
#include "broker/acl.h"
#include "dynsec/state.h"
#include "mqtt/topic.h"

#define TEXT_MAX 4096u
static const char no_room[] = "Out of memory";

bool text_member(const struct json *j, u32 node, const char *name, struct span buf,
                 struct bytes *out) {
  return json_string(j, json_member(j, node, name), buf, out);
}

bool priority_member(const struct json *j, u32 node, i32 *out) {
  u32 m = json_member(j, node, "priority");
  i64 v = PRIORITY_NONE;
  bool good = m == JSON_NONE || json_int(j, m, -PRIORITY_MAX, PRIORITY_MAX, &v);
  *out = (i32)v;
  return good;
}

// Adds the objects that the array names ([{"rolename":..., "priority":...}]) to a list.
static const char *fill_links(struct dynsec *d, const struct json *j, u32 array, enum kind kind,
                              u32 *list) {
  static const char *const missing[KINDS] = {"Client not found", "Group not found",
                                             "Role not found"};
  static u8 text[TEXT_MAX];
  for (u32 i = json_first(j, array); i != JSON_NONE; i = json_after(j, array, i)) {
    struct bytes name;
    i32 priority = 0;
    if (!text_member(j, i, name_fields[kind], span_of(text, sizeof text), &name) ||
        !priority_member(j, i, &priority)) {
      return kind == ROLE ? "Invalid/missing rolename" : "Invalid/missing groupname";
    }
    struct object *target = object_find(d, kind, name);
    if (target == NULL) {
      return missing[kind];
    }
    u32 index = object_index(d, target);
    if (!link_has(d, *list, index) && !link_add(d, list, index, priority)) {
      return no_room;
    }
  }
  return NULL;
}

const char *fill_roles(struct dynsec *d, const struct json *j, u32 array, u32 *list) {
  return fill_links(d, j, array, ROLE, list);
}

const char *fill_groups(struct dynsec *d, const struct json *j, u32 array, u32 *list) {
  return fill_links(d, j, array, GROUP, list);
}

// Members of a group: the link stands with the client.
const char *fill_clients(struct dynsec *d, const struct json *j, u32 array, struct object *group) {
  static u8 text[TEXT_MAX];
  for (u32 i = json_first(j, array); i != JSON_NONE; i = json_after(j, array, i)) {
    struct bytes name;
    i32 priority = 0;
    if (!text_member(j, i, "username", span_of(text, sizeof text), &name) ||
        !priority_member(j, i, &priority)) {
      return "Invalid/missing username";
    }
    struct object *client = object_find(d, CLIENT, name);
    if (client == NULL) {
      return "Client not found";
    }
    u32 index = object_index(d, group);
    if (!link_has(d, client->groups, index) && !link_add(d, &client->groups, index, priority)) {
      return no_room;
    }
  }
  return NULL;
}

const char *fill_acl(const struct json *j, u32 node, enum acl_type *type, struct bytes *topic,
                     struct span buf) {
  u32 t = 0;
  while (t < ACL_TYPES && !json_is(j, json_member(j, node, "acltype"), acl_type_names[t])) {
    t++;
  }
  if (t == ACL_TYPES) {
    return "Invalid/missing acltype";
  }
  if (!text_member(j, node, "topic", buf, topic) || !topic_filter_valid(*topic)) {
    return "Invalid/missing topic";
  }
  *type = (enum acl_type)t;
  return NULL;
}

const char *fill_acls(struct dynsec *d, const struct json *j, u32 array, struct object *role) {
  static u8 text[TEXT_MAX];
  for (u32 i = json_first(j, array); i != JSON_NONE; i = json_after(j, array, i)) {
    enum acl_type type = PUBLISH_SEND;
    struct bytes topic;
    bool allow = false;
    i64 priority = 0;
    const char *bad = fill_acl(j, i, &type, &topic, span_of(text, sizeof text));
    u32 p = json_member(j, i, "priority");
    if (bad != NULL) {
      return bad;
    }
    if (p != JSON_NONE && !json_int(j, p, -PRIORITY_MAX, PRIORITY_MAX, &priority)) {
      return "Invalid priority";
    }
    (void)json_bool(j, json_member(j, i, "allow"), &allow);
    if (rule_find(d, role, type, topic) == NULL &&
        !rule_add(d, role, type, topic, allow, (i32)priority)) {
      return no_room;
    }
  }
  return NULL;
}

// textname, textdescription and, of a client, clientid; absent ones stay.
const char *fill_texts(struct dynsec *d, const struct json *j, u32 node, struct object *o) {
  static const char *const names[FIELDS] = {NULL, "textname", "textdescription", "clientid"};
  static u8 text[TEXT_MAX];
  for (u32 f = TEXTNAME; f < FIELDS; f++) {
    struct bytes value;
    u32 m = json_member(j, node, names[f]);
    if (m == JSON_NONE || (f == CLIENTID && o->kind != CLIENT)) {
      continue;
    }
    if (json_type(j, m) == JSON_NULL) {
      value = bytes_of(text, 0);
    } else if (!json_string(j, m, span_of(text, sizeof text), &value)) {
      return f == CLIENTID   ? "Invalid/missing client id"
             : f == TEXTNAME ? "Invalid/missing textname"
                             : "Invalid/missing textdescription";
    }
    if (!object_set_text(d, o, (enum field)f, value)) {
      return no_room;
    }
  }
  return NULL;
}

// [{"acltype":"publishClientSend","allow":true}, ...]
const char *fill_defaults(struct dynsec *d, const struct json *j, u32 array) {
  for (u32 i = json_first(j, array); i != JSON_NONE; i = json_after(j, array, i)) {
    bool allow = false;
    u32 k = 0;
    while (k < DEFAULTS && !json_is(j, json_member(j, i, "acltype"), default_names[k])) {
      k++;
    }
    if (k < DEFAULTS && json_bool(j, json_member(j, i, "allow"), &allow)) {
      d->defaults[k] = allow;
    }
  }
  return NULL;
}
